/* SPDX-License-Identifier: GPL-2.0 */
/* Exports: disks of this node that listed nodes may use. */
#ifndef CARD_EXPORT_H
#define CARD_EXPORT_H

#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/path.h>
#include <linux/refcount.h>
#include <linux/uuid.h>
#include "kmod/node.h"

#include "cache.h"
#include "net.h"
#include "pool.h"
#include "wire.h"
#include "works.h"

struct card_seat;
struct card_writer;
struct mem_cgroup;

/* Requests of one node that may be worked on at once: more are refused, to be asked again. */
#define CARD_NODE_REQUESTS	1024
/* And their data: so much, or a 64th of the memory, if that is more. */
#define CARD_NODE_BYTES		SZ_64M

struct netlink_ext_ack;

/**
 * struct card_account - what a node has of an export at once, over all its sessions
 * @requests: being worked on, until their answers have left
 * @bytes:    of these
 */
struct card_account {
	atomic_t requests;
	atomic_long_t bytes;
};

/**
 * struct card_session - a node that has attached an export
 * @ref:      the table's and one for each request worked on
 * @account:  the node's, in the export
 * @write:    was asked for and granted
 * @writer:   who writes alone, referenced; NULL: does not write, or with others
 * @instance: of the node when it attached: after its restart it must attach again
 */
struct card_session {
	refcount_t ref;
	struct card_account *account;
	bool write;
	struct card_writer *writer;
	u64 instance;
	struct rcu_head rcu;
};

/**
 * struct card_export_spec - what CARD_CMD_EXPORT_NEW gave
 * @name, @path, @mount, @policy: strings; @mount and @policy may be empty
 * @flags, @serve, @deliver: enums of the uapi
 * @home_shift: so many powers of two of blocks have one home
 * @host: pages kept for other nodes; negative: a quarter of memory
 * @uuid, @origin: identity, and enum card_origin; all zeros: find or make one
 * @nr_claims, @claims: other devices of the same storage
 * @nr_nodes, @nodes: who may attach
 */
struct card_export_spec {
	char name[CARD_NAME_MAX];
	char path[CARD_PATH_MAX];
	char mount[CARD_PATH_MAX];
	char policy[CARD_NAME_MAX];
	u32 flags;
	u8 serve, deliver, home_shift, origin;
	s64 host;
	uuid_t uuid;
	unsigned int nr_claims;
	dev_t claims[CARD_CLAIMS_MAX];
	unsigned int nr_nodes;
	char nodes[CARD_NODES_MAX][FLT_NAME_MAX];
};

struct card_thread;

/**
 * struct card_export - one exported disk
 * @cn:       the namespace
 * @id:       its number, address part of every message
 * @epoch:    random, address part of every message
 * @spec:     as configured; @spec.serve and .deliver: READ_ONCE, may change
 * @file:     the opened block device
 * @bdev:     of @file
 * @others:   @spec.claims, opened
 * @spoiled:  somebody here may have written to it: nobody is served any more. READ_ONCE
 * @memcg:    whose memory the blocks are that it keeps: the memory cgroup of who exported
 * @mnt:      where it is mounted here; mnt.mnt is NULL without CARD_MODE_PAGE
 * @sectors, @block: size of the disk and of its logical block
 * @seat:     the place of the one writer; NULL: nobody writes, or many do
 * @sessions: struct card_session by node id; changed under xa_lock, read under RCU
 * @accounts: of the nodes in @spec, in their order
 * @pool:     reply pages
 * @thread:   works on what is not answered at once
 * @works:    what is being worked on, so that it is not begun twice
 * @cache:    part in the cooperative cache that the policy makes, or NULL
 * @users:    1 while it is configured, and one for each request worked on
 * @unused:   completed with the last user
 *
 * Found under RCU by number; ended in process context, which waits for @unused.
 */
struct card_export {
	struct rcu_head rcu;	/* early: kfree_rcu() takes no far one */
	struct card_net *cn;
	u32 id;
	u64 epoch;
	struct card_export_spec spec;
	struct file *file;
	struct block_device *bdev;
	struct file *others[CARD_CLAIMS_MAX];
	bool spoiled;
	struct mem_cgroup *memcg;
	struct path mnt;
	sector_t sectors;
	u32 block;
	struct card_seat *seat;
	struct xarray sessions;
	struct card_account accounts[CARD_NODES_MAX];
	struct card_pool pool;
	struct card_thread *thread;
	struct card_works works;
	struct card_cache *cache;
	refcount_t users;
	struct completion unused;
};

int card_export_add(struct card_net *cn, struct card_export_spec *spec,
		    struct netlink_ext_ack *extack);
int card_export_del(struct card_net *cn, const char *name);
int card_export_set(struct card_net *cn, const char *name, int serve, int deliver);
void card_export_del_all(struct card_net *cn);
unsigned int card_export_sessions(struct card_export *export);

/* True: somebody here may have written to it; nothing of it is served. Any context. */
bool card_export_spoil(struct card_export *export);

/* A reference to be given back by card_export_put(); NULL. Any context. */
struct card_export *card_export_find(struct card_net *cn, u32 id, u64 epoch);
void card_export_put(struct card_export *export);

/* The session of a node, with a reference and one more request; ERR_PTR: errno for the asker. */
struct card_session *card_session_enter(struct card_export *export, const struct flt_node *node);
void card_session_leave(struct card_session *session);
/* The data of a request counts, too. False: too much of its node's is being worked on. */
bool card_session_charge(struct card_session *session, u32 bytes);
void card_session_uncharge(struct card_session *session, u32 bytes);
/* Its node's place as the writer was taken: what it wants is not to be done. */
bool card_session_fenced(const struct card_session *session);

int card_export_attach(struct card_net *cn, struct flt_node *node,
		       const struct card_wire_attach *ask);
/* False: it is not about an export of ours. */
bool card_export_detach(struct card_net *cn, struct flt_node *node,
			const struct card_wire_detach *ask);
/* The node is down, or @removed: its sessions end. */
void card_export_forget(struct card_net *cn, const struct flt_node *node, bool removed);

#endif
