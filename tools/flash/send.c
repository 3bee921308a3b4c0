// SPDX-License-Identifier: GPL-2.0
#include "send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "disk.h"
#include "hold.h"
#include "lard/http2/http2.h"
#include "lard/tls/session.h"
#include "lite.h"
#include "map.h"
#include "room.h"
#include "secure.h"

#define IOV 16
#define STREAM_PARTS 8	/* then other streams of its connection have their turn */
#define FAR_MAX (1 << 20)	/* one call for more would keep other clients waiting */
#define READS_MAX 8	/* by helpers, of one part: more would be a livelock under memory pressure */

struct response *response_new(unsigned int pieces)
{
	return calloc(1, sizeof(struct response) + pieces * sizeof(struct piece));
}

static void mapping_release(struct worker *w, struct response *r)
{
	if (r->mapping)
		map_put(w, r->mapping);
	r->mapping = NULL;
}

void response_free(struct worker *w, struct response *r)
{
	if (!r)
		return;
	mapping_release(w, r);
	if (r->file)
		file_put(w->cache, r->file);
	hold_give(w, r->held);
	free(r->text);
	free(r);
}

bool response_text(struct conn *c, struct response *r, size_t size)
{
	if (!hold_take(c, size))
		return false;
	r->held = size;
	r->text = malloc(size);
	return r->text;
}

void response_add_mem(struct response *r, const char *mem, uint64_t len)
{
	if (len)
		r->pieces[r->nr++] = (struct piece){ .mem = mem, .len = len };
}

void response_add_file(struct response *r, uint64_t off, uint64_t len)
{
	if (len)
		r->pieces[r->nr++] = (struct piece){ .off = off, .len = len };
}

static void advance(struct response *r, uint64_t n)
{
	r->sent += n;
	while (n) {
		struct piece *p = &r->pieces[r->cur];
		uint64_t step = n < p->len ? n : p->len;

		if (p->mem)
			p->mem += step;
		p->off += step;
		p->len -= step;
		n -= step;
		if (!p->len)
			r->cur++;
	}
}

/* The next part to send: to the end of the chunk, so that a test holds for all of it. */
static uint32_t part_length(const struct worker *w, const struct piece *p)
{
	uint64_t chunk = w->conf->chunk, left = chunk - p->off % chunk;

	return p->len < left ? p->len : left;
}

/* Where nobody is asked, the answer would be the same again. */
static unsigned int reads_max(const struct worker *w)
{
	return w->residency == RESIDENCY_MLOCK || w->residency == RESIDENCY_CLOCK ? 1 : READS_MAX;
}

/* False when a helper has the part and will say so; true when it has been asked for too often. */
static bool part_bring(struct conn *c, struct response *r, uint64_t off, uint32_t len,
		       struct mapping *map)
{
	struct worker *w = c->w;
	uint64_t chunk = w->conf->chunk, next = off + len;

	if (r->reads >= reads_max(w)) {
		stats_add(w->stats, sends_cold, 1);
		r->tested = off + len;
		r->reads = 0;
		return true;
	}
	if (r->reads)
		stats_add(w->stats, reads_again, 1);
	if (disk_read(w, r->file, off, len, map, &c->waiter))
		return true;
	r->reads++;
	/* The one after it too: a cold file is read at the disk's speed, not one trip a chunk. */
	if (next < r->file->id.size && !map) {
		uint64_t left = r->file->id.size - next;

		disk_read(w, r->file, next, left < chunk ? left : chunk, NULL, NULL);
	}
	return false;
}

/* True when the part may be sent now; otherwise a helper has it and will say so. */
static bool part_ready(struct conn *c, struct response *r, uint64_t off, uint32_t len,
		       struct mapping *map)
{
	if (c->w->may_wait || off < r->tested)
		return true;
	if (!disk_resident(c->w, r->file, off, len, map))
		return part_bring(c, r, off, len, map);
	r->tested = off + len;
	r->reads = 0;
	return true;
}

/* Points @iov at the part of the file that @p begins with. */
static bool map_part(struct conn *c, struct response *r, const struct piece *p, struct iovec *iov,
		     bool *waiting)
{
	uint32_t len = part_length(c->w, p);
	uint64_t start = p->off - p->off % c->w->conf->chunk, page = p->off & ~4095ull;
	char *at;

	if (!r->mapping || r->mapping->off != start) {
		mapping_release(c->w, r);
		r->mapping = map_get(c->w, r->file, p->off);
		if (!r->mapping)
			return false;
	}
	at = r->mapping->addr + (p->off - start);
	if (!part_ready(c, r, page, len + (p->off - page), r->mapping)) {
		*waiting = true;
		return false;
	}
	iov->iov_base = at;
	iov->iov_len = len;
	return true;
}

/* Memory, and what is mapped, in one call: header and data go together (Pai, 4.4.5). */
static ssize_t send_iov(struct conn *c, struct response *r, bool more, bool *waiting)
{
	struct iovec iov[IOV];
	struct msghdr msg = { .msg_iov = iov };
	unsigned int i, n = 0;
	bool rest;

	for (i = r->cur; i < r->nr && n < IOV; i++) {
		struct piece *p = &r->pieces[i];

		if (p->mem) {
			iov[n].iov_base = (void *)p->mem;
			iov[n++].iov_len = p->len;
			continue;
		}
		if (c->w->conf->transfer != TRANSFER_MMAP)
			break;
		if (!map_part(c, r, p, &iov[n], waiting))
			return -1;
		rest = iov[n++].iov_len < p->len;
		i += !rest;
		break;
	}
	msg.msg_iovlen = n;
	/* A truncated mapping gives EFAULT here: the kernel copies, no signal is raised. */
	return sendmsg(c->watch.fd, &msg, MSG_NOSIGNAL | (i < r->nr || more ? MSG_MORE : 0));
}

/* Of a part of the file for a record, what there is; as send_part(). */
static ssize_t read_part(struct conn *c, struct response *r, const struct piece *p, char *to,
			 size_t room, bool *waiting)
{
	struct iovec iov = { NULL, part_length(c->w, p) };
	unsigned int reads = r->reads;
	bool mapped = c->w->conf->transfer == TRANSFER_MMAP;
	ssize_t n;

	if (mapped && !map_part(c, r, p, &iov, waiting))
		return -1;
	if (!mapped && !part_ready(c, r, p->off, iov.iov_len, NULL)) {
		*waiting = true;
		return -1;
	}
	/* What is mapped may be cut off meanwhile, and touching it kill us. */
	iov.iov_base = to;
	if (iov.iov_len > room)
		iov.iov_len = room;
	if (c->w->may_wait || mapped)
		return pread(r->file->fd, to, iov.iov_len, p->off);
	n = preadv2(r->file->fd, &iov, 1, p->off, RWF_NOWAIT);
	if (n >= 0 || (errno != EAGAIN && errno != EOPNOTSUPP))
		return n;
	/* It was there when it was tested. Reads of it are counted on, so that they end. */
	if (errno == EAGAIN) {
		r->reads = reads;
		if (!part_bring(c, r, p->off, part_length(c->w, p), NULL)) {
			*waiting = true;
			return -1;
		}
		r->reads = 0;
	}
	return pread(r->file->fd, to, iov.iov_len, p->off);
}

/* A record of ours, or as much of a stream: header and contents go together. */
static ssize_t send_record(struct conn *c, struct response *r, bool *waiting)
{
	char record[TLS_RECORD_MAX];
	const struct piece *p = &r->pieces[r->cur];
	size_t len = 0;
	unsigned int i;
	ssize_t n;

	/* Who is in turn has the room: others need not read what they want to send. */
	if (c->stream && !http2_has_room(c->stream)) {
		errno = EAGAIN;
		return -1;
	}
	if (c->tls && secure_pending(c))
		return secure_flush(c);
	if (p->mem && (p->len >= sizeof(record) || r->cur + 1 == r->nr))
		return conn_send(c, p->mem, p->len, false);
	for (i = r->cur; i < r->nr && len < sizeof(record); i++) {
		size_t step = sizeof(record) - len;

		p = &r->pieces[i];
		if (p->mem) {
			step = p->len < step ? p->len : step;
			memcpy(record + len, p->mem, step);
			len += step;
			continue;
		}
		n = read_part(c, r, p, record + len, step, waiting);
		if (n <= 0 && (*waiting || !len))
			return n;
		len += n > 0 ? n : 0;
		if (n < (ssize_t)p->len)
			break;
	}
	return conn_send(c, record, len, false);
}

/* By reference; what is not in memory a helper brings, and in the end it may be waited for. */
static ssize_t send_lite(struct conn *c, struct response *r, bool more, bool *waiting)
{
	bool wait = c->w->may_wait || r->reads >= READS_MAX;
	struct lite_want want;
	ssize_t n = lite_send(c, r, wait, more, &want);

	if (n >= 0 || !want.len) {
		r->reads = 0;
		return n;
	}
	if (r->reads)
		stats_add(c->w->stats, reads_again, 1);
	if (disk_read(c->w, r->file, want.off, want.len, NULL, &c->waiter))
		return lite_send(c, r, true, more, &want);
	r->reads++;
	*waiting = true;
	return -1;
}

/*
 * A test and a call for each chunk cost half as much CPU time again at 1 MB. So where one question
 * tells that the next chunks are in memory too, they go together; but not to a client that does
 * not take as much at once, who would have it asked again and again.
 */
static uint32_t far_length(struct conn *c, struct response *r, const struct piece *p)
{
	uint64_t left = FAR_MAX - p->off % FAR_MAX, len = p->len < left ? p->len : left;
	uint32_t part = part_length(c->w, p);

	if (len <= part || r->by_chunks)
		return part;
	if (c->w->may_wait || p->off + len <= r->tested)
		return len;
	if (!disk_resident_far(c->w, r->file, p->off, len)) {
		r->by_chunks = true;
		return part;
	}
	r->tested = p->off + len;
	r->reads = 0;
	return len;
}

static ssize_t send_part(struct conn *c, struct response *r, bool *waiting)
{
	struct piece *p = &r->pieces[r->cur];
	uint32_t len = far_length(c, r, p);
	unsigned int reads = r->reads;
	const char *copy;
	off_t off = p->off;
	ssize_t n;

	if (!part_ready(c, r, off, len, NULL)) {
		*waiting = true;
		return -1;
	}
	if (!c->w->may_wait && disk_may_lose(c->w, len)) {
		n = disk_copy(c->w, r->file, off, len, &copy);
		if (n > 0) {
			stats_add(c->w->stats, sends_copied, 1);
			return conn_send(c, copy, n, false);
		}
		/* It was there when it was tested. Reads of it are counted on, so that they end. */
		r->reads = reads;
		if (n == -EAGAIN && !part_bring(c, r, off, len, NULL)) {
			*waiting = true;
			return -1;
		}
		r->reads = 0;
	}
	n = c->tls ? secure_sendfile(c, r->file->fd, off, len) :
		     sendfile(c->watch.fd, r->file->fd, &off, len);
	r->by_chunks |= n < (ssize_t)len;
	return n;
}

enum verdict response_send(struct conn *c, bool more)
{
	struct response *r = c->response;
	bool mem = true, waiting = false;
	uint64_t before = r->sent;
	unsigned int parts = 0;
	ssize_t n;

	while (r->cur < r->nr) {
		mem = r->pieces[r->cur].mem || c->w->conf->transfer == TRANSFER_MMAP;
		if (c->stream && parts++ == STREAM_PARTS) {
			http2_again(c->stream);
			goto blocked;
		}
		if (c->stream || (c->tls && !secure_by_kernel(c))) {
			mem = r->pieces[r->cur].mem;
			n = send_record(c, r, &waiting);
		} else if (r->file && c->w->conf->transfer == TRANSFER_IOLITE && !c->tls)
			n = send_lite(c, r, more, &waiting);
		else if (mem)
			n = send_iov(c, r, more, &waiting);
		else
			n = send_part(c, r, &waiting);
		if (n > 0) {
			advance(r, n);
			continue;
		}
		if (waiting)
			goto blocked;
		if (!n && !mem) {
			/* Shorter than it was: the promised length cannot be kept. */
			stats_add(c->w->stats, truncated, 1);
			return CLOSE;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			goto blocked;
		if (errno == EFAULT)
			stats_add(c->w->stats, truncated, 1);
		else if (errno == EIO)
			stats_add(c->w->stats, read_errors, 1);
		return CLOSE;
	}
	/* sendfile keeps nothing back for a successor. */
	if (!mem && c->w->conf->transfer != TRANSFER_IOLITE)
		c->corked = false;
	stats_add(c->w->stats, bytes_sent, r->sent - before);
	return SERVED;

blocked:
	/* Until the client takes more, what was tested may be evicted. */
	r->tested = 0;
	stats_add(c->w->stats, bytes_sent, r->sent - before);
	if (waiting)
		list_del(&c->rest);
	else if (r->sent > before || list_empty(&c->rest))
		room_stands(c);
	if (r->sent > before || waiting)
		conn_deadline(c, waiting ? CONN_NEVER : c->w->conf->send_timeout);
	return BLOCKED;
}
