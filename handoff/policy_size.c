// SPDX-License-Identifier: GPL-2.0
/*
 * By length: requests with short answers leave, so that they need not wait behind long ones; or
 * those of another class of lengths (Olaru, 6.8.2, 6.10). A path's length is that of the answers
 * which this node gave: one that it does not know, or has not given for some time, is served here.
 */

#include <linux/bitfield.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/once.h>
#include <linux/random.h>
#include <linux/siphash.h>
#include <linux/timekeeping.h>

#include "assign.h"
#include "policy.h"

/* What is known, of all services; a key has one place, the newer one gets it. 64 KiB. */
#define HOF_SIZES	8192
/* Whose it is, since when it is known (seconds, of 18 hours), and how long; 0: nobody's. */
#define HOF_SIZE_TAG	GENMASK_ULL(63, 40)
#define HOF_SIZE_SINCE	GENMASK_ULL(39, 24)
#define HOF_SIZE_UNITS	GENMASK_ULL(23, 0)
#define HOF_SIZE_UNIT	16
/* Method and path: of longer ones the rest is not looked at. */
#define HOF_SIZE_BYTES	256
/*
 * Unless the operator says otherwise: bytes (no bound where he says from=), and seconds for which a
 * length is known.
 */
#define HOF_SIZE_BELOW	10240
#define HOF_SIZE_AGAIN	60

/* Read and written whole, by anybody. */
static u64 hof_sizes[HOF_SIZES];

static u64 *hof_size_place(u64 key)
{
	return &hof_sizes[(u32)key % HOF_SIZES];
}

static u64 hof_size_now(void)
{
	return FIELD_PREP(HOF_SIZE_SINCE, (u16)ktime_get_seconds());
}

static bool hof_size_is_known(u64 entry, u64 key, u64 again)
{
	u16 age = (u16)ktime_get_seconds() - FIELD_GET(HOF_SIZE_SINCE, entry);

	return entry && (entry & HOF_SIZE_TAG) == (key & HOF_SIZE_TAG) && age < again;
}

/*
 * The longest of its time counts: a client that has the file already gets a short answer. It is
 * told of what stays only; so what always leaves is measured once in a while, and not for ever.
 */
static void hof_size_answered(u64 key, u64 bytes)
{
	u64 *place = hof_size_place(key), entry = READ_ONCE(*place);
	u64 units = min(DIV_ROUND_UP_ULL(bytes, HOF_SIZE_UNIT), FIELD_MAX(HOF_SIZE_UNITS));

	if (!hof_size_is_known(entry, key, U16_MAX))
		entry = (key & HOF_SIZE_TAG) | hof_size_now();
	if (units > FIELD_GET(HOF_SIZE_UNITS, entry))
		entry = (entry & ~HOF_SIZE_UNITS) | FIELD_PREP(HOF_SIZE_UNITS, units);
	WRITE_ONCE(*place, entry);
}

/* A place and a tag that no client can choose. */
static u64 hof_size_key(const struct hof_policy_request *req, u32 length)
{
	static siphash_key_t secret __read_mostly;
	u8 text[HOF_SIZE_BYTES] __aligned(SIPHASH_ALIGNMENT);

	get_random_once(&secret, sizeof(secret));
	length = hof_policy_bytes(req, 0, text, min_t(u32, length, sizeof(text)));
	return siphash_2u64(siphash(text, length, &secret), req->set->service->id, &secret) ?: 1;
}

static int hof_size_request(struct hof_policy_request *req)
{
	u64 again = hof_policy_option(req, "again", HOF_SIZE_AGAIN), *place, entry, bytes;
	u64 from = hof_policy_option(req, "from", 0);
	u32 hash, end;
	int err;

	err = hof_policy_hash_path(req, &hash, &end);
	if (err)
		return err == -EAGAIN ? HOF_POLICY_MORE : HOF_POLICY_STAY;
	req->key = hof_size_key(req, end);
	place = hof_size_place(req->key);
	entry = READ_ONCE(*place);
	if (!hof_size_is_known(entry, req->key, again)) {
		/* The answer begins it anew. */
		cmpxchg64(place, entry, 0);
		return HOF_POLICY_STAY;
	}
	bytes = HOF_SIZE_UNIT * FIELD_GET(HOF_SIZE_UNITS, entry);
	if (bytes < from ||
	    bytes >= hof_policy_option(req, "below", from ? U64_MAX : HOF_SIZE_BELOW))
		return HOF_POLICY_STAY;
	return hof_policy_hash_target(req, hash);
}

struct hof_policy_ops hof_policy_size = {
	.name = "size",
	.request = hof_size_request,
	.answered = hof_size_answered,
	.owner = THIS_MODULE,
};
