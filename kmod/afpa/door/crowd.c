// SPDX-License-Identifier: GPL-2.0
#include "crowd.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include "door.h"

/* A body that comes slower than so many bytes a millisecond is late. */
#define BYTES_PER_MS	64

uint64_t crowd_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ULL + t.tv_nsec / 1000000;
}

void crowd_init(struct crowd *crowd, unsigned int max, unsigned int most, unsigned int request_ms)
{
	*crowd = (struct crowd){ .max = max, .most = most, .request_ms = request_ms };
	pthread_mutex_init(&crowd->lock, NULL);
}

/* The library sees the end of the stream, and closes it. */
static void end(struct conn *conn)
{
	shutdown(conn->fd, SHUT_RDWR);
	conn->until = 0;
}

static bool is_nearly_full(unsigned int nr, unsigned int max)
{
	return nr >= max - max / 8;
}

/*
 * The list begins with the newest: the oldest stranger goes, so that somebody with a token gets in. Of the places of
 * an address it is one from there: whoever else is at it, as a user of this machine, is not to take them all.
 */
static void make_room(struct crowd *crowd, const struct in6_addr *from)
{
	struct conn *conn, *oldest = NULL, *nearest = NULL;
	unsigned int near = 0;

	for (conn = crowd->first; conn; conn = conn->next) {
		bool is_near = !memcmp(&conn->from, from, sizeof(*from)), may_go = !conn->known && conn->until;

		near += is_near;
		oldest = may_go ? conn : oldest;
		nearest = may_go && is_near ? conn : nearest;
	}
	if (is_nearly_full(near, crowd->most))
		oldest = nearest;
	else if (!is_nearly_full(crowd->nr, crowd->max))
		return;
	if (!oldest)
		return;
	end(oldest);
	crowd->thrown_out++;
}

static void add(struct crowd *crowd, struct conn *conn)
{
	conn->next = crowd->first;
	if (conn->next)
		conn->next->prev = conn;
	crowd->first = conn;
	crowd->nr++;
}

static void take_out(struct crowd *crowd, struct conn *conn)
{
	if (conn->prev)
		conn->prev->next = conn->next;
	else
		crowd->first = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	crowd->nr--;
}

void conn_clear(struct conn *conn)
{
	conn->door->memory -= conn->counted;
	free(conn->body);
	json_decref(conn->answer);
	conn->body = NULL;
	conn->answer = NULL;
	conn->len = conn->room = conn->counted = 0;
	conn->status = 0;
	conn->has_target = conn->target_long = conn->seen = conn->waited = conn->as_peer = false;
	memset(&conn->fields, 0, sizeof(conn->fields));
	memset(&conn->wait, 0, sizeof(conn->wait));
}

static void set_from(struct conn *conn)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *address = info ? info->client_addr : NULL;

	if (address && address->sa_family == AF_INET6)
		conn->from = ((const struct sockaddr_in6 *)address)->sin6_addr;
	else if (address && address->sa_family == AF_INET)
		memcpy(&conn->from, &((const struct sockaddr_in *)address)->sin_addr, sizeof(struct in_addr));
}

void crowd_notify(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info;
	struct door *door = cls;
	struct crowd *crowd = &door->crowd;
	struct conn *conn = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
		conn = info ? calloc(1, sizeof(*conn)) : NULL;
		*context = conn;
		if (!conn)
			return;
		conn->door = door;
		conn->mhd = mhd;
		conn->fd = info->connect_fd;
		set_from(conn);
		conn->until = crowd_now() + crowd->request_ms;
		pthread_mutex_lock(&crowd->lock);
		make_room(crowd, &conn->from);
		add(crowd, conn);
		pthread_mutex_unlock(&crowd->lock);
	} else if (conn) {
		pthread_mutex_lock(&crowd->lock);
		take_out(crowd, conn);
		pthread_mutex_unlock(&crowd->lock);
		conn_clear(conn);
		free(conn);
		*context = NULL;
	}
}

void crowd_begin(struct crowd *crowd, struct conn *conn)
{
	pthread_mutex_lock(&crowd->lock);
	conn->until = crowd_now() + crowd->request_ms;
	pthread_mutex_unlock(&crowd->lock);
}

void crowd_grown(struct crowd *crowd, struct conn *conn, size_t bytes)
{
	pthread_mutex_lock(&crowd->lock);
	if (conn->until)
		conn->until += bytes / BYTES_PER_MS;
	pthread_mutex_unlock(&crowd->lock);
}

void crowd_here(struct crowd *crowd, struct conn *conn)
{
	pthread_mutex_lock(&crowd->lock);
	conn->until = 0;
	pthread_mutex_unlock(&crowd->lock);
}

void crowd_sweep(struct crowd *crowd)
{
	uint64_t now = crowd_now();
	struct conn *conn;

	pthread_mutex_lock(&crowd->lock);
	for (conn = crowd->first; conn; conn = conn->next)
		if (conn->until && conn->until < now) {
			end(conn);
			crowd->late++;
		}
	pthread_mutex_unlock(&crowd->lock);
}
