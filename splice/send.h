/* SPDX-License-Identifier: GPL-2.0 */
/* Sending a part of a received packet by reference. */
#ifndef SSP_SEND_H
#define SSP_SEND_H

#include <linux/mm_types.h>
#include <linux/sizes.h>
#include <linux/skbuff.h>
#include <net/sock.h>

#include "net.h"

/**
 * ssp_send - put bytes of received packets into a socket's send queue
 * @sk:   locked; ESTABLISHED or CLOSE_WAIT, no error, not shut down for sending
 * @skb:  stays the caller's; its pages get further references
 * @off:  first byte
 * @len:  how many; within @skb and those that follow it in its queue, from their beginning
 * @more: further bytes follow at once
 * @head: @head.size bytes that go before them, which are taken off it; or NULL
 * @sn:   for counters
 *
 * Never sleeps and takes no memory that could make it.
 *
 * Return: the number of bytes of the packets taken, at least one unless @len is 0; -EAGAIN: the
 * socket is full or there is no memory; another error of the connection.
 */
int ssp_send(struct sock *sk, struct sk_buff *skb, unsigned int off, unsigned int len, bool more,
	     struct page_frag *head, struct ssp_net *sn);

/* @sk takes @len bytes and a packet after them, whatever memory they cost beyond their bytes. */
static inline bool ssp_has_room(const struct sock *sk, unsigned int len)
{
	return sk_stream_wspace(sk) > (s64)len + SZ_16K;
}

#endif
