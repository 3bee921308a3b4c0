// SPDX-License-Identifier: GPL-2.0
/*
 * iol-fcgi: a program behind a web server, as FastCGI when descriptor 0 listens and as CGI
 * otherwise. The query says what it answers: size=BYTES, and then perhaps
 *	do=copy		by write(2), as an ordinary program
 *	do=crash	half of it, and the program is gone
 *	do=scribble	all of it, and then it stores into what it has sent
 */
#include <errno.h>
#include <sys/socket.h>

#include "iolite/tools/document.h"
#include "iolite/tools/program.h"

#define SIZE_MAX_ASKED	(64u << 20)
#define PARAMS_MAX	65536

enum { PARAMS = 4 };

/**
 * struct request - what the server asks
 * @params: name-value pairs as they come
 * @len:    of these
 */
struct request {
	char params[PARAMS_MAX];
	size_t len;
};

/* What has come and is not taken yet, of the one connection there is at a time. */
static struct {
	char bytes[65536];
	size_t start, end;
} input;

static int read_all(int fd, void *to, size_t len)
{
	size_t done = 0, n;
	ssize_t got;

	while (done < len) {
		if (input.start == input.end) {
			got = read(fd, input.bytes, sizeof(input.bytes));
			if (got < 0 && errno == EINTR)
				continue;
			if (got <= 0)
				return -1;
			input.start = 0;
			input.end = got;
		}
		n = input.end - input.start < len - done ? input.end - input.start : len - done;
		memcpy((char *)to + done, input.bytes + input.start, n);
		input.start += n;
		done += n;
	}
	return 0;
}

static void write_all(int fd, const char *p, size_t len)
{
	ssize_t n;

	for (; len; p += n, len -= n) {
		n = write(fd, p, len);
		if (n < 0)
			program_check(-errno, "write");
	}
}

static void write_part(int fd, IOL_Agg *agg, size_t len)
{
	size_t at, n;

	for (at = 0; at < len; at += n) {
		struct IOL_Vec vec = { agg, at, len - at };

		program_check(IOL_write_vec(fd, &vec, 1, &n), "write");
	}
}

/* Of ordinary memory, which is kept for the next time as the aggregate is. */
static void write_copy(int fd, IOL_Agg *agg)
{
	static const IOL_Agg *copied;
	static size_t len;
	static char *copy;

	if (copied != agg) {
		free(copy);
		copied = agg;
		len = IOL_length(agg);
		copy = malloc(len);
		if (!copy)
			program_check(-ENOMEM, "copy");
		IOL_copy_out(agg, 0, copy, len);
	}
	write_all(fd, copy, len);
}

static void answer(int fd, const char *query, bool framed)
{
	const char *size = strstr(query, "size=");
	unsigned long bytes = size ? strtoul(size + 5, NULL, 10) : 1;
	struct document *doc = document_get(bytes && bytes < SIZE_MAX_ASKED ? bytes : 1);
	IOL_Agg *agg = framed ? doc->framed : doc->plain;

	if (strstr(query, "do=copy")) {
		write_copy(fd, agg);
		return;
	}
	if (strstr(query, "do=crash")) {
		write_part(fd, agg, IOL_length(agg) / 2);
		abort();
	}
	write_part(fd, agg, IOL_length(agg));
	if (strstr(query, "do=scribble")) {
		memset(doc->fill, '!', doc->size);
		fprintf(stderr, "iol-fcgi: what was sent could be changed\n");
	}
}

static size_t length_get(const unsigned char **p, const unsigned char *end)
{
	const unsigned char *at = *p;
	size_t len;

	if (at >= end)
		return SIZE_MAX_ASKED;
	if (*at < 128) {
		*p = at + 1;
		return *at;
	}
	if (end - at < 4)
		return SIZE_MAX_ASKED;
	len = (at[0] & 0x7fu) << 24 | at[1] << 16 | at[2] << 8 | at[3];
	*p = at + 4;
	return len;
}

/* The query of a request, as a string. */
static void query_get(const struct request *req, char *query, size_t room)
{
	const unsigned char *p = (const unsigned char *)req->params, *end = p + req->len;
	size_t name, value;

	*query = '\0';
	while (p < end) {
		name = length_get(&p, end);
		value = length_get(&p, end);
		if (name > (size_t)(end - p) || value > (size_t)(end - p) - name)
			return;
		if (name == 12 && !memcmp(p, "QUERY_STRING", 12))
			snprintf(query, room, "%.*s", (int)value, (const char *)p + name);
		p += name + value;
	}
}

/* One record of a request. 1: the request is complete; -1: the connection is at its end. */
static int record_get(int fd, struct request *req)
{
	static char content[65536 + 256];
	unsigned char head[8];
	size_t len;

	if (read_all(fd, head, sizeof(head)))
		return -1;
	len = head[4] << 8 | head[5];
	if (read_all(fd, content, len + head[6]))
		return -1;
	if (head[1] == PARAMS && len <= sizeof(req->params) - req->len) {
		memcpy(req->params + req->len, content, len);
		req->len += len;
	}
	return head[1] == 5 && !len;	/* end of the request's body */
}

static void serve(int fd)
{
	static struct request req;
	char query[256];
	int end;

	input.start = 0;
	input.end = 0;
	do {
		req.len = 0;
		while (!(end = record_get(fd, &req)))
			;
		if (end > 0) {
			query_get(&req, query, sizeof(query));
			answer(fd, query, true);
		}
	} while (end > 0);
	close(fd);
}

int main(int argc, char **argv)
{
	const char *query = getenv("QUERY_STRING");
	socklen_t len = sizeof(int);
	int listens = 0, fd;

	program_version(argc, argv, "iol-fcgi");
	if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) || !listens) {
		answer(STDOUT_FILENO, query ? query : "", false);
		return 0;
	}
	for (;;) {
		fd = accept(STDIN_FILENO, NULL, NULL);
		if (fd >= 0)
			serve(fd);
		else if (errno != EINTR && errno != ECONNABORTED)
			return 1;
	}
}
