// SPDX-License-Identifier: GPL-2.0
/*
 * Whoever calls a function of the kernel sleeps first: for tests of what happens meanwhile. The
 * function must be one that may sleep, with at most six arguments, and no floating ones. With
 * @busy he does not sleep, as if something else had his processor; with @after he sleeps when the
 * function has returned.
 */

#include <linux/delay.h>
#include <linux/ftrace.h>
#include <linux/module.h>
#include <linux/wait.h>

static char *symbol;
module_param(symbol, charp, 0400);
MODULE_PARM_DESC(symbol, "the function");

static unsigned int ms = 1000;
module_param(ms, uint, 0600);
MODULE_PARM_DESC(ms, "for how long, each time; a new value is for those who come later");

static bool busy;
module_param(busy, bool, 0400);
MODULE_PARM_DESC(busy, "keep the processor meanwhile");

static bool after;
module_param(after, bool, 0400);
MODULE_PARM_DESC(after, "not before it, but when it has returned");

static int hits;
module_param(hits, int, 0400);
MODULE_PARM_DESC(hits, "how many have called it");

typedef unsigned long (*stall_fn)(unsigned long a, unsigned long b, unsigned long c,
				  unsigned long d, unsigned long e, unsigned long f);

static stall_fn stall_original;
static atomic_t stall_sleepers;
static DECLARE_WAIT_QUEUE_HEAD(stall_awake);

static void stall_wait(void)
{
	unsigned long until = jiffies + msecs_to_jiffies(READ_ONCE(ms));

	if (!busy)
		msleep(READ_ONCE(ms));
	while (busy && time_before(jiffies, until))
		cpu_relax();
}

static unsigned long stall(unsigned long a, unsigned long b, unsigned long c, unsigned long d,
			   unsigned long e, unsigned long f)
{
	unsigned long result;

	atomic_inc(&stall_sleepers);
	WRITE_ONCE(hits, hits + 1);
	if (!after)
		stall_wait();
	result = READ_ONCE(stall_original)(a, b, c, d, e, f);
	if (after)
		stall_wait();
	if (atomic_dec_and_test(&stall_sleepers))
		wake_up(&stall_awake);
	return result;
}

/* The call from here goes on to the function, any other comes here. */
static void notrace stall_redirect(unsigned long ip, unsigned long parent_ip,
				   struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	if (within_module(parent_ip, THIS_MODULE))
		return;
	WRITE_ONCE(stall_original, (stall_fn)ip);
	ftrace_regs_set_instruction_pointer(fregs, (unsigned long)stall);
}

static struct ftrace_ops stall_ops = {
	.func = stall_redirect,
	.flags = FTRACE_OPS_FL_IPMODIFY,
};

static int __init stall_test_init(void)
{
	int err;

	err = ftrace_set_filter(&stall_ops, symbol, strlen(symbol), 1);
	if (!err)
		err = register_ftrace_function(&stall_ops);
	if (err)
		ftrace_free_filter(&stall_ops);
	return err;
}

static void __exit stall_test_exit(void)
{
	unregister_ftrace_function(&stall_ops);
	ftrace_free_filter(&stall_ops);
	wait_event(stall_awake, !atomic_read(&stall_sleepers));
	msleep(100);	/* the last of them is on its way out */
}

module_init(stall_test_init);
module_exit(stall_test_exit);
MODULE_DESCRIPTION("Test of what may happen while something else takes its time");
MODULE_LICENSE("GPL");
