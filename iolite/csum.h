/* SPDX-License-Identifier: GPL-2.0 */
/* Checksums of sealed data, computed once. */
#ifndef IOL_CSUM_H
#define IOL_CSUM_H

#include <linux/bits.h>
#include <linux/types.h>
#include <flotilla/iolite.h>

/* Of this size: hits depend neither on header lengths nor on where segments end. */
#define IOL_SUM_BLOCK		256
#define IOL_SUM_BLOCKS		(IOL_CHUNK_SIZE / IOL_SUM_BLOCK)
#define IOL_SUM_PAGE_BLOCKS	(PAGE_SIZE / IOL_SUM_BLOCK)

/*
 * One word of what is known: a sum, folded to 16 bits, as if it began at an even offset, and of how
 * many bytes. Words are read and written whole, so nobody sees one half.
 */
#define IOL_SUM_VALID		BIT(31)
#define IOL_SUM_LEN_SHIFT	16
#define IOL_SUM_LEN_MASK	(IOL_SUM_BLOCK - 1)

/**
 * struct iol_sums - partial checksums of a chunk
 * @whole: of each block
 * @front: of the first bytes of a block, up to where a segment ended last; what follows in the
 *         block is the difference to @whole
 *
 * Set by whoever sends the block, cleared when the memory gets a new generation, at which time no
 * packet has it.
 */
struct iol_sums {
	u32 whole[IOL_SUM_BLOCKS];
	u32 front[IOL_SUM_BLOCKS];
};

struct iol_chunk;

void iol_sums_forget(struct iol_chunk *chunk, unsigned int first, unsigned int npages);
int iol_csum_register(void);
void iol_csum_unregister(void);

#endif
