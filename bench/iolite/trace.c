// SPDX-License-Identifier: GPL-2.0
/*
 * iol-trace TRACE DIRECTORY REQUESTS: read the documents of a trace (of lardsim) through the file cache, one
 * after the other, and say what the paper's server and disk would have had to do. The files are holes: the
 * cache cannot tell, and the disk's time is reckoned, not waited for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "iolite/tools/program.h"
#include "lard/sim/trace.h"

#define STEP		65536u
#define PATH_LEN	64

/* Of the paper's time: microseconds of CPU for a connection and 512 bytes; of disk for a file, 4 KB, and 44 KB. */
#define CPU_CONNECTION	290
#define CPU_512		40
#define DISK_FILE	28000
#define DISK_4K		410
#define DISK_44K	14000

struct result {
	unsigned long requests, hits;
	unsigned long long bytes, bytes_missed, cpu_us, disk_us;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Returns how many of the document's bytes had to be read. */
static size_t document_read(int fd, size_t size)
{
	size_t at = 0, missed = 0, n;

	while (at < size) {
		IOL_Agg *agg;
		IOL_Err err = IOL_pread_nowait(fd, &agg, size - at, at, &n);

		if (err == -EAGAIN) {
			/* One buffer of the cache, or the rest. */
			program_check(IOL_pread(fd, &agg, STEP - at % STEP, at, &n), "IOL_pread");
			missed += n;
		} else {
			program_check(err, "IOL_pread_nowait");
		}
		if (!n) {
			errno = EIO;
			die("end of a document");
		}
		IOL_destroy(agg);
		at += n;
	}
	IOL_flush();
	return missed;
}

static void reckon(struct result *result, size_t size, size_t missed)
{
	result->requests++;
	result->bytes += size;
	result->cpu_us += CPU_CONNECTION + CPU_512 * ((size + 511) / 512);
	if (!missed) {
		result->hits++;
		return;
	}
	result->bytes_missed += missed;
	result->disk_us += DISK_FILE + DISK_4K * ((missed + 4095) / 4096) +
			   DISK_44K * ((missed - 1) / (44 * 1024));
}

/* All documents stay open: opening is not what is asked here. */
static int *documents_open(const char *directory, const struct trace *trace)
{
	struct rlimit limit = { trace->targets + 64, trace->targets + 64 };
	int *fds = calloc(trace->targets, sizeof(*fds));
	char path[PATH_LEN];
	unsigned int i;
	int fd;

	if (!fds || setrlimit(RLIMIT_NOFILE, &limit))
		die("documents");
	for (i = 0; i < trace->targets; i++) {
		snprintf(path, sizeof(path), "%s/%u", directory, i);
		fds[i] = open(path, O_RDONLY);
		if (fds[i] >= 0)
			continue;
		fd = open(path, O_WRONLY | O_CREAT, 0644);
		if (fd < 0 || ftruncate(fd, trace->size[i]))
			die(path);
		close(fd);
		fds[i] = open(path, O_RDONLY);
		if (fds[i] < 0)
			die(path);
	}
	return fds;
}

int main(int argc, char **argv)
{
	struct result result = { 0 };
	unsigned long n, i;
	struct trace trace;
	const char *why;
	int *fds;

	if (argc != 4)
		return 2;
	n = strtoul(argv[3], NULL, 10);
	if (trace_load(&trace, argv[1], &why)) {
		fprintf(stderr, "%s: %s\n", argv[1], why);
		return 1;
	}
	fds = documents_open(argv[2], &trace);
	/* What is younger than a moment is not cached. */
	usleep(100000);
	for (i = 0; i < n && i < trace.requests; i++) {
		unsigned int target = trace.token[i];
		size_t missed = document_read(fds[target], trace.size[target]);

		/* The first fifth warms the cache. */
		if (i >= n / 5)
			reckon(&result, trace.size[target], missed);
	}
	trace_free(&trace);
	free(fds);
	printf("{\"requests\": %lu, \"hits\": %lu, \"bytes\": %llu, \"bytes missed\": %llu, "
	       "\"cpu seconds\": %.1f, \"disk seconds\": %.1f}\n", result.requests, result.hits, result.bytes,
	       result.bytes_missed, result.cpu_us / 1e6, result.disk_us / 1e6);
	return 0;
}
