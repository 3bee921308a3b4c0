// SPDX-License-Identifier: GPL-2.0
/* Flotilla's ground floor: node table, links, endpoints, control. See README.md. */

#include <linux/module.h>
#include "adopt.h"
#include "auth.h"
#include "counter.h"
#include "dispatch.h"
#include "freeze.h"
#include "ktls_face.h"
#include "linkwork.h"
#include "netlink.h"
#include "netns.h"
#include "park.h"
#include "stack.h"

static int __init flt_init(void)
{
	int err;

	err = flt_stack_init();
	if (err)
		return err;
	err = flt_link_init();
	if (err)
		goto undo_stack;
	err = flt_dispatch_init();
	if (err)
		goto undo_link;
	err = flt_park_init();
	if (err)
		goto undo_dispatch;
	err = flt_freeze_init();
	if (err)
		goto undo_park;
	err = flt_netns_init();
	if (err)
		goto undo_freeze;
	err = flt_stats_init();
	if (err)
		goto undo_netns;
	err = flt_netlink_init();
	if (err)
		goto undo_stats;
	return 0;

undo_stats:
	flt_stats_exit();
undo_netns:
	flt_netns_exit();
undo_freeze:
	flt_freeze_exit();
undo_park:
	flt_park_exit();
undo_dispatch:
	flt_dispatch_exit();
undo_link:
	flt_link_exit();
undo_stack:
	flt_stack_exit();
	return err;
}

static void __exit flt_exit(void)
{
	flt_accept_exit();	/* nobody is in its code */
	flt_ktls_face_exit();
	flt_netlink_exit();	/* no more commands */
	flt_stats_exit();
	flt_netns_exit();	/* ends every link of every namespace */
	flt_freeze_exit();
	flt_park_exit();
	flt_dispatch_exit();
	flt_link_exit();
	flt_stack_exit();
}

module_init(flt_init);
module_exit(flt_exit);

MODULE_DESCRIPTION("Flotilla: nodes, links and TCP endpoints of a server cluster");
MODULE_VERSION(FLT_VERSION);
MODULE_LICENSE("GPL");
MODULE_ALIAS_GENL_FAMILY(FLT_GENL_NAME);
