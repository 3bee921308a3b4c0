/* SPDX-License-Identifier: GPL-2.0 */
/* Domains: processes that take part. */
#ifndef IOL_DOMAIN_H
#define IOL_DOMAIN_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/xarray.h>

#include "buffer.h"
#include "policy.h"
#include "pool.h"
#include "user.h"

/**
 * struct iol_domain - one process's side: an open /dev/iolite that was initialised
 * @id:      never used again
 * @refs:    the open device's, and those who grant it something now
 * @mm:      address space it is bound to; only compared, and kept so that no other gets its address
 * @user:    whom its pools count for
 * @lock:    @held, @pools, @own, @bytes, @dead, @frag; taken under mmap_lock when a window is
 *           unmapped, so no user memory may be touched under it
 * @dead:    a window is gone: nothing is held or given any more
 * @held:    window page of a buffer's start -> how often the domain and its calls have it (one
 *           reference of the buffer for all), see hold.c; read by the fault handler without a lock
 * @bytes:   sum of sizes of held buffers
 * @acl:     ids of pools that it may read; read by the fault handler without a lock
 * @pools:   its own pools, by id
 * @own:     the same, to go through: at each hold, where walking the sparse @pools would cost much
 * @pool:    the default one
 * @frag:    memory that small data goes by value in
 * @scratch: pipe through which UNIX sockets are read, or NULL
 * @scratch_lock: one reader at a time; taken before the pipe's lock
 * @manager: its own order of eviction, or NULL; made once, by iol_cache_policy()
 * @windows: mappings that are there, bit by bit; under @lock
 * @rcu:     found by RCU by those who grant
 *
 * Lock order: mmap_lock, @lock, pool's lock.
 */
struct iol_domain {
	u64 id;
	refcount_t refs;
	struct mm_struct *mm;
	struct iol_user *user;
	struct mutex lock;		/* what is held and owned */
	bool dead;
	struct xarray held;
	u64 bytes;
	struct xarray acl;
	struct xarray pools;
	struct list_head own;
	struct iol_pool *pool;
	struct page_frag_cache frag;
	struct file *scratch;
	struct mutex scratch_lock;	/* use of @scratch */
	struct iol_manager *manager;
	unsigned long windows;
	struct rcu_head rcu;
};

struct iol_domain *iol_domain_create(struct file *scratch);
void iol_domain_kill(struct iol_domain *domain);
void iol_domain_destroy(struct iol_domain *domain);

int iol_domain_pend(struct iol_domain *domain, struct iol_buf *buf);
void iol_domain_cancel(struct iol_domain *domain, struct iol_buf *buf);
void iol_domain_publish(struct iol_domain *domain, const struct iol_list *list);
int iol_domain_unhold(struct iol_domain *domain, struct iol_buf *buf, unsigned long times);
void iol_domain_trim(struct iol_domain *domain, struct iol_buf *buf, size_t len);
int iol_domain_reopen(struct iol_domain *domain, struct iol_slice *slice);
int iol_domain_release(struct iol_domain *domain, const struct iol_slice *slice,
		       unsigned long times);
void *iol_domain_frag(struct iol_domain *domain, u32 len, struct iol_vec *vec);
struct iol_buf *iol_domain_find(struct iol_domain *domain, const struct iol_slice *slice);
int iol_domain_import(struct iol_domain *domain, const struct iol_slice *slices, u32 n,
		      u32 inline_max, struct iol_list *list);

/* Pages of a buffer that a range lies in, one bit each. */
static inline unsigned long iol_pages_of(u32 off, u32 len)
{
	return GENMASK((off + len - 1) >> PAGE_SHIFT, off >> PAGE_SHIFT);
}

bool iol_domain_may_read(struct iol_domain *domain, const struct iol_pool *pool);
unsigned long iol_domain_pages(struct iol_domain *domain, const struct iol_buf *buf);
struct iol_pool *iol_domain_pool(struct iol_domain *domain, u64 id);
int iol_domain_pool_create(struct iol_domain *domain, u64 quota, u64 *id);
int iol_domain_pool_destroy(struct iol_domain *domain, u64 id);
int iol_domain_grant(u64 id, const struct iol_pool *pool);
void iol_domains_forget_pool(u64 pool);

#endif
