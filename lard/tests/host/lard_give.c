// SPDX-License-Identifier: GPL-2.0
/*
 * The whole daemon on a kernel of pretence. The daemon's loop runs in a thread; the test is the
 * client, the nodes and the kernel.
 */
#include <openssl/ssl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "lard/lardd.h"
#include "lard/tests/lib/kernel.h"
#include "lard/tests/lib/records.h"
#include "lard/worker.h"

static struct lardd *lardd;
static pthread_t thread;
static uint16_t port;
static int web;			/* where lardd proxies to */

static int listen_anywhere(uint16_t *at)
{
	struct sockaddr_in addr = { AF_INET, 0, { htonl(INADDR_LOOPBACK) }, { 0 } };
	socklen_t len = sizeof(addr);
	struct timeval limit = { .tv_sec = 60 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	assert_int_equal(listen(fd, 8), 0);
	*at = ntohs(addr.sin_port);
	return fd;
}

static void *run(void *arg)
{
	lardd_run(arg);
	return NULL;
}

/* @lines: of the configuration; @door: of its first listener, which alone is opened. */
static int start_with(const char *lines, enum config_door door)
{
	char path[] = "/tmp/lard_give.XXXXXX", error[512];
	struct config *config;
	uint16_t web_port;
	FILE *file;
	int fd, i;

	kernel.policy = "wrr";
	kernel.max_outstanding = 0;
	kernel.submissions = kernel.refusals = kernel.attribute_count = 0;
	web = listen_anywhere(&web_port);
	close(listen_anywhere(&port));
	for (i = 0; i < NODES; i++) {
		struct sockaddr_in *addr = (void *)&kernel.nodes[i].addr;

		kernel.nodes[i] = (struct flt_node_info){
			.id = i + 1, .weight = 100, .state = FLT_NODE_UP,
		};
		snprintf(kernel.nodes[i].name, FLT_NAME_MAX, "be%d", i);
		addr->sin_family = AF_INET;
		addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		kernel.moved[i] = -1;
		kernel.answers[i] = TAKES;
	}
	fd = mkstemp(path);
	file = fdopen(fd, "w");
	fprintf(file, "listen 127.0.0.1:%u\nproxy-port %u\ncontrol off\nlog-level error\n%s%s", port,
		web_port, geteuid() ? "" : "user root\n", lines);
	fclose(file);
	config = config_read(path, error, sizeof(error));
	unlink(path);
	assert_non_null(config);
	config->listens = 1;
	config->doors[0] = door;
	lardd = lardd_new(config, path, false, error, sizeof(error));
	if (!lardd)
		fail_msg("%s", error);
	return pthread_create(&thread, NULL, run, lardd);
}

static int start(void **state)
{
	(void)state;
	return start_with("", DOOR_PLAIN);
}

static int start_redirecting(void **state)
{
	(void)state;
	return start_with("https-redirect acme on\n", DOOR_REDIRECT);
}

static int start_with_authority(void **state)
{
	(void)state;
	return start_with("listen 127.0.0.1:1 tls client optional\ncertificate a b\nclient-ca c\n", DOOR_PLAIN);
}

static char chain[CERTIFICATE_PATH], key[CERTIFICATE_PATH];

static int start_with_tls(const char *lines)
{
	char all[1024];

	assert_int_equal(certificate_make(chain, key), 0);
	snprintf(all, sizeof(all), "certificate %s %s\n%s", chain, key, lines);
	return start_with(all, DOOR_TLS);
}

static int start_https(void **state)
{
	(void)state;
	return start_with_tls("tls-port 8443\n");
}

static int start_https_that_stays(void **state)
{
	(void)state;
	return start_with_tls("");
}

static int stop(void **state)
{
	int i;

	(void)state;
	kill(getpid(), SIGTERM);	/* once: another would wait for the next test's daemon */
	pthread_join(thread, NULL);
	lardd_free(lardd);
	close(web);
	for (i = 0; i < NODES; i++)
		if (kernel.moved[i] >= 0)
			close(kernel.moved[i]);
	return 0;
}

static int stop_https(void **state)
{
	certificate_remove(chain, key);
	return stop(state);
}

static uint32_t outstanding(void)
{
	uint32_t load;

	pthread_mutex_lock(&lardd->lock);
	load = lard_outstanding(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	return load;
}

static unsigned int nodes_up(void)
{
	unsigned int nodes;

	pthread_mutex_lock(&lardd->lock);
	nodes = lard_nodes(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	return nodes;
}

static unsigned int kernel_id_of(int slot)
{
	unsigned int id;

	pthread_mutex_lock(&lardd->lock);
	id = lardd->nodes.at[slot].kernel_id;
	pthread_mutex_unlock(&lardd->lock);
	return id;
}

static struct lard_params params(void)
{
	struct lard_params p;

	pthread_mutex_lock(&lardd->lock);
	p = *lard_get_params(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	return p;
}

static uint32_t limit(void)
{
	uint32_t limit;

	pthread_mutex_lock(&lardd->lock);
	limit = lard_limit(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	return limit;
}

static bool only_first_is_up(void)
{
	uint64_t eligible;

	pthread_mutex_lock(&lardd->lock);
	eligible = lard_eligible(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	return eligible == 1;
}

static uint64_t counted(enum counter which)
{
	return lardd->worker[0]->counters[which];
}

/* No connection in any state. */
static bool all_closed(void)
{
	unsigned int state;

	for (state = CONN_SHAKE; state < CONN_STATES; state++)
		if (lardd->worker[0]->live[state])
			return false;
	return true;
}

/* Waits up to a minute for the state, then insists on it. */
#define UNTIL(condition)						\
	do {								\
		int tries_ = 60000;					\
									\
		while (!(condition) && --tries_)			\
			usleep(1000);					\
		assert_true(condition);					\
	} while (0)

static int connect_client(const char *request)
{
	struct sockaddr_in addr = { AF_INET, htons(port), { htonl(INADDR_LOOPBACK) }, { 0 } };
	struct timeval limit = { .tv_sec = 60 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
	return fd;
}

#define REQUEST "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"

static void expect(int fd, const char *text)
{
	char got[4096];
	size_t len = strlen(text);
	ssize_t n = recv(fd, got, len, MSG_WAITALL);

	assert_int_equal(n, len);
	assert_memory_equal(got, text, len);
}

/* Which node has adopted the connection; its socket into *fd. */
static int adopted(int *fd)
{
	int node = -1, i, tries;

	for (tries = 0; node < 0 && tries < 60000; tries++) {
		pthread_mutex_lock(&kernel.lock);
		for (i = 0; i < NODES; i++) {
			if (kernel.moved[i] < 0)
				continue;
			node = i;
			*fd = kernel.moved[i];
			kernel.moved[i] = -1;
		}
		pthread_mutex_unlock(&kernel.lock);
		usleep(1000);
	}
	assert_true(node >= 0);
	return node;
}

/* The test as web server: one request, one answer. */
static void serve_proxied(void)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nproxied";
	int fd = accept(web, NULL, NULL);
	char request[1024];

	assert_true(recv(fd, request, sizeof(request), 0) > 20);
	assert_int_equal(send(fd, answer, strlen(answer), 0), strlen(answer));
	close(fd);
}

static void expect_proxied(int client)
{
	char answer[1024] = "";
	size_t len = 0;
	ssize_t n;

	serve_proxied();
	while (!strstr(answer, "proxied")) {
		n = recv(client, answer + len, sizeof(answer) - 1 - len, 0);
		assert_true(n > 0);
		len += n;
	}
	close(client);
}

/* --- claims --- */

static void a_connection_moves_with_its_request(void **state)
{
	int client = connect_client(REQUEST), server, node;

	(void)state;
	node = adopted(&server);
	expect(server, REQUEST);		/* unread until now */
	UNTIL(counted(COUNTER_HANDED_OFF) == 1);
	assert_int_equal(outstanding(), 1);
	UNTIL(lardd->worker[0]->live[CONN_REMOTE] == 1);
	assert_true(kernel.later[node]);	/* far from every limit */
	/* Ours is the last descriptor: what is written and closed here is what the client sees. */
	assert_int_equal(send(server, "answer", 6, 0), 6);
	close(server);
	expect(client, "answer");
	assert_int_equal(recv(client, &(char){ 0 }, 1, 0), 0);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_CLOSED, 0);
	UNTIL(outstanding() == 0);
	assert_int_equal(counted(COUNTER_REMOTE_CLOSED), 1);
	UNTIL(all_closed());
	close(client);
}

/* --- of TLS --- */

static SSL *connect_tls(int version, int *fd)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);

	*fd = connect_client("");
	SSL_set_max_proto_version(ssl, version);
	SSL_set_fd(ssl, *fd);
	assert_int_equal(SSL_connect(ssl), 1);
	assert_int_equal(SSL_write(ssl, REQUEST, strlen(REQUEST)), strlen(REQUEST));
	SSL_CTX_free(ctx);
	return ssl;
}

static void hang_up(SSL *ssl, int fd)
{
	SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(ssl);
	close(fd);
}

static void https_moves_with_its_keys(void **state)
{
	char got[64];
	int client, server, node;
	SSL *ssl = connect_tls(TLS1_3_VERSION, &client);

	(void)state;
	node = adopted(&server);
	UNTIL(counted(COUNTER_TLS_HANDED_OFF) == 1);
	assert_int_equal(kernel.keys[node].port, 8443);
	/* The node has the keys and what is unread, and nothing else. */
	receive_record(server, &kernel.keys[node], REQUEST);
	send_record(server, &kernel.keys[node], "answer");
	assert_int_equal(SSL_read(ssl, got, sizeof(got)), 6);
	assert_memory_equal(got, "answer", 6);
	/* lardd says nothing more: no close_notify of its own. */
	close(server);
	assert_int_equal(SSL_read(ssl, got, sizeof(got)), 0);
	assert_int_not_equal(SSL_get_error(ssl, 0), SSL_ERROR_ZERO_RETURN);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_CLOSED, 0);
	UNTIL(all_closed());
	hang_up(ssl, client);
}

static void expect_https_proxied(SSL *ssl, int client)
{
	char got[1024] = "";
	int len = 0, n;

	serve_proxied();
	while (!strstr(got, "proxied")) {
		n = SSL_read(ssl, got + len, sizeof(got) - 1 - len);
		assert_true(n > 0);
		len += n;
	}
	hang_up(ssl, client);
}

static void https_that_cannot_move_is_proxied(void **state)
{
	static const enum flt_refusal refusals[] = { FLT_REFUSE_KEYS, FLT_REFUSE_KTLS, FLT_REFUSE_FULL };
	int client, i;
	SSL *ssl;

	(void)state;
	for (i = 0; i < 3; i++) {
		kernel.answers[0] = kernel.answers[1] = i == 1 ? REFUSES_LATER : REFUSES_AT_ONCE;
		kernel.refusal = refusals[i];
		kernel.submissions = 0;
		ssl = connect_tls(TLS1_3_VERSION, &client);
		expect_https_proxied(ssl, client);
		/* Where no node can be given keys, there is no use in asking another. */
		assert_int_equal(kernel.submissions, refusals[i] == FLT_REFUSE_FULL ? 2 : 1);
	}
	kernel.submissions = 0;
	ssl = connect_tls(TLS1_2_VERSION, &client);
	expect_https_proxied(ssl, client);
	assert_int_equal(kernel.submissions, 0);
}

static void https_stays_unless_a_port_is_named(void **state)
{
	int client;
	SSL *ssl = connect_tls(TLS1_3_VERSION, &client);

	(void)state;
	expect_https_proxied(ssl, client);
	assert_int_equal(kernel.submissions, 0);
}

static void idle_is_no_load_and_busy_is(void **state)
{
	int client = connect_client(REQUEST), server, node;

	(void)state;
	node = adopted(&server);
	UNTIL(outstanding() == 1);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_IDLE, 0);
	UNTIL(outstanding() == 0);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_IDLE, 0);	/* twice: once */
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_BUSY, 0);
	UNTIL(outstanding() == 1);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_IDLE, 0);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_CLOSED, 0);
	UNTIL(lardd->worker[0]->live[CONN_IDLE] == 0 && counted(COUNTER_REMOTE_CLOSED) == 1);
	assert_int_equal(outstanding(), 0);
	close(server);
	close(client);
}

static void replace_node(int node, unsigned int id, const char *name)
{
	pthread_mutex_lock(&kernel.lock);
	kernel.nodes[node].id = id;
	strcpy(kernel.nodes[node].name, name);
	pthread_mutex_unlock(&kernel.lock);
	kernel_changed();
	UNTIL(kernel_id_of(node) == id);
}

/* @id: of a node that takes the place of the one that goes; 0: nobody does. */
static void busy_after_the_node_has_gone(unsigned int id)
{
	int first = connect_client(REQUEST), server, node, second, other, last;

	node = adopted(&server);
	second = connect_client(REQUEST);
	last = adopted(&other);
	UNTIL(outstanding() == 2);
	assert_int_not_equal(last, node);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_IDLE, 0);
	UNTIL(outstanding() == 1);
	replace_node(node, 0, "");
	replace_node(node, id, "another");
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_BUSY, 0);
	/* Events come in order: once this one has been heard, so has that. */
	kernel_emit(kernel.cookies[last], last + 1, HOF_EVENT_CLOSED, 0);
	UNTIL(counted(COUNTER_REMOTE_CLOSED) == 1);
	assert_int_equal(outstanding(), 0);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_CLOSED, 0);
	UNTIL(counted(COUNTER_REMOTE_CLOSED) == 2);
	assert_int_equal(outstanding(), 0);
	close(server);
	close(other);
	close(first);
	close(second);
}

static void busy_is_no_load_of_a_node_that_has_gone(void **state)
{
	(void)state;
	busy_after_the_node_has_gone(0);
}

static void busy_is_no_load_of_the_node_in_its_place(void **state)
{
	(void)state;
	busy_after_the_node_has_gone(NODES + 7);
}

static void refusal_of_a_node_sends_it_to_the_next(enum answer how)
{
	int client, server;

	kernel.answers[0] = how;
	kernel.refusal = FLT_REFUSE_FULL;
	client = connect_client(REQUEST);
	assert_int_equal(adopted(&server), 1);
	expect(server, REQUEST);
	assert_int_equal(counted(COUNTER_HANDOFF_RETRIED), 1);
	assert_int_equal(counted(COUNTER_PROXIED), 0);
	assert_int_equal(outstanding(), 1);
	close(server);
	close(client);
}

static void refusal_at_once_sends_it_to_the_next_node(void **state)
{
	(void)state;
	refusal_of_a_node_sends_it_to_the_next(REFUSES_AT_ONCE);
}

static void refusal_later_sends_it_to_the_next_node(void **state)
{
	(void)state;
	refusal_of_a_node_sends_it_to_the_next(REFUSES_LATER);
}

/* Such as by an acknowledgment that came while the node prepared itself. */
static void what_changed_goes_to_the_same_node_once_more(void **state)
{
	int client, server, node;

	(void)state;
	kernel.answers[0] = kernel.answers[1] = REFUSES_LATER;
	kernel.refusal = FLT_REFUSE_CHANGED;
	kernel.refusals = 1;
	client = connect_client(REQUEST);
	node = adopted(&server);
	expect(server, REQUEST);
	assert_int_equal(node, kernel.refused);
	assert_int_equal(kernel.submissions, 2);
	assert_int_equal(counted(COUNTER_HANDOFF_RETRIED), 1);
	assert_int_equal(counted(COUNTER_PROXIED), 0);
	assert_int_equal(outstanding(), 1);
	close(server);
	close(client);
}

static void what_changes_again_is_proxied(void **state)
{
	int client;

	(void)state;
	kernel.answers[0] = kernel.answers[1] = REFUSES_LATER;
	kernel.refusal = FLT_REFUSE_CHANGED;
	client = connect_client(REQUEST);
	expect_proxied(client);
	assert_int_equal(kernel.submissions, 2);
	UNTIL(outstanding() == 0);
}

static void after_two_refusals_it_is_proxied(void **state)
{
	int client;

	(void)state;
	kernel.answers[0] = REFUSES_LATER;
	kernel.answers[1] = REFUSES_AT_ONCE;
	kernel.refusal = FLT_REFUSE_FULL;
	client = connect_client(REQUEST);
	expect_proxied(client);
	assert_int_equal(kernel.submissions, 2);
	assert_int_equal(counted(COUNTER_PROXY_FALLBACK), 1);
	UNTIL(outstanding() == 0);
}

static void what_cannot_move_is_proxied_at_once(void **state)
{
	int client;

	(void)state;
	kernel.answers[0] = kernel.answers[1] = REFUSES_AT_ONCE;
	kernel.refusal = FLT_REFUSE_FINRECV;
	client = connect_client(REQUEST);
	expect_proxied(client);
	assert_int_equal(kernel.submissions, 1);
	UNTIL(outstanding() == 0);
}

/* What comes later on it must be seen: it may be no challenge, or have a header that only lardd may say. */
static void stays(const char *request)
{
	expect_proxied(connect_client(request));
	assert_int_equal(kernel.submissions, 0);
	UNTIL(outstanding() == 0);
}

static void a_challenge_in_clear_text_stays(void **state)
{
	(void)state;
	stays("GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: h\r\n\r\n");
}

static void nothing_moves_where_clients_have_certificates(void **state)
{
	(void)state;
	stays(REQUEST);
}

static void node_without_server_is_left_out_for_a_while(void **state)
{
	int i, client, server;

	(void)state;
	kernel.answers[0] = REFUSES_LATER;
	kernel.refusal = FLT_REFUSE_NOLISTENER;
	for (i = 0; i < 8; i++) {
		client = connect_client(REQUEST);
		assert_int_equal(adopted(&server), 1);
		kernel_emit(kernel.cookies[1], 2, HOF_EVENT_CLOSED, 0);
		UNTIL(outstanding() == 0);
		close(server);
		close(client);
	}
	assert_int_equal(counted(COUNTER_HANDOFF_FAILED), 3);
	/* Then it gets another chance. */
	kernel.answers[0] = TAKES;
	UNTIL(nodes_up() == 2);
}

static void lost_node_ends_its_connections(void **state)
{
	int client = connect_client(REQUEST), server, node;

	(void)state;
	node = adopted(&server);
	UNTIL(outstanding() == 1);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_CLOSED, FLT_REFUSE_NODEDOWN);
	UNTIL(outstanding() == 0);
	assert_int_equal(counted(COUNTER_REMOTE_LOST), 1);
	close(server);
	close(client);
}

static void events_of_nobody_are_ignored(void **state)
{
	int client = connect_client(REQUEST), server, node;

	(void)state;
	node = adopted(&server);
	UNTIL(counted(COUNTER_HANDED_OFF) == 1);
	kernel_emit(0, 1, HOF_EVENT_DONE, 0);
	kernel_emit(UINT64_MAX, 1, HOF_EVENT_CLOSED, 0);
	kernel_emit(kernel.cookies[node] ^ 1ULL << 32, 1, HOF_EVENT_CLOSED, 0);	/* another generation */
	kernel_emit(kernel.cookies[node], 1, HOF_EVENT_FAILED, FLT_REFUSE_FULL);
	kernel_emit(kernel.cookies[node], 1, HOF_EVENT_DONE, 0);
	kernel_emit(kernel.cookies[node], 1, HOF_EVENT_BUSY, 0);
	kernel_emit(kernel.cookies[node], 1, 99, 0);
	kernel_emit(kernel.cookies[node], 1, HOF_EVENT_IDLE, 0);
	UNTIL(outstanding() == 0);
	kernel_emit(kernel.cookies[node], 1, HOF_EVENT_CLOSED, 0);
	kernel_emit(kernel.cookies[node], 1, HOF_EVENT_CLOSED, 0);
	UNTIL(counted(COUNTER_REMOTE_CLOSED) == 1);
	assert_int_equal(counted(COUNTER_HANDED_OFF), 1);
	UNTIL(all_closed());
	close(server);
	close(client);
}

static void what_waits_at_the_limit_is_handed_off_later(void **state)
{
	int first, second, server, other, node;

	(void)state;
	kernel.max_outstanding = 1;
	kernel_changed();
	UNTIL(limit() == 1);
	first = connect_client(REQUEST);
	node = adopted(&server);
	second = connect_client("GET /late HTTP/1.1\r\nHost: h\r\n\r\n");
	UNTIL(lardd->waiters == 1);
	assert_int_equal(kernel.submissions, 1);
	assert_false(kernel.later[node]);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_CLOSED, 0);
	adopted(&other);
	expect(other, "GET /late HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_int_equal(outstanding(), 1);
	close(server);
	close(other);
	close(first);
	close(second);
}

static void nodes_and_parameters_follow_the_kernel(void **state)
{
	int client, server, i;

	(void)state;
	assert_int_equal(limit(), 89);
	pthread_mutex_lock(&kernel.lock);
	kernel.nodes[0].state = FLT_NODE_DOWN;
	kernel.policy = "lb";
	kernel.max_outstanding = 24;	/* what the kernel's automatic limit is for one node */
	pthread_mutex_unlock(&kernel.lock);
	kernel_changed();
	UNTIL(nodes_up() == 1);
	UNTIL(params().policy == LARD_LB);
	assert_int_equal(params().max_outstanding, 0);
	for (i = 0; i < 4; i++) {
		client = connect_client(REQUEST);
		assert_int_equal(adopted(&server), 1);
		close(server);
		close(client);
	}
	pthread_mutex_lock(&kernel.lock);
	kernel.nodes[1].id = 0;		/* deleted */
	kernel.nodes[0].state = FLT_NODE_UP;
	pthread_mutex_unlock(&kernel.lock);
	kernel_changed();
	UNTIL(only_first_is_up());
	client = connect_client(REQUEST);
	assert_int_equal(adopted(&server), 0);
	close(server);
	close(client);
}

#define WITH_DAEMON(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_DAEMON(a_connection_moves_with_its_request),
		WITH_DAEMON(idle_is_no_load_and_busy_is),
		WITH_DAEMON(busy_is_no_load_of_a_node_that_has_gone),
		WITH_DAEMON(busy_is_no_load_of_the_node_in_its_place),
		WITH_DAEMON(refusal_at_once_sends_it_to_the_next_node),
		WITH_DAEMON(refusal_later_sends_it_to_the_next_node),
		WITH_DAEMON(what_changed_goes_to_the_same_node_once_more),
		WITH_DAEMON(what_changes_again_is_proxied),
		WITH_DAEMON(after_two_refusals_it_is_proxied),
		WITH_DAEMON(what_cannot_move_is_proxied_at_once),
		cmocka_unit_test_setup_teardown(a_challenge_in_clear_text_stays, start_redirecting, stop),
		cmocka_unit_test_setup_teardown(nothing_moves_where_clients_have_certificates,
						start_with_authority, stop),
		cmocka_unit_test_setup_teardown(https_moves_with_its_keys, start_https, stop_https),
		cmocka_unit_test_setup_teardown(https_that_cannot_move_is_proxied, start_https, stop_https),
		cmocka_unit_test_setup_teardown(https_stays_unless_a_port_is_named, start_https_that_stays,
						stop_https),
		WITH_DAEMON(node_without_server_is_left_out_for_a_while),
		WITH_DAEMON(lost_node_ends_its_connections),
		WITH_DAEMON(events_of_nobody_are_ignored),
		WITH_DAEMON(what_waits_at_the_limit_is_handed_off_later),
		WITH_DAEMON(nodes_and_parameters_follow_the_kernel),
	};

	return cmocka_run_group_tests_name("lard_give", tests, NULL, NULL);
}
