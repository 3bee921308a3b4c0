// SPDX-License-Identifier: MIT
/* libhandoff: thin calls over /dev/handoff. */
#include <errno.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <flotilla/early.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handoff.h"

struct handoff {
	int fd;
	unsigned int waiting;
	struct hof_early_page *page;
};

int handoff_open(struct handoff **out)
{
	struct handoff *h = malloc(sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	h->waiting = 0;
	h->page = NULL;
	h->fd = open(HOF_DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (h->fd < 0) {
		err = -errno;
		free(h);
		return err;
	}
	*out = h;
	return 0;
}

void handoff_close(struct handoff *h)
{
	if (!h)
		return;
	if (h->page)
		munmap(h->page, HOF_EARLY_PAGE);
	close(h->fd);
	free(h);
}

int handoff_fd(const struct handoff *h)
{
	return h->fd;
}

int handoff_info(struct handoff *h, struct hof_info *info)
{
	return ioctl(h->fd, HOF_IOC_INFO, info) < 0 ? -errno : 0;
}

int handoff_submit(struct handoff *h, int fd, uint32_t node, uint64_t cookie,
		   uint32_t flags, uint32_t timeout_ms, enum flt_refusal *refusal)
{
	return handoff_submit_tls(h, fd, node, cookie, flags, timeout_ms, NULL, refusal);
}

int handoff_submit_tls(struct handoff *h, int fd, uint32_t node, uint64_t cookie, uint32_t flags,
		       uint32_t timeout_ms, const struct flt_tls *tls, enum flt_refusal *refusal)
{
	struct hof_submit submit = {
		/* Older modules know no longer one. */
		.size = tls ? sizeof(submit) : HOF_SUBMIT_SIZE_1,
		.fd = fd,
		.node = node,
		.flags = flags,
		.cookie = cookie,
		.timeout_ms = timeout_ms,
		.tls = (uintptr_t)tls,
	};
	int waiting = ioctl(h->fd, HOF_IOC_SUBMIT, &submit);
	int err = waiting < 0 ? -errno : 0;

	if (refusal)
		*refusal = submit.refusal;
	if (!err)
		h->waiting = waiting;
	return err;
}

unsigned int handoff_waiting(const struct handoff *h)
{
	return h->waiting;
}

int handoff_events(struct handoff *h, struct hof_event *events, size_t max)
{
	ssize_t got;

	if (!max)
		return 0;
	h->waiting = 0;
	do {
		got = read(h->fd, events, max * sizeof(*events));
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == EAGAIN ? 0 : -errno;
	/* There may be more; the next read tells. */
	h->waiting = got == (ssize_t)(max * sizeof(*events));
	return got / sizeof(*events);
}

int handoff_early_create(struct handoff *h, uint32_t targets, struct hof_early_page **page)
{
	struct hof_early_table_args args = {
		.size = sizeof(args), .op = HOF_EARLY_CREATE, .nr = targets,
	};
	void *at;

	if (ioctl(h->fd, HOF_IOC_EARLY_TABLE, &args) < 0)
		return -errno;
	at = mmap(NULL, HOF_EARLY_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	h->page = *page = at;
	return 0;
}

int handoff_early(struct handoff *h, const uint8_t address[4], uint16_t port, const uint32_t *nodes,
		  uint32_t nr_nodes)
{
	struct hof_early args = {
		.size = sizeof(args), .flags = HOF_EARLY_TABLE, .family = AF_INET, .port = htons(port),
		.nr_nodes = nr_nodes, .nodes = (uintptr_t)nodes,
	};
	int lost;

	memcpy(args.address, address, 4);
	lost = ioctl(h->fd, HOF_IOC_EARLY, &args);
	return lost < 0 ? -errno : lost;
}

int handoff_early_set(struct handoff *h, const struct hof_early_target *targets, uint32_t nr)
{
	struct hof_early_table_args args = {
		.size = sizeof(args), .op = HOF_EARLY_SET, .nr = nr, .targets = (uintptr_t)targets,
	};
	int refused = ioctl(h->fd, HOF_IOC_EARLY_TABLE, &args);

	return refused < 0 ? -errno : refused;
}

int handoff_early_clear(struct handoff *h)
{
	struct hof_early_table_args args = { .size = sizeof(args), .op = HOF_EARLY_CLEAR };

	return ioctl(h->fd, HOF_IOC_EARLY_TABLE, &args) < 0 ? -errno : 0;
}

const char *handoff_refusal_name(enum flt_refusal why)
{
	switch (why) {
	case FLT_REFUSE_NONE:		return "none";
	case FLT_REFUSE_NOTTCP:		return "nottcp";
	case FLT_REFUSE_STATE:		return "state";
	case FLT_REFUSE_SENDQUEUE:	return "sendqueue";
	case FLT_REFUSE_OOO:		return "ooo";
	case FLT_REFUSE_URGENT:		return "urgent";
	case FLT_REFUSE_ULP:		return "ulp";
	case FLT_REFUSE_MPTCP:		return "mptcp";
	case FLT_REFUSE_PSOCK:		return "psock";
	case FLT_REFUSE_MD5:		return "md5";
	case FLT_REFUSE_IPOPTIONS:	return "ipoptions";
	case FLT_REFUSE_FASTOPEN:	return "fastopen";
	case FLT_REFUSE_REPAIR:		return "repair";
	case FLT_REFUSE_TOOMUCH:	return "toomuch";
	case FLT_REFUSE_FOREIGN:	return "foreign";
	case FLT_REFUSE_SHARED:		return "shared";
	case FLT_REFUSE_BUSY:		return "busy";
	case FLT_REFUSE_CHANGED:	return "changed";
	case FLT_REFUSE_FINRECV:	return "finrecv";
	case FLT_REFUSE_SCOPE:		return "scope";
	case FLT_REFUSE_ACCECN:		return "accecn";
	case FLT_REFUSE_NOLISTENER:	return "nolistener";
	case FLT_REFUSE_FULL:		return "full";
	case FLT_REFUSE_DUPLICATE:	return "duplicate";
	case FLT_REFUSE_NOROUTE:	return "noroute";
	case FLT_REFUSE_NOMEM:		return "nomem";
	case FLT_REFUSE_VERSION:	return "version";
	case FLT_REFUSE_MALFORMED:	return "malformed";
	case FLT_REFUSE_NOTLOCAL:	return "notlocal";
	case FLT_REFUSE_POLICY:		return "policy";
	case FLT_REFUSE_INSECURE:	return "insecure";
	case FLT_REFUSE_SERVICE:	return "service";
	case FLT_REFUSE_CLIENT:		return "client";
	case FLT_REFUSE_ROLE:		return "role";
	case FLT_REFUSE_KEYS:		return "keys";
	case FLT_REFUSE_KTLS:		return "ktls";
	case FLT_REFUSE_NODEDOWN:	return "nodedown";
	case FLT_REFUSE_TIMEOUT:	return "timeout";
	case FLT_REFUSE_ABORTED:	return "aborted";
	case FLT_REFUSE_TABLEFULL:	return "tablefull";
	case FLT_REFUSE_NONODE:		return "nonode";
	}
	return "unknown";
}
