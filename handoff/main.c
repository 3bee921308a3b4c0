// SPDX-License-Identifier: GPL-2.0
/* Handoff: established TCP connections move between nodes. See README.md. */

#include <linux/module.h>

#include "adopt.h"
#include "assign.h"
#include "conn.h"
#include "counter.h"
#include "device.h"
#include "entry.h"
#include "flight.h"
#include "gate.h"
#include "message.h"
#include "moving.h"
#include "net.h"
#include "peer.h"
#include "policy_bpf.h"
#include "redirect.h"
#include "removal.h"

static int __init hof_init(void)
{
	int err;

	err = hof_entry_cache_create();
	if (err)
		return err;
	err = hof_flight_init();
	if (err)
		goto undo_entry;
	err = hof_peer_init();
	if (err)
		goto undo_flight;
	err = hof_moving_init();
	if (err)
		goto undo_peers;
	err = hof_removal_init();
	if (err)
		goto undo_moving;
	err = hof_net_register();
	if (err)
		goto undo_removal;
	err = hof_peer_watch();
	if (err)
		goto undo_net;
	err = hof_stats_register();
	if (err)
		goto undo_peer;
	err = hof_conn_register();
	if (err)
		goto undo_stats;
	err = hof_message_register();
	if (err)
		goto undo_conn;
	err = hof_gate_init();
	if (err)
		goto undo_message;
	err = hof_policy_init();
	if (err)
		goto undo_gate;
	err = hof_device_register();
	if (err)
		goto undo_gate;
	err = hof_assigned_init();
	if (err)
		goto undo_device;
	err = hof_redirect_init();
	if (err)
		goto undo_assigned;
	hof_policy_bpf_init();
	return 0;

undo_assigned:
	hof_assigned_exit();
undo_device:
	hof_device_unregister();
undo_gate:
	hof_gate_exit();
undo_message:
	hof_message_unregister();
	hof_net_stay();
undo_conn:
	hof_conn_unregister();
undo_stats:
	hof_stats_unregister();
undo_peer:
	hof_peer_unwatch();
undo_net:
	hof_net_unregister();
undo_removal:
	hof_removal_exit();
undo_moving:
	hof_moving_exit();
undo_peers:
	hof_peer_exit();
undo_flight:
	hof_flight_exit();
undo_entry:
	hof_entry_cache_destroy();
	return err;
}

static void __exit hof_exit(void)
{
	hof_device_unregister();	/* no program gives any: an open file pins the module */
	hof_redirect_exit();		/* no service is redirected anew */
	hof_assigned_exit();		/* no request is asked about from here on */
	hof_gate_exit();
	hof_message_unregister();	/* no adoption begins or commits from here on */
	hof_net_stay();			/* nothing is in flight, and no move is open either */
	hof_conn_unregister();
	hof_stats_unregister();
	hof_peer_unwatch();
	hof_net_withdraw();		/* nothing waits for another node from here on */
	hof_adopt_detach();		/* adopted connections go on without us */
	hof_net_unregister();		/* all entries go */
	hof_removal_exit();
	hof_moving_exit();
	hof_peer_exit();
	hof_flight_exit();
	hof_entry_cache_destroy();
}

module_init(hof_init);
module_exit(hof_exit);

MODULE_DESCRIPTION("Flotilla: handoff of established TCP connections");
MODULE_VERSION(FLT_VERSION);
MODULE_LICENSE("GPL");
