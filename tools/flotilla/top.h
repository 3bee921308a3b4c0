/* SPDX-License-Identifier: GPL-2.0 */
/*
 * flotilla top: what happens here, each second. One JSON object says what happened between two
 * looks; -j prints it, and the table for people and the rows with tabs are made of it.
 */
#ifndef FLOTILLA_TOP_H
#define FLOTILLA_TOP_H

#include "cli.h"
#include "metric.h"
#include "metric_node.h"

/**
 * struct look - everything at one moment
 * @at:         on the monotonic clock, in seconds
 * @samples:    of the kernel, and those of lardd as room "lardd"
 * @has_kernel: flotilla.ko is loaded
 * @dispatcher: what lardd says of itself and of its nodes; NULL: none answers
 */
struct look {
	double at;
	struct samples samples;
	struct node_list nodes;
	bool has_kernel;
	json_t *dispatcher, *dispatcher_nodes;
};

/*
 * False: there is nothing to look at, neither kernel nor lardd. @client is NULL at first, kept, and
 * closed after the last one; @path: lardd's socket.
 */
bool look_take(struct look *look, struct flt_client **client, const char *path);
void look_free(struct look *look);

/* @before NULL: there are no rates. @room: only of this one, or NULL. To be given back. */
json_t *look_compare(const struct look *before, const struct look *after, const char *room);

/* For a screen of @rows (0: all of it), of plain ASCII; to be freed. NULL: no memory. */
char *top_text(const json_t *top, unsigned int rows);
void top_rows(const json_t *top, FILE *out);

#endif
