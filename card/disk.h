/* SPDX-License-Identifier: GPL-2.0 */
/* Disks: exports of other nodes as block devices of this one. */
#ifndef CARD_DISK_H
#define CARD_DISK_H

#include <linux/blk-mq.h>
#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/spinlock.h>
#include <linux/uuid.h>
#include <linux/workqueue.h>
#include "kmod/node.h"

#include "cache.h"
#include "net.h"
#include "unflushed.h"
#include "wire.h"

struct netlink_ext_ack;

#define CARD_RETRIES_ALWAYS	U32_MAX

/**
 * struct card_disk_spec - what CARD_CMD_DISK_NEW gave
 * @node, @export: names
 * @flags, @mode, @depth, @timeout_ms, @fail_fast: as in the uapi
 * @retries: as in the uapi; CARD_RETRIES_ALWAYS: a request waits without end
 * @readahead: pages; negative: what the exporter says
 * @host: pages kept for other nodes; negative: a quarter of memory
 * @uuid: identity of the only disk that will do; null: the first answer says
 */
struct card_disk_spec {
	char node[FLT_NAME_MAX];
	char export[CARD_NAME_MAX];
	u32 flags;
	u8 mode;
	u32 depth;
	u32 timeout_ms;
	u32 retries;
	u32 fail_fast;
	s64 readahead;
	s64 host;
	uuid_t uuid;
};

/**
 * struct card_geometry - what the exporter said about the disk; of it only @sectors may grow
 * @uuid: identity
 * @sectors, @block, @phys_block, @features, @readahead: as in struct card_wire_attached
 * @policy: name
 * @members: the participants, with a policy; taken over by the cache
 */
struct card_geometry {
	uuid_t uuid;
	u64 sectors;
	u32 block, phys_block;
	u32 features;
	u32 readahead;
	char policy[CARD_NAME_MAX];
	struct card_members *members;
};

/**
 * struct card_disk - one attached disk
 * @cn:      the namespace
 * @id:      its number: repeated by the exporter in every answer
 * @spec:    as configured; numbers may be changed, READ_ONCE
 * @node:    the exporter, referenced; another one after the node was removed and
 *	     added again. Under @lock
 * @index:   of the device's name
 * @geo:     valid once @known
 * @known:   the exporter has answered once; written by the attach worker's answer
 * @cache:   part in the cooperative cache, or NULL; set before @gendisk
 * @ready:   the device is there for all to see; under the namespace's lock
 * @set:     the block layer's requests
 * @uses:    counts uses of tags: no two requests in flight have the same number
 * @flying:  requests that the block layer waits for
 * @gendisk: the device; NULL until the exporter has answered
 * @queue:   of @gendisk, referenced as long as the disk is there: an answer may look for its
 *	     request when the device has gone
 * @lock:    leaf, bottom halves off; guards @node, @state, @why, @barred, @failing, @fenced,
 *	     @grant, @holder, @cookie, @export, @epoch, @unflushed
 * @state:   enum card_state; READ_ONCE without the lock
 * @why:     positive errno that says why it is REFUSED
 * @barred:  what the exporter has is not for this disk: requests do not wait for it but
 *	     fail; written under @lock, READ_ONCE
 * @failing: the exporter has been away for as long as @spec.fail_fast: requests fail until it
 *	     is back; written under @lock, READ_ONCE
 * @grant:   number that this writer was given; 0: none, or it writes with others
 * @live_since: ktime in ns when it last became LIVE; READ_ONCE
 * @fenced:  another node has taken our place as the writer: barred for ever
 * @holder:  why it is refused with EBUSY: node that writes
 * @cookie:  of the attempt to attach whose answer is awaited
 * @export, @epoch: address at the exporter; meaningful while LIVE; READ_ONCE
 * @unflushed: what the exporter has acknowledged
 * @give_up: makes it @failing
 * @attach:  asks the exporter, again and again, until it is LIVE
 * @answered: completed by the first answer
 * @settle:  sends again what was in flight when it became LIVE, or fails it when barred
 * @publish: makes the device, which looks for partitions and so waits for the exporter
 * @published: @publish is through; then @err is 0, or why there is no device
 * @ref:     one for the table, one for each who looks at it, one for the gendisk
 */
struct card_disk {
	struct card_net *cn;
	u32 id;
	struct card_disk_spec spec;
	struct flt_node *node;
	int index;
	struct card_geometry geo;
	bool known;
	bool ready;
	struct card_cache *cache;
	struct blk_mq_tag_set set;
	atomic_t uses;
	atomic_t flying;
	struct gendisk *gendisk;
	struct request_queue *queue;
	spinlock_t lock;	/* leaf: node, state, why, cookie, export, epoch, unflushed */
	u8 state;
	bool barred;
	bool failing;
	bool fenced;
	u64 live_since;
	int why;
	u64 grant;
	char holder[FLT_NAME_MAX];
	u32 cookie;
	u32 export;
	u64 epoch;
	struct card_unflushed unflushed;
	struct delayed_work give_up;
	struct delayed_work attach;
	struct completion answered;
	struct work_struct settle;
	struct work_struct publish;
	struct completion published;
	int err;
	struct kref ref;
	struct rcu_head rcu;
};

/* Waits until the last disk is freed. */
void card_disk_exit(void);

/* Waits for the exporter's answer. On success @name is the device's. */
int card_disk_add(struct card_net *cn, const struct card_disk_spec *spec, char *name,
		  struct netlink_ext_ack *extack);
/* By device name, or by node and export. Not @force: refused while it is open. */
int card_disk_del(struct card_net *cn, const char *name, const char *node, const char *export,
		  bool force, struct netlink_ext_ack *extack);
void card_disk_del_all(struct card_net *cn);

/* References. Any context; the last one is put in process context. */
struct card_disk *card_disk_find(struct card_net *cn, u32 id);
void card_disk_put(struct card_disk *disk);

/* Is the answer from a node that may answer. */
static inline bool card_disk_answers(const struct card_disk *disk, const struct flt_node *node)
{
	return READ_ONCE(disk->node) == node;
}

/* Any context. Another node of its name may take its place; it is freed after a grace period. */
static inline bool card_disk_node_is_up(const struct card_disk *disk)
{
	bool up;

	rcu_read_lock();
	up = flt_node_is_up(READ_ONCE(disk->node));
	rcu_read_unlock();
	return up;
}

/* How a request ends at once, because no answer will come. BLK_STS_OK: one may. */
static inline blk_status_t card_disk_fate(const struct card_disk *disk)
{
	if (READ_ONCE(disk->state) == CARD_STATE_DEAD)
		return BLK_STS_OFFLINE;
	return READ_ONCE(disk->barred) || READ_ONCE(disk->failing) ? BLK_STS_IOERR : BLK_STS_OK;
}

unsigned int card_disk_inflight(struct card_disk *disk);

extern const struct blk_mq_ops card_mq_ops;

#endif
