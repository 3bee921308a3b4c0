// SPDX-License-Identifier: GPL-2.0
/* lardsim: what a cluster of a given size does with a trace. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "gen.h"
#include "options.h"
#include "report.h"

static const char usage_text[] =
	"Usage: lardsim COMMAND [OPTIONS]\n"
	"\n"
	"  run TRACE      simulate a cluster on a trace\n"
	"    -n, --nodes N           back-ends, 1 to 64 (8)\n"
	"    -p, --policy NAME       wrr lb lard lard/r lc chbl, or the idealised\n"
	"                            lb/gc and wrr/gms (lard/r)\n"
	"    -m, --memory MB         cache of each node (32)\n"
	"    -c, --cache KIND        gds or lru (gds)\n"
	"    -d, --disks N           disks of each node (1)\n"
	"    -s, --speed X           CPU speed (1)\n"
	"        --t-low N --t-high N --replication SECONDS\n"
	"        --max-outstanding N the dispatcher's parameters (25, 65, 20, automatic)\n"
	"        --table N           targets the dispatcher remembers (all)\n"
	"        --connection-us X --transmit-us X   CPU time of set-up, and again of\n"
	"                            tear-down (145); of each 512 bytes (40)\n"
	"        --seek-us X --reseek-us X --transfer-us X   disk time of a file (28000), of\n"
	"                            each further 44 KB (14000), of each 4 KB (410)\n"
	"    -r, --requests N        stop after N requests of the trace\n"
	"    -w, --warm N            answers at the start that throughput and delay leave out (0)\n"
	"    -j, --json              machine-readable result\n"
	"  train TRACE    T_low from a training phase in which the nodes tell how busy they are;\n"
	"                 options as for run, and --busy SHARE that leaves none idle (0.95)\n"
	"  gen KIND FILE  write a synthetic trace: rice, ibm or chess\n"
	"        --requests N --seed N --window SHARE\n"
	"        --hot-targets N --hot-size BYTES --hot-share SHARE\n"
	"  convert LOG FILE  Common or Combined Log Format to a compact trace (- is stdin)\n"
	"  info TRACE     targets, bytes, mean, coverage (-j: JSON)\n"
	"  help, version\n";

static int fail(const char *what, const char *path, const char *why)
{
	fprintf(stderr, "lardsim: cannot %s %s: %s\n", what, path, why);
	return 1;
}

static int usage(const char *complaint)
{
	if (complaint)
		fprintf(stderr, "lardsim: %s; see 'lardsim help'\n", complaint);
	return 2;
}

enum { OPT_T_LOW = 256, OPT_T_HIGH, OPT_REPLICATION, OPT_OUTSTANDING, OPT_TABLE, OPT_SEED,
       OPT_WINDOW, OPT_HOT_TARGETS, OPT_HOT_SIZE, OPT_HOT_SHARE,
       OPT_BUSY, OPT_CONNECTION, OPT_TRANSMIT, OPT_SEEK, OPT_RESEEK, OPT_TRANSFER };

/* Microseconds of an option as nanoseconds. */
static bool opt_cost(const char *text, uint64_t *ns)
{
	double us;

	if (!opt_double(text, 0, 1e9, &us))
		return false;
	*ns = us * 1000;
	return true;
}

/* run, and train: the same cluster. */
static int cmd_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "nodes", required_argument, NULL, 'n' },
		{ "policy", required_argument, NULL, 'p' },
		{ "memory", required_argument, NULL, 'm' },
		{ "cache", required_argument, NULL, 'c' },
		{ "disks", required_argument, NULL, 'd' },
		{ "speed", required_argument, NULL, 's' },
		{ "t-low", required_argument, NULL, OPT_T_LOW },
		{ "t-high", required_argument, NULL, OPT_T_HIGH },
		{ "replication", required_argument, NULL, OPT_REPLICATION },
		{ "max-outstanding", required_argument, NULL, OPT_OUTSTANDING },
		{ "table", required_argument, NULL, OPT_TABLE },
		{ "connection-us", required_argument, NULL, OPT_CONNECTION },
		{ "transmit-us", required_argument, NULL, OPT_TRANSMIT },
		{ "seek-us", required_argument, NULL, OPT_SEEK },
		{ "reseek-us", required_argument, NULL, OPT_RESEEK },
		{ "transfer-us", required_argument, NULL, OPT_TRANSFER },
		{ "busy", required_argument, NULL, OPT_BUSY },
		{ "requests", required_argument, NULL, 'r' },
		{ "warm", required_argument, NULL, 'w' },
		{ "json", no_argument, NULL, 'j' },
		{ }
	};
	struct sim_params p = {
		.policy = LARD_PARAMS_DEFAULT, .nodes = 8, .disks = 1, .cache_bytes = 32 << 20,
		.cpu_speed = 1, .costs = SIM_COSTS_DEFAULT, .seed = 1,
	};
	struct sim_result result;
	const char *why, *policy = "lard/r";
	bool train = !strcmp(argv[0], "train"), json = false, ok = true;
	struct training training = { .step = -1 };
	double x, busy = 0.95;
	struct trace t;
	int c, err;

	while (ok && (c = getopt_long(argc, argv, "n:p:m:c:d:s:r:w:j", options, NULL)) != -1) {
		switch (c) {
		case 'n': ok = opt_uint(optarg, 1, SIM_MAX_NODES, &p.nodes); break;
		case 'p': ok = opt_policy(policy = optarg, &p); break;
		case 'm':
			ok = opt_double(optarg, 1e-3, 1e6, &x);
			p.cache_bytes = ok ? x * (1 << 20) : 0;
			break;
		case 'c': ok = opt_cache(optarg, &p.cache); break;
		case 'd': ok = opt_uint(optarg, 1, SIM_MAX_DISKS, &p.disks); break;
		case 's': ok = opt_double(optarg, 1e-3, 1e6, &p.cpu_speed); break;
		case OPT_T_LOW: ok = opt_uint(optarg, 1, 65535, &p.policy.t_low); break;
		case OPT_T_HIGH: ok = opt_uint(optarg, 1, 65535, &p.policy.t_high); break;
		case OPT_REPLICATION:
			ok = opt_double(optarg, 0, 1e9, &x);
			p.policy.replication_us = ok ? x * 1e6 : 0;
			break;
		case OPT_OUTSTANDING:
			ok = opt_uint(optarg, 0, 10000000, &p.policy.max_outstanding);
			break;
		case OPT_TABLE: ok = opt_uint(optarg, 1, 1 << 30, &p.table); break;
		case OPT_BUSY: ok = train && opt_double(optarg, 0.01, 1, &busy); break;
		case OPT_CONNECTION: ok = opt_cost(optarg, &p.costs.connection); break;
		case OPT_TRANSMIT: ok = opt_cost(optarg, &p.costs.transmit); break;
		case OPT_SEEK: ok = opt_cost(optarg, &p.costs.seek); break;
		case OPT_RESEEK: ok = opt_cost(optarg, &p.costs.reseek); break;
		case OPT_TRANSFER: ok = opt_cost(optarg, &p.costs.transfer); break;
		case 'r': ok = opt_u64(optarg, 1, UINT32_MAX, &p.requests); break;
		case 'w': ok = opt_u64(optarg, 0, UINT32_MAX, &p.warm); break;
		case 'j': json = true; break;
		default: return usage(NULL);
		}
	}
	if (!ok) {
		fprintf(stderr, "lardsim: '%s' is not a value for that option\n", optarg);
		return 2;
	}
	if (argc - optind != 1)
		return usage(train ? "train takes one trace" : "run takes one trace");
	if (train && p.model != SIM_ENGINE)
		return usage("train needs a policy of the dispatcher");
	p.training = train ? &training : NULL;
	if (trace_load(&t, argv[optind], &why))
		return fail("read", argv[optind], why);
	err = sim_run(&t, &p, &result, &why);
	trace_free(&t);
	if (err)
		return fail("simulate", argv[optind], why);
	if (train)
		return report_training(stdout, &training, busy, json);
	return report_result(stdout, policy, &p, &result, json);
}

static int cmd_gen(int argc, char **argv)
{
	static const struct option options[] = {
		{ "requests", required_argument, NULL, 'r' },
		{ "seed", required_argument, NULL, OPT_SEED },
		{ "window", required_argument, NULL, OPT_WINDOW },
		{ "hot-targets", required_argument, NULL, OPT_HOT_TARGETS },
		{ "hot-size", required_argument, NULL, OPT_HOT_SIZE },
		{ "hot-share", required_argument, NULL, OPT_HOT_SHARE },
		{ }
	};
	struct gen_params p = { }, given = { .window = -1 };
	const struct gen_params *preset;
	const char *why;
	struct trace t;
	bool ok = true;
	int c, err;

	while (ok && (c = getopt_long(argc, argv, "r:", options, NULL)) != -1) {
		switch (c) {
		case 'r': ok = opt_u64(optarg, 1, UINT32_MAX, &given.requests); break;
		case OPT_SEED: ok = opt_u64(optarg, 0, UINT64_MAX, &given.seed); break;
		case OPT_WINDOW: ok = opt_double(optarg, 1e-6, 1, &given.window); break;
		case OPT_HOT_TARGETS: ok = opt_uint(optarg, 1, 1 << 20, &given.hot_targets); break;
		case OPT_HOT_SIZE: ok = opt_uint(optarg, 1, 1 << 30, &given.hot_size); break;
		case OPT_HOT_SHARE: ok = opt_double(optarg, 1e-6, 0.999999, &given.hot_share); break;
		default: return usage(NULL);
		}
	}
	if (!ok) {
		fprintf(stderr, "lardsim: '%s' is not a value for that option\n", optarg);
		return 2;
	}
	if (argc - optind != 2)
		return usage("gen takes a kind and a file");
	preset = gen_preset(argv[optind]);
	if (!preset)
		return usage("the kinds of trace are rice, ibm and chess");
	p = *preset;
	p.requests = given.requests ? given.requests : p.requests;
	p.seed = given.seed ? given.seed : p.seed;
	p.window = given.window > 0 ? given.window : p.window;
	p.hot_targets = given.hot_targets;
	p.hot_size = given.hot_size;
	p.hot_share = given.hot_share;
	if (gen_trace(&t, &p, &why))
		return fail("generate", argv[optind], why);
	err = trace_save(&t, argv[optind + 1], &why);
	trace_free(&t);
	return err ? fail("write", argv[optind + 1], why) : 0;
}

static int cmd_convert(int argc, char **argv)
{
	struct clf_stats stats;
	const char *why;
	struct trace t;
	FILE *log;
	int err;

	if (argc != 3)
		return usage("convert takes a log and a file");
	log = strcmp(argv[1], "-") ? fopen(argv[1], "r") : stdin;
	if (!log)
		return fail("read", argv[1], "it cannot be opened");
	err = clf_read(&t, log, &stats, &why);
	if (log != stdin)
		fclose(log);
	if (err)
		return fail("convert", argv[1], why);
	fprintf(stderr, "%llu requests, %llu lines skipped, %llu lines malformed\n",
		(unsigned long long)stats.used, (unsigned long long)stats.skipped,
		(unsigned long long)stats.malformed);
	err = trace_save(&t, argv[2], &why);
	trace_free(&t);
	return err ? fail("write", argv[2], why) : 0;
}

static int cmd_info(int argc, char **argv)
{
	bool json = argc == 3 && (!strcmp(argv[1], "-j") || !strcmp(argv[1], "--json"));
	const char *why, *path = argv[argc - 1];
	struct trace_facts facts;
	struct trace t;
	int err;

	if (argc != 2 + json)
		return usage("info takes one trace");
	if (trace_load(&t, path, &why))
		return fail("read", path, why);
	err = trace_describe(&t, &facts);
	if (!err)
		err = report_facts(stdout, &t, &facts, json);
	trace_free(&t);
	return err ? fail("describe", path, "there is not enough memory") : 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = {
		{ "run", cmd_run }, { "train", cmd_run }, { "gen", cmd_gen }, { "convert", cmd_convert },
		{ "info", cmd_info },
	};
	const char *name = argc > 1 ? argv[1] : "";

	if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h")) {
		fputs(usage_text, stdout);
		return 0;
	}
	if (!strcmp(name, "version") || !strcmp(name, "--version") || !strcmp(name, "-V")) {
		puts("lardsim " FLT_VERSION);
		return 0;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	return usage("it needs a command");
}
