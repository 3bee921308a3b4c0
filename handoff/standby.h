/* SPDX-License-Identifier: GPL-2.0 */
/* Services whose connections this node may take over: until it knows them, nobody is reset. */
#ifndef HOF_STANDBY_H
#define HOF_STANDBY_H

#include <linux/netfilter.h>
#include <linux/tcp.h>
#include <flotilla/flotilla.h>

#include "entry.h"
#include "net.h"

/**
 * struct hof_service - addresses of a takeover
 * @family: AF_INET or AF_INET6
 * @port:   network order; 0: every one
 * @addr:   as in struct flt_tuple
 */
struct hof_service {
	u16 family;
	__be16 port;
	u8 addr[16];
};

bool hof_service_has(const struct hof_service *service, const struct flt_tuple *tuple);
/* A connection may be of both. */
bool hof_service_overlaps(const struct hof_service *a, const struct hof_service *b);

void hof_standby_net_init(struct hof_net *hn);
/* The hooks are gone. */
void hof_standby_net_exit(struct hof_net *hn);

/* From now on, until its time is over. Under hn->takeover_lock. Return: 0, -ENOSPC, -ENOMEM. */
int hof_standby_begin(struct hof_net *hn, const struct hof_service *service);
/* Return: 0 or -ENOENT. The same. */
int hof_standby_end(struct hof_net *hn, const struct hof_service *service);

/*
 * Of these addresses, as a packet of device @dif finds it, with a reference that sock_gen_put()
 * drops: it may be none that is connected. RCU.
 */
struct sock *hof_standby_sock(struct hof_net *hn, const struct flt_tuple *tuple, int dif);
/* Has a socket of this machine these addresses, whatever it does? Process context. */
bool hof_standby_owned(struct hof_net *hn, const struct flt_tuple *tuple);

static inline bool hof_standby_is(const struct hof_net *hn)
{
	return unlikely(READ_ONCE(hn->nr_standbys));
}

/*
 * A packet of device @dif that has no entry: NF_ACCEPT, or NF_DROP: its connection may be taken
 * over yet. RCU.
 */
unsigned int hof_standby_packet4(struct hof_net *hn, const struct hof_key4 *key,
				 const struct tcphdr *th, int dif);
unsigned int hof_standby_packet6(struct hof_net *hn, const struct hof_key6 *key,
				 const struct tcphdr *th, int dif);

#endif
