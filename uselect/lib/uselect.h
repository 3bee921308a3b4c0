/* SPDX-License-Identifier: MIT */
/*
 * libuselect: which of this process's TCP connections are ready, without asking the kernel.
 *
 *	uselect_init();				// before the listening socket is made
 *	for (;;) {
 *		n = uselect(maxfd, rd, wr, ex, &timeout);	// as select()
 *		...
 *	}
 *
 * or, for a new program, the list of what is ready:
 *
 *	struct uselect_loop *loop = uselect_loop_new();
 *	uselect_loop_add(loop, fd, EPOLLIN | EPOLLET, data);	// no system call
 *	n = uselect_loop_wait(loop, events, max, timeout_ms);	// none while there is work
 *
 * Without the module everything works, by select(), poll() and epoll. See uselect(3).
 */
#ifndef USELECT_H
#define USELECT_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- set-up --- */

/**
 * uselect_init - register this process
 *
 * Return: 0; -1 with errno EBUSY (it is), ENODEV (no module, or switched off), EACCES, ENOMEM,
 * EMFILE. After a failure all calls below work by system calls. A child by fork() is not
 * registered and may call it.
 */
int uselect_init(void);
/* As uselect_init(), and keeps byte counts, see uselect_get_info(). */
int uselect_init_bytes(void);
/*
 * As uselect_init(), for programs of lists: their descriptors do not block, and what is reported
 * by EPOLLET is read or sent until EAGAIN, even if there should be nothing. Then receives and
 * sends cost what they cost without uselect. All else works; but interest without EPOLLET or with
 * EPOLLONESHOT, uselect_loop_mod() and get_socket_state() of a descriptor that was read from cost
 * a system call. From a thread's call of uselect() or uselect_poll() until its end all is as after
 * uselect_init().
 */
int uselect_init_edges(void);
/* The process is registered. */
bool uselect_active(void);

enum uselect_option {
	USELECT_MAX_PASS,	/* calls answered without a system call in a row, 1 to 4096; 16 */
	USELECT_MAX_DELAY_US,	/* and for how long, 0 to 1,000,000; 2000 */
};

/* 0; -1 with errno EINVAL. */
int uselect_set_option(enum uselect_option option, unsigned int value);

/* --- select() --- */

/* Sets of any size: arrays of unsigned long, (nfds + 63) / 64 of them. */
#define USELECT_WORDS(nfds)	(((nfds) + 8 * sizeof(long) - 1) / (8 * sizeof(long)))

static inline void uselect_fd_set(int fd, void *set)
{
	((unsigned long *)set)[fd / (8 * sizeof(long))] |= 1UL << (fd % (8 * sizeof(long)));
}

static inline void uselect_fd_clear(int fd, void *set)
{
	((unsigned long *)set)[fd / (8 * sizeof(long))] &= ~(1UL << (fd % (8 * sizeof(long))));
}

static inline bool uselect_fd_isset(int fd, const void *set)
{
	return ((const unsigned long *)set)[fd / (8 * sizeof(long))] >>
	       (fd % (8 * sizeof(long))) & 1;
}

/**
 * uselect - as select(), without a system call while something tracked is ready
 *
 * Descriptors that are not tracked are looked at after at most USELECT_MAX_PASS calls or
 * USELECT_MAX_DELAY_US. @timeout is not changed. The sets may hold more than FD_SETSIZE
 * descriptors: then pass arrays of unsigned long, cast.
 */
int uselect(int maxfd, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
	    const struct timeval *timeout);

#define USEL_STATE_R	1
#define USEL_STATE_W	2
#define USEL_STATE_E	4

/* USEL_STATE_* of one socket, no system call; -1 with errno ENOENT when it is not tracked. */
int get_socket_state(int fd);

struct uselect_info {
	uint32_t events;	/* EPOLL*, what poll() would say */
	uint32_t rx_bytes;	/* from here on 0 unless uselect_init_bytes() was called */
	uint32_t tx_space;
	uint32_t snd_cwnd;
	uint32_t srtt_us;
};

/* As of the last event on the socket; 0, or -1 with errno ENOENT. */
int uselect_get_info(int fd, struct uselect_info *info);

/* Track a socket that was there before uselect_init(); 0, or -1 with errno of USEL_TRACK. */
int uselect_track(int fd);
/* close() for a socket of which a child or a dup() may hold a copy. */
int uselect_close(int fd);

/* --- poll() --- */

/* As poll() and ppoll(), in the same way. */
int uselect_poll(struct pollfd *fds, nfds_t nfds, int timeout_ms);
int uselect_ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
		  const sigset_t *mask);

/* --- many receives and sends in one call --- */

struct usel_move;	/* flotilla/uselect.h */

/**
 * uselect_move - receive and send as each @moves[i] says, and put its result there
 * @nr: at most USEL_MOVES_MAX
 *
 * Each as recv() or send() with MSG_DONTWAIT and MSG_NOSIGNAL, of any sockets, in one system call;
 * in as many as there are without the module, or where a seccomp filter has to see them.
 *
 * Return: how many were made, commonly @nr; -1 with errno EINVAL, EFAULT.
 */
int uselect_move(struct usel_move *moves, unsigned int nr);

/* --- the list of what is ready --- */

struct uselect_loop;

/* NULL with errno. A child by fork() can free it and must make its own. */
struct uselect_loop *uselect_loop_new(void);
void uselect_loop_free(struct uselect_loop *loop);

/**
 * uselect_loop_fd - readable (poll(), epoll) while uselect_loop_wait() has something to say
 *
 * So that a loop can be one source among others of an existing event loop.
 */
int uselect_loop_fd(const struct uselect_loop *loop);

/*
 * As epoll_ctl() and epoll_wait(): EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, EPOLLET and
 * EPOLLONESHOT. Errors too: EEXIST, ENOENT, EBADF, EPERM, EINVAL. A closed descriptor is removed by
 * itself. In a process that wants edges only EPOLLERR and EPOLLPRI of what was taken since, by
 * SO_ERROR or MSG_OOB, may be told of once more.
 */
int uselect_loop_add(struct uselect_loop *loop, int fd, uint32_t events, uint64_t data);
int uselect_loop_mod(struct uselect_loop *loop, int fd, uint32_t events, uint64_t data);
int uselect_loop_del(struct uselect_loop *loop, int fd);
int uselect_loop_wait(struct uselect_loop *loop, struct epoll_event *events, int max,
		      int timeout_ms);
int uselect_loop_pwait(struct uselect_loop *loop, struct epoll_event *events, int max,
		       int timeout_ms, const sigset_t *mask);

/* Not readable until this many bytes are there, or the end, or an error; needs byte counts. */
int uselect_loop_threshold(struct uselect_loop *loop, int fd, uint32_t rx_bytes);

#ifdef __cplusplus
}
#endif

#endif
