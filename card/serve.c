// SPDX-License-Identifier: GPL-2.0
/*
 * One request at the exporter: checked, looked up in the cache, else read from the
 * disk into pages that go out as they are. The only copy is made by the asker.
 */

#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/swap.h>

#include "counter.h"
#include "entry.h"
#include "file.h"
#include "parcel.h"
#include "peer.h"
#include "serve.h"
#include "thread.h"
#include "trace.h"

static struct card_serve *card_serve_new(struct card_export *export, struct flt_node *node,
					 const struct card_wire_block *ask)
{
	sector_t sector = be64_to_cpu(ask->sector);
	u32 bytes = be32_to_cpu(ask->bytes);
	unsigned int nr, i, off;
	struct card_serve *s;

	off = offset_in_page(sector << SECTOR_SHIFT);
	nr = DIV_ROUND_UP(off + bytes, PAGE_SIZE);
	s = kmalloc(struct_size(s, bvec, nr) + nr, GFP_NOIO | __GFP_NOWARN);
	if (!s)
		return NULL;
	memset(s, 0, offsetof(struct card_serve, bvec));
	s->nr = nr;
	s->kind = (u8 *)&s->bvec[nr];
	memset(s->kind, CARD_PAGE_NONE, nr);
	s->export = export;
	s->node = flt_node_get(node);
	s->ask = *ask;
	s->sector = sector;
	s->bytes = bytes;
	s->flags = be16_to_cpu(ask->flags);
	s->op = ask->op;
	s->deliver = CARD_DELIVER_EVENT;
	s->arrived = ktime_get_ns();
	for (i = 0; i < nr; i++) {
		u32 len = min_t(u32, PAGE_SIZE - off, bytes);

		bvec_set_page(&s->bvec[i], NULL, len, off);
		bytes -= len;
		off = 0;
	}
	return s;
}

static void card_serve_free(struct card_serve *s)
{
	struct card_export *export = s->export;
	unsigned int i;

	card_works_del(&export->works, s);
	for (i = 0; i < s->nr; i++)
		if (s->kind[i] != CARD_PAGE_NONE)
			put_page(s->bvec[i].bv_page);
	card_session_uncharge(s->session, s->bytes);
	card_session_leave(s->session);
	flt_node_put(s->node);
	kfree(s);
	card_export_put(export);
}

/* The link is through with the pages. The module stays at least until we have returned. */
static void card_serve_sent(struct flt_bulk *bulk)
{
	rcu_read_lock();
	card_serve_free(container_of(bulk, struct card_serve, bulk));
	rcu_read_unlock();
}

/*
 * The block device's own cache: what its users here have read through it, what file
 * systems keep of their metadata, and what was kept for other nodes.
 */
static bool card_serve_lookup_block(struct card_serve *s, unsigned int i)
{
	pgoff_t index = card_serve_index(s, i);
	struct folio *folio;

	folio = filemap_get_folio(s->export->bdev->bd_mapping, index);
	if (IS_ERR(folio))
		return false;
	if (!folio_test_uptodate(folio)) {
		folio_put(folio);
		return false;
	}
	folio_mark_accessed(folio);
	s->bvec[i].bv_page = folio_file_page(folio, index);
	s->kind[i] = CARD_PAGE_CACHED;
	return true;
}

/* What this node keeps for others is looked for when its own cache has it not. */
static bool card_serve_lookup_hosted(struct card_serve *s, unsigned int i)
{
	struct card_cache *cache = s->export->cache;
	struct page *page;
	bool check;
	u32 crc;

	if (!cache)
		return false;
	spin_lock_irq(&cache->lock);
	page = card_cache_page(cache, card_serve_index(s, i), &crc, &check);
	spin_unlock_irq(&cache->lock);
	if (!page)
		return false;
	if (check && card_page_crc(page) != crc) {
		card_count(cache->cn, CARD_STAT_CACHE_MISMATCH);
		put_page(page);
		return false;
	}
	s->bvec[i].bv_page = page;
	s->kind[i] = CARD_PAGE_CACHED;
	return true;
}

/* Finds what is cached. True: all of it. Process context with CARD_REQ_FILE, else any. */
bool card_serve_lookup(struct card_serve *s)
{
	unsigned int i, found = 0;

	if (s->flags & CARD_REQ_NOLOOKUP)
		return false;
	if (s->flags & CARD_REQ_FILE)
		card_file_lookup(s);
	for (i = 0; i < s->nr; i++)
		if (s->kind[i] != CARD_PAGE_NONE || card_serve_lookup_block(s, i) ||
		    card_serve_lookup_hosted(s, i))
			found++;
	if (found < s->nr)
		return false;
	s->source = CARD_SOURCE_CACHE;
	s->service_ns = ktime_get_ns() - s->arrived;
	return true;
}

static void card_serve_count_pages(struct card_serve *s)
{
	unsigned int i, cached = 0;

	for (i = 0; i < s->nr; i++)
		cached += s->kind[i] == CARD_PAGE_CACHED;
	card_count_add(s->export->cn, CARD_STAT_SERVED_CACHED_PAGES, cached);
	card_count_add(s->export->cn, CARD_STAT_SERVED_DISK_PAGES, s->nr - cached);
}

/*
 * Pages of caches may be changed, by whoever uses the disk or its files here, between the
 * sum and the network card. Who has found a wrong sum gets a copy.
 */
static int card_serve_copy(struct card_serve *s)
{
	struct page *page;
	unsigned int i;
	bool fresh;

	for (i = 0; i < s->nr; i++) {
		struct bio_vec *bv = &s->bvec[i];

		if (s->kind[i] != CARD_PAGE_CACHED)
			continue;
		page = card_pool_get(&s->export->pool, GFP_ATOMIC | __GFP_NOWARN, &fresh);
		if (!page)
			return -ENOMEM;
		memcpy_page(page, bv->bv_offset, bv->bv_page, bv->bv_offset, bv->bv_len);
		put_page(bv->bv_page);
		bv->bv_page = page;
		s->kind[i] = CARD_PAGE_POOL;
	}
	return 0;
}

static int card_serve_reply(struct card_serve *s)
{
	struct card_wire_block head = s->ask;
	struct kvec vec = { .iov_base = &head, .iov_len = sizeof(head) };
	struct card_net *cn = s->export->cn;
	u64 begun = ktime_get_ns();
	int err;

	card_serve_count_pages(s);
	if (s->status) {
		card_count(cn, CARD_STAT_DISK_ERRORS);
		return s->status;
	}
	err = s->flags & CARD_REQ_STABLE ? card_serve_copy(s) : 0;
	if (err)
		return err;
	head.crc = cpu_to_be32(card_crc(s->bvec, s->nr));
	head.source = s->source;
	head.deliverer = cpu_to_be16(0);
	s->service_ns += ktime_get_ns() - begun;
	head.service_ns = cpu_to_be32(min_t(u64, s->service_ns, U32_MAX));
	head.disk_us = cpu_to_be32(min_t(u64, div_u64(s->disk_ns, NSEC_PER_USEC), U32_MAX));

	s->bulk.bvec = s->bvec;
	s->bulk.nr = s->nr;
	s->bulk.len = s->bytes;
	s->bulk.done = card_serve_sent;
	card_count(cn, CARD_STAT_SERVED);
	card_count(cn, s->source == CARD_SOURCE_CACHE ? CARD_STAT_SERVED_CACHED :
		   CARD_STAT_SERVED_DISK);
	card_count_add(cn, CARD_STAT_SERVED_BYTES, s->bytes);
	card_count_add(cn, CARD_STAT_SERVE_NS, s->service_ns);
	card_count_add(cn, CARD_STAT_DISK_NS, s->disk_ns);
	trace_card_serve(s->node, &s->ask, s->source, s->deliver, s->service_ns, s->disk_ns);
	WRITE_ONCE(s->linked, true);
	err = flt_link_queue(s->node, CARD_MSG_DATA, &vec, 1, &s->bulk, GFP_ATOMIC);
	if (!err)
		return 0;
	/* The asker will ask again, or is gone. */
	card_count(cn, CARD_STAT_NOT_SENT);
	card_serve_free(s);
	return 0;
}

static int card_serve_end_write(struct card_serve *s)
{
	pgoff_t first = card_serve_index(s, 0);

	if (s->status == -ESTALE)
		return s->status;	/* fenced: nothing was done */
	if (s->op == CARD_OP_WRITE) {
		/* What was read through our cache before is old now. */
		invalidate_inode_pages2_range(s->export->bdev->bd_mapping, first,
					      first + s->nr - 1);
		card_count(s->export->cn, CARD_STAT_SERVED_WRITES);
	}
	if (s->status)
		card_count(s->export->cn, CARD_STAT_DISK_ERRORS);
	return s->status;
}

struct flt_node *card_serve_finish(struct card_serve *s)
{
	struct flt_node *node = flt_node_get(s->node);
	int err;

	if (s->nowait && s->status == -EAGAIN) {
		card_serve_again(s);
		return node;
	}
	if (s->op == CARD_OP_READ) {
		err = card_serve_reply(s);
		if (!err)
			return node;
	} else {
		err = card_serve_end_write(s);
	}
	card_send_done(s->export->cn, s->node, &s->ask, err);
	card_serve_free(s);
	return node;
}

/* In the link's worker, which sends by itself what it is about to answer to its own node. */
static void card_serve_finish_here(struct card_serve *s)
{
	struct flt_node *node = card_serve_finish(s);

	flt_link_flush(node, false);
	flt_node_put(node);
}

/* Nothing of a message is believed. 0 or the errno that the asker gets. */
static int card_serve_check(const struct card_export *export, const struct card_wire_block *ask)
{
	u64 sector = be64_to_cpu(ask->sector);
	u32 bytes = be32_to_cpu(ask->bytes);
	u32 sectors = bytes >> SECTOR_SHIFT;

	if (be16_to_cpu(ask->flags) & ~CARD_REQ_ALL || ask->op > CARD_OP_FLUSH)
		return -EOPNOTSUPP;
	if (ask->op == CARD_OP_FLUSH)
		return sector || bytes ? -EINVAL : 0;
	if (!bytes || bytes > CARD_IO_MAX || bytes % export->block ||
	    sector % (export->block >> SECTOR_SHIFT) || sector > export->sectors ||
	    sectors > export->sectors - sector)
		return -EINVAL;
	return 0;
}

/*
 * Who gets the answer, referenced: the sender, or whom a participant passes the request
 * on for. NULL: nobody that we know.
 */
static struct flt_node *card_serve_asker(const struct card_export *export, struct flt_node *node,
					 const struct card_wire_block *ask)
{
	const struct card_cache *cache = export->cache;

	if (!cache || !(be16_to_cpu(ask->flags) & CARD_REQ_FORWARDED))
		return flt_node_get(node);
	if (card_cache_place(cache, node) == CARD_NOBODY)
		return NULL;
	return card_cache_node(cache, be16_to_cpu(ask->origin));
}

/* Finds everything a request needs; on error the asker has been told. */
static struct card_serve *card_serve_begin(struct card_net *cn, struct flt_node *node,
					   const struct card_wire_block *ask)
{
	struct flt_node *asker = NULL;
	struct card_export *export;
	struct card_session *session = NULL;
	struct card_serve *s = NULL;
	int err = -ESTALE;

	export = card_export_find(cn, be32_to_cpu(ask->export), be64_to_cpu(ask->epoch));
	if (!export) {
		card_count(cn, CARD_STAT_STALE);
		goto refuse;
	}
	asker = card_serve_asker(export, node, ask);
	if (!asker) {
		card_count(cn, CARD_STAT_DENIED);
		card_export_put(export);
		return NULL;
	}
	if (card_export_spoil(export)) {
		card_count(cn, CARD_STAT_DENIED);
		goto undo_export;
	}
	session = card_session_enter(export, asker);
	if (IS_ERR(session)) {
		err = PTR_ERR(session);
		card_count(cn, err == -EBUSY ? CARD_STAT_BUSY : CARD_STAT_DENIED);
		goto undo_export;
	}
	err = card_serve_check(export, ask);
	if (!err && ask->op != CARD_OP_READ && !session->write)
		err = -EACCES;
	if (err) {
		card_count(cn, err == -EACCES ? CARD_STAT_DENIED : CARD_STAT_RANGE);
		goto undo_session;
	}
	if (!card_session_charge(session, be32_to_cpu(ask->bytes))) {
		card_count(cn, CARD_STAT_BUSY);
		err = -EBUSY;
		goto undo_session;
	}
	s = card_serve_new(export, asker, ask);
	if (!s) {
		card_session_uncharge(session, be32_to_cpu(ask->bytes));
		err = -ENOMEM;
		goto undo_session;
	}
	s->session = session;
	if (!card_works_add(&export->works, s)) {
		/* Asked again: the answer comes when there is one. */
		card_count(cn, CARD_STAT_ASKED_AGAIN);
		card_send_done(cn, asker, ask, -EINPROGRESS);
		card_serve_free(s);
		s = NULL;
	}
	flt_node_put(asker);
	return s;

undo_session:
	card_session_leave(session);
undo_export:
	card_export_put(export);
refuse:
	trace_card_refuse(node, ask, err);
	/* Who passed it on for another waits for nothing: his own request may have this tag. */
	if (asker || !(be16_to_cpu(ask->flags) & CARD_REQ_FORWARDED))
		card_send_done(cn, asker ?: node, ask, err);
	if (asker)
		flt_node_put(asker);
	return NULL;
}

/*
 * The only request of its node is submitted at once, as long as nothing has to be waited for:
 * waking the thread would take longer than a fast disk. Several go to the disk together,
 * by the thread, and so do those of a policy's reader, who asks for a window in many requests.
 */
static bool card_serve_is_lone(const struct card_serve *s)
{
	const struct card_export *export = s->export;

	return atomic_read(&s->session->account->requests) == 1 && !export->cache &&
	       READ_ONCE(export->spec.deliver) == CARD_DELIVER_EVENT && bdev_nowait(export->bdev);
}

int card_serve_read(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct card_wire_block *ask = msg->body;
	u32 want = sizeof(*ask);
	struct card_serve *s;
	u8 mode;

	if (msg->len < want)
		return -EBADMSG;
	if (be16_to_cpu(ask->flags) & CARD_REQ_FILE)
		want += sizeof(struct card_wire_file);
	if (msg->len != want || ask->op == CARD_OP_WRITE)
		return -EBADMSG;
	s = card_serve_begin(cn, node, ask);
	if (!s)
		return 0;
	if (s->flags & CARD_REQ_FILE)
		memcpy(&s->file, ask + 1, sizeof(s->file));
	if (s->export->cache && card_peer_divert(s->export->cache, ask)) {
		card_serve_free(s);
		return 0;
	}

	mode = READ_ONCE(s->export->spec.serve);
	/* Files are found by functions that may sleep for the disk. */
	if (mode == CARD_SERVE_THREAD || s->flags & CARD_REQ_FILE || s->op != CARD_OP_READ) {
		card_thread_queue(s);
	} else if (card_serve_lookup(s)) {
		card_count(cn, CARD_STAT_SERVE_INLINE);
		card_serve_finish_here(s);
	} else if (mode == CARD_SERVE_EVENT || card_serve_is_lone(s)) {
		card_count(cn, CARD_STAT_SERVE_INLINE);
		s->nowait = mode != CARD_SERVE_EVENT;
		if (card_serve_submit(s)) {
			card_count(cn, CARD_STAT_DELIVER_THREAD);
			card_serve_finish_here(s);
		}
	} else {
		card_thread_queue(s);
	}
	return 0;
}

int card_serve_write_sink(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg,
			  struct flt_sink *sink)
{
	const struct card_wire_block *ask = msg->body;
	gfp_t gfp = GFP_NOIO | __GFP_NOWARN;
	struct card_serve *s;
	unsigned int i;
	bool fresh;

	sink->priv = NULL;
	if (ask->op != CARD_OP_WRITE || be32_to_cpu(ask->bytes) != msg->len - sizeof(*ask))
		return -EBADMSG;
	s = card_serve_begin(cn, node, ask);
	if (!s)
		return 0;	/* refused: the data is thrown away */
	for (i = 0; i < s->nr; i++) {
		s->bvec[i].bv_page = card_pool_get(&s->export->pool, gfp, &fresh);
		if (!s->bvec[i].bv_page) {
			card_send_done(cn, node, ask, -ENOMEM);
			card_serve_free(s);
			return 0;
		}
		s->kind[i] = CARD_PAGE_POOL;
	}
	iov_iter_bvec(&sink->iter, ITER_DEST, s->bvec, s->nr, s->bytes);
	WRITE_ONCE(s->linked, true);
	sink->priv = s;
	return 0;
}

int card_serve_write_sunk(struct flt_sink *sink, int err)
{
	struct card_serve *s = sink->priv;

	if (!s)
		return 0;
	WRITE_ONCE(s->linked, false);
	if (!err && card_crc(s->bvec, s->nr) == be32_to_cpu(s->ask.crc)) {
		card_thread_queue(s);
		return 0;
	}
	if (!err) {
		card_count(s->export->cn, s->flags & CARD_REQ_STABLE ? CARD_STAT_BAD_CRC :
			   CARD_STAT_RACED);
		card_send_done(s->export->cn, s->node, &s->ask, -EILSEQ);
	}
	card_serve_free(s);
	return 0;
}
