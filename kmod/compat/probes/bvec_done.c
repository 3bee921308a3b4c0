// SPDX-License-Identifier: GPL-2.0
/* Is what is done of a vector called bi_bvec_done, or bi_offset? */
#include <linux/bvec.h>

unsigned int flt_probe(const struct bvec_iter *iter);
unsigned int flt_probe(const struct bvec_iter *iter)
{
#ifndef FLT_PROBE_NOT
	return iter->bi_bvec_done;
#else
	return iter->bi_offset;
#endif
}
