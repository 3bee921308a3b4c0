// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel sees of the engine while it decides for us (flotilla/early_table.h), and what the engine
 * sees of what was given so.
 */
#include "engine.h"

static void set(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static void set_long(__u64 *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

uint32_t mirror_given(const struct lard *l, int node)
{
	return l->page ? __atomic_load_n(&l->page->slots[node].given, __ATOMIC_RELAXED) : 0;
}

uint64_t mirror_chosen(const struct lard *l, int node)
{
	return l->page ? __atomic_load_n(&l->page->slots[node].chosen, __ATOMIC_RELAXED) : 0;
}

uint64_t lard_taken(const struct lard *l, int node)
{
	return l->page ? __atomic_load_n(&l->page->slots[node].taken, __ATOMIC_RELAXED) : 0;
}

void mirror_hear(struct lard *l)
{
	unsigned int i;

	l->early = 0;
	for_each_node(i, l->page ? l->eligible : 0) {
		l->nodes[i].early = mirror_given(l, i);
		l->early += l->nodes[i].early;
	}
}

void mirror_begin(const struct lard *l, int node)
{
	if (l->page)
		set_long(&l->page->slots[node].chosen, 0);
}

void mirror_load(const struct lard *l, int node)
{
	if (!l->page)
		return;
	set(&l->page->slots[node].load, l->nodes[node].load);
	set(&l->page->cursor, l->cursor);
}

static uint32_t policy_of(const struct lard *l)
{
	if (l->fronts)
		return HOF_EARLY_NONE;
	switch (l->params.policy) {
	case LARD_LC:
		return HOF_EARLY_FEWEST;
	case LARD_LB:
		return HOF_EARLY_HASH;
	case LARD_BASIC:
		return HOF_EARLY_ASSIGNED;
	case LARD_REPLICATED:
		return HOF_EARLY_REPLICATED;
	default:
		return HOF_EARLY_NONE;
	}
}

void mirror_all(const struct lard *l)
{
	struct hof_early_page *p = l->page;
	unsigned int i;

	if (!p)
		return;
	/* Odd meanwhile: nobody decides by a half of it. */
	set(&p->version, p->version + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	set(&p->policy, policy_of(l));
	set(&p->limit, l->limit);
	set(&p->cursor, l->cursor);
	set_long(&p->eligible, l->eligible);
	set_long(&p->shares, l->shares);
	set_long(&p->until_us, l->next_ramp);
	set_long(&p->replication_us, l->params.replication_us);
	for (i = 0; i < LARD_MAX_NODES; i++) {
		const struct node *n = &l->nodes[i];
		struct hof_early_slot *s = &p->slots[i];

		set(&s->load, n->load);
		set(&s->share, n->share);
		set(&s->low, n->low);
		set(&s->high, n->high);
		set(&s->cap, n->cap);
		set(&s->forgotten, n->forgotten);
	}
	__atomic_store_n(&p->version, p->version + 1, __ATOMIC_RELEASE);
}

void lard_mirror(struct lard *l, struct hof_early_page *page)
{
	unsigned int i;

	for (i = 0; i < LARD_MAX_NODES; i++) {
		l->nodes[i].chosen += mirror_chosen(l, i);
		l->nodes[i].early = 0;
	}
	l->page = page;
	mirror_hear(l);
	mirror_all(l);
}
