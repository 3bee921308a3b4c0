/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What connections this namespace takes from other nodes: for which services, of which
 * clients, and whether over links that nobody has authenticated.
 */
#ifndef FLT_SERVICE_H
#define FLT_SERVICE_H

#include <net/net_namespace.h>
#include <flotilla/flotilla.h>

struct flt_net;
struct genl_info;
struct netlink_callback;
struct sk_buff;

/**
 * flt_service_permit - may a connection of these addresses be adopted here at all
 * @net:   the namespace that would adopt it
 * @tuple: as a peer has said it: not trusted
 *
 * Context: any but hard interrupt.
 * Return: FLT_REFUSE_NONE; _CLIENT: the client's address is not one that a client of this
 * machine can have; _SERVICE: the service's address and port are not on the list.
 */
enum flt_refusal flt_service_permit(struct net *net, const struct flt_tuple *tuple);

/* Is any of @addr on the list: @port (network order), or with 0 whichever. As above. */
bool flt_service_has(struct net *net, u16 family, const u8 *addr, __be16 port);

/* Are connections given and taken over links without authentication, too (FLT_A_LOCAL_INSECURE). */
bool flt_service_insecure(const struct net *net);

/* Says so in the kernel's log, too. */
void flt_service_set_insecure(struct flt_net *fn, bool on);

/* FLT_CMD_SERVICE_*, for the table of operations. */
int flt_service_new(struct sk_buff *skb, struct genl_info *info);
int flt_service_del(struct sk_buff *skb, struct genl_info *info);
int flt_service_dump(struct sk_buff *skb, struct netlink_callback *cb);

/* The address and port that a command names; 0, or an errno with its sentence. */
int flt_service_get_at(struct genl_info *info, struct flt_tuple *at);
/* @addr, 16 bytes, into a message; -EMSGSIZE. */
int flt_service_put_addr(struct sk_buff *skb, u16 family, const u8 *addr);

/* The namespace goes: nobody asks any more. */
void flt_service_clear(struct flt_net *fn);

#endif
