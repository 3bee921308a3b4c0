// SPDX-License-Identifier: GPL-2.0
/* uselect(): select() that answers from the region while it can. */

#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { USL_RD, USL_WR, USL_EX, USL_SETS };

/**
 * struct usl_select - one call
 * @words: of each set
 * @sets:  of the caller; NULL ones are never touched
 * @hits:  what was ready when it was counted: another thread may change it meanwhile
 * @saved: tracked part of the interest
 * @rest:  what is left for the kernel
 * @ask:   the same, as the kernel gave it back
 * @limit: highest descriptor left for the kernel, and one
 */
struct usl_select {
	int maxfd;
	unsigned int words;
	unsigned long *sets[USL_SETS];
	const usl_word *ready[USL_SETS];
	unsigned long *hits[USL_SETS];
	unsigned long *saved[USL_SETS];
	unsigned long *rest[USL_SETS];
	unsigned long *ask[USL_SETS];
	int limit;
};

static __thread struct usl_pass usl_pass;

/* Of word @i: the caller's interest that is valid, and which of it is tracked. */
static unsigned long usl_word_wanted(const struct usl_select *call, int set, unsigned int i)
{
	unsigned long wanted;

	if (!call->sets[set])
		return 0;
	wanted = call->sets[set][i];
	if (i == call->words - 1 && call->maxfd % USL_BITS)
		wanted &= (1UL << (call->maxfd % USL_BITS)) - 1;
	return wanted;
}

static unsigned long usl_word_active(unsigned int i)
{
	return i < usl_region.nfds / USL_BITS ? usl_load(&usl_region.active[i]) : 0;
}

/* What is ready and tracked, and whether there is something that is not tracked. */
static int usl_select_count(const struct usl_select *call, bool *others)
{
	unsigned long active, wanted, rest = 0;
	int count = 0, set;
	unsigned int i;

	for (i = 0; i < call->words; i++) {
		active = usl_word_active(i);
		for (set = 0; set < USL_SETS; set++) {
			wanted = usl_word_wanted(call, set, i);
			rest |= wanted & ~active;
			wanted &= active;
			if (wanted) {
				wanted &= usl_load(&call->ready[set][i]);
				count += __builtin_popcountl(wanted);
			}
			call->hits[set][i] = wanted;
		}
	}
	*others = rest;
	return count;
}

static void usl_select_answer(const struct usl_select *call)
{
	int set;

	for (set = 0; set < USL_SETS; set++)
		if (call->sets[set])
			memcpy(call->sets[set], call->hits[set], call->words * sizeof(long));
}

/* One pass: the tracked part is saved and published, the rest is left for the kernel. */
static void usl_select_split(struct usl_select *call, struct usl_set *mine)
{
	usl_word *want[USL_SETS] = { mine->want_read, mine->want_write, mine->want_except };
	unsigned long active, wanted, any;
	unsigned int i, set;

	call->limit = 0;
	for (i = 0; i < call->words; i++) {
		active = usl_word_active(i);
		any = 0;
		for (set = 0; set < USL_SETS; set++) {
			wanted = usl_word_wanted(call, set, i);
			call->saved[set][i] = wanted & active;
			call->rest[set][i] = wanted & ~active;
			any |= wanted & ~active;
			if (i < usl_region.nfds / USL_BITS)
				atomic_store_explicit(&want[set][i], wanted & active,
						      memory_order_relaxed);
		}
		if (any)
			call->limit = (i + 1) * USL_BITS - __builtin_clzl(any);
	}
	for (; i < mine->words; i++)
		for (set = 0; set < USL_SETS; set++)
			atomic_store_explicit(&want[set][i], 0, memory_order_relaxed);
	mine->words = call->words < usl_region.nfds / USL_BITS ? call->words :
								 usl_region.nfds / USL_BITS;
}

static int usl_select_ready(const struct usl_select *call)
{
	int count = 0, set;
	unsigned int i;

	for (i = 0; i < call->words; i++)
		for (set = 0; set < USL_SETS; set++)
			if (call->saved[set][i])
				count += __builtin_popcountl(call->saved[set][i] &
							     usl_word_active(i) &
							     usl_load(&call->ready[set][i]));
	return count;
}

/* Something that was tracked is not any more: the kernel has to be asked for it. */
static bool usl_select_lost(const struct usl_select *call)
{
	unsigned int i, set;

	for (i = 0; i < call->words; i++)
		for (set = 0; set < USL_SETS; set++)
			if (call->saved[set][i] & ~usl_word_active(i))
				return true;
	return false;
}

/* The kernel's answer about the rest, and the region's about what was saved. */
static int usl_select_merge(const struct usl_select *call, int kernel)
{
	unsigned long bits;
	int count = 0, set;
	unsigned int i;

	for (i = 0; i < call->words; i++) {
		for (set = 0; set < USL_SETS; set++) {
			if (!call->sets[set])
				continue;
			bits = kernel && (int)(i * USL_BITS) < call->limit ? call->ask[set][i] : 0;
			if (call->saved[set][i])
				bits |= call->saved[set][i] & usl_word_active(i) &
					usl_load(&call->ready[set][i]);
			call->sets[set][i] = bits;
			count += __builtin_popcountl(bits);
		}
	}
	return count;
}

/* select() on the rest and on the set's own descriptor; how many of the rest are ready. */
static int usl_select_sleep(struct usl_select *call, struct usl_set *mine,
			    const struct timespec *timeout)
{
	int nfds = call->limit > mine->fd ? call->limit : mine->fd + 1, set, n;
	size_t size = USELECT_WORDS(nfds) * sizeof(long);
	size_t rest = USELECT_WORDS(call->limit) * sizeof(long);

	for (set = 0; set < USL_SETS; set++) {
		memcpy(call->ask[set], call->rest[set], rest);
		memset((char *)call->ask[set] + rest, 0, size - rest);
	}
	uselect_fd_set(mine->fd, call->ask[USL_RD]);
	n = usl_sys_select(nfds, call->ask[USL_RD], call->limit ? call->ask[USL_WR] : NULL,
			   call->limit ? call->ask[USL_EX] : NULL, timeout, NULL);
	if (n > 0 && uselect_fd_isset(mine->fd, call->ask[USL_RD])) {
		uselect_fd_clear(mine->fd, call->ask[USL_RD]);
		n--;
	}
	return n;
}

static int usl_select_slow(struct usl_select *call, struct usl_set *mine,
			   const struct timespec *deadline, bool poll_only)
{
	struct timespec zero = { 0 }, left, *timeout;
	uint64_t seq;
	int n, ready;

	for (;;) {
		usl_select_split(call, mine);
		usl_fence();
		seq = usl_set_seq(mine);
		ready = usl_select_ready(call);
		usl_set_seen(mine, seq);
		timeout = ready || poll_only ? &zero : usl_left(deadline, &left);
		n = usl_select_sleep(call, mine, timeout);
		if (n < 0)
			return n;
		/* Woken for something that nobody asked for, or that is over: sleep on. */
		if (n || usl_select_ready(call) || poll_only ||
		    (timeout && !timeout->tv_sec && !timeout->tv_nsec))
			return usl_select_merge(call, n);
		if (usl_select_lost(call))
			continue;
	}
}

/* The arrays of a call live in the thread's set from call to call. */
static bool usl_select_arrays(struct usl_select *call, struct usl_set *mine)
{
	size_t words = USELECT_WORDS(call->maxfd > mine->fd ? call->maxfd : mine->fd + 1);
	unsigned long *mem;
	int set;

	if (words > mine->scratch_words) {
		mem = realloc(mine->scratch, words * sizeof(long) * 4 * USL_SETS);
		if (!mem)
			return false;
		mine->scratch = mem;
		mine->scratch_words = words;
	}
	mem = mine->scratch;
	words = mine->scratch_words;
	for (set = 0; set < USL_SETS; set++) {
		call->hits[set] = mem + words * set;
		call->saved[set] = mem + words * (USL_SETS + set);
		call->rest[set] = mem + words * (2 * USL_SETS + set);
		call->ask[set] = mem + words * (3 * USL_SETS + set);
	}
	return true;
}

int uselect(int maxfd, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
	    const struct timeval *timeout)
{
	struct usl_select call = {
		.maxfd = maxfd,
		.sets = { (void *)readfds, (void *)writefds, (void *)exceptfds },
		.ready = { usl_region.read, usl_region.write, usl_region.except },
	};
	bool others = false, zero = timeout && !timeout->tv_sec && !timeout->tv_usec;
	struct timespec span, deadline;
	struct usl_set *mine;
	int count;

	if (timeout) {
		if (timeout->tv_sec < 0 || timeout->tv_usec < 0) {
			errno = EINVAL;
			return -1;
		}
		span.tv_sec = timeout->tv_sec + timeout->tv_usec / 1000000;
		span.tv_nsec = timeout->tv_usec % 1000000 * 1000L;
	}
	mine = maxfd >= 0 ? usl_set_mine() : NULL;
	if (!mine)
		return usl_sys_select(maxfd, readfds, writefds, exceptfds, timeout ? &span : NULL,
				      NULL);
	if (!usl_select_arrays(&call, mine)) {
		errno = ENOMEM;
		return -1;
	}

	call.words = USELECT_WORDS(maxfd);
	count = usl_select_count(&call, &others);
	if ((count && (!others || usl_pass_on(&usl_pass))) || (!count && zero && !others)) {
		usl_select_answer(&call);
		return count;
	}
	usl_pass.passes = 0;
	return usl_select_slow(&call, mine, usl_deadline(timeout ? &span : NULL, &deadline),
			       count || zero);
}
