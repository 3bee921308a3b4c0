/* SPDX-License-Identifier: MIT */
/* libflotilla's inside: what its files share, and what its unit tests reach. */
#ifndef FLOTILLA_LIB_INTERNAL_H
#define FLOTILLA_LIB_INTERNAL_H

#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include "flotilla.h"

/* A dump's datagram is at most 32 KB (NLMSG_GOODSIZE grows to that). */
#define FLT_BUFFER_SIZE	32768

/**
 * struct flt_client - one netlink socket
 * @nl:     the socket
 * @family: number of the family "flotilla"
 * @group:  number of its multicast group "events"
 * @seq:    of the last request; answers to older ones are dropped
 * @error:  why the last call failed, as a sentence without its full stop
 * @buffer: request, then its answers
 *
 * Not shared between threads.
 */
struct flt_client {
	struct mnl_socket *nl;
	uint16_t family;
	uint32_t group;
	uint32_t seq;
	char error[256];
	_Alignas(struct nlmsghdr) char buffer[FLT_BUFFER_SIZE];
};

/* Attributes of one message by number; absent ones are NULL. */
struct flt_attrs {
	const struct nlattr *at[__FLT_A_MAX];
};

/* Called for each message of an answer; non-zero ends the walk with that value. */
typedef int (*flt_message_fn)(const struct nlmsghdr *nlh, void *arg);

/**
 * struct flt_answer - how far the reading of an answer has come
 * @seq:         of the request
 * @done:        its last message was seen
 * @interrupted: the kernel says that the table changed during the dump
 * @err:         what the request failed with, 0, or what @fn returned
 * @fn: @arg:    called for each message that is not an end or an error
 */
struct flt_answer {
	uint32_t seq;
	bool done;
	bool interrupted;
	int err;
	flt_message_fn fn;
	void *arg;
};

/* 0, or -EPROTO: an attribute has the wrong size. */
int flt_attrs_parse(const struct nlmsghdr *nlh, struct flt_attrs *attrs);
void flt_attrs_name(const struct nlattr *attr, char name[FLT_NAME_MAX]);
/* Fills @ss from whichever of the two is there; ss_family 0 when neither is. */
void flt_attrs_addr(const struct nlattr *addr4, const struct nlattr *addr6, uint16_t port,
		    struct sockaddr_storage *ss);
void flt_attrs_put_addr(struct nlmsghdr *nlh, uint16_t attr4, uint16_t attr6,
			const struct sockaddr_storage *ss);
uint16_t flt_addr_port(const struct sockaddr_storage *ss);

bool flt_message_ok(const struct nlmsghdr *nlh, int len);

/* Eats one datagram of an answer; returns 0, or -EPROTO when it makes no sense. */
int flt_answer_eat(struct flt_client *c, struct flt_answer *answer, const void *data, size_t len);

struct nlmsghdr *flt_request(struct flt_client *c, uint8_t cmd, uint16_t flags);
int flt_transact(struct flt_client *c, const struct nlmsghdr *request, flt_message_fn fn,
		 void *arg);
int flt_fail(struct flt_client *c, int err, const char *sentence);

int flt_node_parse(const struct nlmsghdr *nlh, struct flt_node_info *node);
void flt_node_fill(struct nlmsghdr *nlh, const struct flt_node_info *node, bool address);
int flt_local_parse(const struct nlmsghdr *nlh, struct flt_local_info *local);
int flt_conn_parse(const struct nlmsghdr *nlh, struct flt_conn_info *conn);
int flt_stat_parse(const struct nlmsghdr *nlh, const char **room, const char **name,
		   uint64_t *value);
int flt_event_parse(const struct nlmsghdr *nlh, enum flt_event *type, struct flt_node_info *node);

/* Directory of the dispatch device; unit tests point it elsewhere. */
extern const char *flt_dispatch_dir;

#endif
