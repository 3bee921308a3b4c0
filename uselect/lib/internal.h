/* SPDX-License-Identifier: MIT */
/* Inside of libuselect: the mappings, and what it asks of the kernel. */
#ifndef USELECT_INTERNAL_H
#define USELECT_INTERNAL_H

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <time.h>
#include <flotilla/uselect.h>

#include "uselect.h"

#define USL_BITS	(8 * sizeof(long))
#define USL_PAGE	4096
/* Of a call of uselect(), in one piece of memory. */
#define USL_ARRAYS	6

typedef _Atomic unsigned long usl_word;

/**
 * struct usl_set - a set of interest
 * @fd:    descriptor of the device; readable while something wanted has not been seen; -1
 *	   in a child of the opener, which has no mappings either
 * @next:  of the sets of this process
 * @epoch: usl_epoch when it was opened; another one: this process is a child of the opener
 * @words: of the want bitmaps that may hold bits
 * @scratch: arrays of the calls of uselect() and uselect_poll()
 */
struct usl_set {
	int fd;
	struct usl_set *next;
	unsigned int epoch;
	unsigned int words;
	struct usel_set_head *out;
	struct usel_want_head *in;
	size_t out_size;
	size_t in_size;
	uint32_t *ring;
	usl_word *want_read;
	usl_word *want_write;
	usl_word *want_except;
	usl_word *pending;
	uint32_t *want_rx;
	unsigned long *scratch;
	size_t scratch_words;
};

/**
 * struct usl_region - the process's region; all NULL and 0 while it has none
 * @nfds: descriptors from here on are not tracked; 0: nobody looks at it, or will any more
 */
struct usl_region {
	const struct usel_region_head *head;
	size_t size;
	unsigned int nfds;
	const usl_word *active;
	const usl_word *read;
	const usl_word *write;
	const usl_word *except;
	const struct usel_fd *fds;
	uint32_t flags;
	uint32_t features;
} __attribute__((aligned(USL_PAGE)));

extern struct usl_region usl_region;
/* Counts the fork()s that made this process. */
extern _Atomic unsigned int usl_epoch;
extern _Atomic unsigned int usl_max_pass;
extern _Atomic unsigned int usl_max_delay_us;

/* NULL with errno; @flags: USEL_SETUP_*, without USEL_SETUP_EDGES where that is not known. */
struct usl_set *usl_set_open(uint32_t flags, uint32_t ring);
void usl_set_close(struct usl_set *set);
/* The descriptor is one of the library's, and the program does not know of it. */
bool usl_is_own(int fd);
/* The same, and asks the kernel. */
bool usl_is_own_still(int fd);
/* The library's descriptors have numbers from here on, if there are any free. */
extern int usl_device_floor;
/* uselect_init() in two steps: until it is shown nobody uses the region. */
int usl_register(uint32_t flags);
void usl_region_show(void);
/* The descriptor that it was made by; -1: none. */
int usl_region_fd(void);
/* As before usl_register(); the region was never shown. */
void usl_unregister(void);
/* The number was tracked, and is closed; whoever has a copy may keep the socket. */
void usl_closed(int fd);
/* NULL, or zeroed memory that comes as it is touched. */
void *usl_table(size_t size);
/* The calling thread's own, or NULL: the process is not registered, or out of something. */
struct usl_set *usl_set_mine(void);

static inline unsigned long usl_load(const usl_word *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static inline bool usl_test(const usl_word *map, unsigned int fd)
{
	return atomic_load_explicit(&map[fd / USL_BITS], memory_order_acquire) >>
	       (fd % USL_BITS) & 1;
}

static inline void usl_set_bit(usl_word *map, unsigned int fd)
{
	atomic_fetch_or_explicit(&map[fd / USL_BITS], 1UL << (fd % USL_BITS),
				 memory_order_relaxed);
}

static inline void usl_clear_bit(usl_word *map, unsigned int fd)
{
	atomic_fetch_and_explicit(&map[fd / USL_BITS], ~(1UL << (fd % USL_BITS)),
				  memory_order_relaxed);
}

static inline bool usl_tracked(int fd)
{
	return (unsigned int)fd < usl_region.nfds && usl_test(usl_region.active, fd);
}

static inline uint32_t usl_fd_events(unsigned int fd)
{
	return __atomic_load_n(&usl_region.fds[fd].events, __ATOMIC_RELAXED);
}

/* What poll() says of a tracked descriptor; the kernel is asked where the region may say more. */
uint32_t usl_fd_now(unsigned int fd);

static inline uint32_t usl_fd_gen(unsigned int fd)
{
	return __atomic_load_n(&usl_region.fds[fd].gen, __ATOMIC_ACQUIRE);
}

static inline uint64_t usl_set_seq(const struct usl_set *set)
{
	return __atomic_load_n(&set->out->seq, __ATOMIC_ACQUIRE);
}

static inline void usl_set_seen(struct usl_set *set, uint64_t seq)
{
	__atomic_store_n(&set->in->seen, seq, __ATOMIC_RELAXED);
}

/* Wants are published; what comes from now on is told. */
static inline void usl_fence(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

/**
 * struct usl_pass - how long answers came from the region alone; one for each thread
 * @passes: in a row
 * @since:  of the first of them, coarse milliseconds
 */
struct usl_pass {
	unsigned int passes;
	uint64_t since;
};

/* May this call, too, be answered without looking at what is not tracked? */
bool usl_pass_on(struct usl_pass *pass);

/* Time until @deadline, for the kernel; NULL when there is none. */
struct timespec *usl_left(const struct timespec *deadline, struct timespec *left);
/* @deadline = now + @span; NULL if @span is. */
struct timespec *usl_deadline(const struct timespec *span, struct timespec *deadline);

/* System calls, past any wrapper. */
int usl_sys_select(int nfds, void *rd, void *wr, void *ex, const struct timespec *timeout,
		   const sigset_t *mask);
int usl_sys_ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
		  const sigset_t *mask);
int usl_sys_epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout,
			const sigset_t *mask);
int usl_sys_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int usl_sys_close(int fd);

#endif
