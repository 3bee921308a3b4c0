/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/iolite */
#ifndef IOL_DEVICE_H
#define IOL_DEVICE_H

int iol_device_register(void);
void iol_device_unregister(void);

#endif
