// SPDX-License-Identifier: GPL-2.0
/* Is there a flag that lets requests be merged? Without it they are. */
#include <linux/blk-mq.h>

#ifndef FLT_PROBE_NOT
extern const unsigned int flt_probe;
const unsigned int flt_probe = BLK_MQ_F_SHOULD_MERGE;
#else
enum { BLK_MQ_F_SHOULD_MERGE };
#endif
