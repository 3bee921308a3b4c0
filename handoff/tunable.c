// SPDX-License-Identifier: GPL-2.0
/* net.flotilla.*: what an administrator may set, by network namespace. */

#include <linux/capability.h>
#include <linux/slab.h>
#include <linux/sysctl.h>

#include "kmod/endpoint.h"

#include "adopt.h"
#include "net.h"
#include "tunable.h"

static const struct hof_tunables hof_defaults = {
	.handoff = 1,
	.adopt = 1,
	.adopt_cwnd = 0,
	.timeout_ms = 200,
	.query_ms = 1000,
	.deadline_ms = 10000,
	.pending_max = 4096,
	.linger_ms = 60000,
	.linger_rst_ms = 2000,
	.idle_s = 10800,
	.forward_max = 1U << 20,
	.hold_max = 64,
	.hold_max_kb = 65536,
	.from_nodes = 1,
	.send_max = FLT_CHECKPOINT_MAX,
	.unread_max = FLT_CHECKPOINT_MAX,
	.takeover = 1,
	.relocate = 1,
	.takeover_hold_ms = 15000,
	.redirect_max = 65536,
	.redirect_syn_max = 4096,
	.redirect_syn_ms = 10000,
	.redirect_hint_ms = 500,
	.migrate_bytes = 8192,
	.migrate_wait_ms = 50,
	.migrate_max_hops = 4,
};

#define HOF_TEN_S_MS	10000
#define HOF_MINUTE_MS	60000
#define HOF_HOUR_MS	3600000
#define HOF_MONTH_S	2592000

/* Packets make these: a container's root does not bound the machine's memory. */
#define HOF_REDIRECTED_MAX	(16U << 20)
#define HOF_REDIRECTED_THEIRS	65536U

/**
 * struct hof_tunable - a row
 * @name:   under net/flotilla
 * @offset: in struct hof_tunables, of a u32
 * @min:    the least
 * @max:    the most
 */
struct hof_tunable {
	const char *name;
	size_t offset;
	u32 min;
	u32 max;
};

#define HOF_TUNABLE(_name, _field, _min, _max) \
	{ _name, offsetof(struct hof_tunables, _field), _min, _max }

static const struct hof_tunable hof_rows[] = {
	HOF_TUNABLE("handoff", handoff, 0, 1),
	HOF_TUNABLE("adopt", adopt, 0, 1),
	HOF_TUNABLE("adopt_cwnd", adopt_cwnd, 0, 1),
	HOF_TUNABLE("handoff_timeout_ms", timeout_ms, 1, HOF_MINUTE_MS),
	HOF_TUNABLE("adopt_query_ms", query_ms, 1, HOF_MINUTE_MS),
	HOF_TUNABLE("adopt_deadline_ms", deadline_ms, 1, HOF_MINUTE_MS),
	HOF_TUNABLE("adopt_pending_max", pending_max, 0, HOF_PENDING_MAX),
	HOF_TUNABLE("forward_linger_ms", linger_ms, 1, HOF_HOUR_MS),
	HOF_TUNABLE("forward_linger_rst_ms", linger_rst_ms, 1, HOF_HOUR_MS),
	HOF_TUNABLE("forward_idle_s", idle_s, 1, HOF_MONTH_S),
	HOF_TUNABLE("forward_max", forward_max, 0, 1U << 26),
	HOF_TUNABLE("hold_max_kb", hold_max_kb, 0, 1U << 20),
	HOF_TUNABLE("forward_from_nodes", from_nodes, 0, 1),
	HOF_TUNABLE("handoff_send_max", send_max, 0, FLT_CHECKPOINT_MAX),
	HOF_TUNABLE("handoff_unread_max", unread_max, 0, FLT_CHECKPOINT_MAX),
	HOF_TUNABLE("takeover", takeover, 0, 1),
	HOF_TUNABLE("relocate", relocate, 0, 1),
	HOF_TUNABLE("takeover_hold_ms", takeover_hold_ms, 1, HOF_HOUR_MS),
	HOF_TUNABLE("redirect_max", redirect_max, 0, HOF_REDIRECTED_MAX),
	HOF_TUNABLE("redirect_syn_max", redirect_syn_max, 0, HOF_REDIRECTED_MAX),
	HOF_TUNABLE("redirect_syn_ms", redirect_syn_ms, 1, HOF_MINUTE_MS),
	HOF_TUNABLE("redirect_hint_ms", redirect_hint_ms, 50, HOF_MINUTE_MS),
	HOF_TUNABLE("migrate_bytes", migrate_bytes, 1, 65536),
	HOF_TUNABLE("migrate_wait_ms", migrate_wait_ms, 1, HOF_TEN_S_MS),
	HOF_TUNABLE("migrate_max_hops", migrate_max_hops, 0, 255),
	HOF_TUNABLE("hold_max", hold_max, 0, 1024),
	HOF_TUNABLE("insecure_keys", keys_in_clear, 0, 1),
};

static u32 hof_tunable_max(const struct hof_tunable *row, const struct net *net)
{
	if (row->max == HOF_REDIRECTED_MAX && net->user_ns != &init_user_ns)
		return HOF_REDIRECTED_THEIRS;
	return row->max;
}

static bool hof_tunable_is_keys(const struct hof_tunable *row)
{
	return row->offset == offsetof(struct hof_tunables, keys_in_clear);
}

/*
 * The mode lets the machine's root write, even one who has lost the capability. The namespace is
 * the file's: who writes may have left it.
 */
static int hof_tunable_handle(const struct ctl_table *table, int write, void *buffer, size_t *len,
			      loff_t *pos)
{
	const struct hof_tunable *row = table->extra1;
	const struct hof_net *hn = table->extra2;
	u32 min = row->min, max = hof_tunable_max(row, hn->net);
	struct ctl_table bounded = *table;
	int err;

	if (write && !ns_capable(hn->net->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	bounded.extra1 = &min;
	bounded.extra2 = &max;
	err = proc_douintvec_minmax(&bounded, write, buffer, len, pos);
	/* Who listens between the nodes then reads what clients say, and can speak for them. */
	if (!err && write && hof_tunable_is_keys(row) && READ_ONCE(*(u32 *)table->data))
		pr_warn_ratelimited("INSECURE: keys of clients' TLS connections go to other nodes in clear text, too (net.flotilla.insecure_keys)\n");
	return err;
}

int hof_tunable_net_init(struct hof_net *hn)
{
	size_t i;

	hn->tunables = hof_defaults;
	hn->table = kcalloc(ARRAY_SIZE(hof_rows), sizeof(*hn->table), GFP_KERNEL);
	if (!hn->table)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(hof_rows); i++)
		hn->table[i] = (struct ctl_table) {
			.procname = hof_rows[i].name,
			.data = (void *)&hn->tunables + hof_rows[i].offset,
			.maxlen = sizeof(u32),
			.mode = 0644,
			.proc_handler = hof_tunable_handle,
			.extra1 = (void *)&hof_rows[i],
			.extra2 = hn,
		};
	hn->header = register_net_sysctl_sz(hn->net, "net/flotilla", hn->table,
					    ARRAY_SIZE(hof_rows));
	if (!hn->header) {
		kfree(hn->table);
		return -ENOMEM;
	}
	return 0;
}

void hof_tunable_net_exit(struct hof_net *hn)
{
	unregister_net_sysctl_table(hn->header);
	kfree(hn->table);
}
