// SPDX-License-Identifier: GPL-2.0
/*
 * A protocol with whatever mistake its parameters make, for tests: insmod says what the registry
 * says. Without any it is sound: whatever comes at once is a request for the object "/k".
 */

#include <linux/init.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/string.h>

#include "kmod/afpa/protocol.h"

enum {
	TEST_FIRST,
	TEST_SECOND,
	TEST_SEND,
	TEST_STATES
};

/* With more than there may be. */
#define TEST_MOST	(AFPA_PROTOCOL_STATES + 1)

static char *name = "test";
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "its name");

static char *without = "";
module_param(without, charp, 0444);
MODULE_PARM_DESC(without, "what it lacks: name, key, head, states, next, act or row");

static unsigned int states = TEST_STATES, data, request, tail, tail_last;
module_param(states, uint, 0444);
module_param(data, uint, 0444);
module_param(request, uint, 0444);
module_param(tail, uint, 0444);
module_param(tail_last, uint, 0444);
MODULE_PARM_DESC(states, "how many it claims to have");
MODULE_PARM_DESC(data, "bytes of a connection");
MODULE_PARM_DESC(request, "bytes of a request");
MODULE_PARM_DESC(tail, "bytes behind an object, which are nowhere");
MODULE_PARM_DESC(tail_last, "of these, of the last one");

static unsigned int used = U32_MAX, says = AFPA_HIT, first = TEST_SEND, second = AFPA_LEAVE;
static unsigned int pending = AFPA_AWAIT;
module_param(used, uint, 0444);
module_param(says, uint, 0444);
module_param(first, uint, 0444);
module_param(second, uint, 0444);
module_param(pending, uint, 0444);
MODULE_PARM_DESC(used, "most bytes of a request");
MODULE_PARM_DESC(says, "enum afpa_result of the first state");
MODULE_PARM_DESC(first, "what comes next then");
MODULE_PARM_DESC(second, "what comes after the second state");
MODULE_PARM_DESC(pending, "what comes when an answer has to wait");

static enum afpa_result test_first(struct afpa_turn *turn)
{
	struct afpa_key_ref key = {
		.host = "*",
		.host_len = 1,
		.path = "/k",
		.path_len = 2,
	};
	struct afpa_object **obj = turn->data;

	turn->used = min(turn->len, used);
	if (says != AFPA_HIT)
		return says;
	*obj = afpa_turn_find(turn, &key);
	if (!*obj)
		return AFPA_MISS;
	afpa_turn_answer(turn, obj, 1);
	return AFPA_HIT;
}

static enum afpa_result test_second(struct afpa_turn *turn)
{
	return AFPA_OK;
}

static struct afpa_state test_states[TEST_MOST] = {
	[TEST_FIRST] = { "first", test_first },
	[TEST_SECOND] = { "second", test_second },
	[TEST_SEND] = { "send", afpa_act_send },
	[TEST_STATES ... TEST_MOST - 1] = { "idle", test_second },
};

static u8 test_next[TEST_MOST][AFPA_RESULTS] = {
	[TEST_STATES ... TEST_MOST - 1] = { [AFPA_OK] = AFPA_LEAVE },
	[TEST_SEND] = { [AFPA_SENT] = AFPA_NEXT, [AFPA_FAILED] = AFPA_LEAVE },
};

static bool test_key_is_sound(const struct afpa_key_ref *key)
{
	return true;
}

/* The object is what its program gives, and nothing else. */
static int test_make_head(const struct afpa_recipe *recipe, char *head, size_t room)
{
	return 0;
}

static struct afpa_protocol test = {
	.owner = THIS_MODULE,
	.states = test_states,
	.next = test_next,
	.key_is_sound = test_key_is_sound,
	.make_head = test_make_head,
};

static bool __init test_lacks(const char *what)
{
	return !strcmp(without, what);
}

static void __init test_spoil(void)
{
	if (test_lacks("name"))
		test.name = NULL;
	if (test_lacks("key"))
		test.key_is_sound = NULL;
	if (test_lacks("head"))
		test.make_head = NULL;
	if (test_lacks("states"))
		test.states = NULL;
	if (test_lacks("next"))
		test.next = NULL;
	if (test_lacks("act"))
		test_states[TEST_SECOND].act = NULL;
	if (test_lacks("row"))
		test_next[TEST_SECOND][AFPA_OK] = 0;
}

static int __init test_init(void)
{
	if (says >= AFPA_RESULTS)
		return -ERANGE;
	test_next[TEST_FIRST][says] = first;
	test_next[TEST_FIRST][AFPA_MISS] = AFPA_LEAVE;
	test_next[TEST_SECOND][AFPA_OK] = second;
	test_next[TEST_SEND][AFPA_PENDING] = pending;
	test.name = name;
	test.nr_states = states;
	test.data_size = data;
	test.request_size = request;
	test.tail_len = tail;
	test.tail_last = tail_last;
	if (!test.data_size)
		test.data_size = AFPA_DATA_SIZE(struct afpa_object *);
	test_spoil();
	return afpa_protocol_register(&test);
}

static void __exit test_exit(void)
{
	afpa_protocol_unregister(&test);
}

module_init(test_init);
module_exit(test_exit);

MODULE_DESCRIPTION("Flotilla: a protocol with mistakes, for tests");
MODULE_LICENSE("GPL");
