/* SPDX-License-Identifier: GPL-2.0 */
/* For tests: memory of which no page ever comes, a mapping of a file whose server does not answer. */
#ifndef USELECT_TEST_STALL_H
#define USELECT_TEST_STALL_H

#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STALL_SIZE	65536

/* @asked: readable when somebody has touched the memory. */
struct stall {
	char where[64];
	pid_t server;
	int asked;
	char *memory;
};

/* The body of an answer, or -errno; 0 is an answer, too. */
static inline int stall_answer(const struct fuse_in_header *in, void *body)
{
	const struct fuse_attr attr = {
		.ino = in->opcode == FUSE_LOOKUP ? 2 : in->nodeid,
		.mode = in->opcode == FUSE_LOOKUP || in->nodeid != 1 ? S_IFREG | 0600 : S_IFDIR | 0700,
		.nlink = 1,
		.size = STALL_SIZE,
	};

	switch (in->opcode) {
	case FUSE_INIT:
		*(struct fuse_init_out *)body = (struct fuse_init_out){ .major = 7, .minor = 31, .max_write = 4096 };
		return sizeof(struct fuse_init_out);
	case FUSE_LOOKUP:
		*(struct fuse_entry_out *)body = (struct fuse_entry_out){ .nodeid = 2, .entry_valid = 1000,
									  .attr_valid = 1000, .attr = attr };
		return sizeof(struct fuse_entry_out);
	case FUSE_GETATTR:
		*(struct fuse_attr_out *)body = (struct fuse_attr_out){ .attr_valid = 1000, .attr = attr };
		return sizeof(struct fuse_attr_out);
	case FUSE_OPEN:
		*(struct fuse_open_out *)body = (struct fuse_open_out){ };
		return sizeof(struct fuse_open_out);
	default:
		return -ENOSYS;
	}
}

/* Answers all but what reads the file. */
static inline void stall_serve(int fd, int asked)
{
	static char in[1 << 17], out[4096];
	struct fuse_in_header *request = (void *)in;
	struct fuse_out_header *answer = (void *)out;
	int body;

	while (read(fd, in, sizeof(in)) > 0) {
		if (request->opcode == FUSE_READ && write(asked, "", 1) != 1)
			_exit(1);
		if (request->opcode == FUSE_READ || request->opcode == FUSE_FORGET ||
		    request->opcode == FUSE_INTERRUPT)
			continue;
		body = stall_answer(request, answer + 1);
		*answer = (struct fuse_out_header){ .unique = request->unique, .error = body < 0 ? body : 0 };
		answer->len = sizeof(*answer) + (body > 0 ? body : 0);
		if (write(fd, out, answer->len) < 0)
			_exit(1);
	}
	_exit(0);
}

static inline int stall_begin(struct stall *stall)
{
	char options[100], path[100];
	int fd, file, ends[2];

	strcpy(stall->where, "/tmp/stall.XXXXXX");
	if (system("modprobe -q fuse") || !mkdtemp(stall->where) || pipe(ends))
		return -1;
	fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (fd < 0 || mount("stall", stall->where, "fuse", 0, options))
		return -1;
	stall->server = fork();
	if (!stall->server)
		stall_serve(fd, ends[1]);
	close(fd);
	close(ends[1]);
	stall->asked = ends[0];
	snprintf(path, sizeof(path), "%s/file", stall->where);
	file = open(path, O_RDWR);
	stall->memory = mmap(NULL, STALL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	return stall->memory == MAP_FAILED ? -1 : 0;
}

/* Whoever waits for the memory gets EFAULT. */
static inline void stall_end(struct stall *stall)
{
	kill(stall->server, SIGKILL);
	waitpid(stall->server, NULL, 0);
	munmap(stall->memory, STALL_SIZE);
	umount2(stall->where, MNT_DETACH);
	rmdir(stall->where);
	close(stall->asked);
}

#endif
