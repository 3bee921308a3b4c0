// SPDX-License-Identifier: GPL-2.0
#include "lite.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

#include <iolite.h>

#define VEC 16
/* Of one file in one call; what a socket does not take is looked up again. */
#define MOST (1u << 20)
#define HEAD_MOST 4096
/* What a segment carries at least, on links that matter. */
#define ONE_SEGMENT 1400

void lite_check(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!IOL_domain() && !atomic_flag_test_and_set(&said))
		fprintf(stderr, "flash: no /dev/iolite here: transfer iolite copies\n");
}

int lite_load(int fd, uint64_t off, uint32_t len)
{
	uint64_t end = off + len;
	IOL_Agg *agg;
	size_t n;
	int err;

	for (; off < end; off += n) {
		err = IOL_pread(fd, &agg, end - off, off, &n);
		if (err)
			return err;
		IOL_destroy(agg);
		if (!n)
			break;
	}
	return 0;
}

/* To the end of the chunk, which is what helpers read at once. */
static uint32_t chunk_rest(const struct conn *c, const struct piece *p, uint64_t off)
{
	uint64_t chunk = c->w->conf->chunk, left = chunk - off % chunk, end = p->off + p->len;

	return end - off < left ? end - off : left;
}

/* What is in memory of a piece of the file, from its beginning on. */
static int read_piece(struct conn *c, struct response *r, const struct piece *p, bool wait,
		      struct lite_want *want, struct IOL_Vec *out)
{
	size_t len = p->len < MOST ? p->len : MOST;
	int err;

	if (wait)
		err = IOL_pread(r->file->fd, &out->agg, len, p->off, &out->length);
	else
		err = IOL_pread_nowait(r->file->fd, &out->agg, len, p->off, &out->length);
	if (err == -EAGAIN) {
		want->off = p->off;
		want->len = chunk_rest(c, p, p->off);
	}
	return err;
}

/* As many pieces as are there; -errno only when there is none. */
static int gather(struct conn *c, struct response *r, bool wait, struct lite_want *want,
		  struct IOL_Vec *vec)
{
	unsigned int i;
	int n = 0, err = 0;

	for (i = r->cur; i < r->nr && n < VEC; i++) {
		struct piece *p = &r->pieces[i];

		vec[n] = (struct IOL_Vec){ 0 };
		if (p->mem) {
			err = IOL_from_memory(IOL_DEF_ALLOC, &vec[n].agg, p->mem, p->len);
			vec[n].length = p->len;
		} else {
			err = read_piece(c, r, p, wait, want, &vec[n]);
		}
		if (err)
			break;
		/* The end of a file that got shorter: the promised length cannot be kept. */
		if (!vec[n].length) {
			IOL_destroy(vec[n].agg);
			break;
		}
		if (vec[n++].length < p->len)
			break;
	}
	return n ? n : err;
}

/*
 * The usual response, a header and a file, in one call. -EOPNOTSUPP: it is not that, or there is
 * nothing behind the header: send_pieces() knows what to do.
 */
static int send_usual(struct conn *c, struct response *r, int flags, struct lite_want *want,
		      size_t *sent)
{
	const struct piece *head = &r->pieces[r->cur], *file = head;
	int err;

	if (head->mem)
		file++;
	else
		head = NULL;
	if (file != &r->pieces[r->nr - 1] || file->mem || (head && head->len > HEAD_MOST))
		return -EOPNOTSUPP;
	/* Of more than a segment it would keep the last one back, which is one packet more. */
	if ((head ? head->len : 0) + file->len > ONE_SEGMENT)
		flags &= ~IOL_MORE;
	err = IOL_send(c->watch.fd, head ? head->mem : NULL, head ? head->len : 0, r->file->fd,
		       file->off, file->len < MOST ? file->len : MOST, flags, sent);
	if (err == -ENODATA) {
		want->off = file->off;
		want->len = chunk_rest(c, file, file->off);
		return -EAGAIN;
	}
	return !err && !*sent ? -EOPNOTSUPP : err;
}

static ssize_t send_pieces(struct conn *c, struct response *r, bool wait, struct lite_want *want)
{
	struct IOL_Vec vec[VEC];
	size_t sent = 0;
	int n, i, err;

	n = gather(c, r, wait, want, vec);
	/* A header alone waits for its data: they go together. */
	if (want->len && n > 0) {
		for (i = 0; i < n; i++)
			if (!r->pieces[r->cur + i].mem)
				break;
		if (i < n)
			want->len = 0;
	}
	err = n < 0 ? n : 0;
	if (n > 0 && !want->len)
		err = IOL_write_vec(c->watch.fd, vec, n, &sent);
	for (i = 0; i < n; i++)
		IOL_destroy(vec[i].agg);
	if (want->len || err) {
		errno = want->len ? EAGAIN : -err;
		return -1;
	}
	return sent;
}

ssize_t lite_send(struct conn *c, struct response *r, bool wait, bool more, struct lite_want *want)
{
	size_t sent;
	int err;

	want->len = 0;
	err = send_usual(c, r, (wait ? 0 : IOL_RESIDENT) | (more ? IOL_MORE : 0), want, &sent);
	if (err == -EOPNOTSUPP)
		return send_pieces(c, r, wait, want);
	if (err) {
		errno = -err;
		return -1;
	}
	return sent;
}
