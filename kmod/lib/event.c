// SPDX-License-Identifier: MIT
/* Events: a client that listens to the multicast group. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "internal.h"

int flt_event_parse(const struct nlmsghdr *nlh, enum flt_event *type, struct flt_node_info *node)
{
	const struct genlmsghdr *genl = mnl_nlmsg_get_payload(nlh);
	struct flt_attrs attrs;
	int err;

	memset(node, 0, sizeof(*node));
	err = flt_attrs_parse(nlh, &attrs);
	if (err)
		return err;
	if (genl->cmd != FLT_CMD_EVENT || !attrs.at[FLT_A_EVENT_TYPE])
		return -EPROTO;
	*type = mnl_attr_get_u8(attrs.at[FLT_A_EVENT_TYPE]);
	return attrs.at[FLT_A_NODE_NAME] ? flt_node_parse(nlh, node) : 0;
}

int flt_events_open(struct flt_client **out)
{
	struct flt_client *c;
	int err, fd;

	err = flt_client_open(&c);
	*out = NULL;
	if (err)
		return err;
	if (!c->group) {
		err = -EPROTO;
		goto undo;
	}
	fd = mnl_socket_get_fd(c->nl);
	if (mnl_socket_setsockopt(c->nl, NETLINK_ADD_MEMBERSHIP, &c->group, sizeof(c->group)) < 0 ||
	    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
		err = -errno;
		goto undo;
	}
	*out = c;
	return 0;

undo:
	flt_client_close(c);
	return err;
}

int flt_events_fd(const struct flt_client *c)
{
	return mnl_socket_get_fd(c->nl);
}

/*
 * Events that came since the last call. -ENOBUFS: some were lost, read the
 * table anew; later calls go on with what follows.
 */
int flt_events_read(struct flt_client *c, flt_event_fn fn, void *arg)
{
	const struct nlmsghdr *nlh;
	struct flt_node_info node;
	enum flt_event type;
	int len, err;

	for (;;) {
		len = mnl_socket_recvfrom(c->nl, c->buffer, sizeof(c->buffer));
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0 && errno == EAGAIN)
			return 0;
		if (len < 0)
			return flt_fail(c, -errno, errno == ENOBUFS ? "events were lost" : NULL);
		for (nlh = (void *)c->buffer; flt_message_ok(nlh, len);
		     nlh = mnl_nlmsg_next(nlh, &len)) {
			if (nlh->nlmsg_type != c->family)
				continue;
			err = flt_event_parse(nlh, &type, &node);
			if (err)
				return flt_fail(c, err, "the kernel sent a malformed event");
			err = fn(type, &node, arg);
			if (err)
				return err;
		}
	}
}
