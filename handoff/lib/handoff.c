// SPDX-License-Identifier: MIT
/* libhandoff: thin calls over /dev/handoff. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "handoff.h"

struct handoff {
	int fd;
	unsigned int waiting;
};

int handoff_open(struct handoff **out)
{
	struct handoff *h = malloc(sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	h->waiting = 0;
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
