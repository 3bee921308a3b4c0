/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An established connection goes to the accept queue of another listener of the same
 * namespace: checkpoint, adoption and release in one step, without a second owner in between.
 */
#ifndef FLT_REQUEUE_H
#define FLT_REQUEUE_H

#include <net/sock.h>
#include <flotilla/flotilla.h>

/**
 * flt_listener_rank_of - could a connection be a child of a listener: its namespace, port, address
 * @listener: not bound to a device, or it fits nothing
 * @net:      of the connection
 * @tuple:    its addresses, with the port of the listener that is looked for
 *
 * Context: any. Return: 0: no; else the higher, the rather TCP would have chosen that listener: its
 * own address before all addresses, then its own family.
 */
unsigned int flt_listener_rank_of(const struct sock *listener, const struct net *net,
				  const struct flt_tuple *tuple);

/**
 * flt_listener_mute - no new connections come to a listener, and its program does not notice
 * @sk:  listening; the caller has a reference, not its lock
 * @mute: true: those that come go to others of its address, which has to have others; what is in
 *	  its queue, or has begun to be, stays. false: as it was before
 *
 * Context: process, may sleep.
 * Return: 0; -EINVAL: it does not listen; -EBUSY: its program keeps its lock; -ENOMEM.
 */
int flt_listener_mute(struct sock *sk, bool mute);

/**
 * flt_sock_came - did the connection come to a listener, or did its program open it
 * @sk: established, or has been
 *
 * TCP keeps no record of it, but a child gets what its program cannot set: with IPv4 the interface
 * of the client's last segment (which for a stream IP_MULTICAST_IF refuses to set), with IPv6 a
 * mark where the address of IPv4 would be. A program that ends an accepted connection by
 * connect(AF_UNSPEC) and opens another with the same socket takes these along.
 *
 * Context: any. Return: true: it was accepted, or adopted.
 */
bool flt_sock_came(const struct sock *sk);

/**
 * struct flt_requeue - where a connection is to go, and who has a say
 * @listener:  the caller has a reference, not its lock
 * @port:      of it, where that is not the connection's own; else 0
 * @may:       asked under the socket's lock, before anything is done to it; its program can neither
 *	       read nor write between a yes and the move. NULL: it may
 * @take:      @child is there, nobody can accept it yet, and both locks are held: what the caller
 *	       has on @sk can go over. NULL: nothing does
 * @give_back: that was in vain, and @child is destroyed; the same locks
 * @arg:       for them
 */
struct flt_requeue {
	struct sock *listener;
	__be16 port;
	enum flt_refusal (*may)(struct sock *sk, void *arg);
	enum flt_refusal (*take)(struct sock *sk, struct sock *child, void *arg);
	void (*give_back)(struct sock *sk, struct sock *child, void *arg);
	void *arg;
};

/**
 * flt_endpoint_requeue - move a connection to a listener
 * @sk:  ESTABLISHED; the caller has a reference, not its lock
 * @how: where to
 *
 * On success the program that had it reads end of file, and the other one accepts the
 * connection with every byte that was unread, and with the keys that it had from us. Nothing is
 * sent to the client, and no packet of his finds the four-tuple without an owner: those that come
 * meanwhile wait below TCP, one that was past that already is dropped unacknowledged at worst.
 *
 * Waits for nobody: a program that keeps its socket locked for long makes it FLT_REFUSE_BUSY.
 *
 * Context: process, may sleep.
 * Return: FLT_REFUSE_NONE; or why it stays where and as it was.
 */
enum flt_refusal flt_endpoint_requeue(struct sock *sk, const struct flt_requeue *how);

#endif
