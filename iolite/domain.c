// SPDX-License-Identifier: GPL-2.0
/* Domains: what a process holds, what it may read, and how all of it goes when the process does. */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/rcupdate_wait.h>
#include <linux/sched/mm.h>
#include <linux/skbuff.h>
#include <linux/slab.h>

#include "counter.h"
#include "domain.h"
#include "trace.h"

/*
 * All domains, by id. Read by RCU: whoever grants may sleep for as long as his memory cgroup likes,
 * and nobody waits for him.
 */
static DEFINE_XARRAY(iol_domains);

/**
 * iol_domain_create - make the caller's process a domain
 * @scratch: pipe; consumed when this succeeds
 *
 * Return: the domain or NULL.
 */
struct iol_domain *iol_domain_create(struct file *scratch)
{
	struct iol_domain *domain = kzalloc(sizeof(*domain), GFP_KERNEL_ACCOUNT);
	u64 id;

	if (!domain)
		return NULL;
	domain->id = iol_id_next();
	refcount_set(&domain->refs, 1);
	domain->mm = current->mm;
	mmgrab(domain->mm);
	mutex_init(&domain->lock);
	mutex_init(&domain->scratch_lock);
	xa_init(&domain->held);
	xa_init(&domain->acl);
	xa_init(&domain->pools);
	INIT_LIST_HEAD(&domain->own);
	domain->user = iol_user_get();
	if (!domain->user || iol_domain_pool_create(domain, 0, &id)) {
		iol_domain_destroy(domain);
		return NULL;
	}
	domain->pool = xa_load(&domain->pools, id);
	if (xa_err(xa_store(&iol_domains, domain->id, domain, GFP_KERNEL))) {
		iol_domain_destroy(domain);
		return NULL;
	}
	domain->scratch = scratch;
	return domain;
}

/* The buffer that starts at this page of the window; the domain holds it, so it is there. */
static struct iol_buf *iol_held_buf(unsigned long pgoff)
{
	struct iol_chunk *chunk = iol_chunk_get(pgoff / IOL_CHUNK_PAGES);
	struct iol_buf *buf = chunk->buf[pgoff % IOL_CHUNK_PAGES];

	iol_chunk_put(chunk);
	return buf;
}

/**
 * iol_domain_kill - everything the domain holds goes
 * @domain: its process died, called exec, or unmapped a window
 */
void iol_domain_kill(struct iol_domain *domain)
{
	struct iol_pool *pool, *next;
	unsigned long index;
	void *entry;

	mutex_lock(&domain->lock);
	domain->dead = true;
	xa_for_each(&domain->held, index, entry) {
		struct iol_buf *buf = iol_held_buf(index);

		xa_erase(&domain->held, index);
		iol_buf_put(buf);
	}
	domain->bytes = 0;
	list_for_each_entry_safe(pool, next, &domain->own, of_domain) {
		xa_erase(&domain->pools, pool->id);
		list_del(&pool->of_domain);
		iol_pool_retire(pool);
	}
	domain->pool = NULL;
	mutex_unlock(&domain->lock);
}

static void iol_domain_put(struct iol_domain *domain)
{
	if (!refcount_dec_and_test(&domain->refs))
		return;
	xa_destroy(&domain->acl);
	kfree_rcu(domain, rcu);
}

void iol_domain_destroy(struct iol_domain *domain)
{
	xa_erase(&iol_domains, domain->id);
	iol_domain_kill(domain);
	xa_destroy(&domain->held);
	xa_destroy(&domain->pools);
	if (domain->scratch)
		fput(domain->scratch);
	page_frag_cache_drain(&domain->frag);
	iol_manager_put(domain->manager);
	iol_user_put(domain->user);
	mmdrop(domain->mm);
	iol_domain_put(domain);
}

bool iol_domain_may_read(struct iol_domain *domain, const struct iol_pool *pool)
{
	return xa_load(&domain->acl, pool->id);
}

static int iol_domain_admit(struct iol_domain *domain, const struct iol_pool *pool)
{
	int err;

	if (pool->kind == IOL_POOL_FILE || xa_load(&domain->acl, pool->id))
		return 0;
	err = xa_err(xa_store(&domain->acl, pool->id, xa_mk_value(1), GFP_KERNEL_ACCOUNT));
	if (err)
		return err;
	iol_count(IOL_GRANTS);
	trace_iol_grant(domain->id, pool->id);
	return 0;
}

/**
 * iol_domain_grant - let a domain read a pool before anything was passed to it
 * @id:   of the domain
 * @pool: owned by the caller
 *
 * Return: 0, -ESRCH, -ENOMEM.
 */
int iol_domain_grant(u64 id, const struct iol_pool *pool)
{
	struct iol_domain *domain;
	int err;

	rcu_read_lock();
	domain = xa_load(&iol_domains, id);
	if (domain && !refcount_inc_not_zero(&domain->refs))
		domain = NULL;
	rcu_read_unlock();
	if (!domain)
		return -ESRCH;
	err = iol_domain_admit(domain, pool);
	iol_domain_put(domain);
	return err;
}

/* Ids are never used again, so this only saves memory. */
void iol_domains_forget_pool(u64 pool)
{
	struct iol_domain *domain;
	unsigned long id;

	rcu_read_lock();
	xa_for_each(&iol_domains, id, domain) {
		if (xa_load(&domain->acl, pool))
			xa_erase(&domain->acl, pool);
		cond_resched_rcu();
	}
	rcu_read_unlock();
}

/* Where a slice starts in its buffer. */
static u32 iol_slice_off(const struct iol_buf *buf, const struct iol_slice *slice)
{
	return slice->offset - ((u64)iol_buf_pgoff(buf) << PAGE_SHIFT);
}

/* The buffer that a slice of this domain names; under the domain's lock, which keeps it held. */
static struct iol_buf *iol_domain_lookup(struct iol_domain *domain, const struct iol_slice *slice)
{
	unsigned long pgoff = slice->offset >> PAGE_SHIFT, pages = 0;
	struct iol_buf *buf = NULL;
	struct iol_chunk *chunk;
	int err = -EACCES;

	lockdep_assert_held(&domain->lock);
	if (slice->reserved || !slice->length || slice->length > IOL_CHUNK_SIZE ||
	    slice->offset >= IOL_WINDOW_SIZE)
		return ERR_PTR(-EINVAL);
	chunk = iol_chunk_get(pgoff / IOL_CHUNK_PAGES);
	if (!chunk)
		return ERR_PTR(-ESTALE);
	mutex_lock(&chunk->pool->lock);
	buf = chunk->buf[pgoff % IOL_CHUNK_PAGES];
	if (!buf || buf->generation != slice->generation)
		err = -ESTALE;
	else
		pages = iol_domain_pages(domain, buf);
	if (pages)
		err = 0;
	mutex_unlock(&chunk->pool->lock);
	iol_chunk_put(chunk);
	if (!err && iol_slice_off(buf, slice) + slice->length > iol_buf_size(buf))
		err = -EINVAL;
	if (!err && iol_pages_of(iol_slice_off(buf, slice), slice->length) & ~pages)
		err = -EACCES;
	if (err) {
		iol_count(IOL_SLICES_REFUSED);
		return ERR_PTR(err);
	}
	return buf;
}

/* As iol_domain_lookup(), with a reference. */
struct iol_buf *iol_domain_find(struct iol_domain *domain, const struct iol_slice *slice)
{
	struct iol_buf *buf;

	mutex_lock(&domain->lock);
	buf = iol_domain_lookup(domain, slice);
	if (!IS_ERR(buf))
		iol_buf_get(buf);
	mutex_unlock(&domain->lock);
	return buf;
}

/**
 * iol_domain_release - the domain lets go of a buffer
 * @domain: who
 * @slice:  any valid range of the buffer
 * @times:  of the times that it got the buffer
 *
 * Return: 0, -EINVAL: more often than it has it, or no slice; -ESTALE, -EACCES.
 */
int iol_domain_release(struct iol_domain *domain, const struct iol_slice *slice,
		       unsigned long times)
{
	struct iol_buf *buf;
	int err = 0;

	mutex_lock(&domain->lock);
	buf = iol_domain_lookup(domain, slice);
	if (IS_ERR(buf))
		err = PTR_ERR(buf);
	else
		err = iol_domain_unhold(domain, buf, times);
	mutex_unlock(&domain->lock);
	return err;
}

/**
 * iol_domain_reopen - fill a buffer of the domain's own again
 * @domain: must own the pool and be the only one that has the buffer
 * @slice:  names it; gets the new generation
 *
 * Return: 0, -EBUSY, -EACCES: another's pool; -EINVAL, -ESTALE.
 */
int iol_domain_reopen(struct iol_domain *domain, struct iol_slice *slice)
{
	struct iol_buf *buf;
	int err;

	mutex_lock(&domain->lock);
	buf = iol_domain_lookup(domain, slice);
	if (IS_ERR(buf))
		err = PTR_ERR(buf);
	else if (buf->chunk->pool->owner != domain->id)
		err = -EACCES;
	else
		err = iol_buf_reopen(buf, domain->id);
	if (!err)
		slice->generation = buf->generation;
	mutex_unlock(&domain->lock);
	return err;
}

/**
 * iol_domain_frag - memory for bytes that go by value
 * @domain: whose; pieces of its packets share pages
 * @len:    1 to PAGE_SIZE
 * @vec:    out: a page with a reference, and where in it
 *
 * Return: where to store, or NULL.
 */
void *iol_domain_frag(struct iol_domain *domain, u32 len, struct iol_vec *vec)
{
	void *at;

	lockdep_assert_held(&domain->lock);
	/* Aligned so that it lies in one page. */
	at = page_frag_alloc_align(&domain->frag, len, GFP_KERNEL_ACCOUNT, roundup_pow_of_two(len));
	if (at)
		*vec = (struct iol_vec){
			.page = virt_to_page(at),
			.off = offset_in_page(at),
			.len = len,
		};
	return at;
}

/* Small data of an open buffer goes by value: cheaper than taking the write permission away. */
static int iol_vec_inline(struct iol_domain *domain, struct iol_vec *vec, struct iol_buf *buf,
			  u32 off, u32 len)
{
	void *at = iol_domain_frag(domain, len, vec);
	u32 done = 0;

	if (!at)
		return -ENOMEM;
	while (done < len) {
		u32 in_page = offset_in_page(off + done);
		u32 part = min_t(u32, len - done, PAGE_SIZE - in_page);

		memcpy_from_page(at + done, iol_buf_page(buf, off + done), in_page, part);
		done += part;
	}
	iol_count_add(IOL_BYTES_INLINE, len);
	return 0;
}

/**
 * iol_domain_import - turn slices of user space into references, and seal what they name
 * @domain:     must hold each
 * @slices:     copied in by the caller
 * @n:          how many
 * @inline_max: slices of open buffers up to this length go by value
 * @list:       out; the caller drops it, also after an error
 *
 * Return: 0, -EINVAL, -ESTALE, -EACCES, -ENOMEM, -ESHUTDOWN. On an error nothing was sealed.
 */
int iol_domain_import(struct iol_domain *domain, const struct iol_slice *slices, u32 n,
		      u32 inline_max, struct iol_list *list)
{
	int err = 0;
	u32 i;

	mutex_lock(&domain->lock);
	if (domain->dead)
		err = -ESHUTDOWN;
	for (i = 0; i < n && !err; i++) {
		struct iol_vec *vec = &list->vec[list->n];
		struct iol_buf *buf = iol_domain_lookup(domain, &slices[i]);
		u32 off;

		if (IS_ERR(buf)) {
			err = PTR_ERR(buf);
			break;
		}
		off = iol_slice_off(buf, &slices[i]);
		if (buf->state == IOL_BUF_FILLING && slices[i].length <= inline_max) {
			err = iol_vec_inline(domain, vec, buf, off, slices[i].length);
			if (err)
				break;
		} else {
			*vec = (struct iol_vec){ .buf = iol_buf_get(buf), .off = off,
						 .len = slices[i].length };
		}
		list->bytes += slices[i].length;
		list->n++;
	}
	mutex_unlock(&domain->lock);
	if (err)
		return err;
	for (i = 0; i < list->n; i++)
		if (list->vec[i].buf)
			iol_buf_seal(list->vec[i].buf);
	return 0;
}

/* With a reference. 0 names the default pool. */
struct iol_pool *iol_domain_pool(struct iol_domain *domain, u64 id)
{
	struct iol_pool *pool;

	mutex_lock(&domain->lock);
	pool = id ? xa_load(&domain->pools, id) : domain->pool;
	if (pool)
		iol_pool_get(pool);
	mutex_unlock(&domain->lock);
	return pool;
}

int iol_domain_pool_create(struct iol_domain *domain, u64 quota, u64 *id)
{
	struct iol_pool *pool = iol_pool_create(IOL_POOL_SHARED, domain->id, domain->user, quota);
	int err;

	if (!pool)
		return -ENOMEM;
	/* Once it is there another thread may guess its name, and destroy it. */
	*id = pool->id;
	mutex_lock(&domain->lock);
	err = domain->dead ? -ESHUTDOWN : iol_domain_admit(domain, pool);
	if (!err)
		err = xa_err(xa_store(&domain->pools, pool->id, pool, GFP_KERNEL_ACCOUNT));
	if (!err)
		list_add_tail(&pool->of_domain, &domain->own);
	mutex_unlock(&domain->lock);
	if (err)
		iol_pool_retire(pool);
	return err;
}

int iol_domain_pool_destroy(struct iol_domain *domain, u64 id)
{
	struct iol_pool *pool;
	int err = 0;

	mutex_lock(&domain->lock);
	pool = xa_load(&domain->pools, id);
	if (!pool)
		err = -ENOENT;
	else if (pool == domain->pool)
		err = -EPERM;
	if (!err) {
		xa_erase(&domain->pools, id);
		list_del(&pool->of_domain);
	}
	mutex_unlock(&domain->lock);
	if (!err)
		iol_pool_retire(pool);
	return err;
}
