// SPDX-License-Identifier: GPL-2.0
/*
 * The window in user space: two mappings of one address_space.
 *
 * The first, for reading, has no VM_MAYWRITE: no mprotect, ptrace or userfaultfd trick can make
 * a writable PTE there. The second, for filling, shows only buffers that its domain is filling;
 * when one is sealed its PTEs go. With one mapping, whose PTEs are write-protected, they would stay
 * dirty, and a dirty PTE of a shared mapping is made writable without asking us by
 * mprotect(PROT_READ), mprotect(PROT_READ | PROT_WRITE) and by userfaultfd's write-protection.
 *
 * VM_IO and VM_PFNMAP: no get_user_pages, so neither ptrace, /proc/PID/mem, O_DIRECT nor vmsplice.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/sched/mm.h>

#include "buffer.h"
#include "counter.h"
#include "domain.h"
#include "trace.h"
#include "window.h"

#define IOL_FS_MAGIC		0x494f4c54

#define IOL_WINDOW_READ		0
#define IOL_WINDOW_FILL		1

static struct vfsmount *iol_mount;
static struct inode *iol_inode;

static vm_fault_t iol_fault_refuse(struct iol_domain *domain, pgoff_t pgoff, bool fill)
{
	iol_count(IOL_FAULTS_REFUSED);
	trace_iol_fault_refused(domain->id, pgoff, fill);
	return VM_FAULT_SIGBUS;
}

/* The VMA covers the window from its start, so page and address are the same distance in. */
static vm_fault_t iol_map_pages(struct vm_fault *vmf, struct iol_chunk *chunk,
				unsigned long pages)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long start = vma->vm_start + (iol_chunk_pgoff(chunk) << PAGE_SHIFT);
	unsigned int nofs = memalloc_nofs_save();
	vm_fault_t ret = VM_FAULT_NOPAGE;
	unsigned int i;

	lockdep_assert_held(&chunk->pool->lock);
	for_each_set_bit(i, &pages, IOL_CHUNK_PAGES) {
		ret = vmf_insert_pfn_prot(vma, start + ((unsigned long)i << PAGE_SHIFT),
					  page_to_pfn(chunk->pages[i]), vma->vm_page_prot);
		if (ret != VM_FAULT_NOPAGE)
			break;
	}
	memalloc_nofs_restore(nofs);
	return ret;
}

/* All pages of the chunk that the domain may see, at once. */
static vm_fault_t iol_map_for_reading(struct vm_fault *vmf, struct iol_domain *domain,
				      struct iol_chunk *chunk)
{
	unsigned int nth = vmf->pgoff % IOL_CHUNK_PAGES;
	unsigned long pages = GENMASK(IOL_CHUNK_PAGES - 1, 0);
	struct iol_buf *buf = chunk->buf[nth];
	unsigned int i;

	if (chunk->dead)
		return VM_FAULT_SIGBUS;
	if (!iol_domain_may_read(domain, chunk->pool)) {
		pages = buf ? iol_domain_pages(domain, buf) << buf->first : 0;
		if (!(pages & BIT(nth)))
			return VM_FAULT_SIGBUS;
		buf->read_mapped = true;
	}
	/* A pool that is retired gives free pages back. */
	for (i = 0; i < IOL_CHUNK_PAGES; i++)
		if (!chunk->pages[i])
			pages &= ~BIT(i);
	if (!(pages & BIT(nth)))
		return VM_FAULT_SIGBUS;
	chunk->read_mapped = true;
	iol_count_add(IOL_PTES_READ, hweight_long(pages));
	return iol_map_pages(vmf, chunk, pages);
}

static vm_fault_t iol_read_fault(struct vm_fault *vmf)
{
	struct iol_domain *domain = vmf->vma->vm_private_data;
	struct iol_chunk *chunk = iol_chunk_get(vmf->pgoff / IOL_CHUNK_PAGES);
	vm_fault_t ret = VM_FAULT_SIGBUS;

	if (chunk) {
		if (vmf->vma->vm_mm == domain->mm) {
			mutex_lock(&chunk->pool->lock);
			ret = iol_map_for_reading(vmf, domain, chunk);
			mutex_unlock(&chunk->pool->lock);
		}
		iol_chunk_put(chunk);
	}
	return ret == VM_FAULT_SIGBUS ? iol_fault_refuse(domain, vmf->pgoff, false) : ret;
}

/* The PTE is made under the lock under which a buffer is sealed: none is made afterwards. */
static vm_fault_t iol_map_for_filling(struct vm_fault *vmf, struct iol_domain *domain,
				      struct iol_chunk *chunk, unsigned int nth)
{
	struct iol_buf *buf = chunk->buf[nth];

	if (chunk->dead || !buf || buf->state != IOL_BUF_FILLING || buf->producer != domain->id)
		return VM_FAULT_SIGBUS;
	buf->fill_mapped = true;
	iol_count_add(IOL_PTES_FILL, buf->npages);
	return iol_map_pages(vmf, chunk, GENMASK(buf->npages - 1, 0) << buf->first);
}

static vm_fault_t iol_fill_fault(struct vm_fault *vmf)
{
	struct iol_domain *domain = vmf->vma->vm_private_data;
	pgoff_t pgoff = vmf->pgoff - IOL_WINDOW_PAGES;
	struct iol_chunk *chunk = iol_chunk_get(pgoff / IOL_CHUNK_PAGES);
	vm_fault_t ret = VM_FAULT_SIGBUS;

	if (chunk) {
		if (vmf->vma->vm_mm == domain->mm) {
			mutex_lock(&chunk->pool->lock);
			ret = iol_map_for_filling(vmf, domain, chunk, pgoff % IOL_CHUNK_PAGES);
			mutex_unlock(&chunk->pool->lock);
		}
		iol_chunk_put(chunk);
	}
	return ret == VM_FAULT_SIGBUS ? iol_fault_refuse(domain, pgoff, true) : ret;
}

static void iol_window_open(struct vm_area_struct *vma)
{
	/* Only a move that iol_window_mremap() refuses comes here; its close takes nothing away. */
	vma->vm_private_data = NULL;
}

static void iol_window_close(struct vm_area_struct *vma)
{
	if (vma->vm_private_data)
		iol_domain_kill(vma->vm_private_data);
}

static int iol_window_may_split(struct vm_area_struct *vma, unsigned long addr)
{
	return -EINVAL;
}

static int iol_window_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static int iol_window_mprotect(struct vm_area_struct *vma, unsigned long start, unsigned long end,
			       unsigned long flags)
{
	return -EACCES;
}

static const struct vm_operations_struct iol_read_ops = {
	.open = iol_window_open,
	.close = iol_window_close,
	.may_split = iol_window_may_split,
	.mremap = iol_window_mremap,
	.mprotect = iol_window_mprotect,
	.fault = iol_read_fault,
};

static const struct vm_operations_struct iol_fill_ops = {
	.open = iol_window_open,
	.close = iol_window_close,
	.may_split = iol_window_may_split,
	.mremap = iol_window_mremap,
	.mprotect = iol_window_mprotect,
	.fault = iol_fill_fault,
};

/**
 * iol_window_mmap - map one of the two windows
 * @domain: of the caller
 * @vma:    all of the window, shared
 *
 * Return: 0, -EINVAL: not the whole window, or private; -EACCES: wrong protection; -EBUSY: mapped
 * already; -ESHUTDOWN.
 */
int iol_window_mmap(struct iol_domain *domain, struct vm_area_struct *vma)
{
	bool fill = vma->vm_pgoff;
	int err = 0;

	if (vma->vm_pgoff != (fill ? IOL_WINDOW_PAGES : 0) || vma_pages(vma) != IOL_WINDOW_PAGES ||
	    !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if ((vma->vm_flags & VM_EXEC) || (!fill && (vma->vm_flags & VM_WRITE)))
		return -EACCES;

	mutex_lock(&domain->lock);
	if (domain->dead)
		err = -ESHUTDOWN;
	else if (__test_and_set_bit(fill ? IOL_WINDOW_FILL : IOL_WINDOW_READ, &domain->windows))
		err = -EBUSY;
	mutex_unlock(&domain->lock);
	if (err)
		return err;

	vm_flags_mod(vma, VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY,
		     VM_MAYEXEC | (fill ? 0 : VM_MAYWRITE));
	vma->vm_private_data = domain;
	vma->vm_ops = fill ? &iol_fill_ops : &iol_read_ops;
	return 0;
}

/**
 * iol_window_zap - take pages out of every domain's mapping
 * @first: page of the window, plus IOL_WINDOW_PAGES for the mapping that is filled through
 * @n:     how many
 *
 * When it returns no CPU has a translation left.
 */
void iol_window_zap(pgoff_t first, unsigned int n)
{
	unmap_mapping_range(iol_inode->i_mapping, (loff_t)first << PAGE_SHIFT,
			    (loff_t)n << PAGE_SHIFT, 1);
}

/* All opens share one address_space, so that one call finds every mapping. */
void iol_window_attach(struct file *file)
{
	file->f_mapping = iol_inode->i_mapping;
}

static int iol_fs_init_context(struct fs_context *fc)
{
	return init_pseudo(fc, IOL_FS_MAGIC) ? 0 : -ENOMEM;
}

/* No owner: our own mount must not keep the module; nobody else can mount it. */
static struct file_system_type iol_fs_type = {
	.name = "iolite",
	.init_fs_context = iol_fs_init_context,
	.kill_sb = kill_anon_super,
};

int iol_window_init(void)
{
	iol_mount = kern_mount(&iol_fs_type);
	if (IS_ERR(iol_mount))
		return PTR_ERR(iol_mount);
	iol_inode = alloc_anon_inode(iol_mount->mnt_sb);
	if (IS_ERR(iol_inode)) {
		kern_unmount(iol_mount);
		return PTR_ERR(iol_inode);
	}
	return 0;
}

void iol_window_exit(void)
{
	iput(iol_inode);
	kern_unmount(iol_mount);
}
