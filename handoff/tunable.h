/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HOF_TUNABLE_H
#define HOF_TUNABLE_H

struct hof_net;

int hof_tunable_net_init(struct hof_net *hn);
void hof_tunable_net_exit(struct hof_net *hn);

#endif
