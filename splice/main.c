// SPDX-License-Identifier: GPL-2.0
/* Socket splice: join two TCP streams in the kernel. See README.md. */

#include <linux/module.h>

#include "counter.h"
#include "device.h"
#include "layer.h"
#include "net.h"
#include "pair.h"
#include "user.h"

static int __init ssp_init(void)
{
	int err;

	err = ssp_pair_init();
	if (err)
		return err;
	err = ssp_net_register();
	if (err)
		goto undo_pair;
	err = ssp_stats_register();
	if (err)
		goto undo_net;
	err = ssp_user_init();
	if (err)
		goto undo_stats;
	err = ssp_device_register();
	if (err)
		goto undo_user;
	return 0;

undo_user:
	ssp_user_exit();
undo_stats:
	ssp_stats_unregister();
undo_net:
	ssp_net_unregister();
undo_pair:
	ssp_pair_exit();
	return err;
}

static void __exit ssp_exit(void)
{
	ssp_device_unregister();	/* no pair is left: each one pins the module */
	ssp_user_exit();		/* nobody looks after them any more */
	ssp_layer_remove_all();		/* idle sockets get TCP's own pointers back */
	ssp_stats_unregister();
	ssp_pair_exit();		/* the last pairs' memory; they count */
	ssp_net_unregister();
}

module_init(ssp_init);
module_exit(ssp_exit);

MODULE_DESCRIPTION("Flotilla: TCP connections joined in the kernel");
MODULE_VERSION(FLT_VERSION);
MODULE_LICENSE("GPL");
