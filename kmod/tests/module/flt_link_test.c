// SPDX-License-Identifier: GPL-2.0
/*
 * Test module: messages of range FLT_MSG_TEST, driven by /proc/net/flt_link_test.
 *
 * Written words:
 *   storm NODE COUNT MAX [bh]  send COUNT numbered messages of 4 to MAX body bytes
 *   call NODE COUNT [wait]     send COUNT requests; each one is answered; "wait": one at a time
 *   sleep NODE MS              let the node's handler sleep
 *   refuse NODE                let the node's handler refuse: the link must close
 *   type NODE TYPE LENGTH      send any type
 *   reset                      zero this namespace's numbers
 * Reading gives "name value" lines. Expected numbers begin anew when a link comes up.
 */

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/netns/generic.h>
#include "kmod/link.h"

#define TEST_NODES	4096
#define TEST_NAME	"flt_link_test"

enum {
	TEST_NUMBERED	= FLT_MSG_TEST + 0,
	TEST_CALL	= FLT_MSG_TEST + 1,
	TEST_ANSWER	= FLT_MSG_TEST + 2,
	TEST_SLEEP	= FLT_MSG_TEST + 3,
	TEST_REFUSE	= FLT_MSG_TEST + 4,
};

/* Numbers of a namespace. */
struct test_net {
	struct net *net;
	unsigned long *up;	/* bit per node id: between its NODE_UP and NODE_DOWN */
	u32 *expected;		/* next number from a node; its receive worker writes it */
	wait_queue_head_t wait;	/* for answers */
	struct_group(numbers,
		atomic_t received, disorder, corrupt, early, calls, answers;
		atomic_t sent, full, failed, ups, downs, removals;
	);
};

static unsigned int test_net_id;
static u8 *test_pattern;

static struct test_net *test_net(const struct net *net)
{
	return net_generic(net, test_net_id);
}

/* Sizes that look random but that both sides know. */
static u32 test_size(u32 number, u32 max)
{
	return sizeof(__be32) * 2 + (number * 2654435761U >> 7) % (max - 7);
}

static void test_numbered(struct test_net *tn, struct flt_node *node, const struct flt_msg *msg)
{
	const __be32 *head = msg->body;
	u32 number, max;

	if (msg->len < 8) {
		atomic_inc(&tn->corrupt);
		return;
	}
	number = be32_to_cpu(head[0]);
	max = be32_to_cpu(head[1]);
	if (max < 8 || max > FLT_MSG_MAX || msg->len != test_size(number, max) ||
	    memcmp(head + 2, test_pattern + number % 64, msg->len - 8))
		atomic_inc(&tn->corrupt);
	if (number != tn->expected[node->id % TEST_NODES])
		atomic_inc(&tn->disorder);
	tn->expected[node->id % TEST_NODES] = number + 1;
	atomic_inc(&tn->received);
}

static int test_handle(struct flt_node *node, const struct flt_msg *msg)
{
	struct test_net *tn = test_net(node->net);
	struct kvec vec = { .iov_base = (void *)msg->body, .iov_len = msg->len };

	if (!test_bit(node->id % TEST_NODES, tn->up))
		atomic_inc(&tn->early);
	switch (msg->type) {
	case TEST_NUMBERED:
		test_numbered(tn, node, msg);
		return 0;
	case TEST_CALL:
		atomic_inc(&tn->calls);
		if (flt_link_send(node, TEST_ANSWER, &vec, 1, GFP_KERNEL))
			atomic_inc(&tn->failed);
		return 0;
	case TEST_ANSWER:
		atomic_inc(&tn->answers);
		wake_up(&tn->wait);
		return 0;
	case TEST_SLEEP:
		if (msg->len == 4)
			msleep(be32_to_cpu(*(const __be32 *)msg->body));
		return 0;
	default:
		return -EPROTO;
	}
}

static const struct flt_msg_handler test_handler = {
	.range	= FLT_MSG_TEST,
	.owner	= THIS_MODULE,
	.handle	= test_handle,
};

static int test_notify(struct notifier_block *nb, unsigned long event, void *data)
{
	struct flt_node *node = data;
	struct test_net *tn = test_net(node->net);

	switch (event) {
	case FLT_EVENT_NODE_UP:
		tn->expected[node->id % TEST_NODES] = 0;
		if (test_and_set_bit(node->id % TEST_NODES, tn->up))
			atomic_inc(&tn->early);
		atomic_inc(&tn->ups);
		break;
	case FLT_EVENT_NODE_DOWN:
		clear_bit(node->id % TEST_NODES, tn->up);
		atomic_inc(&tn->downs);
		break;
	case FLT_EVENT_NODE_REMOVED:
		if (test_bit(node->id % TEST_NODES, tn->up))
			atomic_inc(&tn->early);
		atomic_inc(&tn->removals);
		break;
	}
	return NOTIFY_OK;
}

static struct notifier_block test_notifier = { .notifier_call = test_notify };

/* Sends, waiting while the queue is full. */
static int test_send(struct test_net *tn, struct flt_node *node, u8 type, struct kvec *vec,
		     unsigned int nr, bool bh)
{
	int err;

	do {
		if (signal_pending(current))
			return -EINTR;
		if (bh) {
			local_bh_disable();
			err = flt_link_send(node, type, vec, nr, GFP_ATOMIC);
			local_bh_enable();
		} else {
			err = flt_link_send(node, type, vec, nr, GFP_KERNEL);
		}
		if (err == -ENOBUFS) {
			atomic_inc(&tn->full);
			usleep_range(200, 1000);
		}
	} while (err == -ENOBUFS);
	atomic_inc(err ? &tn->failed : &tn->sent);
	return err;
}

static int test_storm(struct test_net *tn, struct flt_node *node, u32 count, u32 max, bool bh)
{
	__be32 head[2];
	struct kvec vec[2] = { { .iov_base = head, .iov_len = sizeof(head) } };
	u32 i;
	int err = 0;

	if (max < 8 || max > FLT_MSG_MAX)
		return -EINVAL;
	for (i = 0; i < count && !err; i++) {
		head[0] = cpu_to_be32(i);
		head[1] = cpu_to_be32(max);
		vec[1].iov_base = test_pattern + i % 64;
		vec[1].iov_len = test_size(i, max) - sizeof(head);
		err = test_send(tn, node, TEST_NUMBERED, vec, 2, bh);
		if (!(i % 64))
			cond_resched();
	}
	return err;
}

static int test_call(struct test_net *tn, struct flt_node *node, u32 count, bool wait)
{
	u8 body[64] = {};
	struct kvec vec = { .iov_base = body, .iov_len = sizeof(body) };
	int i, want, err = 0;

	for (i = 0; i < count && !err; i++) {
		want = atomic_read(&tn->answers) + 1;
		err = test_send(tn, node, TEST_CALL, &vec, 1, false);
		if (!err && wait &&
		    !wait_event_timeout(tn->wait, atomic_read(&tn->answers) >= want, 5 * HZ))
			err = -ETIMEDOUT;
	}
	return err;
}

static int test_command(struct test_net *tn, char *line)
{
	char verb[16], name[FLT_NAME_MAX], flag[8] = "";
	u32 a = 0, b = 0;
	struct flt_node *node;
	struct kvec vec = {};
	__be32 ms;
	int n, err;

	n = sscanf(line, "%15s %31s %i %i %7s", verb, name, &a, &b, flag);
	if (n == 1 && !strcmp(verb, "reset")) {
		memset(&tn->numbers, 0, sizeof(tn->numbers));
		return 0;
	}
	if (n < 2)
		return -EINVAL;
	if (!strcmp(verb, "call") && sscanf(line, "%*s %*s %*i %7s", flag) != 1)
		*flag = 0;
	node = flt_node_by_name(tn->net, name);
	if (!node)
		return -ENOENT;
	if (!strcmp(verb, "storm")) {
		err = test_storm(tn, node, a, b, !strcmp(flag, "bh"));
	} else if (!strcmp(verb, "call")) {
		err = test_call(tn, node, a, !strcmp(flag, "wait"));
	} else if (!strcmp(verb, "sleep")) {
		ms = cpu_to_be32(a);
		vec = (struct kvec){ .iov_base = &ms, .iov_len = sizeof(ms) };
		err = test_send(tn, node, TEST_SLEEP, &vec, 1, false);
	} else if (!strcmp(verb, "refuse")) {
		err = test_send(tn, node, TEST_REFUSE, &vec, 0, false);
	} else if (!strcmp(verb, "type")) {
		vec = (struct kvec){ .iov_base = test_pattern, .iov_len = b };
		err = test_send(tn, node, a, &vec, 1, false);
	} else {
		err = -EINVAL;
	}
	flt_node_put(node);
	return err;
}

static int test_write(struct file *file, char *text, size_t size)
{
	struct seq_file *seq = file->private_data;

	return test_command(test_net(seq_file_single_net(seq)), strim(text));
}

static int test_show(struct seq_file *seq, void *v)
{
	struct test_net *tn = test_net(seq_file_single_net(seq));

#define SHOW(x) seq_printf(seq, #x " %d\n", atomic_read(&tn->x))
	SHOW(received);
	SHOW(disorder);
	SHOW(corrupt);
	SHOW(early);
	SHOW(calls);
	SHOW(answers);
	SHOW(sent);
	SHOW(full);
	SHOW(failed);
	SHOW(ups);
	SHOW(downs);
	SHOW(removals);
	return 0;
}

static int __net_init test_enter(struct net *net)
{
	struct test_net *tn = test_net(net);

	tn->net = net;
	init_waitqueue_head(&tn->wait);
	tn->up = bitmap_zalloc(TEST_NODES, GFP_KERNEL);
	tn->expected = kcalloc(TEST_NODES, sizeof(u32), GFP_KERNEL);
	if (!tn->up || !tn->expected ||
	    !proc_create_net_single_write(TEST_NAME, 0600, net->proc_net, test_show, test_write,
					  NULL)) {
		kfree(tn->expected);
		bitmap_free(tn->up);
		return -ENOMEM;
	}
	return 0;
}

static void __net_exit test_leave(struct net *net)
{
	struct test_net *tn = test_net(net);

	remove_proc_entry(TEST_NAME, net->proc_net);
	kfree(tn->expected);
	bitmap_free(tn->up);
}

static struct pernet_operations test_net_ops = {
	.init = test_enter,
	.exit = test_leave,
	.id   = &test_net_id,
	.size = sizeof(struct test_net),
};

static int __init test_init(void)
{
	int err = -ENOMEM;
	u32 i;

	test_pattern = kvmalloc(FLT_MSG_MAX + 64 + 8, GFP_KERNEL);
	if (!test_pattern)
		return -ENOMEM;
	for (i = 0; i < FLT_MSG_MAX + 64 + 8; i++)
		test_pattern[i] = i * 7 + (i >> 8) * 13;
	err = register_pernet_subsys(&test_net_ops);
	if (err)
		goto undo_pattern;
	err = flt_node_notifier_register(&test_notifier);
	if (err)
		goto undo_net;
	err = flt_msg_handler_register(&test_handler);
	if (err)
		goto undo_notifier;
	return 0;

undo_notifier:
	flt_node_notifier_unregister(&test_notifier);
undo_net:
	unregister_pernet_subsys(&test_net_ops);
undo_pattern:
	kvfree(test_pattern);
	return err;
}

static void __exit test_exit(void)
{
	flt_msg_handler_unregister(&test_handler);
	flt_node_notifier_unregister(&test_notifier);
	unregister_pernet_subsys(&test_net_ops);
	kvfree(test_pattern);
}

module_init(test_init);
module_exit(test_exit);

MODULE_DESCRIPTION("Test of flotilla's links");
MODULE_LICENSE("GPL");
MODULE_INFO(test, "Y");
