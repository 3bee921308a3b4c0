/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files that a configuration is made of, line by line. They are regular files of a size that somebody
 * may have written: a FIFO would stop the server at a reload, a device never end.
 */
#ifndef FLASH_TEXTFILE_H
#define FLASH_TEXTFILE_H

#include <stdio.h>

/* Opened for reading. NULL: it cannot be, *@why says the reason. */
FILE *textfile_open(const char *path, const char **why);

/* As getline(3). 1: a line; 0: the end; -1: no text (a NUL or control character), or an error; *@why. */
int textfile_line(FILE *f, char **line, size_t *cap, const char **why);

#endif
