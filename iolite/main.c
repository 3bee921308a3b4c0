// SPDX-License-Identifier: GPL-2.0
/* IO-Lite: one immutable copy of data for files, processes, pipes and sockets. See README.md. */
#include <linux/module.h>
#include <linux/rcupdate.h>

#include "buffer.h"
#include "cache.h"
#include "counter.h"
#include "csum.h"
#include "device.h"
#include "io.h"
#include "pool.h"
#include "window.h"

static int __init iol_init(void)
{
	int err;

	err = iol_buffers_init();
	if (err)
		return err;
	err = iol_pools_init();
	if (err)
		goto undo_buffers;
	err = iol_window_init();
	if (err)
		goto undo_pools;
	err = iol_cache_init();
	if (err)
		goto undo_window;
	err = iol_files_init();
	if (err)
		goto undo_cache;
	err = iol_csum_register();
	if (err)
		goto undo_files;
	iol_counters_init();
	err = iol_device_register();
	if (err)
		goto undo_counters;
	return 0;

undo_counters:
	iol_counters_exit();
	iol_csum_unregister();
undo_files:
	iol_files_exit();
undo_cache:
	iol_cache_exit();
undo_window:
	iol_window_exit();
undo_pools:
	iol_pools_exit();
undo_buffers:
	iol_buffers_exit();
	return err;
}

static void __exit iol_exit(void)
{
	iol_device_unregister();	/* no domains from here on */
	/* Whoever released the last pipe slot may still be on the way out of our code. */
	synchronize_rcu();
	iol_counters_exit();
	iol_csum_unregister();
	iol_files_exit();
	iol_cache_exit();
	iol_pools_exit();		/* what is in flight is nobody's now */
	iol_window_exit();
	rcu_barrier();			/* chunks are freed by RCU */
	iol_buffers_exit();
}

module_init(iol_init);
module_exit(iol_exit);
MODULE_VERSION(FLT_VERSION);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("IO-Lite: unified buffering and caching");
