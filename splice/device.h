/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/sksplice */
#ifndef SSP_DEVICE_H
#define SSP_DEVICE_H

int ssp_device_register(void);
void ssp_device_unregister(void);

#endif
