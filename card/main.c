// SPDX-License-Identifier: GPL-2.0
/* Card: a remote disk as a local block device. See README.md. */

#include <linux/module.h>
#include <net/genetlink.h>

#include "attach.h"
#include "counter.h"
#include "debug.h"
#include "disk.h"
#include "evict.h"
#include "message.h"
#include "net.h"
#include "netlink.h"
#include "parcel.h"
#include "rules.h"
#include "serve.h"

static int __init card_init(void)
{
	int err;

	err = card_submit_init();
	if (err)
		return err;
	err = card_attach_init();
	if (err)
		goto undo_serve;
	err = card_evict_register();
	if (err)
		goto undo_attach;
	err = card_rules_register();
	if (err)
		goto undo_evict;
	err = card_net_register();
	if (err)
		goto undo_rules;
	err = card_event_register();
	if (err)
		goto undo_net;
	err = card_message_register();
	if (err)
		goto undo_event;
	err = card_stats_register();
	if (err)
		goto undo_message;
	err = card_netlink_register();
	if (err)
		goto undo_stats;
	card_debug_register();
	return 0;

undo_stats:
	card_stats_unregister();
undo_message:
	card_message_unregister();
undo_event:
	card_event_unregister();
undo_net:
	card_net_unregister();
undo_rules:
	card_rules_unregister();
undo_evict:
	card_evict_unregister();
undo_attach:
	card_attach_exit();
undo_serve:
	card_submit_exit();
	return err;
}

static void __exit card_exit(void)
{
	card_debug_unregister();
	card_netlink_unregister();	/* no more commands; no disk is open, or we were not here */
	card_stats_unregister();
	card_message_unregister();	/* requests in flight find no answer from here on */
	card_event_unregister();
	card_net_unregister();		/* ends every disk and export of every namespace */
	card_rules_unregister();
	card_disk_exit();
	card_attach_exit();
	card_parcel_exit();
	card_evict_unregister();
	card_submit_exit();
}

module_init(card_init);
module_exit(card_exit);

MODULE_DESCRIPTION("Flotilla: remote disks as local ones");
MODULE_VERSION(FLT_VERSION);
MODULE_LICENSE("GPL");
MODULE_ALIAS_GENL_FAMILY(CARD_GENL_NAME);
