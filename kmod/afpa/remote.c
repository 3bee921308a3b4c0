// SPDX-License-Identifier: GPL-2.0
/* Commands of this node's programs for the cache of another node. */

#include <linux/completion.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "kmod/node.h"
#include "kmod/service.h"

#include "calls.h"
#include "counter.h"
#include "net.h"
#include "remote.h"
#include "trace.h"

static_assert(AFPA_NODE_NAME == FLT_NAME_MAX);

/* Errors that a node may tell of; no other has a meaning here. */
#define AFPA_ERROR_MAX	EHWPOISON

/**
 * struct afpa_ask - a command that waits for its answer
 * @list:   in its namespace's, under that one's lock, until the answer or an error is there
 * @id:     number
 * @node:   that has to answer; referenced
 * @done:   @err, or @len bytes of @answer are there
 * @err:    why there is no answer
 * @len:    bytes
 * @answer: AFPA_ANSWER_MAX bytes of room
 */
struct afpa_ask {
	struct list_head list;
	u64 id;
	struct flt_node *node;
	struct completion done;
	int err;
	u32 len;
	struct afpa_msg *answer;
};

struct afpa_far *afpa_far_make(struct afpa_net *an, const struct afpa_node *args)
{
	struct afpa_far *far;
	struct flt_node *node;

	if (args->flags)
		return ERR_PTR(-EOPNOTSUPP);
	if (args->pad || args->timeout_ms > AFPA_REMOTE_TIMEOUT_MAX ||
	    strnlen(args->name, sizeof(args->name)) == sizeof(args->name))
		return ERR_PTR(-EINVAL);
	node = flt_node_by_name(an->net, args->name);
	if (!node)
		return ERR_PTR(-ENODEV);
	flt_node_put(node);
	far = kzalloc(sizeof(*far), GFP_KERNEL_ACCOUNT);
	if (!far)
		return ERR_PTR(-ENOMEM);
	far->timeout_ms = args->timeout_ms ?: AFPA_REMOTE_TIMEOUT;
	strscpy(far->name, args->name);
	return far;
}

static int afpa_ask_begin(struct afpa_net *an, struct afpa_ask *ask)
{
	struct afpa_remote_net *rn = &an->remote;
	int err = 0;

	init_completion(&ask->done);
	spin_lock(&rn->lock);
	if (rn->nr_asks < AFPA_ASKS_MAX) {
		rn->nr_asks++;
		ask->id = ++rn->last_ask;
		list_add_tail(&ask->list, &rn->asks);
	} else {
		err = -EBUSY;
	}
	spin_unlock(&rn->lock);
	return err;
}

static void afpa_ask_end(struct afpa_net *an, struct afpa_ask *ask)
{
	struct afpa_remote_net *rn = &an->remote;

	spin_lock(&rn->lock);
	list_del_init(&ask->list);
	rn->nr_asks--;
	spin_unlock(&rn->lock);
}

/* What ends it is the first that comes. */
static void afpa_ask_done(struct afpa_net *an, struct afpa_ask *ask, int err)
{
	lockdep_assert_held(&an->remote.lock);
	list_del_init(&ask->list);
	ask->err = err;
	complete(&ask->done);
}

int afpa_remote_answer(struct afpa_net *an, struct flt_node *node, const struct flt_msg *msg)
{
	struct afpa_remote_net *rn = &an->remote;
	const struct afpa_msg *head = msg->body;
	struct afpa_ask *ask;

	if (msg->len > AFPA_ANSWER_MAX || !afpa_wire_is_sound(msg))
		return -EBADMSG;
	spin_lock(&rn->lock);
	list_for_each_entry(ask, &rn->asks, list) {
		if (ask->id != be64_to_cpu(head->id) || ask->node != node)
			continue;
		memcpy(ask->answer, head, msg->len);
		ask->len = msg->len;
		afpa_ask_done(an, ask, 0);
		break;
	}
	spin_unlock(&rn->lock);
	return 0;
}

void afpa_remote_end(struct afpa_net *an, const struct flt_node *node, int err)
{
	struct afpa_remote_net *rn = &an->remote;
	struct afpa_ask *ask, *next;

	spin_lock(&rn->lock);
	list_for_each_entry_safe(ask, next, &rn->asks, list)
		if (ask->node == node)
			afpa_ask_done(an, ask, err);
	spin_unlock(&rn->lock);
}

static int afpa_remote_check(struct afpa_net *an, const struct flt_node *node)
{
	if (!flt_node_is_up(node))
		return -ENOTCONN;
	if (!(READ_ONCE(node->features) & FLT_FEATURE_CACHE))
		return -EPROTONOSUPPORT;
	if (!flt_node_is_proven(node) && !flt_service_insecure(an->net))
		return -ENOKEY;
	return 0;
}

/* Of all texts that go to the node. */
static int afpa_remote_size(const struct afpa_call *call, const void *args, u32 *size)
{
	const struct afpa_text *text;

	for (text = call->texts; text->most; text++) {
		u64 len = afpa_wire_length(args, text);

		if (!(text->way & AFPA_FIELD_IN))
			continue;
		if (len > text->most)
			return text->most == AFPA_REMOTE_BODY_MAX ? -EMSGSIZE : -EINVAL;
		*size += len;
	}
	return 0;
}

/* The message, for kvfree(). */
static struct afpa_msg *afpa_remote_message(const struct afpa_call *call, void *args, u32 *size)
{
	__be64 value[AFPA_VALUES_MAX];
	const struct afpa_text *text;
	struct afpa_msg *msg;
	unsigned int nr;
	void *at;
	int err;

	nr = afpa_wire_pack(call, args, AFPA_FIELD_IN, value);
	*size = struct_size(msg, value, nr);
	err = afpa_remote_size(call, args, size);
	if (err)
		return ERR_PTR(err);
	msg = kvmalloc(*size, GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	if (!msg)
		return ERR_PTR(-ENOMEM);
	*msg = (struct afpa_msg){ .number = call->number, .nr = nr };
	memcpy(msg->value, value, nr * sizeof(value[0]));
	at = &msg->value[nr];
	for (text = call->texts; text->most; text++) {
		u64 len = afpa_wire_length(args, text);

		if (!(text->way & AFPA_FIELD_IN))
			continue;
		err = afpa_copy_in(at, *afpa_wire_address(args, text), len, true);
		if (err) {
			kvfree(msg);
			return ERR_PTR(err);
		}
		at += len;
	}
	return msg;
}

/* The link is given time to get rid of what it has. */
static int afpa_remote_send(struct afpa_ask *ask, struct afpa_msg *msg, u32 size,
			    unsigned long until)
{
	struct kvec vec = { .iov_base = msg, .iov_len = size };
	int err;

	msg->id = cpu_to_be64(ask->id);
	while (true) {
		err = flt_link_send(ask->node, AFPA_MSG_ASK, &vec, 1, GFP_KERNEL);
		if (err != -ENOBUFS || time_after_eq(jiffies, until))
			return err;
		if (schedule_timeout_interruptible(msecs_to_jiffies(20)) && signal_pending(current))
			return -EINTR;
	}
}

static int afpa_remote_wait(struct afpa_ask *ask, unsigned long until)
{
	long left = max_t(long, until - jiffies, 1);

	left = wait_for_completion_interruptible_timeout(&ask->done, left);
	if (left < 0)
		return -EINTR;
	return left ? 0 : -ETIMEDOUT;
}

/* The texts of an answer: no longer than there is room for. */
static int afpa_remote_texts(const struct afpa_call *call, void *args, const u64 *room,
			     const void *at, u32 left)
{
	const struct afpa_text *text;
	int err;

	for (text = call->texts; text->most; text++, room++) {
		u64 len = afpa_wire_length(args, text);

		if (!(text->way & AFPA_FIELD_OUT))
			continue;
		if (len > *room || len > left)
			return -EPROTO;
		err = afpa_copy_out(*afpa_wire_address(args, text), at, len, true);
		if (err)
			return err;
		at += len;
		left -= len;
	}
	return left ? -EPROTO : 0;
}

static int afpa_remote_take(const struct afpa_call *call, void *args, const struct afpa_ask *ask)
{
	const struct afpa_msg *msg = ask->answer;
	u32 error = be32_to_cpu(msg->error), head = struct_size(msg, value, msg->nr);
	u64 room[AFPA_TEXTS_MAX] = {};
	unsigned int i;

	if (error > AFPA_ERROR_MAX)
		return -EREMOTEIO;
	if (!afpa_call_answers(call, -(int)error))
		return -(int)error;
	for (i = 0; call->texts[i].most; i++)
		room[i] = afpa_wire_length(args, &call->texts[i]);
	if (afpa_wire_unpack(call, args, AFPA_FIELD_OUT, msg->value, msg->nr))
		return -EPROTO;
	if (error)
		return -(int)error;
	return afpa_remote_texts(call, args, room, (void *)msg + head, ask->len - head);
}

static int afpa_remote_exchange(struct afpa_net *an, struct afpa_ask *ask,
				const struct afpa_call *call, void *args, unsigned long until)
{
	struct afpa_msg *msg;
	u32 size;
	int err;

	msg = afpa_remote_message(call, args, &size);
	if (IS_ERR(msg))
		return PTR_ERR(msg);
	err = afpa_ask_begin(an, ask);
	if (!err) {
		err = afpa_remote_send(ask, msg, size, until);
		kvfree(msg);
		msg = NULL;
		err = err ?: afpa_remote_wait(ask, until);
		/* Nobody writes to it from here on. */
		afpa_ask_end(an, ask);
		err = err ?: ask->err;
	}
	kvfree(msg);
	return err ?: afpa_remote_take(call, args, ask);
}

int afpa_remote_call(struct afpa_net *an, const struct afpa_far *far, const struct afpa_call *call,
		     void *args)
{
	unsigned long until = jiffies + msecs_to_jiffies(far->timeout_ms);
	struct afpa_ask ask = {};
	int err;

	if (call->cmd == AFPA_IOC_PUT && ((struct afpa_put *)args)->flags & AFPA_PUT_FILE)
		return -EOPNOTSUPP;
	ask.node = flt_node_by_name(an->net, far->name);
	if (!ask.node)
		return -ENODEV;
	err = afpa_remote_check(an, ask.node);
	if (!err) {
		ask.answer = kmalloc(AFPA_ANSWER_MAX, GFP_KERNEL_ACCOUNT);
		err = ask.answer ? afpa_remote_exchange(an, &ask, call, args, until) : -ENOMEM;
		kfree(ask.answer);
	}
	afpa_count(an, AFPA_STAT_REMOTE_ASKED);
	trace_afpa_remote(far->name, call->number, true, err);
	flt_node_put(ask.node);
	return err;
}

/* --- messages --- */

static int afpa_remote_handle(struct flt_node *node, const struct flt_msg *msg)
{
	struct afpa_net *an = afpa_net(node->net);
	int err = 0;

	down_read(&an->remote.live);
	if (an->remote.going)
		err = 0;
	else if (msg->type == AFPA_MSG_ASK)
		err = afpa_serve_ask(an, node, msg);
	else if (msg->type == AFPA_MSG_ANSWER)
		err = afpa_remote_answer(an, node, msg);
	up_read(&an->remote.live);
	return err;	/* other types are a newer peer's */
}

static void afpa_remote_absent(struct flt_node *node, u8 type)
{
	struct afpa_net *an = afpa_net(node->net);

	if (type == AFPA_MSG_ASK)
		afpa_remote_end(an, node, -ENXIO);
}

static const struct flt_msg_handler afpa_remote_handler = {
	.range = FLT_MSG_AFPA,
	.owner = THIS_MODULE,
	.handle = afpa_remote_handle,
	.absent = afpa_remote_absent,
};

static int afpa_remote_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct flt_node *node = data;

	if (event == FLT_EVENT_NODE_DOWN || event == FLT_EVENT_NODE_REMOVED)
		afpa_remote_end(afpa_net(node->net), node, -ENOTCONN);
	return NOTIFY_DONE;
}

static struct notifier_block afpa_remote_events = { .notifier_call = afpa_remote_event };

void afpa_remote_net_init(struct afpa_net *an)
{
	struct afpa_remote_net *rn = &an->remote;

	init_rwsem(&rn->live);
	spin_lock_init(&rn->lock);
	INIT_LIST_HEAD(&rn->asks);
	INIT_LIST_HEAD(&rn->jobs);
	INIT_WORK(&rn->serve, afpa_serve_work);
}

void afpa_remote_net_exit(struct afpa_net *an)
{
	struct afpa_remote_net *rn = &an->remote;

	down_write(&rn->live);
	rn->going = true;
	up_write(&rn->live);
	cancel_work_sync(&rn->serve);
	afpa_serve_drop(an);
}

int afpa_remote_register(void)
{
	int err;

	err = flt_node_notifier_register(&afpa_remote_events);
	if (err)
		return err;
	err = flt_msg_handler_register(&afpa_remote_handler);
	if (err)
		flt_node_notifier_unregister(&afpa_remote_events);
	return err;
}

void afpa_remote_unregister(void)
{
	flt_msg_handler_unregister(&afpa_remote_handler);
	flt_node_notifier_unregister(&afpa_remote_events);
}
