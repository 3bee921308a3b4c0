// SPDX-License-Identifier: GPL-2.0
/* timeout: 300 */
/* The simulator's parts: caches, costs, shared reads, traces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lard/sim/cluster.h"
#include "lard/sim/gen.h"

static struct sim_params params(unsigned int nodes, enum lard_policy policy)
{
	struct sim_params p = {
		.policy = LARD_PARAMS_DEFAULT, .nodes = nodes, .disks = 1,
		.cache_bytes = 32 << 20, .cpu_speed = 1, .costs = SIM_COSTS_DEFAULT, .seed = 1,
	};

	p.policy.policy = policy;
	return p;
}

static void simulate(const struct trace *t, const struct sim_params *p, struct sim_result *r)
{
	const char *why = NULL;

	if (sim_run(t, p, r, &why))
		fail_msg("%s", why);
}

/* @requests for the targets in turn, each of @size bytes. */
static void cyclic(struct trace *t, uint32_t targets, uint64_t requests, uint32_t size)
{
	assert_int_equal(trace_alloc(t, targets, requests), 0);
	for (uint32_t i = 0; i < targets; i++)
		t->size[i] = size;
	for (uint64_t i = 0; i < requests; i++)
		t->token[i] = i % targets;
}

static void gds_evicts_the_largest_of_equally_recent(void **state)
{
	const uint32_t size[] = { 10, 40, 20, 30 };
	struct cache c;

	(void)state;
	assert_int_equal(cache_init(&c, CACHE_GDS, 70, size, 4), 0);
	cache_insert(&c, 0);
	cache_insert(&c, 1);
	cache_insert(&c, 2);
	cache_insert(&c, 3);		/* 100 bytes in all: 1, the largest, has the lowest 1/size */
	assert_true(cache_has(&c, 0) && cache_has(&c, 2) && cache_has(&c, 3));
	assert_false(cache_has(&c, 1));
	assert_int_equal(c.used, 60);
	cache_free(&c);
}

static void gds_forgets_small_files_that_nobody_asks_for(void **state)
{
	uint32_t size[201];
	struct cache c;

	(void)state;
	size[0] = 1;
	for (int i = 1; i <= 200; i++)
		size[i] = 50;
	assert_int_equal(cache_init(&c, CACHE_GDS, 101, size, 201), 0);
	cache_insert(&c, 0);
	for (int i = 1; i <= 200; i++)	/* inflation grows by 1/50 a generation, past 1 */
		cache_insert(&c, i);
	assert_false(cache_has(&c, 0));
	cache_free(&c);
}

static void lru_evicts_the_least_recent_and_refuses_large_files(void **state)
{
	const uint32_t size[] = { 300 << 10, 300 << 10, 300 << 10, (500 << 10) + 1, 500 << 10 };
	struct cache c;

	(void)state;
	assert_int_equal(cache_init(&c, CACHE_LRU, 1 << 20, size, 5), 0);
	cache_insert(&c, 0);
	cache_insert(&c, 1);
	cache_insert(&c, 2);
	assert_true(cache_touch(&c, 0));
	cache_insert(&c, 3);
	assert_false(cache_has(&c, 3));
	assert_int_equal(c.count, 3);
	cache_insert(&c, 4);		/* needs the room of 1 and 2, the least recently used */
	assert_false(cache_has(&c, 1) || cache_has(&c, 2));
	assert_true(cache_has(&c, 0) && cache_has(&c, 4));
	cache_free(&c);
}

static void file_larger_than_the_cache_is_not_kept(void **state)
{
	const uint32_t size[] = { 10, 101 };
	struct cache c;

	(void)state;
	assert_int_equal(cache_init(&c, CACHE_GDS, 100, size, 2), 0);
	cache_insert(&c, 0);
	cache_insert(&c, 1);
	assert_true(cache_has(&c, 0));
	assert_false(cache_has(&c, 1));
	cache_free(&c);
}

static void cached_8_kb_file_takes_930_us_of_processor(void **state)
{
	struct sim_params p = params(1, LARD_WRR);
	struct sim_result r;
	struct trace t;

	(void)state;
	cyclic(&t, 1, 100000, 8192);
	simulate(&t, &p, &r);
	assert_in_range(r.throughput, 1070, 1080);	/* 1 / (2 * 145 us + 16 * 40 us) */
	assert_int_equal(r.disk_reads, 1);
	trace_free(&t);
}

static void first_read_takes_a_seek_and_its_transfer(void **state)
{
	struct sim_params p = params(1, LARD_WRR);
	struct sim_result r;
	struct trace t;

	(void)state;
	cyclic(&t, 1, 1, 4096);
	simulate(&t, &p, &r);		/* 28 ms + 410 us, 2 * 145 us, 8 * 40 us */
	assert_in_range(r.delay * 1e6 + 0.5, 29020, 29020);
	trace_free(&t);

	cyclic(&t, 1, 1, 100 << 10);	/* 3 extents: 28 + 2 * 14 ms, 25 * 410 us, 200 * 40 us */
	simulate(&t, &p, &r);
	assert_in_range(r.delay * 1e6 + 0.5, 28000 + 28000 + 10250 + 290 + 8000,
			28000 + 28000 + 10250 + 290 + 8000);
	trace_free(&t);
}

static void concurrent_misses_share_one_read(void **state)
{
	struct sim_params p = params(1, LARD_WRR);
	struct sim_result r;
	struct trace t;

	(void)state;
	cyclic(&t, 1, 20, 8192);	/* all 20 are within the limit of 24 at once */
	simulate(&t, &p, &r);
	assert_int_equal(r.disk_reads, 1);
	assert_int_equal(r.misses, 20);
	assert_int_equal(r.joined, 19);
	trace_free(&t);
}

static void disks_work_in_parallel(void **state)
{
	struct sim_params p = params(1, LARD_WRR);
	struct sim_result one, four;
	struct trace t;

	(void)state;
	cyclic(&t, 4000, 4000, 4096);	/* every request misses */
	simulate(&t, &p, &one);
	p.disks = 4;
	simulate(&t, &p, &four);
	assert_in_range(100 * four.throughput / one.throughput, 380, 400);
	trace_free(&t);
}

static void warm_up_is_left_out_of_throughput_and_delay(void **state)
{
	struct sim_params p = params(1, LARD_WRR);
	struct sim_result all, warm;
	const char *why = NULL;
	struct trace t;

	(void)state;
	cyclic(&t, 100, 10000, 8192);	/* 100 reads of 28 ms, then all from memory */
	simulate(&t, &p, &all);
	p.warm = 1000;
	simulate(&t, &p, &warm);
	assert_in_range(warm.throughput, 1070, 1080);
	assert_true(all.throughput < 0.9 * warm.throughput);
	assert_true(warm.delay < all.delay);
	assert_true(warm.seconds == all.seconds && warm.requests == all.requests);
	p.warm = 10000;
	assert_int_equal(sim_run(&t, &p, &warm, &why), -1);
	assert_non_null(why);
	trace_free(&t);
}

static void lard_keeps_a_set_that_fits_the_sum_of_caches(void **state)
{
	struct sim_params p = params(4, LARD_REPLICATED);
	struct sim_result lard, wrr;
	struct trace t;

	(void)state;
	cyclic(&t, 12800, 256000, 8192);	/* 100 MB on four times 32 MB */
	simulate(&t, &p, &lard);
	p.policy.policy = LARD_WRR;
	simulate(&t, &p, &wrr);
	assert_true(lard.miss_ratio < 0.1);
	assert_true(wrr.miss_ratio > 0.5);
	assert_true(lard.throughput > 3 * wrr.throughput);
	trace_free(&t);
}

static void every_request_ends_and_is_counted_once(void **state)
{
	static const enum sim_model models[] = { SIM_ENGINE, SIM_LB_GC, SIM_WRR_GMS };
	struct gen_params g = *gen_preset("rice");
	const char *why = NULL;
	struct trace t;

	(void)state;
	g.targets = 2000;
	g.requests = 50000;
	g.bytes = 200 << 20;
	assert_int_equal(gen_trace(&t, &g, &why), 0);
	for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
		struct sim_params p = params(5, LARD_BASIC);
		struct sim_result r;

		p.model = models[m];
		simulate(&t, &p, &r);
		assert_int_equal(r.requests, 50000);
		assert_int_equal(r.hits + r.remote + r.misses, 50000);
		assert_int_equal(r.misses - r.joined, r.disk_reads);
	}
	trace_free(&t);
}

static void trace_has_all_its_targets_and_its_bytes(void **state)
{
	struct trace_facts facts;
	struct gen_params g = *gen_preset("rice");
	const char *why = NULL;
	struct trace t, again;

	(void)state;
	g.requests = 100000;
	assert_int_equal(gen_trace(&t, &g, &why), 0);
	assert_int_equal(trace_describe(&t, &facts), 0);
	assert_in_range(facts.compulsory * t.requests + 0.5, g.targets, g.targets);
	assert_in_range(facts.bytes, g.bytes * 0.99, g.bytes * 1.01);
	assert_int_equal(gen_trace(&again, &g, &why), 0);
	assert_memory_equal(t.token, again.token, t.requests * sizeof(*t.token));
	trace_free(&t);
	trace_free(&again);
}

static void hot_targets_take_their_share(void **state)
{
	struct trace_facts facts;
	struct gen_params g = *gen_preset("chess");
	const char *why = NULL;
	struct trace t;

	(void)state;
	g.hot_targets = 1;
	g.hot_size = 4096;
	g.hot_share = 0.5;
	assert_int_equal(gen_trace(&t, &g, &why), 0);
	assert_int_equal(trace_describe(&t, &facts), 0);
	assert_in_range(1000 * facts.top, 490, 510);
	assert_int_equal(t.size[0], 4096);
	trace_free(&t);
}

static void scratch_file(char *path, const void *bytes, size_t n)
{
	int fd;

	strcpy(path, "/tmp/lardsim.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
}

static void trace_survives_a_file_and_bad_files_are_refused(void **state)
{
	char path[32], bytes[64] = "FLTTRC1\n";
	const char *why = NULL;
	struct trace t, back;
	FILE *f;

	(void)state;
	cyclic(&t, 3, 7, 99);
	scratch_file(path, "", 0);
	assert_int_equal(trace_save(&t, path, &why), 0);
	assert_int_equal(trace_load(&back, path, &why), 0);
	assert_int_equal(back.requests, 7);
	assert_memory_equal(t.token, back.token, 7 * sizeof(*t.token));
	trace_free(&back);

	f = fopen(path, "r+b");
	assert_non_null(f);
	assert_int_equal(fseek(f, -1, SEEK_END), 0);
	assert_int_equal(fputc(1, f), 1);	/* the last request's target becomes huge */
	fclose(f);
	assert_int_equal(trace_load(&back, path, &why), -1);
	assert_string_equal(why, "a request names a target that does not exist, or a target is empty");
	assert_int_equal(truncate(path, 30), 0);
	assert_int_equal(trace_load(&back, path, &why), -1);
	unlink(path);
	trace_free(&t);

	memset(bytes + 8, 0xff, 16);		/* 2^32 targets, 2^64 requests */
	scratch_file(path, bytes, sizeof(bytes));
	assert_int_equal(trace_load(&back, path, &why), -1);
	unlink(path);
}

static void log_lines_become_requests(void **state)
{
	static char log[] =
		"h - - [01/Jun/1998:00:00:01 +0000] \"GET /a?x=1 HTTP/1.0\" 200 500\n"
		"h - - [01/Jun/1998:00:00:01 +0000] \"GET /a?x=2 HTTP/1.0\" 200 70 \"-\" \"ua\"\n"
		"h - - [01/Jun/1998:00:00:02 +0000] \"GET /a?x=1 HTTP/1.0\" 304 -\n"
		"h - - [01/Jun/1998:00:00:02 +0000] \"GET /only-304 HTTP/1.0\" 304 -\n"
		"h - - [01/Jun/1998:00:00:02 +0000] \"POST /a?x=1 HTTP/1.0\" 200 5\n"
		"h - - [01/Jun/1998:00:00:02 +0000] \"GET /none HTTP/1.0\" 404 5\n"
		"nonsense\n"
		"h - - [01/Jun/1998:00:00:03 +0000] \"GET /a?x=1 HTTP/1.0\" 200 600";
	struct clf_stats stats;
	const char *why = NULL;
	struct trace t;
	FILE *f = fmemopen(log, strlen(log), "r");

	(void)state;
	assert_non_null(f);
	assert_int_equal(clf_read(&t, f, &stats, &why), 0);
	fclose(f);
	assert_int_equal(t.targets, 2);
	assert_int_equal(t.requests, 4);
	assert_int_equal(t.size[0], 600);	/* the most requested is first */
	assert_int_equal(t.size[1], 70);
	assert_int_equal(stats.malformed, 1);
	assert_int_equal(stats.skipped, 3);
	trace_free(&t);
}

static double throughput(const struct trace *t, struct sim_params p, uint32_t outstanding)
{
	struct sim_result r;

	p.training = NULL;
	p.policy.max_outstanding = outstanding;
	simulate(t, &p, &r);
	return r.throughput;
}

static void training_finds_the_least_load_without_idle_time(void **state)
{
	struct gen_params gen = *gen_preset("rice");
	struct sim_params p = params(4, LARD_BASIC);
	struct training training = { .step = -1 };
	struct sim_result r;
	const char *why;
	struct trace t;
	double full;
	uint32_t found;
	bool cpu;

	(void)state;
	gen.requests = 400000;
	assert_int_equal(gen_trace(&t, &gen, &why), 0);
	p.training = &training;
	simulate(&t, &p, &r);
	assert_int_equal(r.requests, 400000);
	found = train_propose(&training, 0.95, &cpu);
	full = throughput(&t, p, 4 * 64);
	print_message("t_low %u, %s; requests/s with that load %.0f, with 1: %.0f, with 64: %.0f\n",
		      found, cpu ? "CPU" : "disk", throughput(&t, p, 4 * found),
		      throughput(&t, p, 4), full);
	assert_false(cpu);
	assert_in_range(found, 2, 16);
	assert_true(throughput(&t, p, 4 * found) > 0.85 * full);
	assert_true(throughput(&t, p, 4) < 0.75 * full);
	trace_free(&t);
}

static void training_of_a_cached_set_looks_at_the_cpu(void **state)
{
	struct gen_params gen = *gen_preset("chess");
	struct sim_params p = params(2, LARD_WRR);
	struct training training = { .step = -1 };
	struct sim_result r;
	const char *why;
	struct trace t;
	bool cpu;

	(void)state;
	gen.requests = 100000;
	assert_int_equal(gen_trace(&t, &gen, &why), 0);
	p.training = &training;
	simulate(&t, &p, &r);
	assert_in_range(train_propose(&training, 0.95, &cpu), 1, 3);
	assert_true(cpu);
	assert_int_equal(train_propose(&training, 1.01, &cpu), 0);
	trace_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gds_evicts_the_largest_of_equally_recent),
		cmocka_unit_test(gds_forgets_small_files_that_nobody_asks_for),
		cmocka_unit_test(lru_evicts_the_least_recent_and_refuses_large_files),
		cmocka_unit_test(file_larger_than_the_cache_is_not_kept),
		cmocka_unit_test(cached_8_kb_file_takes_930_us_of_processor),
		cmocka_unit_test(first_read_takes_a_seek_and_its_transfer),
		cmocka_unit_test(concurrent_misses_share_one_read),
		cmocka_unit_test(disks_work_in_parallel),
		cmocka_unit_test(warm_up_is_left_out_of_throughput_and_delay),
		cmocka_unit_test(lard_keeps_a_set_that_fits_the_sum_of_caches),
		cmocka_unit_test(every_request_ends_and_is_counted_once),
		cmocka_unit_test(trace_has_all_its_targets_and_its_bytes),
		cmocka_unit_test(hot_targets_take_their_share),
		cmocka_unit_test(trace_survives_a_file_and_bad_files_are_refused),
		cmocka_unit_test(training_finds_the_least_load_without_idle_time),
		cmocka_unit_test(training_of_a_cached_set_looks_at_the_cpu),
		cmocka_unit_test(log_lines_become_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
