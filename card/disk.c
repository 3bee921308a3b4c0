// SPDX-License-Identifier: GPL-2.0
/* Disks: their table, their block device, their beginning and end. */

#include <linux/blkdev.h>
#include <linux/idr.h>
#include <linux/netlink.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/ptrace.h>
#include <asm/syscall.h>

#include "kmod/compat/block.h"
#include "attach.h"
#include "counter.h"
#include "disk.h"
#include "request.h"

#define CARD_AWAIT_MIN_MS	5000U
/*
 * So long a command waits for the device. All the machine's commands of generic netlink may have
 * to wait with it: for as long as one runs, no family can come or go, and who waits for that
 * holds up all others.
 */
#define CARD_PUBLISH_MS		15000U

static DEFINE_IDA(card_names);

/* Disks that are not freed yet: the block layer may still hold one that was removed. */
static atomic_t card_disks;
static DECLARE_WAIT_QUEUE_HEAD(card_no_disks);

static DECLARE_WAIT_QUEUE_HEAD(card_last_closed);

static void card_disk_release(struct kref *ref)
{
	struct card_disk *disk = container_of(ref, struct card_disk, ref);

	if (disk->queue)
		blk_put_queue(disk->queue);
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

/* A program of 32 bits has a number of its own for it. */
static bool card_is_swapon(void)
{
	int nr = syscall_get_nr(current, current_pt_regs());

#ifdef CONFIG_X86_64
	if (in_ia32_syscall())
		return nr == __NR_ia32_swapon;
	nr &= ~__X32_SYSCALL_BIT;
#endif
	return nr == __NR_swapon;
}

/*
 * To write a page to a remote disk takes memory, for packets both ways: who swaps there to
 * gain some waits for himself. swapon() asks a driver nothing that it could refuse, so it is
 * known by its number; what gets past (a swap file, a volume) is not written: see request.c.
 */
static bool card_disk_swapon(struct card_disk *disk)
{
	if (!card_is_swapon())
		return false;
	card_count(disk->cn, CARD_STAT_SWAP_REFUSED);
	pr_warn_ratelimited("card%d: no swap on a remote disk\n", disk->index);
	return true;
}

static int card_disk_open(struct gendisk *gendisk, blk_mode_t mode)
{
	struct card_disk *disk = gendisk->private_data;

	if (READ_ONCE(disk->state) == CARD_STATE_DEAD)
		return -ENXIO;
	if (mode & BLK_OPEN_EXCL && card_disk_swapon(disk))
		return -EOPNOTSUPP;
	if (!disk_openers(gendisk))
		card_unflushed_open(disk);
	return 0;
}

static void card_disk_closed(struct gendisk *gendisk)
{
	if (!disk_openers(gendisk))
		wake_up(&card_last_closed);
}

static void card_disk_free(struct gendisk *gendisk)
{
	card_disk_put(gendisk->private_data);
}

static const struct block_device_operations card_disk_ops = {
	.owner = THIS_MODULE,
	.open = card_disk_open,
	.release = card_disk_closed,
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
	set->flags = FLT_MQ_SHOULD_MERGE | BLK_MQ_F_BLOCKING | BLK_MQ_F_NO_SCHED_BY_DEFAULT;
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

/*
 * The block layer opens a disk to look for partitions. We are a kernel thread, whose files are
 * closed a little after fput(): until then nobody can detach the disk, and who opens it keeps in
 * memory what was looked at. Others may have opened it by now, for as long as they like.
 */
static void card_disk_await_looks(struct gendisk *gendisk)
{
	wait_event_timeout(card_last_closed, !disk_openers(gendisk), HZ);
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
	/* Of a queue that nobody has seen yet a reference is always to be had. */
	if (!WARN_ON_ONCE(!blk_get_queue(gendisk->queue)))
		smp_store_release(&disk->queue, gendisk->queue);	/* card_request_find() */
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
		/* It queues the other, and both use what goes. */
		disable_delayed_work_sync(&disk->give_up);
		disable_work_sync(&disk->settle);
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
	card_disk_await_looks(gendisk);
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

static void card_disk_kill(struct card_disk *disk)
{
	spin_lock_bh(&disk->lock);
	WRITE_ONCE(disk->state, CARD_STATE_DEAD);
	spin_unlock_bh(&disk->lock);
}

/* Ends a disk that is out of the table, or never had a device. */
static void card_disk_end(struct card_disk *disk)
{
	card_disk_kill(disk);
	card_attach_end(disk);
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
	u64 ms = (u64)disk->spec.timeout_ms * (min(disk->spec.retries, 1000U) + 1);
	char holder[FLT_NAME_MAX];
	long left;
	int why;

	if (disk->spec.retries == CARD_RETRIES_ALWAYS)
		ms = disk->spec.timeout_ms;
	ms = clamp_t(u64, ms, CARD_AWAIT_MIN_MS, MSEC_PER_SEC * 60);
	left = wait_for_completion_interruptible_timeout(&disk->answered, msecs_to_jiffies(ms));
	if (left < 0)
		return left;
	if (!left) {
		if (!card_disk_node_is_up(disk)) {
			NL_SET_ERR_MSG(extack, "the node is not up");
			return -ENOTCONN;
		}
		if (READ_ONCE(disk->why) == EAGAIN)
			NL_SET_ERR_MSG(extack, "the last writer's requests are not through yet");
		else
			NL_SET_ERR_MSG(extack, "the node does not answer");
		return -ETIMEDOUT;
	}
	if (READ_ONCE(disk->state) == CARD_STATE_DEAD) {
		NL_SET_ERR_MSG(extack, "it was detached meanwhile");
		return -ECANCELED;
	}
	spin_lock_bh(&disk->lock);
	why = disk->known ? 0 : disk->why;
	strscpy(holder, disk->holder);
	spin_unlock_bh(&disk->lock);
	if (why == EUCLEAN)
		NL_SET_ERR_MSG(extack, "the node refuses: its export is another disk");
	else if (why == EBUSY)
		NL_SET_ERR_MSG_FMT(extack, "%s writes to it: detach it there, or steal", holder);
	else if (why == ENOTUNIQ)
		NL_SET_ERR_MSG(extack, "the node refuses: shared is said by one side only");
	else if (why)
		NL_SET_ERR_MSG(extack, "the node refuses: no such export for this node, or not so");
	return -why;
}

static void card_disk_publish_work(struct work_struct *work)
{
	struct card_disk *disk = container_of(work, struct card_disk, publish);
	struct card_net *cn = disk->cn;
	int err = card_disk_publish(disk);
	bool ours = false;

	mutex_lock(&cn->lock);
	/* Its partitions are looked for while it is published, which may take long. */
	if (!err && READ_ONCE(disk->state) == CARD_STATE_DEAD)
		err = -ECANCELED;
	if (!err)
		WRITE_ONCE(disk->ready, true);
	else
		ours = xa_cmpxchg(&cn->disks, disk->id, disk, NULL, GFP_KERNEL) == disk;
	mutex_unlock(&cn->lock);
	if (ours)
		card_disk_end(disk);
	disk->err = err;
	complete_all(&disk->published);
	card_disk_put(disk);
}

/* Makes the device, or has it made; on error the disk has ended, or will. */
static int card_disk_make(struct card_disk *disk, struct netlink_ext_ack *extack)
{
	struct card_net *cn = disk->cn;
	long left;
	bool ours;

	kref_get(&disk->ref);
	card_attach_publish(disk);
	left = wait_for_completion_interruptible_timeout(&disk->published,
							 msecs_to_jiffies(CARD_PUBLISH_MS));
	if (left < 0) {
		card_disk_kill(disk);
		card_attach_settle(disk);
		/* If it has just become ready nobody else will end it. */
		mutex_lock(&cn->lock);
		ours = disk->ready && xa_cmpxchg(&cn->disks, disk->id, disk, NULL,
						 GFP_KERNEL) == disk;
		mutex_unlock(&cn->lock);
		if (ours)
			card_disk_end(disk);
		return -EINTR;
	}
	/* It will be there as soon as the exporter answers. */
	if (!left)
		return 0;
	if (disk->err == -ECANCELED)
		NL_SET_ERR_MSG(extack, "it was detached meanwhile");
	return disk->err;
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
	/* A request of an earlier disk, which the exporter still works on, has another number. */
	atomic_set(&disk->uses, get_random_u32() & ~CARD_CMD_STATE);
	card_attach_prepare(disk);
	INIT_WORK(&disk->publish, card_disk_publish_work);
	init_completion(&disk->published);
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
	card_attach_begin(disk);
	snprintf(name, CARD_NAME_MAX, "card%d", disk->index);
	/* Once it is published it may end at any time. */
	kref_get(&disk->ref);
	err = card_disk_await(disk, extack);
	if (!err)
		err = card_disk_join(disk, extack);
	if (!err) {
		err = card_disk_make(disk, extack);
		goto undo;
	}
	mutex_lock(&cn->lock);
	xa_erase(&cn->disks, disk->id);
	mutex_unlock(&cn->lock);
	card_disk_end(disk);
undo:
	card_disk_put(disk);
	return err;
}

static bool card_disk_is(const struct card_disk *disk, const char *name, const char *node,
			 const char *export)
{
	char own[CARD_NAME_MAX];

	snprintf(own, sizeof(own), "card%d", disk->index);
	if (name)
		return !strcmp(own, name);
	return !strcmp(disk->spec.node, node) && !strcmp(disk->spec.export, export);
}

/*
 * Nobody can open it from here on. Never waits for who opens it or looks for partitions:
 * he may wait for the exporter, and holds the mutex meanwhile.
 */
static int card_disk_close(struct card_disk *disk, bool force)
{
	struct gendisk *gendisk = disk->gendisk;
	int err = 0;

	if (force) {
		card_disk_kill(disk);
		return 0;
	}
	if (!disk->ready)
		return -EBUSY;	/* being attached */
	if (!mutex_trylock(&gendisk->open_mutex))
		return -EBUSY;
	if (disk_openers(gendisk))
		err = -EBUSY;
	else
		card_disk_kill(disk);
	mutex_unlock(&gendisk->open_mutex);
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
		if (!disk->ready) {
			/* Who attaches it ends it: what it waits for fails, or is not awaited. */
			card_attach_settle(disk);
			complete(&disk->answered);
			break;
		}
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

/* Any that is in the table, referenced. */
static struct card_disk *card_disk_any(struct card_net *cn)
{
	struct card_disk *disk;
	unsigned long id = 0;

	mutex_lock(&cn->lock);
	disk = xa_find(&cn->disks, &id, ULONG_MAX, XA_PRESENT);
	if (disk)
		kref_get(&disk->ref);
	mutex_unlock(&cn->lock);
	return disk;
}

/* No command runs, but a disk may be on its way to be published yet. */
void card_disk_del_all(struct card_net *cn)
{
	struct card_disk *disk;

	while ((disk = card_disk_any(cn))) {
		card_disk_kill(disk);
		card_attach_settle(disk);
		flush_work(&disk->publish);
		if (xa_cmpxchg(&cn->disks, disk->id, disk, NULL, GFP_KERNEL) == disk)
			card_disk_end(disk);
		card_disk_put(disk);
	}
}

void card_disk_exit(void)
{
	wait_event(card_no_disks, !atomic_read(&card_disks));
	ida_destroy(&card_names);
}
