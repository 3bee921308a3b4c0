// SPDX-License-Identifier: GPL-2.0
/* uselect: readiness of TCP connections in memory that their process can read. See README.md. */

#include <linux/module.h>

#include "counter.h"
#include "device.h"
#include "fd.h"
#include "hook.h"
#include "region.h"
#include "sock.h"

static int __init usel_init(void)
{
	int err;

	err = usel_counter_register();
	if (err)
		return err;
	err = usel_region_init();
	if (err)
		goto undo_counter;
	err = usel_hook_init();
	if (err)
		goto undo_region;
	err = usel_fd_init();
	if (err)
		goto undo_region;
	err = usel_device_register();
	if (err)
		goto undo_fd;
	return 0;

undo_fd:
	usel_fd_exit();
undo_region:
	usel_region_exit();
undo_counter:
	usel_counter_unregister();
	return err;
}

static void __exit usel_exit(void)
{
	usel_device_unregister();	/* no file is open, so there is no region */
	usel_fd_exit();
	usel_hook_exit();		/* no layer is added any more */
	usel_layer_remove_all();
	usel_region_exit();		/* waits for what RCU still has to free */
	usel_counter_unregister();
}

module_init(usel_init);
module_exit(usel_exit);

MODULE_DESCRIPTION("Flotilla: readiness of sockets without system calls");
MODULE_VERSION(FLT_VERSION);
MODULE_LICENSE("GPL");
