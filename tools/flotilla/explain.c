// SPDX-License-Identifier: GPL-2.0
/* flotilla explain: asks the dispatcher which node would serve a URL, and why. */
#include <string.h>
#include "cli.h"
#include "dispatcher.h"

#define ANSWER_SECONDS	5

static void print_scalar(const json_t *value)
{
	if (json_is_string(value))
		cli_plain(stdout, json_string_value(value));
	else
		json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
}

/* "key: value" lines; what is inside is indented. Lets the dispatcher say more than we know. */
static void print_lines(const json_t *object, int indent)
{
	const char *key;
	const json_t *value, *item;
	size_t i;

	json_object_foreach((json_t *)object, key, value) {
		printf("%*s", indent, "");
		cli_plain(stdout, key);
		putchar(':');
		if (json_is_object(value)) {
			putchar('\n');
			print_lines(value, indent + 2);
			continue;
		}
		if (json_is_array(value) && json_is_object(json_array_get(value, 0))) {
			putchar('\n');
			json_array_foreach(value, i, item) {
				printf("%*s- ", indent + 2, "");
				print_lines(item, 0);
			}
			continue;
		}
		putchar(' ');
		if (json_is_array(value)) {
			json_array_foreach(value, i, item) {
				fputs(i ? ", " : "", stdout);
				print_scalar(item);
			}
		} else {
			print_scalar(value);
		}
		putchar('\n');
	}
}

static int explain(struct cli *cli, int argc, char **argv)
{
	const char *path = DISPATCHER_SOCKET, *why;
	json_t *request, *answer;
	int status = CLI_OK;

	cli_doing(cli, "explain");
	if (!argc)
		return cli_usage(cli, "a URL is missing");
	cli_doing(cli, "explain %s", argv[0]);
	if (argc == 3 && !strcmp(argv[1], "socket"))
		path = argv[2];
	else if (argc > 1)
		return cli_unknown(cli, argv[1]);
	request = json_pack("{s:s, s:s}", "cmd", "explain", "url", argv[0]);
	if (!request)
		return cli_usage(cli, "it is not text in UTF-8");
	answer = dispatcher_ask(cli, path, request, ANSWER_SECONDS);
	json_decref(request);
	if (!answer)
		return CLI_FAILED;
	why = json_string_value(json_object_get(answer, "error"));
	if (why)
		status = cli_fail(cli, "%s", why);
	else if (cli->json)
		json_print(cli, json_incref(answer));
	else
		print_lines(answer, 0);
	json_decref(answer);
	return status;
}

static const struct command commands[] = {
	{ "", NULL, explain, "URL [socket PATH]",
	  "Ask the dispatcher on this machine which node would serve URL, and why" },
	{ 0 }
};

const struct object explain_object = {
	"explain", "which node would serve a URL, and why", commands, true, NULL,
};
