/* SPDX-License-Identifier: GPL-2.0 */
/* What is said about a configuration: whatever is in it, a message is one line and steers no terminal. */
#ifndef FLASH_MESSAGE_H
#define FLASH_MESSAGE_H

/* "flash: " and the text on standard error; what does not print is \xHH as in the access log. Returns -1. */
int message(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
