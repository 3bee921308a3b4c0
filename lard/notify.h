/* SPDX-License-Identifier: GPL-2.0 */
/* What the service manager is told (the sd_notify protocol); nothing without one. */
#ifndef LARD_NOTIFY_H
#define LARD_NOTIFY_H

void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);

#endif
