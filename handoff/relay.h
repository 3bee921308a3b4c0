/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection that we were given and have handed on: its packets come by here until its origin
 * forwards them to who has it, and its origin hears of the end from us.
 */
#ifndef HOF_RELAY_H
#define HOF_RELAY_H

struct flt_node;
struct hof_adoption;
struct hof_net;
struct hof_ticket;

/*
 * By what its packets come here, if they come by another node: @a, or what it was before it came
 * back; NULL: here is where they come in. Under hn->adopt_lock.
 */
struct hof_adoption *hof_relay_up(struct hof_adoption *a);
/* It is given back to who forwards it to us, and nobody can be about to do so still. The same. */
bool hof_relay_is_back(struct hof_adoption *a, const struct flt_node *node);
/*
 * @a is handed on to @node now, before its socket is released: who is to be told when that is over,
 * and not when the socket is. Return: a counted reference, for hof_relay_end(); NULL: nobody.
 */
struct hof_adoption *hof_relay_begin(struct hof_adoption *a, const struct flt_node *node);
/*
 * What it was handed on by is over: so is @a, and each before it; the caller's reference goes.
 * @lost: its owner is, and whoever forwards it to us resets the client. Any context but hard
 * interrupt.
 */
void hof_relay_end(struct hof_adoption *a, bool lost);
/* Under hn->adopt_lock. */
void hof_relay_end_locked(struct hof_adoption *a, bool lost);

/*
 * It has come back as @a, and is not over for @old: that ends when @a does. At most one of each
 * giver is kept. The caller's reference of @old goes.
 */
void hof_relay_return(struct hof_adoption *a, struct hof_adoption *old);
/* The packets of what was adopted as @a are sent to us by the client; NULL: it was not adopted. */
bool hof_relay_is_direct(struct hof_adoption *a);
/*
 * @a has another giver, and who was, by @old, may forward it still and hears of its end as well;
 * the caller's reference of @old goes. Under hn->adopt_lock.
 */
void hof_relay_keep(struct hof_adoption *a, struct hof_adoption *old);
/*
 * What was given before by who is the giver of @a now is of no interest to it any more. Under
 * hn->adopt_lock; the caller then puts them, not under it.
 */
struct hof_adoption *hof_relay_prune(struct hof_adoption *a);
void hof_relay_put(struct hof_adoption *a);
/* Forget it and each before it, untold; the caller's reference goes. */
void hof_relay_drop(struct hof_adoption *a);

#endif
