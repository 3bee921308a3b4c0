// SPDX-License-Identifier: GPL-2.0
/* Does filemap_alloc_folio() take a memory policy? */
#include <linux/pagemap.h>

struct folio *flt_probe(void);
struct folio *flt_probe(void)
{
#ifndef FLT_PROBE_NOT
	return filemap_alloc_folio(GFP_KERNEL, 0, NULL);
#else
	return filemap_alloc_folio(GFP_KERNEL, 0);
#endif
}
