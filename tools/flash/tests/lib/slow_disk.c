// SPDX-License-Identifier: GPL-2.0
/*
 * A slow disk for tests, preloaded into flash: the contents of a file whose size is above 100 KB
 * are "not in memory" until somebody has read the chunk, and reading takes SLOW_MS. Calls that
 * must not wait say EAGAIN, those that wait do so, whoever makes them. With SLOW_LATE set, what is
 * asked about is there as soon as somebody reads it, and the rest of it later. With SLOW_FORGET set,
 * a chunk is evicted when a socket takes no more of it; with SLOW_EVICT set, once, after a byte of it
 * was asked about that does not begin a page. A sendfile() that has to wait is a loop that stands
 * still: it makes the file SLOW_STALLED.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHUNK (128 << 10)
#define CHUNKS 4096

enum { COLD, COMING, WARM };

/* Of each chunk, shared by all processes, as the page cache is; behind it: evicted once. */
static atomic_int *state;

__attribute__((constructor)) static void begin(void)
{
	state = mmap(NULL, 2 * CHUNKS * sizeof(*state), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (state == MAP_FAILED)
		abort();
}

static int chunk_of(int fd, off_t off)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < 100 << 10)
		return -1;
	return (st.st_ino * 61 + off / CHUNK) % CHUNKS;
}

static int seems_cold(int chunk)
{
	return chunk >= 0 && state[chunk] < (getenv("SLOW_LATE") ? COMING : WARM);
}

static void wait_for_disk(int chunk)
{
	const char *ms = getenv("SLOW_MS");

	if (chunk < 0 || state[chunk] == WARM)
		return;
	state[chunk] = COMING;
	usleep(1000 * (ms ? atoi(ms) : 300));
	state[chunk] = WARM;
}

ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	static ssize_t (*real)(int, void *, size_t, off_t);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pread");
	wait_for_disk(chunk_of(fd, off));
	return real(fd, buf, n, off);
}

ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t off, int flags)
{
	static ssize_t (*real)(int, const struct iovec *, int, off_t, int);
	int chunk = chunk_of(fd, off);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "preadv2");
	if (flags & RWF_NOWAIT && seems_cold(chunk)) {
		errno = EAGAIN;
		return -1;
	}
	if (flags & RWF_NOWAIT && chunk >= 0 && iov->iov_len == 1 && off % 4096 &&
	    getenv("SLOW_EVICT") && !state[CHUNKS + chunk]++)
		state[chunk] = COLD;
	return real(fd, iov, n, off, flags);
}

ssize_t sendfile(int out, int in, off_t *off, size_t n)
{
	static ssize_t (*real)(int, int, off_t *, size_t);
	ssize_t sent;
	int chunk;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sendfile");
	chunk = chunk_of(in, *off);
	if (chunk >= 0 && state[chunk] != WARM && getenv("SLOW_STALLED"))
		close(open(getenv("SLOW_STALLED"), O_CREAT, 0600));
	wait_for_disk(chunk);
	sent = real(out, in, off, n);
	if (chunk >= 0 && sent < 0 && getenv("SLOW_FORGET"))
		state[chunk] = COLD;
	return sent;
}
