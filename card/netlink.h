/* SPDX-License-Identifier: GPL-2.0 */
/* Generic netlink family "flotilla_card". */
#ifndef CARD_NETLINK_H
#define CARD_NETLINK_H

int card_netlink_register(void);
void card_netlink_unregister(void);

#endif
