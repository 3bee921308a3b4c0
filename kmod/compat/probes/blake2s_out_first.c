// SPDX-License-Identifier: GPL-2.0
/* Does the result of blake2s() come first, or the key? */
#include <crypto/blake2s.h>

#ifndef FLT_PROBE_NOT
typedef void (*flt_probe_fn)(u8 *out, const u8 *in, const u8 *key, const size_t out_len,
			     const size_t in_len, const size_t key_len);
#else
typedef void (*flt_probe_fn)(const u8 *key, size_t key_len, const u8 *in, size_t in_len, u8 *out,
			     size_t out_len);
#endif
flt_probe_fn flt_probe(void);
flt_probe_fn flt_probe(void)
{
	return blake2s;
}
