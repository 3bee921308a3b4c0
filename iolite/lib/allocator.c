// SPDX-License-Identifier: MIT
/* Pools, and cutting small objects from one buffer. */
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "internal.h"

/* Objects up to this size share a buffer. */
#define IOL_SMALL	4096u
#define IOL_OPEN_SIZE	16384u
/* Start of an object in a shared buffer: headers of replies are aligned like this. */
#define IOL_ALIGN	32u

struct IOL_Allocator *iol_allocator(struct IOL_Allocator *alloc)
{
	return alloc ? alloc : &iol_process.pool;
}

static void iol_open_drop(struct IOL_Allocator *alloc)
{
	if (alloc->open)
		iol_buffer_put(alloc->open);
	alloc->open = NULL;
	alloc->used = 0;
}

/* Has @alloc an unsealed buffer with room for @size bytes? Else give it one. */
static IOL_Err iol_open_room(struct IOL_Allocator *alloc, size_t size)
{
	if (alloc->open && alloc->open->filling && alloc->open->size - alloc->used >= size &&
	    !iol_buffer_lost(alloc->open))
		return 0;
	iol_open_drop(alloc);
	return iol_buffer_alloc(alloc, IOL_OPEN_SIZE, &alloc->open);
}

/**
 * iol_piece_alloc - room for @size bytes in one buffer
 * @alloc: pool
 * @size:  1 to IOL_CHUNK_SIZE
 * @alone: of a larger object: what is in a page with others' bytes is copied to its receivers
 * @piece: out, with a reference
 */
IOL_Err iol_piece_alloc(struct IOL_Allocator *alloc, size_t size, bool alone,
			struct iol_piece *piece)
{
	IOL_Err err;

	if (size > IOL_SMALL || alone) {
		err = iol_buffer_alloc(alloc, size, &piece->buffer);
		if (err)
			return err;
		piece->off = piece->buffer->start;
		piece->len = size;
		return 0;
	}
	err = iol_open_room(alloc, size);
	if (err)
		return err;
	piece->buffer = alloc->open;
	piece->buffer->refs++;
	piece->off = piece->buffer->start + alloc->used;
	piece->len = size;
	alloc->used += (size + IOL_ALIGN - 1) & ~(IOL_ALIGN - 1);
	if (alloc->used > alloc->open->size)
		alloc->used = alloc->open->size;
	return 0;
}

IOL_Err IOL_create_allocator(IOL_Allocator **out, IOL_Specs *extra)
{
	struct iol_pool_args args = { .quota = extra ? extra->quota : 0 };
	struct IOL_Allocator *alloc = calloc(1, sizeof(*alloc));
	IOL_Err err = 0;

	if (!alloc)
		return -ENOMEM;
	iol_lock();
	if (iol_process.fd >= 0 && ioctl(iol_process.fd, IOL_IOC_POOL_CREATE, &args))
		err = -errno;
	iol_unlock();
	if (err) {
		free(alloc);
		return err;
	}
	alloc->pool = args.pool;
	alloc->life = iol_process.life;
	*out = alloc;
	return 0;
}

IOL_Err IOL_destroy_allocator(IOL_Allocator *alloc)
{
	struct iol_pool_args args = { 0 };
	IOL_Err err = 0;

	if (!alloc)
		return -EPERM;
	args.pool = alloc->pool;
	iol_lock();
	/* A pool of the parent is the parent's to destroy. */
	if (iol_process.fd >= 0 && alloc->life == iol_process.life &&
	    ioctl(iol_process.fd, IOL_IOC_POOL_DESTROY, &args))
		err = -errno;
	if (!err)
		iol_open_drop(alloc);
	iol_unlock();
	if (!err)
		free(alloc);
	return err;
}

IOL_Err IOL_grant(IOL_Allocator *alloc, uint64_t domain)
{
	struct iol_pool_args args = { .domain = domain };
	IOL_Err err = 0;

	iol_lock();
	args.pool = iol_allocator(alloc)->pool;
	if (iol_process.fd < 0)
		err = -EOPNOTSUPP;
	else if (ioctl(iol_process.fd, IOL_IOC_POOL_GRANT, &args))
		err = -errno;
	iol_unlock();
	return err;
}
