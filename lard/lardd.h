/* SPDX-License-Identifier: GPL-2.0 */
/* The daemon as a whole: start, reload, stop. Worker 0. */
#ifndef LARD_LARDD_H
#define LARD_LARDD_H

#include <stdbool.h>
#include <stddef.h>

struct config;
struct lardd;

/*
 * NULL after a sentence in @error. Takes @config over. @takeover: from the lardd that answers on the
 * configured control socket take the listening sockets; it drains and ends when this has succeeded.
 */
struct lardd *lardd_new(struct config *config, const char *path, bool takeover, char *error,
			size_t size);
void lardd_free(struct lardd *lardd);
/* Until told to stop. */
void lardd_run(struct lardd *lardd);
/* Read the configuration again; on error the old one stays. 0 or -errno. */
int lardd_reload(struct lardd *lardd, char *error, size_t size);
/* Waits until every worker has moved to the configuration in force. False: one has not for seconds. */
bool lardd_settle(struct lardd *lardd);
/* Stop accepting; end when the connections have. A second time: at once. */
void lardd_stop(struct lardd *lardd);
/* Every other worker looks at what has changed. */
void lardd_wake(struct lardd *lardd);
/* Why connections are handed off, or proxied: a sentence. */
const char *lardd_mode_why(struct lardd *lardd);

#endif
