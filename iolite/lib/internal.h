/* SPDX-License-Identifier: MIT */
/* Inside libiolite. */
#ifndef IOLITE_INTERNAL_H
#define IOLITE_INTERNAL_H

#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include <flotilla/iolite.h>
#include "iolite.h"

/**
 * struct iol_buffer - a buffer that this process has
 * @offset:     of some byte of it in the window; its start, if we allocated it
 * @generation: 0: memory of the process, without the module
 * @start:      where it starts in the chunk, if we allocated it
 * @size:       bytes, if we allocated it
 * @read:       where the chunk's bytes are; offsets of pieces count from here
 * @fill:       where they can be stored while @filling
 * @refs:       pieces of aggregates, and an allocator that cuts small pieces from it
 * @times:      how often the module gave it to us
 * @life:       of the process that has it: a child has the struct, and nothing that it names
 * @filling:    not sealed yet
 * @next:       in the table
 */
struct iol_buffer {
	uint64_t offset;
	uint64_t generation;
	uint32_t start;
	uint32_t size;
	char *read;
	char *fill;
	uint32_t refs;
	uint32_t times;
	uint32_t life;
	bool filling;
	struct iol_buffer *next;
};

struct iol_piece {
	struct iol_buffer *buffer;
	uint32_t off;
	uint32_t len;
};

struct IOL_Agg {
	struct iol_piece *piece;
	size_t n;
	size_t room;
	size_t length;
	unsigned int contexts;
	bool fresh;
	bool zombie;
};

/* @open is the buffer that small pieces are cut from, @used of it are given out; @life as a buffer's. */
struct IOL_Allocator {
	uint64_t pool;
	struct iol_buffer *open;
	uint32_t used;
	uint32_t life;
};

struct IOL_Context {
	IOL_Agg *agg;
	size_t piece;
	uint32_t done;
	size_t pos;
};

/**
 * struct iol_process - this process's domain; one, made by the first call
 * @lock:    all of it, and the reference counts of buffers
 * @pid:     of whom; another after fork
 * @life:    counts those that this memory has been: 1, and in a child one more
 * @mark:    true until a fork empties it: cheaper than asking for the pid; NULL: not to be had
 * @fd:      /dev/iolite, or -1: by copying
 * @domain:  id
 * @window:  where buffers are read
 * @fill:    where they are filled
 * @pool:    the default pool
 */
struct iol_process {
	pthread_mutex_t lock;
	pid_t pid;
	uint32_t life;
	bool *mark;
	int fd;
	uint64_t domain;
	char *window;
	char *fill;
	struct IOL_Allocator pool;
};

extern struct iol_process iol_process;

/* With the lock held; makes the domain first. Never fails: without a module it works by copying. */
void iol_lock(void);
void iol_unlock(void);

/* Is what this process has its parent's? The mark is empty after a fork; without one, ask. */
static inline bool iol_process_new(void)
{
	return iol_process.mark ? !*iol_process.mark : iol_process.pid != getpid();
}

/* A buffer of the module that was this process's parent's: neither its memory nor its name is ours. */
static inline bool iol_buffer_lost(const struct iol_buffer *buffer)
{
	return buffer->generation && (buffer->life != iol_process.life || iol_process_new());
}

/* With the lock held. */
IOL_Err iol_buffer_alloc(struct IOL_Allocator *alloc, size_t size, struct iol_buffer **buffer);
IOL_Err iol_buffer_received(const struct iol_slice *slice, struct iol_buffer **buffer);
void iol_buffer_put(struct iol_buffer *buffer);
IOL_Err iol_buffer_rename(struct iol_buffer *buffer);
void iol_buffers_forget(void);
void iol_release_flush(void);
IOL_Err iol_piece_alloc(struct IOL_Allocator *alloc, size_t size, bool alone,
			struct iol_piece *piece);
struct IOL_Allocator *iol_allocator(struct IOL_Allocator *alloc);

IOL_Agg *iol_agg_new(size_t room);
void iol_agg_free(IOL_Agg *agg);
IOL_Err iol_agg_append(IOL_Agg *agg, struct iol_buffer *buffer, uint32_t off, uint32_t len);
IOL_Err iol_agg_append_range(IOL_Agg *agg, const IOL_Agg *src, size_t start, size_t len);
IOL_Err iol_agg_from_vec(IOL_Agg **dst, struct IOL_Vec *vec, int n);

#endif
