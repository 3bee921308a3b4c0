// SPDX-License-Identifier: GPL-2.0
/*
 * Files as objects: a reference to the page cache instead of a copy. TCP refers to its pages until
 * they are acknowledged, so that they must not change: writing is denied as it is to a program
 * that runs. Pages may go, and are read again.
 */

#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/shmem_fs.h>
#include <linux/string.h>

#include "kmod/memcg.h"

#include "file.h"

/*
 * Files of these change by nobody but who has them open for writing. A server elsewhere, a program
 * behind FUSE or the other node of a cluster would not ask.
 */
static const char *const afpa_file_systems[] = {
	"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "erofs", "squashfs", "tmpfs",
};

static bool afpa_file_is_known(const struct file *file)
{
	const struct inode *inode = file_inode(file);

	/* Whoever has made a memfd writes to it without being counted. */
	if (inode->i_sb->s_flags & SB_KERNMOUNT)
		return false;
	if (IS_DAX(inode) || file->f_mapping != inode->i_mapping ||
	    !(file->f_mapping->a_ops->read_folio || shmem_mapping(file->f_mapping)))
		return false;
	return match_string(afpa_file_systems, ARRAY_SIZE(afpa_file_systems),
			    inode->i_sb->s_type->name) >= 0;
}

/*
 * Where nobody can write, nobody is kept from it: the file system is read-only. If this mount of it
 * is, others may write by another one.
 */
static int afpa_file_may_deny(const struct file *file)
{
	int err = inode_permission(file_mnt_idmap(file), file_inode(file), MAY_WRITE);

	if (err)
		return err == -EROFS ? 0 : err;
	return __mnt_is_readonly(file->f_path.mnt) ? -EROFS : 0;
}

static int afpa_file_check(struct file *file)
{
	size_t count = min_t(loff_t, i_size_read(file_inode(file)), MAX_RW_COUNT);
	loff_t pos = 0;

	if (!(file->f_mode & FMODE_READ))
		return -EBADF;
	if (!S_ISREG(file_inode(file)->i_mode) || file->f_flags & O_DIRECT)
		return -EINVAL;
	if (!afpa_file_is_known(file))
		return -EOPNOTSUPP;
	/* As for a read(2) of all: security modules, fanotify. */
	return rw_verify_area(READ, file, &pos, count) ?: afpa_file_may_deny(file);
}

/* Reading a hole of a tmpfs would take memory for it. */
static bool afpa_file_has_holes(const struct file *file, u64 size)
{
	return shmem_mapping(file->f_mapping) && (u64)file_inode(file)->i_blocks << 9 < size;
}

/*
 * The program's own would keep its locks and leases after it, and is closed with the object only.
 * A lease that it has itself is not waited for.
 */
static struct file *afpa_file_own(u64 fd)
{
	struct file *theirs = fd > INT_MAX ? NULL : fget(fd);
	struct file *file;
	int err;

	if (!theirs)
		return ERR_PTR(-EBADF);
	err = afpa_file_check(theirs);
	file = err ? ERR_PTR(err) : dentry_open(&theirs->f_path,
						O_RDONLY | O_LARGEFILE | O_NONBLOCK,
						current_cred());
	fput(theirs);
	return file;
}

struct file *afpa_file_open(u64 fd, u64 *size)
{
	struct file *file = afpa_file_own(fd);
	int err;

	if (IS_ERR(file))
		return file;
	err = deny_write_access(file);
	if (err) {
		fput(file);
		return ERR_PTR(err);
	}
	*size = i_size_read(file_inode(file));
	if (!afpa_file_has_holes(file, *size))
		return file;
	afpa_file_close(file);
	return ERR_PTR(-EINVAL);
}

void afpa_file_close(struct file *file)
{
	allow_write_access(file);
	fput(file);
}

/* --- what is in memory --- */

static bool afpa_folio_is_sound(const struct folio *folio)
{
	return folio_test_uptodate(folio) && !folio_test_hwpoison(folio) &&
	       !(folio_test_large(folio) && folio_test_has_hwpoisoned(folio));
}

/* With a reference; NULL: it is not in memory. */
static struct folio *afpa_file_folio(const struct file *file, u64 pos)
{
	struct folio *folio = __filemap_get_folio(file->f_mapping, pos >> PAGE_SHIFT, 0, 0);

	if (IS_ERR(folio))
		return NULL;
	if (afpa_folio_is_sound(folio))
		return folio;
	folio_put(folio);
	return NULL;
}

unsigned int afpa_file_vecs(const struct file *file, u64 pos, u64 len, struct bio_vec *vec,
			    unsigned int room)
{
	struct folio *folio;
	unsigned int n = 0;

	while (len && n < room) {
		folio = afpa_file_folio(file, pos);
		if (!folio)
			break;
		/* For reclaim. folio_mark_accessed() is not for interrupts. */
		if (!folio_test_referenced(folio))
			folio_set_referenced(folio);
		bvec_set_folio(&vec[n], folio,
			       min_t(u64, len, folio_size(folio) - offset_in_folio(folio, pos)),
			       offset_in_folio(folio, pos));
		len -= vec[n].bv_len;
		pos += vec[n++].bv_len;
	}
	return n;
}

bool afpa_file_is_there(const struct file *file, u64 pos, u64 len)
{
	u64 end = pos + len;
	struct folio *folio;

	while (pos < end) {
		folio = afpa_file_folio(file, pos);
		if (!folio)
			return false;
		pos += folio_size(folio) - offset_in_folio(folio, pos);
		folio_put(folio);
	}
	return true;
}

/* --- what is not --- */

static struct folio *afpa_file_read_folio(struct file *file, pgoff_t index)
{
	struct address_space *mapping = file->f_mapping;

	return shmem_mapping(mapping) ? shmem_read_folio(mapping, index) :
					read_mapping_folio(mapping, index, file);
}

static int afpa_file_read_pages(struct file *file, pgoff_t index, pgoff_t last,
				struct afpa_pins *pins)
{
	struct folio *folio;

	while (index <= last && pins->nr < ARRAY_SIZE(pins->folio)) {
		folio = afpa_file_read_folio(file, index);
		if (IS_ERR(folio))
			return PTR_ERR(folio);
		pins->folio[pins->nr++] = folio;
		if (!afpa_folio_is_sound(folio))
			return -EIO;
		index = folio_next_index(folio);
	}
	return 0;
}

int afpa_file_read(struct file *file, u64 pos, u64 len, struct sock *sk, struct afpa_pins *pins)
{
	pgoff_t index = pos >> PAGE_SHIFT, last = (pos + len - 1) >> PAGE_SHIFT;
	struct mem_cgroup *old;
	struct file_ra_state ra;
	int err;

	pins->nr = 0;
	if (!len)
		return 0;
	old = flt_sock_pays(sk);
	if (!shmem_mapping(file->f_mapping)) {
		/* As one reader who has come so far: connections do not share their guesses. */
		file_ra_state_init(&ra, file->f_mapping);
		ra.prev_pos = (loff_t)pos - 1;
		page_cache_sync_readahead(file->f_mapping, &ra, file, index, last - index + 1);
	}
	err = afpa_file_read_pages(file, index, last, pins);
	set_active_memcg(old);
	return err;
}

void afpa_pins_put(struct afpa_pins *pins)
{
	while (pins->nr)
		folio_put(pins->folio[--pins->nr]);
}
