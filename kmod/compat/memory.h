/* SPDX-License-Identifier: GPL-2.0 */
/* Memory: what of pages and folios differs between kernels. */
#ifndef FLT_COMPAT_MEMORY_H
#define FLT_COMPAT_MEMORY_H

#include <linux/mm.h>
#include <linux/pagemap.h>
#include <flt_compat_config.h>
#ifdef FLT_HAVE_PAGEVEC
#include <linux/pagevec.h>
#else
#include <linux/folio_batch.h>
#endif

/* Struct pages of what was allocated together are adjacent, where nobody asks any more. */
#ifdef nth_page
#define flt_nth_page(page, n)	nth_page(page, n)
#else
#define flt_nth_page(page, n)	((page) + (n))
#endif

static inline struct folio *flt_compat_filemap_alloc_folio(gfp_t gfp)
{
#ifdef FLT_HAVE_FILEMAP_ALLOC_POLICY
	return filemap_alloc_folio(gfp, 0, NULL);
#else
	return filemap_alloc_folio(gfp, 0);
#endif
}

#endif
