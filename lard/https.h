/* SPDX-License-Identifier: GPL-2.0 */
/* What the configuration says of HTTPS: its directives, and what of an answer they rule. */
#ifndef LARD_HTTPS_H
#define LARD_HTTPS_H

#include <stdbool.h>
#include "config.h"
#include "message.h"

struct conn;
struct reader;

/* How many words at the end of a listen line say what @door it is. */
int https_door(int argc, char **argv, enum config_door *door);
int https_set_certificate(struct reader *r, int argc, char **argv);
int https_set_certificates(struct reader *r, int argc, char **argv);
int https_set_redirect(struct reader *r, int argc, char **argv);
int https_set_hsts(struct reader *r, int argc, char **argv);
/* What no single line is to blame for; NULL: nothing is wrong. */
const char *https_check(const struct config *config);

/* Where HTTPS is served; 0: nowhere. */
uint16_t https_port(const struct config *config);
/* By whose listener @conn would be taken; 0: it is not handed off. */
uint16_t https_give_port(const struct conn *conn);
/* Strict-Transport-Security with its line end, as far as @conn gets one; returns @out. */
const char *https_hsts(const struct conn *conn, char *out, size_t size);
/* Is it a field of an answer that lardd alone says? */
bool https_says(const struct config *config, const struct field *field);

#endif
