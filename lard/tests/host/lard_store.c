// SPDX-License-Identifier: GPL-2.0
/* The table of lardd's cache: who chooses keys does not choose their buckets; clocks of several workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lard/cache.c"
#include "lard/url.h"

#define MANY	50000
#define CHOSEN	2000	/* keys that an FNV hash has in one bucket of 4096 */

static void the_hash_is_what_its_authors_say(void **state)
{
	/* By a reference in Python that gives the paper's vector for SipHash-2-4. */
	static const struct {
		size_t len;
		uint64_t hash;
	} known[] = {
		{ 0, 0xabac0158050fc4dcULL },
		{ 1, 0xc9f49bf37d57ca93ULL },
		{ 7, 0xd3927d989bb11140ULL },
		{ 8, 0x369095118d299a8eULL },
		{ 15, 0xd320d86d2a519956ULL },
		{ 63, 0x9d199062b7bbb3a8ULL },
	};
	struct siphash_key key;
	unsigned char text[64];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(text); i++)
		text[i] = i;
	memcpy(&key, text, sizeof(key));
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_int_equal(siphash(&key, text, known[i].len), known[i].hash);
}

static struct span name(char text[32], unsigned int number)
{
	return (struct span){ text, snprintf(text, 32, "http80 h /page%u", number) };
}

static void keep(struct cache *cache, struct span key, uint64_t born_us)
{
	struct entry *entry = cache_reserve(cache, key, (struct span){ "", 0 }, 1, cache_since(cache, key));

	assert_non_null(entry);
	entry->born_us = born_us;
	entry->fresh_us = entry->stale_us = entry->if_error_us = entry->keep_us = 1000000;
	entry->have = entry->length;
	assert_true(cache_store(cache, entry));
	cache_end_fill(cache, entry);
}

static size_t longest_chain(const struct cache *cache)
{
	size_t longest = 0, i;

	for (i = 0; i <= cache->mask; i++) {
		const struct entry *entry;
		size_t len = 0;

		for (entry = cache->buckets[i]; entry; entry = entry->same)
			len++;
		if (len > longest)
			longest = len;
	}
	return longest;
}

static bool is_there(struct cache *cache, struct span key, uint64_t now_us)
{
	struct entry *entry = cache_find(cache, key, now_us);

	if (entry)
		cache_put(cache, entry);
	return entry;
}

static void chosen_keys_do_not_meet_in_one_bucket(void **state)
{
	struct cache *cache = cache_new(1 << 30), *other = cache_new(1 << 30);
	unsigned int number, found = 0;
	char text[32];

	(void)state;
	for (number = 0; found < CHOSEN; number++) {
		struct span key = name(text, number);

		if (url_key(key.at, key.len) % 4096)
			continue;
		keep(cache, key, 0);
		found++;
	}
	assert_in_range(longest_chain(cache), 1, 16);
	/* Nor does who knows one process know the next. */
	assert_int_not_equal(cache_hash(cache, name(text, 1)), cache_hash(other, name(text, 1)));
	cache_free(cache);
	cache_free(other);
}

static void it_grows_with_what_is_in_it(void **state)
{
	struct cache *cache = cache_new(1 << 30);
	unsigned int i;
	char text[32];

	(void)state;
	for (i = 0; i < MANY; i++)
		keep(cache, name(text, i), 0);
	assert_in_range(longest_chain(cache), 1, 16);
	for (i = 0; i < MANY; i += 2)
		cache_remove(cache, name(text, i));
	for (i = 0; i < MANY; i++)
		assert_int_equal(is_there(cache, name(text, i), 1), i % 2);
	assert_int_equal(cache->entries, MANY / 2);
	cache_free(cache);
}

static void what_a_worker_with_a_later_clock_has_stored_is_new(void **state)
{
	struct cache *cache = cache_new(1 << 20);
	struct entry *entry;
	char text[32];

	(void)state;
	keep(cache, name(text, 1), 5000);
	entry = cache_find(cache, name(text, 1), 4999);
	assert_non_null(entry);
	assert_true(entry_is_fresh(entry, 4999));
	assert_int_equal(entry_age(entry, 4999), 0);
	assert_int_equal(entry_age(entry, 5001), 1);
	cache_put(cache, entry);
	/* Of one whose age reaches back beyond the clock's beginning. */
	keep(cache, name(text, 2), (uint64_t)-600000);
	assert_true(is_there(cache, name(text, 2), 399999));
	assert_false(is_there(cache, name(text, 2), 400000));
	cache_free(cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hash_is_what_its_authors_say),
		cmocka_unit_test(chosen_keys_do_not_meet_in_one_bucket),
		cmocka_unit_test(it_grows_with_what_is_in_it),
		cmocka_unit_test(what_a_worker_with_a_later_clock_has_stored_is_new),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
