// SPDX-License-Identifier: GPL-2.0
/* Media types by file name extension: a built-in table, and a file that may add to it. */
#include "mime.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "textfile.h"

#define BUCKETS 1024
#define EXT_MAX 15
#define TYPE_MAX 127	/* response headers have a fixed size */

struct entry {
	struct entry *next;
	char *type;
	char ext[EXT_MAX + 1];
};

struct mime_map {
	struct entry *bucket[BUCKETS];
};

static const char *const builtin[][2] = {
	{ "html", "text/html" }, { "htm", "text/html" }, { "css", "text/css" },
	{ "js", "text/javascript" }, { "mjs", "text/javascript" }, { "txt", "text/plain" },
	{ "md", "text/markdown" }, { "csv", "text/csv" }, { "xml", "text/xml" },
	{ "json", "application/json" }, { "map", "application/json" },
	{ "webmanifest", "application/manifest+json" }, { "pdf", "application/pdf" },
	{ "wasm", "application/wasm" }, { "zip", "application/zip" },
	{ "gz", "application/gzip" }, { "tar", "application/x-tar" },
	{ "xz", "application/x-xz" }, { "zst", "application/zstd" },
	{ "bz2", "application/x-bzip2" }, { "rss", "application/rss+xml" },
	{ "atom", "application/atom+xml" }, { "gif", "image/gif" }, { "png", "image/png" },
	{ "jpg", "image/jpeg" }, { "jpeg", "image/jpeg" }, { "webp", "image/webp" },
	{ "avif", "image/avif" }, { "svg", "image/svg+xml" },
	{ "ico", "image/vnd.microsoft.icon" }, { "bmp", "image/bmp" }, { "mp3", "audio/mpeg" },
	{ "ogg", "audio/ogg" }, { "oga", "audio/ogg" }, { "opus", "audio/ogg" },
	{ "wav", "audio/wav" }, { "flac", "audio/flac" }, { "m4a", "audio/mp4" },
	{ "mp4", "video/mp4" }, { "webm", "video/webm" }, { "ogv", "video/ogg" },
	{ "mov", "video/quicktime" }, { "ttf", "font/ttf" }, { "otf", "font/otf" },
	{ "woff", "font/woff" }, { "woff2", "font/woff2" }, { "ps", "application/postscript" },
};

static unsigned int hash(const char *ext)
{
	uint32_t h = 2166136261u;

	for (; *ext; ext++)
		h = (h ^ (uint8_t)*ext) * 16777619u;
	return h % BUCKETS;
}

static int add(struct mime_map *map, const char *ext, const char *type)
{
	struct entry *e;
	char lower[EXT_MAX + 1];
	size_t i;

	if (!*ext || strlen(ext) > EXT_MAX)
		return 0;
	for (i = 0; ext[i]; i++)
		lower[i] = tolower((unsigned char)ext[i]);
	lower[i] = '\0';
	e = calloc(1, sizeof(*e));
	if (!e)
		return -1;
	memcpy(e->ext, lower, i + 1);
	e->type = strdup(type);
	if (!e->type) {
		free(e);
		return -1;
	}
	e->next = map->bucket[hash(lower)];
	map->bucket[hash(lower)] = e;
	return 0;
}

struct mime_map *mime_new(void)
{
	struct mime_map *map = calloc(1, sizeof(*map));
	size_t i;

	for (i = 0; map && i < sizeof(builtin) / sizeof(builtin[0]); i++) {
		if (add(map, builtin[i][0], builtin[i][1])) {
			mime_free(map);
			return NULL;
		}
	}
	return map;
}

static int type_is_valid(const char *type)
{
	const char *p;

	for (p = type; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return 0;
	return strchr(type, '/') && p - type <= TYPE_MAX;
}

int mime_load(struct mime_map *map, const char *path, const char **why)
{
	FILE *f = textfile_open(path, why);
	char *line = NULL, *save, *type, *ext;
	size_t cap = 0;
	int err = 0, got = 0;

	if (!f)
		return -1;
	while (!err && (got = textfile_line(f, &line, &cap, why)) > 0) {
		line[strcspn(line, "#;\r\n")] = '\0';
		type = strtok_r(line, " \t", &save);
		if (!type || !type_is_valid(type))
			continue;
		while (!err && (ext = strtok_r(NULL, " \t", &save)))
			err = add(map, ext, type);
	}
	if (err)
		*why = strerror(ENOMEM);
	free(line);
	fclose(f);
	return err ? err : got;
}

void mime_free(struct mime_map *map)
{
	struct entry *e;
	int i;

	for (i = 0; map && i < BUCKETS; i++) {
		while ((e = map->bucket[i])) {
			map->bucket[i] = e->next;
			free(e->type);
			free(e);
		}
	}
	free(map);
}

const char *mime_type(const struct mime_map *map, const char *name)
{
	const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
	const struct entry *e;
	char ext[EXT_MAX + 1];
	size_t i;

	if (!dot || !dot[1] || strlen(dot + 1) > EXT_MAX)
		return "application/octet-stream";
	for (i = 0; dot[1 + i]; i++)
		ext[i] = tolower((unsigned char)dot[1 + i]);
	ext[i] = '\0';
	for (e = map->bucket[hash(ext)]; e; e = e->next)
		if (!strcmp(e->ext, ext))
			return e->type;
	return "application/octet-stream";
}
