/* SPDX-License-Identifier: GPL-2.0 */
/* BLAKE2s in one call: the order of its arguments differs between kernels. */
#ifndef FLT_COMPAT_HASH_H
#define FLT_COMPAT_HASH_H

#include <crypto/blake2s.h>
#include <flt_compat_config.h>

static inline void flt_compat_blake2s(u8 *out, size_t out_len, const void *in, size_t len)
{
#ifdef FLT_HAVE_BLAKE2S_OUT_FIRST
	blake2s(out, in, NULL, out_len, len, 0);
#else
	blake2s(NULL, 0, in, len, out, out_len);
#endif
}

#endif
