// SPDX-License-Identifier: GPL-2.0
/* The path and file caches: limits hold, what is in use stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/flash/cache.h"
#include "tools/flash/mime.h"

static struct vhost vhost;
static struct stats stats;
static struct conf conf = {
	.path_cache = true, .header_cache = true, .map_cache = true, .header_align = true,
	.path_entries = 100, .memory_cache = 1 << 20, .open_files = 10, .memory_file = 65536,
};

static struct path *insert(struct cache *c, int i, size_t size)
{
	char name[32];
	struct slice s = { name, snprintf(name, sizeof(name), "/%d", i) };
	struct path *p = path_new(&vhost, &s, request_path_hash(name, s.len));
	struct file_id id = { .ino = i + 1 };
	char *body = calloc(1, size + 1);

	p->kind = PATH_FILE;
	p->files[0] = file_create_generated(&conf, &vhost, &id, "text/plain", body, size);
	file_insert(c, p->files[0]);
	path_insert(c, p, &stats);
	free(body);
	return p;
}

static struct path *find(struct cache *c, int i)
{
	char name[32];
	struct slice s = { name, snprintf(name, sizeof(name), "/%d", i) };

	return path_find(c, &vhost, &s, request_path_hash(name, s.len));
}

static void entries_are_limited_and_bytes_counted(void **state)
{
	struct cache *c = cache_new(&conf, false);
	int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		path_put(c, insert(c, i, 10));
		assert_true(c->nr_paths <= conf.path_entries);
	}
	assert_int_equal(c->nr_paths, conf.path_entries);
	for (i = 0; i < 1000; i++)
		path_put(c, insert(c, i, 60000));
	assert_true(c->bytes <= conf.memory_cache);
	assert_true(c->nr_paths >= 10);
	cache_free(c);
}

static void what_is_used_outlives_what_is_not(void **state)
{
	struct cache *c = cache_new(&conf, false);
	struct path *held, *p;
	int i;

	(void)state;
	held = insert(c, 0, 10);
	path_put(c, insert(c, 1, 10));
	path_put(c, insert(c, 2, 10));
	for (i = 3; i < 500; i++) {
		p = find(c, 1);		/* used all the time */
		assert_non_null(p);
		path_put(c, p);
		path_put(c, insert(c, i, 10));
	}
	p = find(c, 0);			/* held all the time */
	assert_ptr_equal(p, held);
	path_put(c, p);
	path_put(c, held);
	assert_null(find(c, 2));
	cache_free(c);
}

static void a_removed_entry_lives_while_it_is_held(void **state)
{
	struct cache *c = cache_new(&conf, false);
	struct path *p = insert(c, 7, 10);

	(void)state;
	path_remove(c, p);
	assert_null(find(c, 7));
	assert_memory_equal(p->name, "/7", 2);
	assert_int_equal(p->files[0]->id.size, 10);
	path_put(c, p);
	assert_int_equal(c->bytes, 0);
	cache_free(c);
}

static void a_file_is_found_only_in_the_same_state(void **state)
{
	struct cache *c = cache_new(&conf, false);
	struct path *p = insert(c, 1, 10);
	struct file_id id = { .ino = 2, .size = 10 };
	struct file *f;

	(void)state;
	f = file_find(c, &vhost, &id, p->files[0]->mime, ENC_IDENTITY, false);
	assert_ptr_equal(f, p->files[0]);
	file_put(c, f);
	id.mtime_ns = 1;
	assert_null(file_find(c, &vhost, &id, p->files[0]->mime, ENC_IDENTITY, false));
	path_put(c, p);
	cache_free(c);
}

/* Demand 27 of doc/paper.md, over many lengths of every variable field. */
static void headers_are_multiples_of_32(void **state)
{
	char out[HEADER_MAX], extra[64], type[64];
	int i;

	(void)state;
	for (i = 0; i < 60; i++) {
		struct file_id id = { .size = 1ull << i, .mtime_ns = 1ll << i };
		struct vhost v = { 0 };
		struct header_options opt = {
			.status = i % 3 ? 200 : 206, .length = 1ull << i, .align = true,
			.date = "Thu, 01 Jan 1970 00:00:00 GMT",
			.content_range = i % 3 ? NULL : "bytes 0-1/2",
		};
		struct conf own = conf;
		struct file *f;
		size_t n;

		v.headers_len = snprintf(extra, sizeof(extra), "X: %.*s\r\n", i, "aaaaaaaaaaaaaaaaa"
					 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
		if (v.headers_len >= sizeof(extra))
			v.headers_len = 0;
		v.headers = extra;
		snprintf(type, sizeof(type), "text/%.*s", i / 2 + 1,
			 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
		own.memory_file = 0;
		f = file_create(&own, &v, -1, &id, type, ENC_IDENTITY, i & 1);
		assert_non_null(f);
		assert_int_equal(f->head_len % 32, 0);
		assert_int_equal((uintptr_t)f->block % 32, 0);
		assert_memory_equal(f->block + HEADER_DATE - 6, "Date: ", 6);
		n = header_file(out, f, &opt);
		assert_int_equal(n % 32, 0);
		assert_memory_equal(out + n - 4, "\r\n\r\n", 4);
		file_destroy(f);
	}
}

static void types_come_from_the_extension(void **state)
{
	struct mime_map *map = mime_new();

	(void)state;
	assert_string_equal(mime_type(map, "/a.HTML"), "text/html");
	assert_string_equal(mime_type(map, "/a.b/c"), "application/octet-stream");
	assert_string_equal(mime_type(map, "/x.tar.gz"), "application/gzip");
	assert_string_equal(mime_type(map, "/x."), "application/octet-stream");
	mime_free(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_are_limited_and_bytes_counted),
		cmocka_unit_test(what_is_used_outlives_what_is_not),
		cmocka_unit_test(a_removed_entry_lives_while_it_is_held),
		cmocka_unit_test(a_file_is_found_only_in_the_same_state),
		cmocka_unit_test(headers_are_multiples_of_32),
		cmocka_unit_test(types_come_from_the_extension),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
