/* SPDX-License-Identifier: GPL-2.0 */
/* Connections that are answered by a work item. */
#ifndef AFPA_QUEUE_H
#define AFPA_QUEUE_H

#include <linux/workqueue.h>

struct afpa_conn;

/* Its engine runs soon; false: the module is being unloaded. Any context; the socket is alive. */
bool afpa_queue_conn(struct afpa_conn *conn, unsigned long delay);

/* Its engine runs now; false: a program has the socket's lock. References on both. */
bool afpa_queue_try(struct afpa_conn *conn);

/* For the watch: tries what the work item could not do. Process context; references on both. */
void afpa_queue_again(struct afpa_conn *conn);

void afpa_queue_work(struct work_struct *work);

int afpa_queue_init(void);
void afpa_queue_exit(void);

#endif
