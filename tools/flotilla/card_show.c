// SPDX-License-Identifier: GPL-2.0
/* flotilla card show, explain and stats: what there is, what is known of a block, what it cost. */
#include <linux/genetlink.h>
#include <string.h>
#include "card.h"

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
	{ "shared", "SHARED", NULL },
	{ "writer", "WRITER", NULL },
	{ "nodes", "NODES", NULL },
	{ "sessions", "SESSIONS", NULL },
	{ "serve", "SERVE", NULL },
	{ "deliver", "DELIVER", NULL },
	{ "policy", "POLICY", NULL },
	{ "identity", "IDENTITY", NULL },
	{ "uuid", "UUID", NULL },
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
	{ "uuid", "UUID", NULL },
	{ "reason", "REASON", NULL },
};

static const struct words origins = { (const char *const[]){ "made", "disk", "named" }, 3 };

static json_t *uuid_json(const struct attrs *a, enum card_attr attr)
{
	char text[UUID_TEXT] = "";

	if (a->at[attr] && mnl_attr_get_payload_len(a->at[attr]) == CARD_UUID_LEN)
		uuid_write(mnl_attr_get_payload(a->at[attr]), text);
	return json_string(text);
}

static void export_row(const struct nlmsghdr *nlh, void *arg)
{
	json_t *nodes = json_array();
	const struct nlattr *attr;
	struct attrs a;
	json_t *row;

	attrs_parse(nlh, &a);
	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(attr) == CARD_A_EXPORT_NODE)
			json_array_append_new(nodes, json_string(mnl_attr_get_str(attr)));
	row = json_pack("{s:s, s:s, s:I, s:b, s:b, s:s, s:o, s:I, s:s, s:s, s:s, s:s, s:o}",
			"export", attrs_text(&a, CARD_A_EXPORT_NAME),
			"device", attrs_text(&a, CARD_A_EXPORT_PATH),
			"size", (json_int_t)attrs_number(&a, CARD_A_EXPORT_SIZE),
			"write", !!(attrs_number(&a, CARD_A_EXPORT_FLAGS) & CARD_FLAG_WRITE),
			"shared", !!(attrs_number(&a, CARD_A_EXPORT_FLAGS) & CARD_FLAG_SHARED),
			"writer", attrs_text(&a, CARD_A_EXPORT_WRITER),
			"nodes", nodes,
			"sessions", (json_int_t)attrs_number(&a, CARD_A_EXPORT_SESSIONS),
			"serve", word_of(&card_serves, attrs_number(&a, CARD_A_EXPORT_SERVE)),
			"deliver", word_of(&card_delivers, attrs_number(&a, CARD_A_EXPORT_DELIVER)),
			"policy", attrs_text(&a, CARD_A_EXPORT_POLICY),
			"identity", word_of(&origins, attrs_number(&a, CARD_A_EXPORT_ORIGIN)),
			"uuid", uuid_json(&a, CARD_A_EXPORT_UUID));
	if (a.at[CARD_A_EXPORT_MOUNT])
		json_object_set_new(row, "mount", json_string(attrs_text(&a, CARD_A_EXPORT_MOUNT)));
	json_array_append_new(arg, row);
}

static void disk_row(const struct nlmsghdr *nlh, void *arg)
{
	uint32_t flags;
	struct attrs a;
	json_t *row;

	attrs_parse(nlh, &a);
	flags = attrs_number(&a, CARD_A_DISK_FLAGS);
	row = json_pack("{s:s, s:s, s:s, s:s, s:I, s:b, s:b, s:s, s:b, s:b, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:s, s:o}",
			"disk", attrs_text(&a, CARD_A_DISK_NAME),
			"node", attrs_text(&a, CARD_A_DISK_NODE),
			"export", attrs_text(&a, CARD_A_DISK_EXPORT),
			"state", word_of(&states, attrs_number(&a, CARD_A_DISK_STATE)),
			"size", (json_int_t)attrs_number(&a, CARD_A_DISK_SIZE),
			"write", !!(flags & CARD_FLAG_WRITE),
			"shared", !!(flags & CARD_FLAG_SHARED),
			"mode", word_of(&card_modes, attrs_number(&a, CARD_A_DISK_MODE)),
			"exclusive", !(flags & CARD_FLAG_KEEP),
			"lookup", !(flags & CARD_FLAG_NOLOOKUP),
			"depth", (json_int_t)attrs_number(&a, CARD_A_DISK_DEPTH),
			"timeout_ms", (json_int_t)attrs_number(&a, CARD_A_DISK_TIMEOUT_MS),
			"retries", a.at[CARD_A_DISK_RETRIES] ?
			json_integer(attrs_number(&a, CARD_A_DISK_RETRIES)) : json_null(),
			"fail_fast", (json_int_t)attrs_number(&a, CARD_A_DISK_FAIL_FAST),
			"readahead", (json_int_t)attrs_number(&a, CARD_A_DISK_READAHEAD),
			"openers", (json_int_t)attrs_number(&a, CARD_A_DISK_OPENERS),
			"in_flight", (json_int_t)attrs_number(&a, CARD_A_DISK_INFLIGHT),
			"policy", attrs_text(&a, CARD_A_DISK_POLICY),
			"uuid", uuid_json(&a, CARD_A_DISK_UUID));
	if (a.at[CARD_A_DISK_REASON])
		json_object_set_new(row, "reason", json_string(attrs_text(&a, CARD_A_DISK_REASON)));
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

int card_show(struct cli *cli, int argc, char **argv)
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
		err = wire_transact(w, wire_request(w, CARD_CMD_EXPORT_GET, NLM_F_DUMP), export_row, rows[0]);
	if (disks && !err)
		err = wire_transact(w, wire_request(w, CARD_CMD_DISK_GET, NLM_F_DUMP), disk_row, rows[1]);
	status = wire_settle(cli, w, err);
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

	attrs_parse(nlh, &a);
	json_array_append_new(arg, json_pack(
		"{s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I}",
		"disk", attrs_text(&a, CARD_A_EXPLAIN_NAME),
		"block", (json_int_t)attrs_number(&a, CARD_A_EXPLAIN_BLOCK),
		"policy", attrs_text(&a, CARD_A_EXPLAIN_POLICY),
		"here", word_of(&helds, attrs_number(&a, CARD_A_EXPLAIN_HELD)),
		"copy", word_of(&copies, attrs_number(&a, CARD_A_EXPLAIN_COPY)),
		"home", attrs_text(&a, CARD_A_EXPLAIN_HOME),
		"previous", attrs_text(&a, CARD_A_EXPLAIN_PREVIOUS),
		"next", attrs_text(&a, CARD_A_EXPLAIN_NEXT),
		"ask", attrs_text(&a, CARD_A_EXPLAIN_ASK),
		"hosted", (json_int_t)attrs_number(&a, CARD_A_EXPLAIN_HOSTED),
		"host", (json_int_t)attrs_number(&a, CARD_A_EXPLAIN_HOST)));
}

int card_explain(struct cli *cli, int argc, char **argv)
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
	nlh = wire_request(w, CARD_CMD_EXPLAIN, NLM_F_ACK);
	if (name[0])
		mnl_attr_put_strz(nlh, CARD_A_EXPLAIN_NAME, name);
	mnl_attr_put_u64(nlh, CARD_A_EXPLAIN_BLOCK, block);
	rows = json_array();
	status = wire_settle(cli, w, wire_transact(w, nlh, explain_row, rows));
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

int card_stats(struct cli *cli, int argc, char **argv)
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
