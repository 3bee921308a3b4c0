// SPDX-License-Identifier: GPL-2.0
/* libflotilla and libhandoff on a kernel of pretence; see kernel.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>
#include "lard/tests/lib/kernel.h"

struct kernel kernel = { .lock = PTHREAD_MUTEX_INITIALIZER, .policy = "lard/r" };

int handoff_open(struct handoff **out)
{
	*out = &kernel.device;
	return pipe2(kernel.device.ends, O_NONBLOCK | O_CLOEXEC) ? -errno : 0;
}

void handoff_close(struct handoff *h)
{
	close(h->ends[0]);
	close(h->ends[1]);
}

int handoff_fd(const struct handoff *h)
{
	return h->ends[0];
}

/* The events lie in a pipe that wakes the loop: nothing waits unseen. */
unsigned int handoff_waiting(const struct handoff *h)
{
	(void)h;
	return 0;
}

int handoff_info(struct handoff *h, struct hof_info *info)
{
	(void)h;
	*info = (struct hof_info){ .version = HOF_VERSION, .features = HOF_FEATURE_LATER | HOF_FEATURE_TLS };
	return 0;
}

void kernel_emit(uint64_t cookie, unsigned int node, unsigned int type, unsigned int refusal)
{
	struct hof_event event = { .cookie = cookie, .node = node, .type = type,
				   .refusal = refusal, .usec = 100 };

	assert_int_equal(write(kernel.device.ends[1], &event, sizeof(event)), sizeof(event));
}

int handoff_submit_tls(struct handoff *h, int fd, uint32_t node, uint64_t cookie, uint32_t flags,
		       uint32_t timeout_ms, const struct flt_tls *tls, enum flt_refusal *refusal)
{
	unsigned int i = node - 1;
	enum answer answer;
	int err = 0;

	(void)h;
	(void)timeout_ms;
	pthread_mutex_lock(&kernel.lock);
	kernel.submissions++;
	answer = i < NODES ? kernel.answers[i] : TAKES;
	if (kernel.refusals && kernel.submissions > kernel.refusals)
		answer = TAKES;
	if (answer != TAKES)
		kernel.refused = i;
	if (i >= NODES || (flags | HOF_TELL_LATER) != (HOF_WANT_IDLE | HOF_TELL_LATER)) {
		err = -EINVAL;
	} else if (answer == REFUSES_AT_ONCE) {
		*refusal = kernel.refusal;
		err = -EOPNOTSUPP;
	} else if (answer == REFUSES_LATER) {
		kernel_emit(cookie, node, HOF_EVENT_FAILED, kernel.refusal);
	} else {
		kernel.moved[i] = dup(fd);
		kernel.keys[i] = tls ? *tls : (struct flt_tls){ 0 };
		kernel.cookies[i] = cookie;
		kernel.later[i] = flags & HOF_TELL_LATER;
		kernel_emit(cookie, node, HOF_EVENT_DONE, 0);
	}
	pthread_mutex_unlock(&kernel.lock);
	return err;
}

int handoff_events(struct handoff *h, struct hof_event *events, size_t max)
{
	ssize_t n = read(h->ends[0], events, max * sizeof(*events));

	return n < 0 ? (errno == EAGAIN ? 0 : -errno) : n / (ssize_t)sizeof(*events);
}

int handoff_early_create(struct handoff *h, uint32_t targets, struct hof_early_page **page)
{
	(void)h;
	(void)targets;
	(void)page;
	return -EOPNOTSUPP;
}

int handoff_early(struct handoff *h, const uint8_t address[4], uint16_t port, const uint32_t *nodes,
		  uint32_t nr_nodes)
{
	(void)h;
	(void)address;
	(void)port;
	(void)nodes;
	(void)nr_nodes;
	return -EOPNOTSUPP;
}

int handoff_early_set(struct handoff *h, const struct hof_early_target *targets, uint32_t nr)
{
	(void)h;
	(void)targets;
	(void)nr;
	return -EOPNOTSUPP;
}

int handoff_early_clear(struct handoff *h)
{
	(void)h;
	return -EOPNOTSUPP;
}

const char *handoff_refusal_name(enum flt_refusal why)
{
	(void)why;
	return "refusal";
}

int flt_client_open(struct flt_client **out)
{
	static struct flt_client client = { -1 };

	*out = &client;
	return 0;
}

int flt_events_open(struct flt_client **out)
{
	kernel.events.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	*out = &kernel.events;
	return 0;
}

void flt_client_close(struct flt_client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

const char *flt_client_error(const struct flt_client *c)
{
	(void)c;
	return "";
}

int flt_events_fd(const struct flt_client *c)
{
	return c->fd;
}

int flt_events_read(struct flt_client *c, flt_event_fn fn, void *arg)
{
	uint64_t times;

	return read(c->fd, &times, sizeof(times)) < 0 ? 0 :
	       fn(FLT_EVENT_NODE_CHANGED, &kernel.nodes[0], arg);
}

int flt_node_each(struct flt_client *c, flt_node_fn fn, void *arg)
{
	struct flt_node_info nodes[NODES];
	int i;

	(void)c;
	pthread_mutex_lock(&kernel.lock);
	memcpy(nodes, kernel.nodes, sizeof(nodes));
	pthread_mutex_unlock(&kernel.lock);
	for (i = 0; i < NODES; i++)
		if (nodes[i].id)
			fn(&nodes[i], arg);
	return 0;
}

/* Lines of the file KERNEL_STATS: room, name, value. */
int flt_stats_each(struct flt_client *c, flt_stat_fn fn, void *arg)
{
	const char *path = getenv("KERNEL_STATS");
	FILE *file = path ? fopen(path, "re") : NULL;
	char room[32], name[64];
	uint64_t value;

	(void)c;
	while (file && fscanf(file, "%31s %63s %" SCNu64, room, name, &value) == 3)
		fn(room, name, value, arg);
	if (file)
		fclose(file);
	return 0;
}

int flt_dispatch_watch(const char *name)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	kernel.attributes[kernel.attribute_count] = fd;
	kernel.names[kernel.attribute_count++] = name;
	return fd;
}

int flt_dispatch_read(int fd, char *text, size_t size)
{
	int i;

	for (i = 0; i < kernel.attribute_count; i++) {
		if (kernel.attributes[i] != fd)
			continue;
		pthread_mutex_lock(&kernel.lock);
		if (!strcmp(kernel.names[i], "policy"))
			snprintf(text, size, "%s", kernel.policy);
		else if (!strcmp(kernel.names[i], "max_outstanding"))
			snprintf(text, size, "%u", kernel.max_outstanding);
		else
			snprintf(text, size, "%s", !strcmp(kernel.names[i], "t_low") ? "25" :
				 !strcmp(kernel.names[i], "t_high") ? "65" : "20");
		pthread_mutex_unlock(&kernel.lock);
		return 0;
	}
	return -EBADF;
}

void kernel_changed(void)
{
	uint64_t one = 1;

	assert_int_equal(write(kernel.events.fd, &one, sizeof(one)), sizeof(one));
}
