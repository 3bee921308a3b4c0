// SPDX-License-Identifier: GPL-2.0
#include "file.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "config.h"

#define ALIGN 32
#define SERVER "Server: flash"

const char *status_text(int status)
{
	switch (status) {
	case 200: return "OK";
	case 204: return "No Content";
	case 206: return "Partial Content";
	case 301: return "Moved Permanently";
	case 304: return "Not Modified";
	case 308: return "Permanent Redirect";
	case 400: return "Bad Request";
	case 403: return "Forbidden";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 408: return "Request Timeout";
	case 411: return "Length Required";
	case 412: return "Precondition Failed";
	case 413: return "Content Too Large";
	case 414: return "URI Too Long";
	case 416: return "Range Not Satisfiable";
	case 417: return "Expectation Failed";
	case 431: return "Request Header Fields Too Large";
	case 500: return "Internal Server Error";
	case 501: return "Not Implemented";
	case 502: return "Bad Gateway";
	case 503: return "Service Unavailable";
	case 504: return "Gateway Timeout";
	case 505: return "HTTP Version Not Supported";
	}
	return "Unknown";
}

static char *put(char *o, const char *text, size_t len)
{
	memcpy(o, text, len);
	return o + len;
}

static char *put_text(char *o, const char *text)
{
	return put(o, text, strlen(text));
}

static char *put_number(char *o, uint64_t n)
{
	char digits[20];
	int i = 20;

	do {
		digits[--i] = '0' + n % 10;
		n /= 10;
	} while (n);
	return put(o, digits + i, 20 - i);
}

/* Blanks after the value of Server: bring the length to a multiple of ALIGN (Pai, 4.4.5). */
static char *pad(char *out, char *o, char *server_end)
{
	size_t n = -(size_t)(o - out) % ALIGN;

	memmove(server_end + n, server_end, o - server_end);
	memset(server_end, ' ', n);
	return o + n;
}

size_t header_file(char *out, const struct file *f, const struct header_options *opt)
{
	char *o = out, *server_end;

	o = put_text(o, "HTTP/1.1 ");
	o = put_number(o, opt->status);
	*o++ = ' ';
	o = put_text(o, status_text(opt->status));
	o = put_text(o, "\r\nDate: ");
	o = put(o, opt->date, HTTPDATE_LEN);
	o = put_text(o, "\r\n" SERVER);
	server_end = o;
	o = put_text(o, "\r\n");
	if (opt->status != 304) {
		o = put_text(o, "Content-Type: ");
		o = put_text(o, opt->content_type ? opt->content_type : f->mime);
		o = put_text(o, "\r\nContent-Length: ");
		o = put_number(o, opt->length);
		o = put_text(o, "\r\n");
		if (f->encoding != ENC_IDENTITY)
			o = put_text(o, f->encoding == ENC_GZIP ? "Content-Encoding: gzip\r\n"
								: "Content-Encoding: br\r\n");
	}
	if (opt->content_range) {
		o = put_text(o, "Content-Range: ");
		o = put_text(o, opt->content_range);
		o = put_text(o, "\r\n");
	}
	o = put_text(o, "Last-Modified: ");
	o = put(o, f->last_modified, HTTPDATE_LEN);
	o = put_text(o, "\r\nETag: ");
	o = put(o, f->etag.p, f->etag.len);
	o = put_text(o, "\r\n");
	if (opt->status != 304)
		o = put_text(o, "Accept-Ranges: bytes\r\n");
	if (f->vary)
		o = put_text(o, "Vary: Accept-Encoding\r\n");
	o = put(o, f->vhost->headers ? f->vhost->headers : "", f->vhost->headers_len);
	o = put_text(o, "\r\n");
	if (opt->align)
		o = pad(out, o, server_end);
	return o - out;
}

void file_identify(struct file_id *id, const struct stat *st)
{
	id->dev = st->st_dev;
	id->ino = st->st_ino;
	id->size = st->st_size;
	id->mtime_ns = st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec;
	id->ctime_ns = st->st_ctim.tv_sec * 1000000000ll + st->st_ctim.tv_nsec;
}

static struct file *file_new(const struct conf *conf, const struct vhost *vhost,
			     const struct file_id *id, const char *mime, enum encoding enc,
			     bool vary, bool weak, bool in_memory)
{
	static const char no_date[HTTPDATE_LEN + 1] = "Thu, 01 Jan 1970 00:00:00 GMT";
	struct header_options opt = {
		.status = 200, .length = id->size, .date = no_date, .align = conf->header_align,
	};
	struct file *f = calloc(1, sizeof(*f));
	char head[HEADER_MAX];

	if (!f)
		return NULL;
	f->refs = 1;
	f->fd = -1;
	f->id = *id;
	f->vhost = vhost;
	f->mime = mime;
	f->encoding = enc;
	f->vary = vary;
	f->weak = weak;
	f->mtime = id->mtime_ns / 1000000000;
	list_init(&f->reads);
	list_init(&f->maps);
	list_init(&f->hash_node);
	httpdate_format(f->mtime, f->last_modified);
	f->etag.p = f->etag_text;
	f->etag.len = snprintf(f->etag_text, sizeof(f->etag_text), "%s\"%llx-%llx%s\"",
			       weak ? "W/" : "", (unsigned long long)id->mtime_ns,
			       (unsigned long long)id->size,
			       enc == ENC_GZIP ? "g" : enc == ENC_BROTLI ? "b" : "");
	f->head_len = header_file(head, f, &opt);
	f->body_len = in_memory ? id->size : 0;
	if (posix_memalign((void **)&f->block, ALIGN, f->head_len + f->body_len + 1)) {
		free(f);
		return NULL;
	}
	memcpy(f->block, head, f->head_len);
	return f;
}

struct file *file_create(const struct conf *conf, const struct vhost *vhost, int fd,
			 const struct file_id *id, const char *mime, enum encoding enc, bool vary)
{
	struct file *f = file_new(conf, vhost, id, mime, enc, vary, false,
				  conf->map_cache && id->size <= conf->memory_file);

	if (!f)
		close(fd);
	else
		f->fd = fd;
	return f;
}

struct file *file_create_generated(const struct conf *conf, const struct vhost *vhost,
				   const struct file_id *id, const char *mime, const char *body,
				   size_t len)
{
	struct file_id own = *id;
	struct file *f;

	own.size = len;
	f = file_new(conf, vhost, &own, mime, ENC_IDENTITY, false, true, true);
	if (f)
		memcpy(f->block + f->head_len, body, len);
	return f;
}

void file_destroy(struct file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	free(f->block);
	free(f);
}

/* Always in memory; some of these refuse RWF_NOWAIT all the same. */
bool file_on_memory_fs(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

int file_load(struct file *f, bool nowait)
{
	char *body = f->block + f->head_len;
	struct iovec iov;
	uint64_t got = 0;
	ssize_t n;

	if (f->fd < 0 || (!f->body_len && f->id.size))
		return 0;
	/* One byte more than expected: a file that has grown is noticed. */
	while (got <= f->body_len) {
		iov.iov_base = body + got;
		iov.iov_len = f->body_len + 1 - got;
		n = preadv2(f->fd, &iov, 1, got, nowait ? RWF_NOWAIT : 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && nowait && errno == EOPNOTSUPP) {
			if (!file_on_memory_fs(f->fd))
				return -EAGAIN;
			nowait = false;
			continue;
		}
		if (n < 0)
			return -errno;
		if (!n)
			break;
		got += n;
	}
	if (got != f->body_len)
		return -ESTALE;
	close(f->fd);
	f->fd = -1;
	return 0;
}
