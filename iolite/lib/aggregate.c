// SPDX-License-Identifier: MIT
/* Aggregates: lists of pieces. Nothing here copies data. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

IOL_Agg *iol_agg_new(size_t room)
{
	IOL_Agg *agg = calloc(1, sizeof(*agg));

	if (!agg)
		return NULL;
	if (room) {
		agg->piece = malloc(room * sizeof(*agg->piece));
		if (!agg->piece) {
			free(agg);
			return NULL;
		}
	}
	agg->room = room;
	return agg;
}

/* With the lock held. */
void iol_agg_free(IOL_Agg *agg)
{
	size_t i;

	for (i = 0; i < agg->n; i++)
		iol_buffer_put(agg->piece[i].buffer);
	free(agg->piece);
	free(agg);
}

static IOL_Err iol_agg_grow(IOL_Agg *agg)
{
	size_t room = agg->room ? 2 * agg->room : 4;
	struct iol_piece *piece;

	if (agg->n < agg->room)
		return 0;
	piece = realloc(agg->piece, room * sizeof(*piece));
	if (!piece)
		return -ENOMEM;
	agg->piece = piece;
	agg->room = room;
	return 0;
}

/* With the lock held; consumes a reference of @buffer when it succeeds. */
IOL_Err iol_agg_append(IOL_Agg *agg, struct iol_buffer *buffer, uint32_t off, uint32_t len)
{
	struct iol_piece *last = agg->n ? &agg->piece[agg->n - 1] : NULL;
	IOL_Err err;

	if (last && last->buffer == buffer && last->off + last->len == off) {
		last->len += len;
		buffer->refs--;
	} else {
		err = iol_agg_grow(agg);
		if (err)
			return err;
		agg->piece[agg->n++] = (struct iol_piece){ buffer, off, len };
	}
	agg->length += len;
	return 0;
}

/* With the lock held. The range lies in @src. */
IOL_Err iol_agg_append_range(IOL_Agg *agg, const IOL_Agg *src, size_t start, size_t len)
{
	IOL_Err err;
	size_t i;

	for (i = 0; i < src->n && len; i++) {
		const struct iol_piece *piece = &src->piece[i];
		size_t part;

		if (start >= piece->len) {
			start -= piece->len;
			continue;
		}
		part = piece->len - start < len ? piece->len - start : len;
		piece->buffer->refs++;
		err = iol_agg_append(agg, piece->buffer, piece->off + start, part);
		if (err) {
			piece->buffer->refs--;
			return err;
		}
		len -= part;
		start = 0;
	}
	return 0;
}

/* The ranges one after the other; each starts inside its aggregate, or is empty with it. */
IOL_Err iol_agg_from_vec(IOL_Agg **dst, struct IOL_Vec *vec, int n)
{
	IOL_Agg *agg;
	IOL_Err err = 0;
	int i;

	for (i = 0; i < n; i++)
		if (vec[i].agg->zombie)
			return -EBUSY;
	agg = iol_agg_new(n ? 2 * n : 1);
	if (!agg)
		return -ENOMEM;
	iol_lock();
	for (i = 0; i < n && !err; i++) {
		size_t left = vec[i].agg->length - vec[i].start;

		err = iol_agg_append_range(agg, vec[i].agg, vec[i].start,
					   vec[i].length < left ? vec[i].length : left);
		vec[i].agg->fresh = false;
	}
	if (err)
		iol_agg_free(agg);
	iol_unlock();
	if (!err)
		*dst = agg;
	return err;
}

IOL_Err IOL_create(IOL_Allocator *alloc, IOL_Agg **out, size_t size)
{
	IOL_Agg *agg = iol_agg_new(size / IOL_CHUNK_SIZE + 1);
	IOL_Err err = 0;

	if (!agg)
		return -ENOMEM;
	iol_lock();
	while (agg->length < size && !err) {
		size_t left = size - agg->length;
		struct iol_piece piece;

		err = iol_piece_alloc(iol_allocator(alloc), left < IOL_CHUNK_SIZE ? left : IOL_CHUNK_SIZE,
				      agg->length, &piece);
		if (err)
			break;
		err = iol_agg_append(agg, piece.buffer, piece.off, piece.len);
		if (err)
			iol_buffer_put(piece.buffer);
	}
	if (err)
		iol_agg_free(agg);
	iol_unlock();
	if (err)
		return err;
	agg->fresh = true;
	*out = agg;
	return 0;
}

IOL_Err IOL_destroy(IOL_Agg *agg)
{
	if (!agg)
		return -EINVAL;
	if (agg->zombie)
		return -EBUSY;
	if (agg->contexts) {
		agg->zombie = true;
		return 0;
	}
	iol_lock();
	iol_agg_free(agg);
	iol_unlock();
	return 0;
}

IOL_Err IOL_concat(IOL_Agg **dst, IOL_Agg *first, IOL_Agg *second)
{
	struct IOL_Vec vec[] = { { first, 0, first->length }, { second, 0, second->length } };

	return iol_agg_from_vec(dst, vec, 2);
}

IOL_Err IOL_split(IOL_Agg **head, IOL_Agg **tail, IOL_Agg *src, size_t len)
{
	size_t cut = len < src->length ? len : src->length;
	struct IOL_Vec first = { src, 0, cut }, second = { src, cut, src->length - cut };
	IOL_Agg *made;
	IOL_Err err;

	err = iol_agg_from_vec(&made, &first, 1);
	if (err)
		return err;
	err = iol_agg_from_vec(tail, &second, 1);
	if (err)
		IOL_destroy(made);
	else
		*head = made;
	return err;
}

IOL_Err IOL_select(IOL_Agg **dst, IOL_Agg *src, size_t start, size_t len)
{
	struct IOL_Vec vec = { src, start, len };

	if (src->zombie)
		return -EBUSY;
	if (start >= src->length)
		return -EINVAL;
	return iol_agg_from_vec(dst, &vec, 1);
}

IOL_Err IOL_create_from_vec(IOL_Agg **dst, struct IOL_Vec *vec, int n)
{
	int i;

	if (n < 0)
		return -EINVAL;
	for (i = 0; i < n; i++)
		if (vec[i].start >= vec[i].agg->length)
			return vec[i].agg->zombie ? -EBUSY : -EINVAL;
	return iol_agg_from_vec(dst, vec, n);
}

IOL_Err IOL_duplicate(IOL_Agg **dst, IOL_Agg *src)
{
	struct IOL_Vec vec = { src, 0, src->length };

	return iol_agg_from_vec(dst, &vec, 1);
}

size_t IOL_length(IOL_Agg *src)
{
	return src->length;
}

/* Every byte of it in memory that nobody else has, and every buffer only in this aggregate. */
IOL_Err IOL_reopen(IOL_Agg *agg)
{
	IOL_Err err = 0;
	size_t i;

	if (agg->zombie || agg->contexts)
		return -EBUSY;
	iol_lock();
	for (i = 0; i < agg->n; i++)
		if (agg->piece[i].buffer->refs != 1)
			err = -EBUSY;
	for (i = 0; i < agg->n && !err; i++)
		if (!agg->piece[i].buffer->filling)
			err = iol_buffer_rename(agg->piece[i].buffer);
	iol_unlock();
	if (!err)
		agg->fresh = true;
	return err;
}
