/* SPDX-License-Identifier: GPL-2.0 */
/* Doubly linked lists whose links live in their members. */
#ifndef LARD_LIST_H
#define LARD_LIST_H

#include <stdbool.h>
#include <stddef.h>

#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/* Between @at's predecessor and @at; on a head: at the end. */
static inline void list_add_before(struct list *at, struct list *l)
{
	l->prev = at->prev;
	l->next = at;
	at->prev->next = l;
	at->prev = l;
}

/* Leaves @l a list of its own, so that removing twice is harmless. */
static inline void list_del(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

#endif
