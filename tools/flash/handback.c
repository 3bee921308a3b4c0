// SPDX-License-Identifier: GPL-2.0
#include "handback.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "conn.h"
#include "flotilla.h"
#include "handoff.h"

#define ASK_AGAIN_MS 1000
#define BATCH 64
#define FOR_GOOD UINT32_MAX
#define OFFERS 3

/**
 * struct handback - of one worker
 * @node:   id of the node called conf->hand_back; 0: not known
 * @ask_at: ms, when it may be looked for again
 *
 * A cookie is the address of the connection. Of its events only DONE and FAILED are followed: one
 * of them comes for each submission, and until then nothing else closes the connection. Later
 * ones (CLOSED) name connections that are gone.
 */
struct handback {
	struct watch watch;
	struct worker *w;
	struct handoff *device;
	uint32_t node;
	uint64_t ask_at;
};

static int same_name(const struct flt_node_info *node, void *arg)
{
	struct handback *b = arg;

	if (!strcmp(node->name, b->w->conf->hand_back))
		b->node = node->id;
	return 0;
}

/* A question to the kernel's memory, at most once a second while the node is missing. */
static bool find_node(struct handback *b)
{
	struct flt_client *client;

	if (b->node)
		return true;
	if (b->w->loop.now < b->ask_at)
		return false;
	b->ask_at = b->w->loop.now + ASK_AGAIN_MS;
	if (flt_client_open(&client))
		return false;
	flt_node_each(client, same_name, b);
	flt_client_close(client);
	return b->node != 0;
}

static bool offer(struct handback *b, struct conn *c)
{
	int err;

	c->offers++;
	err = handoff_submit(b->device, c->watch.fd, b->node, (uintptr_t)c, 0, 0, NULL);
	if (err == -ENOENT)	/* taken out of the table, perhaps to come back with another id */
		b->node = 0;
	return !err;
}

/* It stays here, for this request or for good; or it is offered again. */
static void refused(struct handback *b, struct conn *c, enum flt_refusal why)
{
	/* The node has not quite finished giving it to us. */
	if (why == FLT_REFUSE_DUPLICATE && c->offers < OFFERS && offer(b, c))
		return;
	stats_add(b->w->stats, handback_refused, 1);
	/* It did not come from there: the client spoke to us directly. */
	if (why == FLT_REFUSE_NOLISTENER)
		c->kept_at = FOR_GOOD;
	conn_take_back(c);
}

static void settled(struct watch *watch, uint32_t events)
{
	struct handback *b = container_of(watch, struct handback, watch);
	struct hof_event e[BATCH];
	int i, n;

	(void)events;
	do {
		n = handoff_events(b->device, e, BATCH);
		for (i = 0; i < n; i++) {
			struct conn *c = (struct conn *)(uintptr_t)e[i].cookie;

			if (e[i].type == HOF_EVENT_DONE) {
				stats_add(b->w->stats, handed_back, 1);
				conn_close(c);
			} else if (e[i].type == HOF_EVENT_FAILED) {
				refused(b, c, e[i].refusal);
			}
		}
	} while (n == BATCH);
}

struct handback *handback_new(struct worker *w)
{
	struct handback *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return NULL;
	b->w = w;
	err = handoff_open(&b->device);
	if (err)
		goto undo_memory;
	b->watch.fd = handoff_fd(b->device);
	b->watch.ready = settled;
	err = loop_add(&w->loop, &b->watch, EPOLLIN | EPOLLET);
	if (err)
		goto undo_device;
	return b;

undo_device:
	handoff_close(b->device);
undo_memory:
	free(b);
	fprintf(stderr, "flash: cannot hand connections back: %s: %s\n", HOF_DEVICE, strerror(-err));
	return NULL;
}

void handback_free(struct handback *b)
{
	if (!b)
		return;
	loop_del(&b->w->loop, &b->watch);
	handoff_close(b->device);
	free(b);
}

bool handback_give(struct conn *c)
{
	struct handback *b = c->w->handback;
	char byte;

	/* Corked: a part of the last answer is still here. */
	if (!b || conn_is_secure(c) || c->corked || !c->requests || c->kept_at == c->requests || c->kept_at == FOR_GOOD)
		return false;
	if (recv(c->watch.fd, &byte, 1, MSG_PEEK) != 1)
		return false;	/* recv() will find the same */
	c->kept_at = c->requests;
	if (!find_node(b))
		return false;
	c->offers = 0;
	if (offer(b, c))
		return true;
	stats_add(c->w->stats, handback_refused, 1);
	return false;
}

bool handback_before_user(const struct conf *conf)
{
	return !conf->hand_back || !prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
}

bool handback_after_user(const struct conf *conf)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { };

	if (!conf->hand_back)
		return !geteuid() || !syscall(SYS_capset, &header, data);
	data[CAP_TO_INDEX(CAP_NET_ADMIN)].effective = CAP_TO_MASK(CAP_NET_ADMIN);
	data[CAP_TO_INDEX(CAP_NET_ADMIN)].permitted = CAP_TO_MASK(CAP_NET_ADMIN);
	return !syscall(SYS_capset, &header, data);
}
