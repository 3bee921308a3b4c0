// SPDX-License-Identifier: GPL-2.0
/* Health checks: connect, or GET and a status below 400, once an interval. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "backend.h"
#include "health.h"
#include "tools/base/log.h"
#include "worker.h"

/**
 * struct health - the checks of one node
 * @timer:  runs out when the next check is due; one still under way has then failed
 * @streak: results in a row that contradict @up
 * @fresh:  no result yet: the first one counts at once
 */
struct health {
	struct source source;
	struct timer timer;
	struct lardd *lardd;
	int slot;
	union address address;
	struct config_health config;
	unsigned int streak;
	bool up;
	bool fresh;
	bool asked;
};

static void health_ready(struct source *s, uint32_t events);

static struct worker *home(struct health *h)
{
	return h->lardd->worker[0];
}

static void end_check(struct health *h)
{
	if (h->source.fd >= 0)
		close(h->source.fd);
	h->source.fd = -1;
}

static void result(struct health *h, bool good, const char *why)
{
	unsigned int needed = h->fresh ? 1 : good ? h->config.rise : h->config.fall;

	end_check(h);
	h->fresh = false;
	if (good == h->up) {
		h->streak = 0;
		return;
	}
	if (++h->streak < needed)
		return;
	h->streak = 0;
	h->up = good;
	nodes_health(h->lardd, h->slot, good, why);
}

/* What is short here says nothing of the node: this check did not take place. */
static void failed(struct health *h, int err)
{
	if (!error_is_ours(err)) {
		result(h, false, strerror(err));
		return;
	}
	log_client("check-skipped", "node=%s error=%d text=\"%s\"",
		   h->lardd->nodes.at[h->slot].name, err, strerror(err));
	end_check(h);
}

static void start_check(struct health *h)
{
	int fd = backend_socket(home(h), h->address.any.sa_family), err;

	if (fd < 0) {
		failed(h, errno);
		return;
	}
	h->source.fd = fd;
	h->asked = false;
	if (connect(fd, &h->address.any, address_len(&h->address)) && errno != EINPROGRESS) {
		failed(h, errno);
		return;
	}
	err = loop_add(&home(h)->loop, &h->source, EPOLLOUT);
	if (err)
		failed(h, -err);
}

static void ask(struct health *h)
{
	char request[400], host[ADDRESS_TEXT];
	int len = snprintf(request, sizeof(request),
			   "GET %s HTTP/1.0\r\nHost: %s\r\nUser-Agent: lardd-health\r\n\r\n",
			   h->config.path, address_host(&h->address, host, sizeof(host)));

	int err;

	h->asked = true;
	if (send(h->source.fd, request, len, MSG_NOSIGNAL) < 0) {
		failed(h, errno);
		return;
	}
	err = loop_modify(&home(h)->loop, &h->source, EPOLLIN);
	if (err)
		failed(h, -err);
}

static void judge_answer(struct health *h)
{
	char answer[64] = "";
	unsigned int status;
	ssize_t n = recv(h->source.fd, answer, sizeof(answer) - 1, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		result(h, false, "closed without an answer");
	else if (sscanf(answer, "HTTP/1.%*1u %3u", &status) != 1 || status < 100)
		result(h, false, "the answer is not HTTP");
	else
		result(h, status < 400, status < 400 ? "it answers" : "it answers with an error");
}

static void health_ready(struct source *s, uint32_t events)
{
	struct health *h = container_of(s, struct health, source);
	int error = 0;
	socklen_t len = sizeof(error);

	(void)events;
	if (s->fd < 0)
		return;
	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) || error)
		failed(h, error ? error : errno);
	else if (h->config.kind == HEALTH_TCP)
		result(h, true, "it accepts connections");
	else if (!h->asked)
		ask(h);
	else
		judge_answer(h);
}

static void health_expired(struct timer *t)
{
	struct health *h = container_of(t, struct health, timer);

	timer_start(&home(h)->loop, &h->lardd->health_timers, t, h->config.interval_us);
	if (h->source.fd >= 0)
		result(h, false, "no answer in time");
	start_check(h);
}

void health_init(struct lardd *lardd)
{
	timer_queue_init(&lardd->worker[0]->loop, &lardd->health_timers, health_expired);
}

struct health *health_start(struct lardd *lardd, int slot, const union address *address,
			    const struct config_health *config, bool up, bool fresh)
{
	struct health *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	*h = (struct health){
		.source = { .fd = -1, .ready = health_ready },
		.lardd = lardd,
		.slot = slot,
		.address = *address,
		.config = *config,
		.up = up,
		.fresh = fresh,
	};
	timer_init(&h->timer);
	/* From the loop, so that results never come while the caller holds the lock. */
	timer_start(&lardd->worker[0]->loop, &lardd->health_timers, &h->timer, 0);
	return h;
}

static void health_bury(struct source *s)
{
	free(container_of(s, struct health, source));
}

void health_stop(struct health *h)
{
	if (!h)
		return;
	timer_stop(&h->timer);
	loop_bury(&home(h)->loop, &h->source, health_bury);
}
