// SPDX-License-Identifier: MIT
/*
 * uselect(): select() that answers from the region while it can.
 *
 * Its cost beyond what the program itself does with its sets is one pass over them before sleeping and
 * one after. So a pass is short, and leaves what it learned for the next step.
 */

#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { USL_RD, USL_WR, USL_EX, USL_SETS };

/*
 * For the one loop that goes over all words: as many at a time as the processor takes. They are read
 * while the kernel changes them; each for itself is whole, as with any load of an aligned word, and
 * nothing is concluded from two of them.
 */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
	!defined(__SANITIZE_THREAD__)
#define USL_WIDE	__attribute__((optimize("O3"), target_clones("avx2", "default")))
#else
#define USL_WIDE
#endif

/**
 * struct usl_select - one call
 * @words:   of each set
 * @tracked: words that the region has of them
 * @sets:    of the caller; NULL ones are never touched
 * @ready:   bitmaps of the region
 * @want:    bitmaps of the set: what was tracked of the interest when it was last published
 * @hits:    what was ready when it was looked at: another thread may change it meanwhile
 * @ask:     what is not tracked, for the kernel, and as it gave it back
 * @limit:   highest descriptor asked for, and one
 * @seq:     of the set, before it was looked
 * @count:   bits in @hits
 * @others:  some of the interest is not tracked
 * @changed: the interest, or what is tracked of it, is not what @want says
 */
struct usl_select {
	int maxfd;
	unsigned int words;
	unsigned int tracked;
	unsigned long *sets[USL_SETS];
	const usl_word *ready[USL_SETS];
	usl_word *want[USL_SETS];
	unsigned long *hits[USL_SETS];
	unsigned long *ask[USL_SETS];
	int limit;
	uint64_t seq;
	int count;
	bool others;
	bool changed;
};

/* What a pass over one set found, ored up. */
struct usl_seen {
	unsigned long any;
	unsigned long others;
	unsigned long changed;
};

static __thread struct usl_pass usl_pass;

/* Bits of the set's last word beyond the number of descriptors do not count. */
static unsigned long usl_word_wanted(const struct usl_select *call, int set, unsigned int i)
{
	unsigned long wanted = call->sets[set][i];

	if (i == call->words - 1 && call->maxfd % USL_BITS)
		wanted &= (1UL << (call->maxfd % USL_BITS)) - 1;
	return wanted;
}

static unsigned long usl_word_active(unsigned int i)
{
	return i < usl_region.nfds / USL_BITS ? usl_load(&usl_region.active[i]) : 0;
}

USL_WIDE
static void usl_look_words(const unsigned long *restrict wanted,
			   const unsigned long *restrict active,
			   const unsigned long *restrict ready, const unsigned long *restrict want,
			   unsigned long *restrict hits, unsigned int words, struct usl_seen *seen)
{
	unsigned long any = 0, others = 0, changed = 0, tracked;
	unsigned int i;

	for (i = 0; i < words; i++) {
		tracked = wanted[i] & active[i];
		others |= wanted[i] ^ tracked;
		changed |= tracked ^ want[i];
		hits[i] = tracked & ready[i];
		any |= hits[i];
	}
	seen->any = any;
	seen->others = others;
	seen->changed = changed;
}

static void usl_look_word(const struct usl_select *call, int set, unsigned int i,
			  struct usl_seen *seen)
{
	unsigned long wanted = usl_word_wanted(call, set, i), tracked = wanted & usl_word_active(i);

	call->hits[set][i] = 0;
	seen->others |= wanted ^ tracked;
	if (i >= call->tracked)
		return;
	call->hits[set][i] = tracked & usl_load(&call->ready[set][i]);
	seen->changed |= tracked ^ usl_load(&call->want[set][i]);
	seen->any |= call->hits[set][i];
}

static int usl_bits_count(const unsigned long *words, unsigned int n)
{
	unsigned int i = 0;
	int count = 0;

	while (i < n) {
		/* Hardly any are ready. */
		if (i + 4 <= n && !(words[i] | words[i + 1] | words[i + 2] | words[i + 3])) {
			i += 4;
			continue;
		}
		if (words[i])
			count += __builtin_popcountl(words[i]);
		i++;
	}
	return count;
}

/* Fills in @hits, @seq, @count, @others, @changed. */
static void usl_select_look(struct usl_select *call, const struct usl_set *mine)
{
	struct usl_seen all = { 0 };
	unsigned int whole = call->words ? call->words - 1 : 0, i;
	int set;

	/* Of the last word not all may be wanted. */
	if (whole > call->tracked)
		whole = call->tracked;
	/* An event that the pass does not see counts from here on. */
	call->seq = usl_set_seq(mine);
	call->count = 0;
	for (set = 0; set < USL_SETS; set++) {
		struct usl_seen seen = { 0 };

		if (!call->sets[set])
			continue;
		if (whole)
			usl_look_words(call->sets[set], (const unsigned long *)usl_region.active,
				       (const unsigned long *)call->ready[set],
				       (const unsigned long *)call->want[set], call->hits[set],
				       whole, &seen);
		for (i = whole; i < call->words; i++)
			usl_look_word(call, set, i, &seen);
		if (seen.any)
			call->count += usl_bits_count(call->hits[set], call->words);
		all.others |= seen.others;
		all.changed |= seen.changed;
	}
	call->others = all.others;
	call->changed = all.changed;
}

static int usl_select_answer(const struct usl_select *call)
{
	int set;

	for (set = 0; set < USL_SETS; set++)
		if (call->sets[set])
			memcpy(call->sets[set], call->hits[set], call->words * sizeof(long));
	return call->count;
}

/* Sets that the caller does not have, and words that an earlier one had, are not wanted. */
static void usl_select_publish(const struct usl_select *call, struct usl_set *mine)
{
	unsigned long wanted;
	unsigned int i;
	int set;

	for (set = 0; set < USL_SETS; set++) {
		for (i = 0; i < call->tracked; i++) {
			wanted = call->sets[set] ? usl_word_wanted(call, set, i) : 0;
			atomic_store_explicit(&call->want[set][i], wanted & usl_word_active(i),
					      memory_order_relaxed);
		}
		for (; i < mine->words; i++)
			atomic_store_explicit(&call->want[set][i], 0, memory_order_relaxed);
	}
	mine->words = call->tracked;
}

/* What is not published as tracked is left for the kernel. */
static void usl_select_rest(struct usl_select *call)
{
	unsigned long any, rest;
	unsigned int i;
	int set;

	call->limit = 0;
	for (i = 0; i < call->words; i++) {
		any = 0;
		for (set = 0; set < USL_SETS; set++) {
			rest = 0;
			if (call->sets[set])
				rest = usl_word_wanted(call, set, i);
			if (i < call->tracked)
				rest &= ~usl_load(&call->want[set][i]);
			call->ask[set][i] = rest;
			any |= rest;
		}
		if (any)
			call->limit = (i + 1) * USL_BITS - __builtin_clzl(any);
	}
}

/* On the set's own descriptor alone: its number, which may be high, costs nothing. */
static int usl_select_sleep_alone(const struct usl_set *mine, const struct timespec *timeout)
{
	struct pollfd self = { .fd = mine->fd, .events = POLLIN };
	int n = usl_sys_ppoll(&self, 1, timeout, NULL);

	return n < 0 ? n : 0;
}

/* select() on the rest and on the set's own descriptor; how many of the rest are ready. */
static int usl_select_sleep(struct usl_select *call, struct usl_set *mine,
			    const struct timespec *timeout)
{
	size_t words, rest;
	int nfds, set, n;

	call->limit = 0;
	if (!call->others)
		return usl_select_sleep_alone(mine, timeout);
	usl_select_rest(call);
	nfds = call->limit > mine->fd ? call->limit : mine->fd + 1;
	words = USELECT_WORDS(nfds);
	rest = USELECT_WORDS(call->limit);
	for (set = 0; set < USL_SETS; set++)
		memset(call->ask[set] + rest, 0, (words - rest) * sizeof(long));
	uselect_fd_set(mine->fd, call->ask[USL_RD]);
	n = usl_sys_select(nfds, call->ask[USL_RD], call->limit ? call->ask[USL_WR] : NULL,
			   call->limit ? call->ask[USL_EX] : NULL, timeout, NULL);
	if (n > 0 && uselect_fd_isset(mine->fd, call->ask[USL_RD])) {
		uselect_fd_clear(mine->fd, call->ask[USL_RD]);
		n--;
	}
	return n;
}

/* The kernel's answer about the rest is added to the region's. */
static int usl_select_merge(struct usl_select *call, int kernel)
{
	unsigned int words = kernel ? USELECT_WORDS(call->limit) : 0, i;
	int set;

	call->count = 0;
	for (set = 0; set < USL_SETS; set++) {
		if (!call->sets[set])
			continue;
		for (i = 0; i < words; i++)
			call->hits[set][i] |= call->ask[set][i];
		call->count += usl_bits_count(call->hits[set], call->words);
	}
	return usl_select_answer(call);
}

/*
 * The kernel counts what happens to what we want. While that is what it was at the last call, nothing is
 * published anew, and whatever the look has not seen moves the sequence number on from @seq.
 */
static int usl_select_slow(struct usl_select *call, struct usl_set *mine,
			   const struct timespec *deadline, bool now)
{
	struct timespec zero = { 0 }, left, *timeout;
	int n;

	for (;;) {
		if (call->changed) {
			usl_select_publish(call, mine);
			usl_fence();
			usl_select_look(call, mine);
			/* Tracked since a moment ago: published at the next turn. */
			if (call->changed && !call->count && !now)
				continue;
		}
		if (call->count && !call->others)
			return usl_select_answer(call);
		usl_set_seen(mine, call->seq);
		timeout = now || call->count ? &zero : usl_left(deadline, &left);
		n = usl_select_sleep(call, mine, timeout);
		if (n < 0)
			return n;
		usl_select_look(call, mine);
		/* Woken for something that nobody asked for, or that is over: sleep on. */
		if (n || call->count || now || (timeout && !timeout->tv_sec && !timeout->tv_nsec))
			return n ? usl_select_merge(call, n) : usl_select_answer(call);
	}
}

/* The arrays of a call live in the thread's set from call to call. */
static bool usl_select_arrays(struct usl_select *call, struct usl_set *mine)
{
	size_t words = USELECT_WORDS(call->maxfd > mine->fd ? call->maxfd : mine->fd + 1);
	unsigned long *mem;
	int set;

	if (words > mine->scratch_words) {
		mem = realloc(mine->scratch, words * sizeof(long) * USL_ARRAYS);
		if (!mem)
			return false;
		mine->scratch = mem;
		mine->scratch_words = words;
	}
	mem = mine->scratch;
	words = mine->scratch_words;
	for (set = 0; set < USL_SETS; set++) {
		call->hits[set] = mem + words * set;
		call->ask[set] = mem + words * (USL_SETS + set);
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
	bool zero = timeout && !timeout->tv_sec && !timeout->tv_usec;
	struct timespec span, deadline;
	struct usl_set *mine;

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
	call.tracked = usl_region.nfds / USL_BITS;
	if (call.tracked > call.words)
		call.tracked = call.words;
	call.want[USL_RD] = mine->want_read;
	call.want[USL_WR] = mine->want_write;
	call.want[USL_EX] = mine->want_except;
	usl_select_look(&call, mine);
	if ((call.count && (!call.others || usl_pass_on(&usl_pass))) ||
	    (!call.count && zero && !call.others))
		return usl_select_answer(&call);
	usl_pass.passes = 0;
	return usl_select_slow(&call, mine, usl_deadline(timeout ? &span : NULL, &deadline),
			       call.count || zero);
}
