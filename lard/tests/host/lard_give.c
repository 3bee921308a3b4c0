// SPDX-License-Identifier: GPL-2.0
/* When lardd gives a connection to a node, and when it serves it itself: the whole daemon on a kernel of pretence. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "lard/tests/lib/daemon.h"
#include "lard/tests/lib/kernel.h"

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

static int start_keeping_images(void **state)
{
	(void)state;
	return start_with("cache-size 4000000\ncache-class image on\n", DOOR_PLAIN);
}

static void moves(const char *request)
{
	int client = connect_client(request), server, node = adopted(&server);

	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_CLOSED, 0);
	UNTIL(outstanding() == 0);
	close(server);
	close(client);
}

/* Else nobody would see its answers. What turns out not to be kept moves the next time. */
static void what_may_be_kept_stays(void **state)
{
	(void)state;
	stays("GET /a.png HTTP/1.1\r\nHost: h\r\n\r\n");
	stays("DELETE /b.png HTTP/1.1\r\nHost: h\r\n\r\n");
	moves(REQUEST);
	moves("GET /a.png?x HTTP/1.1\r\nHost: h\r\n\r\n");
	moves("DELETE /a HTTP/1.1\r\nHost: h\r\n\r\n");
	moves("GET /a.png HTTP/1.1\r\nHost: h\r\n\r\n");
	moves("GET /c.png HTTP/1.1\r\nHost: h\r\nAuthorization: x\r\n\r\n");
}

static int start_proxying_misses(void **state)
{
	(void)state;
	return start_with("cache-size 4000000\ncache-class image on\nmiss proxy\n", DOOR_PLAIN);
}

static int start_handing_misses_off(void **state)
{
	(void)state;
	return start_with("cache-size 4000000\ncache-class image on\nmiss handoff\n", DOOR_PLAIN);
}

static void a_site_that_proxies_its_misses_hands_nothing_off(void **state)
{
	(void)state;
	stays(REQUEST);
	stays("GET /a.png HTTP/1.1\r\nHost: h\r\n\r\n");
}

static void a_site_that_hands_them_off_keeps_nothing_of_them(void **state)
{
	(void)state;
	moves(REQUEST);
	moves("GET /a.png HTTP/1.1\r\nHost: h\r\n\r\n");
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
		cmocka_unit_test_setup_teardown(what_may_be_kept_stays, start_keeping_images, stop),
		cmocka_unit_test_setup_teardown(a_site_that_proxies_its_misses_hands_nothing_off, start_proxying_misses, stop),
		cmocka_unit_test_setup_teardown(a_site_that_hands_them_off_keeps_nothing_of_them, start_handing_misses_off, stop),
		cmocka_unit_test_setup_teardown(a_challenge_in_clear_text_stays, start_redirecting, stop),
		cmocka_unit_test_setup_teardown(nothing_moves_where_clients_have_certificates,
						start_with_authority, stop),
		WITH_DAEMON(node_without_server_is_left_out_for_a_while),
		WITH_DAEMON(lost_node_ends_its_connections),
		WITH_DAEMON(events_of_nobody_are_ignored),
		WITH_DAEMON(what_waits_at_the_limit_is_handed_off_later),
		WITH_DAEMON(nodes_and_parameters_follow_the_kernel),
	};

	return cmocka_run_group_tests_name("lard_give", tests, NULL, NULL);
}
