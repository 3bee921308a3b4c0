/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A server that knows nothing of the kernel's and has many connections: when a client has shut down
 * its side, it says ECHO_MARK and all that it has read, and closes. "GET /server " it answers.
 */
#ifndef AFPA_ECHO_H
#define AFPA_ECHO_H

#include <netinet/in.h>

#define ECHO_MARK	"\xff read \xff"
#define ECHO_ANSWER	"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nserver\n"

/* In a thread of its own, from now on. Does not return when it cannot. */
void echo_serve(const struct sockaddr_in *at);

/* How many connections it has accepted, and waits on. */
unsigned long echo_accepted(void);

/* As many descriptors as there may be. */
void echo_room(void);

#endif
