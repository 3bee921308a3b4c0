/* SPDX-License-Identifier: GPL-2.0 */
/* SSP_KEEPCOPY: the unread copy of what was passed on. */
#ifndef SSP_COPY_H
#define SSP_COPY_H

#include <linux/skbuff.h>
#include <linux/socket.h>
#include <net/sock.h>

struct ssp_end;
struct ssp_user;

/* Its socket is locked, and no copy is left: @user pays for the next one. */
void ssp_copy_init(struct ssp_end *end, struct ssp_user *user);

/* The end's memory goes. */
void ssp_copy_exit(struct ssp_end *end);

/**
 * ssp_copy_room - how many bytes more may wait for the reader
 * @end: its socket is locked
 * @max: max2cache
 */
unsigned int ssp_copy_room(const struct ssp_end *end, unsigned int max);

/* The byte of @skb at @off follows the newest of the copy, which has the packet already. */
bool ssp_copy_extends(const struct ssp_end *end, const struct sk_buff *skb, unsigned int off);

/**
 * ssp_copy_make - a reference to a packet, charged to the socket it came on
 * @end: whose; @sk is its socket, locked
 * @sk:  its memory, but not its receive window: a window that closes before the reader
 *	 is told to come (min2read) would never open again
 * @skb: on the receive queue
 *
 * Return: NULL without memory, or when the user has enough.
 */
struct sk_buff *ssp_copy_make(struct ssp_end *end, struct sock *sk, struct sk_buff *skb);

/* What ssp_copy_make() has given and was not appended. */
void ssp_copy_free(struct ssp_end *end, struct sock *sk, struct sk_buff *clone);

/* @len bytes of @clone from @off on are the newest of the copy; NULL: it extends the last. */
void ssp_copy_append(struct ssp_end *end, struct sk_buff *clone, unsigned int off,
		     unsigned int len);

/**
 * ssp_copy_read - move unread bytes to a program
 * @end:  whose
 * @sk:   its socket, locked
 * @msg:  where to; as far as there is room
 * @peek: leave them unread
 *
 * Return: bytes moved; -EFAULT if none could be.
 */
int ssp_copy_read(struct ssp_end *end, struct sock *sk, struct msghdr *msg, bool peek);

/* Drop what is unread; the socket is locked or nobody knows it any more. */
void ssp_copy_drop(struct ssp_end *end, struct sock *sk);

/* The copy outlives its pair, or has ended: hold or release the module. */
void ssp_copy_pin(struct ssp_end *end);

#endif
