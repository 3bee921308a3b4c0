// SPDX-License-Identifier: GPL-2.0
/*
 * count: what a server costs that does not depend on speed.
 *
 *	count -p PID[,PID...] [-n REQUESTS] [-j] -- LOAD...
 *
 * Runs LOAD (wrk, h2load, curl, ...) and reports the system calls, context switches, bytes
 * copied between kernel and program, and packets of the processes and their children, for
 * each request. The number of requests is -n, or what wrk prints. See bench/README.md.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench/count/breakpoint.h"
#include "bench/count/count.h"
#include "bench/count/process.h"
#include "bench/count/calls.h"
#include "count.skel.h"

static const char *const what_names[COUNT_WHATS] = {
	"system calls", "switches, waiting", "switches, forced", "bytes copied to program",
	"bytes copied from program", "packets in", "packets out", "bytes in", "bytes out",
};

#define LINKS_MAX	32

static const char usage[] =
	"usage: count -p PID[,PID...] [-n REQUESTS] [-j] -- LOAD...\n";

static int fail(const char *what)
{
	fprintf(stderr, "count: %s: %s\n", what, strerror(errno));
	return 1;
}

/* One counter of all CPUs. */
static uint64_t sum(int map, uint32_t key, int cpus)
{
	uint64_t values[cpus], total = 0;

	memset(values, 0, sizeof(values));
	if (bpf_map_lookup_elem(map, &key, values))
		return 0;
	for (int i = 0; i < cpus; i++)
		total += values[i];
	return total;
}

static void detach(struct bpf_link **links, int n, struct breakpoints *bp)
{
	while (n-- > 0)
		bpf_link__destroy(links[n]);
	breakpoint_detach(bp);
}

/* The number of @links, or a negative errno with everything undone. */
static int attach(struct count_bpf *skel, struct bpf_link **links, struct breakpoints *bp)
{
	int cpus = libbpf_num_possible_cpus(), n = 0, err;
	struct bpf_program *prog;
	const char *where;

	bpf_object__for_each_program(prog, skel->obj) {
		where = bpf_program__section_name(prog);
		if (!strcmp(where, "perf_event")) {
			where = bpf_program__name(prog) + strlen("on_");
			err = breakpoint_attach(bp, prog, where, cpus);
		} else if (n == LINKS_MAX) {
			err = -E2BIG;
		} else {
			links[n] = bpf_program__attach(prog);
			err = links[n] ? 0 : -errno;
			n += !err;
		}
		if (err) {
			fprintf(stderr, "count: cannot watch %s: %s\n", where, strerror(-err));
			detach(links, n, bp);
			return err;
		}
	}
	return n;
}

/* Runs the load, passes its output on and picks wrk's number out of it. */
static int run_load(char **argv, unsigned long *requests)
{
	int out[2], status;
	char line[4096];
	FILE *lines;
	pid_t pid;

	if (pipe(out))
		return fail("pipe");
	pid = fork();
	if (pid < 0)
		return fail("fork");
	if (!pid) {
		dup2(out[1], STDOUT_FILENO);
		close(out[0]);
		close(out[1]);
		execvp(argv[0], argv);
		fail(argv[0]);
		_exit(127);
	}
	close(out[1]);
	lines = fdopen(out[0], "r");
	while (lines && fgets(line, sizeof(line), lines)) {
		if (strstr(line, " requests in "))
			*requests = strtoul(line, NULL, 10);
		fputs(line, stderr);
	}
	if (lines)
		fclose(lines);
	if (waitpid(pid, &status, 0) < 0)
		return fail("waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "count: the load ended with status %d\n", status);
		return 1;
	}
	return 0;
}

static void report_calls(int map, int cpus, unsigned long requests, bool json)
{
	const char *between = "";
	char number[24];
	uint64_t n;

	for (uint32_t nr = 0; nr < COUNT_CALLS; nr++) {
		n = sum(map, nr, cpus);
		if (!n)
			continue;
		if (json)
			printf("%s\"%s\": %.3f", between, count_call_name(nr, number), (double)n / requests);
		else
			printf("  %-24s %12.3f\n", count_call_name(nr, number), (double)n / requests);
		between = ", ";
	}
}

static void report(struct count_bpf *skel, unsigned long requests, bool json)
{
	int counts = bpf_map__fd(skel->maps.counts), calls = bpf_map__fd(skel->maps.calls);
	int cpus = libbpf_num_possible_cpus();

	if (json)
		printf("{\"requests\": %lu, ", requests);
	else
		printf("%-26s %12lu\n", "requests", requests);
	for (int i = 0; i < COUNT_WHATS; i++) {
		double each = (double)sum(counts, i, cpus) / requests;

		printf(json ? "\"%s\": %.3f, " : "%-26s %12.3f\n", what_names[i], each);
	}
	printf(json ? "\"calls\": {" : "of the system calls:\n");
	report_calls(calls, cpus, requests, json);
	if (json)
		printf("}}\n");
}

int main(int argc, char **argv)
{
	unsigned long requests = 0, given = 0;
	struct bpf_link *links[LINKS_MAX];
	struct breakpoints bp = {};
	struct count_bpf *skel;
	char *pids = NULL, *end;
	int opt, err, attached;
	bool json = false;

	while ((opt = getopt(argc, argv, "+p:n:jh")) != -1) {
		switch (opt) {
		case 'p':
			pids = optarg;
			break;
		case 'n':
			given = strtoul(optarg, &end, 10);
			if (*end || !given) {
				fprintf(stderr, "count: '%s' is not a number of requests\n", optarg);
				return 2;
			}
			break;
		case 'j':
			json = true;
			break;
		default:
			fputs(usage, stderr);
			return opt == 'h' ? 0 : 2;
		}
	}
	if (!pids || optind == argc) {
		fputs(usage, stderr);
		return 2;
	}

	skel = count_bpf__open();
	if (!skel)
		return fail("cannot open the programs");
	err = count_bpf__load(skel);
	if (err) {
		fprintf(stderr, "count: the kernel does not take the programs (root? BTF?): %s\n",
			strerror(-err));
		goto out;
	}
	err = count_watch(pids, bpf_map__fd(skel->maps.targets), bpf_map__fd(skel->maps.ports));
	if (err)
		goto out;
	attached = attach(skel, links, &bp);
	if (attached < 0) {
		err = 1;
		goto out;
	}
	err = run_load(argv + optind, &requests);
	detach(links, attached, &bp);
	if (err)
		goto out;
	if (given)
		requests = given;
	if (!requests) {
		fprintf(stderr, "count: how many requests were that? Say -n, or use wrk\n");
		err = 1;
		goto out;
	}
	report(skel, requests, json);
out:
	count_bpf__destroy(skel);
	return err ? 1 : 0;
}
