/* SPDX-License-Identifier: GPL-2.0 */
/* Hashing of targets and names: the kernel's, which finds targets by the same key (early.h). */
#ifndef LARD_MIX_H
#define LARD_MIX_H

#include "handoff/target_hash.h"

#endif
