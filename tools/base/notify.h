/* SPDX-License-Identifier: GPL-2.0 */
/* The service manager's notification socket (sd_notify(3)), without its library. */
#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

/* "READY=1" and the like; does nothing when nobody asked for it. */
void notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "RELOADING=1" needs the time with it. */
void notify_reloading(void);

#endif
