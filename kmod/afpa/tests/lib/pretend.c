// SPDX-License-Identifier: GPL-2.0
/*
 * In place of /dev/afpa, for tests of the door on machines without the module: sites are named in AFPAD_SITES, objects
 * are kept by one process, and end with it.
 */
#include <afpa.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OBJECTS_MAX	4096

/* The linker's --wrap gives the door these in place of libafpa's. */
#define WRAPPED(name) __wrap_afpa_##name

static struct object {
	struct afpa_site site;
	char host[AFPA_HOST_MAX + 1], path[AFPA_PATH_MAX + 1], tags[AFPA_TAGS_MAX + 2];
	uint64_t version, bytes;
	uint32_t ttl_ms, flags;
} *objects;
static unsigned int nr;
static uint64_t clock_now = 1, everything;

/* When a key was last spoken of; never forgotten. */
static struct said {
	char key[AFPA_SITE_TEXT + AFPA_HOST_MAX + AFPA_PATH_MAX + 3];
	uint64_t when;
} *said;
static unsigned int nr_said;

static uint64_t *spoken_of(const struct afpa_site *site, const char *host, const char *path)
{
	char key[sizeof(said->key)], name[AFPA_SITE_TEXT];
	unsigned int i;

	snprintf(key, sizeof(key), "%s %s %s", afpa_site_name(site, name), host, path);
	for (i = 0; i < nr_said; i++)
		if (!strcmp(said[i].key, key))
			return &said[i].when;
	if (nr_said == OBJECTS_MAX)
		abort();
	strcpy(said[nr_said].key, key);
	return &said[nr_said++].when;
}

static struct object *find(const struct afpa_site *site, const char *host, const char *path)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (!memcmp(&objects[i].site, site, sizeof(*site)) && !strcasecmp(objects[i].host, host) &&
		    !strcmp(objects[i].path, path))
			return &objects[i];
	return NULL;
}

static void drop(struct object *object)
{
	*object = objects[--nr];
}

int WRAPPED(open)(void);
int WRAPPED(open)(void)
{
	objects = calloc(OBJECTS_MAX, sizeof(*objects));
	said = calloc(OBJECTS_MAX, sizeof(*said));
	return open("/dev/null", O_RDWR | O_CLOEXEC);
}

int WRAPPED(info)(int dev, struct afpa_info *info);
int WRAPPED(info)(int dev, struct afpa_info *info)
{
	(void)dev;
	*info = (struct afpa_info){ .mode = AFPA_MODE_SOFTIRQ, .max_object = 16 << 20, .objects = nr };
	return 0;
}

int WRAPPED(site_each)(int dev, afpa_site_fn fn, void *arg);
int WRAPPED(site_each)(int dev, afpa_site_fn fn, void *arg)
{
	char text[4096], *at = text, *word;
	struct afpa_next_site next = { 0 };
	int ret = 0;

	(void)dev;
	snprintf(text, sizeof(text), "%s", getenv("AFPAD_SITES") ?: "0.0.0.0:80");
	while (!ret && (word = strsep(&at, " ")))
		if (!afpa_site_parse(&next.site, word))
			ret = fn(&next, arg);
	return ret;
}

static int put(const struct afpa_site *site, const char *host, const char *path, const struct afpa_object *object,
	       uint64_t *version, bool update)
{
	struct object *o = find(site, host, path);
	uint64_t *when = spoken_of(site, host, path);

	if (object->since && (everything > object->since || *when > object->since))
		return -ESTALE;
	if (!o && update)
		return -ENOENT;
	if (!o && nr == OBJECTS_MAX)
		return -ENOSPC;
	o = o ? o : &objects[nr++];
	*o = (struct object){ .site = *site, .version = ++clock_now, .bytes = object->body_len, .ttl_ms = object->ttl_ms,
			      .flags = object->flags };
	strcpy(o->host, host);
	strcpy(o->path, path);
	snprintf(o->tags, sizeof(o->tags), " %s ", object->tags ? object->tags : "");
	*version = *when = clock_now;
	return 0;
}

int WRAPPED(put)(int dev, const struct afpa_site *site, const char *host, const char *path,
		 const struct afpa_object *object, uint64_t *version);
int WRAPPED(put)(int dev, const struct afpa_site *site, const char *host, const char *path,
		 const struct afpa_object *object, uint64_t *version)
{
	(void)dev;
	return put(site, host, path, object, version, false);
}

int WRAPPED(update)(int dev, const struct afpa_site *site, const char *host, const char *path,
		    const struct afpa_object *object, uint64_t *version);
int WRAPPED(update)(int dev, const struct afpa_site *site, const char *host, const char *path,
		    const struct afpa_object *object, uint64_t *version)
{
	(void)dev;
	return put(site, host, path, object, version, true);
}

int WRAPPED(del)(int dev, const struct afpa_site *site, const char *host, const char *path);
int WRAPPED(del)(int dev, const struct afpa_site *site, const char *host, const char *path)
{
	struct object *o = find(site, host, path);

	(void)dev;
	*spoken_of(site, host, path) = ++clock_now;
	if (!o)
		return -ENOENT;
	drop(o);
	return 0;
}

int WRAPPED(query)(int dev, const struct afpa_site *site, const char *host, const char *path, struct afpa_key *key);
int WRAPPED(query)(int dev, const struct afpa_site *site, const char *host, const char *path, struct afpa_key *key)
{
	struct object *o = find(site, host, path);

	(void)dev;
	if (!o)
		return -ENOENT;
	*key = (struct afpa_key){ .version = o->version, .body_len = o->bytes, .left_ms = o->ttl_ms, .flags = o->flags };
	return 0;
}

int WRAPPED(ttl)(int dev, const struct afpa_site *site, const char *host, const char *path, uint32_t ttl_ms);
int WRAPPED(ttl)(int dev, const struct afpa_site *site, const char *host, const char *path, uint32_t ttl_ms)
{
	struct object *o = find(site, host, path);

	(void)dev;
	if (!o)
		return -ENOENT;
	o->ttl_ms = ttl_ms;
	return 0;
}

static int drop_if(const struct afpa_site *site, const char *host, const char *prefix, const char *tag,
		   uint64_t *dropped)
{
	char word[AFPA_TAGS_MAX + 3];
	unsigned int i = 0;

	snprintf(word, sizeof(word), " %s ", tag ? tag : "");
	*dropped = 0;
	everything = ++clock_now;
	while (i < nr) {
		struct object *o = &objects[i];

		if ((site && memcmp(&o->site, site, sizeof(*site))) || (host && strcasecmp(o->host, host)) ||
		    (prefix && strncmp(o->path, prefix, strlen(prefix))) || (tag && !strstr(o->tags, word))) {
			i++;
			continue;
		}
		drop(o);
		++*dropped;
	}
	return 0;
}

int WRAPPED(flush)(int dev, const struct afpa_site *site, uint64_t *dropped);
int WRAPPED(flush)(int dev, const struct afpa_site *site, uint64_t *dropped)
{
	(void)dev;
	return drop_if(site, NULL, NULL, NULL, dropped);
}

int WRAPPED(ban)(int dev, const struct afpa_site *site, const char *host, const char *prefix, uint64_t *dropped);
int WRAPPED(ban)(int dev, const struct afpa_site *site, const char *host, const char *prefix, uint64_t *dropped)
{
	(void)dev;
	return drop_if(site, host, prefix, NULL, dropped);
}

int WRAPPED(ban_tag)(int dev, const struct afpa_site *site, const char *tag, uint64_t *dropped);
int WRAPPED(ban_tag)(int dev, const struct afpa_site *site, const char *tag, uint64_t *dropped)
{
	(void)dev;
	return drop_if(site, NULL, NULL, tag, dropped);
}

int WRAPPED(ticket)(int dev, uint64_t *ticket);
int WRAPPED(ticket)(int dev, uint64_t *ticket)
{
	(void)dev;
	*ticket = clock_now;
	return 0;
}
