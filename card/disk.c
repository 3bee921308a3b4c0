// SPDX-License-Identifier: GPL-2.0
/*
 * Attached disks. One work item for each asks the exporter for the disk, until it
 * answers, and again whenever the link or the exporter was lost. Meanwhile requests
 * wait, each as long as its own attempts last; none waits for ever.
 */

#include <linux/blkdev.h>
#include <linux/idr.h>
#include <linux/log2.h>
#include <linux/netlink.h>
#include <linux/slab.h>

#include "counter.h"
#include "disk.h"
#include "request.h"
#include "trace.h"

#define CARD_ATTACH_AGAIN	HZ
#define CARD_ATTACH_MIN_MS	5000U

static DEFINE_IDA(card_names);
static struct workqueue_struct *card_wq;

/* Disks that are not freed yet: the block layer may still hold one that was removed. */
static atomic_t card_disks;
static DECLARE_WAIT_QUEUE_HEAD(card_no_disks);

static void card_disk_release(struct kref *ref)
{
	struct card_disk *disk = container_of(ref, struct card_disk, ref);

	if (disk->set.tags)
		blk_mq_free_tag_set(&disk->set);
	if (disk->index >= 0)
		ida_free(&card_names, disk->index);
	if (disk->node)
		flt_node_put(disk->node);
	card_cache_free(disk->cache);
	kfree(disk->geo.members);
	kfree_rcu(disk, rcu);
	/* The module stays at least until we have returned. */
	rcu_read_lock();
	if (atomic_dec_and_test(&card_disks))
		wake_up(&card_no_disks);
	rcu_read_unlock();
}

void card_disk_put(struct card_disk *disk)
{
	kref_put(&disk->ref, card_disk_release);
}

struct card_disk *card_disk_find(struct card_net *cn, u32 id)
{
	struct card_disk *disk;

	rcu_read_lock();
	disk = xa_load(&cn->disks, id);
	if (disk && !kref_get_unless_zero(&disk->ref))
		disk = NULL;
	rcu_read_unlock();
	return disk;
}

/* True: it is in this state now and was in another one. */
static bool card_disk_enter(struct card_disk *disk, enum card_state from, enum card_state to,
			    int why)
{
	bool changed;

	spin_lock_bh(&disk->lock);
	changed = disk->state == from;
	if (changed) {
		WRITE_ONCE(disk->state, to);
		disk->why = why;
	}
	spin_unlock_bh(&disk->lock);
	if (changed)
		trace_card_state(disk, from, to, why);
	return changed;
}

static void card_disk_attach_work(struct work_struct *work)
{
	struct card_disk *disk = container_of(to_delayed_work(work), struct card_disk, attach);
	struct card_wire_attach ask = {
		.version = cpu_to_be32(CARD_WIRE_VERSION),
		.disk = cpu_to_be32(disk->id),
		.flags = cpu_to_be32(disk->spec.flags & CARD_FLAG_WRITE),
	};
	struct kvec vec = { .iov_base = &ask, .iov_len = sizeof(ask) };
	struct flt_node *node;
	bool wanted;

	spin_lock_bh(&disk->lock);
	wanted = disk->state == CARD_STATE_WAITING || disk->state == CARD_STATE_REFUSED;
	ask.cookie = cpu_to_be32(++disk->cookie);
	node = flt_node_get(disk->node);
	spin_unlock_bh(&disk->lock);
	if (wanted) {
		strscpy_pad(ask.name, disk->spec.export, sizeof(ask.name));
		flt_link_send(node, CARD_MSG_ATTACH, &vec, 1, GFP_NOIO);
		queue_delayed_work(card_wq, &disk->attach, CARD_ATTACH_AGAIN);
	}
	flt_node_put(node);
}

static void card_disk_resend_work(struct work_struct *work)
{
	card_request_resend_all(container_of(work, struct card_disk, resend));
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
	    strnlen(geo->policy, sizeof(geo->policy)) == sizeof(geo->policy))
		return -EPROTO;
	return 0;
}

/* Is it the disk that it was. Numbers that may change without harm are not compared. */
static bool card_geometry_same(const struct card_geometry *a, const struct card_geometry *b,
			       const struct card_cache *cache)
{
	return a->sectors == b->sectors && a->block == b->block && !strcmp(a->policy, b->policy) &&
	       (!cache || !memcmp(a->members, cache->members, sizeof(*a->members)));
}

void card_disk_attached(struct card_disk *disk, const struct card_wire_attached *answer)
{
	int err = -(int)be32_to_cpu(answer->status);
	struct card_geometry geo = {};
	bool live = false;

	if (!err)
		err = card_geometry_take(&geo, answer);
	if (!err)
		err = card_members_take(&geo, disk->spec.node, answer);
	spin_lock_bh(&disk->lock);
	if (be32_to_cpu(answer->cookie) == disk->cookie &&
	    (disk->state == CARD_STATE_WAITING || disk->state == CARD_STATE_REFUSED)) {
		if (!err && disk->known && !card_geometry_same(&geo, &disk->geo, disk->cache))
			err = -EUCLEAN;
		live = !err;
		if (live && !disk->known) {
			disk->geo = geo;
			geo.members = NULL;
			disk->known = true;
		}
		WRITE_ONCE(disk->export, be32_to_cpu(answer->export));
		WRITE_ONCE(disk->epoch, be64_to_cpu(answer->epoch));
		disk->why = -err;
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
	if (live)
		queue_work(card_wq, &disk->resend);
}

void card_disk_stale(struct card_disk *disk, const struct card_wire_block *head)
{
	bool current_one;

	/* Of several requests in flight the last may hear of it when all is well again. */
	spin_lock_bh(&disk->lock);
	current_one = disk->export == be32_to_cpu(head->export) &&
		      disk->epoch == be64_to_cpu(head->epoch);
	spin_unlock_bh(&disk->lock);
	if (current_one && card_disk_enter(disk, CARD_STATE_LIVE, CARD_STATE_WAITING, ESTALE)) {
		card_count(disk->cn, CARD_STAT_LOST);
		mod_delayed_work(card_wq, &disk->attach, 0);
	}
}

/* The disk that has this address at the node, referenced. */
static struct card_disk *card_disk_at(struct card_net *cn, const struct flt_node *node, u32 export,
				      u64 epoch)
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

void card_disk_ended(struct card_net *cn, const struct flt_node *node,
		     const struct card_wire_detach *bye)
{
	u32 export = be32_to_cpu(bye->export);
	u64 epoch = be64_to_cpu(bye->epoch);
	struct card_disk *disk = card_disk_at(cn, node, export, epoch);
	bool lost;

	if (!disk)
		return;
	spin_lock_bh(&disk->lock);
	lost = disk->state == CARD_STATE_LIVE && disk->export == export && disk->epoch == epoch;
	if (lost) {
		WRITE_ONCE(disk->state, CARD_STATE_WAITING);
		disk->why = ESTALE;
		if (disk->cache)
			card_cache_address(disk->cache, 0, 0);
	}
	spin_unlock_bh(&disk->lock);
	if (lost) {
		trace_card_state(disk, CARD_STATE_LIVE, CARD_STATE_WAITING, ESTALE);
		card_count(cn, CARD_STAT_LOST);
		mod_delayed_work(card_wq, &disk->attach, 0);
	}
	card_disk_put(disk);
}

void card_disk_node_up(struct card_net *cn, struct flt_node *node)
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
		mod_delayed_work(card_wq, &disk->attach, 0);
	}
	mutex_unlock(&cn->lock);
}

void card_disk_node_down(struct card_net *cn, struct flt_node *node)
{
	struct card_disk *disk;
	unsigned long id;

	mutex_lock(&cn->lock);
	xa_for_each(&cn->disks, id, disk)
		if (READ_ONCE(disk->node) == node &&
		    card_disk_enter(disk, CARD_STATE_LIVE, CARD_STATE_WAITING, ENOTCONN))
			card_count(cn, CARD_STAT_LOST);
	mutex_unlock(&cn->lock);
}

static bool card_count_one(struct request *rq, void *arg)
{
	(*(unsigned int *)arg)++;
	return true;
}

unsigned int card_disk_inflight(struct card_disk *disk)
{
	unsigned int n = 0;

	if (disk->set.tags)
		blk_mq_tagset_busy_iter(&disk->set, card_count_one, &n);
	return n;
}

const char *card_disk_reason(const struct card_disk *disk, u8 state, int why)
{
	if (state == CARD_STATE_DEAD)
		return "detached";
	if (!flt_node_is_up(disk->node))
		return "the link to the node is not up";
	if (state == CARD_STATE_WAITING)
		return "the node was asked and has not answered yet";
	switch (why) {
	case EUCLEAN:
		return "the export is another disk now";
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

static int card_disk_open(struct gendisk *gendisk, blk_mode_t mode)
{
	struct card_disk *disk = gendisk->private_data;

	return READ_ONCE(disk->state) == CARD_STATE_DEAD ? -ENXIO : 0;
}

static void card_disk_free(struct gendisk *gendisk)
{
	card_disk_put(gendisk->private_data);
}

static const struct block_device_operations card_disk_ops = {
	.owner = THIS_MODULE,
	.open = card_disk_open,
	.free_disk = card_disk_free,
};

static int card_disk_alloc_set(struct card_disk *disk)
{
	struct blk_mq_tag_set *set = &disk->set;

	set->ops = &card_mq_ops;
	set->nr_hw_queues = 1;
	set->queue_depth = disk->spec.depth;
	set->numa_node = NUMA_NO_NODE;
	set->timeout = max(1UL, msecs_to_jiffies(disk->spec.timeout_ms));
	set->cmd_size = sizeof(struct card_flight);
	/* The exporter's disk has a scheduler; ours would only delay what it could sort. */
	set->flags = BLK_MQ_F_SHOULD_MERGE | BLK_MQ_F_BLOCKING | BLK_MQ_F_NO_SCHED_BY_DEFAULT;
	set->driver_data = disk;
	return blk_mq_alloc_tag_set(set);
}

/* The exporter has answered: take part in the cache that its policy makes. */
static int card_disk_join(struct card_disk *disk, struct netlink_ext_ack *extack)
{
	const struct card_policy *policy = card_policy_get(disk->geo.policy);
	struct card_cache *cache;

	if (!policy)
		return 0;
	if (IS_ERR(policy)) {
		NL_SET_ERR_MSG_FMT(extack, "there is no such policy here: %s", disk->geo.policy);
		return PTR_ERR(policy);
	}
	cache = card_cache_new(disk->cn, policy, disk->geo.members, disk->spec.host);
	disk->geo.members = NULL;
	if (IS_ERR(cache)) {
		NL_SET_ERR_MSG(extack, "no memory for its cache, or the kernel has no hook for it");
		return PTR_ERR(cache);
	}
	spin_lock_bh(&disk->lock);
	card_cache_address(cache, disk->export, disk->epoch);
	WRITE_ONCE(disk->cache, cache);
	spin_unlock_bh(&disk->lock);
	return 0;
}

/* Make the block device. */
static int card_disk_publish(struct card_disk *disk)
{
	const struct card_geometry *geo = &disk->geo;
	struct queue_limits lim = {
		.logical_block_size = geo->block,
		.physical_block_size = geo->phys_block,
		.max_hw_sectors = CARD_IO_MAX >> SECTOR_SHIFT,
		.max_segments = USHRT_MAX,
		.max_segment_size = UINT_MAX,
	};
	struct gendisk *gendisk;
	int err;

	/* Each block may have another home. */
	if (disk->cache)
		lim.chunk_sectors = CARD_BLOCK_SECTORS;
	if (disk->spec.flags & CARD_FLAG_WRITE) {
		lim.features |= BLK_FEAT_STABLE_WRITES;
		if (geo->features & CARD_FEATURE_WRITE_CACHE)
			lim.features |= BLK_FEAT_WRITE_CACHE;
		if (geo->features & CARD_FEATURE_FUA)
			lim.features |= BLK_FEAT_FUA;
	}
	if (geo->features & CARD_FEATURE_ROTATIONAL)
		lim.features |= BLK_FEAT_ROTATIONAL;
	gendisk = blk_mq_alloc_disk(&disk->set, &lim, disk);
	if (IS_ERR(gendisk))
		return PTR_ERR(gendisk);
	disk->gendisk = gendisk;
	gendisk->fops = &card_disk_ops;
	kref_get(&disk->ref);
	gendisk->private_data = disk;
	snprintf(gendisk->disk_name, sizeof(gendisk->disk_name), "card%d", disk->index);
	set_capacity(gendisk, geo->sectors);
	set_disk_ro(gendisk, !(disk->spec.flags & CARD_FLAG_WRITE));
	if (disk->cache)
		card_cache_start(disk->cache, gendisk, NULL);
	err = device_add_disk(NULL, gendisk, NULL);
	if (err) {
		disk->gendisk = NULL;
		put_disk(gendisk);
		card_disk_put(disk);	/* free_disk() is not called for what was not added */
		return err;
	}
	if (disk->cache)
		card_rules_show(disk->cache, gendisk->disk_name);	/* it works without, too */
	/*
	 * How far to read ahead is for the exporter's disk to say [Olaru 3.8]. Only now:
	 * adding a disk raises it to the usual value.
	 */
	gendisk->bdi->ra_pages = disk->spec.readahead >= 0 ? disk->spec.readahead : geo->readahead;
	return 0;
}

static bool card_disk_taken(struct card_net *cn, const struct card_disk_spec *spec)
{
	struct card_disk *disk;
	unsigned long id;

	lockdep_assert_held(&cn->lock);
	xa_for_each(&cn->disks, id, disk)
		if (!strcmp(disk->spec.node, spec->node) &&
		    !strcmp(disk->spec.export, spec->export))
			return true;
	return false;
}

static int card_disk_insert(struct card_net *cn, struct card_disk *disk,
			    struct netlink_ext_ack *extack)
{
	int err;

	mutex_lock(&cn->lock);
	if (cn->going) {
		err = -ENODEV;
	} else if (card_disk_taken(cn, &disk->spec)) {
		NL_SET_ERR_MSG(extack, "that disk is attached already");
		err = -EBUSY;
	} else {
		err = xa_alloc_cyclic(&cn->disks, &disk->id, disk, XA_LIMIT(1, S32_MAX),
				      &cn->next_disk, GFP_KERNEL);
	}
	mutex_unlock(&cn->lock);
	return min(err, 0);
}

/* Ends a disk that is out of the table, or never had a device. */
static void card_disk_end(struct card_disk *disk)
{
	struct card_wire_detach bye = {
		.epoch = cpu_to_be64(disk->epoch),
		.export = cpu_to_be32(disk->export),
	};
	struct kvec vec = { .iov_base = &bye, .iov_len = sizeof(bye) };

	spin_lock_bh(&disk->lock);
	WRITE_ONCE(disk->state, CARD_STATE_DEAD);
	spin_unlock_bh(&disk->lock);
	disable_delayed_work_sync(&disk->attach);
	disable_work_sync(&disk->resend);
	if (disk->known)
		flt_link_send(disk->node, CARD_MSG_DETACH, &vec, 1, GFP_KERNEL);
	if (disk->gendisk) {
		/* Who is just giving us a request looks into it yet. */
		blk_mq_quiesce_queue(disk->gendisk->queue);
		card_request_fail_all(disk);
		blk_mq_unquiesce_queue(disk->gendisk->queue);
		if (disk_openers(disk->gendisk))
			blk_mark_disk_dead(disk->gendisk);
		del_gendisk(disk->gendisk);
		card_cache_stop(disk->cache);
		put_disk(disk->gendisk);
	} else {
		card_cache_stop(disk->cache);
	}
	card_disk_put(disk);
}

static int card_disk_await(struct card_disk *disk, struct netlink_ext_ack *extack)
{
	u64 ms = (u64)disk->spec.timeout_ms * (disk->spec.retries + 1);
	long left;
	int why;

	ms = clamp_t(u64, ms, CARD_ATTACH_MIN_MS, MSEC_PER_SEC * 60);
	left = wait_for_completion_interruptible_timeout(&disk->answered, msecs_to_jiffies(ms));
	if (left < 0)
		return left;
	if (!left) {
		if (!flt_node_is_up(disk->node)) {
			NL_SET_ERR_MSG(extack, "the node is not up");
			return -ENOTCONN;
		}
		NL_SET_ERR_MSG(extack, "the node does not answer");
		return -ETIMEDOUT;
	}
	spin_lock_bh(&disk->lock);
	why = disk->known ? 0 : disk->why;
	spin_unlock_bh(&disk->lock);
	if (why)
		NL_SET_ERR_MSG(extack, "the node refuses: no such export for this node, or not so");
	return -why;
}

static struct card_disk *card_disk_new(struct card_net *cn, const struct card_disk_spec *spec)
{
	struct card_disk *disk;

	disk = kzalloc(sizeof(*disk), GFP_KERNEL);
	if (!disk)
		return NULL;
	disk->cn = cn;
	disk->spec = *spec;
	disk->index = -1;
	spin_lock_init(&disk->lock);
	INIT_DELAYED_WORK(&disk->attach, card_disk_attach_work);
	INIT_WORK(&disk->resend, card_disk_resend_work);
	init_completion(&disk->answered);
	kref_init(&disk->ref);
	atomic_inc(&card_disks);
	return disk;
}

int card_disk_add(struct card_net *cn, const struct card_disk_spec *spec, char *name,
		  struct netlink_ext_ack *extack)
{
	struct card_disk *disk;
	int err;

	disk = card_disk_new(cn, spec);
	if (!disk)
		return -ENOMEM;
	disk->node = flt_node_by_name(cn->net, spec->node);
	if (!disk->node) {
		NL_SET_ERR_MSG(extack, "there is no such node");
		err = -ENOENT;
		goto undo;
	}
	err = ida_alloc(&card_names, GFP_KERNEL);
	if (err < 0)
		goto undo;
	disk->index = err;
	err = card_disk_alloc_set(disk);
	if (!err)
		err = card_disk_insert(cn, disk, extack);
	if (err)
		goto undo;
	queue_delayed_work(card_wq, &disk->attach, 0);
	err = card_disk_await(disk, extack);
	if (!err)
		err = card_disk_join(disk, extack);
	if (!err)
		err = card_disk_publish(disk);
	mutex_lock(&cn->lock);
	if (!err) {
		strscpy(name, disk->gendisk->disk_name, CARD_NAME_MAX);
		disk->ready = true;
		mutex_unlock(&cn->lock);
		return 0;
	}
	/* Someone else may have detached it, or the namespace may be going. */
	if (xa_cmpxchg(&cn->disks, disk->id, disk, NULL, GFP_KERNEL) != disk)
		disk = NULL;
	mutex_unlock(&cn->lock);
	if (disk)
		card_disk_end(disk);
	return err;
undo:
	card_disk_put(disk);
	return err;
}

static bool card_disk_is(const struct card_disk *disk, const char *name, const char *node,
			 const char *export)
{
	if (name)
		return disk->gendisk && !strcmp(disk->gendisk->disk_name, name);
	return !strcmp(disk->spec.node, node) && !strcmp(disk->spec.export, export);
}

/* Nobody can open it from here on. */
static int card_disk_close(struct card_disk *disk, bool force)
{
	int err = 0;

	if (!disk->ready)
		return -EBUSY;	/* being attached */
	mutex_lock(&disk->gendisk->open_mutex);
	if (disk_openers(disk->gendisk) && !force) {
		err = -EBUSY;
	} else {
		spin_lock_bh(&disk->lock);
		WRITE_ONCE(disk->state, CARD_STATE_DEAD);
		spin_unlock_bh(&disk->lock);
	}
	mutex_unlock(&disk->gendisk->open_mutex);
	return err;
}

int card_disk_del(struct card_net *cn, const char *name, const char *node, const char *export,
		  bool force, struct netlink_ext_ack *extack)
{
	struct card_disk *disk, *found = NULL;
	unsigned long id;
	int err = -ENOENT;

	mutex_lock(&cn->lock);
	xa_for_each(&cn->disks, id, disk) {
		if (!card_disk_is(disk, name, node, export))
			continue;
		err = card_disk_close(disk, force);
		if (err)
			break;
		xa_erase(&cn->disks, id);
		found = disk;
		break;
	}
	mutex_unlock(&cn->lock);
	if (err == -EBUSY)
		NL_SET_ERR_MSG(extack, "the disk is in use");
	if (found)
		card_disk_end(found);
	return err;
}

void card_disk_del_all(struct card_net *cn)
{
	struct card_disk *disk;
	unsigned long id;

	xa_for_each(&cn->disks, id, disk) {
		xa_erase(&cn->disks, id);
		card_disk_end(disk);
	}
}

int card_disk_init(void)
{
	/* Reclaim may wait for a disk of ours. */
	card_wq = alloc_workqueue("card", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return card_wq ? 0 : -ENOMEM;
}

void card_disk_exit(void)
{
	wait_event(card_no_disks, !atomic_read(&card_disks));
	destroy_workqueue(card_wq);
	ida_destroy(&card_names);
}
