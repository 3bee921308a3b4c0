/* SPDX-License-Identifier: GPL-2.0 */
/* Many receives and sends in one call. */
#ifndef USEL_MOVE_H
#define USEL_MOVE_H

#include <flotilla/uselect.h>

/* Moves done, or a negative errno when there were none, as the uapi header says. */
long usel_move_all(const struct usel_moves __user *arg);

#endif
