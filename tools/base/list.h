/* SPDX-License-Identifier: GPL-2.0 */
/* Doubly linked lists whose links live in their members, with the kernel's names. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define LIST_INIT(name) { &(name), &(name) }

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))
#define list_entry(ptr, type, member) container_of(ptr, type, member)

static inline void list_init(struct list *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_add_between(struct list *n, struct list *prev, struct list *next)
{
	n->prev = prev;
	n->next = next;
	prev->next = n;
	next->prev = n;
}

static inline void list_add(struct list *n, struct list *head)
{
	list_add_between(n, head, head->next);
}

/* On a head: at the end. On a member: before it. */
static inline void list_add_tail(struct list *n, struct list *head)
{
	list_add_between(n, head->prev, head);
}

/* Leaves @n empty, so that deleting twice is harmless. */
static inline void list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

/* Moves everything of @from to the (uninitialised) head @to. */
static inline void list_take(struct list *from, struct list *to)
{
	if (list_empty(from)) {
		list_init(to);
		return;
	}
	*to = *from;
	to->next->prev = to;
	to->prev->next = to;
	list_init(from);
}

#endif
