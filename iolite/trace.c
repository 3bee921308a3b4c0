// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of this room live here. */
#include <linux/types.h>

#define CREATE_TRACE_POINTS
#include "trace.h"
