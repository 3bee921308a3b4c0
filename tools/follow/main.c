// SPDX-License-Identifier: GPL-2.0
/* flotilla-follow(8): keep the node table equal to a source. */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "source.h"
#include "tools/flotilla/hold.h"

/* At most one reading a second, and what comes in a burst is one change. */
#define SETTLE_MS	1000
/* How often it is read although nobody said that it has changed. */
#define EVERY_SECONDS	60
#define RETRY_MAX	30

/**
 * struct follow - one run of the program
 * @away: readings that failed one after another
 */
struct follow {
	struct cli cli;
	struct access access;
	struct rules rules;
	struct source source;
	struct members members;
	const char *text, *against;
	char *state;
	bool once, dry, json;
	unsigned int every, away;
};

static const char help[] =
	"Usage: flotilla-follow [OPTIONS] SOURCE\n\n"
	"Keeps the nodes that SOURCE names in the node table, as it names them.\n\n"
	"  file:PATH                       lines \"node NAME address ADDRESS ...\", or {\"nodes\": [...]}\n"
	"  dns:NAME[@ADDRESS[:PORT]]       SRV records\n"
	"  etcd:URL[,URL]/PREFIX           keys below the prefix, of etcd 3.4 or later\n"
	"  kube:NAMESPACE/SERVICE          EndpointSlices\n\n"
	"  --once                read it once, change what there is to change, and end\n"
	"  --dry-run             only say what would change\n"
	"  --against FILE        with --dry-run: the table is what FILE says (flotilla save), not the kernel's\n"
	"  --allow-empty         a source that names no node means it\n"
	"  --adopt               nodes of its names that others have added are the source's from now on\n"
	"  --set \"ARGUMENT VALUE...\"  what the source does not say of a node: auth psk key flotilla\n"
	"  --allow WORDS         what it may say besides address, port, weight and admin: role,forward,forward-address\n"
	"  --within ADDRESS/BITS its addresses are in there; may be given several times\n"
	"  --max N               it may name so many nodes, default 256\n"
	"  --every SECONDS       read it at least so often, default 60\n"
	"  --state FILE          where it is kept which nodes are its own, default below /run/flotilla\n"
	"  --cacert, --cert, --key, --token FILE, --api URL  how servers are spoken to\n"
	"  --log text|json       one line or one object for each event, on standard error\n"
	"  -V, --version         print the version\n"
	"  -h, --help            print this\n";

enum { ONCE = 256, DRY, AGAINST, EMPTY, ADOPT, SET, ALLOW, WITHIN, MAX, EVERY, STATE, CACERT, CERT, KEY, TOKEN, API, LOG };

static const struct option options[] = {
	{ "once", no_argument, NULL, ONCE }, { "dry-run", no_argument, NULL, DRY },
	{ "against", required_argument, NULL, AGAINST }, { "allow-empty", no_argument, NULL, EMPTY },
	{ "adopt", no_argument, NULL, ADOPT }, { "set", required_argument, NULL, SET },
	{ "allow", required_argument, NULL, ALLOW }, { "within", required_argument, NULL, WITHIN },
	{ "max", required_argument, NULL, MAX }, { "every", required_argument, NULL, EVERY },
	{ "state", required_argument, NULL, STATE }, { "cacert", required_argument, NULL, CACERT },
	{ "cert", required_argument, NULL, CERT }, { "key", required_argument, NULL, KEY },
	{ "token", required_argument, NULL, TOKEN }, { "api", required_argument, NULL, API },
	{ "log", required_argument, NULL, LOG }, { "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' }, { 0 }
};

static int take_number(struct cli *cli, const char *what, unsigned int max, unsigned int *out)
{
	uint64_t number;
	int status = value_number(cli, what, optarg, 1, max, &number);

	if (!status)
		*out = number;
	return status;
}

static int take_file_option(struct follow *f, int option)
{
	const char **where = option == CACERT ? &f->access.ca : option == CERT ? &f->access.cert :
			     option == KEY ? &f->access.key : option == TOKEN ? &f->access.token :
			     option == API ? &f->access.api : &f->against;

	*where = optarg;
	return CLI_OK;
}

static int take_option(struct follow *f, int option)
{
	struct cli *cli = &f->cli;

	switch (option) {
	case ONCE:
		f->once = true;
		return CLI_OK;
	case DRY:
		f->dry = true;
		return CLI_OK;
	case EMPTY:
		f->rules.empty = true;
		return CLI_OK;
	case ADOPT:
		f->rules.adopt = true;
		return CLI_OK;
	case SET:
		return rules_set(cli, &f->rules, optarg);
	case ALLOW:
		return rules_allow(cli, &f->rules, optarg);
	case WITHIN:
		return rules_within(cli, &f->rules, optarg);
	case MAX:
		return take_number(cli, "--max", 65535, &f->rules.max);
	case EVERY:
		return take_number(cli, "--every", 3600, &f->every);
	case STATE:
		free(f->state);
		f->state = strdup(optarg);
		return CLI_OK;
	case LOG:
		f->json = !strcmp(optarg, "json");
		return f->json || !strcmp(optarg, "text") ? CLI_OK :
		       cli_usage(cli, "--log %s is not text or json", optarg);
	default:
		return take_file_option(f, option);
	}
}

/* FNV-1a: names that look alike, or are as long, are not the same. */
static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash;
}

/*
 * "etcd:http://10.0.0.9:2379/web/" is followed in follow-etcd-http---10.0.0.9-2379-web--7a7c4d8c7cd91b84: never in the
 * file of another source, nor in its lock or in what is about to be renamed to it.
 */
static char *state_of(const char *text)
{
	char *state, *c;

	if (asprintf(&state, OWNER_FILES "%.200s-%016llx", text, (unsigned long long)hash_of(text)) < 0)
		return NULL;
	for (c = state + sizeof(OWNER_FILES) - 1; *c; c++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._", *c))
			*c = '-';
	return state;
}

/* -1: go on, or an exit status. */
static int parse(struct follow *f, int argc, char **argv)
{
	int option, status;

	while ((option = getopt_long(argc, argv, "Vh", options, NULL)) >= 0) {
		if (option == 'V') {
			printf("flotilla-follow %s\n", FLT_VERSION);
			return CLI_OK;
		}
		if (option == 'h') {
			fputs(help, stdout);
			return CLI_OK;
		}
		if (option == '?')
			return CLI_USAGE;
		status = take_option(f, option);
		if (status)
			return status;
	}
	if (argc - optind != 1)
		return cli_usage(&f->cli, "one source; try --help");
	if (f->against && !f->dry)
		return cli_usage(&f->cli, "--against goes only with --dry-run");
	f->text = argv[optind];
	if (!f->state && !f->against)
		f->state = state_of(f->text);
	return -1;
}

static int start(struct follow *f)
{
	struct members *t = &f->members;
	int status;

	f->source.cli = &f->cli;
	f->source.access = &f->access;
	f->source.max = f->rules.max;
	*t = (struct members){ .cli = &f->cli, .rules = &f->rules, .dry = f->dry, .owner.fd = -1 };
	status = source_open(&f->source, f->text);
	if (!status && f->against) {
		status = config_read(&f->cli, f->against, &t->model);
		t->model.nr_services = t->model.nr_settings = t->model.nr_exports = 0;
		t->model.nr_migrates = t->model.nr_redirects = 0;
	}
	cli_doing(&f->cli, "follow %.100s", f->text);
	if (!status)
		status = owner_open(&f->cli, &t->owner, f->state, f->dry);
	f->cli.doing[0] = '\0';
	return status ? status : privilege_drop(&f->cli, !f->dry);
}

/* An exit status: CLI_FAILED when the source does not answer, CLI_USAGE when its answer is wrong. */
static int follow_once(struct follow *f)
{
	struct config answer = { 0 };
	sigset_t ends, before;
	int status;

	status = f->source.kind->read(&f->source, &answer);
	f->cli.doing[0] = '\0';
	if (!status) {
		/* Who waits for the lock does not wait for who reads the log, nor does who ends this program. */
		hold_begin();
		/* Nobody ends it between a node that went and the one in its place. */
		sigemptyset(&ends);
		sigaddset(&ends, SIGTERM);
		sigaddset(&ends, SIGINT);
		sigaddset(&ends, SIGHUP);
		sigprocmask(SIG_BLOCK, &ends, &before);
		status = members_follow(&f->members, &answer);
		sigprocmask(SIG_SETMASK, &before, NULL);
		hold_end();
	}
	f->cli.place[0] = '\0';
	f->cli.doing[0] = '\0';
	config_free(&answer);
	return status;
}

static void tell(struct follow *f, int status)
{
	if (status) {
		if (!f->away++)
			log_say(LEVEL_WARN, "nothing is changed by this, nodes stay as they are until it is mended");
		log_status("cannot follow %.100s; nodes stay as they are", f->text);
		return;
	}
	if (f->away)
		log_say(LEVEL_INFO, "%.100s is followed again", f->text);
	f->away = 0;
	log_forget();
	log_status("follows %.100s, %zu nodes are its own", f->text, f->members.owner.nr);
}

static void pause_ms(unsigned int ms)
{
	const struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&t, NULL);
}

/* Until there is a reason to read again. */
static void wait_for_more(struct follow *f)
{
	unsigned int seconds = f->every;

	if (f->source.ttl && f->source.ttl < seconds)
		seconds = f->source.ttl;
	if (f->away) {
		seconds = f->away > 5 ? RETRY_MAX : 1U << (f->away - 1);
		if (seconds > f->every)
			seconds = f->every;
	}
	f->source.kind->wait(&f->source, seconds * 1000);
	pause_ms(SETTLE_MS);
}

int main(int argc, char **argv)
{
	struct follow f = { .every = EVERY_SECONDS, .rules.max = NODES_DEFAULT };
	int status;

	f.cli.say = log_error;
	/* Changes are told by the log and not printed. */
	f.cli.json = true;
	if (argc)
		argv[0] = "flotilla-follow";	/* getopt's messages begin with it */
	status = parse(&f, argc, argv);
	if (status >= 0)
		return status;
	log_start("flotilla-follow", f.text, f.json);
	/* A reader of the log that is gone, or a server. */
	signal(SIGPIPE, SIG_IGN);
	status = start(&f);
	if (!status) {
		log_status("begins to follow %.100s", f.text);
		do {
			status = follow_once(&f);
			if (f.once)
				break;
			tell(&f, status);
			wait_for_more(&f);
		} while (1);
	}
	if (f.source.kind)
		f.source.kind->close(&f.source);
	members_free(&f.members);
	flt_client_close(f.cli.client);
	free(f.state);
	return status;
}
