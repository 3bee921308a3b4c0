// SPDX-License-Identifier: MIT
/* Nodes: the table's rows out of and into messages. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"

/* How often a dump is begun anew when the table changes under it. */
#define DUMP_TRIES	8

static uint32_t get_u32(const struct nlattr *attr)
{
	return attr ? mnl_attr_get_u32(attr) : 0;
}

static uint8_t get_u8(const struct nlattr *attr)
{
	return attr ? mnl_attr_get_u8(attr) : 0;
}

/* What a peer has written: plain characters, as the kernel has seen to, or none. */
static void get_text(const struct nlattr *attr, char *text, size_t size)
{
	if (attr)
		snprintf(text, size, "%s", mnl_attr_get_str(attr));
}

static void parse_report(const struct nlattr **at, struct flt_node_info *node)
{
	get_text(at[FLT_A_NODE_VERSION], node->version, sizeof(node->version));
	if (at[FLT_A_NODE_CLOCK_US])
		node->clock_us = mnl_attr_get_u64(at[FLT_A_NODE_CLOCK_US]);
	node->clock_error_us = get_u32(at[FLT_A_NODE_CLOCK_ERROR_US]);
	node->examined = at[FLT_A_REPORT_AGE_S];
	node->age_s = get_u32(at[FLT_A_REPORT_AGE_S]);
	node->faults = get_u32(at[FLT_A_REPORT_FAULTS]);
	node->warnings = get_u32(at[FLT_A_REPORT_WARNINGS]);
	get_text(at[FLT_A_REPORT_WRONG], node->wrong, sizeof(node->wrong));
}

int flt_node_parse(const struct nlmsghdr *nlh, struct flt_node_info *node)
{
	const struct nlattr **at;
	struct flt_attrs attrs;
	uint16_t port;
	int err;

	memset(node, 0, sizeof(*node));
	err = flt_attrs_parse(nlh, &attrs);
	if (err)
		return err;
	at = attrs.at;
	if (!at[FLT_A_NODE_NAME])
		return -EPROTO;
	flt_attrs_name(at[FLT_A_NODE_NAME], node->name);
	port = at[FLT_A_NODE_PORT] ? mnl_attr_get_u16(at[FLT_A_NODE_PORT]) : 0;
	flt_attrs_addr(at[FLT_A_NODE_ADDR4], at[FLT_A_NODE_ADDR6], port, &node->addr);
	flt_attrs_addr(at[FLT_A_NODE_FWD_ADDR4], at[FLT_A_NODE_FWD_ADDR6], 0, &node->fwd_addr);
	node->id = get_u32(at[FLT_A_NODE_ID]);
	node->weight = get_u32(at[FLT_A_NODE_WEIGHT]);
	node->state = get_u8(at[FLT_A_NODE_STATE]);
	node->admin = get_u8(at[FLT_A_NODE_ADMIN]);
	node->role = get_u8(at[FLT_A_NODE_ROLE]);
	node->forward = get_u8(at[FLT_A_NODE_FORWARD]);
	node->auth = get_u8(at[FLT_A_NODE_AUTH]);
	node->key = get_u32(at[FLT_A_NODE_KEY]);
	node->proven = get_u8(at[FLT_A_NODE_PROVEN]);
	node->load = get_u32(at[FLT_A_NODE_LOAD]);
	node->rtt_us = get_u32(at[FLT_A_NODE_RTT_US]);
	node->reconnects = get_u32(at[FLT_A_NODE_RECONNECTS]);
	if (at[FLT_A_NODE_FEATURES])
		node->features = mnl_attr_get_u64(at[FLT_A_NODE_FEATURES]);
	if (at[FLT_A_NODE_UPTIME_MS])
		node->uptime_ms = mnl_attr_get_u64(at[FLT_A_NODE_UPTIME_MS]);
	if (at[FLT_A_NODE_REASON])
		snprintf(node->reason, sizeof(node->reason), "%s",
			 mnl_attr_get_str(at[FLT_A_NODE_REASON]));
	parse_report(at, node);
	return 0;
}

/* What @node->given names; with @address, the link address and a port that is set too. */
void flt_node_fill(struct nlmsghdr *nlh, const struct flt_node_info *node, bool address)
{
	uint16_t port = flt_addr_port(&node->addr);

	mnl_attr_put_strz(nlh, FLT_A_NODE_NAME, node->name);
	if (address) {
		flt_attrs_put_addr(nlh, FLT_A_NODE_ADDR4, FLT_A_NODE_ADDR6, &node->addr);
		if (port)
			mnl_attr_put_u16(nlh, FLT_A_NODE_PORT, port);
	}
	if (node->given & FLT_GIVEN(FLT_A_NODE_WEIGHT))
		mnl_attr_put_u32(nlh, FLT_A_NODE_WEIGHT, node->weight);
	if (node->given & FLT_GIVEN(FLT_A_NODE_ADMIN))
		mnl_attr_put_u8(nlh, FLT_A_NODE_ADMIN, node->admin);
	if (node->given & FLT_GIVEN(FLT_A_NODE_ROLE))
		mnl_attr_put_u8(nlh, FLT_A_NODE_ROLE, node->role);
	if (node->given & FLT_GIVEN(FLT_A_NODE_FORWARD))
		mnl_attr_put_u8(nlh, FLT_A_NODE_FORWARD, node->forward);
	if (node->given & (FLT_GIVEN(FLT_A_NODE_FWD_ADDR4) | FLT_GIVEN(FLT_A_NODE_FWD_ADDR6)))
		flt_attrs_put_addr(nlh, FLT_A_NODE_FWD_ADDR4, FLT_A_NODE_FWD_ADDR6,
				   &node->fwd_addr);
	if (node->given & FLT_GIVEN(FLT_A_NODE_AUTH))
		mnl_attr_put_u8(nlh, FLT_A_NODE_AUTH, node->auth);
	if (node->given & FLT_GIVEN(FLT_A_NODE_KEY))
		mnl_attr_put_u32(nlh, FLT_A_NODE_KEY, node->key);
}

struct node_list {
	struct flt_node_info *nodes;
	size_t nr, room;
};

static int collect(const struct nlmsghdr *nlh, void *arg)
{
	struct flt_node_info *grown;
	struct node_list *list = arg;

	if (list->nr == list->room) {
		list->room = list->room ? 2 * list->room : 16;
		grown = reallocarray(list->nodes, list->room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		list->nodes = grown;
	}
	return flt_node_parse(nlh, &list->nodes[list->nr++]);
}

/*
 * Collected first, so that @fn may use the client and never sees a node twice.
 */
int flt_node_each(struct flt_client *c, flt_node_fn fn, void *arg)
{
	struct node_list list = { 0 };
	int tries = 0, err;
	size_t i;

	do {
		list.nr = 0;
		err = flt_transact(c, flt_request(c, FLT_CMD_NODE_GET, NLM_F_DUMP), collect, &list);
	} while (err == -EAGAIN && ++tries < DUMP_TRIES);
	for (i = 0; !err && i < list.nr; i++)
		err = fn(&list.nodes[i], arg);
	free(list.nodes);
	return err;
}

static bool name_fits(const char *name)
{
	return name[0] && strnlen(name, FLT_NAME_MAX) < FLT_NAME_MAX;
}

static int change(struct flt_client *c, uint8_t cmd, const struct flt_node_info *node)
{
	struct nlmsghdr *nlh;

	if (!name_fits(node->name))
		return flt_fail(c, -EINVAL, "a node's name has 1 to 31 characters");
	nlh = flt_request(c, cmd, NLM_F_ACK);
	flt_node_fill(nlh, node, cmd == FLT_CMD_NODE_NEW);
	return flt_transact(c, nlh, NULL, NULL);
}

int flt_node_new(struct flt_client *c, const struct flt_node_info *node)
{
	return change(c, FLT_CMD_NODE_NEW, node);
}

int flt_node_set(struct flt_client *c, const struct flt_node_info *node)
{
	return change(c, FLT_CMD_NODE_SET, node);
}

int flt_node_del(struct flt_client *c, const char *name)
{
	struct nlmsghdr *nlh;

	if (!name_fits(name))
		return flt_fail(c, -EINVAL, "a node's name has 1 to 31 characters");
	nlh = flt_request(c, FLT_CMD_NODE_DEL, NLM_F_ACK);
	mnl_attr_put_strz(nlh, FLT_A_NODE_NAME, name);
	return flt_transact(c, nlh, NULL, NULL);
}
