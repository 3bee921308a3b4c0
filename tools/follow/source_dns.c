// SPDX-License-Identifier: GPL-2.0
/*
 * dns:NAME, SRV records (RFC 2782): target and port are a node's; those of the lowest priority get their weight, the others
 * weight 0, which is a link that is up and nothing new; the TTL says when to ask again.
 */
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "source.h"

/* TTLs are kept to; but nobody can make us ask all the time. */
#define TTL_MIN		5
#define TTL_MAX		3600
/* For all of the questions of an answer. */
#define PATIENCE	30
/* Of one name's addresses, that many are looked at. */
#define RECORDS_MAX	64

/**
 * struct along - an address that came along with the answer
 */
struct along {
	char *name;
	int type;
	unsigned int ttl;
	unsigned char bytes[16];
};

/**
 * struct best - the address of a target so far
 */
struct best {
	bool found;
	unsigned char bytes[16];
};

struct dns {
	char name[NS_MAXDNAME];
	struct in_addr server;
	uint16_t port;
	struct along *along;
	size_t nr_along;
	unsigned char message[NS_MAXMSG], more[NS_MAXMSG];
};

static size_t size_of(int type)
{
	return type == ns_t_a ? 4 : 16;
}

/* NAME or NAME@ADDRESS or NAME@ADDRESS:PORT */
static int dns_open(struct source *s, const char *rest)
{
	struct dns *dns = calloc(1, sizeof(*dns));
	struct sockaddr_storage server = { 0 };
	size_t len = strcspn(rest, "@");
	int status;

	if (!dns)
		return cli_fail(s->cli, "out of memory");
	s->data = dns;
	if (!len || len >= sizeof(dns->name) || rest[strspn(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
							   "0123456789._-@:")])
		return cli_usage(s->cli, "dns:%s is not dns:NAME or dns:NAME@ADDRESS[:PORT]", rest);
	memcpy(dns->name, rest, len);
	if (!rest[len])
		return CLI_OK;
	status = value_service(s->cli, rest + len + 1, &server);
	if (!status && server.ss_family != AF_INET)
		status = cli_usage(s->cli, "the server's address has to be IPv4");
	dns->server = ((struct sockaddr_in *)&server)->sin_addr;
	dns->port = address_port(&server) ? address_port(&server) : 53;
	return status;
}

static int start(struct source *s, struct __res_state *state)
{
	const struct dns *dns = s->data;

	memset(state, 0, sizeof(*state));
	if (res_ninit(state))
		return cli_fail(s->cli, "no resolver");
	state->retrans = 2;
	state->retry = 2;
	if (!dns->port)
		return CLI_OK;
	state->nscount = 1;
	state->nsaddr_list[0] = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(dns->port),
						       .sin_addr = dns->server };
	return CLI_OK;
}

/* By TCP, too, a server may say that it has left out some: those would seem to be gone. */
static bool is_whole(const unsigned char *message, int len)
{
	ns_msg msg;

	return ns_initparse(message, len, &msg) || !ns_msg_getflag(msg, ns_f_tc);
}

/* The answer's length; 0: there is nothing of that name; -1 after saying that nobody answers. */
static int ask(struct source *s, struct __res_state *state, const char *name, int type, unsigned char *message)
{
	int len = res_nquery(state, name, ns_c_in, type, message, NS_MAXMSG);

	len = len < NS_MAXMSG ? len : NS_MAXMSG;
	if (len > 0 && is_whole(message, len))
		return len;
	if (len > 0) {
		cli_fail(s->cli, "the name server's answer for %s is not whole", name);
		return -1;
	}
	if (state->res_h_errno == HOST_NOT_FOUND || state->res_h_errno == NO_DATA)
		return 0;
	cli_fail(s->cli, "the name server does not answer for %s", name);
	return -1;
}

static void note_ttl(struct source *s, unsigned int ttl)
{
	ttl = ttl < TTL_MIN ? TTL_MIN : ttl > TTL_MAX ? TTL_MAX : ttl;
	if (!s->ttl || ttl < s->ttl)
		s->ttl = ttl;
}

/* Is it one of that family? */
static bool is_address(const ns_rr *rr, int type)
{
	return ns_rr_type(*rr) == (ns_type)type && ns_rr_class(*rr) == ns_c_in && ns_rr_rdlen(*rr) == size_of(type);
}

/* The first one in an order that does not change with that of the records. */
static void take_best(struct source *s, struct best *best, unsigned int ttl, const unsigned char *bytes, int type)
{
	if (best->found && memcmp(bytes, best->bytes, size_of(type)) > 0)
		return;
	memcpy(best->bytes, bytes, size_of(type));
	best->found = true;
	note_ttl(s, ttl);
}

static bool put_best(const struct best *best, int type, char *text)
{
	if (best->found)
		inet_ntop(type == ns_t_a ? AF_INET : AF_INET6, best->bytes, text, INET6_ADDRSTRLEN);
	return best->found;
}

/* Of what came along with the answer. */
static bool pick_along(struct source *s, const char *name, int type, char *text)
{
	const struct dns *dns = s->data;
	struct best best = { 0 };
	size_t i;

	for (i = 0; i < dns->nr_along; i++)
		if (dns->along[i].type == type && !strcasecmp(dns->along[i].name, name))
			take_best(s, &best, dns->along[i].ttl, dns->along[i].bytes, type);
	return put_best(&best, type, text);
}

/* Of an answer about one name; an alias of it is as good. */
static bool pick_answer(struct source *s, ns_msg *msg, int type, char *text)
{
	struct best best = { 0 };
	ns_rr rr;
	int i;

	for (i = 0; i < ns_msg_count(*msg, ns_s_an) && i < RECORDS_MAX; i++) {
		if (ns_parserr(msg, ns_s_an, i, &rr))
			return false;
		if (is_address(&rr, type))
			take_best(s, &best, ns_rr_ttl(rr), ns_rr_rdata(rr), type);
	}
	return put_best(&best, type, text);
}

static void drop_along(struct dns *dns)
{
	while (dns->nr_along)
		free(dns->along[--dns->nr_along].name);
	free(dns->along);
	dns->along = NULL;
}

/* Once for all targets: each name of a message may lead through thousands of others. */
static int take_along(struct source *s, ns_msg *msg)
{
	struct dns *dns = s->data;
	struct along *along;
	ns_rr rr;
	int i;

	for (i = 0; i < ns_msg_count(*msg, ns_s_ar); i++) {
		/* What follows what is broken is asked for. */
		if (ns_parserr(msg, ns_s_ar, i, &rr))
			return CLI_OK;
		if (!is_address(&rr, ns_t_a) && !is_address(&rr, ns_t_aaaa))
			continue;
		along = config_grow(s->cli, &dns->along, &dns->nr_along, sizeof(*along));
		if (!along)
			return CLI_FAILED;
		along->type = ns_rr_type(rr);
		along->ttl = ns_rr_ttl(rr);
		memcpy(along->bytes, ns_rr_rdata(rr), size_of(along->type));
		along->name = strdup(ns_rr_name(rr));
		if (!along->name)
			return cli_fail(s->cli, "out of memory");
	}
	return CLI_OK;
}

/* A target's address, from what came along or by asking. */
static int address_of(struct source *s, struct __res_state *state, const char *target, char *text)
{
	static const int types[] = { ns_t_a, ns_t_aaaa };
	struct dns *dns = s->data;
	ns_msg more;
	size_t i;
	int len;

	for (i = 0; i < ARRAY_SIZE(types); i++)
		if (pick_along(s, target, types[i], text))
			return CLI_OK;
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		len = ask(s, state, target, types[i], dns->more);
		if (len < 0)
			return CLI_FAILED;
		if (len && !ns_initparse(dns->more, len, &more) && pick_answer(s, &more, types[i], text))
			return CLI_OK;
	}
	return cli_usage(s->cli, "%s has no address", target);
}

/* The target of an SRV record; false: it has none. */
static bool target_of(const ns_msg *msg, const ns_rr *rr, char *target)
{
	return ns_name_uncompress(ns_msg_base(*msg), ns_msg_end(*msg), ns_rr_rdata(*rr) + 6, target, NS_MAXDNAME) > 0;
}

static int take(struct source *s, struct __res_state *state, ns_msg *msg, const ns_rr *rr, unsigned int best,
		struct config *answer)
{
	const unsigned char *data = ns_rr_rdata(*rr);
	char target[NS_MAXDNAME], name[NS_MAXLABEL + 1], address[INET6_ADDRSTRLEN], port[8], weight[8];
	unsigned int number = ns_get16(data + 2);
	int status;

	source_place(s, answer, ": ");
	if (!target_of(msg, rr, target))
		return cli_usage(s->cli, "a record of it is broken");
	status = address_of(s, state, target, address);
	if (status)
		return status;
	first_label(target, name, sizeof(name));
	snprintf(port, sizeof(port), "%u", ns_get16(data + 4));
	/* 0 is "no choice to be made" in DNS, and "nothing new" here. */
	snprintf(weight, sizeof(weight), "%u", ns_get16(data) > best ? 0 : number ? number : 100);
	return answer_node(s, answer, ": ", name, address, port, weight, NULL);
}

static int take_all(struct source *s, struct __res_state *state, ns_msg *msg, struct config *answer)
{
	time_t end = time(NULL) + PATIENCE;
	unsigned int best = 65536, pass;
	int status = CLI_OK, i;
	ns_rr rr;

	/* Which priority is the best, then the records. */
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < ns_msg_count(*msg, ns_s_an) && !status; i++) {
			if (ns_parserr(msg, ns_s_an, i, &rr))
				return cli_usage(s->cli, "its answer is broken");
			if (ns_rr_type(rr) != ns_t_srv || ns_rr_class(rr) != ns_c_in || ns_rr_rdlen(rr) <= 6)
				continue;
			if (!pass && ns_get16(ns_rr_rdata(rr)) < best)
				best = ns_get16(ns_rr_rdata(rr));
			if (!pass)
				continue;
			note_ttl(s, ns_rr_ttl(rr));
			if (time(NULL) > end)
				return cli_fail(s->cli, "its answers take longer than %d seconds", PATIENCE);
			status = take(s, state, msg, &rr, best, answer);
		}
	return status;
}

static int dns_read(struct source *s, struct config *answer)
{
	struct __res_state state;
	struct dns *dns = s->data;
	ns_msg msg;
	int len, status;

	*answer = (struct config){ .file = dns->name, .max_nodes = s->max };
	s->ttl = 0;
	source_place(s, answer, ": ");
	status = start(s, &state);
	if (status)
		return status;
	len = ask(s, &state, dns->name, ns_t_srv, dns->message);
	if (len < 0)
		status = CLI_FAILED;
	else if (len && ns_initparse(dns->message, len, &msg))
		status = cli_usage(s->cli, "its answer is broken");
	else if (len)
		status = take_along(s, &msg);
	if (!status && len)
		status = take_all(s, &state, &msg, answer);
	drop_along(dns);
	res_nclose(&state);
	return status;
}

static void dns_wait(struct source *s, int ms)
{
	(void)s;
	usleep(1000UL * ms);
}

static void dns_close(struct source *s)
{
	free(s->data);
}

const struct source_kind source_dns = { "dns", dns_open, dns_read, dns_wait, dns_close };
