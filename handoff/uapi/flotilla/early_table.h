/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * What a dispatcher's policy says, for connections that are opened before there is a socket.
 *
 * The dispatcher keeps the policy. It tells the kernel which nodes a target is assigned to, and
 * what it knows of the nodes; the kernel then decides what changes neither: "the node has the
 * target, and is not to be relieved". Whatever would change an assignment, and whatever is not
 * known here, goes to the listener, so the dispatcher decides it and tells what has become of it.
 *
 *	dev = open("/dev/handoff", O_RDWR);
 *	struct hof_early_table_args t = { .size = sizeof(t), .op = HOF_EARLY_CREATE, .nr = 65536 };
 *	ioctl(dev, HOF_IOC_EARLY_TABLE, &t);
 *	struct hof_early_page *page = mmap(NULL, HOF_EARLY_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
 *					   dev, 0);
 *	page->...				the nodes, their loads and thresholds
 *	e.flags = HOF_EARLY_TABLE;		of struct hof_early: @nodes is by slot, 0: nobody
 *	ioctl(dev, HOF_IOC_EARLY, &e);		for each service
 *	struct hof_early_target a = { .key = key, .nodes = 1 << slot };
 *	t = { .size = sizeof(t), .op = HOF_EARLY_SET, .nr = 1, .targets = (uintptr_t)&a };
 *	ioctl(dev, HOF_IOC_EARLY_TABLE, &t);
 *
 * A table is of a descriptor, and ends with it; all of its services that have the flag share it. A
 * load is what the dispatcher has given (@load) and what the kernel has (@given): each writes its
 * own, and reads the other's. A connection loads its node from the moment that it is given until it
 * ends, and not while it is idle between two requests.
 *
 * A target that is asked for again and again is never seen by the dispatcher. So once in @fresh_ms
 * it is, and says again where the target is: what it forgets since nobody asks, nobody asks for.
 */
#ifndef _UAPI_FLOTILLA_EARLY_TABLE_H
#define _UAPI_FLOTILLA_EARLY_TABLE_H

#include <linux/types.h>
#include <linux/ioctl.h>

/* Nodes, each in a slot: a set of them is one word. */
#define HOF_EARLY_SLOTS		64
/* Most targets of a table, and of a call. */
#define HOF_EARLY_TARGETS_MAX	(1U << 20)
#define HOF_EARLY_BATCH		4096U
/* Bytes that are mapped, from offset 0. */
#define HOF_EARLY_PAGE		4096U

/**
 * enum hof_early_policy - how the kernel chooses
 * @HOF_EARLY_NONE:       not at all: everything is the listener's
 * @HOF_EARLY_FEWEST:     the least load by share, ties to the first slot
 * @HOF_EARLY_HASH:       the key modulo the eligible nodes, or modulo @shares if theirs differ
 * @HOF_EARLY_ASSIGNED:   the one node of the target, as long as it is not to be relieved
 * @HOF_EARLY_REPLICATED: the least loaded node of the target's, if it is not to be relieved and the
 *			  set, of more than one, is not older than @replication_us
 *
 * A node is to be relieved when its load is above @high while another one's is below @low, and when
 * it has reached @cap.
 */
enum hof_early_policy {
	HOF_EARLY_NONE		= 0,
	HOF_EARLY_FEWEST	= 1,
	HOF_EARLY_HASH		= 2,
	HOF_EARLY_ASSIGNED	= 3,
	HOF_EARLY_REPLICATED	= 4,
};

/**
 * struct hof_early_slot - a node
 * @node:      FLT_A_NODE_ID; 0: it gets nothing from here
 * @load:      that the dispatcher has given it
 * @share:     its weight
 * @low, @high, @cap: thresholds
 * @forgotten: targets that were set in an epoch before this one are not its
 * @given:     the kernel's: load that it has given it
 * @chosen:    the kernel's: how often in all
 * @taken:     the kernel's: how often the node has taken what it was given
 */
struct hof_early_slot {
	__u32	node;
	__u32	load;
	__u32	share;
	__u32	low;
	__u32	high;
	__u32	cap;
	__u32	forgotten;
	__u32	given;
	__u64	chosen;
	__u64	taken;
};

/**
 * struct hof_early_page - what both see; the dispatcher's, but for what is said to be the kernel's
 * @version:  odd while more than one load is being changed: the kernel then decides nothing
 * @policy:   enum hof_early_policy
 * @limit:    the load of all eligible nodes together is not to exceed this
 * @cursor:   from which slot on the first among equals is looked for
 * @eligible: slots that get anything
 * @shares:   sum of theirs
 * @until_us: of CLOCK_MONOTONIC: from then on nothing of it holds; ~0: for ever
 * @replication_us: see HOF_EARLY_REPLICATED
 * @waiting:  not 0: requests wait for room at the dispatcher, whom nobody is to overtake
 * @fresh_ms: see above; 0: the dispatcher need not see a target again
 * @any_host: the Host is not part of a target's key
 */
struct hof_early_page {
	__u32	version;
	__u32	policy;
	__u32	limit;
	__u32	cursor;
	__u64	eligible;
	__u64	shares;
	__u64	until_us;
	__u64	replication_us;
	__u32	waiting;
	__u32	fresh_ms;
	__u32	any_host;
	__u32	pad;
	struct hof_early_slot slots[HOF_EARLY_SLOTS];
};

/**
 * struct hof_early_target - an assignment
 * @key:        of the target: hash_bytes() (handoff/target_hash.h) of "host/path?query". The kernel
 *		knows that of targets only whose normal form is as the client has written it
 * @nodes:      slots; 0: it has none any more
 * @changed_us: of CLOCK_MONOTONIC: when they changed last
 * @epoch:      see @forgotten
 * @pad:        0
 */
struct hof_early_target {
	__u64	key;
	__u64	nodes;
	__u64	changed_us;
	__u32	epoch;
	__u32	pad;
};

enum hof_early_op {
	HOF_EARLY_CREATE	= 1,	/* @nr: room for so many targets */
	HOF_EARLY_SET		= 2,	/* @nr of @targets */
	HOF_EARLY_CLEAR		= 3,	/* all of them go */
};

/**
 * struct hof_early_table_args - argument of HOF_IOC_EARLY_TABLE
 * @size:    sizeof(struct hof_early_table_args)
 * @op:      enum hof_early_op
 * @nr:      see there; at most HOF_EARLY_TARGETS_MAX, and HOF_EARLY_BATCH for SET
 * @pad:     0
 * @targets: SET: address of @nr struct hof_early_target; else 0
 *
 * SET returns for how many there was no room: the kernel leaves those to the listener. Memory is
 * charged to the caller. Needs CAP_NET_ADMIN of the machine.
 * Errors: EPERM; EFAULT, and then a part may be set; EINVAL; EEXIST: CREATE, there is a table;
 * ENOENT: there is none; EOPNOTSUPP: this kernel's cookies are out of reach; EINTR; ENOMEM.
 *
 * mmap(2): ENODEV: there is no table; EINVAL: not the page, or private.
 */
struct hof_early_table_args {
	__u32	size;
	__u32	op;
	__u32	nr;
	__u32	pad;
	__aligned_u64 targets;
};

/* Of /dev/handoff. */
#define HOF_IOC_EARLY_TABLE	_IOW(0xF1, 19, struct hof_early_table_args)

#endif
