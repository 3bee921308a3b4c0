/* SPDX-License-Identifier: GPL-2.0 */
/* Packets in tunnels are believed from nodes only. */
#ifndef HOF_GUARD_H
#define HOF_GUARD_H

struct hof_net;

/* Put the hooks in; they stay until the namespace or the module goes. Process context. */
int hof_guard_hook(struct hof_net *hn);
void hof_guard_unhook(struct hof_net *hn);

#endif
