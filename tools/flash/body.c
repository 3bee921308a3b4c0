// SPDX-License-Identifier: GPL-2.0
/*
 * Request bodies. A program gets its input when all of it is there: a slow client then holds a few
 * pages of memory and not a process, and CONTENT_LENGTH is known for a chunked body too.
 */
#include "body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK_LINE_MAX 256
#define TRAILER_MAX 4096

enum { SIZE_FIRST, SIZE, SIZE_BLANK, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, TRAILER_LF };

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_control(char c)
{
	return ((unsigned char)c < ' ' && c != '\t') || c == 0x7f;
}

int chunked_decode(struct chunked *d, char *buf, size_t *len, size_t *payload)
{
	char *p = buf, *end = buf + *len, *out = buf;
	size_t step;
	int digit;

	while (p < end) {
		char c = *p;

		switch (d->state) {
		case SIZE_FIRST:
			d->left = 0;
			d->line = 0;
			if (hex(c) < 0)
				return -400;
			d->state = SIZE;
			/* fall through */
		case SIZE:
			digit = hex(c);
			if (digit >= 0) {
				if (d->left >> 56)
					return -400;
				d->left = d->left << 4 | digit;
			} else if (c == '\r') {
				d->state = SIZE_LF;
			} else if (c == ';') {
				d->state = EXTENSION;
			} else if (c == ' ' || c == '\t') {
				d->state = SIZE_BLANK;
			} else {
				return -400;
			}
			if (++d->line > CHUNK_LINE_MAX)
				return -400;
			p++;
			break;
		/* "5 5" is 5 to one reader and 55 or nothing to another. */
		case SIZE_BLANK:
			if (c == '\r')
				d->state = SIZE_LF;
			else if (c == ';')
				d->state = EXTENSION;
			else if ((c != ' ' && c != '\t') || ++d->line > CHUNK_LINE_MAX)
				return -400;
			p++;
			break;
		case EXTENSION:
			if (c == '\r')
				d->state = SIZE_LF;
			else if (is_control(c) || ++d->line > CHUNK_LINE_MAX)
				return -400;
			p++;
			break;
		case SIZE_LF:
			if (c != '\n')
				return -400;
			d->line = 0;
			d->state = d->left ? DATA : TRAILER;
			/* A trailer line's length is counted in @left, all of them in @line. */
			p++;
			break;
		case DATA:
			step = (size_t)(end - p) < d->left ? (size_t)(end - p) : d->left;
			memmove(out, p, step);
			out += step;
			p += step;
			d->left -= step;
			if (!d->left)
				d->state = DATA_CR;
			break;
		case DATA_CR:
			if (c != '\r')
				return -400;
			d->state = DATA_LF;
			p++;
			break;
		case DATA_LF:
			if (c != '\n')
				return -400;
			d->state = SIZE_FIRST;
			p++;
			break;
		case TRAILER:
			/* No folded lines either. */
			if (++d->line > TRAILER_MAX || (c != '\r' && is_control(c)) ||
			    (!d->left && (c == ' ' || c == '\t' || c == ':')))
				return -400;
			if (c == '\r')
				d->state = TRAILER_LF;
			else
				d->left++;
			p++;
			break;
		case TRAILER_LF:
			if (c != '\n')
				return -400;
			p++;
			if (!d->left) {
				*len = p - buf;
				*payload = out - buf;
				return 1;
			}
			d->left = 0;
			d->state = TRAILER;
			break;
		}
	}
	*payload = out - buf;
	return 0;
}

/**
 * struct body - one request body
 * @left: bytes that must still come, when it is not chunked
 * @max:  largest body allowed
 * @got:  bytes in @fd, an anonymous file in memory
 */
struct body {
	bool is_chunked;
	struct chunked chunked;
	uint64_t left, max, got;
	int fd;
};

struct body *body_new(const struct request *req, uint64_t max)
{
	struct body *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->is_chunked = req->flags & REQ_CHUNKED;
	b->left = req->content_length;
	b->max = max;
	b->fd = memfd_create("request body", MFD_CLOEXEC);
	if (b->fd < 0) {
		free(b);
		return NULL;
	}
	return b;
}

void body_free(struct body *b)
{
	if (!b)
		return;
	if (b->fd >= 0)
		close(b->fd);
	free(b);
}

void body_take_all(struct body *b)
{
	if (b->is_chunked)
		b->left = UINT64_MAX;
	b->is_chunked = false;
}

static int store(struct body *b, const char *p, size_t len)
{
	ssize_t n;

	if (b->got + len > b->max)
		return -413;
	while (len) {
		n = write(b->fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -503;
		p += n;
		len -= n;
		b->got += n;
	}
	return 0;
}

int body_feed(struct body *b, char *buf, size_t *len)
{
	size_t payload;
	int end, err;

	if (b->is_chunked) {
		end = chunked_decode(&b->chunked, buf, len, &payload);
		if (end < 0)
			return end;
	} else {
		payload = *len < b->left ? *len : b->left;
		*len = payload;
		b->left -= payload;
		end = !b->left;
	}
	err = store(b, buf, payload);
	return err ? err : end;
}

int body_fd(struct body *b)
{
	lseek(b->fd, 0, SEEK_SET);
	return b->fd;
}

uint64_t body_length(const struct body *b)
{
	return b->got;
}
