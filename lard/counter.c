// SPDX-License-Identifier: GPL-2.0
#include "counter.h"

#define X(name, text, help) [COUNTER_##name] = text,
const char *const counter_names[COUNTERS] = { COUNTER_TABLE(X) };
#undef X

#define X(name, text, help) [COUNTER_##name] = help,
const char *const counter_helps[COUNTERS] = { COUNTER_TABLE(X) };
#undef X
