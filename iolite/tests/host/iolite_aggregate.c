// SPDX-License-Identifier: GPL-2.0
/* Aggregates against a flat array of bytes: whatever is done, both hold the same. Runs without the module. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <iolite.h>
#include "iolite/lib/internal.h"

#define MODELS	12
#define MOST	200000

struct model {
	IOL_Agg *agg;
	char *bytes;
	size_t len;
};

static unsigned long seed = 1;

static size_t pick(size_t below)
{
	seed = seed * 6364136223846793005UL + 1442695040888963407UL;
	return below ? (seed >> 33) % below : 0;
}

static void model_drop(struct model *model)
{
	if (model->agg)
		assert_int_equal(IOL_destroy(model->agg), 0);
	free(model->bytes);
	memset(model, 0, sizeof(*model));
}

static void model_set(struct model *model, IOL_Agg *agg, const char *bytes, size_t len)
{
	char *copy = malloc(len + 1);

	memcpy(copy, bytes, len);
	model_drop(model);
	*model = (struct model){ agg, copy, len };
}

static void model_check(struct model *model)
{
	size_t at = 0, len;
	IOL_Context *context;
	const char *addr;
	long pos;

	assert_int_equal(IOL_length(model->agg), model->len);
	assert_int_equal(IOL_gen_start(model->agg, &context), 0);
	for (;;) {
		assert_int_equal(IOL_gen_tell(context, &pos), 0);
		assert_int_equal(pos, at);
		assert_int_equal(IOL_gen_nextRd(context, &addr, &len), 0);
		if (!len)
			break;
		assert_true(at + len <= model->len);
		assert_memory_equal(addr, model->bytes + at, len);
		at += len;
	}
	assert_int_equal(at, model->len);
	if (model->len) {
		at = pick(model->len);
		assert_int_equal(IOL_gen_seek(context, at), 0);
		assert_int_equal(IOL_gen_tell(context, &pos), 0);
		assert_int_equal(pos, at);
		assert_int_equal(IOL_gen_nextRd(context, &addr, &len), 0);
		assert_int_equal(*addr, model->bytes[at]);
	}
	assert_int_equal(IOL_gen_end(context), 0);
}

static void model_create(struct model *model)
{
	size_t len = pick(3) ? pick(300) : pick(MOST), done = 0, part, i;
	char *bytes = malloc(len + 1), *addr;
	IOL_Context *context;
	IOL_Agg *agg;

	for (i = 0; i < len; i++)
		bytes[i] = pick(256);
	assert_int_equal(IOL_create(IOL_DEF_ALLOC, &agg, len), 0);
	assert_int_equal(IOL_gen_start(agg, &context), 0);
	for (;;) {
		assert_int_equal(IOL_gen_nextWr(context, &addr, &part), 0);
		if (!part)
			break;
		memcpy(addr, bytes + done, part);
		done += part;
	}
	assert_int_equal(done, len);
	assert_int_equal(IOL_gen_end(context), 0);
	model_set(model, agg, bytes, len);
	free(bytes);
}

static void model_concat(struct model *to, struct model *a, struct model *b)
{
	char *bytes = malloc(a->len + b->len + 1);
	IOL_Agg *agg;

	memcpy(bytes, a->bytes, a->len);
	memcpy(bytes + a->len, b->bytes, b->len);
	assert_int_equal(IOL_concat(&agg, a->agg, b->agg), 0);
	model_set(to, agg, bytes, a->len + b->len);
	free(bytes);
}

static void model_split(struct model *to, struct model *rest, struct model *from)
{
	size_t cut = pick(from->len + from->len / 4 + 2), len = from->len;
	char *bytes = malloc(len + 1);
	IOL_Agg *head, *tail;

	memcpy(bytes, from->bytes, len);
	assert_int_equal(IOL_split(&head, &tail, from->agg, cut), 0);
	if (cut > len)
		cut = len;
	model_set(to, head, bytes, cut);
	model_set(rest, tail, bytes + cut, len - cut);
	free(bytes);
}

static void model_select(struct model *to, struct model *from)
{
	size_t start = pick(from->len + 2), len = pick(from->len + 10);
	char *bytes;
	IOL_Agg *agg;

	if (start >= from->len) {
		assert_int_equal(IOL_select(&agg, from->agg, start, len), -EINVAL);
		return;
	}
	assert_int_equal(IOL_select(&agg, from->agg, start, len), 0);
	if (len > from->len - start)
		len = from->len - start;
	bytes = malloc(len + 1);
	memcpy(bytes, from->bytes + start, len);
	model_set(to, agg, bytes, len);
	free(bytes);
}

static void operations_equal_a_flat_array(void **state)
{
	const char *rounds = getenv("IOLITE_ROUNDS");
	struct model models[MODELS] = { 0 };
	int round, i;

	(void)state;
	if (getenv("IOLITE_SEED"))
		seed = strtoul(getenv("IOLITE_SEED"), NULL, 0);
	printf("# seed %lu\n", seed);
	for (i = 0; i < MODELS; i++)
		model_create(&models[i]);
	for (round = 0; round < (rounds ? atoi(rounds) : 4000); round++) {
		struct model *a = &models[pick(MODELS)], *b = &models[pick(MODELS)];
		struct model *to = &models[pick(MODELS)];

		switch (pick(5)) {
		case 0:
			model_create(to);
			break;
		case 1:
			if (a->len + b->len < 2 * MOST)
				model_concat(to, a, b);
			break;
		case 2:
			if (to != b)
				model_split(to, b, a);
			break;
		default:
			model_select(to, a);
		}
		model_check(&models[pick(MODELS)]);
	}
	for (i = 0; i < MODELS; i++) {
		model_check(&models[i]);
		model_drop(&models[i]);
	}
}

static void a_change_in_the_middle_is_three_pieces(void **state)
{
	IOL_Agg *big, *patch, *head, *rest, *skip, *tail, *front, *all;
	char *bytes = calloc(1, 60000);
	IOL_Context *context;
	const char *addr;
	size_t len;
	int n = 0;

	(void)state;
	IOL_from_memory(IOL_DEF_ALLOC, &big, bytes, 60000);
	IOL_from_memory(IOL_DEF_ALLOC, &patch, "0123456789", 10);
	IOL_split(&head, &rest, big, 30000);
	IOL_split(&skip, &tail, rest, 10);
	IOL_concat(&front, head, patch);
	assert_int_equal(IOL_concat(&all, front, tail), 0);
	assert_int_equal(IOL_length(all), 60000);
	IOL_gen_start(all, &context);
	while (!IOL_gen_nextRd(context, &addr, &len) && len)
		n++;
	IOL_gen_end(context);
	assert_int_equal(n, 3);
	IOL_destroy(big), IOL_destroy(patch), IOL_destroy(head), IOL_destroy(rest);
	IOL_destroy(skip), IOL_destroy(tail), IOL_destroy(front), IOL_destroy(all);
	free(bytes);
}

static void a_digest_knows_bytes_and_not_pieces(void **state)
{
	uint64_t whole, other;
	struct model model = { 0 };
	size_t read;
	int i;

	(void)state;
	while (model.len < 2)
		model_create(&model);
	assert_int_equal(IOL_digest(model.agg, &whole, &read), 0);
	/* Without the module nothing has a name by which it would be known. */
	assert_int_equal(read, model.len);
	for (i = 0; i < 100; i++) {
		IOL_Agg *head, *tail, *joined;
		char *bytes = malloc(model.len);

		assert_int_equal(IOL_split(&head, &tail, model.agg, pick(model.len)), 0);
		assert_int_equal(IOL_concat(&joined, head, tail), 0);
		assert_int_equal(IOL_digest(joined, &other, NULL), 0);
		assert_true(other == whole);
		IOL_destroy(joined);
		assert_int_equal(IOL_concat(&joined, tail, head), 0);
		IOL_copy_out(joined, 0, bytes, model.len);
		assert_int_equal(IOL_digest(joined, &other, NULL), 0);
		assert_true((other == whole) == !memcmp(bytes, model.bytes, model.len));
		IOL_destroy(joined), IOL_destroy(head), IOL_destroy(tail);
		free(bytes);
	}
	model_drop(&model);
}

static void a_zombie_refuses_everything_until_its_last_context_ends(void **state)
{
	IOL_Context *first, *second;
	IOL_Agg *agg, *other;
	const char *addr;
	uint64_t digest;
	size_t len;

	(void)state;
	assert_int_equal(IOL_create(IOL_DEF_ALLOC, &agg, 10), 0);
	IOL_gen_start(agg, &first);
	IOL_gen_start(agg, &second);
	assert_int_equal(IOL_destroy(agg), 0);
	assert_int_equal(IOL_gen_start(agg, &first), -EBUSY);
	assert_int_equal(IOL_gen_nextRd(first, &addr, &len), -EBUSY);
	assert_int_equal(IOL_duplicate(&other, agg), -EBUSY);
	assert_int_equal(IOL_select(&other, agg, 0, 1), -EBUSY);
	assert_int_equal(IOL_digest(agg, &digest, NULL), -EBUSY);
	assert_int_equal(IOL_destroy(agg), -EBUSY);
	assert_int_equal(IOL_gen_end(first), 0);
	assert_int_equal(IOL_gen_end(second), 0);
}

static void only_a_fresh_aggregate_can_be_filled(void **state)
{
	IOL_Agg *agg, *other;
	IOL_Context *context;
	char *addr;
	size_t len;

	(void)state;
	IOL_create(IOL_DEF_ALLOC, &agg, 10);
	IOL_duplicate(&other, agg);
	IOL_gen_start(agg, &context);
	assert_int_equal(IOL_gen_nextWr(context, &addr, &len), -EINVAL);
	IOL_gen_end(context);
	IOL_gen_start(other, &context);
	assert_int_equal(IOL_gen_nextWr(context, &addr, &len), -EINVAL);
	IOL_gen_end(context);
	assert_int_equal(IOL_reopen(agg), -EBUSY);
	IOL_destroy(agg);
	IOL_destroy(other);
}

static void the_default_pool_cannot_be_destroyed(void **state)
{
	IOL_Allocator *alloc;
	IOL_Agg *agg;

	(void)state;
	assert_int_equal(IOL_destroy_allocator(IOL_DEF_ALLOC), -EPERM);
	assert_int_equal(IOL_create_allocator(&alloc, NULL), 0);
	assert_int_equal(IOL_create(alloc, &agg, 100000), 0);
	assert_int_equal(IOL_destroy_allocator(alloc), 0);
	assert_int_equal(IOL_length(agg), 100000);
	IOL_destroy(agg);
	assert_int_equal(IOL_create(IOL_DEF_ALLOC, &agg, 0), 0);
	assert_int_equal(IOL_length(agg), 0);
	IOL_destroy(agg);
}

/* However the child was made: libraries' hooks do not see a bare system call. */
static void a_child_starts_anew_and_its_parent_goes_on(void **state)
{
	pid_t parent, child;
	IOL_Agg *agg;
	int status;

	(void)state;
	assert_int_equal(IOL_from_memory(IOL_DEF_ALLOC, &agg, "parent", 6), 0);
	parent = iol_process.pid;
	assert_int_equal(parent, getpid());
	child = syscall(SYS_fork);
	if (!child) {
		IOL_Agg *own;

		_exit(IOL_from_memory(IOL_DEF_ALLOC, &own, "child", 5) || iol_process.pid != getpid());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	IOL_destroy(agg);
	assert_int_equal(iol_process.pid, parent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_equal_a_flat_array),
		cmocka_unit_test(a_change_in_the_middle_is_three_pieces),
		cmocka_unit_test(a_digest_knows_bytes_and_not_pieces),
		cmocka_unit_test(a_zombie_refuses_everything_until_its_last_context_ends),
		cmocka_unit_test(only_a_fresh_aggregate_can_be_filled),
		cmocka_unit_test(the_default_pool_cannot_be_destroyed),
		cmocka_unit_test(a_child_starts_anew_and_its_parent_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
