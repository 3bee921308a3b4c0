// SPDX-License-Identifier: GPL-2.0
/* Counters of all rooms: the list of tables, and the table of this room. */

#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include "counter.h"
#include "statsdump.h"
#include "table.h"

/* Guards the list of tables; held while they are read, so that none can go. */
static DEFINE_MUTEX(flt_stats_lock);
static LIST_HEAD(flt_stats_tables);
static unsigned int flt_stats_change;

int flt_stats_register(struct flt_stats *stats)
{
	struct flt_stats *other;
	int err = 0;

	mutex_lock(&flt_stats_lock);
	list_for_each_entry(other, &flt_stats_tables, list)
		if (!strcmp(other->room, stats->room))
			err = -EBUSY;
	if (!err) {
		list_add_tail(&stats->list, &flt_stats_tables);
		flt_stats_change++;
	}
	mutex_unlock(&flt_stats_lock);
	return err;
}
EXPORT_SYMBOL_GPL(flt_stats_register);

void flt_stats_unregister(struct flt_stats *stats)
{
	mutex_lock(&flt_stats_lock);
	list_del(&stats->list);
	flt_stats_change++;
	mutex_unlock(&flt_stats_lock);
}
EXPORT_SYMBOL_GPL(flt_stats_unregister);

static u64 flt_stats_value(const struct flt_stats *stats, struct net *net, unsigned int index)
{
	u64 __percpu *values;
	u64 sum = 0;
	int cpu;

	if (index >= stats->nr)
		return stats->gauge(net, index);
	values = stats->values(net);
	if (!values)
		return 0;
	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(&values[index], cpu));
	return sum;
}

int flt_stats_walk(struct net *net, unsigned long *skip, unsigned int *change,
		   int (*emit)(const char *room, const char *name, u64 value, void *arg), void *arg)
{
	const struct flt_stats *stats;
	unsigned long seen = 0;
	unsigned int i;
	int err = 0;

	mutex_lock(&flt_stats_lock);
	*change = flt_stats_change;
	list_for_each_entry(stats, &flt_stats_tables, list) {
		for (i = 0; i < stats->nr + stats->nr_gauges; i++) {
			if (seen++ < *skip)
				continue;
			err = emit(stats->room, stats->names[i], flt_stats_value(stats, net, i),
				   arg);
			if (err)
				goto out;
			(*skip)++;
		}
	}
out:
	mutex_unlock(&flt_stats_lock);
	return err;
}

enum { FLT_GAUGE_NODES = FLT_NR_COUNTERS, FLT_GAUGE_READY, FLT_GAUGE_END };

static const char *const flt_counter_names[FLT_GAUGE_END] = {
	[FLT_LINK_UP]			= "LinkUp",
	[FLT_LINK_DOWN]			= "LinkDown",
	[FLT_LINK_CONNECTS]		= "LinkConnects",
	[FLT_LINK_CONNECT_FAILED]	= "LinkConnectFailed",
	[FLT_LINK_ACCEPTS]		= "LinkAccepts",
	[FLT_LINK_PEER_RESTARTED]	= "LinkPeerRestarted",
	[FLT_LINK_HEARTBEAT_LOST]	= "LinkHeartbeatLost",
	[FLT_LINK_STOOD_STILL]		= "LinkStoodStill",
	[FLT_LINK_STALLED]		= "LinkStalled",
	[FLT_LINK_AUTH_DONE]		= "LinkAuthDone",
	[FLT_LINK_AUTH_FAILED]		= "LinkAuthFailed",
	[FLT_REFUSED_STRANGER]		= "LinkRefusedStranger",
	[FLT_REFUSED_ORDER]		= "LinkRefusedOrder",
	[FLT_REFUSED_BACKOFF]		= "LinkRefusedBackoff",
	[FLT_REFUSED_NAME]		= "LinkRefusedName",
	[FLT_REFUSED_PORT]		= "LinkRefusedPort",
	[FLT_REFUSED_ALIVE]		= "LinkRefusedAlive",
	[FLT_REFUSED_BUSY]		= "LinkRefusedBusy",
	[FLT_BAD_MAGIC]			= "LinkBadMagic",
	[FLT_BAD_VERSION]		= "LinkBadVersion",
	[FLT_BAD_LENGTH]		= "LinkBadLength",
	[FLT_BAD_TYPE]			= "LinkBadType",
	[FLT_BAD_BODY]			= "LinkBadBody",
	[FLT_MSG_NO_HANDLER]		= "MessagesNoHandler",
	[FLT_MSG_IN]			= "MessagesIn",
	[FLT_MSG_OUT]			= "MessagesOut",
	[FLT_BYTES_IN]			= "LinkBytesIn",
	[FLT_BYTES_OUT]			= "LinkBytesOut",
	[FLT_SEND_DIRECT]		= "SendDirect",
	[FLT_SEND_BATCHES]		= "SendBatches",
	[FLT_SEND_NOT_CONNECTED]	= "SendNotConnected",
	[FLT_SEND_NO_BUFFERS]		= "SendNoBuffers",
	[FLT_SEND_NO_MEMORY]		= "SendNoMemory",
	[FLT_EVENTS_LOST]		= "EventsLost",
	[FLT_LAYERS_ADDED]		= "LayersAdded",
	[FLT_LAYERS_INHERITED]		= "LayersInherited",
	[FLT_LAYERS_REFUSED]		= "LayersRefused",
	[FLT_LAYERS_LOST]		= "LayersLost",
	[FLT_STACKS_KEPT]		= "StacksKept",
	[FLT_TLS_STARTED]		= "TlsStarted",
	[FLT_TLS_FAILED]		= "TlsFailed",
	[FLT_TLS_BROKEN]		= "TlsBroken",
	[FLT_TLS_REKEYED]		= "TlsRekeyed",
	[FLT_GAUGE_NODES]		= "Nodes",
	[FLT_GAUGE_READY]		= "NodesReady",
};

static u64 __percpu *flt_counter_values(struct net *net)
{
	return flt_net(net)->stats;
}

static u64 flt_counter_gauge(struct net *net, unsigned int index)
{
	struct flt_net *fn = flt_net(net);

	return index == FLT_GAUGE_NODES ? READ_ONCE(fn->nr_nodes) : flt_node_count_ready(fn);
}

static struct flt_stats flt_counters = {
	.room		= "flotilla",
	.names		= flt_counter_names,
	.nr		= FLT_NR_COUNTERS,
	.nr_gauges	= FLT_GAUGE_END - FLT_NR_COUNTERS,
	.values		= flt_counter_values,
	.gauge		= flt_counter_gauge,
	.owner		= THIS_MODULE,
};

int flt_stats_init(void)
{
	return flt_stats_register(&flt_counters);
}

void flt_stats_exit(void)
{
	flt_stats_unregister(&flt_counters);
}
