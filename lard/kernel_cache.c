// SPDX-License-Identifier: GPL-2.0
/* lardd as a program that fills afpa.ko: requests and objects. */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "cache.h"
#include "cacheable.h"
#include "kernel_sites.h"
#include "request.h"
#include "worker.h"

/* The host without its port, which must be the listener's: another authority is not ours to answer. */
static size_t name_length(struct span host, uint16_t port)
{
	const char *colon = host.len ? memrchr(host.at, ':', host.len) : NULL;
	char text[8];

	if (!colon || memchr(colon, ']', host.at + host.len - colon))
		return host.len;
	snprintf(text, sizeof(text), ":%u", port);
	return span_is((struct span){ colon, host.at + host.len - colon }, text) ? colon - host.at : 0;
}

bool kernel_name_make(struct kernel_cache *kc, struct kernel_name *name, const struct request *r,
		      uint8_t site, uint16_t port)
{
	struct span host = r->host, path = request_origin_form(r, &host);
	size_t len = name_length(host, port), i;

	*name = (struct kernel_name){ .site = site };
	if (!len || len > AFPA_HOST_MAX || !path.len || path.len > AFPA_PATH_MAX || *path.at != '/')
		return false;
	for (i = 0; i < kc->count && !kernel_site_is_on(kc, i); i++)
		;
	if (i == kc->count)
		return false;
	name->host = malloc(len + path.len + 2);
	if (!name->host)
		return false;
	memcpy(name->host, host.at, len);
	name->host[len] = '\0';
	memcpy(name->host + len + 1, path.at, path.len);
	name->host[len + 1 + path.len] = '\0';
	name->path = name->host + len + 1;
	return true;
}

void kernel_name_free(struct kernel_name *name)
{
	free(name->host);
	name->host = NULL;
}

/* Back-ends may spell it as they are asked, and the kernel knows one of all spellings: who asks oddly makes none. */
static bool is_usual(const char *host)
{
	for (; *host; host++)
		if (*host >= 'A' && *host <= 'Z')
			return false;
	return true;
}

void kernel_cache_ticket(struct kernel_cache *kc, struct kernel_name *name)
{
	if (!name->host || !kernel_site_is_on(kc, name->site) || !is_usual(name->host))
		return;
	pthread_rwlock_rdlock(&kc->lock);
	if (afpa_ticket(kc->device, &name->ticket))
		name->ticket = 0;
	pthread_rwlock_unlock(&kc->lock);
}

/* Header lines without those that the kernel writes itself, and the type. False: they are not for it. */
static bool split_fields(struct span fields, char headers[AFPA_HEADERS_MAX + 1],
			 char type[AFPA_TYPE_MAX + 1])
{
	const char *at = fields.at, *end = at + fields.len;
	size_t len = 0;

	*type = '\0';
	while (at < end) {
		const char *line = at, *colon = memchr(at, ':', end - at);
		struct span name, value;

		at = (const char *)memchr(line, '\n', end - line) + 1;
		name = (struct span){ line, colon - line };
		value = span_trim((struct span){ colon + 1, at - 2 - colon - 1 });
		if (span_is(name, "date"))
			continue;
		if (span_is(name, "content-type")) {
			if (*type || value.len > AFPA_TYPE_MAX)
				return false;
			memcpy(type, value.at, value.len);
			type[value.len] = '\0';
			continue;
		}
		if (len + (at - line) > AFPA_HEADERS_MAX)
			return false;
		memcpy(headers + len, line, at - line);
		len += at - line;
	}
	headers[len] = '\0';
	return true;
}

/* Words of @value behind those of @tags. False: there is no room, and a ban would miss it. */
static bool add_tags(char tags[AFPA_TAGS_MAX + 1], size_t *len, struct span value)
{
	size_t at = 0;

	while (at < value.len) {
		size_t start;

		while (at < value.len && strchr(XKEY_BREAKS, value.at[at]))
			at++;
		start = at;
		while (at < value.len && !strchr(XKEY_BREAKS, value.at[at]))
			at++;
		if (at == start)
			break;
		if (*len + 1 + at - start > AFPA_TAGS_MAX)
			return false;
		*len += sprintf(tags + *len, " %.*s", (int)(at - start), value.at + start);
	}
	return true;
}

/* Ours, and what the back-end says in xkey. */
static bool collect_tags(struct span fields, char tags[AFPA_TAGS_MAX + 1])
{
	const char *at = fields.at, *end = at + fields.len;
	size_t len = sprintf(tags, KERNEL_TAG);

	while (at < end) {
		const char *line = at, *colon = memchr(at, ':', end - at);

		at = (const char *)memchr(line, '\n', end - line) + 1;
		if (span_is((struct span){ line, colon - line }, "xkey") &&
		    !add_tags(tags, &len, (struct span){ colon + 1, at - 2 - colon - 1 }))
			return false;
	}
	return true;
}

static bool is_sibling(struct kernel_cache *kc, unsigned int other, uint8_t site)
{
	return kernel_site_is_on(kc, other) && kc->sites[other].name.port == kc->sites[site].name.port;
}

/* Under the lock. */
static int put(struct kernel_cache *kc, const struct kernel_name *name, struct entry *entry,
	       const struct afpa_object *object)
{
	unsigned int i, n = 0;
	int err = 0;

	for (i = 0; i < kc->count && n < KERNEL_COPIES; i++) {
		uint64_t version;

		if (!is_sibling(kc, i, name->site))
			continue;
		err = afpa_put(kc->device, &kc->sites[i].name, name->host, name->path, object, &version);
		if (err)
			break;
		entry->copies[n++] = (struct kernel_copy){ version, i };
	}
	if (!n && !err)
		err = -ENODEV;
	/* What was said since then was said of all of them. */
	while (err && n--) {
		afpa_del(kc->device, &kc->sites[entry->copies[n].site].name, name->host, name->path);
		entry->copies[n].version = 0;
	}
	return err;
}

static void note_failure(struct worker *w, struct kernel_cache *kc, const struct kernel_name *name,
			 int err)
{
	char quoted[512];
	uint64_t bit = 1ULL << -err % 64;

	count(w, err == -ESTALE ? COUNTER_KERNEL_STALE : COUNTER_KERNEL_FAILED);
	if (err == -ESTALE || atomic_fetch_or(&kc->told, bit) & bit)
		return;
	log_warn("cache-kernel", "path=%s why=\"%s\" text=\"the kernel did not take it; the next of this kind is counted only\"",
		 log_quote(name->path, strlen(name->path), quoted, sizeof(quoted)), strerror(-err));
}

int kernel_cache_put(struct worker *w, const struct kernel_name *name, struct entry *entry,
		     uint64_t now_us)
{
	struct kernel_cache *kc = w->lardd->kernel;
	uint64_t age = entry_age(entry, now_us);
	char headers[AFPA_HEADERS_MAX + 1], type[AFPA_TYPE_MAX + 1], tags[AFPA_TAGS_MAX + 1];
	struct afpa_object object = {
		.type = type, .headers = headers, .body = entry->body, .body_len = entry->length,
		.flags = AFPA_PUT_AUTOMATIC | AFPA_PUT_AGED, .tags = tags, .since = name->ticket,
		.age = age / 1000000 < AFPA_AGE_MAX ? age / 1000000 : AFPA_AGE_MAX,
	};
	uint64_t left = age < entry->fresh_us ? (entry->fresh_us - age) / 1000 : 0;
	int err;

	if (!left)
		return -ETIME;
	if (!collect_tags(entry->fields, tags) || !split_fields(entry->fields, headers, type)) {
		err = -EMSGSIZE;
	} else {
		object.ttl_ms = left < UINT32_MAX ? left : UINT32_MAX;
		pthread_rwlock_rdlock(&kc->lock);
		err = put(kc, name, entry, &object);
		pthread_rwlock_unlock(&kc->lock);
	}
	if (err)
		note_failure(w, kc, name, err);
	else
		count(w, COUNTER_KERNEL_STORED);
	return err;
}

/* What is not there cannot be updated, and that is said only if nothing else was of its page since. */
static bool was_left_alone(struct kernel_cache *kc, const struct site *site, const struct kernel_name *name,
			   uint64_t version)
{
	const struct afpa_object nothing = { .since = version };

	return afpa_update(kc->device, &site->name, name->host, name->path, &nothing, NULL) == -ENOENT;
}

bool kernel_cache_holds(struct kernel_cache *kc, const struct kernel_name *name,
			const struct entry *entry, uint64_t now_us)
{
	bool stale = !entry_is_fresh(entry, now_us), there = true;
	unsigned int n;

	if (!entry->copies[0].version)
		return true;
	pthread_rwlock_rdlock(&kc->lock);
	for (n = 0; n < KERNEL_COPIES && entry->copies[n].version && there; n++) {
		const struct site *site = &kc->sites[entry->copies[n].site];
		struct afpa_key key;

		there = name->host && site->on && kc->device >= 0;
		if (there && !afpa_query(kc->device, &site->name, name->host, name->path, &key))
			there = key.version == entry->copies[n].version;
		else if (there)
			there = stale && was_left_alone(kc, site, name, entry->copies[n].version);
	}
	pthread_rwlock_unlock(&kc->lock);
	return there;
}

void kernel_cache_clear(struct kernel_cache *kc, const char *tag, const char *host, const char *path)
{
	unsigned int i;

	pthread_rwlock_rdlock(&kc->lock);
	for (i = 0; i < kc->count; i++) {
		if (!kernel_site_is_on(kc, i))
			continue;
		if (tag)
			afpa_ban_tag(kc->device, &kc->sites[i].name, tag, NULL);
		else
			afpa_del(kc->device, &kc->sites[i].name, host, path);
	}
	pthread_rwlock_unlock(&kc->lock);
}

void kernel_cache_forget(struct kernel_cache *kc, const struct kernel_name *name)
{
	if (name->host)
		kernel_cache_clear(kc, NULL, name->host, name->path);
}

bool kernel_cache_spoke(int fd, uint64_t *silent_us)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) || !info.tcpi_bytes_sent)
		return false;
	*silent_us = info.tcpi_last_data_sent * 1000ULL;
	return true;
}
