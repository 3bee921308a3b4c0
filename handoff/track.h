/* SPDX-License-Identifier: GPL-2.0 */
/* What connection tracking still knows of a connection that has moved. */
#ifndef HOF_TRACK_H
#define HOF_TRACK_H

struct flt_tuple;
struct hof_net;

/**
 * hof_track_forget - the entry of a connection goes, if there is one
 * @hn:    where it was given away
 * @tuple: of the connection
 *
 * Any context but hard interrupt.
 */
void hof_track_forget(struct hof_net *hn, const struct flt_tuple *tuple);

#endif
