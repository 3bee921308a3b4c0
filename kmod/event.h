/* SPDX-License-Identifier: GPL-2.0 */
/* The multicast group "events". Process context; loss is counted. */
#ifndef FLT_EVENT_H
#define FLT_EVENT_H

#include "netns.h"

void flt_event_node(struct flt_net *fn, struct flt_node *node, enum flt_event type);
void flt_event_dispatch(struct flt_net *fn);

/* The family is there, or is about to go: after that nothing is sent. */
void flt_event_enable(bool on);

#endif
