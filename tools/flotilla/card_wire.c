// SPDX-License-Identifier: GPL-2.0
/* What flotilla card says to the kernel, and hears from it: the family "flotilla_card". */
#include <errno.h>
#include <linux/genetlink.h>
#include <stdlib.h>
#include <string.h>
#include "card.h"

const char *attrs_text(const struct attrs *a, enum card_attr attr)
{
	return a->at[attr] ? mnl_attr_get_str(a->at[attr]) : "";
}

uint64_t attrs_number(const struct attrs *a, enum card_attr attr)
{
	if (!a->at[attr])
		return 0;
	switch (mnl_attr_get_payload_len(a->at[attr])) {
	case 1:
		return mnl_attr_get_u8(a->at[attr]);
	case 4:
		return mnl_attr_get_u32(a->at[attr]);
	case 8:
		return mnl_attr_get_u64(a->at[attr]);
	default:
		return 0;
	}
}

void attrs_parse(const struct nlmsghdr *nlh, struct attrs *a)
{
	const struct nlattr *attr;

	memset(a, 0, sizeof(*a));
	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr)) {
		unsigned int type = mnl_attr_get_type(attr);

		if (type <= CARD_A_MAX)
			a->at[type] = attr;
	}
}

struct nlmsghdr *wire_request(struct wire *w, uint8_t cmd, uint16_t flags)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(w->buffer);
	struct genlmsghdr *genl;

	nlh->nlmsg_type = w->family;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	nlh->nlmsg_seq = 1;
	genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));
	genl->cmd = cmd;
	genl->version = CARD_GENL_VERSION;
	return nlh;
}

static void keep_sentence(struct wire *w, const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);
	size_t from = NLMSG_HDRLEN + sizeof(*e);
	const struct nlattr *attr;
	const char *end = (const char *)nlh + nlh->nlmsg_len;

	if (!(nlh->nlmsg_flags & NLM_F_ACK_TLVS) || !(nlh->nlmsg_flags & NLM_F_CAPPED))
		return;
	for (attr = (const void *)((const char *)nlh + from); mnl_attr_ok(attr, end - (char *)attr);
	     attr = mnl_attr_next(attr))
		if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG &&
		    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			snprintf(w->error, sizeof(w->error), "%s", mnl_attr_get_str(attr));
}

int wire_transact(struct wire *w, const struct nlmsghdr *nlh, message_fn fn, void *arg)
{
	ssize_t len;

	w->error[0] = '\0';
	if (mnl_socket_sendto(w->nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	for (;;) {
		const struct nlmsghdr *answer = (const void *)w->buffer;
		int left;

		len = mnl_socket_recvfrom(w->nl, w->buffer, sizeof(w->buffer));
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return -errno;
		left = len;
		for (; mnl_nlmsg_ok(answer, left); answer = mnl_nlmsg_next(answer, &left)) {
			const struct nlmsgerr *e = mnl_nlmsg_get_payload(answer);

			if (answer->nlmsg_type == NLMSG_DONE)
				return 0;
			if (answer->nlmsg_type == NLMSG_ERROR) {
				if (e->error)
					keep_sentence(w, answer);
				return e->error;
			}
			if (fn)
				fn(answer, arg);
		}
	}
}

static void take_family(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *attr;

	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID)
			*(uint16_t *)arg = mnl_attr_get_u16(attr);
}

void wire_close(struct wire *w)
{
	if (w && w->nl)
		mnl_socket_close(w->nl);
	free(w);
}

struct wire *wire_open_family(struct cli *cli, const char *family, const char *module)
{
	struct wire *w = calloc(1, sizeof(*w));
	struct nlmsghdr *nlh;
	int one = 1, err;

	if (!w) {
		cli_fail(cli, "out of memory");
		return NULL;
	}
	w->nl = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	if (!w->nl || mnl_socket_bind(w->nl, 0, MNL_SOCKET_AUTOPID) < 0) {
		cli_fail(cli, "no netlink socket: %s", strerror(errno));
		goto undo;
	}
	mnl_socket_setsockopt(w->nl, NETLINK_EXT_ACK, &one, sizeof(one));
	mnl_socket_setsockopt(w->nl, NETLINK_CAP_ACK, &one, sizeof(one));
	nlh = wire_request(w, CTRL_CMD_GETFAMILY, NLM_F_ACK);
	nlh->nlmsg_type = GENL_ID_CTRL;
	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, family);
	err = wire_transact(w, nlh, take_family, &w->family);
	if (!err && w->family)
		return w;
	if (err == -ENOENT)
		cli_fail(cli, "%s.ko is not loaded: modprobe %s", module, module);
	else
		cli_fail(cli, "the kernel does not know the family %s", family);
undo:
	wire_close(w);
	return NULL;
}

struct wire *wire_open(struct cli *cli)
{
	return wire_open_family(cli, CARD_GENL_NAME, "card");
}

int wire_settle(struct cli *cli, struct wire *w, int err)
{
	int status = CLI_OK;

	if (err)
		status = cli_fail(cli, "%s", w->error[0] ? w->error : strerror(-err));
	wire_close(w);
	return status;
}
