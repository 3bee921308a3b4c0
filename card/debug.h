/* SPDX-License-Identifier: GPL-2.0 */
/* debugfs: makes indexes wrong, for tests. */
#ifndef CARD_DEBUG_H
#define CARD_DEBUG_H

void card_debug_register(void);
void card_debug_unregister(void);

#endif
