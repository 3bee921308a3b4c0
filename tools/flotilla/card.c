// SPDX-License-Identifier: GPL-2.0
/* flotilla card: disks offered to other nodes, and disks of other nodes. */
#include <stdlib.h>
#include <string.h>
#include "card.h"

const struct words card_serves = { (const char *const[]){ "mix", "event", "thread" }, 3 };
const struct words card_delivers = { (const char *const[]){ "event", "async", "sync" }, 3 };
const struct words card_modes = { (const char *const[]){ "block", "page" }, 2 };

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

static int put_uuid(struct cli *cli, struct nlmsghdr *nlh, enum card_attr attr, const char *text)
{
	unsigned char uuid[CARD_UUID_LEN];

	if (!uuid_read(text, uuid))
		return cli_usage(cli, "%s is not a UUID", text);
	mnl_attr_put(nlh, attr, sizeof(uuid), uuid);
	return CLI_OK;
}

static int export_argument(struct cli *cli, struct nlmsghdr *nlh, const char *key,
			   const char *value)
{
	if (!strcmp(key, "device"))
		return put_text(cli, nlh, CARD_A_EXPORT_PATH, key, value, CARD_PATH_MAX);
	if (!strcmp(key, "uuid"))
		return put_uuid(cli, nlh, CARD_A_EXPORT_UUID, value);
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
		return put_word(cli, nlh, CARD_A_EXPORT_SERVE, key, value, &card_serves);
	if (!strcmp(key, "deliver"))
		return put_word(cli, nlh, CARD_A_EXPORT_DELIVER, key, value, &card_delivers);
	return cli_unknown(cli, key);
}

static int disk_argument(struct cli *cli, struct nlmsghdr *nlh, const char *key, const char *value)
{
	if (!strcmp(key, "uuid"))
		return put_uuid(cli, nlh, CARD_A_DISK_UUID, value);
	if (!strcmp(key, "mode"))
		return put_word(cli, nlh, CARD_A_DISK_MODE, key, value, &card_modes);
	if (!strcmp(key, "depth"))
		return put_number(cli, nlh, CARD_A_DISK_DEPTH, key, value, 1, 1024);
	if (!strcmp(key, "timeout"))
		return put_number(cli, nlh, CARD_A_DISK_TIMEOUT_MS, key, value, 100, 600000);
	if (!strcmp(key, "retries"))
		return put_number(cli, nlh, CARD_A_DISK_RETRIES, key, value, 0, 1000);
	if (!strcmp(key, "fail_fast"))
		return put_number(cli, nlh, CARD_A_DISK_FAIL_FAST, key, value, 0, 86400);
	if (!strcmp(key, "readahead"))
		return put_number(cli, nlh, CARD_A_DISK_READAHEAD, key, value, 0, 16384);
	if (!strcmp(key, "host"))
		return put_number(cli, nlh, CARD_A_DISK_HOST, key, value, 0, INT32_MAX);
	return cli_unknown(cli, key);
}

/* What only this side can see of the disk that is exported. */
static void put_device(struct nlmsghdr *nlh)
{
	struct card_device device;
	struct attrs a;
	unsigned int i;

	attrs_parse(nlh, &a);
	if (!a.at[CARD_A_EXPORT_PATH])
		return;
	card_device_look(attrs_text(&a, CARD_A_EXPORT_PATH), &device);
	for (i = 0; i < device.nr_twins; i++)
		mnl_attr_put_u32(nlh, CARD_A_EXPORT_CLAIM, device.twins[i]);
	if (!device.known || a.at[CARD_A_EXPORT_UUID])
		return;
	mnl_attr_put(nlh, CARD_A_EXPORT_UUID, sizeof(device.uuid), device.uuid);
	mnl_attr_put_u8(nlh, CARD_A_EXPORT_ORIGIN, CARD_ORIGIN_DISK);
}

/* Words that stand alone, each a bit of the flags. */
uint32_t card_flag(const char *word)
{
	if (!strcmp(word, "write"))
		return CARD_FLAG_WRITE;
	if (!strcmp(word, "keep"))
		return CARD_FLAG_KEEP;
	if (!strcmp(word, "nolookup"))
		return CARD_FLAG_NOLOOKUP;
	if (!strcmp(word, "shared"))
		return CARD_FLAG_SHARED;
	if (!strcmp(word, "unclaimed"))
		return CARD_FLAG_UNCLAIMED;
	if (!strcmp(word, "steal"))
		return CARD_FLAG_STEAL;
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
		if (card_flag(argv[0]) & known) {
			flags |= card_flag(argv[0]);
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
	nlh = wire_request(w, cmd, NLM_F_ACK);
	mnl_attr_put_strz(nlh, CARD_A_EXPORT_NAME, name);
	status = take_arguments(cli, nlh, argc - 1, argv + 1,
				cmd == CARD_CMD_EXPORT_NEW ? CARD_FLAG_WRITE | CARD_FLAG_SHARED | CARD_FLAG_UNCLAIMED : 0,
				CARD_A_EXPORT_FLAGS, export_argument);
	if (status) {
		wire_close(w);
		return status;
	}
	if (cmd == CARD_CMD_EXPORT_NEW)
		put_device(nlh);
	return wire_settle(cli, w, wire_transact(w, nlh, NULL, NULL));
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

	attrs_parse(nlh, &a);
	snprintf(arg, CARD_NAME_MAX, "%s", attrs_text(&a, CARD_A_DISK_NAME));
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
	nlh = wire_request(w, CARD_CMD_DISK_NEW, NLM_F_ACK);
	mnl_attr_put_strz(nlh, CARD_A_DISK_NODE, node);
	mnl_attr_put_strz(nlh, CARD_A_DISK_EXPORT, export);
	status = take_arguments(cli, nlh, argc - 2, argv + 2,
				CARD_FLAG_WRITE | CARD_FLAG_KEEP | CARD_FLAG_NOLOOKUP |
				CARD_FLAG_SHARED | CARD_FLAG_STEAL,
				CARD_A_DISK_FLAGS, disk_argument);
	if (status) {
		wire_close(w);
		return status;
	}
	status = wire_settle(cli, w, wire_transact(w, nlh, take_name, disk));
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
	nlh = wire_request(w, CARD_CMD_DISK_DEL, NLM_F_ACK);
	if (argc == 1) {
		mnl_attr_put_strz(nlh, CARD_A_DISK_NAME, name[0]);
	} else {
		mnl_attr_put_strz(nlh, CARD_A_DISK_NODE, name[0]);
		mnl_attr_put_strz(nlh, CARD_A_DISK_EXPORT, name[1]);
	}
	if (force)
		mnl_attr_put(nlh, CARD_A_DISK_FORCE, 0, NULL);
	return wire_settle(cli, w, wire_transact(w, nlh, NULL, NULL));
}

static const struct command commands[] = {
	{ "show", "list", card_show, "show [exports|disks]", "Show exports and attached disks" },
	{ "export", NULL, card_export,
	  "export NAME device PATH nodes NODE[,NODE]... [write [shared]] [unclaimed] [ARGUMENT VALUE]...",
	  "Offer a block device to nodes" },
	{ "unexport", NULL, card_unexport, "unexport NAME",
	  "Offer it no more; waits for the requests that are being answered" },
	{ "set", NULL, card_set, "set NAME [serve MODE] [deliver MODE]",
	  "Change how an export answers" },
	{ "attach", NULL, card_attach,
	  "attach NODE EXPORT [write [shared|steal]] [keep] [nolookup] [ARGUMENT VALUE]...",
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
	"  write                            one node at a time may write\n"
	"  shared                           with write: several may, who say shared, too (cluster file systems)\n"
	"  mount DIRECTORY                  where it is mounted here, for mode page of those who attach\n"
	"  serve mix|event|thread           where requests are worked on; default mix\n"
	"  deliver event|async|sync         who answers when the disk is done; default event\n"
	"  policy none|hscc|hscc-eager|hdc  how the nodes' memories serve each other; default none\n"
	"  home_shift 0..9                  with a policy: 2^N blocks in a row have one home; default 0\n"
	"  host PAGES                       kept for other nodes; default a quarter of memory\n"
	"  uuid UUID                        its identity; default the disk's own, or a random one\n"
	"  unclaimed                        others here may use the disk, which must be set read-only\n"
	"Arguments of attach:\n"
	"  write                            allow writing, if the export does and nobody else writes\n"
	"  shared                           with write: others write, too\n"
	"  steal                            with write: whoever writes is fenced, its late writes are refused\n"
	"  keep                             the exporter may cache what is read (default: exclusive)\n"
	"  nolookup                         read the exporter's disk even if it has it cached\n"
	"  mode block|page                  which cache of the exporter is asked; default block\n"
	"  depth 1..1024                    requests in flight; default 128\n"
	"  fail_fast SECONDS                without the node, then requests fail; default 0: they wait\n"
	"  timeout MS                       without an answer, then it is asked again; default 1000\n"
	"  retries N                        further time-outs, then a request fails; default: never\n"
	"  readahead PAGES                  default: what the exporter's disk has\n"
	"  host PAGES                       kept for other nodes, with a policy; default a quarter\n"
	"  uuid UUID                        accept no other disk; default the first one\n",
};
