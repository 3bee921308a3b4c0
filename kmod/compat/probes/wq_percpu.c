// SPDX-License-Identifier: GPL-2.0
/* Does a queue of work say that it is bound to processors? */
#include <linux/workqueue.h>

#ifndef FLT_PROBE_NOT
extern const unsigned int flt_probe;
const unsigned int flt_probe = WQ_PERCPU;
#else
enum { WQ_PERCPU };
#endif
