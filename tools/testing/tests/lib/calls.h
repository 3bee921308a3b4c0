/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random calls against the project's devices and netlink families: descriptors in a pool that all
 * threads of a process share, arguments half right and half nonsense, in an arena of the thread's own.
 */
#ifndef FLT_TEST_CALLS_H
#define FLT_TEST_CALLS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define POOL		48
#define ARENA		(256 << 10)

enum call_kind {
	CALL_OPEN, CALL_SOCKETS, CALL_CLOSE, CALL_DUP, CALL_PASS, CALL_FORK, CALL_MAP, CALL_UNMAP,
	CALL_TOUCH, CALL_READ, CALL_WRITE, CALL_POLL, CALL_OPTION, CALL_MOVE, CALL_GENL, CALL_CARD, CALL_SYSCTL,
	CALL_HANDOFF, CALL_IOLITE, CALL_SPLICE, CALL_USELECT, CALL_AFPA, CALL_NONSENSE, CALL_KINDS
};

extern const char *const call_names[CALL_KINDS];

/**
 * struct caller - one thread that makes calls
 * @rng:   its dice; the seed decides all that it does, but for what others do meanwhile
 * @arena: where its arguments lie
 * @made:  calls of each kind
 * @good:  those that did not fail
 * @total: calls; read by who watches
 * @last:  kind and descriptor of the last one, for who finds it hanging
 * @netlink: a generic netlink socket of its own, so that answers are to what it asked
 * @maps:  regions of devices
 */
struct caller {
	uint64_t rng;
	unsigned char *arena;
	unsigned long made[CALL_KINDS], good[CALL_KINDS];
	unsigned long total;
	unsigned int last;
	int netlink;
	struct {
		void *at;
		size_t length;
	} maps[4];
};

/* The pool and what stays open; before the first thread. */
int calls_init(void);
void calls_begin(struct caller *c, uint64_t seed);
/* Memory with nothing near it, since calls with wrong lengths write past their end; or NULL. */
void *apart(size_t length, int flags);
void calls_one(struct caller *c);
void calls_end(struct caller *c);

/* Id of a generic netlink family, or -1. */
int genl_family(int fd, const char *name);

/* What calls.c, devices.c and genl.c share. */
enum what { ANYTHING, IOLITE, USELECT, SPLICE, HANDOFF, AFPA, TCP, PIPE };
extern struct sockaddr_in listening;
uint32_t dice(struct caller *c, uint32_t sides);
uint64_t odd_number(struct caller *c);
uint64_t address(struct caller *c);
int some_fd(struct caller *c);
int one_of(struct caller *c, enum what tag);
bool keep_as(struct caller *c, int fd, enum what tag);
/* A message to @family (0: flotilla, 1: flotilla_card), now and then to the kernel's own; whether it was obeyed. */
bool call_genl(struct caller *c, int fd, unsigned int family);
bool open_device(struct caller *c);
bool ask_handoff(struct caller *c);
bool ask_iolite(struct caller *c);
bool ask_splice(struct caller *c);
bool ask_uselect(struct caller *c);
bool ask_afpa(struct caller *c);
bool nonsense(struct caller *c);
bool touch(struct caller *c);

#endif
