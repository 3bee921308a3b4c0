// SPDX-License-Identifier: GPL-2.0
#include "textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE_MAX_TEXT (1 << 20)

FILE *textfile_open(const char *path, const char **why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	FILE *f = NULL;

	*why = NULL;
	if (fd < 0 || fstat(fd, &st))
		*why = strerror(errno);
	else if (S_ISDIR(st.st_mode))
		*why = strerror(EISDIR);
	else if (!S_ISREG(st.st_mode))
		*why = "it is not a regular file";
	else if (st.st_size > SIZE_MAX_TEXT)
		*why = "it is larger than 1 MB";
	else
		f = fdopen(fd, "r");
	if (f)
		return f;
	if (!*why)
		*why = strerror(errno);
	if (fd >= 0)
		close(fd);
	return NULL;
}

int textfile_line(FILE *f, char **line, size_t *cap, const char **why)
{
	ssize_t i, n;

	errno = 0;
	n = getline(line, cap, f);
	if (n < 0) {
		*why = strerror(errno);
		return feof(f) && !errno ? 0 : -1;
	}
	for (i = 0; i < n; i++) {
		unsigned char c = (*line)[i];

		if ((c >= ' ' && c != 0x7f) || c == '\t' || c == '\n' || c == '\r')
			continue;
		*why = "it is not text";
		return -1;
	}
	return 1;
}
