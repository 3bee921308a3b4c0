/* SPDX-License-Identifier: GPL-2.0 */
/* Blocks looked up as pages of files, the way the exporter's own reads see them. */
#ifndef CARD_FILE_H
#define CARD_FILE_H

#include "serve.h"

/*
 * Finds pages of the request in the page cache of the file that @s->file names; with
 * CARD_REQ_KEEP pages that are not there are read into it by the file system.
 * What cannot be found this way is left to others. Sleeps.
 */
void card_file_lookup(struct card_serve *s);

/* The asker's side: names the file that a request reads, if it reads one of @bdev's. */
bool card_file_of(const struct block_device *bdev, struct request *rq,
		  struct card_wire_file *file);

#endif
