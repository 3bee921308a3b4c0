// SPDX-License-Identifier: MIT
/*
 * A cookie stream of the C library, whose buffer we move: when data is read, onto the buffer that it
 * came in; when it is written, to a new buffer. The members of FILE that this needs belong to the
 * library's binary interface. They are set from within the cookie's calls, where the library
 * looks at them again afterwards.
 */
#include "stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_SIZE	(1u << 20)
/* The library's _IO_UNBUFFERED: exactly what is asked for may be taken from the descriptor. */
#define UNBUFFERED	0x0002
/* Its _IO_NO_READS and _IO_NO_WRITES, and with them what else a stream begins without. */
#define NO_READS	0x0004
#define NO_WRITES	0x0008
#define FRESH_WITHOUT	(NO_READS | NO_WRITES | 0x0010 | 0x0020 | 0x0800 | 0x1000)

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams;

static void buffer_is(FILE *file, char *base, size_t len)
{
	file->_IO_buf_base = base;
	file->_IO_buf_end = base + len;
	file->_IO_read_base = base;
	file->_IO_read_ptr = base;
	file->_IO_read_end = base;
	file->_IO_write_base = base;
	file->_IO_write_ptr = base;
	file->_IO_write_end = base;
}

static void agg_drop(struct stream *s)
{
	if (s->agg)
		IOL_destroy(s->agg);
	s->agg = NULL;
	s->at = 0;
}

/* The contiguous bytes that come next; NULL when all of @s->agg was had. */
static const char *piece_next(struct stream *s, size_t *len)
{
	const char *at = NULL;
	IOL_Context *context;

	*len = 0;
	if (!s->agg || IOL_gen_start(s->agg, &context))
		return NULL;
	if (!IOL_gen_seek(context, s->at))
		IOL_gen_nextRd(context, &at, len);
	IOL_gen_end(context);
	return at;
}

/* The next aggregate and its first piece, of length 0 at the end. */
static int piece_read(struct stream *s, const char **at, size_t *len)
{
	size_t n;
	int err;

	agg_drop(s);
	err = IOL_read(s->fd, &s->agg, READ_SIZE, &n);
	if (err)
		return err;
	*at = piece_next(s, len);
	if (!*len)
		agg_drop(s);
	return 0;
}

static ssize_t stream_read(void *cookie, char *buf, size_t size)
{
	struct stream *s = cookie;
	bool ours = buf == s->file->_IO_buf_base;
	const char *at;
	size_t len;
	int err;

	if (s->plain || (s->file->_flags & UNBUFFERED && !s->agg))
		return read(s->fd, buf, size);
	at = piece_next(s, &len);
	if (!len) {
		/* Its buffer lies in what goes now. */
		if (ours)
			buffer_is(s->file, s->first, STREAM_BUFFER);
		err = piece_read(s, &at, &len);
		if (err)
			errno = -err;
		if (err || !len)
			return err ? -1 : 0;
	}
	if (ours && !(s->file->_flags & UNBUFFERED)) {
		buffer_is(s->file, (char *)at, len);
		s->at += len;
		return len;
	}
	/* Straight to the program's memory, as for a large fread. */
	len = IOL_copy_out(s->agg, s->at, buf, size);
	s->at += len;
	return len;
}

static bool write_all(struct stream *s, IOL_Agg *agg, size_t start, size_t len)
{
	struct IOL_Vec vec = { agg, start, len };
	size_t n;
	int err;

	for (; vec.length; vec.start += n, vec.length -= n) {
		err = IOL_write_vec(s->fd, &vec, 1, &n);
		if (err == -EINTR) {
			n = 0;
			continue;
		}
		if (err) {
			errno = -err;
			return false;
		}
	}
	return true;
}

/* An empty buffer, to which the library goes on when the present call is over. */
static bool fill_new(struct stream *s)
{
	IOL_Context *context;
	IOL_Agg *agg;
	size_t len;
	char *at;
	int err;

	err = IOL_create(IOL_DEF_ALLOC, &agg, STREAM_BUFFER);
	if (err) {
		errno = -err;
		return false;
	}
	err = IOL_gen_start(agg, &context);
	if (!err) {
		err = IOL_gen_nextWr(context, &at, &len);
		IOL_gen_end(context);
	}
	if (err) {
		IOL_destroy(agg);
		errno = -err;
		return false;
	}
	agg_drop(s);
	s->agg = agg;
	s->fill = at;
	s->file->_IO_buf_base = at;
	s->file->_IO_buf_end = at + len;
	return true;
}

/* Memory that is not our buffer: what a large fwrite passes on, or a buffer of the program's. */
static bool write_memory(struct stream *s, const char *data, size_t len)
{
	IOL_Agg *agg;
	bool ok;
	int err;

	err = IOL_from_memory(IOL_DEF_ALLOC, &agg, data, len);
	if (err) {
		errno = -err;
		return false;
	}
	ok = write_all(s, agg, 0, len);
	IOL_destroy(agg);
	return ok;
}

static ssize_t write_plain(int fd, const char *data, size_t len)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = write(fd, data + done, len - done);
		if (n < 0 && errno != EINTR)
			break;
		if (n > 0)
			done += n;
	}
	return done;
}

static ssize_t stream_write(void *cookie, const char *data, size_t len)
{
	struct stream *s = cookie;
	size_t part, done = 0;

	if (s->plain)
		return write_plain(s->fd, data, len);
	if (s->agg && data >= s->fill && data + len <= s->fill + STREAM_BUFFER) {
		if (!write_all(s, s->agg, data - s->fill, len))
			return 0;
		/* It is sealed now, or its contents went by value and nobody needs it. */
		return fill_new(s) ? len : 0;
	}
	for (; done < len; done += part) {
		part = len - done < READ_SIZE ? len - done : READ_SIZE;
		if (!write_memory(s, data + done, part))
			break;
	}
	return done;
}

static int stream_seek(void *cookie, off64_t *pos, int whence)
{
	struct stream *s = cookie;
	off64_t at;

	/* The descriptor is ahead by what we have not given out. */
	if (!s->writes && s->agg) {
		at = IOL_length(s->agg) - s->at;
		if (at && lseek64(s->fd, -at, SEEK_CUR) < 0)
			return -1;
		if (whence != SEEK_CUR || *pos || at) {
			/* The library's buffer lies in what goes: it reads anew. */
			s->at = IOL_length(s->agg);
		}
	}
	at = lseek64(s->fd, *pos, whence);
	if (at < 0)
		return -1;
	*pos = at;
	return 0;
}

static int stream_close(void *cookie)
{
	struct stream *s = cookie, **link;
	int err;

	pthread_mutex_lock(&streams_lock);
	for (link = &streams; *link != s; link = &(*link)->next)
		;
	*link = s->next;
	pthread_mutex_unlock(&streams_lock);
	agg_drop(s);
	IOL_flush();
	err = s->real ? fclose(s->real) : 0;
	/* All that the library does with its buffer from here on is to forget it. */
	free(s->first);
	free(s);
	return err;
}

/* Kinds of descriptor that pass references. A written file is copied into the page cache anyway. */
static bool gains(int fd, bool writes)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return false;
	return S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || (S_ISREG(st.st_mode) && !writes);
}

static void stream_begin(struct stream *s)
{
	setvbuf(s->file, s->first, _IOFBF, STREAM_BUFFER);
	/* For fileno(). */
	s->file->_fileno = s->fd;
	if (s->writes && fill_new(s)) {
		char *base = s->file->_IO_buf_base, *end = s->file->_IO_buf_end;

		buffer_is(s->file, base, end - base);
	}
}

FILE *stream_make(FILE *real, const char *mode)
{
	const cookie_io_functions_t calls = {
		.read = stream_read, .write = stream_write, .seek = stream_seek,
		.close = stream_close,
	};
	bool writes = *mode != 'r';
	struct stream *s;

	if (!real || strchr(mode, '+') || strchr(mode, ',') || !gains(fileno(real), writes))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->real = real;
	s->fd = fileno(real);
	s->writes = writes;
	s->first = malloc(STREAM_BUFFER);
	s->file = s->first ? fopencookie(s, writes ? "w" : "r", calls) : NULL;
	if (!s->file) {
		free(s->first);
		free(s);
		return NULL;
	}
	stream_begin(s);
	pthread_mutex_lock(&streams_lock);
	s->next = streams;
	streams = s;
	pthread_mutex_unlock(&streams_lock);
	return s->file;
}

struct stream *stream_of(FILE *file)
{
	struct stream *s;

	pthread_mutex_lock(&streams_lock);
	for (s = streams; s && s->file != file; s = s->next)
		;
	pthread_mutex_unlock(&streams_lock);
	return s;
}

/* As if it had just been made. */
static void stream_renew(struct stream *s, const char *mode)
{
	FILE *file = s->file;
	bool both = strchr(mode, '+');

	s->fd = fileno(s->real);
	s->writes = *mode != 'r';
	s->plain = true;
	file->_fileno = s->fd;
	file->_offset = -1;
	file->_flags &= ~FRESH_WITHOUT;
	file->_flags |= both ? 0 : s->writes ? NO_READS : NO_WRITES;
	if (file->_flags & UNBUFFERED)
		setvbuf(file, NULL, _IONBF, 0);
	else
		buffer_is(file, s->first, STREAM_BUFFER);
}

FILE *stream_reopen(struct stream *s, FILE *(*reopen)(const char *, const char *, FILE *),
		    const char *path, const char *mode)
{
	FILE *file = s->file;

	flockfile(file);
	fflush(file);
	__fpurge(file);
	/* The library's buffer lies in what goes. */
	buffer_is(file, s->first, STREAM_BUFFER);
	agg_drop(s);
	s->real = reopen(path, mode, s->real);
	if (s->real)
		stream_renew(s, mode);
	funlockfile(file);
	if (s->real)
		return file;
	fclose(file);
	return NULL;
}

/* What the library has in its buffer, and for one that reads what is behind it. */
static void stream_save(struct stream *s)
{
	FILE *f = s->file;
	const char *from = s->writes ? f->_IO_write_base : f->_IO_read_ptr;
	size_t here = (s->writes ? f->_IO_write_ptr : f->_IO_read_end) - from;
	size_t more = !s->writes && s->agg ? IOL_length(s->agg) - s->at : 0;

	s->saved = malloc(here + more + 1);
	if (!s->saved)
		return;
	memcpy(s->saved, from, here);
	if (more)
		IOL_copy_out(s->agg, s->at, s->saved + here, more);
	s->saved_len = here + more;
}

static void stream_restore(struct stream *s)
{
	size_t room = s->saved_len > STREAM_BUFFER ? s->saved_len : STREAM_BUFFER;
	char *buf = realloc(s->saved, room);

	s->plain = true;
	s->agg = NULL;
	if (buf) {
		free(s->first);
		s->first = buf;
	} else {
		buf = s->first;
		room = STREAM_BUFFER;
		s->saved_len = 0;
	}
	s->saved = NULL;
	buffer_is(s->file, buf, room);
	if (s->writes) {
		s->file->_IO_write_ptr = buf + s->saved_len;
		s->file->_IO_write_end = buf + room;
	} else {
		s->file->_IO_read_end = buf + s->saved_len;
	}
}

void streams_before_fork(void)
{
	struct stream *s;

	pthread_mutex_lock(&streams_lock);
	for (s = streams; s; s = s->next)
		if (!s->plain)
			stream_save(s);
}

void streams_in_parent(void)
{
	struct stream *s;

	for (s = streams; s; s = s->next) {
		free(s->saved);
		s->saved = NULL;
	}
	pthread_mutex_unlock(&streams_lock);
}

void streams_in_child(void)
{
	struct stream *s;

	for (s = streams; s; s = s->next)
		if (!s->plain)
			stream_restore(s);
	pthread_mutex_unlock(&streams_lock);
}
