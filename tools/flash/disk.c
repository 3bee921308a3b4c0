// SPDX-License-Identifier: GPL-2.0
#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "helper_process.h"
#include "lite.h"
#include "map.h"
#include "predict.h"

#define PAGE 4096ull
#define READ_BUFFER (128 << 10)
#define COPY_SIZE (64 << 10)
#define SHORT_MS 10000	/* memory stays short for so long after an eviction was seen */
#define LOOK_EVERY 16	/* predictions between two looks at the loop's page faults */

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

struct cache_range {
	uint64_t off, len;
};

struct cache_counts {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

/**
 * struct file_read - a part of a file that a helper brings into memory
 * @addr:    where the part is mapped, NULL without @map
 * @lock:    residency mlock: lock the whole of @map
 * @locked, @cold: what run() found: locked; some of it came from the disk
 * @waiters: struct waiter; loop's thread only, as everything but what run() reads and writes
 */
struct file_read {
	struct job job;
	struct list node;
	struct worker *w;
	struct file *f;
	uint64_t off;
	uint32_t len;
	struct mapping *map;
	void *addr;
	int err;
	bool lock, locked, cold;
	struct list waiters;
};

static bool probe_byte(struct file *f, uint64_t off)
{
	char byte;
	struct iovec iov = { &byte, 1 };

	if (f->memory_fs)
		return true;
	/* Past the end of a file that was cut meanwhile: nothing to wait for. */
	if (preadv2(f->fd, &iov, 1, off, RWF_NOWAIT) >= 0)
		return true;
	f->memory_fs = errno == EOPNOTSUPP && file_on_memory_fs(f->fd);
	return f->memory_fs;
}

/*
 * Unlike a probe it starts no readahead, which is one more request to the disk when there is
 * more than a page. But it counts pages that are still being read: the last one is probed too.
 */
static bool counted(struct file *f, uint64_t off, uint64_t len, bool *evicted)
{
	struct cache_range range = { off, len };
	struct cache_counts counts;
	uint64_t pages = (off + len + PAGE - 1) / PAGE - off / PAGE;

	if (len <= PAGE || f->memory_fs)
		return probe_byte(f, off);
	if (syscall(SYS_cachestat, f->fd, &range, &counts, 0))
		return probe_byte(f, off) && probe_byte(f, off + len - 1);
	*evicted = counts.evicted;
	return counts.cached >= pages && probe_byte(f, off + len - 1);
}

static bool core_resident(void *map, uint32_t len)
{
	unsigned char vec[(16 << 20) / PAGE];
	uint64_t i, pages = (len + PAGE - 1) / PAGE;

	if (mincore(map, len, vec))
		return false;
	for (i = 0; i < pages; i++)
		if (!(vec[i] & 1))
			return false;
	return true;
}

static void *part_address(const struct mapping *map, uint64_t off)
{
	return map ? map->addr + (off - map->off) : NULL;
}

/* Page faults of this thread that had to wait for a disk. */
static long major_faults(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_majflt;
}

int disk_predict_init(struct worker *w)
{
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * PAGE;
	uint64_t min = 16ull * w->conf->chunk, start = w->conf->map_bytes;

	if (start > all)
		start = all;
	if (start < min)
		start = min;
	w->predict = predict_new(start, min, all > min ? all : min);
	if (!w->predict)
		return -ENOMEM;
	w->faults = major_faults();
	w->stats->predict_budget = start;
	return 0;
}

static uint64_t chunk_key(const struct worker *w, const struct file *f, uint64_t off)
{
	return predict_key(f->id.dev, f->id.ino, f->id.mtime_ns, off / w->conf->chunk);
}

static void show_budget(struct worker *w)
{
	__atomic_store_n(&w->stats->predict_budget, predict_budget(w->predict), __ATOMIC_RELAXED);
}

/* Nobody is asked. How wrong the last guesses were is seen in the faults they led to. */
static bool predicted(struct worker *w, struct file *f, uint64_t off)
{
	if (++w->predictions % LOOK_EVERY == 0) {
		long now = major_faults();

		stats_add(w->stats, predict_faults, now - w->faults);
		for (; w->faults < now; w->faults++)
			predict_fault(w->predict);
		show_budget(w);
	}
	return predict_resident(w->predict, chunk_key(w, f, off));
}

/*
 * A helper reads some of it now. What is counted may still be on its way, and a disk ends requests
 * in any order: of a part with holes the last page is there before the others are.
 */
static bool being_read(const struct file *f, uint64_t off, uint32_t len)
{
	const struct list *n;

	for (n = f->reads.next; n != &f->reads; n = n->next) {
		const struct file_read *r = list_entry(n, struct file_read, node);

		if (r->off < off + len && off < r->off + r->len)
			return true;
	}
	return false;
}

bool disk_resident(struct worker *w, struct file *f, uint64_t off, uint32_t len,
		   struct mapping *map)
{
	bool yes, evicted = false;

	if (!len)
		return true;
	if (w->residency == RESIDENCY_OFF)
		return true;
	if (w->residency == RESIDENCY_MLOCK && map)
		return map->ready;
	if (w->residency == RESIDENCY_CLOCK && map)
		return predicted(w, f, off);
	stats_add(w->stats, residency_tests, 1);
	if (being_read(f, off, len)) {
		stats_add(w->stats, residency_misses, 1);
		return false;
	}
	switch (w->residency) {
	case RESIDENCY_MINCORE:
		if (map) {
			yes = core_resident(part_address(map, off), len);
			break;
		}
		/* fall through */
	default:
		yes = probe_byte(f, off) && (len <= PAGE || probe_byte(f, off + len - 1));
		evicted = !yes;	/* or never read: it does not say */
		break;
	case RESIDENCY_CACHESTAT:
		yes = counted(f, off, len, &evicted);
		/* A page is only probed: what was tested before was there, or was brought. */
		evicted |= !yes && off < f->tested_to;
		if (f->tested_to < off + len)
			f->tested_to = off + len;
		break;
	}
	if (!yes)
		stats_add(w->stats, residency_misses, 1);
	if (evicted)
		w->short_until = w->loop.now + SHORT_MS;
	return yes;
}

bool disk_resident_far(struct worker *w, struct file *f, uint64_t off, uint32_t len)
{
	bool evicted = false;

	if (w->residency == RESIDENCY_OFF)
		return true;
	if (w->residency != RESIDENCY_CACHESTAT || disk_may_lose(w, len))
		return false;
	stats_add(w->stats, residency_tests, 1);
	return !being_read(f, off, len) && counted(f, off, len, &evicted);
}

bool disk_may_lose(const struct worker *w, uint32_t len)
{
	/*
	 * A single page goes at once from its probe to sendfile(), which also counts as an access:
	 * a page that is read again and again does not, and would be evicted however hot it is.
	 */
	return len > PAGE && w->loop.now < w->short_until;
}

ssize_t disk_copy(struct worker *w, struct file *f, uint64_t off, uint32_t len, const char **copy)
{
	struct iovec iov = { NULL, len < COPY_SIZE ? len : COPY_SIZE };
	ssize_t n;

	if (!w->copy)
		w->copy = malloc(COPY_SIZE);
	if (!w->copy)
		return -ENOMEM;
	iov.iov_base = w->copy;
	n = preadv2(f->fd, &iov, 1, off, RWF_NOWAIT);
	*copy = w->copy;
	return n < 0 ? -errno : n;
}

/* The kernel's rule (can_do_mincore), for the first few files below @dir. */
static bool may_ask_about(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), seen = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat st;
	bool yes = true;

	while (d && yes && seen < 32 && (e = readdir(d))) {
		if (fstatat(dirfd(d), e->d_name, &st, 0) || !S_ISREG(st.st_mode))
			continue;
		seen++;
		yes = st.st_uid == geteuid() || !faccessat(dirfd(d), e->d_name, W_OK, AT_EACCESS);
	}
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	return yes;
}

enum residency residency_probe(const struct conf *conf)
{
	bool chosen = conf->residency != RESIDENCY_AUTO;
	const struct vhost *v;

	if (chosen && conf->residency != RESIDENCY_MINCORE &&
	    conf->residency != RESIDENCY_CACHESTAT)
		return conf->residency;
	if (!chosen && syscall(SYS_cachestat, -1, NULL, NULL, 0) < 0 && errno == ENOSYS)
		return RESIDENCY_PREADV2;
	for (v = conf->vhosts; v; v = v->next) {
		if (v->root_fd < 0 || may_ask_about(v->root_fd))
			continue;
		if (chosen)
			fprintf(stderr, "flash: files below %s belong to another user: mincore and "
				"cachestat do not tell what is in memory; using preadv2\n",
				v->root);
		return RESIDENCY_PREADV2;
	}
	return chosen ? conf->residency : RESIDENCY_CACHESTAT;
}

static int read_all(int fd, uint64_t pos, uint64_t len)
{
	uint64_t end = pos + len;
	char *buf = malloc(READ_BUFFER);
	ssize_t n;
	int err = 0;

	if (!buf)
		return -ENOMEM;
	while (pos < end) {
		uint64_t want = end - pos < READ_BUFFER ? end - pos : READ_BUFFER;

		n = pread(fd, buf, want, pos);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			err = -errno;
		if (n <= 0)
			break;
		pos += n;
	}
	free(buf);
	return err;
}

int disk_bring(int fd, uint64_t off, uint64_t len, bool map, bool *cold)
{
	uint64_t page = off & ~(PAGE - 1);
	long faults = major_faults();
	size_t size = len + (off - page);
	void *addr = map ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, page) : MAP_FAILED;
	bool done;

	if (addr != MAP_FAILED) {
		done = !madvise(addr, size, MADV_POPULATE_READ);
		munmap(addr, size);
		*cold = major_faults() > faults;
		if (done)
			return 0;
	}
	*cold = true;
	return read_all(fd, off, len);
}

static void read_run(struct job *job)
{
	struct file_read *r = container_of(job, struct file_read, job);
	long faults = major_faults();

	r->locked = r->lock && !mlock(r->map->addr, r->map->len);
	/* Unlike touching the pages, this reports an error instead of raising SIGBUS. */
	if (r->locked || (r->addr && !madvise(r->addr, r->len, MADV_POPULATE_READ))) {
		r->cold = major_faults() > faults;
		return;
	}
	r->cold = true;
	if (r->w->conf->transfer == TRANSFER_IOLITE)
		r->err = lite_load(r->f->fd, r->off, r->len);
	else
		r->err = read_all(r->f->fd, r->off, r->len);
}

static void read_pack(struct job *job, struct helper_call *call)
{
	struct file_read *r = container_of(job, struct file_read, job);

	call->fd = r->f->fd;
	call->off = r->off;
	call->len = r->len;
	call->map = !!r->addr;
}

static void read_answer(struct job *job, int err, bool cold)
{
	struct file_read *r = container_of(job, struct file_read, job);

	r->err = err;
	r->cold = cold;
}

static void read_done(struct job *job)
{
	struct file_read *r = container_of(job, struct file_read, job);
	struct worker *w = r->w;
	struct list waiters;

	stats_add(w->stats, reads_helper, 1);
	if (r->err)
		stats_add(w->stats, read_errors, 1);
	if (r->lock) {
		map_locked(w, r->map, r->locked);
		stats_add(w->stats, lock_failures, !r->locked);
	}
	if (w->predict && r->map && !r->err) {
		predict_read(w->predict, chunk_key(w, r->f, r->off), r->len, r->cold);
		stats_add(w->stats, predict_needless, !r->cold);
		show_budget(w);
	}
	list_del(&r->node);
	list_take(&r->waiters, &waiters);
	while (!list_empty(&waiters)) {
		struct waiter *waiter = list_entry(waiters.next, struct waiter, node);

		list_del(&waiter->node);
		waiter->ready(waiter, NULL);
	}
	file_put(w->cache, r->f);
	free(r);
}

int disk_read(struct worker *w, struct file *f, uint64_t off, uint32_t len,
	      struct mapping *map, struct waiter *waiter)
{
	struct file_read *r;
	struct list *n;

	for (n = f->reads.next; n != &f->reads; n = n->next) {
		r = list_entry(n, struct file_read, node);
		if (r->off == off && r->len == len)
			goto found;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->w = w;
	r->f = file_get(w->cache, f);
	r->off = off;
	r->len = len;
	r->map = map;
	r->addr = part_address(map, off);
	if (w->residency == RESIDENCY_MLOCK && map && !map->locked) {
		r->lock = map_may_lock(w, map);
		stats_add(w->stats, lock_failures, !r->lock);
	}
	list_init(&r->waiters);
	list_add(&r->node, &f->reads);
	r->job.kind = JOB_READ;
	r->job.size = f->id.size;
	r->job.run = read_run;
	r->job.pack = read_pack;
	r->job.answer = read_answer;
	r->job.done = read_done;
	if (waiter)
		list_add_tail(&waiter->node, &r->waiters);
	helper_submit(w->helpers, &r->job);
	return 0;
found:
	if (waiter)
		list_add_tail(&waiter->node, &r->waiters);
	return 0;
}
