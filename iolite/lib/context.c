// SPDX-License-Identifier: MIT
/* Contexts: walking over the contiguous pieces of an aggregate. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

IOL_Err IOL_gen_start(IOL_Agg *src, IOL_Context **out)
{
	IOL_Context *context;

	if (src->zombie)
		return -EBUSY;
	context = calloc(1, sizeof(*context));
	if (!context)
		return -ENOMEM;
	context->agg = src;
	src->contexts++;
	*out = context;
	return 0;
}

/* The rest of the present piece, and on to the next; NULL at the end. */
static const struct iol_piece *iol_gen_next(IOL_Context *context, uint32_t *done, size_t *len)
{
	const struct iol_piece *piece;

	*len = 0;
	if (context->piece == context->agg->n)
		return NULL;
	piece = &context->agg->piece[context->piece];
	*done = context->done;
	*len = piece->len - context->done;
	context->pos += *len;
	context->piece++;
	context->done = 0;
	return piece;
}

/* Is what comes next a parent's? */
static bool iol_gen_lost(const IOL_Context *context)
{
	return context->piece < context->agg->n &&
	       iol_buffer_lost(context->agg->piece[context->piece].buffer);
}

IOL_Err IOL_gen_nextRd(IOL_Context *context, const char **addr, size_t *len)
{
	const struct iol_piece *piece;
	uint32_t done;

	if (context->agg->zombie)
		return -EBUSY;
	if (iol_gen_lost(context))
		return -ESTALE;
	piece = iol_gen_next(context, &done, len);
	*addr = piece ? piece->buffer->read + piece->off + done : NULL;
	return 0;
}

IOL_Err IOL_gen_nextWr(IOL_Context *context, char **addr, size_t *len)
{
	const struct iol_piece *piece;
	uint32_t done;

	if (context->agg->zombie)
		return -EBUSY;
	if (iol_gen_lost(context))
		return -ESTALE;
	/* A part of a shared buffer may have been sealed with another's data. */
	if (!context->agg->fresh || (context->piece < context->agg->n &&
				     !context->agg->piece[context->piece].buffer->filling))
		return -EINVAL;
	piece = iol_gen_next(context, &done, len);
	*addr = piece ? piece->buffer->fill + piece->off + done : NULL;
	return 0;
}

IOL_Err IOL_gen_seek(IOL_Context *context, long pos)
{
	size_t left = pos;

	if (context->agg->zombie)
		return -EBUSY;
	if (pos < 0 || left > context->agg->length)
		return -EINVAL;
	context->pos = pos;
	context->piece = 0;
	while (context->piece < context->agg->n && left >= context->agg->piece[context->piece].len)
		left -= context->agg->piece[context->piece++].len;
	context->done = left;
	return 0;
}

IOL_Err IOL_gen_tell(IOL_Context *context, long *pos)
{
	if (context->agg->zombie)
		return -EBUSY;
	*pos = context->pos;
	return 0;
}

IOL_Err IOL_gen_end(IOL_Context *context)
{
	IOL_Agg *agg = context->agg;

	free(context);
	if (--agg->contexts || !agg->zombie)
		return 0;
	agg->zombie = false;
	return IOL_destroy(agg);
}

size_t IOL_copy_out(IOL_Agg *agg, size_t start, void *to, size_t len)
{
	size_t done = 0;
	size_t i;

	if (agg->zombie)
		return 0;
	for (i = 0; i < agg->n && done < len; i++) {
		const struct iol_piece *piece = &agg->piece[i];
		size_t part;

		if (start >= piece->len) {
			start -= piece->len;
			continue;
		}
		if (iol_buffer_lost(piece->buffer))
			break;
		part = piece->len - start < len - done ? piece->len - start : len - done;
		memcpy((char *)to + done, piece->buffer->read + piece->off + start, part);
		done += part;
		start = 0;
	}
	return done;
}

IOL_Err IOL_from_memory(IOL_Allocator *alloc, IOL_Agg **out, const void *from, size_t len)
{
	size_t done = 0;
	IOL_Agg *agg;
	IOL_Err err;
	size_t i;

	err = IOL_create(alloc, &agg, len);
	if (err)
		return err;
	for (i = 0; i < agg->n; i++) {
		const struct iol_piece *piece = &agg->piece[i];

		memcpy(piece->buffer->fill + piece->off, (const char *)from + done, piece->len);
		done += piece->len;
	}
	*out = agg;
	return 0;
}
