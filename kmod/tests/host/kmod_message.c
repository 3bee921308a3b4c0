// SPDX-License-Identifier: MIT
/* libflotilla reads the kernel's messages right, and malformed ones not at all. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kmod/lib/internal.h"

#define SEQ	77
#define FAMILY	0x1d

static struct flt_client client;

static struct nlmsghdr *message(void *buffer, uint8_t cmd)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buffer);
	struct genlmsghdr *genl;

	nlh->nlmsg_type = FAMILY;
	nlh->nlmsg_seq = SEQ;
	genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));
	genl->cmd = cmd;
	genl->version = FLT_GENL_VERSION;
	return nlh;
}

static void put_u64(struct nlmsghdr *nlh, uint16_t type, uint64_t value)
{
	mnl_attr_put_u64(nlh, type, value);
}

static void node_row_is_read_whole(void **state)
{
	_Alignas(8) char buffer[1024];
	struct nlmsghdr *nlh = message(buffer, FLT_CMD_NODE_NEW);
	struct flt_node_info node;
	char text[64];

	(void)state;
	mnl_attr_put_u32(nlh, FLT_A_NODE_ID, 3);
	mnl_attr_put_strz(nlh, FLT_A_NODE_NAME, "be1");
	mnl_attr_put_u32(nlh, FLT_A_NODE_ADDR4, inet_addr("10.0.0.3"));
	mnl_attr_put_u16(nlh, FLT_A_NODE_PORT, 7471);
	mnl_attr_put_u32(nlh, FLT_A_NODE_WEIGHT, 100);
	mnl_attr_put_u8(nlh, FLT_A_NODE_STATE, FLT_NODE_UP);
	mnl_attr_put_u8(nlh, FLT_A_NODE_ADMIN, FLT_ADMIN_DRAIN);
	mnl_attr_put_u8(nlh, FLT_A_NODE_FORWARD, FLT_FORWARD_IPIP);
	mnl_attr_put_u32(nlh, FLT_A_NODE_FWD_ADDR4, inet_addr("10.0.1.3"));
	mnl_attr_put_u32(nlh, FLT_A_NODE_KEY, (uint32_t)-5);
	mnl_attr_put_u32(nlh, FLT_A_NODE_LOAD, 12);
	put_u64(nlh, FLT_A_NODE_UPTIME_MS, 1ULL << 40);
	mnl_attr_put_strz(nlh, FLT_A_NODE_REASON, "no answer");

	assert_int_equal(flt_node_parse(nlh, &node), 0);
	assert_int_equal(node.id, 3);
	assert_string_equal(node.name, "be1");
	assert_int_equal(node.addr.ss_family, AF_INET);
	assert_int_equal(flt_addr_port(&node.addr), 7471);
	assert_string_equal(inet_ntop(AF_INET, &((struct sockaddr_in *)&node.fwd_addr)->sin_addr,
				      text, sizeof(text)), "10.0.1.3");
	assert_int_equal(node.state, FLT_NODE_UP);
	assert_int_equal(node.admin, FLT_ADMIN_DRAIN);
	assert_int_equal(node.forward, FLT_FORWARD_IPIP);
	assert_int_equal(node.key, -5);
	assert_int_equal(node.load, 12);
	assert_true(node.uptime_ms == 1ULL << 40);
	assert_string_equal(node.reason, "no answer");
}

static void node_with_ipv6_address_is_read(void **state)
{
	_Alignas(8) char buffer[256];
	struct nlmsghdr *nlh = message(buffer, FLT_CMD_NODE_NEW);
	struct in6_addr addr = IN6ADDR_LOOPBACK_INIT;
	struct flt_node_info node;

	(void)state;
	mnl_attr_put_strz(nlh, FLT_A_NODE_NAME, "six");
	mnl_attr_put(nlh, FLT_A_NODE_ADDR6, sizeof(addr), &addr);
	mnl_attr_put_u16(nlh, FLT_A_NODE_PORT, 9);
	assert_int_equal(flt_node_parse(nlh, &node), 0);
	assert_int_equal(node.addr.ss_family, AF_INET6);
	assert_int_equal(flt_addr_port(&node.addr), 9);
	assert_int_equal(node.fwd_addr.ss_family, 0);
}

/* What flt_node_fill() writes is what flt_node_parse() reads. */
static void only_given_members_are_sent(void **state)
{
	_Alignas(8) char buffer[512];
	struct flt_node_info node = { .name = "be2", .weight = 7, .admin = 1, .role = 1,
				      .given = FLT_GIVEN(FLT_A_NODE_WEIGHT) };
	struct nlmsghdr *nlh = message(buffer, FLT_CMD_NODE_SET);
	struct flt_attrs attrs;

	(void)state;
	flt_node_fill(nlh, &node, false);
	assert_int_equal(flt_attrs_parse(nlh, &attrs), 0);
	assert_non_null(attrs.at[FLT_A_NODE_NAME]);
	assert_non_null(attrs.at[FLT_A_NODE_WEIGHT]);
	assert_null(attrs.at[FLT_A_NODE_ADMIN]);
	assert_null(attrs.at[FLT_A_NODE_ROLE]);
	assert_null(attrs.at[FLT_A_NODE_PORT]);
}

static void attribute_of_wrong_size_is_refused(void **state)
{
	static const struct {
		uint16_t type, len;
	} wrong[] = {
		{ FLT_A_NODE_ID, 3 }, { FLT_A_NODE_ADDR4, 16 }, { FLT_A_NODE_ADDR6, 4 },
		{ FLT_A_NODE_STATE, 4 }, { FLT_A_NODE_UPTIME_MS, 4 },
		{ FLT_A_CONN_TUPLE, sizeof(struct flt_tuple) - 4 }, { FLT_A_CONN_TUPLE, 64 },
		{ FLT_A_NODE_NAME, 0 }, { FLT_A_NODE_NAME, FLT_NAME_MAX + 1 },
	};
	static const char zeros[256];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		_Alignas(8) char buffer[512];
		struct nlmsghdr *nlh = message(buffer, FLT_CMD_NODE_NEW);
		struct flt_attrs attrs;

		mnl_attr_put(nlh, wrong[i].type, wrong[i].len, zeros);
		assert_int_equal(flt_attrs_parse(nlh, &attrs), -EPROTO);
	}
}

static void name_without_end_is_refused(void **state)
{
	_Alignas(8) char buffer[256];
	struct nlmsghdr *nlh = message(buffer, FLT_CMD_NODE_NEW);
	struct flt_attrs attrs;

	(void)state;
	mnl_attr_put(nlh, FLT_A_NODE_NAME, 4, "be11");
	assert_int_equal(flt_attrs_parse(nlh, &attrs), -EPROTO);
}

static void attribute_from_the_future_is_passed_over(void **state)
{
	_Alignas(8) char buffer[256];
	struct nlmsghdr *nlh = message(buffer, FLT_CMD_NODE_NEW);
	struct flt_node_info node;

	(void)state;
	mnl_attr_put_u32(nlh, FLT_A_MAX + 5, 1);
	mnl_attr_put_strz(nlh, FLT_A_NODE_NAME, "be1");
	assert_int_equal(flt_node_parse(nlh, &node), 0);
	assert_string_equal(node.name, "be1");
}

static void connection_and_counter_are_read(void **state)
{
	_Alignas(8) char buffer[512];
	struct nlmsghdr *nlh = message(buffer, FLT_CMD_CONN_GET);
	struct flt_tuple tuple = { .family = AF_INET, .client_port = htons(4000) };
	const char *room, *name;
	struct flt_conn_info conn;
	uint64_t value;

	(void)state;
	mnl_attr_put(nlh, FLT_A_CONN_TUPLE, sizeof(tuple), &tuple);
	mnl_attr_put_strz(nlh, FLT_A_CONN_NODE, "be1");
	mnl_attr_put_strz(nlh, FLT_A_CONN_STATE, "a state of more than fifteen bytes");
	put_u64(nlh, FLT_A_CONN_PACKETS, 5);
	assert_int_equal(flt_conn_parse(nlh, &conn), 0);
	assert_int_equal(conn.tuple.client_port, htons(4000));
	assert_string_equal(conn.state, "a state of more");
	assert_int_equal(conn.packets, 5);

	nlh = message(buffer, FLT_CMD_STATS_GET);
	mnl_attr_put_strz(nlh, FLT_A_STAT_ROOM, "handoff");
	mnl_attr_put_strz(nlh, FLT_A_STAT_NAME, "HandoffDone");
	assert_int_equal(flt_stat_parse(nlh, &room, &name, &value), -EPROTO);
	put_u64(nlh, FLT_A_STAT_VALUE, UINT64_MAX);
	assert_int_equal(flt_stat_parse(nlh, &room, &name, &value), 0);
	assert_string_equal(name, "HandoffDone");
	assert_true(value == UINT64_MAX);
}

static void event_brings_its_node(void **state)
{
	_Alignas(8) char buffer[512];
	struct nlmsghdr *nlh = message(buffer, FLT_CMD_EVENT);
	struct flt_node_info node;
	enum flt_event type;

	(void)state;
	assert_int_equal(flt_event_parse(nlh, &type, &node), -EPROTO);
	mnl_attr_put_u8(nlh, FLT_A_EVENT_TYPE, FLT_EVENT_DISPATCH);
	assert_int_equal(flt_event_parse(nlh, &type, &node), 0);
	assert_int_equal(type, FLT_EVENT_DISPATCH);
	assert_int_equal(node.name[0], 0);
	mnl_attr_put_strz(nlh, FLT_A_NODE_NAME, "be9");
	assert_int_equal(flt_event_parse(nlh, &type, &node), 0);
	assert_string_equal(node.name, "be9");
}

/* An error message as the kernel builds it: optionally capped, with a sentence. */
static size_t error_message(void *buffer, int error, bool capped, const char *sentence)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buffer);
	struct nlmsgerr *e;

	nlh->nlmsg_type = NLMSG_ERROR;
	nlh->nlmsg_seq = SEQ;
	nlh->nlmsg_flags = capped ? NLM_F_CAPPED : 0;
	e = mnl_nlmsg_put_extra_header(nlh, sizeof(*e));
	e->error = error;
	e->msg.nlmsg_len = NLMSG_HDRLEN + (capped ? 0 : 21);
	if (!capped)
		mnl_nlmsg_put_extra_header(nlh, 21);
	if (sentence) {
		nlh->nlmsg_flags |= NLM_F_ACK_TLVS;
		mnl_attr_put_u32(nlh, NLMSGERR_ATTR_OFFS, 1);
		mnl_attr_put_strz(nlh, NLMSGERR_ATTR_MSG, sentence);
	}
	return nlh->nlmsg_len;
}

static void the_kernels_sentence_is_kept(void **state)
{
	int capped;

	(void)state;
	for (capped = 0; capped < 2; capped++) {
		struct flt_answer answer = { .seq = SEQ };
		_Alignas(8) char buffer[512];
		size_t len = error_message(buffer, -EEXIST, capped, "node be1 exists");

		client.error[0] = '\0';
		assert_int_equal(flt_answer_eat(&client, &answer, buffer, len), 0);
		assert_true(answer.done);
		assert_int_equal(answer.err, -EEXIST);
		assert_string_equal(flt_client_error(&client), "node be1 exists");
	}
}

static void error_without_sentence_still_reads_well(void **state)
{
	struct flt_answer answer = { .seq = SEQ };
	_Alignas(8) char buffer[512];
	size_t len = error_message(buffer, -EPERM, true, NULL);

	(void)state;
	assert_int_equal(flt_answer_eat(&client, &answer, buffer, len), 0);
	assert_int_equal(answer.err, -EPERM);
	assert_string_equal(flt_client_error(&client),
			    "this needs CAP_NET_ADMIN in the network namespace");
}

static void answer_to_an_older_request_is_dropped(void **state)
{
	struct flt_answer answer = { .seq = SEQ + 1 };
	_Alignas(8) char buffer[512];
	size_t len = error_message(buffer, -EPERM, true, NULL);

	(void)state;
	assert_int_equal(flt_answer_eat(&client, &answer, buffer, len), 0);
	assert_false(answer.done);
	assert_int_equal(answer.err, 0);
}

static int count_until(const struct nlmsghdr *nlh, void *arg)
{
	int *left = arg;

	(void)nlh;
	return --*left ? 0 : 42;
}

/* The rest of the dump is read, but no longer shown. */
static void callback_ends_the_walk_but_not_the_reading(void **state)
{
	int left = 2, i;
	struct flt_answer answer = { .seq = SEQ, .fn = count_until, .arg = &left };
	_Alignas(8) char buffer[1024];
	size_t len = 0;
	struct nlmsghdr *nlh;

	(void)state;
	for (i = 0; i < 4; i++)
		len += message(buffer + len, FLT_CMD_NODE_NEW)->nlmsg_len;
	nlh = mnl_nlmsg_put_header(buffer + len);
	nlh->nlmsg_type = NLMSG_DONE;
	nlh->nlmsg_seq = SEQ;
	nlh->nlmsg_flags = NLM_F_DUMP_INTR;
	*(int *)mnl_nlmsg_put_extra_header(nlh, sizeof(int)) = 0;
	len += nlh->nlmsg_len;
	assert_int_equal(flt_answer_eat(&client, &answer, buffer, len), 0);
	assert_true(answer.done);
	assert_true(answer.interrupted);
	assert_int_equal(answer.err, 42);
	assert_int_equal(left, 0);
}

/* Every prefix and every single damaged byte: no crash, no endless loop. */
static void damaged_answers_do_no_harm(void **state)
{
	_Alignas(8) char good[512], buffer[512];
	size_t len = error_message(good, -EEXIST, false, "node be1 exists"), i;
	unsigned int seed = 1;

	(void)state;
	for (i = 0; i < len; i++) {
		struct flt_answer answer = { .seq = SEQ };

		memcpy(buffer, good, len);
		flt_answer_eat(&client, &answer, buffer, i);
	}
	for (i = 0; i < 20000; i++) {
		struct flt_answer answer = { .seq = SEQ };

		memcpy(buffer, good, len);
		buffer[rand_r(&seed) % len] = rand_r(&seed);
		buffer[rand_r(&seed) % len] = rand_r(&seed);
		flt_answer_eat(&client, &answer, buffer, len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(node_row_is_read_whole),
		cmocka_unit_test(node_with_ipv6_address_is_read),
		cmocka_unit_test(only_given_members_are_sent),
		cmocka_unit_test(attribute_of_wrong_size_is_refused),
		cmocka_unit_test(name_without_end_is_refused),
		cmocka_unit_test(attribute_from_the_future_is_passed_over),
		cmocka_unit_test(connection_and_counter_are_read),
		cmocka_unit_test(event_brings_its_node),
		cmocka_unit_test(the_kernels_sentence_is_kept),
		cmocka_unit_test(error_without_sentence_still_reads_well),
		cmocka_unit_test(answer_to_an_older_request_is_dropped),
		cmocka_unit_test(callback_ends_the_walk_but_not_the_reading),
		cmocka_unit_test(damaged_answers_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
