/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is probably in memory? The clock algorithm run over the chunks that were sent, for systems
 * where nobody can be asked (Pai, 4.4.7): what the hand has passed over is taken to be evicted.
 *
 * Two observations move the budget, the memory that the kernel is thought to give: a fault on
 * what was said to be there shrinks it, a read that found everything there lets it grow.
 * No I/O and no clock of its own; belongs to one thread.
 */
#ifndef FLASH_PREDICT_H
#define FLASH_PREDICT_H

#include <stdbool.h>
#include <stdint.h>

struct predict;

/* @budget: bytes to begin with; it stays between @min and @max. NULL: no memory. */
struct predict *predict_new(uint64_t budget, uint64_t min, uint64_t max);
void predict_free(struct predict *p);

/* Names a chunk: a state of a file and a place in it. */
uint64_t predict_key(uint64_t dev, uint64_t ino, int64_t version, uint64_t chunk);

/* Is the chunk taken to be in memory? Counts as a use. */
bool predict_resident(struct predict *p, uint64_t key);

/* The chunk has been read; @cold: from the disk. Out of memory, it is not remembered. */
void predict_read(struct predict *p, uint64_t key, uint32_t len, bool cold);

/* Sending what was said to be in memory had to wait for a disk. */
void predict_fault(struct predict *p);

uint64_t predict_budget(const struct predict *p);
uint64_t predict_bytes(const struct predict *p);

#endif
