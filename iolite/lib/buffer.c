// SPDX-License-Identifier: MIT
/* Buffers that this process has, and giving them back a few at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "internal.h"

#define IOL_TABLE	4096
/* A buffer that waits here cannot be used anew, so not many do. */
#define IOL_BATCH	16

static struct iol_buffer *iol_table[IOL_TABLE];
static struct iol_slice iol_batch[IOL_BATCH];
static unsigned int iol_batched;

static struct iol_buffer **iol_bucket(uint64_t offset)
{
	return &iol_table[offset / IOL_CHUNK_SIZE % IOL_TABLE];
}

void iol_release_flush(void)
{
	struct iol_release release = {
		.slices = (uintptr_t)iol_batch,
		.count = iol_batched,
	};

	if (iol_batched && iol_process.fd >= 0)
		ioctl(iol_process.fd, IOL_IOC_RELEASE, &release);
	iol_batched = 0;
}

void IOL_flush(void)
{
	iol_lock();
	iol_release_flush();
	iol_unlock();
}

static void iol_buffer_release(struct iol_buffer *buffer)
{
	iol_batch[iol_batched++] = (struct iol_slice){
		.offset = buffer->offset,
		.generation = buffer->generation,
		.length = buffer->times,
	};
	if (iol_batched == IOL_BATCH)
		iol_release_flush();
}

static void iol_table_add(struct iol_buffer *buffer)
{
	struct iol_buffer **bucket = iol_bucket(buffer->offset);

	buffer->next = *bucket;
	*bucket = buffer;
}

static void iol_table_remove(struct iol_buffer *buffer)
{
	struct iol_buffer **link = iol_bucket(buffer->offset);

	while (*link != buffer)
		link = &(*link)->next;
	*link = buffer->next;
}

void iol_buffer_put(struct iol_buffer *buffer)
{
	if (--buffer->refs)
		return;
	if (iol_buffer_lost(buffer)) {
		/* In no table, and the parent gives it back. */
		free(buffer);
		return;
	}
	if (buffer->generation) {
		iol_table_remove(buffer);
		iol_buffer_release(buffer);
	} else {
		free(buffer->read);
	}
	free(buffer);
}

/* After fork: the table is the parent's. Its aggregates can be destroyed; other uses are ESTALE. */
void iol_buffers_forget(void)
{
	memset(iol_table, 0, sizeof(iol_table));
	iol_batched = 0;
}

static void iol_buffer_place(struct iol_buffer *buffer, uint64_t offset, uint64_t generation)
{
	buffer->offset = offset;
	buffer->generation = generation;
	buffer->start = offset % IOL_CHUNK_SIZE;
	buffer->read = iol_process.window + offset - buffer->start;
	buffer->fill = iol_process.fill + offset - buffer->start;
	buffer->times = 1;
	buffer->life = iol_process.life;
	buffer->refs = 1;
	iol_table_add(buffer);
}

/* Without the module: memory of the process. */
static IOL_Err iol_buffer_local(struct iol_buffer *buffer, size_t size)
{
	buffer->read = malloc(size);
	if (!buffer->read)
		return -ENOMEM;
	buffer->fill = buffer->read;
	buffer->size = size;
	buffer->refs = 1;
	return 0;
}

static IOL_Err iol_buffer_ask(struct IOL_Allocator *alloc, struct iol_buffer *buffer, size_t size)
{
	struct iol_alloc ask = { .pool = alloc->pool, .size = size };

	if (ioctl(iol_process.fd, IOL_IOC_ALLOC, &ask)) {
		/* Perhaps our own quota, and what we have not given back yet. */
		if (errno != ENOMEM || !iol_batched)
			return -errno;
		iol_release_flush();
		if (ioctl(iol_process.fd, IOL_IOC_ALLOC, &ask))
			return -errno;
	}
	buffer->size = ask.size;
	iol_buffer_place(buffer, ask.offset, ask.generation);
	return 0;
}

IOL_Err iol_buffer_alloc(struct IOL_Allocator *alloc, size_t size, struct iol_buffer **out)
{
	struct iol_buffer *buffer = calloc(1, sizeof(*buffer));
	IOL_Err err;

	if (!buffer)
		return -ENOMEM;
	buffer->filling = true;
	/* Given back before asked for: what comes is then what was used last. */
	iol_release_flush();
	err = iol_process.fd < 0 ? iol_buffer_local(buffer, size) : iol_buffer_ask(alloc, buffer, size);
	if (err) {
		free(buffer);
		return err;
	}
	*out = buffer;
	return 0;
}

/* A slice that the module gave us: of a new buffer, or of one that we have. */
IOL_Err iol_buffer_received(const struct iol_slice *slice, struct iol_buffer **out)
{
	struct iol_buffer *buffer;

	/* A buffer may start anywhere before the slice, but a generation is one buffer's alone. */
	for (buffer = *iol_bucket(slice->offset); buffer; buffer = buffer->next) {
		if (buffer->generation == slice->generation) {
			buffer->refs++;
			buffer->times++;
			*out = buffer;
			return 0;
		}
	}
	buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		return -ENOMEM;
	iol_buffer_place(buffer, slice->offset, slice->generation);
	*out = buffer;
	return 0;
}

/* Open again for filling; the module gives the memory a new name. */
IOL_Err iol_buffer_rename(struct iol_buffer *buffer)
{
	struct iol_alloc ask = { .offset = buffer->offset, .generation = buffer->generation };

	if (iol_buffer_lost(buffer))
		return -ESTALE;
	if (buffer->generation) {
		if (ioctl(iol_process.fd, IOL_IOC_REOPEN, &ask))
			return -errno;
		buffer->generation = ask.generation;
	}
	buffer->filling = true;
	return 0;
}
