/* SPDX-License-Identifier: GPL-2.0 */
/* Our layer: on listeners of a site, and on the connections that they make. */
#ifndef AFPA_LAYER_H
#define AFPA_LAYER_H

#include <net/sock.h>

struct afpa_place;

/* Requests to the listener @sk are answered as those of @place. */
bool afpa_layer_is_on(const struct sock *sk, const struct afpa_place *place);

/**
 * afpa_layer_put_on() - requests to a listener are answered from now on
 * @sk:    listening; the caller has a reference
 * @place: whose listener it is
 *
 * Return: 1; 0: they are already; -EBUSY: a program has its lock; as flt_layer_add().
 */
int afpa_layer_put_on(struct sock *sk, struct afpa_place *place);

/* A listener of @place is left alone. */
void afpa_layer_take_off(struct sock *sk, const struct afpa_place *place);

void afpa_layer_remove_all(void);

#endif
