/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * Generic netlink family "flotilla_card": disks that this node offers to others,
 * and disks of others that it has as block devices.
 *
 * Both nodes list each other in the node table first (family "flotilla"). Then
 *
 *   1. On the node that has the disk: CARD_CMD_EXPORT_NEW with a name, the path
 *      of the block device and the names of the nodes that may use it.  A node
 *      that is not listed gets nothing, and cannot tell that the export exists.
 *   2. On another node: CARD_CMD_DISK_NEW with the exporter's name and the
 *      export's.  The answer holds the name of the new block device, "card0".
 *   3. CARD_CMD_DISK_DEL and CARD_CMD_EXPORT_DEL end them, in either order.
 *
 * A device outlives its exporter: requests wait until it is back, and are then repeated in
 * their order, as those of a disk that is mounted should.  They wait without end, unless
 * CARD_A_DISK_FAIL_FAST or CARD_A_DISK_RETRIES say how long; CARD_CMD_DISK_DEL with
 * CARD_A_DISK_FORCE ends them at any time (EIO).
 *
 * An exporter that was started anew may have lost writes that it had acknowledged and that
 * were not flushed yet.  The device notices: from then on each flush (fsync) fails with EIO
 * until all who have it open have closed it, and CARD_A_DISK_REASON says so.
 *
 * There is no swapping to such a device (EOPNOTSUPP): to free memory it would need memory.
 *
 * An export has an identity, 16 bytes that stand for the disk and not for its name
 * (CARD_A_EXPORT_UUID).  A device keeps the one that it was attached with.  It goes on
 * with any later export of that name and identity, which is the same disk after a
 * restart of the exporter; an export with another one is another disk: nothing is
 * read from it or written to it, all requests fail at once (EIO), and
 * CARD_A_DISK_REASON says so, until the right disk is exported again.  Everything
 * belongs to the network namespace of the netlink socket and goes with it; block devices
 * have one name space for all.
 *
 * All but the dumps need CAP_SYS_ADMIN in the initial user namespace, because
 * they give and take whole disks.  The dumps need nothing.
 *
 * With a policy (CARD_A_EXPORT_POLICY) the nodes of an export and the exporter serve
 * each other from memory too.  Such a disk is read-only: there is nobody who would
 * take back what others have.  The order of the nodes is part of the policy: every
 * participant gets it from the exporter when it attaches.
 *
 * A disk has one writer (CARD_FLAG_WRITE) at a time: another node that asks to write is
 * refused with EBUSY and the name of who has it.  The place is given up by
 * CARD_CMD_DISK_DEL; it stays while the writer is cut off, until the writer's node has
 * been started anew, or is removed from the exporter's node table, or until somebody
 * takes it with CARD_FLAG_STEAL.  Whose place was taken is fenced: what it sends late is
 * not written, its requests fail (EIO), and only a new attachment can write again.  Any
 * number of nodes may read beside the writer; what they have in memory is not kept right.
 * With CARD_FLAG_SHARED, given to the export and to each attachment, nobody is fenced and
 * all may write: for cluster file systems, which see to the rest.
 *
 * An export claims its disk as a mount does (EBUSY if somebody else has): nobody on the
 * exporter mounts or exports it meanwhile, or a part of it, or a volume made of it.
 * Exports that only read claim together.  CARD_A_EXPORT_CLAIM names further devices that
 * lead to the same storage and are not known to the block layer as such, loop devices of
 * one file say.  With CARD_A_EXPORT_MOUNT the mount has the claim, which has to be read-only, and
 * has to stay so: the export serves nobody any more when it is not.  CARD_FLAG_UNCLAIMED
 * claims nothing, of a disk that is set read-only.
 *
 * Errors: EPERM no CAP_SYS_ADMIN; EINVAL malformed, out of range, a name with
 * other characters than [A-Za-z0-9._-]; EEXIST the name is taken; ENOENT no such
 * node, export or disk; EBUSY in use, or attached already: a node has one disk of
 * an export, or another node writes to it; EACCES writing is not offered, or the disk is read-only;
 * ENOTUNIQ one side says shared and the other does not; ETIMEDOUT,
 * ENOTCONN the node did not answer or is not up; EOPNOTSUPP unknown flags, writing with
 * a policy, or explaining a disk without one; ERANGE no such block; what
 * opening the block device gives (ENOTBLK, ENXIO, ...).
 */
#ifndef _UAPI_FLOTILLA_CARD_H
#define _UAPI_FLOTILLA_CARD_H

#define CARD_GENL_NAME		"flotilla_card"
#define CARD_GENL_VERSION	1

/* Longest name of an export, of a policy and of a block device, with the NUL. */
#define CARD_NAME_MAX		32
/* Longest path, with the NUL. */
#define CARD_PATH_MAX		256
/* Nodes of one export: those that may use it. */
#define CARD_NODES_MAX		64
/* Further devices that an export claims. */
#define CARD_CLAIMS_MAX		32

/* Bytes of an identity: those of a UUID, in the order in which they are written. */
#define CARD_UUID_LEN		16

/* 2 MB */
#define CARD_HOME_SHIFT_MAX	9

enum card_cmd {
	CARD_CMD_UNSPEC,
	CARD_CMD_EXPORT_NEW,	/* EXPORT_NAME, _PATH, _NODE (one for each); also others */
	CARD_CMD_EXPORT_DEL,	/* EXPORT_NAME */
	CARD_CMD_EXPORT_GET,	/* dump */
	CARD_CMD_EXPORT_SET,	/* EXPORT_NAME and what changes: _SERVE, _DELIVER */
	CARD_CMD_DISK_NEW,	/* DISK_NODE, _EXPORT; others may be given; answers DISK_NAME */
	CARD_CMD_DISK_DEL,	/* DISK_NAME, or DISK_NODE and _EXPORT; _FORCE: if open too */
	CARD_CMD_DISK_GET,	/* dump */
	CARD_CMD_EXPLAIN,	/* EXPLAIN_BLOCK, _NAME if there are several; answers all */
	__CARD_CMD_MAX
};

#define CARD_CMD_MAX (__CARD_CMD_MAX - 1)

/* CARD_A_EXPORT_FLAGS and CARD_A_DISK_FLAGS; others are refused with EOPNOTSUPP. */
enum card_flag {
	CARD_FLAG_WRITE		= 1 << 0,	/* allow, or ask for, writing */
	CARD_FLAG_KEEP		= 1 << 1,	/* disk: the exporter may cache what is read */
	CARD_FLAG_NOLOOKUP	= 1 << 2,	/* disk: read the exporter's disk, cached or not */
	CARD_FLAG_SHARED	= 1 << 3,	/* with WRITE: several writers */
	CARD_FLAG_UNCLAIMED	= 1 << 5,	/* export, no WRITE: others use it */
	CARD_FLAG_STEAL		= 1 << 4,	/* disk, WRITE: fence the writer */
};

/**
 * enum card_mode - which cache of the exporter a disk's requests are looked up in
 * @CARD_MODE_BLOCK: the block device's own (default)
 * @CARD_MODE_PAGE:  file by file, as the exporter's own reads of the file system see it
 */
enum card_mode {
	CARD_MODE_BLOCK,
	CARD_MODE_PAGE,
};

/**
 * enum card_serve_mode - where the exporter works on a request
 * @CARD_SERVE_MIX:    cached blocks, and a lone read that waits for nothing, where the message is
 *                      received; others by a thread (default)
 * @CARD_SERVE_EVENT:  all where the message is received
 * @CARD_SERVE_THREAD: all by a thread
 */
enum card_serve_mode {
	CARD_SERVE_MIX,
	CARD_SERVE_EVENT,
	CARD_SERVE_THREAD,
};

/**
 * enum card_deliver_mode - who answers when the exporter's disk has delivered
 * @CARD_DELIVER_EVENT: the completion of the disk's request (default)
 * @CARD_DELIVER_ASYNC: the thread, which submits several and sleeps until one is done
 * @CARD_DELIVER_SYNC:  the thread, one by one
 */
enum card_deliver_mode {
	CARD_DELIVER_EVENT,
	CARD_DELIVER_ASYNC,
	CARD_DELIVER_SYNC,
};

/**
 * enum card_origin - where an export's identity comes from
 * @CARD_ORIGIN_MADE:  the disk has none: random, and another one with each export
 * @CARD_ORIGIN_DISK:  of the disk: it has the same one after a restart
 * @CARD_ORIGIN_NAMED: given by who exported, who answers for it (default with CARD_A_EXPORT_UUID)
 */
enum card_origin {
	CARD_ORIGIN_MADE,
	CARD_ORIGIN_DISK,
	CARD_ORIGIN_NAMED,
};

/**
 * enum card_state - of an attached disk
 * @CARD_STATE_WAITING: the link is down, or the exporter was asked and has not answered
 * @CARD_STATE_LIVE:    requests flow
 * @CARD_STATE_REFUSED: the exporter says no (CARD_A_DISK_REASON); asked again every second
 * @CARD_STATE_DEAD:    detached, not yet closed by all
 */
enum card_state {
	CARD_STATE_WAITING,
	CARD_STATE_LIVE,
	CARD_STATE_REFUSED,
	CARD_STATE_DEAD,
};

/**
 * enum card_held - how a node has a block of a disk with a policy
 * @CARD_HELD_NOT:    it has not
 * @CARD_HELD_CACHED: in its page cache
 * @CARD_HELD_HOSTED: for others
 */
enum card_held {
	CARD_HELD_NOT,
	CARD_HELD_CACHED,
	CARD_HELD_HOSTED,
};

/**
 * enum card_copy - what a node takes its copy of a block for
 * @CARD_COPY_UNKNOWN: nothing is known of the block
 * @CARD_COPY_SINGLET: the only one
 * @CARD_COPY_RECENT:  the most recent of several
 * @CARD_COPY_OLDER:   one of several; somebody has asked for it since
 */
enum card_copy {
	CARD_COPY_UNKNOWN,
	CARD_COPY_SINGLET,
	CARD_COPY_RECENT,
	CARD_COPY_OLDER,
};

enum card_attr {
	CARD_A_UNSPEC,
	CARD_A_PAD,

	CARD_A_EXPORT_NAME,	/* string */
	CARD_A_EXPORT_PATH,	/* string: block device */
	CARD_A_EXPORT_MOUNT,	/* string: directory where it is mounted here, for CARD_MODE_PAGE */
	CARD_A_EXPORT_NODE,	/* string, one for each node that may attach; their order counts */
	CARD_A_EXPORT_FLAGS,	/* u32: CARD_FLAG_WRITE, _SHARED, _UNCLAIMED */
	CARD_A_EXPORT_SERVE,	/* u8, enum card_serve_mode */
	CARD_A_EXPORT_DELIVER,	/* u8, enum card_deliver_mode */
	CARD_A_EXPORT_POLICY,	/* string: "none", or a policy's: "hscc", "hdc" */
	CARD_A_EXPORT_SIZE,	/* u64 bytes; read only */
	CARD_A_EXPORT_SESSIONS,	/* u32: nodes that have it now; read only */

	CARD_A_DISK_NAME,	/* string: "card0"; read only */
	CARD_A_DISK_NODE,	/* string: exporter */
	CARD_A_DISK_EXPORT,	/* string */
	CARD_A_DISK_FLAGS,	/* u32, enum card_flag */
	CARD_A_DISK_MODE,	/* u8, enum card_mode */
	CARD_A_DISK_DEPTH,	/* u32: requests in flight, 1 to 1024, default 128 */
	CARD_A_DISK_TIMEOUT_MS,	/* u32: then it is asked again, 100 to 600000, default 1000 */
	CARD_A_DISK_RETRIES,	/* u32: fail after so many more, 0 to 1000; default never */
	CARD_A_DISK_READAHEAD,	/* u32: pages; default what the exporter's disk has */
	CARD_A_DISK_SIZE,	/* u64 bytes; read only */
	CARD_A_DISK_STATE,	/* u8, enum card_state; read only */
	CARD_A_DISK_REASON,	/* string: why it is not live; read only */
	CARD_A_DISK_POLICY,	/* string; read only */
	CARD_A_DISK_OPENERS,	/* u32; read only */
	CARD_A_DISK_INFLIGHT,	/* u32; read only */
	CARD_A_DISK_FORCE,	/* flag */

	CARD_A_EXPORT_HOST,	/* u32: pages kept for other nodes; default a quarter of memory */
	CARD_A_DISK_HOST,	/* u32: the same */

	CARD_A_EXPLAIN_NAME,	/* string: of a disk or an export */
	CARD_A_EXPLAIN_BLOCK,	/* u64: of 4096 bytes */
	CARD_A_EXPLAIN_POLICY,	/* string */
	CARD_A_EXPLAIN_HELD,	/* u8, enum card_held */
	CARD_A_EXPLAIN_COPY,	/* u8, enum card_copy */
	CARD_A_EXPLAIN_HOME,	/* string: node that knows of the block; "self": this one */
	CARD_A_EXPLAIN_PREVIOUS, /* string: where the copy came from; "" nobody */
	CARD_A_EXPLAIN_NEXT,	/* string: who asked last; "" nobody */
	CARD_A_EXPLAIN_ASK,	/* string: who would be asked now */
	CARD_A_EXPLAIN_HOSTED,	/* u32: pages that this node keeps for others */
	CARD_A_EXPLAIN_HOST,	/* u32: how many it may */

	CARD_A_EXPORT_HOME_SHIFT, /* u8: 2^this blocks in a row have one home, 0 to 9, default 0 */

	CARD_A_EXPORT_UUID,	/* CARD_UUID_LEN bytes, not 0; else the disk's, or random */
	CARD_A_EXPORT_ORIGIN,	/* u8, enum card_origin; may come with _UUID, not MADE */
	CARD_A_EXPORT_CLAIM,	/* u32, one for each: device number, major << 20 | minor */
	CARD_A_EXPORT_WRITER,	/* string: node that writes alone, or ""; read only */
	CARD_A_DISK_UUID,	/* CARD_UUID_LEN bytes: the only disk that is accepted */
	CARD_A_DISK_FAIL_FAST,	/* u32: fail after so many seconds without it; 0: never */

	__CARD_A_MAX
};

#define CARD_A_MAX (__CARD_A_MAX - 1)

#endif /* _UAPI_FLOTILLA_CARD_H */
