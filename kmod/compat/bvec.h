/* SPDX-License-Identifier: GPL-2.0 */
/* Iterators over vectors of pages: what differs between kernels. */
#ifndef FLT_COMPAT_BVEC_H
#define FLT_COMPAT_BVEC_H

#include <linux/bvec.h>
#include <flt_compat_config.h>

/* The field of struct bvec_iter that says how much of the vector at hand is done. */
#ifdef FLT_HAVE_BVEC_DONE
#define flt_bvec_done	bi_bvec_done
#else
#define flt_bvec_done	bi_offset
#endif

#endif
