/* SPDX-License-Identifier: GPL-2.0 */
/* What the configuration says of HTTPS, in the words that lardd has for it. */
#ifndef FLASH_HTTPS_H
#define FLASH_HTTPS_H

#include <stdio.h>

#include "config.h"
#include "response.h"

/* Each: 0, or -1 with the reason in @why, of @size bytes. @words: those behind the directive's name. */
int https_set_certificate(struct conf *conf, char **words, int n, char *why, size_t size);
int https_set_certificates(struct conf *conf, char **words, int n, char *why, size_t size);
int https_set_redirect(struct conf *conf, char **words, int n, char *why, size_t size);
int https_set_hsts(struct conf *conf, char **words, int n, char *why, size_t size);
/* What is behind an address that is listened on. -1: nothing that is known. */
int https_door(char **words, int n);
const char *https_door_text(unsigned int door);

/* What no single line is to blame for; NULL: nothing is wrong. */
const char *https_check(struct conf *conf);
/* Reads the certificates, if a listener needs them. 0, or -1 after a message. */
int https_load(struct conf *conf);
void https_show(const struct conf *conf, FILE *out);

/* Of an answer to @c, with its line end; "": none is due. */
#define HTTPS_HSTS_MAX 128
const char *https_hsts(const struct conn *c);
/* @c came to an address that only leads to HTTPS. False: it may have its answer in clear text. */
bool https_redirects(const struct conn *c, const struct request *req);
enum verdict https_redirect(struct conn *c, struct request *req, bool more);

#endif
