/* SPDX-License-Identifier: GPL-2.0 */
/* Messages and events of links, to those whom they concern. */
#ifndef CARD_MESSAGE_H
#define CARD_MESSAGE_H

int card_message_register(void);
void card_message_unregister(void);
int card_event_register(void);
void card_event_unregister(void);

#endif
