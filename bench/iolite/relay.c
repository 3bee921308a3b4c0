// SPDX-License-Identifier: GPL-2.0
/*
 * iol-relay WAY SIZE REQUESTS [PAUSE]: a server that sends a header and SIZE bytes, from a file or from another
 * process behind a pipe, to a client on loopback that throws them away. Prints the CPU time that the server
 * and that process took for a request. In a guest whose clock counts instructions, that is instructions.
 * The documents are in the present directory.
 * With RELAY_SET=BYTES it goes through documents of so many bytes together instead of sending one again and again.
 * PAUSE milliseconds before and after the requests that count, somebody outside may look ("begin").
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iolite/tools/program.h"

#define HEAD	256
#define STEP	65536
/* At least; and every document once. */
#define WARM	20
#define PATH	"relay.documents"

/**
 * struct relay - one run
 * @go:   pipe that asks the process for a document
 * @data: pipe that brings it
 * @memory: the documents, of the process or mapped
 * @at:   where the present one starts
 * @set:  bytes of all
 * @docs: of the process, made when they are first asked for
 */
struct relay {
	size_t size;
	unsigned int requests;
	unsigned int warm;
	unsigned int pause;
	int sock, file;
	int go[2], data[2];
	char *memory;
	size_t at, set;
	IOL_Agg **docs;
	pid_t producer;
	char head[HEAD];
};

struct way {
	const char *name;
	void (*serve)(struct relay *r);
	void (*produce)(struct relay *r);	/* NULL: from the file */
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* All of it, whatever one call takes. */
static void write_iov(int fd, struct iovec *iov, int n)
{
	while (n) {
		ssize_t done = writev(fd, iov, n);

		if (done < 0)
			die("writev");
		while (n && (size_t)done >= iov->iov_len) {
			done -= iov->iov_len;
			iov++;
			n--;
		}
		if (n) {
			iov->iov_base = (char *)iov->iov_base + done;
			iov->iov_len -= done;
		}
	}
}

static void write_agg(int fd, IOL_Agg *head, IOL_Agg *body)
{
	size_t first = head ? IOL_length(head) : 0, all = first + IOL_length(body), at = 0, n;

	while (at < all) {
		struct IOL_Vec vec[2] = { { head, at, first - at }, { body, 0, all - first } };

		if (at < first) {
			program_check(IOL_write_vec(fd, vec, 2, &n), "IOL_write_vec");
		} else {
			vec[1].start = at - first;
			program_check(IOL_write_vec(fd, vec + 1, 1, &n), "IOL_write_vec");
		}
		at += n;
	}
}

static void file_mmap(struct relay *r)
{
	struct iovec iov[] = { { r->head, HEAD }, { r->memory + r->at, r->size } };

	write_iov(r->sock, iov, 2);
}

static void file_sendfile(struct relay *r)
{
	off_t at = r->at, end = at + r->size;

	if (send(r->sock, r->head, HEAD, MSG_MORE) != HEAD)
		die("send");
	while (at < end)
		if (sendfile(r->sock, r->file, &at, end - at) < 0)
			die("sendfile");
}

static void file_iolite(struct relay *r)
{
	size_t at = 0, n;

	while (at < HEAD + r->size) {
		size_t head = at < HEAD ? HEAD - at : 0, pos = at < HEAD ? 0 : at - HEAD;

		program_check(IOL_send(r->sock, r->head + HEAD - head, head, r->file,
				       r->at + pos, r->size - pos, 0, &n), "IOL_send");
		at += n;
	}
}

/* The same by the calls of the paper. */
static void file_iolite_calls(struct relay *r)
{
	IOL_Agg *head, *body;
	size_t n;

	program_check(IOL_pread(r->file, &body, r->size, r->at, &n), "IOL_pread");
	program_check(IOL_from_memory(IOL_DEF_ALLOC, &head, r->head, HEAD), "IOL_from_memory");
	write_agg(r->sock, head, body);
	IOL_destroy(head);
	IOL_destroy(body);
}

static void pipe_copy(struct relay *r)
{
	static char buf[STEP];
	size_t done = 0;

	while (done < r->size) {
		ssize_t n = read(r->data[0], buf, sizeof(buf));
		struct iovec iov[] = { { r->head, done ? 0 : HEAD }, { buf, n } };

		if (n <= 0)
			die("read");
		write_iov(r->sock, iov, 2);
		done += n;
	}
}

static void produce_copy(struct relay *r)
{
	struct iovec iov = { r->memory + r->at, r->size };

	write_iov(r->data[1], &iov, 1);
}

static void pipe_splice(struct relay *r)
{
	size_t done = 0;

	if (send(r->sock, r->head, HEAD, MSG_MORE) != HEAD)
		die("send");
	while (done < r->size) {
		ssize_t n = splice(r->data[0], NULL, r->sock, NULL, r->size - done,
				   SPLICE_F_MOVE);

		if (n <= 0)
			die("splice");
		done += n;
	}
}

static void produce_splice(struct relay *r)
{
	size_t done = 0;

	while (done < r->size) {
		struct iovec iov = { r->memory + r->at + done, r->size - done };
		ssize_t n = vmsplice(r->data[1], &iov, 1, 0);

		if (n < 0)
			die("vmsplice");
		done += n;
	}
}

static void pipe_iolite(struct relay *r)
{
	size_t done = 0, n;

	while (done < HEAD + r->size) {
		size_t head = done < HEAD ? HEAD - done : 0;

		program_check(IOL_send(r->sock, r->head + HEAD - head, head, r->data[0], 0,
				       HEAD + r->size - done - head, 0, &n), "IOL_send");
		done += n;
	}
}

/* The same by the calls of the paper. */
static void pipe_iolite_calls(struct relay *r)
{
	IOL_Agg *head, *body;
	size_t done = 0, n;

	program_check(IOL_from_memory(IOL_DEF_ALLOC, &head, r->head, HEAD), "IOL_from_memory");
	while (done < r->size) {
		program_check(IOL_read(r->data[0], &body, 1 << 20, &n), "IOL_read");
		if (!n)
			die("end of the pipe");
		write_agg(r->sock, done ? NULL : head, body);
		IOL_destroy(body);
		done += n;
	}
	IOL_destroy(head);
}

static void produce_iolite(struct relay *r)
{
	IOL_Agg *body, **doc;
	size_t n;

	if (!r->docs)
		r->docs = calloc(r->set / r->size, sizeof(*r->docs));
	if (!r->docs)
		die("documents");
	doc = &r->docs[r->at / r->size];
	if (!*doc)
		program_check(IOL_from_memory(IOL_DEF_ALLOC, doc, r->memory + r->at, r->size), "document");
	program_check(IOL_write(r->data[1], *doc, &n), "IOL_write");
	if (n == r->size)
		return;
	program_check(IOL_select(&body, *doc, n, r->size - n), "document");
	write_agg(r->data[1], NULL, body);
	IOL_destroy(body);
}

static const struct way ways[] = {
	{ "file-mmap", file_mmap, NULL },
	{ "file-sendfile", file_sendfile, NULL },
	{ "file-iolite", file_iolite, NULL },
	{ "file-iolite-calls", file_iolite_calls, NULL },
	{ "pipe-copy", pipe_copy, produce_copy },
	{ "pipe-splice", pipe_splice, produce_splice },
	{ "pipe-iolite", pipe_iolite, produce_iolite },
	{ "pipe-iolite-calls", pipe_iolite_calls, produce_iolite },
};

static void next_document(struct relay *r)
{
	r->at = r->at + 2 * r->size <= r->set ? r->at + r->size : 0;
}

static void client(struct relay *r, struct sockaddr_in *addr)
{
	static char buf[STEP];
	unsigned int i;
	int fd;

	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		die("connect");
	for (i = 0; i < r->warm + r->requests; i++) {
		size_t left = HEAD + r->size;

		if (write(fd, "?", 1) != 1)
			die("request");
		while (left) {
			ssize_t n = recv(fd, buf, left < STEP ? left : STEP, MSG_TRUNC);

			if (n <= 0)
				die("answer");
			left -= n;
		}
	}
	exit(0);
}

static void producer(struct relay *r, const struct way *way)
{
	char byte;

	close(r->go[1]);
	close(r->data[0]);
	while (read(r->go[0], &byte, 1) == 1) {
		way->produce(r);
		next_document(r);
	}
	exit(0);
}

static unsigned long long cpu_time(pid_t pid)
{
	unsigned long long ns = 0;
	char path[64];
	FILE *f;

	if (!pid)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%llu", &ns) != 1)
		die(path);
	fclose(f);
	return ns;
}

static void look(const struct relay *r, const char *line)
{
	fputs(line, stdout);
	fflush(stdout);
	usleep(1000 * r->pause);
}

static void serve(struct relay *r, const struct way *way)
{
	unsigned long long mine = 0, its = 0;
	unsigned int i;
	char byte;

	for (i = 0; i < r->warm + r->requests; i++) {
		if (i == r->warm) {
			if (r->pause)
				look(r, "begin\n");
			mine = cpu_time(getpid());
			its = cpu_time(r->producer);
		}
		if (read(r->sock, &byte, 1) != 1)
			die("request");
		if (r->producer && write(r->go[1], "?", 1) != 1)
			die("go");
		way->serve(r);
		next_document(r);
	}
	printf("{\"way\": \"%s\", \"size\": %zu, \"server\": %llu, \"program\": %llu}\n", way->name,
	       r->size, (cpu_time(getpid()) - mine) / r->requests,
	       (cpu_time(r->producer) - its) / r->requests);
	look(r, "");
}

static void document(struct relay *r, const struct way *way)
{
	size_t done = 0;

	r->file = open(PATH, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (r->file < 0 || ftruncate(r->file, r->set))
		die(PATH);
	r->memory = mmap(NULL, r->set, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(r->memory, 'x', r->set);
	while (done < r->set) {
		ssize_t n = write(r->file, r->memory + done, r->set - done);

		if (n <= 0)
			die(PATH);
		done += n;
	}
	close(r->file);
	r->file = open(PATH, O_RDONLY);
	if (!way->produce)
		r->memory = mmap(NULL, r->set, PROT_READ, MAP_SHARED | MAP_POPULATE, r->file, 0);
	/* Younger files are not cached. */
	usleep(50000);
	memset(r->head, 'h', HEAD);
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	const struct way *way = ways;
	struct relay r = { 0 };
	int listener;

	if (argc != 4 && argc != 5)
		return 2;
	while (strcmp(way->name, argv[1]))
		if (++way == ways + sizeof(ways) / sizeof(*ways))
			return 2;
	r.size = strtoul(argv[2], NULL, 10);
	r.requests = strtoul(argv[3], NULL, 10);
	r.set = getenv("RELAY_SET") ? strtoul(getenv("RELAY_SET"), NULL, 10) : r.size;
	if (!r.size || r.set < r.size)
		return 2;
	r.warm = r.set / r.size > WARM ? r.set / r.size : WARM;
	r.pause = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&addr, len) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) || pipe(r.go) || pipe(r.data))
		die("listen");
	if (fcntl(r.data[1], F_SETPIPE_SZ, 1 << 20) < 0)
		die("pipe");
	document(&r, way);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (!fork())
		client(&r, &addr);
	if (way->produce) {
		r.producer = fork();
		if (!r.producer)
			producer(&r, way);
		close(r.data[1]);
		close(r.go[0]);
	}
	r.sock = accept(listener, NULL, NULL);
	serve(&r, way);
	close(r.sock);
	close(r.go[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}
