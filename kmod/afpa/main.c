// SPDX-License-Identifier: GPL-2.0
/* AFPA: the kernel answers HTTP requests out of a cache that programs fill. See README.md. */

#include <linux/module.h>

#include "counter.h"
#include "device.h"
#include "engine.h"
#include "layer.h"
#include "net.h"
#include "protocol.h"
#include "queue.h"
#include "read.h"
#include "remote.h"
#include "shrink.h"
#include "text.h"

static int __init afpa_init(void)
{
	int err;

	err = afpa_engine_init();
	if (err)
		return err;
	err = afpa_protocol_register(&afpa_http);
	if (err)
		goto undo_engine;
	err = afpa_queue_init();
	if (err)
		goto undo_http;
	err = afpa_read_init();
	if (err)
		goto undo_queue;
	err = afpa_serve_init();
	if (err)
		goto undo_read;
	err = afpa_net_register();
	if (err)
		goto undo_serve;
	err = afpa_shrinker_register();
	if (err)
		goto undo_net;
	err = afpa_stats_register();
	if (err)
		goto undo_shrinker;
	err = afpa_remote_register();
	if (err)
		goto undo_stats;
	err = afpa_device_register();
	if (err)
		goto undo_remote;
	return 0;

undo_remote:
	afpa_remote_unregister();
undo_stats:
	afpa_stats_unregister();
undo_shrinker:
	afpa_shrinker_unregister();
undo_net:
	afpa_net_unregister();
undo_serve:
	afpa_serve_exit();
undo_read:
	afpa_read_exit();
undo_queue:
	afpa_queue_exit();
undo_http:
	afpa_protocol_unregister(&afpa_http);
undo_engine:
	afpa_engine_exit();
	return err;
}

static void __exit afpa_exit(void)
{
	afpa_device_unregister();
	afpa_remote_unregister();	/* nobody waits for a node: each one holds the module */
	afpa_stats_unregister();
	afpa_net_leave_all();		/* no answer is under way: each one holds the module */
	afpa_layer_remove_all();	/* nothing of ours runs on any socket from here on */
	afpa_read_exit();
	afpa_queue_exit();
	afpa_shrinker_unregister();
	afpa_net_unregister();
	afpa_serve_exit();
	rcu_barrier();			/* objects */
	afpa_protocol_unregister(&afpa_http);
	afpa_engine_exit();
	afpa_text_exit();
}

module_init(afpa_init);
module_exit(afpa_exit);

MODULE_DESCRIPTION("Flotilla: HTTP answers out of the kernel");
MODULE_VERSION(FLT_VERSION);
MODULE_LICENSE("GPL");
