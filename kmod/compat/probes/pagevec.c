// SPDX-License-Identifier: GPL-2.0
/* Are batches of folios in linux/pagevec.h, or in linux/folio_batch.h? */
#ifndef FLT_PROBE_NOT
#include <linux/pagevec.h>
#else
#include <linux/folio_batch.h>
#endif

unsigned int flt_probe(struct folio_batch *batch);
unsigned int flt_probe(struct folio_batch *batch)
{
	return folio_batch_count(batch);
}
