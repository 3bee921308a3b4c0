/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The nodes: from the kernel's table where flotilla.ko is loaded, from the configuration file, or
 * both (a node line with the name of a kernel node says where its web server is, for proxying).
 */
#ifndef LARD_NODES_H
#define LARD_NODES_H

#include <stdbool.h>
#include <stdint.h>
#include <flotilla/flotilla.h>
#include "address.h"
#include "loop.h"
#include "policy.h"

struct config;
struct config_node;
struct flt_node_info;
struct lardd;
struct worker;
struct health;

/**
 * struct lardd_node - one slot
 * @kernel_id:  its number in the kernel's table; 0: it takes no handoffs
 * @in_kernel:  state, weight and admin come from the kernel
 * @in_config:  has a node line
 * @address:    of its web server; port 0: that of the client's connection
 * @up:         what the link or the health check says
 * @why:        and why not, in a few words
 * @faults:     refusals in a row; see nodes_fault()
 * @taken:      lard_taken() when it last refused: what it takes of the kernel ends a row, too
 * @suspended:  taken out by nodes_fault() until then; 0: not
 * @deaf:       of HTTP/1.1 and HTTP/2 over TLS; see nodes_deaf()
 * @health:     its checks, if it has any; worker 0's
 *
 * All under lardd->lock.
 */
struct lardd_node {
	bool used;
	bool in_kernel;
	bool in_config;
	bool seen;
	bool up;
	bool proxy_protocol;
	char name[LARD_NAME_MAX];
	char why[64];
	uint32_t kernel_id;
	union address address;
	unsigned int faults;
	uint64_t taken;
	uint64_t suspended;
	struct {
		unsigned int faults;
		uint64_t until;
	} deaf[2];
	struct health *health;
};

struct nodes {
	struct lardd_node at[LARD_MAX_NODES];
};

/* By enum lard_admin. */
extern const char *const node_admin_names[];

/*
 * Node lines; what is no longer there goes first. Worker 0. 0, or for how many there is no room, with nothing
 * changed: not when there are no others yet.
 */
int nodes_configure(struct lardd *lardd, const struct config *config);
void nodes_exit(struct lardd *lardd);

/* From the kernel; worker 0. */
void nodes_kernel_begin(struct lardd *lardd);
void nodes_kernel_add(struct lardd *lardd, const struct flt_node_info *info);
void nodes_kernel_end(struct lardd *lardd);
void nodes_kernel_remove(struct lardd *lardd, uint32_t kernel_id);
/* Nodes that the kernel's automatic limit counts: back-ends up and active. */
unsigned int nodes_kernel_count(struct lardd *lardd);

/* What a health check has found; worker 0. */
void nodes_health(struct lardd *lardd, int slot, bool up, const char *why);

/*
 * A node refused a connection (@why: enum flt_refusal, or 0: connecting to it failed). Several in a
 * row, of a kind that says that its server is gone, suspend it for a second.
 */
void nodes_fault(struct worker *w, int slot, unsigned int why);
void nodes_fine(struct worker *w, int slot);
/*
 * A node has no listener of its for connections of TLS (@http2: of that), which says nothing of its
 * others. After several in a row none is offered to it for a second.
 */
void nodes_deaf(struct worker *w, int slot, bool http2);
bool nodes_hears(struct worker *w, int slot, bool http2);
/* It has taken one. */
void nodes_heard(struct worker *w, int slot, bool http2);
/* Once a second, worker 0: end suspensions that are over. */
void nodes_tick(struct lardd *lardd, uint64_t now);

/* Where to proxy for it; false: nowhere known. */
bool nodes_address(struct worker *w, int slot, uint16_t port, union address *address,
		   bool *proxy_protocol);

#endif
