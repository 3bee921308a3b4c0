/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An open file with everything that is the same in each response that sends it: validators, the
 * response header and, when it is small, the contents right behind the header, so that one
 * send() of one buffer answers a request.
 */
#ifndef FLASH_FILE_H
#define FLASH_FILE_H

#include <stdint.h>
#include <sys/stat.h>

#include "httpdate.h"
#include "request.h"
#include "tools/base/list.h"

struct conf;
struct vhost;
struct file_read;
struct mapping;

enum encoding { ENC_IDENTITY, ENC_GZIP, ENC_BROTLI, ENC_COUNT };

/* What tells one state of a file from another. */
struct file_id {
	uint64_t dev, ino, size;
	int64_t mtime_ns, ctime_ns;
};

/* The date stands at a fixed place of every header: "HTTP/1.1 200 OK\r\nDate: ". */
#define HEADER_DATE 23

/**
 * struct file
 * @refs:      holders: path cache entries, responses; under the cache's lock when it is shared
 * @block:     header of a 200 that leaves the connection open, then @body_len bytes of contents
 * @date:      second for which the date in @block holds; loop's thread only
 * @body_len:  0, or the whole size when the contents are in memory
 * @used:      set on use, cleared by the eviction hand
 * @memory_fs: a residency test found that its file system has no disk; loop's thread only
 * @reads:     reads of helpers in progress
 *
 * All else never changes after file_create().
 */
struct file {
	struct list hash_node;
	unsigned int refs;
	int fd;			/* -1 when the contents are in memory */
	struct file_id id;
	const struct vhost *vhost;
	const char *mime;
	uint8_t encoding;
	bool vary, weak, hashed, memory_fs;
	char *block;
	uint32_t head_len;
	uint64_t body_len;
	uint64_t tested_to;	/* of the contents: there once, or brought since */
	time_t date;
	time_t mtime;
	struct slice etag;
	char etag_text[56];
	char last_modified[HTTPDATE_LEN];
	struct list reads;	/* of struct file_read */
	struct list maps;	/* of struct mapping */
};

struct header_options {
	int status;
	uint64_t length;		/* Content-Length */
	const char *content_range;	/* value, or NULL */
	const char *content_type;	/* instead of the file's, or NULL */
	const char *date;
	bool align;
};

#define HEADER_MAX 4096		/* any response header, with the vhost's own lines (2048) */

/* Takes @fd, even on failure. Runs anywhere. */
struct file *file_create(const struct conf *conf, const struct vhost *vhost, int fd,
			 const struct file_id *id, const char *mime, enum encoding enc, bool vary);

/* The same for contents made by the server (a directory listing); they are copied. */
struct file *file_create_generated(const struct conf *conf, const struct vhost *vhost,
				   const struct file_id *id, const char *mime, const char *body,
				   size_t len);
void file_destroy(struct file *f);

void file_identify(struct file_id *id, const struct stat *st);

/*
 * Reads the contents behind the header. @nowait: only what is in the page cache.
 * Return: 0, -EAGAIN, -ESTALE (the size changed meanwhile) or another negative errno.
 */
int file_load(struct file *f, bool nowait);

bool file_on_memory_fs(int fd);

/* Header of a response about @f, ending in the empty line; @out has HEADER_MAX bytes. */
size_t header_file(char *out, const struct file *f, const struct header_options *opt);

const char *status_text(int status);

#endif
