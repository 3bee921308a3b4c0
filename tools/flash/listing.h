/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FLASH_LISTING_H
#define FLASH_LISTING_H

#include "file.h"

/* An HTML page of what is in directory @fd, known to the client as @name. 0 or an errno. */
int listing_create(const struct conf *conf, const struct vhost *vhost, int fd, const char *name,
		   struct file **out);

#endif
