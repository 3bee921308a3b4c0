// SPDX-License-Identifier: GPL-2.0
/* Memory that the kernel writes and a process reads, or the other way round. */

#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "pinned.h"

int usel_pinned_alloc(struct usel_pinned *mem, size_t size)
{
	unsigned int nr = PAGE_ALIGN(size) >> PAGE_SHIFT;

	mem->nr_pages = 0;
	mem->base = NULL;
	mem->pages = kvcalloc(nr, sizeof(*mem->pages), GFP_KERNEL_ACCOUNT);
	if (!mem->pages)
		return -ENOMEM;
	while (mem->nr_pages < nr && !fatal_signal_pending(current)) {
		mem->pages[mem->nr_pages] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!mem->pages[mem->nr_pages])
			goto fail;
		mem->nr_pages++;
		/* Who patches code waits for those who are long in the kernel, see fd.c. */
		cond_resched_tasks_rcu_qs();
	}
	if (mem->nr_pages == nr)
		mem->base = vmap(mem->pages, nr, VM_MAP, PAGE_KERNEL);
	if (mem->base)
		return 0;
fail:
	usel_pinned_free(mem);
	return -ENOMEM;
}

void usel_pinned_free(struct usel_pinned *mem)
{
	if (mem->base)
		vunmap(mem->base);
	while (mem->nr_pages)
		__free_page(mem->pages[--mem->nr_pages]);
	kvfree(mem->pages);
	mem->pages = NULL;
	mem->base = NULL;
}

int usel_pinned_mmap(struct usel_pinned *mem, struct vm_area_struct *vma, bool writable)
{
	/* A private mapping would keep what it saw when it was first written to. */
	if (!(vma->vm_flags & VM_SHARED) || (vma->vm_flags & VM_EXEC))
		return -EINVAL;
	if (!writable && (vma->vm_flags & VM_WRITE))
		return -EACCES;
	vm_flags_mod(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		     VM_MAYEXEC | (writable ? 0 : VM_MAYWRITE));
	return vm_map_pages_zero(vma, mem->pages, mem->nr_pages);
}
