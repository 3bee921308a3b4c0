/* SPDX-License-Identifier: GPL-2.0 */
/* Checksums of sealed data, computed once. */
#ifndef IOL_CSUM_H
#define IOL_CSUM_H

#include <linux/bitmap.h>
#include <linux/types.h>
#include <flotilla/iolite.h>

/* Of this size: hits depend neither on header lengths nor on where segments end. */
#define IOL_SUM_BLOCK		256
#define IOL_SUM_BLOCKS		(IOL_CHUNK_SIZE / IOL_SUM_BLOCK)
#define IOL_SUM_PAGE_BLOCKS	(PAGE_SIZE / IOL_SUM_BLOCK)

/**
 * struct iol_sums - partial checksums of a chunk
 * @valid: blocks whose @sum is right; set by whoever sends the block, cleared when the memory gets
 *         a new generation, at which time no packet has it
 * @sum:   of each block, as if it began at an even offset
 */
struct iol_sums {
	DECLARE_BITMAP(valid, IOL_SUM_BLOCKS);
	__wsum sum[IOL_SUM_BLOCKS];
};

struct iol_chunk;

void iol_sums_forget(struct iol_chunk *chunk, unsigned int first, unsigned int npages);
int iol_csum_register(void);
void iol_csum_unregister(void);

#endif
