/* SPDX-License-Identifier: GPL-2.0 */
/* One request at the node that answers it. */
#ifndef CARD_SERVE_H
#define CARD_SERVE_H

#include <linux/bvec.h>
#include <linux/llist.h>
#include "kmod/link.h"

#include "export.h"
#include "wire.h"

/**
 * enum card_page - where a page of a reply comes from
 * @CARD_PAGE_NONE:   not found yet
 * @CARD_PAGE_CACHED: of a page cache, a reference held
 * @CARD_PAGE_POOL:   of the pool, to be filled by the disk: no cache keeps it
 * @CARD_PAGE_FILL:   new in the disk's page cache, locked until the disk has filled it
 */
enum card_page {
	CARD_PAGE_NONE,
	CARD_PAGE_CACHED,
	CARD_PAGE_POOL,
	CARD_PAGE_FILL,
};

/**
 * struct card_serve - a request being worked on
 * @work:    in the export's works
 * @list:    in the thread's queue
 * @done:    in the thread's list of what the disk has finished
 * @export:  a user of it
 * @session: a reference and one of its requests
 * @node:    who asked, referenced
 * @ask:     as it came
 * @file:    valid with CARD_REQ_FILE
 * @bulk:    the pages as a message's end
 * @sector, @bytes, @flags, @op: from @ask
 * @source:  enum card_source of the reply
 * @deliver: enum card_deliver_mode
 * @nowait:  submitted by a context that must not wait: -EAGAIN is not an error
 * @linked:  its data is on its way in or out, over the link of @node; READ_ONCE
 * @nr:      pages
 * @pending: disk requests under way, and one while they are being submitted
 * @status:  negative errno of the disk, 0; any of the disk requests may write it
 * @arrived, @submitted, @disk_ns, @service_ns: times, ktime_get_ns()
 * @kind:    enum card_page of each page
 * @bvec:    the pages' parts that are asked for
 *
 * Belongs to one context at a time: receiver, thread, disk, link; no lock needed.
 */
struct card_serve {
	struct hlist_node work;
	struct list_head list;
	struct llist_node done;
	struct card_export *export;
	struct card_session *session;
	struct flt_node *node;
	struct card_wire_block ask;
	struct card_wire_file file;
	struct flt_bulk bulk;
	sector_t sector;
	u32 bytes;
	u16 flags;
	u8 op;
	u8 source;
	u8 deliver;
	bool nowait;
	bool linked;
	unsigned int nr;
	atomic_t pending;
	int status;
	u64 arrived, submitted, disk_ns, service_ns;
	u8 *kind;
	struct bio_vec bvec[] __counted_by(nr);
};

static inline pgoff_t card_serve_index(const struct card_serve *s, unsigned int i)
{
	return (s->sector >> PAGE_SECTORS_SHIFT) + i;
}

int card_submit_init(void);
void card_submit_exit(void);

/* Messages; process context. A negative return closes the link. */
int card_serve_read(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg);
int card_serve_write_sink(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg,
			  struct flt_sink *sink);
int card_serve_write_sunk(struct flt_sink *sink, int err);

/* The steps, for the thread. */
bool card_serve_lookup(struct card_serve *s);
/*
 * What was not found goes to the disk. True: the disk was faster than we, and who
 * submits may answer at once. Process context.
 */
bool card_serve_submit(struct card_serve *s);
/* It would have had to wait: the thread does it anew. Any context but hard interrupt. */
void card_serve_again(struct card_serve *s);
/*
 * Ends it: queues what there is to be sent, which may be an error. Returns to whom,
 * referenced, for flt_link_flush(). Not in hard interrupts.
 */
struct flt_node *card_serve_finish(struct card_serve *s);

#endif
