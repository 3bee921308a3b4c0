// SPDX-License-Identifier: GPL-2.0
/* afpad(8): arguments, the order in which things are opened and given up, signals. */
#include <curl/curl.h>
#include <errno.h>
#include <getopt.h>
#include <gnutls/gnutls.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "door.h"
#include "mark.h"
#include "tools/base/log.h"
#include "tools/base/notify.h"

#define CONFIG_FILE	"/etc/flotilla/afpad.conf"
#define SENTENCE	1200
#define PEM_MAX		(1 << 20)

static const char help[] =
	"Usage: afpad [--config FILE] [--check] [--insecure]\n\n"
	"Takes objects over HTTP that afpa.ko answers requests with.\n\n"
	"  --config FILE   default " CONFIG_FILE "\n"
	"  --check         say whether it would start, and end\n"
	"  --insecure      let tokens go over networks in the clear\n"
	"  -V, --version   print the version\n"
	"  -h, --help      print this\n";

enum { CONFIG = 256, CHECK, INSECURE };

static const struct option options[] = {
	{ "config", required_argument, NULL, CONFIG }, { "check", no_argument, NULL, CHECK },
	{ "insecure", no_argument, NULL, INSECURE }, { "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' }, { 0 }
};

/**
 * struct run - one run of the program
 */
struct run {
	struct door door;
	const char *file;
	bool check;
	uid_t uid;
	gid_t gid;
	int listener;
	char error[SENTENCE];
};

/* -1: go on, or an exit status. */
static int parse(struct run *run, int argc, char **argv)
{
	int option;

	run->file = CONFIG_FILE;
	while ((option = getopt_long(argc, argv, "Vh", options, NULL)) >= 0) {
		switch (option) {
		case CONFIG:
			run->file = optarg;
			break;
		case CHECK:
			run->check = true;
			break;
		case INSECURE:
			run->door.config.insecure = true;
			break;
		case 'V':
			printf("afpad %s\n", FLT_VERSION);
			return 0;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			return 2;
		}
	}
	if (optind == argc)
		return -1;
	fprintf(stderr, "afpad: %s is too much; try --help\n", argv[optind]);
	return 2;
}

static int sorry(struct run *run, const char *what, const char *why)
{
	snprintf(run->error, sizeof(run->error), "%.*s: %.*s", SENTENCE / 2 - 2, what, SENTENCE / 2 - 2, why);
	return -EINVAL;
}

static int read_tokens(struct run *run)
{
	struct door *door = &run->door;
	struct tokens tokens = { 0 }, peers = { 0 };
	unsigned int i;
	int err;

	err = tokens_read(&tokens, door->config.token, run->uid, run->error, sizeof(run->error));
	if (!err && *door->config.peer_token)
		err = tokens_read(&peers, door->config.peer_token, run->uid, run->error, sizeof(run->error));
	for (i = 0; !err && i < peers.nr; i++)
		if (tokens_have(&tokens, peers.text[i]))
			err = sorry(run, door->config.peer_token, "a token is one of clients', too");
	if (!err) {
		pthread_mutex_lock(&door->lock);
		door->tokens = tokens;
		door->peer_tokens = peers;
		pthread_mutex_unlock(&door->lock);
	}
	explicit_bzero(&tokens, sizeof(tokens));
	explicit_bzero(&peers, sizeof(peers));
	return err;
}

/* That the library would take them is said now, and by name. */
static int read_certificate(struct run *run)
{
	gnutls_certificate_credentials_t credentials;
	gnutls_datum_t certificate, key;
	struct door *door = &run->door;
	int err;

	if (!*door->config.certificate)
		return 0;
	err = secret_read(door->config.key, run->uid, &door->key, PEM_MAX, run->error, sizeof(run->error));
	if (err)
		return err;
	if (gnutls_load_file(door->config.certificate, &certificate))
		return sorry(run, door->config.certificate, "it cannot be read");
	door->certificate = strndup((char *)certificate.data, certificate.size);
	key = (gnutls_datum_t){ (unsigned char *)door->key, strlen(door->key) };
	if (gnutls_certificate_allocate_credentials(&credentials))
		return sorry(run, door->config.certificate, "out of memory");
	err = gnutls_certificate_set_x509_key_mem(credentials, &certificate, &key, GNUTLS_X509_FMT_PEM);
	gnutls_certificate_free_credentials(credentials);
	gnutls_free(certificate.data);
	return err < 0 || !door->certificate ? sorry(run, door->config.certificate, gnutls_strerror(err)) : 0;
}

static int read_all(struct run *run)
{
	int err = config_read(&run->door.config, run->file, run->error, sizeof(run->error));

	if (!err)
		err = privilege_find(&run->door.config, &run->uid, &run->gid, run->error, sizeof(run->error));
	if (!err)
		err = read_tokens(run);
	return err ? err : read_certificate(run);
}

static int is_public(const struct afpa_next_site *next, void *arg)
{
	const struct config *config = arg;

	return address_is_of_site(&config->listen, &next->site);
}

static int open_device(struct run *run)
{
	struct door *door = &run->door;
	char text[AFPA_SITE_TEXT];
	int ret;

	door->dev = afpa_open();
	if (door->dev == -ENOENT || door->dev == -ENXIO || door->dev == -ENODEV)
		return sorry(run, AFPA_DEVICE, "afpa.ko is not loaded (modprobe afpa)");
	if (door->dev < 0)
		return sorry(run, AFPA_DEVICE, strerror(-door->dev));
	ret = afpa_site_each(door->dev, is_public, &door->config);
	if (ret < 0)
		return sorry(run, AFPA_DEVICE, strerror(-ret));
	return ret ? sorry(run, address_text(&door->config.listen, text), "it is a site, where everybody comes") : 0;
}

static int open_listener(struct run *run)
{
	const struct config *config = &run->door.config;
	int fd = socket(config->listen.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	char text[AFPA_SITE_TEXT];

	if (fd < 0)
		return sorry(run, "socket", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (config->listen.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&config->listen, config->listen_len) || listen(fd, 128)) {
		sorry(run, address_text(&config->listen, text), strerror(errno));
		close(fd);
		return -EINVAL;
	}
	run->listener = fd;
	return 0;
}

/* A token goes over a wire that anybody may read: said at each start, whatever the level. */
static void warn(const struct config *config)
{
	char text[AFPA_SITE_TEXT];

	address_text(&config->listen, text);
	if (config->insecure)
		log_error("insecure", "text=\"--insecure: who is on the way to %s, or to peers, reads the tokens and may then change every object\"",
			  text);
	else if (!*config->certificate && strncmp(text, "127.", 4) && strncmp(text, "[::1]", 5))
		log_warn("clear", "text=\"no certificate: who is on the way to %s reads the tokens\"",
			 text);
	if (config->nr_peers && !*config->state)
		log_warn("state", "text=\"state none: each start tells all peers to flush\"");
}

static int make_id(struct door *door)
{
	unsigned char bytes[(ID_SIZE - 1) / 2];
	unsigned int i;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	for (i = 0; i < sizeof(bytes); i++)
		sprintf(door->id + 2 * i, "%02x", bytes[i]);
	return 0;
}

static int start(struct run *run)
{
	struct door *door = &run->door;
	int err;

	err = open_device(run);
	if (!err)
		err = open_listener(run);
	/* Before there is a thread: each has capabilities of its own. */
	if (!err)
		err = privilege_drop(run->uid, run->gid, run->error, sizeof(run->error));
	if (!err && door->config.nr_peers && *door->config.state && mark_try(door->config.state))
		err = sorry(run, door->config.state, "what peers lack cannot be remembered there; see 'state'");
	if (err)
		return err;
	door->started = crowd_now();
	crowd_init(&door->crowd, door->config.connections, door->config.connections_address, door->config.request_ms);
	if (make_id(door) || curl_global_init(CURL_GLOBAL_DEFAULT))
		return sorry(run, "start", "no random numbers, or no memory");
	door->peers = peers_start(&door->config, door->peer_tokens.text[0], door->id, run->error, sizeof(run->error));
	if (!door->peers)
		return -ENOMEM;
	err = http_start(door, run->listener);
	return err ? sorry(run, "libmicrohttpd", "it does not start") : 0;
}

static void reload(struct run *run)
{
	notify_reloading();
	if (read_tokens(run)) {
		log_error("reload", "text=\"the tokens stay as they are: %s\"", run->error);
	} else {
		peers_token(run->door.peers, run->door.peer_tokens.text[0]);
		log_info("reload", "tokens=%u", run->door.tokens.nr);
	}
	notify("READY=1");
}

static void serve(struct run *run, const sigset_t *signals)
{
	static const struct timespec second = { .tv_sec = 1 };
	int signal;

	for (;;) {
		signal = sigtimedwait(signals, NULL, &second);
		if (signal == SIGHUP)
			reload(run);
		else if (signal > 0)
			return;
		crowd_sweep(&run->door.crowd);
	}
}

int main(int argc, char **argv)
{
	static struct run run = { .listener = -1, .door.lock = PTHREAD_MUTEX_INITIALIZER };
	const struct rlimit no_core = { 0 };
	char text[AFPA_SITE_TEXT];
	sigset_t signals;
	int status = parse(&run, argc, argv);

	if (status >= 0)
		return status;
	log_start();
	setrlimit(RLIMIT_CORE, &no_core);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&signals);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (read_all(&run) || (!run.check && start(&run))) {
		fprintf(stderr, "afpad: %s\n", run.error);
		return 1;
	}
	if (run.check)
		return 0;
	warn(&run.door.config);
	log_info("start", "listen=%s peers=%u", address_text(&run.door.config.listen, text), run.door.config.nr_peers);
	notify("READY=1");
	serve(&run, &signals);
	notify("STOPPING=1");
	http_stop(&run.door);
	peers_free(run.door.peers);
	return 0;
}
