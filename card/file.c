// SPDX-License-Identifier: GPL-2.0
/*
 * Page mode [Olaru 3.6.2]: a file's pages are cached by (inode, offset), where a
 * request for (disk, block) does not find them. So the asker says which page of which
 * file it reads, and the exporter looks there.
 *
 * What the asker says is not believed: a page is used only if this node's own file
 * system has it at the very block that was asked for.
 */

#include <linux/blk-mq.h>
#include <linux/exportfs.h>
#include <linux/pagemap.h>
#include <linux/swap.h>

#include "counter.h"
#include "file.h"

static int card_file_acceptable(void *context, struct dentry *dentry)
{
	return 1;
}

/* The inode becomes cached here, if it was not: later requests find it at once. */
static struct inode *card_file_inode(struct card_serve *s)
{
	struct vfsmount *mnt = s->export->mnt.mnt;
	u64 ino = be64_to_cpu(s->file.ino);
	struct dentry *dentry;
	struct inode *inode;
	u32 fid[2];

	if (!ino || ino > U32_MAX)
		return NULL;
	inode = ilookup(mnt->mnt_sb, ino);
	if (inode)
		return inode;
	if (!mnt->mnt_sb->s_export_op)
		return NULL;
	fid[0] = ino;
	fid[1] = be32_to_cpu(s->file.igen);
	dentry = exportfs_decode_fh(mnt, (struct fid *)fid, ARRAY_SIZE(fid), FILEID_INO32_GEN,
				    card_file_acceptable, NULL);
	if (IS_ERR_OR_NULL(dentry))
		return NULL;
	inode = igrab(d_inode(dentry));
	dput(dentry);
	return inode;
}

/* Is page @index of the file the one that lies at @sector. */
static bool card_file_is_at(struct inode *inode, pgoff_t index, sector_t sector)
{
	sector_t block = index;

	/* The end of a file's last page is not what the disk has there. */
	if (((loff_t)index + 1) << PAGE_SHIFT > i_size_read(inode))
		return false;
	return !bmap(inode, &block) && block && block == sector >> PAGE_SECTORS_SHIFT;
}

static struct folio *card_file_folio(struct inode *inode, pgoff_t index, bool read)
{
	struct folio *folio;

	if (read)
		return read_mapping_folio(inode->i_mapping, index, NULL);
	folio = filemap_get_folio(inode->i_mapping, index);
	if (!IS_ERR(folio) && !folio_test_uptodate(folio)) {
		folio_put(folio);
		return ERR_PTR(-ENOENT);
	}
	return folio;
}

void card_file_lookup(struct card_serve *s)
{
	pgoff_t index = be64_to_cpu(s->file.index);
	struct folio *folio;
	struct inode *inode;
	unsigned int i;

	if (!s->export->mnt.mnt || s->sector % PAGE_SECTORS || s->bytes % PAGE_SIZE)
		return;
	inode = card_file_inode(s);
	if (!inode)
		return;
	if (!S_ISREG(inode->i_mode) || inode->i_blkbits != PAGE_SHIFT ||
	    inode->i_generation != be32_to_cpu(s->file.igen))
		goto out;
	for (i = 0; i < s->nr; i++, index++) {
		if (!card_file_is_at(inode, index, s->sector + i * PAGE_SECTORS)) {
			card_count(s->export->cn, CARD_STAT_FILE_MISMATCH);
			continue;
		}
		folio = card_file_folio(inode, index, s->flags & CARD_REQ_KEEP);
		if (IS_ERR(folio))
			continue;
		folio_mark_accessed(folio);
		s->bvec[i].bv_page = folio_file_page(folio, index);
		s->kind[i] = CARD_PAGE_CACHED;
		card_count(s->export->cn, CARD_STAT_FILE_PAGES);
	}
out:
	iput(inode);
}

bool card_file_of(const struct block_device *bdev, struct request *rq,
		  struct card_wire_file *file)
{
	struct req_iterator iter;
	struct address_space *mapping = NULL;
	struct bio_vec bv;
	pgoff_t next = 0;

	rq_for_each_segment(bv, rq, iter) {
		struct folio *folio = page_folio(bv.bv_page);
		pgoff_t index;

		/* Pages of a direct read, or of another file system's file, say nothing. */
		if (bv.bv_len != PAGE_SIZE || bv.bv_offset || folio_test_anon(folio) ||
		    folio_test_slab(folio) || !folio->mapping || !folio->mapping->host ||
		    folio->mapping->host->i_sb->s_bdev != bdev)
			return false;
		index = folio->index + folio_page_idx(folio, bv.bv_page);
		if (mapping && (folio->mapping != mapping || index != next))
			return false;
		if (!mapping) {
			mapping = folio->mapping;
			file->index = cpu_to_be64(index);
		}
		next = index + 1;
	}
	if (!mapping || !S_ISREG(mapping->host->i_mode))
		return false;
	file->ino = cpu_to_be64(mapping->host->i_ino);
	file->igen = cpu_to_be32(mapping->host->i_generation);
	file->zero = 0;
	return true;
}
