// SPDX-License-Identifier: MIT
/* Reading and writing descriptors. The lock is not held while a call waits. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "internal.h"

#define IOL_ROOM	256
/* By value up to this length, if the module agrees: its own limit is lower. */
#define IOL_INLINE	4096
#define IOL_IOV		64

/*
 * Without the module, and for files that only read(2) knows to read (many of /proc): one buffer's
 * worth, as read(2) gives it.
 */
static IOL_Err iol_read_copy(int fd, IOL_Allocator *alloc, IOL_Agg **out, size_t size, off_t pos,
			     bool nowait)
{
	IOL_Agg *agg, *made;
	struct iovec iov;
	ssize_t got;
	IOL_Err err;

	if (size > IOL_CHUNK_SIZE)
		size = IOL_CHUNK_SIZE;
	err = IOL_create(alloc, &agg, size);
	if (err)
		return err;
	iov.iov_base = size ? agg->piece->buffer->fill + agg->piece->off : NULL;
	iov.iov_len = size;
	got = size ? preadv2(fd, &iov, 1, pos, nowait ? RWF_NOWAIT : 0) : 0;
	if (got < 0) {
		err = -errno;
	} else {
		struct IOL_Vec vec = { agg, 0, got };

		err = iol_agg_from_vec(&made, &vec, 1);
	}
	IOL_destroy(agg);
	if (!err)
		*out = made;
	return err;
}

static IOL_Err iol_agg_received(IOL_Agg **out, const struct iol_slice *slices, unsigned int n)
{
	IOL_Agg *agg = iol_agg_new(n ? n : 1);
	struct iol_buffer *buffer;
	IOL_Err err = 0;
	unsigned int i;

	if (!agg)
		return -ENOMEM;
	iol_lock();
	for (i = 0; i < n && !err; i++) {
		err = iol_buffer_received(&slices[i], &buffer);
		if (!err)
			iol_agg_append(agg, buffer, slices[i].offset % IOL_CHUNK_SIZE, slices[i].length);
	}
	if (err)
		iol_agg_free(agg);
	iol_unlock();
	if (!err)
		*out = agg;
	return err;
}

static IOL_Err iol_read(int fd, IOL_Allocator *alloc, IOL_Agg **out, size_t size, off_t pos, bool nowait,
			size_t *ret)
{
	struct iol_slice slices[IOL_ROOM];
	struct iol_io io = {
		.fd = fd,
		.flags = nowait ? IOL_IO_NOWAIT : 0,
		.position = pos,
		.size = size,
		.slices = (uintptr_t)slices,
		.count = IOL_ROOM,
	};
	IOL_Err err;
	int dev;

	iol_lock();
	dev = iol_process.fd;
	io.pool = iol_allocator(alloc)->pool;
	/* What we do not need any more counts against our quota, and the writer waits for it. */
	iol_release_flush();
	iol_unlock();
	if (dev < 0) {
		err = iol_read_copy(fd, alloc, out, size, pos, nowait);
		if (!err && ret)
			*ret = (*out)->length;
		return err;
	}
	if (ioctl(dev, IOL_IOC_READ, &io)) {
		if (errno != EOPNOTSUPP)
			return -errno;
		err = iol_read_copy(fd, alloc, out, size, pos, nowait);
		if (!err && ret)
			*ret = (*out)->length;
		return err;
	}
	err = iol_agg_received(out, slices, io.count);
	if (!err && ret)
		*ret = io.size;
	return err;
}

IOL_Err IOL_read(int fd, IOL_Agg **agg, size_t size, size_t *ret)
{
	return iol_read(fd, IOL_DEF_ALLOC, agg, size, IOL_POSITION_FILE, false, ret);
}

IOL_Err IOL_read_alloc(int fd, IOL_Allocator *alloc, IOL_Agg **agg, size_t size, size_t *ret)
{
	return iol_read(fd, alloc, agg, size, IOL_POSITION_FILE, false, ret);
}

IOL_Err IOL_pread(int fd, IOL_Agg **agg, size_t size, off_t pos, size_t *ret)
{
	return pos < 0 ? -EINVAL : iol_read(fd, IOL_DEF_ALLOC, agg, size, pos, false, ret);
}

IOL_Err IOL_pread_nowait(int fd, IOL_Agg **agg, size_t size, off_t pos, size_t *ret)
{
	return pos < 0 ? -EINVAL : iol_read(fd, IOL_DEF_ALLOC, agg, size, pos, true, ret);
}

/* Without the module, and for files that only write(2) knows to write: as much as one writev takes. */
static IOL_Err iol_write_copy(int fd, IOL_Agg *agg, off_t pos, size_t *ret)
{
	struct iovec iov[IOL_IOV];
	ssize_t done;
	size_t i;

	for (i = 0; i < agg->n && i < IOL_IOV; i++) {
		iov[i].iov_base = agg->piece[i].buffer->read + agg->piece[i].off;
		iov[i].iov_len = agg->piece[i].len;
	}
	done = pos == IOL_POSITION_FILE ? writev(fd, iov, i) : pwritev(fd, iov, i, pos);
	if (done < 0)
		return -errno;
	*ret = done;
	return 0;
}

/* The module sealed every buffer but those whose slices went by value. */
static void iol_agg_sealed(IOL_Agg *agg, size_t n, unsigned int inline_max)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (agg->piece[i].len > inline_max)
			agg->piece[i].buffer->filling = false;
}

static size_t iol_agg_slices(IOL_Agg *agg, struct iol_slice *slices)
{
	size_t i;

	for (i = 0; i < agg->n && i < IOL_SLICES_MAX; i++) {
		const struct iol_piece *piece = &agg->piece[i];
		uint64_t chunk = piece->buffer->offset - piece->buffer->start;

		slices[i] = (struct iol_slice){
			.offset = chunk + piece->off,
			.generation = piece->buffer->generation,
			.length = piece->len,
		};
	}
	return i;
}

static IOL_Err iol_write_ioctl(int dev, int fd, IOL_Agg *agg, off_t pos, size_t *ret)
{
	size_t most = agg->n < IOL_SLICES_MAX ? agg->n : IOL_SLICES_MAX;
	struct iol_slice few[16], *slices = few;
	struct iol_io io = { .fd = fd, .position = pos, .inline_max = IOL_INLINE };
	IOL_Err err = 0;

	if (most > 16) {
		slices = malloc(most * sizeof(*slices));
		if (!slices)
			return -ENOMEM;
	}
	io.slices = (uintptr_t)slices;
	io.count = iol_agg_slices(agg, slices);
	if (ioctl(dev, IOL_IOC_WRITE, &io))
		err = -errno;
	iol_lock();
	iol_agg_sealed(agg, io.count, io.inline_max);
	iol_unlock();
	if (slices != few)
		free(slices);
	*ret = io.size;
	return err;
}

static bool iol_agg_lost(const IOL_Agg *agg)
{
	size_t i;

	for (i = 0; i < agg->n; i++)
		if (iol_buffer_lost(agg->piece[i].buffer))
			return true;
	return false;
}

static IOL_Err iol_write(int fd, IOL_Agg *agg, off_t pos, size_t *ret)
{
	size_t done = 0;
	IOL_Err err;
	int dev;

	if (agg->zombie)
		return -EBUSY;
	agg->fresh = false;
	iol_lock();
	dev = iol_process.fd;
	iol_unlock();
	if (!agg->length)
		err = 0;
	else if (iol_agg_lost(agg))
		err = -ESTALE;
	else if (dev < 0)
		err = iol_write_copy(fd, agg, pos, &done);
	else
		err = iol_write_ioctl(dev, fd, agg, pos, &done);
	if (err == -EOPNOTSUPP && dev >= 0)
		err = iol_write_copy(fd, agg, pos, &done);
	if (!err && ret)
		*ret = done;
	return err;
}

IOL_Err IOL_write(int fd, IOL_Agg *agg, size_t *ret)
{
	return iol_write(fd, agg, IOL_POSITION_FILE, ret);
}

IOL_Err IOL_pwrite(int fd, IOL_Agg *agg, off_t pos, size_t *ret)
{
	return pos < 0 ? -EINVAL : iol_write(fd, agg, pos, ret);
}

IOL_Err IOL_write_destroy(int fd, IOL_Agg **agg, size_t *ret)
{
	size_t done = 0;
	IOL_Err err;

	err = IOL_write(fd, *agg, &done);
	if (ret)
		*ret = done;
	if (err || done < (*agg)->length)
		return err;
	err = IOL_destroy(*agg);
	*agg = NULL;
	return err;
}

IOL_Err IOL_write_vec(int fd, struct IOL_Vec *vec, int n, size_t *ret)
{
	IOL_Agg *agg;
	IOL_Err err;

	err = IOL_create_from_vec(&agg, vec, n);
	if (err)
		return err;
	err = IOL_write(fd, agg, ret);
	IOL_destroy(agg);
	return err;
}

IOL_Err IOL_send(int fd, const void *head, size_t head_len, int file, off_t pos, size_t size,
		 int flags, size_t *ret)
{
	struct iol_send send = {
		.fd = fd,
		.file = file,
		.head = (uintptr_t)head,
		.head_len = head_len,
		.flags = (flags & IOL_RESIDENT ? IOL_SEND_RESIDENT : 0) |
			 (flags & IOL_MORE ? IOL_SEND_MORE : 0),
		.position = pos,
		.size = size,
	};
	int dev;

	iol_lock();
	dev = iol_process.fd;
	iol_unlock();
	if (flags & ~(IOL_RESIDENT | IOL_MORE))
		return -EINVAL;
	if (dev < 0)
		return -EOPNOTSUPP;
	if (ioctl(dev, IOL_IOC_SEND, &send))
		return errno == EINVAL ? -EOPNOTSUPP : -errno;
	if (ret)
		*ret = send.size;
	return 0;
}

/* The page cache has such a file; ours keeps nothing of one that is mapped to be stored into. */
IOL_Err IOL_mmap(void **addr, size_t len, int prot, int flags, int fd, size_t off)
{
	void *at = mmap(*addr, len, prot, flags, fd, off);

	if (at == MAP_FAILED)
		return -errno;
	*addr = at;
	return 0;
}

IOL_Err IOL_policy(unsigned int policy)
{
	struct iol_policy args = { .policy = policy };
	IOL_Err err;

	iol_lock();
	if (iol_process.fd < 0)
		err = -EOPNOTSUPP;
	else
		err = ioctl(iol_process.fd, IOL_IOC_POLICY, &args) ? -errno : 0;
	iol_unlock();
	return err;
}

IOL_Err IOL_control(int fd, int flags)
{
	struct stat st;

	if (flags != IOL_PIPE_ROOM)
		return -EOPNOTSUPP;
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISFIFO(st.st_mode))
		return -EINVAL;
	return fcntl(fd, F_SETPIPE_SZ, 1 << 20) < 0 ? -errno : 0;
}
