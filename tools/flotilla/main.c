// SPDX-License-Identifier: GPL-2.0
/* flotilla(8): one command line for the whole of Flotilla. See flotilla.8. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

static void print_version(const struct cli *cli)
{
	if (cli->json)
		json_print(cli, json_pack("{s:s, s:i}", "version", FLT_VERSION,
					  "uapi", FLT_GENL_VERSION));
	else
		printf("flotilla %s, generic netlink family version %d\n", FLT_VERSION,
		       FLT_GENL_VERSION);
}

static int parse_and_run(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "pretty", no_argument, NULL, 'p' },
		{ "tabs", no_argument, NULL, 't' },
		{ "batch", required_argument, NULL, 'b' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	const char *batch = NULL;
	bool version = false;
	int option;

	while ((option = getopt_long(argc, argv, "+jptb:Vh", options, NULL)) >= 0) {
		switch (option) {
		case 'j':
			cli->json = true;
			break;
		case 'p':
			cli->json = cli->pretty = true;
			break;
		case 't':
			cli->tabs = true;
			break;
		case 'b':
			batch = optarg;
			break;
		case 'V':
			version = true;
			break;
		case 'h':
			help_program(stdout);
			return CLI_OK;
		default:
			return CLI_USAGE;	/* getopt has said which option and why */
		}
	}
	if (cli->json && cli->tabs)
		return cli_usage(cli, "-j and -t exclude each other");
	argc -= optind;
	argv += optind;
	if (version) {
		print_version(cli);
		return CLI_OK;
	}
	if (batch)
		return argc ? cli_usage(cli, "-b takes its commands from the file: %s is too much",
					argv[0]) : cli_batch(cli, batch);
	if (!argc) {
		help_program(stderr);
		return CLI_USAGE;
	}
	return cli_run(cli, argc, argv);
}

int main(int argc, char **argv)
{
	struct cli cli = { 0 };
	int status;

	if (argc)
		argv[0] = "flotilla";	/* getopt's messages begin with it */
	status = parse_and_run(&cli, argc, argv);
	flt_client_close(cli.client);
	if (fflush(stdout) || ferror(stdout)) {
		fputs("flotilla: cannot write the answer to standard output\n", stderr);
		status = CLI_FAILED;
	}
	return status;
}
