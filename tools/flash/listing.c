// SPDX-License-Identifier: GPL-2.0
/* Directory listings: a page per directory, made by a helper, kept like a file. */
#include "listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target.h"
#include "tools/base/html.h"

#define MOST 10000

struct item {
	char *name;
	bool dir;
	int64_t size;
	time_t mtime;
};

static int by_name(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->dir != y->dir)
		return x->dir ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void put_item(FILE *out, const struct item *item)
{
	char link[3 * NAME_MAX + 1], date[32] = "";
	struct tm tm;

	target_encode(item->name, link);
	if (gmtime_r(&item->mtime, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &tm);
	/* "./" so that a name with a colon is not taken for a scheme. */
	fprintf(out, "<tr><td><a href=\"./%s%s\">", link, item->dir ? "/" : "");
	html_put(out, item->name);
	fprintf(out, "%s</a></td><td>%s</td>", item->dir ? "/" : "", date);
	if (item->dir)
		fputs("<td></td></tr>\n", out);
	else
		fprintf(out, "<td>%lld</td></tr>\n", (long long)item->size);
}

static int collect(DIR *dir, struct item **items, size_t *n)
{
	struct dirent *e;
	struct stat st;
	size_t cap = 0;

	while (*n < MOST && (e = readdir(dir))) {
		if (e->d_name[0] == '.' || fstatat(dirfd(dir), e->d_name, &st, 0))
			continue;
		if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
			continue;
		if (*n == cap) {
			struct item *grown = realloc(*items, (cap + 64) * sizeof(**items));

			if (!grown)
				return -ENOMEM;
			*items = grown;
			cap += 64;
		}
		(*items)[*n].name = strdup(e->d_name);
		if (!(*items)[*n].name)
			return -ENOMEM;
		(*items)[*n].dir = S_ISDIR(st.st_mode);
		(*items)[*n].size = st.st_size;
		(*items)[*n].mtime = st.st_mtim.tv_sec;
		(*n)++;
	}
	return 0;
}

static void put_page(FILE *out, const char *name, struct item *items, size_t n)
{
	size_t i;

	fputs("<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>Index of ", out);
	html_put(out, name);
	fputs("</title></head>\n<body><h1>Index of ", out);
	html_put(out, name);
	fputs("</h1>\n<table>\n", out);
	if (strcmp(name, "/"))
		fputs("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n", out);
	qsort(items, n, sizeof(*items), by_name);
	for (i = 0; i < n; i++)
		put_item(out, &items[i]);
	fputs("</table></body></html>\n", out);
}

int listing_create(const struct conf *conf, const struct vhost *vhost, int fd, const char *name,
		   struct file **out)
{
	struct item *items = NULL;
	size_t n = 0, len = 0;
	struct file_id id;
	struct stat st;
	char *page = NULL;
	FILE *mem;
	DIR *dir;
	int err;

	fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir || fstat(fd, &st)) {
		err = -errno;
		goto out;
	}
	err = collect(dir, &items, &n);
	mem = err ? NULL : open_memstream(&page, &len);
	if (!mem) {
		err = err ? err : -errno;
		goto out;
	}
	put_page(mem, name, items, n);
	if (fclose(mem)) {
		err = -ENOMEM;
		goto out;
	}
	file_identify(&id, &st);
	*out = file_create_generated(conf, vhost, &id, "text/html; charset=utf-8", page, len);
	err = *out ? 0 : -ENOMEM;
out:
	while (n)
		free(items[--n].name);
	free(items);
	free(page);
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
	return err;
}
