// SPDX-License-Identifier: GPL-2.0
#include "tls_file.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "host.h"

#define FILE_MAX	(1 << 20)

int tls_file_sorry(const struct tls_file *f, const char *why)
{
	snprintf(f->error, f->size, "%s: %s: %s", f->what, f->path, why);
	return -EINVAL;
}

int tls_file_sorry_ssl(const struct tls_file *f, const char *what)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());
	char why[256];

	snprintf(why, sizeof(why), "%s%s%s", what, reason ? ": " : "", reason ? reason : "");
	return tls_file_sorry(f, why);
}

static int check_file(const struct tls_file *f, const struct stat *st, bool secret)
{
	if (!S_ISREG(st->st_mode))
		return tls_file_sorry(f, "it is not a regular file");
	if (st->st_size > FILE_MAX)
		return tls_file_sorry(f, "it is longer than 1 MiB");
	if (!secret)
		return 0;
	if (st->st_mode & 077)
		return tls_file_sorry(f, "others may read the key: chmod 600, and make a new one");
	if (st->st_uid && st->st_uid != geteuid() && !tls_host_is_user(st->st_uid))
		return tls_file_sorry(f, "the key is another user's, who knows it: make a new one");
	return 0;
}

/* Root reads at the start what the user whom it becomes may not: a reload would find out. */
static int cannot_open(const struct tls_file *f, int err)
{
	const char *name = tls_host_user();
	char why[256];

	if (err != EACCES || !name)
		return tls_file_sorry(f, strerror(err));
	snprintf(why, sizeof(why), "user %s, as whom lardd reads it, may not: "
		 "make it that user's, or restart lardd as root", name);
	return tls_file_sorry(f, why);
}

/* All of a file, in the heap. */
static char *read_all(const struct tls_file *f, bool secret, size_t *len)
{
	int fd = tls_host_open(f->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	char *text = NULL;
	ssize_t n = -1;

	if (fd < 0 || fstat(fd, &st)) {
		cannot_open(f, errno);
	} else if (!check_file(f, &st, secret)) {
		/* From here on no other process of our user looks into this one, nor does a core file show it. */
		if (secret)
			prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
		text = OPENSSL_malloc(st.st_size + 1);
		n = text ? read(fd, text, st.st_size) : -1;
		if (n < 0)
			tls_file_sorry(f, text ? strerror(errno) : "no memory");
	}
	if (fd >= 0)
		close(fd);
	if (n < 0) {
		OPENSSL_free(text);
		return NULL;
	}
	*len = n;
	return text;
}

int tls_file_use(const struct tls_file *f, bool secret,
		 int (*use)(const struct tls_file *f, void *to, BIO *from), void *to)
{
	int err = -ENOMEM;
	size_t len;
	char *text;
	BIO *bio;

	ERR_clear_error();
	text = read_all(f, secret, &len);
	if (!text)
		return -EINVAL;
	bio = BIO_new_mem_buf(text, len);
	if (bio)
		err = use(f, to, bio);
	else
		tls_file_sorry(f, "no memory");
	BIO_free(bio);
	OPENSSL_clear_free(text, len + 1);
	ERR_clear_error();
	return err;
}
