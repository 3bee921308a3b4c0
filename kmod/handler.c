// SPDX-License-Identifier: GPL-2.0
/* Who receives which messages. */

#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/srcu.h>
#include "counter.h"
#include "linkwork.h"

/*
 * By type / 16. Changed under flt_handler_lock; read under SRCU, since handlers
 * sleep: who unregisters waits for those that run.
 */
static const struct flt_msg_handler __rcu *flt_handlers[16];
static DEFINE_MUTEX(flt_handler_lock);
DEFINE_STATIC_SRCU(flt_handler_srcu);

/* Ranges that the protocol knows, whether their room is loaded here or not. */
static bool flt_range_known(u8 range)
{
	switch (range) {
	case FLT_MSG_HANDOFF:
	case FLT_MSG_CARD:
	case FLT_MSG_AFPA:
	case FLT_MSG_REDIRECT:
	case FLT_MSG_TEST:
		return true;
	default:
		return false;
	}
}

/**
 * flt_msg_handler_register - receive a range of message types
 * @handler: stays valid until unregistered
 *
 * Return: 0; -EINVAL for a range that does not exist; -EBUSY it is taken.
 */
int flt_msg_handler_register(const struct flt_msg_handler *handler)
{
	int err = 0;

	if (!flt_range_known(handler->range))
		return -EINVAL;
	if (handler->bulk && (!handler->bulk_head || handler->bulk_head > FLT_BULK_HEAD_MAX))
		return -EINVAL;
	mutex_lock(&flt_handler_lock);
	if (rcu_access_pointer(flt_handlers[handler->range / 16]))
		err = -EBUSY;
	else
		rcu_assign_pointer(flt_handlers[handler->range / 16], handler);
	mutex_unlock(&flt_handler_lock);
	return err;
}
EXPORT_SYMBOL_GPL(flt_msg_handler_register);

/**
 * flt_msg_handler_unregister - receive no more
 * @handler: registered
 *
 * On return no call of it is running or will start. Not from within a handler.
 */
void flt_msg_handler_unregister(const struct flt_msg_handler *handler)
{
	mutex_lock(&flt_handler_lock);
	if (!WARN_ON_ONCE(rcu_access_pointer(flt_handlers[handler->range / 16]) != handler))
		RCU_INIT_POINTER(flt_handlers[handler->range / 16], NULL);
	mutex_unlock(&flt_handler_lock);
	synchronize_srcu(&flt_handler_srcu);
}
EXPORT_SYMBOL_GPL(flt_msg_handler_unregister);

void flt_handler_missing(struct flt_chan *chan, u8 type)
{
	flt_count(chan->fn, FLT_MSG_NO_HANDLER);
	/* Who sends these waits for an answer. */
	if ((type & 0xf0) == FLT_MSG_AFPA && chan->features & FLT_FEATURE_CACHE)
		flt_chan_say_absent(chan, type);
}

void flt_handle_absent(struct flt_chan *chan, u8 type)
{
	const struct flt_msg_handler *handler;
	int idx;

	idx = srcu_read_lock(&flt_handler_srcu);
	handler = srcu_dereference(flt_handlers[type / 16], &flt_handler_srcu);
	if (handler && handler->absent)
		handler->absent(chan->link->node, type);
	srcu_read_unlock(&flt_handler_srcu, idx);
}

/* -EPROTONOSUPPORT: no such type; a known one without its room here is dropped. */
int flt_handle(struct flt_chan *chan, const struct flt_msg *msg)
{
	const struct flt_msg_handler *handler;
	int idx, err = 0;

	idx = srcu_read_lock(&flt_handler_srcu);
	handler = srcu_dereference(flt_handlers[msg->type / 16], &flt_handler_srcu);
	if (handler)
		err = handler->handle(chan->link->node, msg);
	else if (flt_range_known(msg->type & 0xf0))
		flt_handler_missing(chan, msg->type);
	else
		err = -EPROTONOSUPPORT;
	srcu_read_unlock(&flt_handler_srcu, idx);
	return err;
}

int flt_handler_takes(u8 type)
{
	if (rcu_access_pointer(flt_handlers[type / 16]))
		return 1;
	return flt_range_known(type & 0xf0) ? 0 : -EPROTONOSUPPORT;
}

u32 flt_handler_bulk_head(u8 type)
{
	const struct flt_msg_handler *handler;
	u32 bytes = 0;
	int idx;

	if (type < 16)
		return 0;
	idx = srcu_read_lock(&flt_handler_srcu);
	handler = srcu_dereference(flt_handlers[type / 16], &flt_handler_srcu);
	if (handler && handler->bulk & BIT(type % 16))
		bytes = handler->bulk_head;
	srcu_read_unlock(&flt_handler_srcu, idx);
	return bytes;
}

/*
 * The handler stays until its data has come or the channel has ended, whichever
 * is first: who unregisters waits no longer than a silent link lives.
 */
int flt_handle_sink(struct flt_chan *chan, const struct flt_msg *msg)
{
	const struct flt_msg_handler *handler;
	int idx, err;

	idx = srcu_down_read(&flt_handler_srcu);
	handler = srcu_dereference_check(flt_handlers[msg->type / 16], &flt_handler_srcu, true);
	if (!handler || !(handler->bulk & BIT(msg->type % 16))) {
		/* Unregistered a moment ago: the data goes nowhere. */
		srcu_up_read(&flt_handler_srcu, idx);
		flt_count(chan->fn, FLT_MSG_NO_HANDLER);
		return 0;
	}
	err = handler->sink(chan->link->node, msg, &chan->sink);
	if (err) {
		srcu_up_read(&flt_handler_srcu, idx);
		return err;
	}
	chan->sinker = handler;
	chan->sink_srcu = idx;
	__release(&flt_handler_srcu);	/* for sparse: flt_handle_sunk() gives it back */
	return 0;
}

int flt_handle_sunk(struct flt_chan *chan, int err)
{
	const struct flt_msg_handler *handler = chan->sinker;

	if (!handler)
		return 0;
	chan->sinker = NULL;
	err = handler->sunk(chan->link->node, &chan->sink, err);
	__acquire(&flt_handler_srcu);	/* for sparse: flt_handle_sink() took it */
	srcu_up_read(&flt_handler_srcu, chan->sink_srcu);
	return err;
}
