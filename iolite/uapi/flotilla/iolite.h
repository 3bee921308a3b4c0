/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * /dev/iolite: one immutable copy of data, shared by files, processes, pipes and sockets.
 *
 * Programs use libiolite (IOL_*); this is what the library uses:
 *
 *	fd = open("/dev/iolite", O_RDWR | O_CLOEXEC);
 *	ioctl(fd, IOL_IOC_INIT, &init);		this process becomes a domain, with one pool
 *	mmap(hint, init.window, PROT_READ, MAP_SHARED, fd, 0);
 *	mmap(NULL, init.window, PROT_READ | PROT_WRITE, MAP_SHARED, fd, init.fill);
 *	ioctl(fd, IOL_IOC_ALLOC, &alloc);	a buffer at alloc.offset; store through the second
 *						mapping
 *	ioctl(fd, IOL_IOC_WRITE, &write);	to a pipe, a socket, a file: the buffer is sealed
 *	ioctl(fd, IOL_IOC_READ, &read);		slices come back; load through the first mapping
 *	ioctl(fd, IOL_IOC_RELEASE, &batch);	when the data is no longer needed
 *
 * The window is a range of offsets, the same in every domain. Mapping 0 shows what a domain may
 * read and can never be made writable. Mapping 1 (from offset init.fill) shows only the buffers
 * this domain is filling now; a page leaves it when its buffer is sealed. Everything else in
 * either mapping is SIGBUS. Nothing in them can be reached by ptrace, /proc/PID/mem, O_DIRECT,
 * vmsplice or registered buffers (EFAULT, EIO); read(2) and write(2) from and to them work.
 *
 * A buffer is named by offset and generation. The generation is new each time that the memory is
 * used anew, so an old name is ESTALE and never other data. Only who holds a buffer can name
 * it, and a call's buffers are held when it has succeeded: other threads cannot let go of
 * them before.
 *
 * Who may read: whoever was given a slice, and of the buffer only the pages that it was given
 * whole, or whose other bytes are zero; what else it gets of a page is a copy. Who reads a
 * file that is open to it may see the pages of that file. A process that was given a whole pool by
 * IOL_IOC_POOL_GRANT reads all of it, present and future, and its mapping stays: keep data for
 * different audiences in different pools then. Memory that is used anew is empty, and when a buffer
 * is opened again or its memory used anew, those who had it see nothing of what comes.
 *
 * close, munmap of a window, exec and exit end the domain and drop all it holds. fork: the child
 * has no window and, using the parent's descriptor, gets EPERM; it opens its own. The module cannot
 * be unloaded while a domain is open or a pipe holds one of its buffers.
 *
 * Errors of all calls: EPERM: another process's domain. ENXIO: not initialised, or, but for INIT,
 * no window was mapped yet: what a domain holds goes with a window of its process. EFAULT: bad
 * address. ESHUTDOWN: the domain ended. EOPNOTSUPP: unknown flag. EINVAL: reserved field not zero.
 */
#ifndef _UAPI_FLOTILLA_IOLITE_H
#define _UAPI_FLOTILLA_IOLITE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define IOL_VERSION		1
#define IOL_CHUNK_SIZE		65536
/* Most slices of one READ or WRITE, and most entries of one RELEASE. */
#define IOL_SLICES_MAX		1024
/* Position that means "the file's own, and move it". */
#define IOL_POSITION_FILE	(-1)

/**
 * struct iol_slice - a range of one buffer
 * @offset:     of the first byte in the window; the range ends within the buffer
 * @generation: of the buffer; ESTALE when it is another's now
 * @length:     bytes, 1 to 65536
 * @reserved:   zero
 */
struct iol_slice {
	__u64 offset;
	__u64 generation;
	__u32 length;
	__u32 reserved;
};

/**
 * struct iol_init - make the caller a domain
 * @version:  in: IOL_VERSION, else EPROTONOSUPPORT
 * @flags:    zero
 * @features: out: bits IOL_FEATURE_*
 * @window:   out: bytes of the window
 * @fill:     out: file offset of the mapping for filling
 * @domain:   out: the domain's id, never used again
 * @pool:     out: the default pool, which cannot be destroyed
 * @scratch:  in: a pipe for receiving from UNIX sockets by reference, or -1: receive by copy.
 *            EINVAL: not a pipe. Nothing else may use this pipe.
 * @reserved: zero
 *
 * EBUSY: done before. ENOMEM.
 */
struct iol_init {
	__u32 version;
	__u32 flags;
	__u64 features;
	__u64 window;
	__u64 fill;
	__u64 domain;
	__u64 pool;
	__s32 scratch;
	__u32 reserved;
};

#define IOL_FEATURE_PIPE	(1 << 0)
#define IOL_FEATURE_UNIX	(1 << 1)
#define IOL_FEATURE_TCP		(1 << 2)
#define IOL_FEATURE_FILE	(1 << 3)

/**
 * struct iol_pool_args - IOL_IOC_POOL_CREATE, _DESTROY, _GRANT, _STAT
 * @pool:   out of CREATE, else in: ENOENT when the caller has none of this id
 * @domain: GRANT: this domain may read the pool, now and later; ESRCH: no such domain
 * @quota:  CREATE: bytes the pool may have, 0: only the domain's quota. STAT: the same
 * @flags:  zero
 * @chunks: out of STAT: chunks of memory
 * @busy:   out of STAT: bytes in buffers that are in use
 * @limbo:  out of STAT: bytes of freed buffers that a device or socket still reads
 * @allocs: out of STAT: buffers given out
 * @recycled: out of STAT: of these, from memory used before
 *
 * CREATE: ENOMEM: a user has 8192 pools at most. DESTROY: buffers stay until their last user lets
 * go. EPERM: the default pool.
 */
struct iol_pool_args {
	__u64 pool;
	__u64 domain;
	__u64 quota;
	__u32 flags;
	__u32 chunks;
	__u64 busy;
	__u64 limbo;
	__u64 allocs;
	__u64 recycled;
};

/**
 * struct iol_alloc - a buffer to fill, or to fill again
 * @pool:       ENOENT
 * @size:       in: 1 to 65536, EINVAL; out: whole pages
 * @flags:      zero
 * @offset:     out; IOL_IOC_REOPEN: in
 * @generation: out; IOL_IOC_REOPEN: in and out
 *
 * ENOMEM: no memory, or a quota: the pool's, the domain's, the user's. IOL_IOC_REOPEN makes a
 * sealed buffer of the caller's own pool writable again; EBUSY when anyone else holds it, in flight
 * included.
 */
struct iol_alloc {
	__u64 pool;
	__u32 size;
	__u32 flags;
	__u64 offset;
	__u64 generation;
};

/**
 * struct iol_release - give buffers back
 * @slices: address of @count slices; length is how many times the caller got the buffer
 * @count:  1 to IOL_SLICES_MAX
 * @done:   out: how many; on an error, the entry that is wrong
 */
struct iol_release {
	__u64 slices;
	__u32 count;
	__u32 done;
};

/**
 * struct iol_io - IOL_IOC_READ, IOL_IOC_WRITE
 * @fd:         file, pipe, socket or anything else; EBADF unless open for it
 * @flags:      IOL_IO_*
 * @position:   for files; IOL_POSITION_FILE or an offset
 * @pool:       READ: where copied data is put; 0: the default pool
 * @size:       READ: in: most bytes; both: out: bytes done, 0 is end of file
 * @slices:     address of slices
 * @count:      WRITE: in; READ: in: room, out: slices
 * @inline_max: WRITE: in: slices of unsealed buffers up to this length go by value and leave the
 *              buffer open; out: what was used, the module's own limit is an upper bound
 *
 * Errors of read(2) and write(2), also ESTALE, EACCES (a slice not held), ENOMEM (quota).
 * EACCES is also a slice that reaches beyond the pages which the caller was given.
 * A short count is success. A READ may always return less than asked. EOPNOTSUPP is also a file
 * that only read(2) and write(2) can read and write (many of /proc): use those, into a buffer of
 * FILLING.
 */
struct iol_io {
	__s32 fd;
	__u32 flags;
	__s64 position;
	__u64 pool;
	__u64 size;
	__u64 slices;
	__u32 count;
	__u32 inline_max;
};

/* Do not wait, as if the descriptor were O_NONBLOCK; for a file: nor for a writer through us. */
#define IOL_IO_NOWAIT		(1 << 0)

/**
 * struct iol_send - IOL_IOC_SEND: bytes of memory, then by reference a range of a file or what a
 * pipe holds
 * @fd:       to; EBADF unless open for writing; from a pipe: EINVAL unless a TCP or UNIX stream
 * @file:     from; EINVAL unless a pipe, or a file that the module caches
 * @head:     address of the bytes
 * @head_len: 0 to 4096, EINVAL
 * @flags:    IOL_IO_NOWAIT, of @fd; IOL_SEND_RESIDENT; IOL_SEND_MORE
 * @position: in the file; of a pipe 0, EINVAL
 * @size:     in: most bytes of the file; out: bytes sent, those of @head included
 *
 * What IOL_IOC_READ, WRITE and RELEASE do together, for one who does not look at the data. May be
 * short, also because no more of the file is in memory or in the pipe. ENODATA: nothing is, and
 * IOL_SEND_RESIDENT or the pipe is O_NONBLOCK. What was not sent stays in the pipe. Sent is also
 * what others than us put there.
 */
struct iol_send {
	__s32 fd;
	__s32 file;
	__u64 head;
	__u32 head_len;
	__u32 flags;
	__s64 position;
	__u64 size;
};

/* Only what is in memory; from a pipe: only what is there now. */
#define IOL_SEND_RESIDENT	(1 << 1)
/* MSG_MORE, if @fd is a socket: more comes, or the end of the connection. */
#define IOL_SEND_MORE		(1 << 2)

/**
 * struct iol_seal - seal one buffer without sending it
 * @slice: any range of it
 */
struct iol_seal {
	struct iol_slice slice;
};

/**
 * struct iol_policy - IOL_IOC_POLICY: what of the caller's own goes first from the file cache
 * @policy: IOL_POLICY_*; EINVAL
 * @flags:  zero
 *
 * When memory or the cache's limit asks for something that the caller brought into the cache,
 * what it would rather lose goes instead, if it brought that too and nobody uses it. Others lose
 * nothing by it: what is missed after all is made up for by what was kept. Holds for what the
 * caller reads and writes from now on, until its domain ends. ENOMEM.
 */
struct iol_policy {
	__u32 policy;
	__u32 flags;
};

/* As the cache's own order has it; least or most recently used; Greedy-Dual-Size with cost 1. */
#define IOL_POLICY_SYSTEM	0
#define IOL_POLICY_LRU		1
#define IOL_POLICY_MRU		2
#define IOL_POLICY_GDS		3

#define IOL_IOC_MAGIC		0xf5
#define IOL_IOC_INIT		_IOWR(IOL_IOC_MAGIC, 1, struct iol_init)
#define IOL_IOC_POOL_CREATE	_IOWR(IOL_IOC_MAGIC, 2, struct iol_pool_args)
#define IOL_IOC_POOL_DESTROY	_IOWR(IOL_IOC_MAGIC, 3, struct iol_pool_args)
#define IOL_IOC_POOL_GRANT	_IOWR(IOL_IOC_MAGIC, 4, struct iol_pool_args)
#define IOL_IOC_POOL_STAT	_IOWR(IOL_IOC_MAGIC, 5, struct iol_pool_args)
#define IOL_IOC_ALLOC		_IOWR(IOL_IOC_MAGIC, 6, struct iol_alloc)
#define IOL_IOC_REOPEN		_IOWR(IOL_IOC_MAGIC, 7, struct iol_alloc)
#define IOL_IOC_SEAL		_IOW(IOL_IOC_MAGIC, 8, struct iol_seal)
#define IOL_IOC_RELEASE		_IOWR(IOL_IOC_MAGIC, 9, struct iol_release)
#define IOL_IOC_READ		_IOWR(IOL_IOC_MAGIC, 10, struct iol_io)
#define IOL_IOC_WRITE		_IOWR(IOL_IOC_MAGIC, 11, struct iol_io)
#define IOL_IOC_SEND		_IOWR(IOL_IOC_MAGIC, 12, struct iol_send)
#define IOL_IOC_POLICY		_IOW(IOL_IOC_MAGIC, 13, struct iol_policy)

#endif
