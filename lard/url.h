/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Canonical URLs: one file is one target however its URL is spelled.
 *
 *	host	lower case, no trailing dot, no ":80"
 *	path	percent-decoded; "//", "." and ".." resolved; what would read as something else
 *		(% ? # space, controls, bytes above 0x7e) is encoded again, in upper case
 *	query	kept in order; percent-encoding of unreserved characters undone, the rest upper case
 *
 * The fragment is dropped. A broken %-sequence counts as a literal %. Canonical URLs are fixed points.
 */
#ifndef LARD_URL_H
#define LARD_URL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Room that is always enough for a host and a target of these lengths. */
#define URL_CANONICAL_MAX(host_len, target_len) ((host_len) + 3 * (target_len) + 2)

/*
 * Writes "host/path?query" with a NUL; returns its length or -ENOSPC. @target is what stood in the
 * request line: "/path?query", "http://host/path" (its host replaces @host) or "*".
 */
ssize_t url_canonical(const char *host, size_t host_len, const char *target, size_t target_len,
		      char *out, size_t size);

/* The key of a canonical URL; the same on every machine and in every run. */
uint64_t url_key(const char *canonical, size_t len);

#endif
