// SPDX-License-Identifier: GPL-2.0
/* An object's memory: compound pages, so that TCP can refer to any part of them. */

#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <flotilla/afpa.h>

#include "cache.h"
#include "calls.h"
#include "file.h"
#include "object.h"
#include "protocol.h"

/* What does not fit is refused rather than that somebody is killed for it. */
#define AFPA_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

#define AFPA_HEAD_MAX	4096

static void afpa_object_free(struct afpa_object *obj)
{
	u32 i;

	for (i = 0; i < obj->pieces; i++)
		put_page(obj->piece[i].bv_page);
	kvfree(obj);
}

static void afpa_object_free_rcu(struct rcu_head *rcu)
{
	afpa_object_free(container_of(rcu, struct afpa_object, rcu));
}

void afpa_object_put(struct afpa_object *obj)
{
	/* Whoever has found it under RCU may look at @users still. */
	if (!refcount_dec_and_test(&obj->users))
		return;
	afpa_cache_uncharge(obj->cache, obj->charged);
	if (obj->file)
		afpa_file_close(obj->file);
	call_rcu(&obj->rcu, afpa_object_free_rcu);
}
EXPORT_SYMBOL_GPL(afpa_object_put);

u32 afpa_object_age(const struct afpa_object *obj)
{
	s64 age = ktime_to_ns(ktime_get_coarse_boottime()) - obj->born;

	return clamp_t(s64, div_s64(age, NSEC_PER_SEC), 0, AFPA_AGE_MAX);
}

bool afpa_object_is_there(const struct afpa_object *obj)
{
	return !obj->file ||
	       afpa_file_is_there(obj->file, 0, min_t(u64, obj->body_len, AFPA_CHUNK));
}

/* Blocks as large as fit, so that no page is without a byte. */
static unsigned int afpa_piece_order(u64 left)
{
	u64 pages = DIV_ROUND_UP_ULL(left, PAGE_SIZE);

	return pages >> AFPA_PIECE_ORDER ? AFPA_PIECE_ORDER : ilog2((u32)pages);
}

static struct page *afpa_piece_alloc(unsigned int *order)
{
	struct page *page;

	while (*order) {
		page = alloc_pages(AFPA_GFP | __GFP_COMP | __GFP_NORETRY, *order);
		if (page)
			return page;
		--*order;
	}
	return alloc_page(AFPA_GFP);
}

/* What it takes, as no page is without a byte. */
static u64 afpa_object_charge(u64 total, size_t names)
{
	u64 pages = DIV_ROUND_UP_ULL(total, PAGE_SIZE);

	return struct_size_t(struct afpa_object, piece, pages) + names + pages * PAGE_SIZE;
}

/* Room for @total bytes. */
static struct afpa_object *afpa_object_alloc(u64 total, size_t names)
{
	/* With blocks of one page, if memory is in pieces. */
	size_t most = DIV_ROUND_UP_ULL(total, PAGE_SIZE);
	struct afpa_object *obj;
	u64 left = total;

	/* See bv_offset. */
	if (total > U32_MAX)
		return NULL;
	obj = kvzalloc(struct_size(obj, piece, most) + names, AFPA_GFP);
	if (!obj)
		return NULL;
	while (left) {
		unsigned int order = afpa_piece_order(left);
		struct page *page = afpa_piece_alloc(&order);
		u32 len = min_t(u64, left, PAGE_SIZE << order);

		if (!page) {
			afpa_object_free(obj);
			return NULL;
		}
		bvec_set_page(&obj->piece[obj->pieces++], page, len, total - left);
		left -= len;
		cond_resched();
	}
	refcount_set(&obj->users, 1);
	atomic64_set(&obj->hits, 0);
	INIT_LIST_HEAD(&obj->clock[AFPA_CLOCK_ALL]);
	INIT_LIST_HEAD(&obj->clock[AFPA_CLOCK_AUTOMATIC]);
	RB_CLEAR_NODE(&obj->lru);
	obj->key.host = (const char *)&obj->piece[most];
	return obj;
}

static u32 afpa_recipe_names(const struct afpa_recipe *recipe)
{
	return recipe->key.host_len + recipe->key.path_len + recipe->tags_len;
}

static void afpa_object_name(struct afpa_object *obj, const struct afpa_recipe *recipe)
{
	const struct afpa_key_ref *key = &recipe->key;
	char *names = (char *)obj->key.host;

	obj->key = *key;
	obj->key.host = memcpy(names, key->host, key->host_len);
	names += key->host_len;
	obj->key.path = memcpy(names, key->path, key->path_len);
	obj->tags = memcpy(names + key->path_len, recipe->tags, recipe->tags_len);
	obj->tags_len = recipe->tags_len;
}

static void afpa_object_copy_head(struct afpa_object *obj, const char *head, u32 len)
{
	/* One without a byte has no piece. */
	if (len)
		memcpy(page_address(obj->piece[0].bv_page), head, len);
	obj->head_len = len;
}

/* In pages of its own: header, body and tail of it, but for a file's body. */
static u64 afpa_recipe_bytes(const struct afpa_recipe *recipe, u32 head_len)
{
	return head_len + (recipe->file ? 0 : recipe->body_len) + recipe->protocol->tail_len;
}

/* The header ends within the first page: see AFPA_HEAD_MAX. */
static int afpa_object_copy_body(struct afpa_object *obj, u64 body, bool user)
{
	u32 i, skip = obj->head_len;
	u64 left = obj->body_len;

	for (i = 0; left && i < obj->pieces; i++) {
		u32 len = min_t(u64, left, obj->piece[i].bv_len - skip);

		if (afpa_copy_in(page_address(obj->piece[i].bv_page) + skip, body, len, user))
			return -EFAULT;
		body += len;
		left -= len;
		skip = 0;
		cond_resched();
	}
	return 0;
}

/* The piece that @pos is in: a large object may have hundreds of thousands. */
static u32 afpa_object_piece(const struct afpa_object *obj, u64 pos)
{
	u32 first = 0, end = obj->pieces, mid;

	while (end - first > 1) {
		mid = first + (end - first) / 2;
		if (obj->piece[mid].bv_offset <= pos)
			first = mid;
		else
			end = mid;
	}
	return first;
}

/* A few bytes, which may be in two pieces. */
static void afpa_object_copy_tail(struct afpa_object *obj, const struct afpa_protocol *protocol)
{
	u64 pos = obj->head_len + obj->body_len;
	u32 i;

	for (i = 0; i < protocol->tail_len; i++, pos++) {
		const struct bio_vec *piece = &obj->piece[afpa_object_piece(obj, pos)];

		((char *)page_address(piece->bv_page))[pos - piece->bv_offset] = protocol->tail[i];
	}
	obj->tail_len = protocol->tail_len;
	obj->tail_last = protocol->tail_last;
}

static struct afpa_object *afpa_object_fill(const struct afpa_recipe *recipe, const char *head,
					    u32 len)
{
	struct afpa_object *obj;
	int err;

	obj = afpa_object_alloc(afpa_recipe_bytes(recipe, len), afpa_recipe_names(recipe));
	if (!obj)
		return ERR_PTR(-ENOMEM);
	afpa_object_name(obj, recipe);
	afpa_object_copy_head(obj, head, len);
	obj->body_len = recipe->body_len;
	obj->automatic = recipe->automatic;
	obj->aged = recipe->aged;
	obj->born = ktime_to_ns(ktime_get_coarse_boottime()) - (s64)recipe->age * NSEC_PER_SEC;
	err = recipe->file ? 0 : afpa_object_copy_body(obj, recipe->body, recipe->user);
	if (err) {
		afpa_object_free(obj);
		return ERR_PTR(err);
	}
	/* Of a file there is none. */
	afpa_object_copy_tail(obj, recipe->protocol);
	obj->file = recipe->file;
	return obj;
}

struct afpa_object *afpa_object_make(struct afpa_cache *cache, const struct afpa_recipe *recipe)
{
	struct afpa_object *obj;
	u64 charged;
	char *head;
	int len;

	if (recipe->file && recipe->protocol->tail_len)
		return ERR_PTR(-EINVAL);
	head = kmalloc(AFPA_HEAD_MAX, AFPA_GFP);
	if (!head)
		return ERR_PTR(-ENOMEM);
	len = recipe->protocol->make_head(recipe, head, AFPA_HEAD_MAX);
	if (len < 0) {
		kfree(head);
		return ERR_PTR(len);
	}
	charged = afpa_object_charge(afpa_recipe_bytes(recipe, len), afpa_recipe_names(recipe)) +
		  (recipe->file ? AFPA_FILE_CHARGE : 0);
	if (!afpa_cache_charge(cache, charged)) {
		kfree(head);
		return ERR_PTR(-ENOSPC);
	}
	obj = afpa_object_fill(recipe, head, len);
	kfree(head);
	if (IS_ERR(obj)) {
		afpa_cache_uncharge(cache, charged);
		return obj;
	}
	obj->cache = cache;
	obj->charged = charged;
	return obj;
}

/* Within the pieces. */
static u64 afpa_object_piece_vecs(const struct afpa_object *obj, u64 pos, u64 len,
				  struct afpa_vecs *vecs)
{
	u64 end = pos + len;
	u32 i, skip;

	for (i = afpa_object_piece(obj, pos);
	     pos < end && vecs->nr < AFPA_VECS && i < obj->pieces; i++) {
		const struct bio_vec *piece = &obj->piece[i];
		struct bio_vec *vec = &vecs->vec[vecs->nr++];

		skip = pos - piece->bv_offset;
		bvec_set_page(vec, piece->bv_page, min_t(u64, end - pos, piece->bv_len - skip),
			      skip);
		pos += vec->bv_len;
	}
	return pos + len - end;
}

static u64 afpa_object_file_vecs(const struct afpa_object *obj, u64 pos, u64 len,
				 struct afpa_vecs *vecs)
{
	unsigned int n;
	u64 bytes = 0;

	n = afpa_file_vecs(obj->file, pos, len, &vecs->vec[vecs->nr], AFPA_VECS - vecs->nr);
	while (n--) {
		vecs->held |= BIT(vecs->nr);
		bytes += vecs->vec[vecs->nr++].bv_len;
	}
	return bytes;
}

u64 afpa_object_vecs(const struct afpa_object *obj, u64 pos, u64 len, struct afpa_vecs *vecs)
{
	u64 head = 0;

	if (!obj->file)
		return afpa_object_piece_vecs(obj, pos, len, vecs);
	if (pos < obj->head_len) {
		head = min(len, obj->head_len - pos);
		if (afpa_object_piece_vecs(obj, pos, head, vecs) < head || head == len)
			return head;
		pos += head;
		len -= head;
	}
	return head + afpa_object_file_vecs(obj, pos - obj->head_len, len, vecs);
}

void afpa_vecs_put(struct afpa_vecs *vecs)
{
	unsigned int i;

	for (i = 0; vecs->held; i++, vecs->held >>= 1)
		if (vecs->held & 1)
			folio_put(page_folio(vecs->vec[i].bv_page));
}
