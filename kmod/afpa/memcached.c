// SPDX-License-Identifier: GPL-2.0
/*
 * memcached's text protocol, as far as it is a "get" of keys that are all there. A connection that
 * says anything else is the server's from there on.
 */

#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/module.h>

#include "get.h"
#include "protocol.h"

enum {
	MEMCACHED_REQUEST,
	MEMCACHED_CACHED,
	MEMCACHED_SEND,
	MEMCACHED_STATES
};

/**
 * struct memcached_conn - of a connection
 * @obj: of the answer that is going
 */
struct memcached_conn {
	struct afpa_object *obj[AFPA_GET_KEYS];
};

static enum afpa_result memcached_request(struct afpa_turn *turn)
{
	int len = afpa_get_parse(turn->bytes, turn->len, turn->request);

	if (len > 0)
		turn->used = len;
	if (len)
		return len > 0 ? AFPA_OK : AFPA_FOREIGN;
	return AFPA_MORE;
}

/* Objects are named by paths: the space before the key is a slash for a moment. */
static struct afpa_object *memcached_find(struct afpa_turn *turn, u16 at, u8 len)
{
	struct afpa_key_ref key = {
		.host = "*",
		.host_len = 1,
		.path = turn->bytes + at - 1,
		.path_len = len + 1,
	};
	struct afpa_object *obj;

	turn->bytes[at - 1] = '/';
	obj = afpa_turn_find(turn, &key);
	turn->bytes[at - 1] = ' ';
	return obj;
}

/* All keys or none: what is missing here the server may have. */
static enum afpa_result memcached_cached(struct afpa_turn *turn)
{
	const struct afpa_get *get = turn->request;
	struct memcached_conn *conn = turn->data;
	unsigned int i;

	for (i = 0; i < get->keys; i++) {
		conn->obj[i] = memcached_find(turn, get->at[i], get->len[i]);
		if (conn->obj[i])
			continue;
		while (i--)
			afpa_object_put(conn->obj[i]);
		return AFPA_MISS;
	}
	afpa_turn_answer(turn, conn->obj, get->keys);
	return AFPA_HIT;
}

static const struct afpa_state memcached_states[] = {
	[MEMCACHED_REQUEST] = { "request", memcached_request },
	[MEMCACHED_CACHED] = { "cached", memcached_cached },
	[MEMCACHED_SEND] = { "send", afpa_act_send },
};

static const u8 memcached_next[][AFPA_RESULTS] = {
	[MEMCACHED_REQUEST] = {
		[AFPA_OK] = MEMCACHED_CACHED,
		[AFPA_MORE] = AFPA_AWAIT,
		[AFPA_FOREIGN] = AFPA_LEAVE,
	},
	[MEMCACHED_CACHED] = {
		[AFPA_HIT] = MEMCACHED_SEND,
		[AFPA_MISS] = AFPA_LEAVE,
	},
	[MEMCACHED_SEND] = {
		[AFPA_SENT] = AFPA_NEXT,
		[AFPA_PENDING] = AFPA_AWAIT,
		[AFPA_FAILED] = AFPA_LEAVE,
	},
};

/* --- objects --- */

static bool memcached_key_is_sound(const struct afpa_key_ref *key)
{
	return key->host_len == 1 && key->host[0] == '*' && key->path[0] == '/' &&
	       afpa_get_key_is_sound(key->path + 1, key->path_len - 1);
}

/* The client's flags are the type. */
static int memcached_flags(const struct afpa_recipe *recipe, u32 *flags)
{
	char text[sizeof("4294967295")];

	*flags = 0;
	if (!recipe->type_len)
		return 0;
	if (recipe->type_len >= sizeof(text) || !isdigit(recipe->type[0]))
		return -EINVAL;
	memcpy(text, recipe->type, recipe->type_len);
	text[recipe->type_len] = '\0';
	return kstrtou32(text, 10, flags) ? -EINVAL : 0;
}

static int memcached_make_head(const struct afpa_recipe *recipe, char *head, size_t room)
{
	u32 flags;

	if (recipe->headers_len || recipe->aged || memcached_flags(recipe, &flags))
		return -EINVAL;
	return scnprintf(head, room, "VALUE %.*s %u %llu\r\n", recipe->key.path_len - 1,
			 recipe->key.path + 1, flags, recipe->body_len);
}

static struct afpa_protocol memcached = {
	.name = "memcached",
	.owner = THIS_MODULE,
	.data_size = AFPA_DATA_SIZE(struct memcached_conn),
	.request_size = AFPA_DATA_SIZE(struct afpa_get),
	.nr_states = MEMCACHED_STATES,
	.states = memcached_states,
	.next = memcached_next,
	.tail = "\r\nEND\r\n",
	.tail_len = 7,
	.tail_last = 5,
	.key_is_sound = memcached_key_is_sound,
	.make_head = memcached_make_head,
};

static int __init memcached_init(void)
{
	return afpa_protocol_register(&memcached);
}

static void __exit memcached_exit(void)
{
	afpa_protocol_unregister(&memcached);
}

module_init(memcached_init);
module_exit(memcached_exit);

MODULE_DESCRIPTION("Flotilla: memcached's gets out of the kernel");
MODULE_VERSION(FLT_VERSION);
MODULE_LICENSE("GPL");
MODULE_ALIAS("afpa-protocol-memcached");
