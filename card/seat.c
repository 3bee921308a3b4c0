// SPDX-License-Identifier: GPL-2.0
/*
 * One writer a disk. A file system believes that what it has in memory is what is on the
 * disk: a second writer destroys it without an error anywhere.
 *
 * A writer has the place until it detaches. Being cut off does not end it: the node may
 * still have data that was written there and is not here yet, and comes back. Its place
 * may be taken by force (steal), and without when it is proven gone: the node was started
 * anew, or attaches anew, which it does only without the old device.
 *
 * Whose place was taken is fenced, which is for ever: even when nobody writes any more,
 * what it has in memory is older than what is on the disk. So each attachment has a number,
 * which it repeats whenever it comes back, and only the last one may go on. The new writer
 * begins when all that was accepted from the old one has been done.
 *
 * Places are kept by identity, so that an export which is made anew begins with the writer
 * that it had, under whatever name. After a restart of this node they are forgotten: then
 * the first to come has the place, and of those who come back with numbers of an earlier
 * life the largest is right, unless somebody was given the place in this one. (Numbers of
 * two lives are compared only with each other: clocks may go back.) Of the numbers of this
 * life the last one is good, for the node that it was given to; no other is believed.
 */

#include <linux/random.h>
#include <linux/slab.h>

#include "counter.h"
#include "seat.h"

void card_writer_put(struct card_writer *writer)
{
	if (writer && refcount_dec_and_test(&writer->ref))
		kfree(writer);
}

struct card_seat *card_seat_get(struct card_net *cn, const uuid_t *uuid)
{
	struct card_seat *seat, *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);

	if (!fresh)
		return NULL;
	uuid_copy(&fresh->uuid, uuid);
	fresh->life = get_random_u64();
	mutex_lock(&cn->seats_lock);
	list_for_each_entry(seat, &cn->seats, list) {
		if (uuid_equal(&seat->uuid, uuid)) {
			kfree(fresh);
			goto found;
		}
	}
	seat = fresh;
	list_add(&seat->list, &cn->seats);
found:
	seat->users++;
	mutex_unlock(&cn->seats_lock);
	return seat;
}

static void card_seat_free(struct card_seat *seat)
{
	card_writer_put(seat->writer);
	card_writer_put(seat->past);
	list_del(&seat->list);
	kfree(seat);
}

void card_seat_put(struct card_net *cn, struct card_seat *seat)
{
	if (!seat)
		return;
	mutex_lock(&cn->seats_lock);
	/* Who was ever fenced has to stay so. */
	if (!--seat->users && !seat->grant)
		card_seat_free(seat);
	mutex_unlock(&cn->seats_lock);
}

void card_seat_exit(struct card_net *cn)
{
	struct card_seat *seat, *next;

	list_for_each_entry_safe(seat, next, &cn->seats, list)
		card_seat_free(seat);
}

/* Nothing of @seat's writer is begun from here on; who comes next waits for what was. */
static void card_writer_fence(struct card_seat *seat)
{
	struct card_writer *old = seat->writer;

	WRITE_ONCE(old->fenced, true);
	smp_mb();	/* pairs with card_writer_enter() */
	seat->writer = NULL;
	/* Of several the first is waited for: the others have not begun yet. */
	if (seat->past)
		card_writer_put(old);
	else
		seat->past = old;
}

/* Is the attachment that has the place no more, as far as can be known from here. */
static bool card_writer_gone(struct card_net *cn, const struct card_writer *writer)
{
	struct flt_node *node = flt_node_by_name(cn->net, writer->name);
	bool gone;

	/* A node that is removed has given up its places: see card_seat_forget(). */
	if (!node)
		return false;
	gone = flt_node_is_up(node) && READ_ONCE(node->instance) != writer->instance;
	flt_node_put(node);
	return gone;
}

/* May the place be taken from who has it. */
static int card_seat_judge(struct card_net *cn, const struct card_seat *seat,
			   const struct flt_node *node, u64 grant, u64 life, bool steal)
{
	const struct card_writer *writer = seat->writer;

	if (grant && grant == seat->grant && !strcmp(seat->name, node->name))
		return 0;
	/* Given to somebody else, or never, unless it is of an earlier life. */
	if (grant && (seat->fresh || life == seat->life || grant <= seat->grant))
		return -EKEYREVOKED;
	if (grant)
		return 0;
	if (!writer || steal || !strcmp(writer->name, node->name) || card_writer_gone(cn, writer))
		return 0;
	return -EBUSY;
}

static struct card_writer *card_writer_new(struct card_seat *seat, const struct flt_node *node,
					   u64 grant)
{
	struct card_writer *writer = kzalloc(sizeof(*writer), GFP_NOIO);

	if (!writer)
		return NULL;
	seat->fresh |= !grant;
	seat->grant = grant ?: max_t(u64, ktime_get_real_ns(), seat->grant + 1);
	strscpy(seat->name, node->name);
	refcount_set(&writer->ref, 1);
	writer->grant = seat->grant;
	writer->instance = READ_ONCE(node->instance);
	strscpy(writer->name, node->name);
	return writer;
}

struct card_writer *card_seat_take(struct card_net *cn, struct card_seat *seat,
				   const struct flt_node *node, u64 grant, u64 *life, bool steal,
				   char *holder)
{
	struct card_writer *writer;
	int err;

	mutex_lock(&cn->seats_lock);
	err = card_seat_judge(cn, seat, node, grant, *life, steal);
	writer = seat->writer;
	if (err == -EBUSY)
		strscpy(holder, writer->name, FLT_NAME_MAX);
	if (err)
		goto out;
	if (writer && (writer->grant != grant || strcmp(writer->name, node->name))) {
		if (strcmp(writer->name, node->name))
			card_count(cn, CARD_STAT_STOLEN);
		card_writer_fence(seat);
		writer = NULL;
	}
	if (!writer) {
		writer = card_writer_new(seat, node, grant);
		seat->writer = writer;
		err = writer ? 0 : -ENOMEM;
	}
	if (!err && seat->past && atomic_read(&seat->past->busy))
		err = -EAGAIN;
	if (err)
		goto out;
	card_writer_put(seat->past);
	seat->past = NULL;
	refcount_inc(&writer->ref);
	*life = seat->life;
out:
	mutex_unlock(&cn->seats_lock);
	return err ? ERR_PTR(err) : writer;
}

void card_seat_renew(struct card_net *cn, struct card_seat *seat)
{
	mutex_lock(&cn->seats_lock);
	seat->life = get_random_u64();
	mutex_unlock(&cn->seats_lock);
}

void card_seat_leave(struct card_net *cn, struct card_seat *seat, struct card_writer *writer)
{
	mutex_lock(&cn->seats_lock);
	if (writer && seat->writer == writer)
		card_writer_fence(seat);
	mutex_unlock(&cn->seats_lock);
}

void card_seat_forget(struct card_net *cn, const struct flt_node *node)
{
	struct card_seat *seat;

	mutex_lock(&cn->seats_lock);
	list_for_each_entry(seat, &cn->seats, list)
		if (seat->writer && !strcmp(seat->writer->name, node->name))
			card_writer_fence(seat);
	mutex_unlock(&cn->seats_lock);
}

void card_seat_holder(struct card_net *cn, struct card_seat *seat, char *holder)
{
	holder[0] = '\0';
	if (!seat)
		return;
	mutex_lock(&cn->seats_lock);
	if (seat->writer)
		strscpy(holder, seat->writer->name, FLT_NAME_MAX);
	mutex_unlock(&cn->seats_lock);
}
