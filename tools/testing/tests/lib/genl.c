// SPDX-License-Identifier: GPL-2.0
/* Random messages to the project's generic netlink families. */
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <flotilla/card.h>
#include <flotilla/flotilla.h>
#include "tools/testing/tests/lib/calls.h"

/* More than any of our families has. */
#define COMMANDS	20
#define ATTRIBUTES	60

static const char *const families[] = { FLT_GENL_NAME, CARD_GENL_NAME, "nlctrl" };
static int ids[3];

static size_t put(unsigned char *at, uint16_t type, const void *data, uint16_t length)
{
	struct nlattr head = { .nla_len = NLA_HDRLEN + length, .nla_type = type };

	memcpy(at, &head, sizeof(head));
	memcpy(at + NLA_HDRLEN, data, length);
	return NLA_ALIGN(NLA_HDRLEN + length);
}

int genl_family(int fd, const char *name)
{
	struct {
		struct nlmsghdr n;
		struct genlmsghdr g;
		unsigned char room[4096];
	} m = { .n = { .nlmsg_type = GENL_ID_CTRL, .nlmsg_flags = NLM_F_REQUEST },
		.g = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 } };
	size_t at = 0;
	ssize_t got;

	m.n.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN) + put(m.room, CTRL_ATTR_FAMILY_NAME, name, strlen(name) + 1);
	if (send(fd, &m, m.n.nlmsg_len, 0) < 0)
		return -1;
	got = recv(fd, &m, sizeof(m), 0);
	if (got < (ssize_t)NLMSG_LENGTH(GENL_HDRLEN) || m.n.nlmsg_type == NLMSG_ERROR)
		return -1;
	while (at + NLA_HDRLEN < got - NLMSG_LENGTH(GENL_HDRLEN)) {
		struct nlattr *attr = (void *)(m.room + at);

		if (attr->nla_type == CTRL_ATTR_FAMILY_ID)
			return *(uint16_t *)(m.room + at + NLA_HDRLEN);
		at += NLA_ALIGN(attr->nla_len);
	}
	return -1;
}

static void learn(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
	unsigned int i;

	for (i = 0; i < 3; i++)
		ids[i] = genl_family(fd, families[i]);
	close(fd);
}

/* A value that some attribute may want. */
static uint16_t value(struct caller *c, unsigned char *at)
{
	static const char *const texts[] = {
		"a", "b", "fe", "be1", "", "..", "a/b", "0123456789012345678901234567890", "/dev/ram0", "/dev/loop0",
		"lard/r", "%s%n", "data", "01234567890123456789012345678901234567890123456789",
	};
	uint64_t number = odd_number(c);
	const char *text;
	uint16_t length;

	switch (dice(c, 6)) {
	case 0:
		text = texts[dice(c, sizeof(texts) / sizeof(texts[0]))];
		/* Now and then without its end. */
		length = strlen(text) + !!dice(c, 8);
		memcpy(at, text, length);
		return length;
	case 1:
		at[0] = dice(c, 5);
		return 1;
	case 2:
		number = dice(c, 3) ? 0x0100007f + (dice(c, 4) << 24) : number;
		memcpy(at, &number, 4);
		return 4;
	case 3:
		memcpy(at, &number, 8);
		return 1 << dice(c, 4);
	case 4:
		memset(at, dice(c, 2) ? 0 : 0xff, 16);
		at[15] = dice(c, 3);
		return 16;
	default:
		length = dice(c, 300);
		memset(at, number, length);
		return length;
	}
}

/* A message to "flotilla" as it should be; returns where its attributes end. */
static size_t proper(struct caller *c, struct nlmsghdr *n, struct genlmsghdr *g, size_t at)
{
	static const unsigned char commands[] = { FLT_CMD_LOCAL_SET, FLT_CMD_NODE_NEW, FLT_CMD_NODE_SET,
						  FLT_CMD_NODE_DEL, FLT_CMD_NODE_GET, FLT_CMD_LOCAL_GET,
						  FLT_CMD_SERVICE_NEW, FLT_CMD_SERVICE_DEL, FLT_CMD_SERVICE_GET,
						  FLT_CMD_CONN_GET, FLT_CMD_STATS_GET,
						  FLT_CMD_POLICY_SET, FLT_CMD_POLICY_DEL, FLT_CMD_POLICY_GET,
						  FLT_CMD_REDIRECT_SET, FLT_CMD_REDIRECT_DEL, FLT_CMD_REDIRECT_GET,
						  FLT_CMD_REPORT_SET };
	static const char *const policies[] = { "hash", "simple", "size", "round-robin", "load", "stay", "none" };
	static const char *const rules[] = { "", "above=0", "above=off queue=50", "hint=7 take=0", "hint=auto", "=",
					     "above=-1" };
	static const char *const args[] = { "", "self", "self a b", "a x=7", "=", "a=b=c", "a admit=3",
					    "a admit=65535 admit_base=1 admit_quota=1", "admit=0" };
	uint32_t address = htonl(INADDR_LOOPBACK + dice(c, 3)), weight = dice(c, 100);
	uint32_t service = htonl(0x0a000000 + dice(c, 300));
	uint16_t port = 80 + dice(c, 3);
	char name[3] = { 'a' + dice(c, 4) };
	const char *text;

	g->cmd = commands[dice(c, sizeof(commands))];
	switch (g->cmd) {
	case FLT_CMD_LOCAL_GET:
		break;
	case FLT_CMD_LOCAL_SET:
		at += put(c->arena + at, FLT_A_LOCAL_NAME, name, 2);
		at += put(c->arena + at, FLT_A_LOCAL_ADDR4, &address, 4);
		break;
	case FLT_CMD_SERVICE_NEW:
	case FLT_CMD_SERVICE_DEL:
		at += put(c->arena + at, FLT_A_SERVICE_ADDR4, &service, 4);
		break;
	case FLT_CMD_POLICY_SET:
		text = policies[dice(c, sizeof(policies) / sizeof(policies[0]))];
		at += put(c->arena + at, FLT_A_POLICY_NAME, text, strlen(text) + 1);
		text = args[dice(c, sizeof(args) / sizeof(args[0]))];
		at += put(c->arena + at, FLT_A_POLICY_ARGS, text, strlen(text) + 1);
		/* fallthrough */
	case FLT_CMD_POLICY_DEL:
		at += put(c->arena + at, FLT_A_SERVICE_ADDR4, &service, 4);
		at += put(c->arena + at, FLT_A_SERVICE_PORT, &port, 2);
		break;
	case FLT_CMD_REDIRECT_SET:
		text = rules[dice(c, sizeof(rules) / sizeof(rules[0]))];
		at += put(c->arena + at, FLT_A_POLICY_ARGS, text, strlen(text) + 1);
		/* fallthrough */
	case FLT_CMD_REDIRECT_DEL:
		at += put(c->arena + at, FLT_A_SERVICE_ADDR4, &service, 4);
		at += put(c->arena + at, FLT_A_SERVICE_PORT, &port, 2);
		break;
	case FLT_CMD_REPORT_SET:
		at += put(c->arena + at, FLT_A_REPORT_FAULTS, &weight, 4);
		at += put(c->arena + at, FLT_A_REPORT_WARNINGS, &address, 4);
		if (dice(c, 2))
			at += put(c->arena + at, FLT_A_REPORT_WRONG, name, 2);
		break;
	case FLT_CMD_POLICY_GET:
	case FLT_CMD_REDIRECT_GET:
	case FLT_CMD_SERVICE_GET:
	case FLT_CMD_CONN_GET:
	case FLT_CMD_STATS_GET:
		n->nlmsg_flags |= NLM_F_DUMP;
		break;
	default:
		at += put(c->arena + at, FLT_A_NODE_NAME, name, 2);
		if (g->cmd == FLT_CMD_NODE_NEW)
			at += put(c->arena + at, FLT_A_NODE_ADDR4, &address, 4);
		if (g->cmd == FLT_CMD_NODE_SET)
			at += put(c->arena + at, FLT_A_NODE_WEIGHT, &weight, 4);
	}
	return at;
}

/* The same to "flotilla_card". */
static size_t proper_card(struct caller *c, struct nlmsghdr *n, struct genlmsghdr *g, size_t at)
{
	static const unsigned char commands[] = { CARD_CMD_EXPORT_NEW, CARD_CMD_EXPORT_DEL, CARD_CMD_EXPORT_GET,
						  CARD_CMD_EXPORT_SET, CARD_CMD_DISK_NEW, CARD_CMD_DISK_DEL,
						  CARD_CMD_DISK_GET, CARD_CMD_EXPLAIN };
	uint64_t block = odd_number(c);
	uint32_t seconds = dice(c, 100);
	char name[3] = { 'a' + dice(c, 4) };

	g->cmd = commands[dice(c, sizeof(commands))];
	switch (g->cmd) {
	case CARD_CMD_EXPORT_GET:
	case CARD_CMD_DISK_GET:
		n->nlmsg_flags |= NLM_F_DUMP;
		break;
	case CARD_CMD_EXPORT_NEW:
		at += put(c->arena + at, CARD_A_EXPORT_PATH, "/dev/ram0", 10);
		at += put(c->arena + at, CARD_A_EXPORT_NODE, name, 2);
		/* fallthrough */
	case CARD_CMD_EXPORT_DEL:
	case CARD_CMD_EXPORT_SET:
		at += put(c->arena + at, CARD_A_EXPORT_NAME, name, 2);
		break;
	case CARD_CMD_EXPLAIN:
		at += put(c->arena + at, CARD_A_EXPLAIN_BLOCK, &block, 8);
		break;
	default:
		at += put(c->arena + at, CARD_A_DISK_NODE, name, 2);
		at += put(c->arena + at, CARD_A_DISK_EXPORT, name, 2);
		if (g->cmd == CARD_CMD_DISK_NEW)
			at += put(c->arena + at, CARD_A_DISK_FAIL_FAST, &seconds, 4);
	}
	return at;
}

/* Reads answers until there is none, mostly; whether the one with this number is not a refusal. */
static bool answered(struct caller *c, int fd, uint32_t seq)
{
	struct nlmsghdr *n = (void *)c->arena;
	bool good = false;
	ssize_t got;

	while (dice(c, 9) && (got = recv(fd, c->arena, 8192, MSG_DONTWAIT)) > 0) {
		if (got < (ssize_t)sizeof(*n) || n->nlmsg_seq != seq)
			continue;
		good |= n->nlmsg_type != NLMSG_ERROR || got < (ssize_t)NLMSG_LENGTH(4) || !*(int *)NLMSG_DATA(n);
	}
	return good;
}

bool call_genl(struct caller *c, int fd, unsigned int family)
{
	static bool known;
	unsigned char *room = c->arena, data[512];
	struct nlmsghdr n = { .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK, .nlmsg_seq = 1 + c->total };
	struct genlmsghdr g = { .cmd = dice(c, COMMANDS), .version = dice(c, 9) ? 1 : dice(c, 3) };
	size_t at = NLMSG_LENGTH(GENL_HDRLEN);
	unsigned int i, count = dice(c, 7);

	if (!known)
		learn();
	known = true;
	n.nlmsg_type = ids[dice(c, 20) ? family : 2];
	if (!dice(c, 3))
		n.nlmsg_flags |= NLM_F_DUMP;
	if (!dice(c, 20))
		n.nlmsg_flags = dice(c, 0x10000);
	/* A third is as it should be, or nearly. */
	if (!dice(c, 3)) {
		n.nlmsg_type = ids[family];
		n.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
		g.version = 1;
		count = dice(c, 8) ? 0 : 1;
		at = (family ? proper_card : proper)(c, &n, &g, at);
	}
	for (i = 0; i < count; i++) {
		uint16_t type = dice(c, ATTRIBUTES) | (dice(c, 12) ? 0 : NLA_F_NESTED);

		at += put(room + at, type, data, value(c, data));
	}
	n.nlmsg_len = dice(c, 25) ? at : dice(c, at + 20);
	memcpy(room, &n, sizeof(n));
	memcpy(room + NLMSG_HDRLEN, &g, sizeof(g));
	return send(fd, room, at, MSG_DONTWAIT) >= 0 && answered(c, fd, n.nlmsg_seq);
}
