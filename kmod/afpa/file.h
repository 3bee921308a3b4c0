/* SPDX-License-Identifier: GPL-2.0 */
/* Files whose page cache an object's body is. */
#ifndef AFPA_FILE_H
#define AFPA_FILE_H

#include <linux/bvec.h>
#include <linux/pagemap.h>
#include <net/sock.h>

#include "object.h"

/* What counts against the budget for the file, its name and its inode. */
#define AFPA_FILE_CHARGE	2048

/**
 * afpa_file_open() - a program's file becomes an object's
 * @fd:   the program's descriptor
 * @size: out: bytes of the file
 *
 * From here on until afpa_file_close() nobody opens the file for writing, nor truncates it
 * (ETXTBSY): so its bytes never change, as those of other objects. Who could not write to it
 * himself may not keep others from it. It is opened once more, so that what the program does with
 * its descriptor, and has locked by it, is its own matter.
 *
 * Context: process; may sleep.
 * Return: the file; ERR_PTR(-EBADF): not open for reading; -EINVAL: not a regular file, O_DIRECT,
 * or with holes in a tmpfs; -EOPNOTSUPP: of a file system whose pages may change by others' doing,
 * or that has none; -ETXTBSY: open for writing; -EACCES, -EPERM, -EROFS (only this mount is
 * read-only), or what a security module says.
 */
struct file *afpa_file_open(u64 fd, u64 *size);
/* Any context. */
void afpa_file_close(struct file *file);

/**
 * afpa_file_vecs() - a stretch of the file, as far as it is in memory
 * @file: file
 * @pos:  where it begins
 * @len:  its length; within the file
 * @vec:  to be filled, with a reference on each folio
 * @room: entries of @vec
 *
 * Context: any; takes no lock.
 * Return: entries used; they may cover less than @len, or nothing.
 */
unsigned int afpa_file_vecs(const struct file *file, u64 pos, u64 len, struct bio_vec *vec,
			    unsigned int room);

/* All of the stretch is in memory. Context: as afpa_file_vecs(). */
bool afpa_file_is_there(const struct file *file, u64 pos, u64 len);

/**
 * struct afpa_pins - a stretch of a file that stays in memory
 * @nr:    of @folio
 * @folio: with references
 */
struct afpa_pins {
	unsigned int nr;
	struct folio *folio[AFPA_CHUNK / PAGE_SIZE + 1];
};

/**
 * afpa_file_read() - has a stretch read into memory
 * @file: file
 * @pos:  where it begins
 * @len:  its length, at most AFPA_CHUNK; within the file
 * @sk:   whose memory cgroup pays for the pages, as if its program had read them
 * @pins: out: what keeps them there until afpa_pins_put(), which is called also after an error
 *
 * Context: process; sleeps for as long as the device takes.
 * Return: 0; -EIO, -ENOMEM, or what else the file system says.
 */
int afpa_file_read(struct file *file, u64 pos, u64 len, struct sock *sk, struct afpa_pins *pins);
void afpa_pins_put(struct afpa_pins *pins);

#endif
