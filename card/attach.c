// SPDX-License-Identifier: GPL-2.0
/*
 * Attaching. One work item for each disk asks the exporter for it, until it answers, and
 * again whenever the link or the exporter was lost. Meanwhile requests wait: without end, or
 * as long as the disk was told to (fail_fast, retries); who detaches by force ends them.
 */

#include <linux/blkdev.h>
#include <linux/log2.h>
#include <linux/slab.h>

#include "attach.h"
#include "counter.h"
#include "disk.h"
#include "request.h"
#include "trace.h"

#define CARD_ATTACH_AGAIN	HZ

static struct workqueue_struct *card_attach_wq;
static struct workqueue_struct *card_publish_wq;

/* From here on the disk's patience counts. */
static void card_attach_lost(struct card_disk *disk)
{
	u32 seconds = READ_ONCE(disk->spec.fail_fast);

	card_count(disk->cn, CARD_STAT_LOST);
	if (seconds)
		mod_delayed_work(card_attach_wq, &disk->give_up, seconds * HZ);
}

static void card_attach_give_up_work(struct work_struct *work)
{
	struct card_disk *disk = container_of(to_delayed_work(work), struct card_disk, give_up);
	bool failing;

	spin_lock_bh(&disk->lock);
	failing = disk->state != CARD_STATE_LIVE && disk->state != CARD_STATE_DEAD;
	if (failing)
		WRITE_ONCE(disk->failing, true);
	spin_unlock_bh(&disk->lock);
	if (!failing || !READ_ONCE(disk->gendisk))
		return;
	card_count(disk->cn, CARD_STAT_GIVEN_UP);
	pr_warn("card%d: %s has been away for %u seconds: requests fail until it is back\n",
		disk->index, disk->spec.node, READ_ONCE(disk->spec.fail_fast));
	card_attach_settle(disk);
}

/* True: it is in this state now and was in another one. */
static bool card_attach_enter(struct card_disk *disk, enum card_state from, enum card_state to,
			      int why)
{
	bool changed;

	spin_lock_bh(&disk->lock);
	changed = disk->state == from;
	if (changed) {
		WRITE_ONCE(disk->state, to);
		WRITE_ONCE(disk->why, why);
	}
	spin_unlock_bh(&disk->lock);
	if (changed)
		trace_card_state(disk, from, to, why);
	return changed;
}

/* What we have of the exporter, or were given and do not want, is given back. */
static void card_attach_part(struct card_disk *disk, u32 export, u64 epoch)
{
	struct card_wire_detach bye = {
		.epoch = cpu_to_be64(epoch),
		.export = cpu_to_be32(export),
	};
	struct kvec vec = { .iov_base = &bye, .iov_len = sizeof(bye) };
	struct flt_node *node;

	spin_lock_bh(&disk->lock);
	node = flt_node_get(disk->node);
	spin_unlock_bh(&disk->lock);
	flt_link_send(node, CARD_MSG_DETACH, &vec, 1, GFP_NOIO);
	flt_node_put(node);
}

static void card_attach_work(struct work_struct *work)
{
	struct card_disk *disk = container_of(to_delayed_work(work), struct card_disk, attach);
	u32 flags = disk->spec.flags & (CARD_FLAG_WRITE | CARD_FLAG_SHARED | CARD_FLAG_STEAL);
	struct card_wire_attach ask = {
		.version = cpu_to_be32(CARD_WIRE_VERSION),
		.disk = cpu_to_be32(disk->id),
	};
	struct kvec vec = { .iov_base = &ask, .iov_len = sizeof(ask) };
	struct flt_node *node;
	bool wanted;

	spin_lock_bh(&disk->lock);
	wanted = !disk->fenced && (disk->state == CARD_STATE_WAITING ||
				   disk->state == CARD_STATE_REFUSED);
	/* Others are put out once: who was given the place later keeps it. */
	if (disk->known)
		flags &= ~CARD_FLAG_STEAL;
	ask.cookie = cpu_to_be32(++disk->cookie);
	ask.grant = cpu_to_be64(disk->grant);
	ask.life = cpu_to_be64(disk->unflushed.life);
	export_uuid(ask.uuid, disk->known ? &disk->geo.uuid : &disk->spec.uuid);
	node = flt_node_get(disk->node);
	spin_unlock_bh(&disk->lock);
	if (wanted) {
		ask.flags = cpu_to_be32(flags);
		strscpy_pad(ask.name, disk->spec.export, sizeof(ask.name));
		flt_link_send(node, CARD_MSG_ATTACH, &vec, 1, GFP_NOIO);
		queue_delayed_work(card_attach_wq, &disk->attach, CARD_ATTACH_AGAIN);
	}
	flt_node_put(node);
}

/* What became of the disk, for all that wait for it. */
static void card_attach_settle_work(struct work_struct *work)
{
	struct card_disk *disk = container_of(work, struct card_disk, settle);
	struct gendisk *gendisk = READ_ONCE(disk->gendisk);

	if (card_disk_fate(disk)) {
		/* Who is just giving us a request looks into it yet. */
		if (gendisk)
			blk_mq_quiesce_queue(gendisk->queue);
		card_request_fail_all(disk);
		if (gendisk)
			blk_mq_unquiesce_queue(gendisk->queue);
		return;
	}
	/* It may have grown; before @gendisk is there nothing is in flight either. */
	if (READ_ONCE(disk->ready))
		set_capacity_and_notify(gendisk, READ_ONCE(disk->geo.sectors));
	card_request_resend_all(disk);
}

/* Who takes part. The exporter's own name is what we call it. */
static int card_members_take(struct card_geometry *geo, const char *exporter,
			     const struct card_wire_attached *answer)
{
	u16 nr = be16_to_cpu(answer->nr_nodes), place = be16_to_cpu(answer->place), i;
	struct card_members *members;

	if (memchr_inv(answer->zero, 0, sizeof(answer->zero)) ||
	    answer->home_shift > CARD_HOME_SHIFT_MAX)
		return -EPROTO;
	if (!strcmp(geo->policy, "none"))
		return nr || place ? -EPROTO : 0;
	if (!nr || nr > CARD_NODES_MAX || !place || place > nr)
		return -EPROTO;
	members = kzalloc(sizeof(*members), GFP_NOIO);
	if (!members)
		return -ENOMEM;
	members->nr = nr + 1;
	members->place = place;
	members->home_shift = answer->home_shift;
	strscpy(members->name[0], exporter, FLT_NAME_MAX);
	for (i = 0; i < nr; i++)
		strscpy(members->name[i + 1], answer->nodes[i], FLT_NAME_MAX);
	geo->members = members;
	return 0;
}

static int card_geometry_take(struct card_geometry *geo, const struct card_wire_attached *answer)
{
	import_uuid(&geo->uuid, answer->uuid);
	geo->sectors = be64_to_cpu(answer->sectors);
	geo->block = be32_to_cpu(answer->block);
	geo->phys_block = be32_to_cpu(answer->phys_block);
	geo->features = be32_to_cpu(answer->features);
	geo->readahead = min_t(u32, be32_to_cpu(answer->readahead), SZ_64M >> PAGE_SHIFT);
	memcpy(geo->policy, answer->policy, sizeof(geo->policy));
	if (!is_power_of_2(geo->block) || geo->block < SECTOR_SIZE || geo->block > PAGE_SIZE ||
	    !is_power_of_2(geo->phys_block) || geo->phys_block < geo->block ||
	    geo->phys_block > SZ_1M || !geo->sectors || geo->sectors > LLONG_MAX >> SECTOR_SHIFT ||
	    geo->sectors % (geo->block >> SECTOR_SHIFT) ||
	    strnlen(geo->policy, sizeof(geo->policy)) == sizeof(geo->policy) ||
	    uuid_is_null(&geo->uuid))
		return -EPROTO;
	return 0;
}

/*
 * Is it the disk that it was, or has to be. Numbers that may change without harm are not
 * compared; a disk may grow, but what was there must be there.
 */
static bool card_geometry_same(const struct card_disk *disk, const struct card_geometry *now)
{
	const struct card_geometry *was = &disk->geo;
	const struct card_cache *cache = disk->cache;

	if (!disk->known)
		return uuid_is_null(&disk->spec.uuid) || uuid_equal(&disk->spec.uuid, &now->uuid);
	return uuid_equal(&was->uuid, &now->uuid) && was->block == now->block &&
	       (cache ? was->sectors == now->sectors : was->sectors <= now->sectors) &&
	       !strcmp(was->policy, now->policy) &&
	       (!cache || !memcmp(now->members, cache->members, sizeof(*now->members)));
}

/* An administrator has to put this right, and has to hear of it once. */
static void card_attach_warn(const struct card_disk *disk, int err, const u8 *uuid)
{
	if (!disk->gendisk)
		return;
	if (!err) {
		pr_warn("card%d: %s was started anew, and writes that it had acknowledged may be lost: flushes fail until nobody has the disk open\n",
			disk->index, disk->spec.node);
		return;
	}
	if (err == -EKEYREVOKED) {
		pr_warn("card%d: another node has taken our place as the writer of %s of %s: nothing is read or written until it is attached anew\n",
			disk->index, disk->spec.export, disk->spec.node);
		return;
	}
	pr_warn("card%d: what %s exports as %s is another disk now (it is %pUb, this one %pUb): nothing is read or written\n",
		disk->index, disk->spec.node, disk->spec.export, uuid,
		&disk->geo.uuid);
}

void card_attach_answered(struct card_disk *disk, const struct card_wire_attached *answer)
{
	int err = -(int)be32_to_cpu(answer->status);
	struct card_geometry geo = {};
	bool live = false, barred = false, unwanted = false, lost = false;

	if (!err)
		err = card_geometry_take(&geo, answer);
	if (!err)
		err = card_members_take(&geo, disk->spec.node, answer);
	spin_lock_bh(&disk->lock);
	if (err == -EAGAIN) {
		/* Not yet: it is asked for again. */
		WRITE_ONCE(disk->why, EAGAIN);
	} else if (be32_to_cpu(answer->cookie) == disk->cookie &&
	    (disk->state == CARD_STATE_WAITING || disk->state == CARD_STATE_REFUSED)) {
		if (!err && !card_geometry_same(disk, &geo))
			err = -EUCLEAN;
		live = !err;
		if (live && !disk->known) {
			disk->geo = geo;
			geo.members = NULL;
			disk->known = true;
		} else if (live) {
			WRITE_ONCE(disk->geo.sectors, geo.sectors);
		}
		if (live) {
			WRITE_ONCE(disk->export, be32_to_cpu(answer->export));
			WRITE_ONCE(disk->epoch, be64_to_cpu(answer->epoch));
			disk->grant = be64_to_cpu(answer->grant);
			WRITE_ONCE(disk->failing, false);
			WRITE_ONCE(disk->live_since, ktime_get_ns());
			/* Here: who loses it again sets it again after this. */
			cancel_delayed_work(&disk->give_up);
			lost = card_unflushed_attached(disk, be64_to_cpu(answer->life));
		}
		WRITE_ONCE(disk->why, -err);
		unwanted = !live && !answer->status;
		if (err == -EKEYREVOKED)
			disk->fenced = true;
		if (err == -EBUSY)
			strscpy(disk->holder, answer->holder, sizeof(disk->holder));
		barred = !disk->barred && (err == -EUCLEAN || err == -EKEYREVOKED);
		WRITE_ONCE(disk->barred, err == -EUCLEAN || err == -EKEYREVOKED);
		if (live && disk->cache)
			card_cache_address(disk->cache, disk->export, disk->epoch);
		WRITE_ONCE(disk->state, live ? CARD_STATE_LIVE : CARD_STATE_REFUSED);
		complete(&disk->answered);
	}
	spin_unlock_bh(&disk->lock);
	kfree(geo.members);
	trace_card_state(disk, CARD_STATE_WAITING, live ? CARD_STATE_LIVE : CARD_STATE_REFUSED,
			 -err);
	card_count(disk->cn, live ? CARD_STAT_ATTACHED : CARD_STAT_REFUSED);
	if (unwanted)
		card_attach_part(disk, be32_to_cpu(answer->export), be64_to_cpu(answer->epoch));
	if (barred || lost)
		card_attach_warn(disk, err, answer->uuid);
	if (live || barred)
		card_attach_settle(disk);
}

void card_attach_settle(struct card_disk *disk)
{
	queue_work(card_attach_wq, &disk->settle);
}

void card_attach_stale(struct card_disk *disk, const struct card_wire_block *head)
{
	bool current_one;

	/* Of several requests in flight the last may hear of it when all is well again. */
	spin_lock_bh(&disk->lock);
	current_one = disk->export == be32_to_cpu(head->export) &&
		      disk->epoch == be64_to_cpu(head->epoch);
	spin_unlock_bh(&disk->lock);
	if (current_one && card_attach_enter(disk, CARD_STATE_LIVE, CARD_STATE_WAITING, ESTALE)) {
		card_attach_lost(disk);
		mod_delayed_work(card_attach_wq, &disk->attach, 0);
	}
}

/* The disk that has this address at the node, referenced. */
static struct card_disk *card_attach_at(struct card_net *cn, const struct flt_node *node,
					u32 export, u64 epoch)
{
	struct card_disk *disk, *found = NULL;
	unsigned long id;

	rcu_read_lock();
	xa_for_each(&cn->disks, id, disk) {
		if (READ_ONCE(disk->node) == node && READ_ONCE(disk->export) == export &&
		    READ_ONCE(disk->epoch) == epoch && kref_get_unless_zero(&disk->ref)) {
			found = disk;
			break;
		}
	}
	rcu_read_unlock();
	return found;
}

void card_attach_ended(struct card_net *cn, const struct flt_node *node,
		       const struct card_wire_detach *bye)
{
	u32 export = be32_to_cpu(bye->export);
	u64 epoch = be64_to_cpu(bye->epoch);
	struct card_disk *disk = card_attach_at(cn, node, export, epoch);
	bool lost;

	if (!disk)
		return;
	spin_lock_bh(&disk->lock);
	lost = disk->state == CARD_STATE_LIVE && disk->export == export && disk->epoch == epoch;
	if (lost) {
		WRITE_ONCE(disk->state, CARD_STATE_WAITING);
		WRITE_ONCE(disk->why, ESTALE);
		if (disk->cache)
			card_cache_address(disk->cache, 0, 0);
		if (bye->flags & cpu_to_be32(CARD_DETACH_FLUSHED))
			card_unflushed_settle(disk);
	}
	spin_unlock_bh(&disk->lock);
	if (lost) {
		trace_card_state(disk, CARD_STATE_LIVE, CARD_STATE_WAITING, ESTALE);
		card_attach_lost(disk);
		mod_delayed_work(card_attach_wq, &disk->attach, 0);
	}
	card_disk_put(disk);
}

void card_attach_node_up(struct card_net *cn, struct flt_node *node)
{
	struct flt_node *old = NULL;
	struct card_disk *disk;
	unsigned long id;

	mutex_lock(&cn->lock);
	xa_for_each(&cn->disks, id, disk) {
		if (strcmp(disk->spec.node, node->name))
			continue;
		spin_lock_bh(&disk->lock);
		if (disk->node != node) {
			old = disk->node;
			WRITE_ONCE(disk->node, flt_node_get(node));
		}
		spin_unlock_bh(&disk->lock);
		if (old)
			flt_node_put(old);
		old = NULL;
		mod_delayed_work(card_attach_wq, &disk->attach, 0);
	}
	mutex_unlock(&cn->lock);
}

void card_attach_node_down(struct card_net *cn, struct flt_node *node)
{
	struct card_disk *disk;
	unsigned long id;

	mutex_lock(&cn->lock);
	xa_for_each(&cn->disks, id, disk)
		if (READ_ONCE(disk->node) == node &&
		    card_attach_enter(disk, CARD_STATE_LIVE, CARD_STATE_WAITING, ENOTCONN))
			card_attach_lost(disk);
	mutex_unlock(&cn->lock);
}

const char *card_attach_reason(const struct card_disk *disk, u8 state, int why)
{
	if (state == CARD_STATE_DEAD)
		return "detached";
	if (state == CARD_STATE_LIVE)
		return "the node has lost writes: flushes fail until nobody has it open";
	if (READ_ONCE(disk->failing))
		return "the node has been away for too long: requests fail";
	if (why != EUCLEAN && why != EKEYREVOKED && !card_disk_node_is_up(disk))
		return "the link to the node is not up";
	if (state == CARD_STATE_WAITING)
		return "the node was asked and has not answered yet";
	switch (why) {
	case EUCLEAN:
		return "the export is another disk now, or was changed: it is not used";
	case EKEYREVOKED:
		return "another node has taken our place as the writer: detach, and attach anew";
	case ETXTBSY:
		return "the exporter has mounted it for writing";
	case EBUSY:
		return "another node writes to it";
	case ENOTUNIQ:
		return "shared has to be said by the export and by all who write, or by none";
	case ENOENT:
		return "the node has no such export, or not for us";
	case EACCES:
		return "the export is read-only";
	case EPROTO:
		return "the node speaks another version of the protocol";
	default:
		return "the node refuses";
	}
}

void card_attach_prepare(struct card_disk *disk)
{
	INIT_DELAYED_WORK(&disk->attach, card_attach_work);
	INIT_DELAYED_WORK(&disk->give_up, card_attach_give_up_work);
	INIT_WORK(&disk->settle, card_attach_settle_work);
	init_completion(&disk->answered);
}

void card_attach_begin(struct card_disk *disk)
{
	queue_delayed_work(card_attach_wq, &disk->attach, 0);
}

void card_attach_end(struct card_disk *disk)
{
	disable_delayed_work_sync(&disk->attach);
	disable_delayed_work_sync(&disk->give_up);
	disable_work_sync(&disk->settle);
	if (disk->known)
		card_attach_part(disk, disk->export, disk->epoch);
}

int card_attach_init(void)
{
	/* Reclaim may wait for a disk of ours. */
	card_attach_wq = alloc_workqueue("card", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	/* These wait for the others. */
	card_publish_wq = alloc_workqueue("card_publish", WQ_UNBOUND, 0);
	if (card_attach_wq && card_publish_wq)
		return 0;
	card_attach_exit();
	return -ENOMEM;
}

void card_attach_publish(struct card_disk *disk)
{
	queue_work(card_publish_wq, &disk->publish);
}

void card_attach_exit(void)
{
	if (card_publish_wq)
		destroy_workqueue(card_publish_wq);
	if (card_attach_wq)
		destroy_workqueue(card_attach_wq);
}
