/* SPDX-License-Identifier: GPL-2.0 */
/* Adopted connections that wait for the next request. */
#ifndef HOF_IDLE_H
#define HOF_IDLE_H

struct hof_adoption;
struct hof_net;

void hof_idle_net_init(struct hof_net *hn);
/* Nobody is looked at from here on; the children may go without a word. Process context. */
void hof_idle_stop(struct hof_net *hn);

/* Begin to look for the child being idle. */
void hof_idle_watch(struct hof_adoption *a);
/* Data came for the child. Softirq. */
void hof_idle_data(struct hof_adoption *a);

#endif
