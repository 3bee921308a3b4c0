// SPDX-License-Identifier: GPL-2.0
#include "answer.h"

#define CREATE_TRACE_POINTS
#include "trace.h"
