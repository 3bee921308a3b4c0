/* SPDX-License-Identifier: MIT */
/*
 * libiolite: buffer aggregates over immutable buffers that files, processes, pipes and sockets share.
 *
 *	IOL_Agg *head, *body, *reply;
 *
 *	IOL_read(file, &body, size, &got);
 *	IOL_create(IOL_DEF_ALLOC, &head, 64);		fill it through IOL_gen_nextWr
 *	IOL_concat(&reply, head, body);			no byte is copied
 *	IOL_write(socket, reply, &sent);
 *	IOL_destroy(head); IOL_destroy(body); IOL_destroy(reply);
 *
 * Every call returns 0 or a negative errno and, unless it says otherwise, makes new aggregates and leaves
 * those that it was given as they are. Threads may use different aggregates at once; one aggregate is
 * for one thread at a time. After fork the child's first call makes a domain of its own; aggregates and pools
 * that it inherited can be destroyed there, other calls that need their data give -ESTALE. Without /dev/iolite, or with IOLITE=off in the environment, the same calls work
 * by copying, in memory of the process.
 */
#ifndef IOLITE_H
#define IOLITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int IOL_Err;
typedef struct IOL_Agg IOL_Agg;
typedef struct IOL_Allocator IOL_Allocator;
typedef struct IOL_Context IOL_Context;

/* Properties of a new pool; NULL: as the default pool. */
typedef struct IOL_Specs {
	size_t quota;		/* most bytes of memory, 0: only the process's own quota */
} IOL_Specs;

/* A range of an aggregate. */
struct IOL_Vec {
	IOL_Agg *agg;
	size_t start;
	size_t length;
};

/* The pool of the process. */
#define IOL_DEF_ALLOC	((IOL_Allocator *)0)

/* Pools. Buffers outlive their pool. -EPERM: the default pool cannot be destroyed. */
IOL_Err IOL_create_allocator(IOL_Allocator **alloc, IOL_Specs *extra);
IOL_Err IOL_destroy_allocator(IOL_Allocator *alloc);

/* An aggregate of @size bytes of unpredictable contents, which IOL_gen_nextWr lets the caller fill. */
IOL_Err IOL_create(IOL_Allocator *alloc, IOL_Agg **agg, size_t size);
/* With a context open the aggregate stays until the last one ends; all else gives -EBUSY meanwhile. */
IOL_Err IOL_destroy(IOL_Agg *agg);

IOL_Err IOL_concat(IOL_Agg **dst, IOL_Agg *first, IOL_Agg *second);
/* The first @len bytes, and the rest; either may be empty. */
IOL_Err IOL_split(IOL_Agg **head, IOL_Agg **tail, IOL_Agg *src, size_t len);
/* -EINVAL unless @start is less than the length; what goes past the end is cut off. */
IOL_Err IOL_select(IOL_Agg **dst, IOL_Agg *src, size_t start, size_t len);
/* The ranges one after the other, each as IOL_select. */
IOL_Err IOL_create_from_vec(IOL_Agg **dst, struct IOL_Vec *vec, int n);
IOL_Err IOL_duplicate(IOL_Agg **dst, IOL_Agg *src);
size_t IOL_length(IOL_Agg *src);

/* Contiguous pieces in order. At the end: 0 and a length of 0. */
IOL_Err IOL_gen_start(IOL_Agg *src, IOL_Context **context);
IOL_Err IOL_gen_nextRd(IOL_Context *context, const char **addr, size_t *len);
/* -EINVAL unless the aggregate is fresh from IOL_create: no operation or write has used it. */
IOL_Err IOL_gen_nextWr(IOL_Context *context, char **addr, size_t *len);
IOL_Err IOL_gen_seek(IOL_Context *context, long pos);
IOL_Err IOL_gen_tell(IOL_Context *context, long *pos);
IOL_Err IOL_gen_end(IOL_Context *context);

/* Up to @size bytes of any descriptor; 0 bytes, and an empty aggregate, at the end. May be short. */
IOL_Err IOL_read(int fd, IOL_Agg **agg, size_t size, size_t *ret);
IOL_Err IOL_write(int fd, IOL_Agg *agg, size_t *ret);
/* Destroys *agg, and sets it to NULL, only when all was written. */
IOL_Err IOL_write_destroy(int fd, IOL_Agg **agg, size_t *ret);
IOL_Err IOL_write_vec(int fd, struct IOL_Vec *vec, int n, size_t *ret);

/*
 * Contiguous, and modified in place; arguments as mmap(2), *addr is hint and result, munmap(2) ends it.
 * A read sees all stores that came before it and none that come after it returned; a load sees
 * every write that has returned.
 */
IOL_Err IOL_mmap(void **addr, size_t len, int prot, int flags, int fd, size_t off);

/* Extensions: into a pool; at a position, which the file's own does not follow. */
IOL_Err IOL_read_alloc(int fd, IOL_Allocator *alloc, IOL_Agg **agg, size_t size, size_t *ret);
IOL_Err IOL_pread(int fd, IOL_Agg **agg, size_t size, off_t pos, size_t *ret);
/* As IOL_pread, but only what is in memory: -EAGAIN when a disk or a writer would have to be waited for. */
IOL_Err IOL_pread_nowait(int fd, IOL_Agg **agg, size_t size, off_t pos, size_t *ret);
IOL_Err IOL_pwrite(int fd, IOL_Agg *agg, off_t pos, size_t *ret);
/*
 * @head_len bytes at @head, at most 4096, and up to @size of @file from @pos on, to @fd in one call: for
 * a program that does not look at the data. @file may be a pipe (@pos 0, @fd a TCP or UNIX stream): what
 * it holds, and what is not sent stays in it. -EOPNOTSUPP: not here, or not with such a file; read and
 * write then. @flags: IOL_RESIDENT: -ENODATA when nothing of it is in memory, or in the pipe; IOL_MORE: as MSG_MORE.
 */
IOL_Err IOL_send(int fd, const void *head, size_t head_len, int file, off_t pos, size_t size,
		 int flags, size_t *ret);
#define IOL_RESIDENT	1
#define IOL_MORE	2
/* Fill again, in place, an aggregate whose memory nobody else has: -EBUSY when somebody has. */
IOL_Err IOL_reopen(IOL_Agg *agg);
/* An aggregate with a copy of @len bytes. */
IOL_Err IOL_from_memory(IOL_Allocator *alloc, IOL_Agg **agg, const void *from, size_t len);
/* Up to @len bytes from @start on, copied; how many. */
size_t IOL_copy_out(IOL_Agg *agg, size_t start, void *to, size_t len);
/*
 * A number that is the same for the same bytes, however they are cut. Pieces of sealed buffers whose digest
 * this process knows are not read again; *read, unless NULL: bytes that were. Not for data that was made to
 * deceive: whoever wants two texts with one digest finds them.
 */
IOL_Err IOL_digest(IOL_Agg *agg, uint64_t *digest, size_t *read);
/*
 * What of this process's own goes first from the file cache: IOL_POLICY_SYSTEM, _LRU, _MRU (for whoever reads
 * round and round more than fits), _GDS of flotilla/iolite.h, for what it uses from now on. Others lose nothing
 * by it. -EOPNOTSUPP without the module.
 */
IOL_Err IOL_policy(unsigned int policy);
/* Let another domain read all of this pool, now and later: its mappings of it stay. */
IOL_Err IOL_grant(IOL_Allocator *alloc, uint64_t domain);
/* This process's domain; 0 when the calls work by copying. */
uint64_t IOL_domain(void);
/* Hand buffers that are no longer used to the module now, not with the next few. */
void IOL_flush(void);

/* Room for by-reference data in a pipe, and options to come. -EOPNOTSUPP: unknown. */
#define IOL_PIPE_ROOM	1
IOL_Err IOL_control(int fd, int flags);

#ifdef __cplusplus
}
#endif

#endif
