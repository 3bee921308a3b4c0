/* SPDX-License-Identifier: GPL-2.0 */
/* Module parameters: /sys/module/sksplice/parameters, effective at once; READ_ONCE. */
#ifndef SSP_TUNABLE_H
#define SSP_TUNABLE_H

#include <linux/types.h>

/* 0: new transfers are refused; those under way go on. */
extern bool ssp_enabled;
/* 0: forward from a work item instead of softirq, to measure what that costs. */
extern bool ssp_softirq;
/* Bytes that one event may forward before others get the processor. */
extern unsigned int ssp_fwd_budget;
/* As many bytes are worth waiting for, so long, while the destination is busy with earlier ones. */
extern unsigned int ssp_gather_bytes;
extern unsigned int ssp_gather_us;
/* Default of max2cache. */
extern unsigned int ssp_max2cache;
/* Kernel memory that the unread copy of one transfer may hold. */
extern unsigned int ssp_max_truesize;
/* Of one user without CAP_NET_ADMIN: transfers, unread copies, forwarding beside his own calls. */
extern unsigned int ssp_max_per_user;
extern unsigned int ssp_copy_kb_per_user;
extern unsigned int ssp_user_share;

#endif
