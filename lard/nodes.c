// SPDX-License-Identifier: GPL-2.0
/* The node table of the daemon; keeps the engine's in step. */
#include <errno.h>
#include <flotilla.h>
#include <stdio.h>
#include <string.h>
#include "early.h"
#include "health.h"
#include "nodes.h"
#include "worker.h"

#define FAULTS		3
#define SUSPEND_US	1000000

const char *const node_admin_names[] = { "active", "drain", "maintenance" };

static void wake_queue(struct lardd *lardd)
{
	lardd->worker[0]->room = true;
}

static uint64_t now(struct lardd *lardd)
{
	return lardd->worker[0]->loop.now;
}

/* Under the lock: tell the engine what the node's state is by all we know. */
static void settle(struct lardd *lardd, int slot)
{
	struct lardd_node *node = &lardd->nodes.at[slot];
	bool up = node->up && !node->suspended;
	struct lard_node_info info;

	if (!lard_node_get(lardd->engine, slot, &info) || (info.state == LARD_UP) == up)
		return;
	lard_node_state(lardd->engine, slot, up ? LARD_UP : LARD_DOWN, now(lardd));
	wake_queue(lardd);
	log_info(up ? "node-up" : "node-down", "node=%s nodes=%u limit=%u", node->name,
		 lard_nodes(lardd->engine), lard_limit(lardd->engine));
}

static void set_admin(struct lardd *lardd, int slot, enum lard_admin admin)
{
	struct lard_node_info info;

	if (!lard_node_get(lardd->engine, slot, &info) || info.admin == admin)
		return;
	lard_node_admin(lardd->engine, slot, admin, now(lardd));
	log_info("node-admin", "node=%s admin=%s", info.name, node_admin_names[admin]);
}

/* Under the lock. */
static int slot_of(struct lardd *lardd, const char *name)
{
	int slot = lard_node_find(lardd->engine, name);

	if (slot >= 0)
		return slot;
	slot = lard_node_add(lardd->engine, name, 100, now(lardd));
	if (slot < 0) {
		log_error("node-refused", "node=%s error=%d", name, -slot);
		return slot;
	}
	lardd->nodes.at[slot] = (struct lardd_node){ .used = true };
	strcpy(lardd->nodes.at[slot].name, name);
	log_info("node-added", "node=%s", name);
	return slot;
}

/* Under the lock. */
static void remove_slot(struct lardd *lardd, int slot)
{
	struct lardd_node *node = &lardd->nodes.at[slot];

	log_info("node-removed", "node=%s", node->name);
	health_stop(node->health);
	lard_node_del(lardd->engine, slot, now(lardd));
	*node = (struct lardd_node){ 0 };
	early_node(lardd, slot);
}

static void configure_one(struct lardd *lardd, const struct config *config,
			  const struct config_node *given)
{
	int slot = slot_of(lardd, given->name);
	struct lardd_node *node;
	bool fresh;

	if (slot < 0)
		return;
	node = &lardd->nodes.at[slot];
	fresh = !node->in_config && !node->in_kernel;
	/* Until the first check says otherwise: a restart must not refuse who comes before it. */
	if (fresh)
		node->up = true;
	node->in_config = true;
	node->address = given->address;
	node->proxy_protocol = given->proxy_protocol;
	health_stop(node->health);
	node->health = NULL;
	if (node->in_kernel)
		return;
	lard_node_weight(lardd->engine, slot, given->weight, now(lardd));
	set_admin(lardd, slot, given->admin);
	if (config->health.kind == HEALTH_NONE)
		node->up = true;
	else
		node->health = health_start(lardd, slot, &given->address, &config->health, node->up,
					    fresh);
	settle(lardd, slot);
}

static bool is_named(const struct config *config, const char *name)
{
	unsigned int i;

	for (i = 0; i < config->node_count; i++)
		if (!strcmp(config->nodes[i].name, name))
			return true;
	return false;
}

/* Under the lock: the configuration has it no more. */
static bool leaves_config(const struct lardd_node *node, const struct config *config)
{
	return node->used && node->in_config && !is_named(config, node->name);
}

/* Under the lock: how many of its nodes would find no slot. One that goes keeps its own while it has load. */
static int lacking(struct lardd *lardd, const struct config *config)
{
	const struct lardd_node *at = lardd->nodes.at;
	struct lard_node_info info;
	unsigned int i;
	int lack = 0;

	for (i = 0; i < config->node_count; i++)
		lack += lard_node_find(lardd->engine, config->nodes[i].name) < 0;
	for (i = 0; i < LARD_MAX_NODES; i++)
		lack -= !lard_node_get(lardd->engine, i, &info) ||
			(leaves_config(&at[i], config) && !at[i].in_kernel && !info.load);
	return lack > 0 ? lack : 0;
}

int nodes_configure(struct lardd *lardd, const struct config *config)
{
	struct lardd_node *at = lardd->nodes.at;
	unsigned int i;
	int lack;

	pthread_mutex_lock(&lardd->lock);
	lack = lacking(lardd, config);
	if (lack)
		goto out;
	for (i = 0; i < LARD_MAX_NODES; i++) {
		if (!leaves_config(&at[i], config))
			continue;
		at[i].in_config = false;
		if (!at[i].in_kernel)
			remove_slot(lardd, i);
	}
	for (i = 0; i < config->node_count; i++)
		configure_one(lardd, config, &config->nodes[i]);
out:
	pthread_mutex_unlock(&lardd->lock);
	return lack;
}

void nodes_exit(struct lardd *lardd)
{
	unsigned int i;

	for (i = 0; i < LARD_MAX_NODES; i++)
		if (lardd->nodes.at[i].used)
			health_stop(lardd->nodes.at[i].health);
}

void nodes_kernel_begin(struct lardd *lardd)
{
	unsigned int i;

	pthread_mutex_lock(&lardd->lock);
	for (i = 0; i < LARD_MAX_NODES; i++)
		lardd->nodes.at[i].seen = false;
	pthread_mutex_unlock(&lardd->lock);
}

/* Under the lock: the kernel no longer has it. */
static void leave_kernel(struct lardd *lardd, int slot)
{
	struct lardd_node *node = &lardd->nodes.at[slot];

	node->in_kernel = false;
	node->kernel_id = 0;
	early_node(lardd, slot);
	if (!node->in_config) {
		remove_slot(lardd, slot);
		return;
	}
	node->up = false;
	strcpy(node->why, "the kernel's table has it no more");
	settle(lardd, slot);
}

static int find_kernel_id(struct lardd *lardd, uint32_t id)
{
	int slot;

	for (slot = 0; slot < LARD_MAX_NODES; slot++)
		if (lardd->nodes.at[slot].in_kernel && lardd->nodes.at[slot].kernel_id == id)
			return slot;
	return -1;
}

void nodes_kernel_add(struct lardd *lardd, const struct flt_node_info *info)
{
	struct lardd_node *node;
	int slot;

	pthread_mutex_lock(&lardd->lock);
	slot = find_kernel_id(lardd, info->id);
	if (info->role != FLT_ROLE_BACKEND) {
		if (slot >= 0)
			leave_kernel(lardd, slot);
		goto out;
	}
	slot = slot_of(lardd, info->name);
	if (slot < 0)
		goto out;
	node = &lardd->nodes.at[slot];
	node->seen = true;
	node->in_kernel = true;
	node->kernel_id = info->id;
	early_node(lardd, slot);
	if (node->health) {
		health_stop(node->health);
		node->health = NULL;
	}
	if (!node->in_config) {
		memcpy(&node->address, &info->addr, sizeof(node->address));
		address_set_port(&node->address, 0);
	}
	lard_node_weight(lardd->engine, slot, info->weight, now(lardd));
	set_admin(lardd, slot, info->admin == FLT_ADMIN_DRAIN ? LARD_DRAIN :
		  info->admin == FLT_ADMIN_MAINTENANCE ? LARD_MAINTENANCE : LARD_ACTIVE);
	node->up = info->state == FLT_NODE_UP;
	snprintf(node->why, sizeof(node->why), "%s", info->reason);
	settle(lardd, slot);
	wake_queue(lardd);
out:
	pthread_mutex_unlock(&lardd->lock);
}

void nodes_kernel_end(struct lardd *lardd)
{
	int slot;

	pthread_mutex_lock(&lardd->lock);
	for (slot = 0; slot < LARD_MAX_NODES; slot++)
		if (lardd->nodes.at[slot].in_kernel && !lardd->nodes.at[slot].seen)
			leave_kernel(lardd, slot);
	pthread_mutex_unlock(&lardd->lock);
}

void nodes_kernel_remove(struct lardd *lardd, uint32_t kernel_id)
{
	int slot;

	pthread_mutex_lock(&lardd->lock);
	slot = find_kernel_id(lardd, kernel_id);
	if (slot >= 0)
		leave_kernel(lardd, slot);
	pthread_mutex_unlock(&lardd->lock);
}

unsigned int nodes_kernel_count(struct lardd *lardd)
{
	struct lard_node_info info;
	unsigned int count = 0;
	int slot;

	pthread_mutex_lock(&lardd->lock);
	for (slot = 0; slot < LARD_MAX_NODES; slot++) {
		const struct lardd_node *node = &lardd->nodes.at[slot];

		if (node->in_kernel && node->up && lard_node_get(lardd->engine, slot, &info) &&
		    info.admin == LARD_ACTIVE)
			count++;
	}
	pthread_mutex_unlock(&lardd->lock);
	return count;
}

void nodes_health(struct lardd *lardd, int slot, bool up, const char *why)
{
	struct lardd_node *node = &lardd->nodes.at[slot];

	pthread_mutex_lock(&lardd->lock);
	if (node->used && node->up != up) {
		log_info("health", "node=%s up=%d why=\"%s\"", node->name, up, why);
		node->up = up;
		snprintf(node->why, sizeof(node->why), "%s", why);
		node->suspended = 0;
		node->faults = 0;
		settle(lardd, slot);
	}
	pthread_mutex_unlock(&lardd->lock);
}

void nodes_fault(struct worker *w, int slot, unsigned int why)
{
	struct lardd *lardd = w->lardd;
	struct lardd_node *node = &lardd->nodes.at[slot];
	uint64_t taken;

	/* A full queue, a lost race or a checkpoint it dislikes do not mean that it is gone. */
	if (why && why != FLT_REFUSE_NOLISTENER && why != FLT_REFUSE_NOTLOCAL &&
	    why != FLT_REFUSE_TIMEOUT)
		return;
	pthread_mutex_lock(&lardd->lock);
	taken = lard_taken(lardd->engine, slot);
	if (node->taken != taken)
		node->faults = 0;
	node->taken = taken;
	if (node->used && !node->suspended && ++node->faults >= FAULTS) {
		log_warn("node-suspended", "node=%s refusals=%u last=%u", node->name, node->faults,
			 why);
		node->suspended = w->loop.now + SUSPEND_US;
		settle(lardd, slot);
	}
	pthread_mutex_unlock(&lardd->lock);
}

void nodes_fine(struct worker *w, int slot)
{
	struct lardd_node *node = &w->lardd->nodes.at[slot];

	/* The usual case needs no lock: nothing to forget. */
	if (!__atomic_load_n(&node->faults, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&w->lardd->lock);
	node->faults = 0;
	pthread_mutex_unlock(&w->lardd->lock);
}

bool nodes_hears(struct worker *w, int slot, bool http2)
{
	const struct lardd_node *node = &w->lardd->nodes.at[slot];

	return w->loop.now >= __atomic_load_n(&node->deaf[http2].until, __ATOMIC_RELAXED);
}

void nodes_deaf(struct worker *w, int slot, bool http2)
{
	struct lardd *lardd = w->lardd;
	struct lardd_node *node = &lardd->nodes.at[slot];

	pthread_mutex_lock(&lardd->lock);
	if (nodes_hears(w, slot, http2) && ++node->deaf[http2].faults >= FAULTS) {
		if (node->deaf[http2].faults == FAULTS)
			log_warn("node-deaf", "node=%s port=%s", node->name,
				 http2 ? "tls-port-http2" : "tls-port");
		__atomic_store_n(&node->deaf[http2].until, w->loop.now + SUSPEND_US,
				 __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&lardd->lock);
}

void nodes_heard(struct worker *w, int slot, bool http2)
{
	struct lardd_node *node = &w->lardd->nodes.at[slot];

	if (!__atomic_load_n(&node->deaf[http2].faults, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&w->lardd->lock);
	node->deaf[http2].faults = 0;
	__atomic_store_n(&node->deaf[http2].until, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&w->lardd->lock);
}

void nodes_tick(struct lardd *lardd, uint64_t at)
{
	int slot;

	pthread_mutex_lock(&lardd->lock);
	for (slot = 0; slot < LARD_MAX_NODES; slot++) {
		struct lardd_node *node = &lardd->nodes.at[slot];

		if (!node->suspended || at < node->suspended)
			continue;
		node->suspended = 0;
		node->faults = FAULTS - 1;	/* one more refusal is enough */
		settle(lardd, slot);
	}
	pthread_mutex_unlock(&lardd->lock);
}

bool nodes_address(struct worker *w, int slot, uint16_t port, union address *address,
		   bool *proxy_protocol)
{
	const struct lardd_node *node = &w->lardd->nodes.at[slot];
	bool known;

	pthread_mutex_lock(&w->lardd->lock);
	*address = node->address;
	*proxy_protocol = node->proxy_protocol;
	known = node->used && address->any.sa_family;
	pthread_mutex_unlock(&w->lardd->lock);
	if (known && !address_port(address))
		address_set_port(address, w->config->proxy_port ? w->config->proxy_port : port);
	return known;
}
