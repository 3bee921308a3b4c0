/* SPDX-License-Identifier: GPL-2.0 */
/* Which number has a socket in its process's descriptor table? */
#ifndef USEL_FD_H
#define USEL_FD_H

#include <linux/compiler.h>

#include "sock.h"

int usel_fd_init(void);
void usel_fd_exit(void);

/*
 * For a region; sleeps. True: descriptors are followed exactly, until
 * usel_fd_put(). False: they are guessed.
 */
bool usel_fd_get(void);
void usel_fd_put(void);

/* A connection was accepted, and will have a number in a moment. */
void usel_fd_accepted(struct usel_sock *us, struct socket *sock);

/* Confirms a guess, or searches. Process context. */
void usel_fd_settle(struct usel_sock *us, struct socket *sock);

/* An operation runs on the socket: whoever called it had a descriptor. */
static inline void usel_fd_seen(struct usel_sock *us, struct socket *sock)
{
	if (us && unlikely(!READ_ONCE(us->settled)))
		usel_fd_settle(us, sock);
}

/*
 * Does the caller's descriptor table name the file? Asked under the table's lock, so whoever takes
 * the last such number away later calls the file's flush() after all that came before this.
 */
struct file;
bool usel_fd_names(const struct file *file);

/* For USEL_TRACK and USEL_FORGET; 0 or an errno as in the uapi header. */
struct usel_region;
int usel_fd_track(struct usel_region *region, unsigned int fd);
int usel_fd_forget(struct usel_region *region, unsigned int fd);

#endif
