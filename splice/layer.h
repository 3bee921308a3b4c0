/* SPDX-License-Identifier: GPL-2.0 */
/* This room's layer on a socket: what TCP and programs do to a spliced one. */
#ifndef SSP_LAYER_H
#define SSP_LAYER_H

#include <net/sock.h>

struct ssp_end;

/*
 * What @sk keeps for this room; made when there is none yet. The caller holds the
 * socket's file, and not its lock. Context: process, may sleep. Errors: as
 * flt_layer_add().
 */
struct ssp_end *ssp_end_make(struct sock *sk);

/* The same, or NULL. */
struct ssp_end *ssp_end_find(const struct sock *sk);

/* What poll() says of @sk has changed without an event: other layers look again. Any context. */
void ssp_layer_changed(struct sock *sk);

/* For module exit: no socket knows us any more. */
void ssp_layer_remove_all(void);

#endif
