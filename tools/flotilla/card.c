// SPDX-License-Identifier: GPL-2.0
/* flotilla card: disks offered to other nodes, and disks of other nodes. */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <stdlib.h>
#include <string.h>
#include <flotilla/card.h>
#include "cli.h"

static const struct words serves = { (const char *const[]){ "mix", "event", "thread" }, 3 };
static const struct words delivers = { (const char *const[]){ "event", "async", "sync" }, 3 };
static const struct words modes = { (const char *const[]){ "block", "page" }, 2 };
static const struct words states = {
	(const char *const[]){ "waiting", "live", "refused", "dead" }, 4
};

static const struct words helds = { (const char *const[]){ "no", "cached", "hosted" }, 3 };
static const struct words copies = {
	(const char *const[]){ "unknown", "singlet", "recent", "older" }, 4
};

static const struct column explain_columns[] = {
	{ "disk", "DISK", NULL },
	{ "block", "BLOCK", NULL },
	{ "policy", "POLICY", NULL },
	{ "here", "HERE", NULL },
	{ "copy", "COPY", NULL },
	{ "home", "HOME", NULL },
	{ "previous", "PREVIOUS", NULL },
	{ "next", "NEXT", NULL },
	{ "ask", "ASK", NULL },
	{ "hosted", "HOSTED", NULL },
	{ "host", "HOST", NULL },
};

static const struct column export_columns[] = {
	{ "export", "EXPORT", NULL },
	{ "device", "DEVICE", NULL },
	{ "size", "BYTES", NULL },
	{ "write", "WRITE", NULL },
	{ "nodes", "NODES", NULL },
	{ "sessions", "SESSIONS", NULL },
	{ "serve", "SERVE", NULL },
	{ "deliver", "DELIVER", NULL },
	{ "policy", "POLICY", NULL },
};

static const struct column disk_columns[] = {
	{ "disk", "DISK", NULL },
	{ "node", "NODE", NULL },
	{ "export", "EXPORT", NULL },
	{ "state", "STATE", NULL },
	{ "size", "BYTES", NULL },
	{ "write", "WRITE", NULL },
	{ "mode", "MODE", NULL },
	{ "exclusive", "EXCLUSIVE", NULL },
	{ "openers", "OPENERS", NULL },
	{ "in_flight", "IN-FLIGHT", NULL },
	{ "policy", "POLICY", NULL },
	{ "reason", "REASON", NULL },
};

/**
 * struct wire - one conversation with the kernel
 * @nl:     the socket
 * @family: number of the family "flotilla_card"
 * @error:  the kernel's sentence, or ""
 * @buffer: request, then its answers
 */
struct wire {
	struct mnl_socket *nl;
	uint16_t family;
	char error[256];
	_Alignas(struct nlmsghdr) char buffer[32768];
};

/* Attributes of a message by number; those that are listed several times: the last. */
struct attrs {
	const struct nlattr *at[CARD_A_MAX + 1];
};

static const char *text_of(const struct attrs *a, enum card_attr attr)
{
	return a->at[attr] ? mnl_attr_get_str(a->at[attr]) : "";
}

static uint64_t number_of(const struct attrs *a, enum card_attr attr)
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

static void parse(const struct nlmsghdr *nlh, struct attrs *a)
{
	const struct nlattr *attr;

	memset(a, 0, sizeof(*a));
	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr)) {
		unsigned int type = mnl_attr_get_type(attr);

		if (type <= CARD_A_MAX)
			a->at[type] = attr;
	}
}

static struct nlmsghdr *request(struct wire *w, uint8_t cmd, uint16_t flags)
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

typedef void (*message_fn)(const struct nlmsghdr *nlh, void *arg);

/* 0 or a negative errno. */
static int transact(struct wire *w, const struct nlmsghdr *nlh, message_fn fn, void *arg)
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

static void wire_close(struct wire *w)
{
	if (w && w->nl)
		mnl_socket_close(w->nl);
	free(w);
}

/* NULL after saying why. */
static struct wire *wire_open(struct cli *cli)
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
	nlh = request(w, CTRL_CMD_GETFAMILY, NLM_F_ACK);
	nlh->nlmsg_type = GENL_ID_CTRL;
	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, CARD_GENL_NAME);
	err = transact(w, nlh, take_family, &w->family);
	if (!err && w->family)
		return w;
	cli_fail(cli, err == -ENOENT ? "card.ko is not loaded: modprobe card" :
		 "the kernel does not know the family %s", CARD_GENL_NAME);
undo:
	wire_close(w);
	return NULL;
}

/* Ends the conversation; an exit status. */
static int settle(struct cli *cli, struct wire *w, int err)
{
	int status = CLI_OK;

	if (err)
		status = cli_fail(cli, "%s", w->error[0] ? w->error : strerror(-err));
	wire_close(w);
	return status;
}

/* Puts a word's number; an exit status. */
static int put_word(struct cli *cli, struct nlmsghdr *nlh, enum card_attr attr, const char *what,
		    const char *text, const struct words *words)
{
	uint8_t value;
	int status = value_word(cli, what, text, words, &value);

	if (!status)
		mnl_attr_put_u8(nlh, attr, value);
	return status;
}

static int put_number(struct cli *cli, struct nlmsghdr *nlh, enum card_attr attr, const char *what,
		      const char *text, uint64_t min, uint64_t max)
{
	uint64_t value;
	int status = value_number(cli, what, text, min, max, &value);

	if (!status)
		mnl_attr_put_u32(nlh, attr, value);
	return status;
}

static int put_byte(struct cli *cli, struct nlmsghdr *nlh, enum card_attr attr, const char *what,
		    const char *text, uint64_t max)
{
	uint64_t value;
	int status = value_number(cli, what, text, 0, max, &value);

	if (!status)
		mnl_attr_put_u8(nlh, attr, value);
	return status;
}

static int put_nodes(struct cli *cli, struct nlmsghdr *nlh, const char *list)
{
	char name[FLT_NAME_MAX], text[CARD_NODES_MAX * FLT_NAME_MAX];
	char *each, *save = NULL;
	int status = CLI_OK;

	if (strlen(list) >= sizeof(text))
		return cli_usage(cli, "too many nodes");
	strcpy(text, list);
	for (each = strtok_r(text, ",", &save); each && !status;
	     each = strtok_r(NULL, ",", &save)) {
		status = value_name(cli, each, name);
		if (!status)
			mnl_attr_put_strz(nlh, CARD_A_EXPORT_NODE, name);
	}
	return status;
}

static int put_text(struct cli *cli, struct nlmsghdr *nlh, enum card_attr attr, const char *what,
		    const char *text, size_t max)
{
	if (!text[0] || strlen(text) >= max)
		return cli_usage(cli, "%s is empty or too long", what);
	mnl_attr_put_strz(nlh, attr, text);
	return CLI_OK;
}

static int export_argument(struct cli *cli, struct nlmsghdr *nlh, const char *key,
			   const char *value)
{
	if (!strcmp(key, "device"))
		return put_text(cli, nlh, CARD_A_EXPORT_PATH, key, value, CARD_PATH_MAX);
	if (!strcmp(key, "mount"))
		return put_text(cli, nlh, CARD_A_EXPORT_MOUNT, key, value, CARD_PATH_MAX);
	if (!strcmp(key, "nodes"))
		return put_nodes(cli, nlh, value);
	if (!strcmp(key, "policy"))
		return put_text(cli, nlh, CARD_A_EXPORT_POLICY, key, value, CARD_NAME_MAX);
	if (!strcmp(key, "host"))
		return put_number(cli, nlh, CARD_A_EXPORT_HOST, key, value, 0, INT32_MAX);
	if (!strcmp(key, "home_shift"))
		return put_byte(cli, nlh, CARD_A_EXPORT_HOME_SHIFT, key, value,
				CARD_HOME_SHIFT_MAX);
	if (!strcmp(key, "serve"))
		return put_word(cli, nlh, CARD_A_EXPORT_SERVE, key, value, &serves);
	if (!strcmp(key, "deliver"))
		return put_word(cli, nlh, CARD_A_EXPORT_DELIVER, key, value, &delivers);
	return cli_unknown(cli, key);
}

static int disk_argument(struct cli *cli, struct nlmsghdr *nlh, const char *key, const char *value)
{
	if (!strcmp(key, "mode"))
		return put_word(cli, nlh, CARD_A_DISK_MODE, key, value, &modes);
	if (!strcmp(key, "depth"))
		return put_number(cli, nlh, CARD_A_DISK_DEPTH, key, value, 1, 1024);
	if (!strcmp(key, "timeout"))
		return put_number(cli, nlh, CARD_A_DISK_TIMEOUT_MS, key, value, 100, 600000);
	if (!strcmp(key, "retries"))
		return put_number(cli, nlh, CARD_A_DISK_RETRIES, key, value, 0, 1000);
	if (!strcmp(key, "readahead"))
		return put_number(cli, nlh, CARD_A_DISK_READAHEAD, key, value, 0, 16384);
	if (!strcmp(key, "host"))
		return put_number(cli, nlh, CARD_A_DISK_HOST, key, value, 0, INT32_MAX);
	return cli_unknown(cli, key);
}

/* Words that stand alone, each a bit of the flags. */
static uint32_t flag_of(const char *word)
{
	if (!strcmp(word, "write"))
		return CARD_FLAG_WRITE;
	if (!strcmp(word, "keep"))
		return CARD_FLAG_KEEP;
	if (!strcmp(word, "nolookup"))
		return CARD_FLAG_NOLOOKUP;
	return 0;
}

static int take_arguments(struct cli *cli, struct nlmsghdr *nlh, int argc, char **argv,
			  uint32_t known, enum card_attr flags_attr,
			  int (*one)(struct cli *cli, struct nlmsghdr *nlh, const char *key,
				     const char *value))
{
	uint32_t flags = 0;
	int status = CLI_OK;

	while (argc && !status) {
		if (flag_of(argv[0]) & known) {
			flags |= flag_of(argv[0]);
			argc--;
			argv++;
			continue;
		}
		if (argc == 1)
			return cli_usage(cli, "%s is unknown, or needs a value", argv[0]);
		status = one(cli, nlh, argv[0], argv[1]);
		argc -= 2;
		argv += 2;
	}
	if (!status && flags)
		mnl_attr_put_u32(nlh, flags_attr, flags);
	return status;
}

static int export_command(struct cli *cli, int argc, char **argv, uint8_t cmd)
{
	char name[FLT_NAME_MAX];
	struct nlmsghdr *nlh;
	struct wire *w;
	int status;

	if (!argc)
		return cli_usage(cli, "the export's name is missing");
	status = value_name(cli, argv[0], name);
	if (status)
		return status;
	w = wire_open(cli);
	if (!w)
		return CLI_FAILED;
	nlh = request(w, cmd, NLM_F_ACK);
	mnl_attr_put_strz(nlh, CARD_A_EXPORT_NAME, name);
	status = take_arguments(cli, nlh, argc - 1, argv + 1,
				cmd == CARD_CMD_EXPORT_NEW ? CARD_FLAG_WRITE : 0,
				CARD_A_EXPORT_FLAGS, export_argument);
	if (status) {
		wire_close(w);
		return status;
	}
	return settle(cli, w, transact(w, nlh, NULL, NULL));
}

static int card_export(struct cli *cli, int argc, char **argv)
{
	cli_doing(cli, "export %s", argc ? argv[0] : "a disk");
	return export_command(cli, argc, argv, CARD_CMD_EXPORT_NEW);
}

static int card_set(struct cli *cli, int argc, char **argv)
{
	cli_doing(cli, "change export %s", argc ? argv[0] : "");
	return export_command(cli, argc, argv, CARD_CMD_EXPORT_SET);
}

static int card_unexport(struct cli *cli, int argc, char **argv)
{
	cli_doing(cli, "end export %s", argc ? argv[0] : "");
	if (argc > 1)
		return cli_unknown(cli, argv[1]);
	return export_command(cli, argc, argv, CARD_CMD_EXPORT_DEL);
}

static void take_name(const struct nlmsghdr *nlh, void *arg)
{
	struct attrs a;

	parse(nlh, &a);
	snprintf(arg, CARD_NAME_MAX, "%s", text_of(&a, CARD_A_DISK_NAME));
}

static int card_attach(struct cli *cli, int argc, char **argv)
{
	char node[FLT_NAME_MAX], export[FLT_NAME_MAX], disk[CARD_NAME_MAX] = "";
	struct nlmsghdr *nlh;
	struct wire *w;
	int status;

	cli_doing(cli, "attach a disk");
	if (argc < 2)
		return cli_usage(cli, "a node and the name of its export are needed");
	cli_doing(cli, "attach %s of %s", argv[1], argv[0]);
	status = value_name(cli, argv[0], node);
	if (!status)
		status = value_name(cli, argv[1], export);
	if (status)
		return status;
	w = wire_open(cli);
	if (!w)
		return CLI_FAILED;
	nlh = request(w, CARD_CMD_DISK_NEW, NLM_F_ACK);
	mnl_attr_put_strz(nlh, CARD_A_DISK_NODE, node);
	mnl_attr_put_strz(nlh, CARD_A_DISK_EXPORT, export);
	status = take_arguments(cli, nlh, argc - 2, argv + 2,
				CARD_FLAG_WRITE | CARD_FLAG_KEEP | CARD_FLAG_NOLOOKUP,
				CARD_A_DISK_FLAGS, disk_argument);
	if (status) {
		wire_close(w);
		return status;
	}
	status = settle(cli, w, transact(w, nlh, take_name, disk));
	if (status)
		return status;
	if (cli->json)
		json_print(cli, json_pack("{s:s}", "disk", disk));
	else
		printf("%s\n", disk);
	return CLI_OK;
}

static int card_detach(struct cli *cli, int argc, char **argv)
{
	bool force = argc > 1 && !strcmp(argv[argc - 1], "force");
	char name[2][FLT_NAME_MAX];
	struct nlmsghdr *nlh;
	struct wire *w;
	int status, i;

	argc -= force;
	cli_doing(cli, "detach a disk");
	if (argc != 1 && argc != 2)
		return cli_usage(cli, "name the disk, or a node and its export");
	cli_doing(cli, "detach %s", argv[argc - 1]);
	for (i = 0; i < argc; i++) {
		status = value_name(cli, argv[i], name[i]);
		if (status)
			return status;
	}
	w = wire_open(cli);
	if (!w)
		return CLI_FAILED;
	nlh = request(w, CARD_CMD_DISK_DEL, NLM_F_ACK);
	if (argc == 1) {
		mnl_attr_put_strz(nlh, CARD_A_DISK_NAME, name[0]);
	} else {
		mnl_attr_put_strz(nlh, CARD_A_DISK_NODE, name[0]);
		mnl_attr_put_strz(nlh, CARD_A_DISK_EXPORT, name[1]);
	}
	if (force)
		mnl_attr_put(nlh, CARD_A_DISK_FORCE, 0, NULL);
	return settle(cli, w, transact(w, nlh, NULL, NULL));
}

static void export_row(const struct nlmsghdr *nlh, void *arg)
{
	json_t *nodes = json_array();
	const struct nlattr *attr;
	struct attrs a;
	json_t *row;

	parse(nlh, &a);
	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(attr) == CARD_A_EXPORT_NODE)
			json_array_append_new(nodes, json_string(mnl_attr_get_str(attr)));
	row = json_pack("{s:s, s:s, s:I, s:b, s:o, s:I, s:s, s:s, s:s}",
			"export", text_of(&a, CARD_A_EXPORT_NAME),
			"device", text_of(&a, CARD_A_EXPORT_PATH),
			"size", (json_int_t)number_of(&a, CARD_A_EXPORT_SIZE),
			"write", !!(number_of(&a, CARD_A_EXPORT_FLAGS) & CARD_FLAG_WRITE),
			"nodes", nodes,
			"sessions", (json_int_t)number_of(&a, CARD_A_EXPORT_SESSIONS),
			"serve", word_of(&serves, number_of(&a, CARD_A_EXPORT_SERVE)),
			"deliver", word_of(&delivers, number_of(&a, CARD_A_EXPORT_DELIVER)),
			"policy", text_of(&a, CARD_A_EXPORT_POLICY));
	if (a.at[CARD_A_EXPORT_MOUNT])
		json_object_set_new(row, "mount", json_string(text_of(&a, CARD_A_EXPORT_MOUNT)));
	json_array_append_new(arg, row);
}

static void disk_row(const struct nlmsghdr *nlh, void *arg)
{
	uint32_t flags;
	struct attrs a;
	json_t *row;

	parse(nlh, &a);
	flags = number_of(&a, CARD_A_DISK_FLAGS);
	row = json_pack("{s:s, s:s, s:s, s:s, s:I, s:b, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:s}",
			"disk", text_of(&a, CARD_A_DISK_NAME),
			"node", text_of(&a, CARD_A_DISK_NODE),
			"export", text_of(&a, CARD_A_DISK_EXPORT),
			"state", word_of(&states, number_of(&a, CARD_A_DISK_STATE)),
			"size", (json_int_t)number_of(&a, CARD_A_DISK_SIZE),
			"write", !!(flags & CARD_FLAG_WRITE),
			"mode", word_of(&modes, number_of(&a, CARD_A_DISK_MODE)),
			"exclusive", !(flags & CARD_FLAG_KEEP),
			"lookup", !(flags & CARD_FLAG_NOLOOKUP),
			"depth", (json_int_t)number_of(&a, CARD_A_DISK_DEPTH),
			"timeout_ms", (json_int_t)number_of(&a, CARD_A_DISK_TIMEOUT_MS),
			"retries", (json_int_t)number_of(&a, CARD_A_DISK_RETRIES),
			"readahead", (json_int_t)number_of(&a, CARD_A_DISK_READAHEAD),
			"openers", (json_int_t)number_of(&a, CARD_A_DISK_OPENERS),
			"in_flight", (json_int_t)number_of(&a, CARD_A_DISK_INFLIGHT),
			"policy", text_of(&a, CARD_A_DISK_POLICY));
	if (a.at[CARD_A_DISK_REASON])
		json_object_set_new(row, "reason", json_string(text_of(&a, CARD_A_DISK_REASON)));
	json_array_append_new(arg, row);
}

/* A list of nodes is one word in a table. */
static void join_nodes(json_t *row)
{
	json_t *nodes = json_object_get(row, "nodes"), *each;
	char text[CARD_NODES_MAX * FLT_NAME_MAX] = "";
	size_t i, n = 0;

	json_array_foreach(nodes, i, each)
		n += snprintf(text + n, sizeof(text) - n, "%s%s", i ? "," : "",
			      json_string_value(each));
	json_object_set_new(row, "nodes", json_string(text));
}

static void show_rows(struct cli *cli, json_t *rows, const struct column *columns, unsigned int nr)
{
	struct table table;
	json_t *row;
	size_t i;

	table_begin(&table, cli, columns, nr);
	json_array_foreach(rows, i, row) {
		if (!cli->json && json_object_get(row, "nodes"))
			join_nodes(row);
		table_row(&table, json_incref(row));
	}
	table_end(&table);
}

static int card_show(struct cli *cli, int argc, char **argv)
{
	bool exports = !argc || !strcmp(argv[0], "exports");
	bool disks = !argc || !strcmp(argv[0], "disks");
	json_t *rows[2] = { json_array(), json_array() };
	struct wire *w;
	int status, err = 0;

	cli_doing(cli, "show the cards");
	if (argc > 1 || (!exports && !disks)) {
		status = cli_usage(cli, "show exports, disks, or both");
		goto out;
	}
	w = wire_open(cli);
	if (!w) {
		status = CLI_FAILED;
		goto out;
	}
	if (exports)
		err = transact(w, request(w, CARD_CMD_EXPORT_GET, NLM_F_DUMP), export_row, rows[0]);
	if (disks && !err)
		err = transact(w, request(w, CARD_CMD_DISK_GET, NLM_F_DUMP), disk_row, rows[1]);
	status = settle(cli, w, err);
	if (status)
		goto out;
	if (cli->json && exports && disks) {
		json_print(cli, json_pack("{s:O, s:O}", "exports", rows[0], "disks", rows[1]));
		goto out;
	}
	if (exports)
		show_rows(cli, rows[0], export_columns, ARRAY_SIZE(export_columns));
	if (disks)
		show_rows(cli, rows[1], disk_columns, ARRAY_SIZE(disk_columns));
out:
	json_decref(rows[0]);
	json_decref(rows[1]);
	return status;
}

static void explain_row(const struct nlmsghdr *nlh, void *arg)
{
	struct attrs a;

	parse(nlh, &a);
	json_array_append_new(arg, json_pack(
		"{s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I}",
		"disk", text_of(&a, CARD_A_EXPLAIN_NAME),
		"block", (json_int_t)number_of(&a, CARD_A_EXPLAIN_BLOCK),
		"policy", text_of(&a, CARD_A_EXPLAIN_POLICY),
		"here", word_of(&helds, number_of(&a, CARD_A_EXPLAIN_HELD)),
		"copy", word_of(&copies, number_of(&a, CARD_A_EXPLAIN_COPY)),
		"home", text_of(&a, CARD_A_EXPLAIN_HOME),
		"previous", text_of(&a, CARD_A_EXPLAIN_PREVIOUS),
		"next", text_of(&a, CARD_A_EXPLAIN_NEXT),
		"ask", text_of(&a, CARD_A_EXPLAIN_ASK),
		"hosted", (json_int_t)number_of(&a, CARD_A_EXPLAIN_HOSTED),
		"host", (json_int_t)number_of(&a, CARD_A_EXPLAIN_HOST)));
}

static int card_explain(struct cli *cli, int argc, char **argv)
{
	char name[FLT_NAME_MAX] = "";
	struct nlmsghdr *nlh;
	uint64_t block;
	struct wire *w;
	int status = CLI_OK;
	json_t *rows;

	cli_doing(cli, "explain a block");
	if (argc != 1 && argc != 2)
		return cli_usage(cli, "a block's number is needed, and the disk if there are several");
	if (argc == 2)
		status = value_name(cli, argv[0], name);
	if (!status)
		status = value_number(cli, "the block", argv[argc - 1], 0, INT64_MAX, &block);
	if (status)
		return status;
	w = wire_open(cli);
	if (!w)
		return CLI_FAILED;
	nlh = request(w, CARD_CMD_EXPLAIN, NLM_F_ACK);
	if (name[0])
		mnl_attr_put_strz(nlh, CARD_A_EXPLAIN_NAME, name);
	mnl_attr_put_u64(nlh, CARD_A_EXPLAIN_BLOCK, block);
	rows = json_array();
	status = settle(cli, w, transact(w, nlh, explain_row, rows));
	if (!status)
		show_rows(cli, rows, explain_columns, ARRAY_SIZE(explain_columns));
	json_decref(rows);
	return status;
}

static int take_stat(const char *room, const char *name, uint64_t value, void *arg)
{
	if (!strcmp(room, "card"))
		json_object_set_new(arg, name, json_integer(value));
	return 0;
}

static double stat_of(const json_t *stats, const char *name)
{
	return json_integer_value(json_object_get(stats, name));
}

/* What a read costs on average, the way of Table 3.1 of the thesis; microseconds. */
static json_t *breakdown(const json_t *stats)
{
	double n = stat_of(stats, "CardReads") ?: 1;
	double total = stat_of(stats, "CardTotalNsec") / n / 1000;
	double copy = stat_of(stats, "CardCopyNsec") / n / 1000;
	double service = stat_of(stats, "CardServiceNsec") / n / 1000;
	double disk = stat_of(stats, "CardRemoteDiskUsec") / n;

	return json_pack("{s:f, s:f, s:f, s:f, s:f}", "total_us", total, "copy_us", copy,
			 "service_us", service, "disk_us", disk,
			 "network_us", total - copy - service - disk);
}

static int card_stats(struct cli *cli, int argc, char **argv)
{
	json_t *stats, *costs, *value;
	const char *name;
	int status;

	(void)argv;
	cli_doing(cli, "show what the cards did");
	if (argc)
		return cli_unknown(cli, argv[0]);
	if (!cli_client(cli))
		return CLI_FAILED;
	stats = json_object();
	status = cli_result(cli, flt_stats_each(cli->client, take_stat, stats));
	if (status) {
		json_decref(stats);
		return status;
	}
	costs = breakdown(stats);
	if (cli->json) {
		json_object_set_new(stats, "read", costs);
		json_print(cli, stats);
		return CLI_OK;
	}
	json_object_foreach(stats, name, value)
		if (json_integer_value(value))
			printf("%-28s %lld\n", name, (long long)json_integer_value(value));
	printf("a read, on average:");
	json_object_foreach(costs, name, value)
		printf(" %s %.1f", name, json_real_value(value));
	printf("\n");
	json_decref(costs);
	json_decref(stats);
	return CLI_OK;
}

static const struct command commands[] = {
	{ "show", "list", card_show, "show [exports|disks]", "Show exports and attached disks" },
	{ "export", NULL, card_export,
	  "export NAME device PATH nodes NODE[,NODE]... [write] [ARGUMENT VALUE]...",
	  "Offer a block device to nodes" },
	{ "unexport", NULL, card_unexport, "unexport NAME",
	  "Offer it no more; waits for the requests that are being answered" },
	{ "set", NULL, card_set, "set NAME [serve MODE] [deliver MODE]",
	  "Change how an export answers" },
	{ "attach", NULL, card_attach,
	  "attach NODE EXPORT [write] [keep] [nolookup] [ARGUMENT VALUE]...",
	  "Make another node's export a block device here; prints its name" },
	{ "detach", NULL, card_detach, "detach DISK|NODE EXPORT [force]",
	  "Remove the block device; force: although it is in use" },
	{ "explain", NULL, card_explain, "explain [DISK|EXPORT] BLOCK",
	  "What this node knows of a block of 4096 bytes, and whom it would ask for it" },
	{ "stats", NULL, card_stats, "stats", "Counters, and what a read costs on average" },
	{ 0 }
};

const struct object card_object = {
	"card", "disks offered to other nodes, and disks of other nodes",
	commands, false,
	"Arguments of export:\n"
	"  mount DIRECTORY                  where it is mounted here, for mode page of those who attach\n"
	"  serve mix|event|thread           where requests are worked on; default mix\n"
	"  deliver event|async|sync         who answers when the disk is done; default event\n"
	"  policy none|hscc|hdc             how the nodes' memories serve each other; default none\n"
	"  host PAGES                       kept for other nodes; default a quarter of memory\n"
	"Arguments of attach:\n"
	"  write                            allow writing, if the export does\n"
	"  keep                             the exporter may cache what is read (default: exclusive)\n"
	"  nolookup                         read the exporter's disk even if it has it cached\n"
	"  mode block|page                  which cache of the exporter is asked; default block\n"
	"  depth 1..1024                    requests in flight; default 128\n"
	"  timeout MS, retries N            of one attempt, further attempts; default 1000, 3\n"
	"  readahead PAGES                  default: what the exporter's disk has\n"
	"  host PAGES                       kept for other nodes, with a policy; default a quarter\n",
};
