// SPDX-License-Identifier: MIT
/* A client: the socket, the family's numbers, one request and its answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "internal.h"

const char *flt_client_error(const struct flt_client *c)
{
	return c->error;
}

static const char *plain_meaning(int err)
{
	switch (-err) {
	case EPERM:
		return "this needs CAP_NET_ADMIN in the network namespace";
	case EEXIST:
		return "it exists already";
	case ENOENT:
		return "there is no such thing";
	default:
		return strerror(-err);
	}
}

/* Remembers why; @sentence NULL or empty: the plain meaning of @err. */
int flt_fail(struct flt_client *c, int err, const char *sentence)
{
	snprintf(c->error, sizeof(c->error), "%s",
		 sentence && *sentence ? sentence : plain_meaning(err));
	return err;
}

struct nlmsghdr *flt_request(struct flt_client *c, uint8_t cmd, uint16_t flags)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(c->buffer);
	struct genlmsghdr *genl;

	nlh->nlmsg_type = c->family;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	nlh->nlmsg_seq = ++c->seq;
	genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));
	genl->cmd = cmd;
	genl->version = FLT_GENL_VERSION;
	return nlh;
}

/* The kernel's sentence among the attributes at [@from, end of message). */
static const char *extack_sentence(const struct nlmsghdr *nlh, size_t from)
{
	const char *end = (const char *)nlh + nlh->nlmsg_len;
	const struct nlattr *attr;

	if (!(nlh->nlmsg_flags & NLM_F_ACK_TLVS) || from > nlh->nlmsg_len)
		return NULL;
	for (attr = (const void *)((const char *)nlh + from); mnl_attr_ok(attr, end - (char *)attr);
	     attr = mnl_attr_next(attr)) {
		if (mnl_attr_get_type(attr) != NLMSGERR_ATTR_MSG)
			continue;
		return mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) < 0 ? NULL :
			mnl_attr_get_str(attr);
	}
	return NULL;
}

static int eat_error(struct flt_client *c, struct flt_answer *answer, const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);
	size_t from = NLMSG_HDRLEN + sizeof(*e);

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*e) || e->error > 0)
		return -EPROTO;
	/* An uncapped error repeats the whole request before the attributes. */
	if (!(nlh->nlmsg_flags & NLM_F_CAPPED)) {
		if (e->msg.nlmsg_len < NLMSG_HDRLEN)
			return -EPROTO;
		from += NLMSG_ALIGN(e->msg.nlmsg_len) - NLMSG_HDRLEN;
	}
	answer->done = true;
	if (e->error)
		answer->err = flt_fail(c, e->error, extack_sentence(nlh, from));
	return 0;
}

static int eat_done(struct flt_client *c, struct flt_answer *answer, const struct nlmsghdr *nlh)
{
	int err = 0;

	if (mnl_nlmsg_get_payload_len(nlh) >= sizeof(err))
		memcpy(&err, mnl_nlmsg_get_payload(nlh), sizeof(err));
	answer->done = true;
	if (err < 0 && !answer->err)
		answer->err = flt_fail(c, err, extack_sentence(nlh, NLMSG_HDRLEN + sizeof(err)));
	return 0;
}

/* mnl_nlmsg_ok() takes a length above INT_MAX for a negative one, and so for a short one. */
bool flt_message_ok(const struct nlmsghdr *nlh, int len)
{
	return mnl_nlmsg_ok(nlh, len) && nlh->nlmsg_len <= (unsigned int)len;
}

int flt_answer_eat(struct flt_client *c, struct flt_answer *answer, const void *data, size_t size)
{
	const struct nlmsghdr *nlh = data;
	int len = size, err = 0;

	for (; flt_message_ok(nlh, len); nlh = mnl_nlmsg_next(nlh, &len)) {
		if (nlh->nlmsg_seq != answer->seq)
			continue;
		if (nlh->nlmsg_flags & NLM_F_DUMP_INTR)
			answer->interrupted = true;
		if (nlh->nlmsg_type == NLMSG_ERROR)
			err = eat_error(c, answer, nlh);
		else if (nlh->nlmsg_type == NLMSG_DONE)
			err = eat_done(c, answer, nlh);
		else if (nlh->nlmsg_type >= NLMSG_MIN_TYPE && !answer->err && answer->fn)
			answer->err = answer->fn(nlh, answer->arg);
		if (err)
			return flt_fail(c, err, "the kernel's answer is malformed");
	}
	if (len > 0)
		return flt_fail(c, -EPROTO, "the kernel's answer is cut short");
	return 0;
}

/*
 * Sends @request and reads its answer to the end, also when @fn has had enough:
 * a dump left half read would make the next one fail with EBUSY.
 */
int flt_transact(struct flt_client *c, const struct nlmsghdr *request, flt_message_fn fn, void *arg)
{
	struct flt_answer answer = { .seq = request->nlmsg_seq, .fn = fn, .arg = arg };
	ssize_t len;
	int err;

	c->error[0] = '\0';
	if (mnl_socket_sendto(c->nl, request, request->nlmsg_len) < 0)
		return flt_fail(c, -errno, NULL);
	while (!answer.done) {
		len = mnl_socket_recvfrom(c->nl, c->buffer, sizeof(c->buffer));
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return flt_fail(c, -errno, NULL);
		err = flt_answer_eat(c, &answer, c->buffer, len);
		if (err)
			return err;
	}
	if (!answer.err && answer.interrupted)
		return flt_fail(c, -EAGAIN, "the table changed while it was being read");
	if (answer.err == -EPROTO && !c->error[0])
		return flt_fail(c, -EPROTO, "the kernel's answer is malformed");
	return answer.err;
}

static int find_group(const struct nlattr *groups, uint32_t *group)
{
	const struct nlattr *each, *attr;

	mnl_attr_for_each_nested(each, groups) {
		const char *name = "";
		uint32_t id = 0;

		mnl_attr_for_each_nested(attr, each) {
			if (mnl_attr_get_type(attr) == CTRL_ATTR_MCAST_GRP_ID &&
			    mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
				id = mnl_attr_get_u32(attr);
			else if (mnl_attr_get_type(attr) == CTRL_ATTR_MCAST_GRP_NAME &&
				 mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
				name = mnl_attr_get_str(attr);
		}
		if (!strcmp(name, FLT_GENL_MCGRP_EVENTS))
			*group = id;
	}
	return 0;
}

static int family_message(const struct nlmsghdr *nlh, void *arg)
{
	struct flt_client *c = arg;
	const struct nlattr *attr;

	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr)) {
		if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID &&
		    mnl_attr_validate(attr, MNL_TYPE_U16) >= 0)
			c->family = mnl_attr_get_u16(attr);
		else if (mnl_attr_get_type(attr) == CTRL_ATTR_MCAST_GROUPS)
			find_group(attr, &c->group);
	}
	return 0;
}

static int resolve_family(struct flt_client *c)
{
	struct nlmsghdr *nlh = flt_request(c, CTRL_CMD_GETFAMILY, NLM_F_ACK);
	int err;

	nlh->nlmsg_type = GENL_ID_CTRL;
	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, FLT_GENL_NAME);
	err = flt_transact(c, nlh, family_message, c);
	if (!err && !c->family)
		err = -ENOENT;
	return err;
}

int flt_client_open(struct flt_client **out)
{
	struct flt_client *c = calloc(1, sizeof(*c));
	int one = 1, err;

	*out = NULL;
	if (!c)
		return -ENOMEM;
	c->seq = time(NULL);
	c->nl = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	if (!c->nl || mnl_socket_bind(c->nl, 0, MNL_SOCKET_AUTOPID) < 0) {
		err = -errno;
		goto undo;
	}
	/* Without these two (kernels before 4.12) errors only lose their sentence. */
	mnl_socket_setsockopt(c->nl, NETLINK_EXT_ACK, &one, sizeof(one));
	mnl_socket_setsockopt(c->nl, NETLINK_CAP_ACK, &one, sizeof(one));
	err = resolve_family(c);
	if (err)
		goto undo;
	*out = c;
	return 0;

undo:
	flt_client_close(c);
	return err;
}

void flt_client_close(struct flt_client *c)
{
	if (!c)
		return;
	if (c->nl)
		mnl_socket_close(c->nl);
	free(c);
}
