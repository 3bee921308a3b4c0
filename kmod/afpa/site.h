/* SPDX-License-Identifier: GPL-2.0 */
/* Where requests come in. */
#ifndef AFPA_SITE_H
#define AFPA_SITE_H

#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <flotilla/afpa.h>

#include "net.h"

struct afpa_conn;
struct afpa_protocol;

/**
 * struct afpa_place - a site
 * @list:     in its namespace's, under that one's lock
 * @an:       namespace
 * @at:       address and port
 * @protocol: of its connections; held
 * @id:       number; never used again
 * @gone:     it was taken away; READ_ONCE
 * @users:    the namespace's list, layers, connections
 * @lock:     leaf, bottom halves off
 * @conns:    connections that may be answered, under @lock
 * @nr_conns: the same; READ_ONCE
 * @nr_listeners: that have our layer, at the last look; under the namespace's lock
 * @scan_from: which listener the next look begins with; the same
 */
struct afpa_place {
	struct list_head list;
	struct afpa_net *an;
	struct afpa_site at;
	const struct afpa_protocol *protocol;
	u32 id;
	bool gone;
	refcount_t users;
	spinlock_t lock;	/* @conns */
	struct list_head conns;
	u64 nr_conns;
	u32 nr_listeners;
	u32 scan_from;
};

void afpa_place_put(struct afpa_place *place);

/* As the ioctl commands say; process context. @protocol NULL: HTTP, or what the site has. */
int afpa_site_listen(struct afpa_net *an, struct afpa_site_args *args, const char *protocol);
int afpa_site_add(struct afpa_net *an, struct afpa_site_args *args);
int afpa_site_del(struct afpa_net *an, struct afpa_site_args *args);
int afpa_site_next(struct afpa_net *an, struct afpa_next_site *args);

/* Is it a listener of the site? Without a lock, its program may be changing that. */
bool afpa_site_is_of(const struct afpa_place *place, const struct sock *sk);

/* Number of a site; 0: there is none. */
u32 afpa_site_id(struct afpa_net *an, const struct afpa_site *at);
/* Its protocol besides, which afpa_protocol_put() is for; NULL: there is no such site. */
const struct afpa_protocol *afpa_site_protocol(struct afpa_net *an, const struct afpa_site *at,
					       u32 *id);
/* The other way round. */
int afpa_site_at(struct afpa_net *an, u32 id, struct afpa_site *at);

/**
 * afpa_site_scan() - the layer comes on listeners that have none
 * @place: under its namespace's lock
 * @args:  NULL, or where to say how many there are
 */
int afpa_site_scan(struct afpa_place *place, struct afpa_site_args *args);

/* @visit for each connection, with references on it and its socket; process context. */
void afpa_site_each_conn(struct afpa_place *place, void (*visit)(struct afpa_conn *conn));

/* Connections of a site that is gone; true: none is left. */
bool afpa_site_clear(struct afpa_place *place);

/* All sites go, and no lock of a socket is taken: no answer is under way. */
void afpa_site_leave_all(struct afpa_net *an);

#endif
