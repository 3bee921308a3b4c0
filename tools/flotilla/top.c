// SPDX-License-Identifier: GPL-2.0
/* flotilla top: nodes, rates and refusals as they change. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "dispatcher.h"
#include "terminal.h"
#include "top.h"

/**
 * struct watch - what was asked for
 * @interval: seconds between two looks
 * @left:     screens to go; 0: no end
 * @path:     lardd's socket
 * @room:     only counters of this one, or NULL
 */
struct watch {
	struct cli *cli;
	double interval;
	uint64_t left;
	const char *path, *room;
};

static int take_interval(struct cli *cli, const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	if (*end || end == text || !(*seconds >= 0.1 && *seconds <= 3600))
		return cli_usage(cli, "interval %s is not between 0.1 and 3600 seconds", text);
	return CLI_OK;
}

static int take_arguments(struct cli *cli, struct watch *w, int argc, char **argv)
{
	int status = CLI_OK;

	for (; argc && !status; argc--, argv++) {
		const char *word = argv[0];

		if (!strcmp(word, "--once")) {
			w->left = 1;
			continue;
		}
		if (strcmp(word, "interval") && strcmp(word, "-d") && strcmp(word, "count") &&
		    strcmp(word, "-n") && strcmp(word, "room") && strcmp(word, "socket"))
			return cli_unknown(cli, word);
		if (argc == 1)
			return cli_usage(cli, "%s needs a value", word);
		argc--, argv++;
		if (!strcmp(word, "interval") || !strcmp(word, "-d"))
			status = take_interval(cli, argv[0], &w->interval);
		else if (!strcmp(word, "count") || !strcmp(word, "-n"))
			status = value_number(cli, "count", argv[0], 1, INT32_MAX, &w->left);
		else
			*(word[0] == 'r' ? &w->room : &w->path) = argv[0];
	}
	return status;
}

static void print(const struct watch *w, json_t *top)
{
	char *text;

	if (w->cli->json) {
		json_print(w->cli, json_incref(top));
	} else if (w->cli->tabs) {
		top_rows(top, stdout);
	} else {
		text = top_text(top, 0);
		fputs(text ? text : "out of memory\n", stdout);
		free(text);
		if (w->left != 1)
			putchar('\n');
	}
	fflush(stdout);
}

/* One after another, for pipes and files; each has the rates of an interval. */
static int print_all(struct watch *w, struct look *before)
{
	struct look after;
	json_t *top;

	do {
		poll(NULL, 0, w->interval * 1000);
		if (!look_take(&after, &w->cli->client, w->path)) {
			look_free(&after);
			return cli_fail(w->cli, "flotilla.ko and lardd have gone");
		}
		top = look_compare(before, &after, w->room);
		print(w, top);
		json_decref(top);
		look_free(before);
		*before = after;
	} while (!ferror(stdout) && (!w->left || --w->left));
	return CLI_OK;
}

static bool draw(struct terminal *t, const json_t *top)
{
	unsigned int rows, columns;
	char *text;
	bool more;

	terminal_size(&rows, &columns);
	text = top_text(top, rows);
	more = text && terminal_draw(t, text);
	free(text);
	return more;
}

/* True: the time is over, and there may be news. */
static bool wait_for_news(struct terminal *t, const json_t *top, double seconds)
{
	double until = terminal_clock() + seconds;
	enum terminal_event event;

	do {
		event = terminal_wait(t, until);
		if (event == TERMINAL_SIZE && !draw(t, top))
			return false;
	} while (event == TERMINAL_SIZE);
	return event == TERMINAL_TIME;
}

/* Modules and lardd may go and come back meanwhile. */
static void show_all(struct watch *w, struct look *before)
{
	struct look after = *before;
	struct terminal t;
	json_t *top;
	bool more;

	*before = (struct look){ 0 };
	terminal_open(&t);
	do {
		top = look_compare(before->at > 0 ? before : NULL, &after, w->room);
		look_free(before);
		*before = after;
		more = draw(&t, top) && wait_for_news(&t, top, w->interval) &&
		       (!w->left || --w->left);
		json_decref(top);
		if (more)
			look_take(&after, &w->cli->client, w->path);
	} while (more);
	terminal_close(&t);
}

static int top(struct cli *cli, int argc, char **argv)
{
	struct watch w = { .cli = cli, .interval = 1, .path = DISPATCHER_SOCKET };
	struct look look;
	int status;

	cli_doing(cli, "watch");
	status = take_arguments(cli, &w, argc, argv);
	if (status)
		return status;
	if (!look_take(&look, &cli->client, w.path)) {
		status = cli_fail(cli, "flotilla.ko is not loaded (modprobe flotilla), "
				  "and no dispatcher listens on %s", w.path);
	} else if (!cli->json && !cli->tabs && w.left != 1 && terminal_is_one()) {
		show_all(&w, &look);
	} else {
		status = print_all(&w, &look);
	}
	look_free(&look);
	return status;
}

static const struct command commands[] = {
	{ "", NULL, top, "[interval SECONDS] [count NUMBER | --once] [room ROOM] [socket PATH]",
	  "Show nodes, rates, refusals and the busiest counters until \"q\" or a signal, "
	  "or NUMBER times" },
	{ 0 }
};

const struct object top_object = {
	"top", "nodes, rates and counters as they change", commands, true, NULL,
};
