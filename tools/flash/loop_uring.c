// SPDX-License-Identifier: GPL-2.0
#include "loop.h"
const struct loop_backend loop_uring;
