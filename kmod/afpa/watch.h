/* SPDX-License-Identifier: GPL-2.0 */
#ifndef AFPA_WATCH_H
#define AFPA_WATCH_H

#include <linux/workqueue.h>

/* Work of a namespace with sites, once a second. */
void afpa_watch(struct work_struct *work);

#endif
