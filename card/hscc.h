/* SPDX-License-Identifier: GPL-2.0 */
/* What the lazy and the eager index have in common. */
#ifndef CARD_HSCC_H
#define CARD_HSCC_H

#include "part.h"
#include "policy.h"

u16 hscc_lookup(struct card_cache *cache, u64 block);
u16 hscc_handle_request(struct card_cache *cache, struct card_ask *ask, struct card_notes *notes);
u16 hscc_evict_singlet(struct card_cache *cache, struct card_save *save);
void hscc_keep_consistency(struct card_cache *cache, u16 from, const struct card_wire_index *said,
			   struct card_notes *notes);

extern struct card_policy hscc_eager;

#endif
