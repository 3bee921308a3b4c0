// SPDX-License-Identifier: GPL-2.0
/* What an administrator may set. */

#include "kmod/param.h"

#include "tunable.h"

bool ssp_enabled = true;
module_param_named(enabled, ssp_enabled, admin_bool, 0644);
MODULE_PARM_DESC(enabled, "accept new transfers (default Y)");

bool ssp_softirq = true;
module_param_named(softirq, ssp_softirq, admin_bool, 0644);
MODULE_PARM_DESC(softirq, "forward where data and ACKs arrive, not in a work item (default Y)");

unsigned int ssp_fwd_budget = 262144;
module_param_named(fwd_budget, ssp_fwd_budget, admin_uint, 0644);
MODULE_PARM_DESC(fwd_budget, "bytes forwarded by one event (default 262144, at least 1)");

unsigned int ssp_gather_bytes = 262144;
module_param_named(gather_bytes, ssp_gather_bytes, admin_uint, 0644);
MODULE_PARM_DESC(gather_bytes, "bytes gathered for one forwarding (default 262144; 0: never wait)");

unsigned int ssp_gather_us = 200;
module_param_named(gather_us, ssp_gather_us, admin_uint, 0644);
MODULE_PARM_DESC(gather_us, "microseconds that a byte may wait for others (default 200)");

unsigned int ssp_max2cache = 65536;
module_param_named(max2cache, ssp_max2cache, admin_uint, 0644);
MODULE_PARM_DESC(max2cache, "unread bytes of a copy when the program does not say (default 65536)");

unsigned int ssp_max_truesize = 262144;
module_param_named(max_truesize_per_conn, ssp_max_truesize, admin_uint, 0644);
MODULE_PARM_DESC(max_truesize_per_conn, "memory of an unread copy (default 262144)");

unsigned int ssp_max_per_user = 16384;
module_param_named(max_per_user, ssp_max_per_user, admin_uint, 0644);
MODULE_PARM_DESC(max_per_user, "transfers of one user without CAP_NET_ADMIN (default 16384)");

unsigned int ssp_copy_kb_per_user;
module_param_named(copy_kb_per_user, ssp_copy_kb_per_user, admin_uint, 0644);
MODULE_PARM_DESC(copy_kb_per_user, "KB of his unread copies (default 0: 1/32 of the memory)");

unsigned int ssp_user_share = 10;
module_param_named(user_share, ssp_user_share, admin_uint, 0644);
MODULE_PARM_DESC(user_share, "percent of all processors' time for forwarding in softirq and work items for one user without CAP_NET_ADMIN (default 10; 0: no limit)");
