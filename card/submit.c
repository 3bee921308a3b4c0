// SPDX-License-Identifier: GPL-2.0
/*
 * What the exporter has not cached: read from its disk into pages of the page cache or
 * of the pool, which go out as they are. Writes and flushes, too.
 */

#include <linux/bio.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>

#include "kmod/compat/memory.h"
#include "counter.h"
#include "export.h"
#include "serve.h"
#include "thread.h"

static struct bio_set card_bios;

/* Whoever must not wait does without. */
static gfp_t card_serve_gfp(const struct card_serve *s)
{
	return s->nowait ? GFP_NOWAIT : GFP_NOIO | __GFP_NOWARN;
}

/*
 * Cached pages that the disk has filled become readable for all. Not later: whoever is
 * to answer may be waiting for one of them.
 */
static void card_serve_unlock(struct card_serve *s)
{
	bool filled = !READ_ONCE(s->status);
	unsigned int i, kept = 0;

	for (i = 0; i < s->nr; i++) {
		if (s->kind[i] != CARD_PAGE_FILL)
			continue;
		folio_end_read(page_folio(s->bvec[i].bv_page), filled);
		s->kind[i] = CARD_PAGE_POOL;
		kept += filled;
	}
	card_count_add(s->export->cn, CARD_STAT_KEPT_PAGES, kept);
}

/* True: the disk is through with all of it. */
static bool card_serve_put_pending(struct card_serve *s)
{
	if (!atomic_dec_and_test(&s->pending))
		return false;
	card_serve_unlock(s);
	s->disk_ns = ktime_get_ns() - s->submitted;
	return true;
}

static void card_serve_end_io(struct bio *bio)
{
	struct card_serve *s = bio->bi_private;

	if (bio->bi_status)
		WRITE_ONCE(s->status, blk_status_to_errno(bio->bi_status));
	bio_put(bio);
	if (card_serve_put_pending(s))
		card_thread_disk_done(s);
}

/* A page of the cache that an earlier attempt has added and not filled, locked. */
static struct folio *card_serve_unfilled(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio = filemap_get_folio(mapping, index);

	if (IS_ERR(folio))
		return NULL;
	/* One that is locked somebody is just reading; one with buffers may be written in part. */
	if (folio_trylock(folio)) {
		if (folio->mapping == mapping && !folio_test_uptodate(folio) &&
		    !folio_test_private(folio) && !folio_test_large(folio))
			return folio;
		folio_unlock(folio);
	}
	folio_put(folio);
	return NULL;
}

/* A page of the page cache to be filled, of the memory of who has exported. */
static int card_serve_keep_page(struct card_serve *s, unsigned int i,
				struct address_space *mapping, pgoff_t index)
{
	struct mem_cgroup *old = set_active_memcg(s->export->memcg);
	struct folio *folio = flt_compat_filemap_alloc_folio(card_serve_gfp(s));
	int err = folio ? filemap_add_folio(mapping, folio, index, card_serve_gfp(s)) : -ENOMEM;

	set_active_memcg(old);
	if (err && folio) {
		folio_put(folio);
		folio = err == -EEXIST ? card_serve_unfilled(mapping, index) : NULL;
	}
	if (!folio)
		return err;
	s->bvec[i].bv_page = folio_page(folio, 0);
	s->kind[i] = CARD_PAGE_FILL;
	return 0;
}

/* The asker lets us keep it, and the disk has all of it. */
static bool card_serve_keeps(const struct card_serve *s, struct address_space *mapping,
			     pgoff_t index)
{
	/* A page of the cache may be changed before it is sent. */
	return (s->flags & (CARD_REQ_KEEP | CARD_REQ_STABLE)) == CARD_REQ_KEEP &&
	       !mapping_min_folio_order(mapping) &&
	       ((sector_t)index + 1) << PAGE_SECTORS_SHIFT <= s->export->sectors;
}

/* A page for the disk to fill: in the cache when it is to be kept. */
static int card_serve_get_page(struct card_serve *s, unsigned int i)
{
	struct address_space *mapping = s->export->bdev->bd_mapping;
	pgoff_t index = card_serve_index(s, i);
	bool fresh;
	int err;

	if (card_serve_keeps(s, mapping, index)) {
		err = card_serve_keep_page(s, i, mapping, index);
		if (!err)
			return 0;
		/* The thread makes room: else a group that is full kept for ever what it has. */
		if (s->nowait && err == -ENOMEM)
			return -EAGAIN;
	}
	s->bvec[i].bv_page = card_pool_get(&s->export->pool, card_serve_gfp(s), &fresh);
	if (!s->bvec[i].bv_page)
		return s->nowait ? -EAGAIN : -ENOMEM;
	s->kind[i] = CARD_PAGE_POOL;
	if (fresh)
		card_count(s->export->cn, CARD_STAT_FRESH_PAGES);
	return 0;
}

static struct bio *card_serve_bio(struct card_serve *s, sector_t sector, unsigned int nr,
				  blk_opf_t opf)
{
	struct bio *bio = bio_alloc_bioset(s->export->bdev, bio_max_segs(nr), opf,
					   card_serve_gfp(s), &card_bios);

	if (!bio)
		return NULL;
	bio->bi_iter.bi_sector = sector;
	bio->bi_private = s;
	bio->bi_end_io = card_serve_end_io;
	atomic_inc(&s->pending);
	return bio;
}

static void card_serve_submit_data(struct card_serve *s, blk_opf_t opf)
{
	struct bio *bio = NULL;
	sector_t sector, at = s->sector;
	unsigned int i, off, len;
	int err;

	for (i = 0; i < s->nr; at += s->bvec[i++].bv_len >> SECTOR_SHIFT) {
		if (s->kind[i] != CARD_PAGE_NONE && s->op == CARD_OP_READ)
			continue;
		err = s->op == CARD_OP_READ ? card_serve_get_page(s, i) : 0;
		if (err) {
			WRITE_ONCE(s->status, err);
			break;
		}
		sector = at;
		off = s->bvec[i].bv_offset;
		len = s->bvec[i].bv_len;
		if (s->kind[i] == CARD_PAGE_FILL) {
			sector = (sector_t)card_serve_index(s, i) << PAGE_SECTORS_SHIFT;
			off = 0;
			len = PAGE_SIZE;
		}
		if (bio && bio_end_sector(bio) == sector &&
		    bio_add_page(bio, s->bvec[i].bv_page, len, off) == len)
			continue;
		if (bio)
			submit_bio(bio);
		bio = card_serve_bio(s, sector, s->nr - i, opf);
		if (!bio) {
			WRITE_ONCE(s->status, -EAGAIN);
			break;
		}
		__bio_add_page(bio, s->bvec[i].bv_page, len, off);
	}
	if (bio)
		submit_bio(bio);
}

bool card_serve_submit(struct card_serve *s)
{
	blk_opf_t opf = REQ_OP_READ;
	struct blk_plug plug;

	atomic_set(&s->pending, 1);
	s->source = CARD_SOURCE_DISK;
	s->submitted = ktime_get_ns();
	s->service_ns = s->submitted - s->arrived;
	if (s->flags & CARD_REQ_RAHEAD)
		opf |= REQ_RAHEAD;
	if (s->nowait)
		opf |= REQ_NOWAIT;
	if (s->op == CARD_OP_WRITE)
		opf = REQ_OP_WRITE | REQ_SYNC | (s->flags & CARD_REQ_FUA ? REQ_FUA : 0);
	blk_start_plug(&plug);
	if (s->op == CARD_OP_FLUSH)
		submit_bio(card_serve_bio(s, 0, 0, REQ_OP_WRITE | REQ_PREFLUSH));
	else
		card_serve_submit_data(s, opf);
	blk_finish_plug(&plug);
	if (!card_serve_put_pending(s))
		return false;
	if (s->deliver == CARD_DELIVER_EVENT)
		return true;
	card_thread_disk_done(s);
	return false;
}

void card_serve_again(struct card_serve *s)
{
	unsigned int i;

	for (i = 0; i < s->nr; i++) {
		if (s->kind[i] != CARD_PAGE_POOL)
			continue;
		put_page(s->bvec[i].bv_page);
		s->kind[i] = CARD_PAGE_NONE;
	}
	s->status = 0;
	s->nowait = false;
	card_thread_queue(s);
}

int card_submit_init(void)
{
	return bioset_init(&card_bios, BIO_POOL_SIZE, 0, BIOSET_NEED_BVECS);
}

void card_submit_exit(void)
{
	bioset_exit(&card_bios);
}
