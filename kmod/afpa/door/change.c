// SPDX-License-Identifier: GPL-2.0
#include "change.h"
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "kmod/afpa/request.h"
#include "target.h"

static const char *const names[] = { "delete", "ban", "tag", "flush" };

/**
 * struct search - sites that are looked for
 */
struct search {
	const struct config *config;
	const struct afpa_site *only;
	uint16_t port;
	struct afpa_site *sites;
	int nr;
};

static bool is_named(const struct config *config, const struct afpa_site *site)
{
	unsigned int i;

	for (i = 0; i < config->nr_sites; i++)
		if (!memcmp(&config->sites[i], site, sizeof(*site)))
			return true;
	return !config->nr_sites;
}

static int keep(const struct afpa_next_site *next, void *arg)
{
	struct search *s = arg;

	if ((s->port && ntohs(next->site.port) != s->port) ||
	    (s->only && memcmp(s->only, &next->site, sizeof(*s->only))) ||
	    !is_named(s->config, &next->site) || address_is_of_site(&s->config->listen, &next->site))
		return 0;
	if (s->nr == SITES_MAX)
		return -E2BIG;
	s->sites[s->nr++] = next->site;
	return 0;
}

int sites_find(int dev, const struct config *config, uint16_t port, const struct afpa_site *only,
	       struct afpa_site sites[SITES_MAX])
{
	struct search search = { .config = config, .only = only, .port = port, .sites = sites };
	int err = afpa_site_each(dev, keep, &search);

	return err ? err : search.nr;
}

static int at_site(int dev, const struct afpa_site *site, const struct change *c, uint64_t *objects)
{
	int err;

	*objects = 0;
	switch (c->kind) {
	case CHANGE_DELETE:
		err = afpa_del(dev, site, c->host, c->text);
		*objects = !err;
		return err;
	case CHANGE_BAN:
		return afpa_ban(dev, site, *c->host ? c->host : NULL, c->text, objects);
	case CHANGE_TAG:
		return afpa_ban_tag(dev, site, c->text, objects);
	default:
		return afpa_flush(dev, site, objects);
	}
}

int change_make(int dev, const struct afpa_site *sites, unsigned int nr, const struct change *change,
		uint64_t *objects)
{
	int err, first = 0;
	unsigned int i;
	uint64_t n;

	*objects = 0;
	/* What fails at one site must not keep it at the others. */
	for (i = 0; i < nr; i++) {
		err = at_site(dev, &sites[i], change, &n);
		*objects += n;
		if (err && err != -ENOENT && !first)
			first = err;
	}
	return first;
}

json_t *change_pack(const struct change *c)
{
	return json_pack("{s:s, s:i, s:s, s:s}", "change", names[c->kind], "port", c->port, "host", c->host, "text",
			 c->text);
}

static const char *judge(const struct change *c)
{
	char text[AFPA_HOST_MAX + AFPA_PATH_MAX + 32], tags[AFPA_TAGS_MAX + 1] = "";
	struct target target;
	const char *why;

	if (c->kind == CHANGE_FLUSH)
		return *c->text || *c->host ? "a flush names an object" : NULL;
	if (c->kind == CHANGE_TAG) {
		why = strlen(c->text) > AFPA_TAGS_MAX ? "a tag is too long" : tags_take(tags, c->text);
		return why ? why : *c->host || !*c->text || strcmp(tags, c->text) || strchr(tags, ' ') ?
			"a tag is not one word" : NULL;
	}
	/* No host: of whatever one. */
	if (!*c->host && c->kind == CHANGE_DELETE)
		return "there is no host";
	snprintf(text, sizeof(text), "/v1/object/%s%s", *c->host ? c->host : "*", c->text);
	why = target_parse(text, &target);
	return why ? why : strcmp(target.path, c->text) || (*c->host && strcmp(target.host, c->host)) ?
		"the host has a port" : NULL;
}

const char *change_parse(json_t *json, struct change *change)
{
	const char *kind, *host, *text;
	int port;

	memset(change, 0, sizeof(*change));
	if (json_unpack(json, "{s:s, s:i, s:s, s:s}", "change", &kind, "port", &port, "host", &host, "text", &text))
		return "it is not a change";
	for (change->kind = CHANGE_DELETE; strcmp(kind, names[change->kind]); change->kind++)
		if (change->kind == CHANGE_FLUSH)
			return "there is no such change";
	if (port < 0 || port > 65535 || strlen(host) > AFPA_HOST_MAX || strlen(text) > AFPA_PATH_MAX)
		return "port, host or text is out of range";
	change->port = port;
	strcpy(change->host, host);
	strcpy(change->text, text);
	return judge(change);
}
