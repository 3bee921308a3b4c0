/* SPDX-License-Identifier: GPL-2.0 */
/* Requests wait until a policy has said whose they are: the gate of a connection. */
#ifndef HOF_GATE_H
#define HOF_GATE_H

struct flt_tuple;
struct hof_net;
struct hof_assigned;
struct net;

/* The namespace has a service with a policy: 0, or -ENOMEM. Process context. */
int hof_gate_begin(struct hof_net *hn);
/* Listeners are looked for, now and from time to time, as long as there is such a service. */
void hof_gate_watch(struct hof_net *hn);
/* Those that there are have been found. */
void hof_gate_settle(struct hof_net *hn);
/* What is held of a service that is off is let through, soon. */
void hof_gate_open_all(struct hof_assigned *s);
/* Does a listener of that address have room: its queue is at most half full. Process context. */
bool hof_gate_has_room(struct net *net, const struct flt_tuple *at);
/* Its listeners are as any other. Under hof_policy_lock. */
void hof_gate_leave(const struct hof_assigned *s);
void hof_gate_net_init(struct hof_net *hn);
/* No service is left. */
void hof_gate_net_exit(struct hof_net *hn);

int hof_gate_init(void);
/* No service is left, in any namespace. */
void hof_gate_exit(void);

#endif
