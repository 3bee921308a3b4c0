/* SPDX-License-Identifier: GPL-2.0 */
/* Mutated requests and gets: for what judges the parsers, and for what is sent to the kernel. */
#ifndef AFPA_MUTATE_H
#define AFPA_MUTATE_H

#include <stddef.h>
#include <stdint.h>

#define MUTATE_ROOM	1024

/* A number below @n. */
unsigned int draw(uint64_t *seed, unsigned int n);

/*
 * Into @text, of MUTATE_ROOM bytes: out of pieces, so that many are nearly right, and some are.
 * Return: the length.
 */
size_t mutate_request(uint64_t *seed, char *text);
size_t mutate_get(uint64_t *seed, char *text);

/* The same, with nothing wrong. */
size_t sound_request(uint64_t *seed, char *text);
size_t sound_get(uint64_t *seed, char *text);

/* Keys are this one's beginnings, of sound gets 1 to MUTATE_SOUND_MAX bytes of it. */
#define MUTATE_KEY	"01234567890123456789012345678"
#define MUTATE_KEY_MAX	29
#define MUTATE_SOUND_MAX	20

#endif
