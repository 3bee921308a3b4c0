// SPDX-License-Identifier: GPL-2.0
/*
 * A source of load hints, to copy: what is written to its parameter is the load of all services
 * with a rule, in the writer's network namespace; 4294967295: they are counted again.
 */

#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/nsproxy.h>
#include <net/net_namespace.h>

#include "handoff/hint.h"

static int hint_load_set(const char *text, const struct kernel_param *kp)
{
	u32 load;
	int err;

	err = kstrtou32(text, 0, &load);
	return err ?: hof_hint_set(current->nsproxy->net_ns, NULL, load);
}

static const struct kernel_param_ops hint_load_ops = {
	.set = hint_load_set,
};

module_param_cb(load, &hint_load_ops, NULL, 0200);
MODULE_PARM_DESC(load, "of the services of the writer's network namespace");

MODULE_DESCRIPTION("Flotilla: a source of load hints, as an example");
MODULE_LICENSE("GPL");
