/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FLASH_VHOST_H
#define FLASH_VHOST_H

#include "config.h"

struct vhost *vhost_new(struct conf *conf);
struct vhost *vhost_add(struct conf *conf, char **names, int n);
/* 1: not a directive of a virtual host; -1: said on stderr what is wrong. */
int vhost_set(struct conf *conf, struct vhost *vhost, char **words, int n, const char *where);
int vhost_finish(struct conf *conf);
void vhost_free_all(struct conf *conf);
void vhost_help(FILE *out);
void vhost_show(const struct conf *conf, FILE *out);

/* The program that answers for a decoded path, or NULL. */
const struct app *vhost_app(const struct vhost *vhost, const char *name);
/*
 * Would a file of this name be a program's text? On any host, and also where only a file system
 * that folds case or drops dots and blanks at the end of names would find it.
 */
bool vhost_program_text(const struct conf *conf, const char *name);
/* Does a file of this whole name, which has no links, and mode lie where some host's programs do? */
bool vhost_program_place(const struct conf *conf, const char *name, unsigned int mode);

const struct error_page *vhost_error_page(const struct vhost *vhost, int status);

#endif
