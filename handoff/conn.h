/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HOF_CONN_H
#define HOF_CONN_H

int hof_conn_register(void);
void hof_conn_unregister(void);

#endif
