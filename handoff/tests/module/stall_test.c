// SPDX-License-Identifier: GPL-2.0
/* Whoever comes by a function of the kernel stands still there: for tests of what happens meanwhile. */

#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static char *symbol;
module_param(symbol, charp, 0400);
MODULE_PARM_DESC(symbol, "the function");

static unsigned int ms = 1000;
module_param(ms, uint, 0400);
MODULE_PARM_DESC(ms, "for how long, each time");

static int hits;
module_param(hits, int, 0400);
MODULE_PARM_DESC(hits, "how many came by");

static int stall(struct kprobe *probe, struct pt_regs *regs)
{
	hits++;
	mdelay(ms);
	return 0;
}

static struct kprobe stall_probe = { .pre_handler = stall };

static int __init stall_test_init(void)
{
	stall_probe.symbol_name = symbol;
	return register_kprobe(&stall_probe);
}

static void __exit stall_test_exit(void)
{
	unregister_kprobe(&stall_probe);
}

module_init(stall_test_init);
module_exit(stall_test_exit);
MODULE_DESCRIPTION("Test of what may happen while something else takes its time");
MODULE_LICENSE("GPL");
