/* SPDX-License-Identifier: GPL-2.0 */
/* Memory that the kernel writes and a process reads, or the other way round. */
#ifndef USEL_PINNED_H
#define USEL_PINNED_H

#include <linux/types.h>

struct page;
struct vm_area_struct;

/**
 * struct usel_pinned - pages that are never swapped, charged to the process
 * @base:     where the kernel has them
 * @pages:    they
 * @nr_pages: their number
 *
 * Does not change between usel_pinned_alloc() and usel_pinned_free().
 */
struct usel_pinned {
	void *base;
	struct page **pages;
	unsigned int nr_pages;
};

/* Zeroed; 0 or -ENOMEM. */
int usel_pinned_alloc(struct usel_pinned *mem, size_t size);
/* Does nothing for what was not allocated. May sleep. */
void usel_pinned_free(struct usel_pinned *mem);
/* All of it is mapped at once, so that no fault comes later. */
int usel_pinned_mmap(struct usel_pinned *mem, struct vm_area_struct *vma, bool writable);

#endif
