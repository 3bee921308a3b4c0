/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What cards say to each other over a link. Network byte order.
 *
 * A disk is known in the cluster by where it is (the physical id: the exporter's
 * node), the number that the exporter gave it, and the export's epoch, a random
 * number: requests that were meant for what an exporter had before it was
 * restarted find nothing. Numbers of devices never cross the wire.
 */
#ifndef CARD_WIRE_H
#define CARD_WIRE_H

#include <flotilla/card.h>
#include "kmod/link.h"

#define CARD_WIRE_VERSION	3

enum card_msg {
	CARD_MSG_ATTACH		= FLT_MSG_CARD + 0,
	CARD_MSG_ATTACHED	= FLT_MSG_CARD + 1,
	CARD_MSG_DETACH		= FLT_MSG_CARD + 2,
	CARD_MSG_READ		= FLT_MSG_CARD + 3,
	CARD_MSG_DATA		= FLT_MSG_CARD + 4,	/* bulk: the blocks follow */
	CARD_MSG_DONE		= FLT_MSG_CARD + 5,	/* without data: written, or an error */
	CARD_MSG_WRITE		= FLT_MSG_CARD + 6,	/* bulk */
	CARD_MSG_SAVE		= FLT_MSG_CARD + 7,	/* bulk */
	CARD_MSG_INDEX		= FLT_MSG_CARD + 8,
	CARD_MSG_PEER		= FLT_MSG_CARD + 9,	/* READ for a participant's memory */
};

/* Bytes of one request. */
#define CARD_IO_MAX	SZ_512K

/**
 * struct card_wire_attach - body of ATTACH
 * @version: CARD_WIRE_VERSION
 * @disk:    the asker's number of the disk, repeated in the answer
 * @cookie:  of this attempt, repeated in the answer
 * @flags:   CARD_FLAG_WRITE, _SHARED, _STEAL
 * @grant:   of this attachment's writer, as ATTACHED gave it; 0: none yet
 * @life:    the same, of the disk's life at the exporter
 * @zero:    must be zero
 * @uuid:    identity of the only disk that will do, or zeros
 * @name:    of the export, zeros to the end
 */
struct card_wire_attach {
	__be32 version;
	__be32 disk;
	__be32 cookie;
	__be32 flags;
	__be32 zero;
	__be64 grant;
	__be64 life;
	u8 uuid[CARD_UUID_LEN];
	char name[CARD_NAME_MAX];
} __packed;

/* What card_wire_attached.features may hold. */
enum card_feature {
	CARD_FEATURE_WRITE_CACHE	= 1 << 0,
	CARD_FEATURE_FUA		= 1 << 1,
	CARD_FEATURE_ROTATIONAL		= 1 << 2,
	CARD_FEATURE_FILES		= 1 << 3,	/* takes struct card_wire_file */
};

/**
 * struct card_wire_attached - body of ATTACHED
 * @disk, @cookie: of ATTACH
 * @status:     0, or a positive errno; then the rest is zero, but for @uuid with EUCLEAN
 *		and @holder with EBUSY; EAGAIN: ask again, it is being seen to
 * @uuid:       identity, never zeros
 * @grant:      with CARD_FLAG_WRITE and without _SHARED: number of the writer; larger than
 *		any before, and to be repeated whenever the disk attaches again
 * @life:       random; another one when what was acknowledged and not flushed may be lost
 * @features:   enum card_feature
 * @export, @epoch: address of the disk in later messages
 * @sectors:    size, 512 bytes each
 * @block:      logical block size
 * @phys_block: physical block size
 * @readahead:  pages, of the exporter's disk
 * @policy:     name, zeros to the end
 * @place:      of the asker among the participants; 0 without a policy
 * @nr_nodes:   how many names follow, FLT_NAME_MAX bytes each: the participants from
 *	        place 1; the exporter's place is 0. Places stand for nodes in messages
 * @holder:     node that writes, zeros to the end
 * @home_shift: so many powers of two of blocks have one home
 * @zero:       must be zero
 */
struct card_wire_attached {
	__be32 disk;
	__be32 cookie;
	__be32 status;
	__be32 features;
	u8 uuid[CARD_UUID_LEN];
	__be64 grant;
	__be64 life;
	__be64 epoch;
	__be64 sectors;
	__be32 export;
	__be32 block;
	__be32 phys_block;
	__be32 readahead;
	char policy[CARD_NAME_MAX];
	char holder[FLT_NAME_MAX];
	__be16 place;
	__be16 nr_nodes;
	u8 home_shift;
	u8 zero[3];
	char nodes[][FLT_NAME_MAX];
} __packed;

/**
 * struct card_wire_detach - body of DETACH, and of the exporter's word that the export has ended
 * @epoch, @export: the disk
 * @flags: enum card_detach_flag
 */
struct card_wire_detach {
	__be64 epoch;
	__be32 export;
	__be32 flags;
} __packed;

/**
 * enum card_detach_flag - card_wire_detach.flags
 * @CARD_DETACH_FLUSHED: of an export that has ended: all that was written is on stable storage
 */
enum card_detach_flag {
	CARD_DETACH_FLUSHED	= 1 << 0,
};

enum card_op {
	CARD_OP_READ,
	CARD_OP_WRITE,
	CARD_OP_FLUSH,
};

enum card_wire_flag {
	CARD_REQ_KEEP		= 1 << 0,	/* not exclusive: the exporter may cache it */
	CARD_REQ_NOLOOKUP	= 1 << 1,	/* read the disk even when it is cached */
	CARD_REQ_FILE		= 1 << 2,	/* a struct card_wire_file follows */
	CARD_REQ_RAHEAD		= 1 << 3,	/* read ahead: nobody waits yet */
	CARD_REQ_FORWARDED	= 1 << 4,	/* has been at its home, or at a hint */
	CARD_REQ_NOCOOP		= 1 << 5,	/* the policy has nothing to say */
	CARD_REQ_FUA		= 1 << 6,
	CARD_REQ_STABLE		= 1 << 7,	/* the sum was wrong: send what is stable */
	CARD_REQ_ALL		= (1 << 8) - 1,
};

enum card_source {
	CARD_SOURCE_DISK,
	CARD_SOURCE_CACHE,
	CARD_SOURCE_PEER,
};

/**
 * struct card_wire_block - head of READ, DATA, DONE, WRITE and SAVE
 * @epoch, @export: the disk
 * @sector, @bytes: what part of it; whole logical blocks
 * @disk, @tag, @gen: the asker's number of the request, repeated in the answer
 * @crc:       CRC32C of the data (DATA, WRITE, SAVE)
 * @status:    DONE: 0 or a positive errno; EINPROGRESS: it is being worked on, wait
 * @flags:     enum card_wire_flag
 * @origin:    place of the asker in the list of participants, or CARD_NOBODY
 * @deliverer: the same of who answers
 * @op:        enum card_op
 * @source:    enum card_source (DATA)
 * @class:     enum card_class of the document
 * @depth:     forwardings left (PEER, SAVE)
 * @kind:      SAVE: enum card_save_kind
 * @recirc:    SAVE: how often a singlet was passed on already
 * @service_ns, @disk_us: DATA: what answering took here, and the disk of that
 */
struct card_wire_block {
	__be64 epoch;
	__be64 sector;
	__be32 export;
	__be32 bytes;
	__be32 disk;
	__be32 tag;
	__be32 gen;
	__be32 crc;
	__be32 status;
	__be16 flags;
	__be16 origin;
	__be16 deliverer;
	u8 op;
	u8 source;
	u8 class;
	u8 depth;
	u8 kind;
	u8 recirc;
	__be32 service_ns;
	__be32 disk_us;
} __packed;

#define CARD_NOBODY	0xffff

/* Unit of caching. */
#define CARD_BLOCK	4096
#define CARD_BLOCK_SECTORS	(CARD_BLOCK >> SECTOR_SHIFT)

/* How often a request is passed on at most: home, hint, disk [Olaru 4.4.2]. */
#define CARD_HOPS	2
/* How often a block is passed on that nobody has room for [Olaru 4.4.3]. */
#define CARD_SAVE_DEPTH	2
#define CARD_DEPTH_MAX	16

/**
 * enum card_class - card_wire_block.class: the document by its size [Olaru 5.2]
 * @CARD_CLASS_NONE: it is none: metadata, or read without a file system
 * @CARD_CLASS_0, @CARD_CLASS_1, @CARD_CLASS_2, @CARD_CLASS_3: the smallest to the largest
 */
enum card_class {
	CARD_CLASS_NONE,
	CARD_CLASS_0,
	CARD_CLASS_1,
	CARD_CLASS_2,
	CARD_CLASS_3,
	CARD_CLASSES
};

/**
 * enum card_save_kind - card_wire_block.kind of SAVE
 * @CARD_SAVE_SINGLET: as far as the evictor knows the only copy
 * @CARD_SAVE_RECENT:  the most recent copy; the node that it came from may have one
 */
enum card_save_kind {
	CARD_SAVE_SINGLET,
	CARD_SAVE_RECENT,
};

/**
 * enum card_said - card_wire_index.said
 * @CARD_SAID_UPDATE:     to the home: @next has the block that @evictor had
 * @CARD_SAID_INVALIDATE: forget what you know of the block, and say so to whom you had it from
 * @CARD_SAID_EVICTED:    to who has a newer copy: the sender's is gone
 * @CARD_SAID_NEW_NEXT:   to who may have an older one: @next is behind it now, or nobody
 * @CARD_SAID_NEW_PREV:   to who has a newer one: @next is before it now
 */
enum card_said {
	CARD_SAID_UPDATE,
	CARD_SAID_INVALIDATE,
	CARD_SAID_EVICTED,
	CARD_SAID_NEW_NEXT,
	CARD_SAID_NEW_PREV,
};

/**
 * struct card_wire_index - body of INDEX
 * @epoch, @export: the disk
 * @block:   of CARD_BLOCK bytes
 * @said:    enum card_said
 * @next, @evictor: places, or CARD_NOBODY
 */
struct card_wire_index {
	__be64 epoch;
	__be64 block;
	__be32 export;
	__be16 next;
	__be16 evictor;
	u8 said;
	u8 zero[7];
} __packed;

/**
 * struct card_wire_file - follows READ's struct card_wire_block with CARD_REQ_FILE
 * @ino, @igen: the file in the disk's file system
 * @index:      page of the file, of the first block
 */
struct card_wire_file {
	__be64 ino;
	__be64 index;
	__be32 igen;
	__be32 zero;
} __packed;

static_assert(sizeof(struct card_wire_block) == 64);

#endif
