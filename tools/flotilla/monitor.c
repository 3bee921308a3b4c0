// SPDX-License-Identifier: GPL-2.0
/* flotilla monitor: events as they happen. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include "cli.h"

static const struct words events = {
	.name = (const char *const []){ "unspecified", "node-added", "node-removed",
					"node-changed", "node-up", "node-down", "dispatch" },
	.nr = 7,
};

struct watch {
	struct cli *cli;
	uint64_t left;		/* events to go; 0: no end */
};

/* One event a line, in JSON too, so that a reader need not wait for an end. */
static int show_event(enum flt_event type, const struct flt_node_info *node, void *arg)
{
	struct watch *w = arg;
	struct timespec now;
	char addr[64];
	json_t *row;

	clock_gettime(CLOCK_REALTIME, &now);
	if (w->cli->json) {
		row = json_pack("{s:f, s:s}", "time", now.tv_sec + now.tv_nsec / 1e9,
				"event", word_of(&events, type));
		if (node->name[0]) {
			json_object_set_new(row, "id", json_integer(node->id));
			json_object_set_new(row, "node", json_string(node->name));
			json_object_set_new(row, "state",
					    json_string(word_of(&node_states, node->state)));
			json_object_set_new(row, "admin",
					    json_string(word_of(&node_admins, node->admin)));
			json_object_set_new(row, "weight", json_integer(node->weight));
			if (node->reason[0])
				json_object_set_new(row, "reason", json_string(node->reason));
		}
		json_dumpf(row, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15));
		json_decref(row);
		putchar('\n');
	} else {
		char sep = w->cli->tabs ? '\t' : ' ';

		printf("%lld.%06ld%c%s%c%s%c%s%c%s\n", (long long)now.tv_sec, now.tv_nsec / 1000,
		       sep, word_of(&events, type), sep, node->name[0] ? node->name : "-", sep,
		       node->addr.ss_family ? address_text(&node->addr, addr, sizeof(addr)) : "-",
		       sep, node->reason[0] ? node->reason : "-");
	}
	fflush(stdout);
	return w->left && !--w->left ? 1 : 0;
}

static int watch_events(struct cli *cli, struct flt_client *c, struct watch *w, int timeout)
{
	struct pollfd p = { .fd = flt_events_fd(c), .events = POLLIN };
	int err;

	for (;;) {
		err = poll(&p, 1, timeout);
		if (err < 0 && errno == EINTR)
			continue;
		if (err < 0)
			return cli_fail(cli, "%s", strerror(errno));
		if (!err)
			return cli_fail(cli, "no event within the time");
		err = flt_events_read(c, show_event, w);
		if (err > 0)
			return CLI_OK;
		if (err == -ENOBUFS)
			fputs("flotilla: events were lost: too many at once\n", stderr);
		else if (err)
			return cli_fail(cli, "%s", flt_client_error(c));
	}
}

static int monitor(struct cli *cli, int argc, char **argv)
{
	struct watch w = { .cli = cli };
	struct flt_client *c;
	uint64_t seconds = 0;
	int status = CLI_OK, err;

	cli_doing(cli, "watch for events");
	for (; argc && status == CLI_OK; argc -= 2, argv += 2) {
		if (argc == 1)
			return cli_unknown(cli, argv[0]);
		if (!strcmp(argv[0], "count"))
			status = value_number(cli, argv[0], argv[1], 1, INT32_MAX, &w.left);
		else if (!strcmp(argv[0], "timeout"))
			status = value_number(cli, argv[0], argv[1], 1, 86400, &seconds);
		else
			status = cli_unknown(cli, argv[0]);
	}
	if (status)
		return status;
	err = flt_events_open(&c);
	if (err == -ENOENT)
		return cli_fail(cli, "flotilla.ko is not loaded (modprobe flotilla)");
	if (err)
		return cli_fail(cli, "%s", strerror(-err));
	status = watch_events(cli, c, &w, seconds ? (int)seconds * 1000 : -1);
	flt_client_close(c);
	return status;
}

static const struct command commands[] = {
	{ "", NULL, monitor, "[count NUMBER] [timeout SECONDS]",
	  "Print events until interrupted, until NUMBER have come or SECONDS pass without one" },
	{ 0 }
};

const struct object monitor_object = {
	"monitor", "events of nodes and policy as they happen", commands, true, NULL,
};
