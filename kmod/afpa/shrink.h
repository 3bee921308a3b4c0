/* SPDX-License-Identifier: GPL-2.0 */
/* What the machine's reclaim takes of all caches. */
#ifndef AFPA_SHRINK_H
#define AFPA_SHRINK_H

int afpa_shrinker_register(void);
void afpa_shrinker_unregister(void);

#endif
