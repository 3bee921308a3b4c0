/* SPDX-License-Identifier: GPL-2.0 */
/* A server that waits for what it has asked for instead of for readiness. */
#ifndef BENCH_COMPLETE_H
#define BENCH_COMPLETE_H

#include "wait.h"

/*
 * It accepts, receives and sends by itself and never calls serve(); @add is for the listener only.
 * Its calls are all that the server makes, not those for readiness alone.
 */
extern const struct wait_layer complete_layer;

#endif
