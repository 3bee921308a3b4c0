/* SPDX-License-Identifier: GPL-2.0 */
/* The load, and what it shares with the server. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ACTIVE		100
#define REQUEST		64
#define ANSWER_MAX	(128 << 10)
#define PORT		8080
#define ASKED_MAX	256

/**
 * struct shown - memory that both have
 * @size:     of an answer
 * @calls:    the server's, for readiness
 * @served:   answers
 * @accepted: connections
 * @tell:     the load says in @asked which connection asks (by order of accept()): for the floor
 * @told:     how many were put there; a futex
 * @waits:    the server sleeps on @told
 */
struct shown {
	unsigned int size;
	uint64_t calls;
	uint64_t served;
	uint64_t accepted;
	bool tell;
	bool waits;
	uint32_t told;
	uint32_t asked[ASKED_MAX];
};

extern struct shown *shown;

/**
 * struct load - what is asked
 * @idle:     connections that never ask
 * @requests: to measure; a quarter more before
 * @width:    of a burst, or always under way
 * @always:   the next is asked as soon as one is answered, and the server never runs out of work
 * @announce: say "begin" before what is measured, for who counts from outside
 */
struct load {
	unsigned int idle;
	unsigned int requests;
	unsigned int width;
	bool always;
	bool announce;
};

/* One of "1,10,10+", and goes on to the next; false: that is none. */
bool load_parse(struct load *load, const char **text);
/* Has that many connections, and the server has accepted them. */
void load_connect(unsigned int wanted);
/* Prints a line. */
void load_measure(const struct load *load, const char *layer, pid_t server);

void broken(const char *what) __attribute__((noreturn));

#endif
