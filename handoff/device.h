/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HOF_DEVICE_H
#define HOF_DEVICE_H

int hof_device_register(void);
void hof_device_unregister(void);

#endif
