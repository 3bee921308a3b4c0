/* SPDX-License-Identifier: GPL-2.0 */
/* What of a file is not in memory is read by a thread, on behalf of a connection. */
#ifndef AFPA_READ_H
#define AFPA_READ_H

#include <linux/types.h>

/* Of threads that read, by disk. */
#define AFPA_READER_QUEUES	8

struct afpa_conn;
struct afpa_object;
struct work_struct;

/**
 * afpa_read_queue() - a chunk of a file is wanted
 * @conn: locked; nothing is done with it until the chunk is there
 * @obj:  with a file
 * @pos:  where in it
 *
 * Return: false: there are too many already, or the module is being unloaded.
 */
bool afpa_read_queue(struct afpa_conn *conn, struct afpa_object *obj, u64 pos);

/* A chunk is being read. The engine's; what it was told then is seen. */
bool afpa_read_is_under_way(const struct afpa_conn *conn);

/* Of struct afpa_conn. */
void afpa_read_work(struct work_struct *work);

int afpa_read_init(void);
void afpa_read_exit(void);

#endif
