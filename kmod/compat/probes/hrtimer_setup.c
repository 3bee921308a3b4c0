// SPDX-License-Identifier: GPL-2.0
/* exports: hrtimer_setup */
/* Is a timer given its function when it is initialised? */
#include <linux/hrtimer.h>

void flt_probe(struct hrtimer *timer, enum hrtimer_restart (*run)(struct hrtimer *timer));
void flt_probe(struct hrtimer *timer, enum hrtimer_restart (*run)(struct hrtimer *timer))
{
	hrtimer_setup(timer, run, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_SOFT);
}
