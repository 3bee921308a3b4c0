/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The control socket: a Unix stream socket, /run/flotilla/lardd.sock by default. A request is a
 * JSON object on one line, its answer a JSON object on one line; a connection takes any number.
 * An answer with "error" (a sentence) did nothing.
 *
 *	{"cmd":"status"}	mode, policy, events, workers, connections, queue, tunnels, listeners, uptime
 *	{"cmd":"nodes"}		"nodes": name, state, admin, weight, load, thresholds, decisions
 *	{"cmd":"explain","url":U}
 *				which node would get U now, and why; changes nothing. U is
 *				"http://host/path?query" or "/path"; "host" may be given beside
 *	{"cmd":"policy"}	the parameters; with "policy", "t_low", "t_high",
 *				"replication_seconds", "max_outstanding" (0: automatic) or
 *				"load_bound" also sets these, where sysfs does not rule them
 *	{"cmd":"stats"}		"counters", "reasons" (decisions by rule), "table"
 *	{"cmd":"clear"}		empties the cache, and what is lardd's of the kernel's; with "tag" (a word of xkey) or
 *				"url" (http://host/path) of that; "cleared": how many of lardd's
 *	{"cmd":"reload"}	as SIGHUP, but the answer says what is wrong
 *	{"cmd":"handover"}	"listen": addresses, with the listening sockets beside (SCM_RIGHTS,
 *				in that order). What a new lardd started with --takeover asks
 *				of the old one. Nobody else gets them while that connection is there,
 *				nor when lardd is stopping
 *	{"cmd":"taken"}		on the connection of a handover, when the new one can serve: it
 *				stops accepting and drains. Without it the handover changes nothing
 *
 * Who may connect is a matter of the socket's mode and directory. Whoever can may ask for status,
 * nodes, explain, policy and stats. What changes something (policy with a parameter, clear, reload, handover,
 * taken) is for root and for the user who started lardd, as the kernel names them (SO_PEERCRED).
 * A number that is the overflow uid (65534) proves nothing: in a user namespace the kernel calls
 * everybody so who has no number there.
 */
#ifndef LARD_CONTROL_H
#define LARD_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct control;
struct lardd;

#define CONTROL_LINE_MAX 65536

/*
 * NULL after a sentence in @error. @replace: even if another lardd answers there. Worker 0. Nobody
 * finds it until it is published: a start that fails leaves a predecessor's where it is.
 */
struct control *control_open(struct lardd *lardd, const char *path, unsigned int mode, bool replace,
			     char *error, size_t size);
int control_publish(struct control *control, char *error, size_t size);
void control_close(struct control *control);
/* What the kernel calls everybody who has no number in this user namespace. */
uid_t control_unknown_uid(void);
/* The answer of "handover"; the sockets of @fds go with it. Up to @max. */
char *control_handover(struct lardd *lardd, int *fds, size_t max, size_t *count);
/*
 * One request; the answer is to be freed. Never NULL unless memory is out. @entitled: it comes from
 * somebody who may also change something.
 */
char *control_answer(struct lardd *lardd, const char *line, size_t len, bool entitled);

#endif
