// SPDX-License-Identifier: GPL-2.0
/*
 * Holds: which buffers a domain has, and which of their pages it was given. A call under way has
 * its own, which nobody else can let go of and which name nothing; they become the domain's when
 * the caller has been told the names.
 */
#include <linux/bitfield.h>
#include <linux/mm.h>
#include <linux/module.h>

#include "kmod/param.h"

#include "counter.h"
#include "domain.h"

static ulong domain_quota = 256UL << 20;
module_param(domain_quota, admin_ulong, 0644);
MODULE_PARM_DESC(domain_quota, "most bytes of buffers that one process may hold (256 MiB)");

/*
 * An entry of iol_domain.held: how often the domain has the buffer, how often calls under way have
 * it, and the pages that it was given. Never 0, and never more than what xa_mk_value() takes.
 */
#define IOL_HOLD_TIMES		GENMASK(22, 0)
#define IOL_HOLD_CALLS		GENMASK(45, 23)
#define IOL_HOLD_PAGES		GENMASK(61, 46)

static unsigned long iol_hold_load(struct iol_domain *domain, const struct iol_buf *buf)
{
	void *entry = xa_load(&domain->held, iol_buf_pgoff(buf));

	return entry ? xa_to_value(entry) : 0;
}

/* The last one takes the reference along. The slot is there, so this needs no memory. */
static void iol_hold_store(struct iol_domain *domain, struct iol_buf *buf, unsigned long hold)
{
	lockdep_assert_held(&domain->lock);
	if (hold & (IOL_HOLD_TIMES | IOL_HOLD_CALLS)) {
		xa_store(&domain->held, iol_buf_pgoff(buf), xa_mk_value(hold), GFP_KERNEL);
		return;
	}
	xa_erase(&domain->held, iol_buf_pgoff(buf));
	domain->bytes -= iol_buf_size(buf);
	iol_buf_put(buf);
}

/* Could another call end well, and the domain have the buffer once more? */
static bool iol_hold_has_room(unsigned long hold)
{
	return FIELD_GET(IOL_HOLD_CALLS, hold) + FIELD_GET(IOL_HOLD_TIMES, hold) <
	       FIELD_MAX(IOL_HOLD_TIMES);
}

/**
 * iol_domain_pages - which pages of a buffer may the domain name and read?
 * @domain: who
 * @buf:    what
 *
 * Whoever may read the pool has all of a buffer that it holds; others what they were given of it.
 *
 * Return: one bit for each, 0: it does not hold the buffer.
 */
unsigned long iol_domain_pages(struct iol_domain *domain, const struct iol_buf *buf)
{
	unsigned long hold = iol_hold_load(domain, buf);

	if (!FIELD_GET(IOL_HOLD_TIMES, hold))
		return 0;
	if (iol_domain_may_read(domain, buf->chunk->pool))
		return GENMASK(buf->npages - 1, 0);
	return FIELD_GET(IOL_HOLD_PAGES, hold);
}

/* Bytes of free chunks that the domain's pools keep. */
static u64 iol_domain_spare(struct iol_domain *domain)
{
	struct iol_pool *pool;
	u64 chunks = 0;

	list_for_each_entry(pool, &domain->own, of_domain)
		chunks += READ_ONCE(pool->nspare);
	return chunks * IOL_CHUNK_SIZE;
}

/* May the domain have so many bytes more? Free memory of its own goes first. */
static bool iol_quota_allows(struct iol_domain *domain, size_t more)
{
	u64 quota = READ_ONCE(domain_quota);
	struct iol_pool *pool;

	if (domain->bytes + more + iol_domain_spare(domain) <= quota)
		return true;
	list_for_each_entry(pool, &domain->own, of_domain)
		iol_pool_trim(pool);
	return domain->bytes + more <= quota;
}

static int iol_hold_make(struct iol_domain *domain, struct iol_buf *buf)
{
	unsigned long hold = FIELD_PREP(IOL_HOLD_CALLS, 1);
	int err;

	lockdep_assert_held(&domain->lock);
	if (!iol_quota_allows(domain, iol_buf_size(buf))) {
		iol_count(IOL_QUOTA_REFUSED);
		return -ENOMEM;
	}
	err = xa_err(xa_store(&domain->held, iol_buf_pgoff(buf), xa_mk_value(hold),
			      GFP_KERNEL_ACCOUNT));
	if (err)
		return err;
	domain->bytes += iol_buf_size(buf);
	iol_buf_get(buf);
	return 0;
}

/**
 * iol_domain_pend - a call has a buffer that it will give to its domain
 * @domain: is charged for it
 * @buf:    the caller's reference stays the caller's
 *
 * Everything that can fail fails here, before data is consumed. Other threads of the process cannot
 * name the buffer, and what they let go of is not this: the caller ends it by iol_domain_publish()
 * or iol_domain_cancel().
 *
 * Return: 0, -ENOMEM (quota too), -EOVERFLOW, -ESHUTDOWN.
 */
int iol_domain_pend(struct iol_domain *domain, struct iol_buf *buf)
{
	unsigned long hold;
	int err = 0;

	mutex_lock(&domain->lock);
	hold = iol_hold_load(domain, buf);
	if (domain->dead)
		err = -ESHUTDOWN;
	else if (!iol_hold_has_room(hold))
		err = -EOVERFLOW;
	else if (hold)
		iol_hold_store(domain, buf, hold + FIELD_PREP(IOL_HOLD_CALLS, 1));
	else
		err = iol_hold_make(domain, buf);
	mutex_unlock(&domain->lock);
	return err;
}

/* Undo one iol_domain_pend(). When the domain ended all went. */
void iol_domain_cancel(struct iol_domain *domain, struct iol_buf *buf)
{
	mutex_lock(&domain->lock);
	if (!domain->dead)
		iol_hold_store(domain, buf,
			       iol_hold_load(domain, buf) - FIELD_PREP(IOL_HOLD_CALLS, 1));
	mutex_unlock(&domain->lock);
}

/**
 * iol_domain_publish - what a call got is its domain's from now on
 * @domain: may name, read and release it
 * @list:   one iol_domain_pend() for each of its slices, which ends here; the caller of the call
 *          knows their names. What else is in their pages is theirs, too, or zero.
 */
void iol_domain_publish(struct iol_domain *domain, const struct iol_list *list)
{
	u32 i;

	mutex_lock(&domain->lock);
	for (i = 0; i < list->n && !domain->dead; i++) {
		const struct iol_vec *vec = &list->vec[i];
		unsigned long hold = iol_hold_load(domain, vec->buf);

		hold -= FIELD_PREP(IOL_HOLD_CALLS, 1);
		hold += FIELD_PREP(IOL_HOLD_TIMES, 1);
		hold |= FIELD_PREP(IOL_HOLD_PAGES, iol_pages_of(vec->off, vec->len));
		iol_hold_store(domain, vec->buf, hold);
	}
	mutex_unlock(&domain->lock);
}

/**
 * iol_domain_unhold - the domain lets go of a buffer
 * @domain: has it at least once; its lock is held
 * @buf:    which
 * @times:  of the times that it has it
 *
 * Return: 0, or -EINVAL: more often than it has it.
 */
int iol_domain_unhold(struct iol_domain *domain, struct iol_buf *buf, unsigned long times)
{
	unsigned long hold = iol_hold_load(domain, buf);

	lockdep_assert_held(&domain->lock);
	if (!times || times > FIELD_GET(IOL_HOLD_TIMES, hold))
		return -EINVAL;
	hold -= FIELD_PREP(IOL_HOLD_TIMES, times);
	/* A call may have it still: what that gives is another matter. */
	if (!FIELD_GET(IOL_HOLD_TIMES, hold))
		hold &= ~IOL_HOLD_PAGES;
	iol_hold_store(domain, buf, hold);
	return 0;
}

/**
 * iol_domain_trim - shorten a fresh buffer that only this call has
 * @domain: nothing of the tail is in a slice; the call has pended what it took of it
 * @buf:    nobody else has it
 * @len:    bytes to keep
 */
void iol_domain_trim(struct iol_domain *domain, struct iol_buf *buf, size_t len)
{
	size_t before = iol_buf_size(buf);

	mutex_lock(&domain->lock);
	iol_buf_trim(buf, len);
	if (!domain->dead && iol_hold_load(domain, buf))
		domain->bytes -= before - iol_buf_size(buf);
	mutex_unlock(&domain->lock);
}
