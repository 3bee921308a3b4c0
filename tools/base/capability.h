/* SPDX-License-Identifier: GPL-2.0 */
/* What a daemon keeps of root's rights; lardd and afpad. */
#ifndef BASE_CAPABILITY_H
#define BASE_CAPABILITY_H

#include <stdint.h>

/* Of what it has, only @mask, a bit for each CAP_*; nothing is passed on to other programs. 0 or -errno. */
int capability_keep(uint64_t mask);

#endif
