// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's decisions are the engine's. A history runs twice: one engine decides everything; of the other the
 * kernel's functions decide what they can by its page and what it has told. Each request goes to the same node.
 */
#include <string.h>
#include "handoff/early_choose.h"
#include "lard/engine.h"
#include "lard/tests/lib/cluster.h"
#include "lard/tests/lib/draw.h"
#include "lard/url.h"

#define SEEDS	40
#define STEPS	20000
#define KEYS	64
#define NODES	6

/* What the kernel knows of targets, by key; .nodes 0: nothing. */
static struct hof_early_target known[KEYS];
static struct hof_early_page page;
static struct lard *all, *rest;		/* decides everything; what the kernel leaves */
static unsigned int by_kernel, by_engine, busy;

static void note(void)
{
	const struct lard_kept *k = lard_kept(rest);

	if (k->kept && k->lost)
		known[k->lost_key].nodes = 0;
	if (k->kept)
		known[k->key] = (struct hof_early_target){
			.key = k->key, .nodes = k->set, .changed_us = k->since_us, .epoch = k->epoch,
		};
}

/* The slot, or -1. */
static int ask_rest(uint64_t key, uint64_t now)
{
	struct lard_decision d;
	bool relaxed;
	int node;

	node = hof_early_choose(&page, known[key].nodes ? &known[key] : NULL, key, now, &relaxed);
	if (node < 0) {
		by_engine++;
		node = lard_dispatch(rest, key, now, &d);
		note();
		return node;
	}
	assert_int_equal(lard_explain(rest, key, now, &d), node);
	assert_true(d.why == LARD_WHY_KEEP || d.why == LARD_WHY_KEEP_BUSY || d.why == LARD_WHY_FEWEST ||
		    d.why == LARD_WHY_HASH);
	busy += d.why == LARD_WHY_KEEP_BUSY;
	by_kernel++;
	page.slots[node].given++;
	page.slots[node].chosen++;
	return node;
}

static void request(uint64_t now)
{
	uint64_t key = next(next(KEYS) + 1);
	struct lard_decision d;
	int node = lard_dispatch(all, key, now, &d);

	assert_int_equal(ask_rest(key, now), node);
	assert_int_equal(lard_outstanding(all), lard_outstanding(rest));
}

static void end_one(void)
{
	int node = next(NODES), tries = 3;

	while (!lard_load(all, node) && tries--)
		node = next(NODES);
	if (!lard_load(all, node))
		return;
	lard_release(all, node);
	if (page.slots[node].given && (next(2) || lard_load(rest, node) == page.slots[node].given))
		page.slots[node].given--;
	else
		lard_release(rest, node);
	assert_int_equal(lard_load(all, node), lard_load(rest, node));
}

static void new_params(uint64_t now, enum lard_policy policy)
{
	struct lard_params p = LARD_PARAMS_DEFAULT;

	p.policy = policy;
	p.t_low = 1 + next(6);
	p.t_high = p.t_low + 1 + next(8);
	p.replication_us = next(3) ? next(2000) : 20000000;
	p.slow_start_us = next(2) ? 0 : next(3000);
	p.max_outstanding = next(4) ? 0 : 1 + next(60);
	assert_int_equal(lard_set_params(all, &p, now), 0);
	assert_int_equal(lard_set_params(rest, &p, now), 0);
}

static void another_node(uint64_t now)
{
	uint32_t weight = 1 + next(300);
	char name[16];
	int node = next(NODES), slot;

	snprintf(name, sizeof(name), "n%u", (unsigned int)next(1 << 30));
	lard_node_del(all, node, now);
	lard_node_del(rest, node, now);
	while (lard_load(all, node))
		lard_release(all, node);
	while (lard_load(rest, node) > page.slots[node].given)
		lard_release(rest, node);
	page.slots[node].given = 0;
	slot = lard_node_add(all, name, weight, now);
	assert_int_equal(slot, node);
	assert_int_equal(lard_node_add(rest, name, weight, now), slot);
	lard_node_state(all, slot, LARD_UP, now);
	lard_node_state(rest, slot, LARD_UP, now);
}

static void something_else(uint64_t now, enum lard_policy policy)
{
	int node = next(NODES), how = next(4);

	switch (next(200)) {
	case 0:
		lard_node_state(all, node, how ? LARD_UP : LARD_DOWN, now);
		lard_node_state(rest, node, how ? LARD_UP : LARD_DOWN, now);
		break;
	case 1:
		lard_node_admin(all, node, how < 3 ? (enum lard_admin)how : LARD_ACTIVE, now);
		lard_node_admin(rest, node, how < 3 ? (enum lard_admin)how : LARD_ACTIVE, now);
		break;
	case 2:
		if (how)
			break;
		node = 1 + next(300);
		lard_node_weight(all, how, node, now);
		lard_node_weight(rest, how, node, now);
		break;
	case 3:
		if (!how)
			another_node(now);
		break;
	case 4:
		if (!how)
			new_params(now, policy);
		break;
	}
}

static void history(enum lard_policy policy, uint64_t seed)
{
	uint64_t now = 1, step;

	rng = seed;
	memset(&page, 0, sizeof(page));
	memset(known, 0, sizeof(known));
	all = cluster_new(policy, NODES, KEYS);
	rest = cluster_new(policy, NODES, KEYS);
	lard_mirror(rest, &page);
	new_params(now, policy);
	for (step = 0; step < STEPS; step++) {
		now += next(20);
		something_else(now, policy);
		if (next(100) < 40 + step / 100 % 14)
			request(now);
		else
			end_one();
	}
	lard_mirror(rest, NULL);
	lard_free(all);
	lard_free(rest);
}

static void decisions_are_the_engines(enum lard_policy policy)
{
	uint64_t seed;

	by_kernel = by_engine = busy = 0;
	for (seed = 1; seed <= SEEDS; seed++)
		history(policy, seed);
	print_message("%s: %u decided by the kernel (%u of them busy), %u left\n", lard_policy_name(policy), by_kernel,
		      busy, by_engine);
}

static void decisions_of_lard_are_the_engines(void **state)
{
	(void)state;
	decisions_are_the_engines(LARD_BASIC);
	assert_true(by_kernel > by_engine && busy);
}

static void decisions_of_lard_r_are_the_engines(void **state)
{
	(void)state;
	decisions_are_the_engines(LARD_REPLICATED);
	assert_true(by_kernel > by_engine / 2 && busy);
}

static void decisions_of_lb_and_lc_are_the_engines(void **state)
{
	(void)state;
	decisions_are_the_engines(LARD_LB);
	assert_true(by_kernel > by_engine);
	decisions_are_the_engines(LARD_LC);
	assert_true(by_kernel > by_engine);
}

static void other_policies_are_the_engines_alone(void **state)
{
	(void)state;
	decisions_are_the_engines(LARD_WRR);
	assert_int_equal(by_kernel, 0);
	decisions_are_the_engines(LARD_CHBL);
	assert_int_equal(by_kernel, 0);
}

static void a_page_that_is_being_written_decides_nothing(void **state)
{
	struct lard_decision d;
	bool relaxed;

	(void)state;
	memset(&page, 0, sizeof(page));
	rest = cluster_new(LARD_LC, 2, 16);
	lard_mirror(rest, &page);
	assert_int_equal(hof_early_choose(&page, NULL, 1, 0, &relaxed), 0);
	page.version++;
	assert_int_equal(hof_early_choose(&page, NULL, 1, 0, &relaxed), HOF_EARLY_ASK);
	page.version++;
	page.waiting = 1;
	assert_int_equal(hof_early_choose(&page, NULL, 1, 0, &relaxed), HOF_EARLY_ASK);
	page.waiting = 0;
	lard_set_others(rest, (uint32_t[LARD_MAX_NODES]){ 1 }, 1);
	assert_int_equal(hof_early_choose(&page, NULL, 1, 0, &relaxed), HOF_EARLY_ASK);
	lard_set_others(rest, (uint32_t[LARD_MAX_NODES]){ 0 }, 0);
	/* What it was given is here, though its node is gone: the slot is not free. */
	lard_node_add(rest, "gone", 1, 0);
	page.slots[2].given = 1;
	lard_node_del(rest, 2, 0);
	assert_int_equal(lard_node_add(rest, "next", 1, 0), 3);
	page.slots[2].given = 0;
	assert_int_equal(lard_node_add(rest, "last", 1, 0), 2);
	page.slots[0].given = 3;
	assert_int_equal(lard_dispatch(rest, 1, 0, &d), 1);
	assert_int_equal(lard_load(rest, 0), 3);
	lard_mirror(rest, NULL);
	assert_int_equal(lard_load(rest, 0), 0);
	lard_free(rest);
}

/* The kernel's key of a whole request, or 0. */
static uint64_t key_of(const char *text, bool any_host)
{
	__u64 key;

	return hof_early_key(text, strlen(text), any_host, &key) ? key : 0;
}

static void a_key_is_that_of_the_normal_form(void **state)
{
	static const char hosts[] = "ab.:80AZ-[]%_", paths[] = "/a.?%2#~ :b/A\x80-";
	unsigned int i, j, found = 0;

	(void)state;
	rng = 7;
	for (i = 0; i < 300000; i++) {
		char host[8] = "", path[12] = "/", out[256], text[256];
		ssize_t len;
		uint64_t key;

		for (j = next(6); j--;)
			host[strlen(host)] = hosts[next(sizeof(hosts) - 1)];
		for (j = next(8); j--;)
			path[strlen(path)] = paths[next(sizeof(paths) - 1)];
		snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nA: b\r\nhOst: %s \t\r\n\r\n", path, host);
		key = key_of(text, false);
		if (!key)
			continue;
		found++;
		len = url_canonical(host, strlen(host), path, strlen(path), out, sizeof(out));
		assert_true(len > 0);
		assert_int_equal(key, url_key(out, len));
		assert_int_equal(key_of(text, true), url_key(out + strlen(host), len - strlen(host)));
	}
	assert_true(found > 10000);
}

static void what_two_could_read_in_two_ways_has_no_key(void **state)
{
	static const char *const plain = "GET /a?b//./c HTTP/1.1\r\nHost: h\r\n\r\n";
	static const char *const unclear[] = {
		"GET /a HTTP/1.1\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost:\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: h, h\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: h/b\r\n\r\n",
		"GET /a HTTP/1.2\r\nHost: h\r\n\r\n",
		"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET  /a HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET a HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /a//b HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /a/../b HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /a%62 HTTP/1.1\r\nHost: h\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: h\r\n",
	};
	unsigned int i;

	(void)state;
	assert_int_equal(key_of(plain, false), url_key("h/a?b//./c", 10));
	for (i = 0; i < sizeof(unclear) / sizeof(unclear[0]); i++)
		assert_int_equal(key_of(unclear[i], false), 0);
	/* A field of the body is none of the header. */
	assert_int_equal(key_of("POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nHost: h\r\n", false), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decisions_of_lard_are_the_engines),
		cmocka_unit_test(decisions_of_lard_r_are_the_engines),
		cmocka_unit_test(decisions_of_lb_and_lc_are_the_engines),
		cmocka_unit_test(other_policies_are_the_engines_alone),
		cmocka_unit_test(a_page_that_is_being_written_decides_nothing),
		cmocka_unit_test(a_key_is_that_of_the_normal_form),
		cmocka_unit_test(what_two_could_read_in_two_ways_has_no_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
