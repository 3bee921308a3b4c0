// SPDX-License-Identifier: GPL-2.0
/* Messages and events of links, to those whom they concern. */

#include <linux/module.h>

#include "attach.h"
#include "counter.h"
#include "disk.h"
#include "export.h"
#include "message.h"
#include "part.h"
#include "peer.h"
#include "request.h"
#include "save.h"
#include "serve.h"

static int card_on_attach(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct card_wire_attach *ask = msg->body;

	if (msg->len != sizeof(*ask) || ask->zero ||
	    strnlen(ask->name, sizeof(ask->name)) == sizeof(ask->name))
		return -EBADMSG;
	card_export_attach(cn, node, ask);
	return 0;
}

static int card_on_attached(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct card_wire_attached *answer = msg->body;
	struct card_disk *disk;

	if (msg->len < sizeof(*answer) || be32_to_cpu(answer->status) >= MAX_ERRNO ||
	    msg->len != struct_size(answer, nodes, be16_to_cpu(answer->nr_nodes)))
		return -EBADMSG;
	disk = card_disk_find(cn, be32_to_cpu(answer->disk));
	if (disk && card_disk_answers(disk, node))
		card_attach_answered(disk, answer);
	else
		card_count(cn, CARD_STAT_LATE);
	if (disk)
		card_disk_put(disk);
	return 0;
}

static int card_on_detach(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg)
{
	if (msg->len != sizeof(struct card_wire_detach))
		return -EBADMSG;
	if (!card_export_detach(cn, node, msg->body))
		card_attach_ended(cn, node, msg->body);
	return 0;
}

static int card_message(struct flt_node *node, const struct flt_msg *msg)
{
	struct card_net *cn = card_net(node->net);
	int err;

	switch (msg->type) {
	case CARD_MSG_ATTACH:
		err = card_on_attach(cn, node, msg);
		break;
	case CARD_MSG_ATTACHED:
		err = card_on_attached(cn, node, msg);
		break;
	case CARD_MSG_DETACH:
		err = card_on_detach(cn, node, msg);
		break;
	case CARD_MSG_READ:
		err = card_serve_read(cn, node, msg);
		break;
	case CARD_MSG_PEER:
		err = card_peer_read(cn, node, msg);
		break;
	case CARD_MSG_INDEX:
		err = card_part_index(cn, node, msg);
		break;
	case CARD_MSG_DONE:
		err = card_request_done(cn, node, msg);
		break;
	default:
		err = -EPROTO;
	}
	if (err < 0)
		card_count(cn, CARD_STAT_BAD_MESSAGE);
	return err;
}

/* Data is on its way to a request of ours, or to an export. */
static int card_sink(struct flt_node *node, const struct flt_msg *msg, struct flt_sink *sink)
{
	struct card_net *cn = card_net(node->net);
	int err;

	switch (msg->type) {
	case CARD_MSG_DATA:
		err = card_request_sink(cn, node, msg, sink);
		break;
	case CARD_MSG_WRITE:
		err = card_serve_write_sink(cn, node, msg, sink);
		break;
	case CARD_MSG_SAVE:
		err = card_save_sink(cn, node, msg, sink);
		break;
	default:
		err = -EPROTO;
	}
	if (err < 0)
		card_count(cn, CARD_STAT_BAD_MESSAGE);
	return err;
}

static int card_sunk(struct flt_node *node, struct flt_sink *sink, int err)
{
	if (sink->type == CARD_MSG_DATA)
		return card_request_sunk(sink, err);
	if (sink->type == CARD_MSG_SAVE)
		return card_save_sunk(sink, err);
	return card_serve_write_sunk(sink, err);
}

static const struct flt_msg_handler card_handler = {
	.range = FLT_MSG_CARD,
	.owner = THIS_MODULE,
	.handle = card_message,
	.bulk = BIT(CARD_MSG_DATA - FLT_MSG_CARD) | BIT(CARD_MSG_WRITE - FLT_MSG_CARD) |
		BIT(CARD_MSG_SAVE - FLT_MSG_CARD),
	.bulk_head = sizeof(struct card_wire_block),
	.sink = card_sink,
	.sunk = card_sunk,
};

static int card_node_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct flt_node *node = data;
	struct card_net *cn = card_net(node->net);

	switch (event) {
	case FLT_EVENT_NODE_UP:
		card_attach_node_up(cn, node);
		break;
	case FLT_EVENT_NODE_DOWN:
	case FLT_EVENT_NODE_REMOVED:
		card_export_forget(cn, node, event == FLT_EVENT_NODE_REMOVED);
		card_attach_node_down(cn, node);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block card_node_events = { .notifier_call = card_node_event };

int card_message_register(void)
{
	return flt_msg_handler_register(&card_handler);
}

void card_message_unregister(void)
{
	flt_msg_handler_unregister(&card_handler);
}

int card_event_register(void)
{
	return flt_node_notifier_register(&card_node_events);
}

void card_event_unregister(void)
{
	flt_node_notifier_unregister(&card_node_events);
}
