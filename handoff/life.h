/* SPDX-License-Identifier: GPL-2.0 */
/* How an adopted connection lives on, told to the node that gave it. */
#ifndef HOF_LIFE_H
#define HOF_LIFE_H

struct flt_node;
struct flt_tuple;
struct hof_adoption;
struct hof_msg_life;
struct hof_net;

void hof_life_net_init(struct hof_net *hn);
void hof_life_net_exit(struct hof_net *hn);

/* The child was destroyed; drops the layer's reference. Softirq or process context. */
void hof_life_end(struct hof_adoption *a);
/* A COMMIT came for one given up; the caller's reference goes with it. Under adopt_lock. */
void hof_life_lost(struct hof_adoption *a);
/* There is something to tell of it; under adopt_lock. */
void hof_life_changed(struct hof_adoption *a);

/* A message goes to @node: what there is to tell it goes along. Process context. */
void hof_life_ride(struct hof_net *hn, struct flt_node *node);

/* A record of @what; under adopt_lock. */
void hof_life_record(const struct hof_adoption *a, u16 what, struct hof_msg_life *record);
/* Say once more whether it is idle; under adopt_lock. */
void hof_life_again(struct hof_adoption *a);
void hof_life_tuple(const struct hof_msg_life *record, struct flt_tuple *tuple);
/* A record of a connection that is not an adoption. */
void hof_life_fill(const struct flt_tuple *tuple, u64 id, u16 what, struct hof_msg_life *record);

/* On the giving side: a record from @node. */
void hof_life_receive(struct hof_net *hn, struct flt_node *node,
		      const struct hof_msg_life *record);

#endif
