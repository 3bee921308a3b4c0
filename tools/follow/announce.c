// SPDX-License-Identifier: GPL-2.0
/* flotilla-announce(8): this node in etcd, for as long as it lives: a key with a lease that is kept alive. */
#include <arpa/inet.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "etcd.h"

#define LEASE_SECONDS	30
/* An answer of a member of the cluster may take so long at least. */
#define ANSWER_MIN_MS	500L

/**
 * struct announce - one run of the program
 * @lease:  etcd's number for it, in decimal; "": there is none
 * @is_put: the key is there, with this lease
 */
struct announce {
	struct cli cli;
	struct access access;
	struct etcd etcd;
	struct config node;
	char *name, *address, *words;
	const char *text;
	char lease[24];
	unsigned int seconds;
	bool once, json, is_put;
};

static const char help[] =
	"Usage: flotilla-announce [OPTIONS] etcd:URL[,URL]/PREFIX\n\n"
	"Puts this node below the prefix, where flotilla-follow of the others finds it, and keeps it there. When this\n"
	"program or the machine is gone for the time of the lease, so is the node.\n\n"
	"  --name NAME, --address ADDRESS   default: what \"flotilla local set\" has given\n"
	"  --set \"ARGUMENT VALUE...\"        what else is to be said of it: weight 200\n"
	"  --lease SECONDS                  5 to 3600, default 30\n"
	"  --once                           leave it there without keeping it: it goes with its lease\n"
	"  --cacert, --cert, --key, --token FILE  how etcd is spoken to\n"
	"  --log text|json                  one line or one object for each event, on standard error\n"
	"  -V, --version                    print the version\n"
	"  -h, --help                       print this\n";

static const struct option options[] = {
	{ "name", required_argument, NULL, 'n' }, { "address", required_argument, NULL, 'a' },
	{ "set", required_argument, NULL, 's' }, { "lease", required_argument, NULL, 'l' },
	{ "once", no_argument, NULL, 'o' }, { "cacert", required_argument, NULL, 'C' },
	{ "cert", required_argument, NULL, 'E' }, { "key", required_argument, NULL, 'K' },
	{ "token", required_argument, NULL, 'T' }, { "log", required_argument, NULL, 'L' },
	{ "version", no_argument, NULL, 'V' }, { "help", no_argument, NULL, 'h' }, { 0 }
};

static int take_option(struct announce *a, int option)
{
	uint64_t number = LEASE_SECONDS;
	int status = CLI_OK;

	switch (option) {
	case 'n':
		a->name = optarg;
		break;
	case 'a':
		a->address = optarg;
		break;
	case 's':
		a->words = optarg;
		break;
	case 'o':
		a->once = true;
		break;
	case 'C':
		a->access.ca = optarg;
		break;
	case 'E':
		a->access.cert = optarg;
		break;
	case 'K':
		a->access.key = optarg;
		break;
	case 'T':
		a->access.token = optarg;
		break;
	case 'L':
		a->json = !strcmp(optarg, "json");
		if (!a->json && strcmp(optarg, "text"))
			status = cli_usage(&a->cli, "--log %s is not text or json", optarg);
		break;
	default:
		status = value_number(&a->cli, "--lease", optarg, 5, 3600, &number);
		a->seconds = number;
	}
	return status;
}

static int parse(struct announce *a, int argc, char **argv)
{
	int option, status;

	while ((option = getopt_long(argc, argv, "Vh", options, NULL)) >= 0) {
		if (option == 'V') {
			printf("flotilla-announce %s\n", FLT_VERSION);
			return CLI_OK;
		}
		if (option == 'h') {
			fputs(help, stdout);
			return CLI_OK;
		}
		status = option == '?' ? CLI_USAGE : take_option(a, option);
		if (status)
			return status;
	}
	if (argc - optind != 1 || strncmp(argv[optind], "etcd:", 5))
		return cli_usage(&a->cli, "one cluster, etcd:URL/PREFIX; try --help");
	a->text = argv[optind];
	return -1;
}

/* What is said of this node, judged as those will who read it. */
static int describe(struct announce *a)
{
	char *words[CLI_WORDS] = { "node" }, *each[CLI_WORDS], address[64];
	const struct sockaddr_storage *addr;
	struct config live = { 0 };
	int status = CLI_OK, nr = a->words ? cli_split(a->words, each) : 0;

	if (nr < 0 || nr + 4 > CLI_WORDS)
		return cli_usage(&a->cli, "--set: %s", cli_split_why(nr));
	if (!a->name || !a->address) {
		status = config_live_nodes(&a->cli, &live);
		if (!status && !live.local.given)
			status = cli_fail(&a->cli, "this node has no name and address yet; try \"flotilla local set help\"");
	}
	if (status)
		return status;
	addr = live.local.addr4.ss_family ? &live.local.addr4 : &live.local.addr6;
	words[1] = a->name ? a->name : live.local.name;
	words[2] = "address";
	words[3] = a->address ? a->address : (char *)address_text(addr, address, sizeof(address));
	if (nr)
		memcpy(words + 4, each, nr * sizeof(*words));
	a->node.file = "this node";
	status = config_take(&a->cli, &a->node, ": ", nr + 4, words);
	if (!status && !a->address && live.local.port != FLT_LINK_PORT)
		((struct sockaddr_in *)&a->node.nodes[0].info.addr)->sin_port = htons(live.local.port);
	if (!status && (a->node.nodes[0].info.auth || a->node.nodes[0].key[0]))
		status = cli_usage(&a->cli, "auth and keys are for those to say who read it");
	config_free(&live);
	a->cli.place[0] = '\0';
	a->cli.doing[0] = '\0';
	return status;
}

/* The object of it that save would print, without the name, which is the key's. */
static char *value_of(const struct config_node *node)
{
	json_t *object = config_print_node(node);
	char *text;

	json_object_del(object, "name");
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static int grant(struct announce *a)
{
	json_t *answer;
	long code;

	answer = etcd_ask(&a->etcd, "/v3/lease/grant", json_pack("{s:i}", "TTL", (int)a->seconds), &code);
	snprintf(a->lease, sizeof(a->lease), "%s", text_of(answer, "ID"));
	json_decref(answer);
	if (answer && !a->lease[0])
		return cli_usage(&a->cli, "this is not an answer of etcd");
	return answer ? CLI_OK : CLI_FAILED;
}

static int put(struct announce *a)
{
	const char *name = a->node.nodes[0].info.name;
	char key[PREFIX_MAX + FLT_NAME_MAX], *value = value_of(&a->node.nodes[0]), *from, *to;
	json_t *answer;
	long code;

	snprintf(key, sizeof(key), "%s%s", a->etcd.prefix, name);
	from = base64_encode(key, strlen(key));
	to = value ? base64_encode(value, strlen(value)) : NULL;
	answer = etcd_ask(&a->etcd, "/v3/kv/put", json_pack("{s:s, s:s, s:s}", "key", from ? from : "", "value", to ? to : "",
							    "lease", a->lease), &code);
	if (answer)
		log_say(LEVEL_INFO, "node %s is announced for %u seconds at a time: %s", name, a->seconds, value);
	free(from);
	free(to);
	free(value);
	json_decref(answer);
	return answer ? CLI_OK : CLI_FAILED;
}

/* All members have been asked before the lease is over, although some take the question and never answer. */
static void set_patience(struct announce *a)
{
	long each = 1000L * a->seconds / 3 / a->etcd.nr_hosts;

	a->etcd.http.answer_ms = each > ANSWER_MIN_MS ? each : ANSWER_MIN_MS;
}

/* CLI_USAGE: there is no such lease any more. */
static int keep(struct announce *a)
{
	const json_t *result;
	json_t *answer;
	int status;
	long code;

	answer = etcd_ask(&a->etcd, "/v3/lease/keepalive", json_pack("{s:s}", "ID", a->lease), &code);
	result = json_object_get(answer, "result");
	status = !answer ? CLI_FAILED : atoi(text_of(result, "TTL")) > 0 ? CLI_OK : CLI_USAGE;
	json_decref(answer);
	return status;
}

/* An exit status. */
static int announce(struct announce *a)
{
	int status = a->lease[0] ? keep(a) : CLI_USAGE;

	if (status == CLI_USAGE) {
		a->lease[0] = '\0';
		a->is_put = false;
		status = grant(a);
	}
	/* Where a key is refused, each second, its lease is kept: another one would be one more in etcd. */
	if (!status && !a->is_put) {
		status = put(a);
		a->is_put = !status;
	}
	a->cli.place[0] = '\0';
	a->cli.doing[0] = '\0';
	return status;
}

static void tell(struct announce *a, int status, bool *away)
{
	if (!status && *away)
		log_say(LEVEL_INFO, "%.100s answers again", a->text);
	if (!status)
		log_forget();
	if (!*away || !status)
		log_status(status ? "cannot reach %.100s" : "is announced in %.100s", a->text);
	*away = status;
}

int main(int argc, char **argv)
{
	struct announce a = { .seconds = LEASE_SECONDS };
	bool away = false;
	int status;

	a.cli.say = log_error;
	if (argc)
		argv[0] = "flotilla-announce";
	log_start("flotilla-announce", NULL, false);
	status = parse(&a, argc, argv);
	if (status >= 0)
		return status;
	log_start("flotilla-announce", a.text, a.json);
	signal(SIGPIPE, SIG_IGN);
	status = privilege_drop(&a.cli, false);
	if (!status)
		status = etcd_open(&a.etcd, &a.cli, &a.access, a.text + 5);
	if (!status)
		status = describe(&a);
	if (!status)
		set_patience(&a);
	while (!status) {
		status = announce(&a);
		if (a.once)
			break;
		tell(&a, status, &away);
		/* Two may be lost of three; away, each second counts. */
		sleep(status ? 1 : a.seconds / 3);
		status = CLI_OK;
	}
	etcd_close(&a.etcd);
	config_free(&a.node);
	flt_client_close(a.cli.client);
	return status;
}
