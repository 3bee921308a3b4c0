// SPDX-License-Identifier: GPL-2.0
/* flotilla_metrics_of: "ROOM NAME VALUE" a line to what Prometheus gets; "-" before it: not asked for. */
#include <inttypes.h>
#include "tools/flotilla/metric.h"

int main(void)
{
	struct samples samples = { 0 };
	char hidden, room[32], name[64];
	uint64_t value;

	while (scanf("%c %31s %63s %" SCNu64 "\n", &hidden, room, name, &value) == 4)
		if (samples_add(&samples, room, name, value, hidden == '-'))
			return 1;
	metrics_write(stdout, &samples);
	samples_free(&samples);
	return 0;
}
