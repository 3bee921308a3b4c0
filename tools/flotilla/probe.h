/* SPDX-License-Identifier: GPL-2.0 */
/* One question that flotilla probe asks. */
#ifndef FLOTILLA_PROBE_H
#define FLOTILLA_PROBE_H

#include <stddef.h>

/**
 * enum verdict - the answer to a question
 * @PROBE_NO:      not there; the reason says why or what to do
 * @PROBE_YES:     there
 * @PROBE_UNKNOWN: could not be found out
 */
enum verdict {
	PROBE_NO,
	PROBE_YES,
	PROBE_UNKNOWN,
};

/**
 * struct probe - a question
 * @name:   stable, for scripts
 * @about:  what it is good for
 * @answer: writes what was found, or why not, into @reason
 */
struct probe {
	const char *name, *about;
	enum verdict (*answer)(char *reason, size_t size);
};

extern const struct probe kernel_probes[], room_probes[];

/* Number of the generic netlink family, or a negative errno. */
int probe_family(const char *name);

#endif
