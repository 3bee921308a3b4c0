// SPDX-License-Identifier: GPL-2.0
/* lardd: the dispatcher daemon. See README.md. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "check.h"
#include "config.h"
#include "lardd.h"
#include "tls/tls.h"

static const char usage[] =
	"Usage: lardd [OPTION]...\n"
	"Accept HTTP connections and send each to the node that has its content in memory:\n"
	"handed off in the kernel where handoff.ko is loaded, else proxied.\n"
	"\n"
	"  -c, --config FILE   configuration (default " CONFIG_PATH ")\n"
	"      --takeover      take the listening sockets of the lardd that runs, which then\n"
	"                      finishes what it has and ends: no connection is refused\n"
	"      --check         read the configuration, say what is wrong, and exit\n"
	"  -f, --foreground    stay in the foreground, log to standard error\n"
	"  -V, --version       print the version\n"
	"  -h, --help          print this\n"
	"\n"
	"Signals: HUP reads the configuration again, USR1 opens the access log anew,\n"
	"TERM stops when the connections have ended, twice at once.\n"
	"Exit status: 0, 1 when it cannot start, 2 for wrong usage.\n";

/* What is said of a name may have its bytes. */
static int fail(const char *sentence)
{
	char text[1024];

	snprintf(text, sizeof(text), "%s", sentence);
	fprintf(stderr, "lardd: %s\n", log_printable(text));
	return EXIT_FAILURE;
}

static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/*
 * In the child; the parent waits for its verdict, so that the exit status tells whether the service
 * has started. Before anything is opened: the handoff device does not survive a fork.
 */
static int go_to_background(void)
{
	char verdict = 1;
	int ends[2];
	pid_t pid;

	if (pipe(ends) || (pid = fork()) < 0)
		exit(fail("cannot fork"));
	if (pid) {
		close(ends[1]);
		if (read(ends[0], &verdict, 1) != 1)
			verdict = 1;
		_exit(verdict ? EXIT_FAILURE : EXIT_SUCCESS);
	}
	close(ends[0]);
	setsid();
	return ends[1];
}

static int run(struct config *config, const char *path, bool foreground, bool takeover)
{
	struct lardd *lardd;
	char error[1024];
	int parent = foreground ? -1 : go_to_background();

	raise_descriptor_limit();
	log_start();
	lardd = lardd_new(config, path, takeover, error, sizeof(error));
	if (!lardd)
		return fail(error);
	if (parent >= 0) {
		if (write(parent, "", 1) != 1 || chdir("/"))
			return fail("lost its parent");
		close(parent);
	}
	lardd_run(lardd);
	lardd_free(lardd);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "check", no_argument, NULL, 'k' },
		{ "takeover", no_argument, NULL, 't' },
		{ "foreground", no_argument, NULL, 'f' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	const char *path = CONFIG_PATH;
	bool check = false, foreground = false, takeover = false;
	struct config *config;
	char error[1024], *full;
	int c;

	if (tls_wipe_freed())
		return 1;
	while ((c = getopt_long(argc, argv, "c:fVh", options, NULL)) >= 0) {
		switch (c) {
		case 'c':
			path = optarg;
			break;
		case 'k':
			check = true;
			break;
		case 't':
			takeover = true;
			break;
		case 'f':
			foreground = true;
			break;
		case 'V':
			puts("lardd " FLT_VERSION);
			return EXIT_SUCCESS;
		case 'h':
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		default:
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "lardd: \"%s\" is too much; see lardd --help\n", argv[optind]);
		return 2;
	}
	config = config_read(path, error, sizeof(error));
	if (!config)
		return fail(error);
	if (check) {
		c = check_machine(config, path, error, sizeof(error));
		config_put(config);
		return c ? fail(error) : EXIT_SUCCESS;
	}
	full = realpath(path, NULL);	/* a reload must find it from any directory */
	c = run(config, full ? full : path, foreground, takeover);
	free(full);
	return c;
}
