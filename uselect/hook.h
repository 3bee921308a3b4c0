/* SPDX-License-Identifier: GPL-2.0 */
/* Sockets of registered processes, from socket() on. */
#ifndef USEL_HOOK_H
#define USEL_HOOK_H

int usel_hook_init(void);
/* Waits for the last call that is inside. */
void usel_hook_exit(void);

/* While there are regions; under usel_regions_lock, a spinlock. */
void usel_hook_get(void);
void usel_hook_put(void);

#endif
