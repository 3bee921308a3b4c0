// SPDX-License-Identifier: GPL-2.0
/* net.flotilla.*: what an administrator may set, by network namespace. */

#include <linux/slab.h>
#include <linux/sysctl.h>

#include "kmod/endpoint.h"

#include "adopt.h"
#include "net.h"
#include "tunable.h"

static const struct hof_tunables hof_defaults = {
	.handoff = 1,
	.adopt = 1,
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
	.send_max = FLT_CHECKPOINT_SEND_MAX,
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

static unsigned int hof_one = 1;
static unsigned int hof_ten_s_ms = 10000;
static unsigned int hof_minute_ms = 60000;
static unsigned int hof_hour_ms = 3600000;
static unsigned int hof_month_s = 2592000;
static unsigned int hof_entries_max = 1U << 26;
static unsigned int hof_packets_max = 1024;
static unsigned int hof_pending_max = HOF_PENDING_MAX;
static unsigned int hof_held_max_kb = 1U << 20;
static unsigned int hof_request_max = 65536;
static unsigned int hof_hops_max = 255;
static unsigned int hof_fifty = 50;
static unsigned int hof_redirected_max = 1U << 24;
static unsigned int hof_redirected_theirs = 65536;
static unsigned int hof_send_max = FLT_CHECKPOINT_SEND_MAX;

/* Who listens between the nodes then reads what clients say, and can speak in their place. */
static int hof_tunable_keys(const struct ctl_table *table, int write, void *buffer, size_t *len,
			    loff_t *pos)
{
	int err = proc_douintvec_minmax(table, write, buffer, len, pos);

	if (!err && write && READ_ONCE(*(u32 *)table->data))
		pr_warn_ratelimited("INSECURE: keys of clients' TLS connections go to other nodes in clear text, too (net.flotilla.insecure_keys)\n");
	return err;
}

#define HOF_TUNABLE(_name, _field, _min, _max) {			\
	.procname = _name,						\
	.data = (void *)offsetof(struct hof_tunables, _field),		\
	.maxlen = sizeof(u32),						\
	.mode = 0644,							\
	.proc_handler = proc_douintvec_minmax,				\
	.extra1 = _min,							\
	.extra2 = _max,							\
}

static const struct ctl_table hof_table[] = {
	HOF_TUNABLE("handoff", handoff, SYSCTL_ZERO, SYSCTL_ONE),
	HOF_TUNABLE("adopt", adopt, SYSCTL_ZERO, SYSCTL_ONE),
	HOF_TUNABLE("handoff_timeout_ms", timeout_ms, &hof_one, &hof_minute_ms),
	HOF_TUNABLE("adopt_query_ms", query_ms, &hof_one, &hof_minute_ms),
	HOF_TUNABLE("adopt_deadline_ms", deadline_ms, &hof_one, &hof_minute_ms),
	HOF_TUNABLE("adopt_pending_max", pending_max, SYSCTL_ZERO, &hof_pending_max),
	HOF_TUNABLE("forward_linger_ms", linger_ms, &hof_one, &hof_hour_ms),
	HOF_TUNABLE("forward_linger_rst_ms", linger_rst_ms, &hof_one, &hof_hour_ms),
	HOF_TUNABLE("forward_idle_s", idle_s, &hof_one, &hof_month_s),
	HOF_TUNABLE("forward_max", forward_max, SYSCTL_ZERO, &hof_entries_max),
	HOF_TUNABLE("hold_max_kb", hold_max_kb, SYSCTL_ZERO, &hof_held_max_kb),
	HOF_TUNABLE("forward_from_nodes", from_nodes, SYSCTL_ZERO, SYSCTL_ONE),
	HOF_TUNABLE("handoff_send_max", send_max, SYSCTL_ZERO, &hof_send_max),
	HOF_TUNABLE("takeover", takeover, SYSCTL_ZERO, SYSCTL_ONE),
	HOF_TUNABLE("relocate", relocate, SYSCTL_ZERO, SYSCTL_ONE),
	HOF_TUNABLE("takeover_hold_ms", takeover_hold_ms, &hof_one, &hof_hour_ms),
	HOF_TUNABLE("redirect_max", redirect_max, SYSCTL_ZERO, &hof_redirected_max),
	HOF_TUNABLE("redirect_syn_max", redirect_syn_max, SYSCTL_ZERO, &hof_redirected_max),
	HOF_TUNABLE("redirect_syn_ms", redirect_syn_ms, &hof_one, &hof_minute_ms),
	HOF_TUNABLE("redirect_hint_ms", redirect_hint_ms, &hof_fifty, &hof_minute_ms),
	HOF_TUNABLE("migrate_bytes", migrate_bytes, &hof_one, &hof_request_max),
	HOF_TUNABLE("migrate_wait_ms", migrate_wait_ms, &hof_one, &hof_ten_s_ms),
	HOF_TUNABLE("migrate_max_hops", migrate_max_hops, SYSCTL_ZERO, &hof_hops_max),
	HOF_TUNABLE("hold_max", hold_max, SYSCTL_ZERO, &hof_packets_max),
	{
		.procname = "insecure_keys",
		.data = (void *)offsetof(struct hof_tunables, keys_in_clear),
		.maxlen = sizeof(u32),
		.mode = 0644,
		.proc_handler = hof_tunable_keys,
		.extra1 = SYSCTL_ZERO,
		.extra2 = SYSCTL_ONE,
	},
};

int hof_tunable_net_init(struct hof_net *hn)
{
	size_t i;

	hn->tunables = hof_defaults;
	hn->table = kmemdup(hof_table, sizeof(hof_table), GFP_KERNEL);
	if (!hn->table)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(hof_table); i++) {
		hn->table[i].data = (void *)&hn->tunables + (size_t)hof_table[i].data;
		/* Packets make these: a container's root does not bound the machine's memory. */
		if (hn->table[i].extra2 == &hof_redirected_max &&
		    hn->net->user_ns != &init_user_ns)
			hn->table[i].extra2 = &hof_redirected_theirs;
	}
	hn->header = register_net_sysctl_sz(hn->net, "net/flotilla", hn->table,
					    ARRAY_SIZE(hof_table));
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
