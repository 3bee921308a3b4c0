/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/uselect: see the uapi header for the contract. */
#ifndef USEL_DEVICE_H
#define USEL_DEVICE_H

int usel_device_register(void);
void usel_device_unregister(void);

#endif
