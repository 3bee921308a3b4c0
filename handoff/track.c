// SPDX-License-Identifier: GPL-2.0
/*
 * A stateful firewall on the front-end has an entry for each connection that
 * was accepted here. Once the connection is given away its packets pass below
 * tracking, which never sees it end: the entry would stay ESTABLISHED for five
 * days, and the table would be full within minutes. So it goes along.
 */

#include <net/netfilter/nf_conntrack.h>
#include <net/netfilter/nf_conntrack_core.h>
#include <net/netfilter/nf_conntrack_zones.h>
#include <flotilla/flotilla.h>

#include "net.h"
#include "track.h"

#if IS_ENABLED(CONFIG_NF_CONNTRACK)
void hof_track_forget(struct hof_net *hn, const struct flt_tuple *tuple)
{
	struct nf_conntrack_tuple key = {};
	struct nf_conntrack_tuple_hash *found;
	struct nf_conn *ct;

	/* As the client's packets have it: the hook sees only those that nobody translates. */
	key.src.l3num = tuple->family;
	memcpy(&key.src.u3, tuple->client, tuple->family == AF_INET ? 4 : 16);
	memcpy(&key.dst.u3, tuple->server, tuple->family == AF_INET ? 4 : 16);
	key.src.u.tcp.port = tuple->client_port;
	key.dst.u.tcp.port = tuple->server_port;
	key.dst.protonum = IPPROTO_TCP;
	key.dst.dir = IP_CT_DIR_ORIGINAL;

	found = nf_conntrack_find_get(hn->net, &nf_ct_zone_dflt, &key);
	if (!found)
		return;
	ct = nf_ct_tuplehash_to_ctrack(found);
	nf_ct_kill(ct);
	nf_ct_put(ct);
}
#else
void hof_track_forget(struct hof_net *hn, const struct flt_tuple *tuple)
{
}
#endif
