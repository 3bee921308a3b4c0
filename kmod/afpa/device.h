/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/afpa itself. */
#ifndef AFPA_DEVICE_H
#define AFPA_DEVICE_H

int afpa_device_register(void);
void afpa_device_unregister(void);

#endif
