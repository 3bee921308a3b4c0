// SPDX-License-Identifier: GPL-2.0
/* Why a block is asked for where it is. */

#include <linux/netlink.h>

#include "disk.h"
#include "entry.h"
#include "explain.h"
#include "export.h"

static void card_explain_place(const struct card_cache *cache, u16 place, char *name)
{
	if (place == cache->self)
		strscpy(name, "self", FLT_NAME_MAX);
	else if (place < cache->nr)
		strscpy(name, cache->members->name[place], FLT_NAME_MAX);
	else
		name[0] = '\0';
}

static u8 card_explain_copy(const struct card_cache *cache, const struct card_entry *e)
{
	if (!e)
		return CARD_COPY_UNKNOWN;
	if (card_cache_other(cache, e->next))
		return CARD_COPY_OLDER;
	if (e->previous == CARD_DISK_PLACE || !card_cache_other(cache, e->previous))
		return CARD_COPY_SINGLET;
	return CARD_COPY_RECENT;
}

static void card_explain_block(struct card_cache *cache, u64 block, struct card_explained *out)
{
	struct card_entry *e;

	strscpy(out->policy, cache->policy->name, sizeof(out->policy));
	spin_lock_irq(&cache->lock);
	e = card_entry_find(cache, block);
	if (e && e->hosted)
		out->held = CARD_HELD_HOSTED;
	else if (card_cache_holds(cache, block))
		out->held = CARD_HELD_CACHED;
	out->copy = card_explain_copy(cache, e);
	card_explain_place(cache, card_cache_home(cache, block), out->home);
	card_explain_place(cache, e ? e->previous : CARD_NOBODY, out->previous);
	card_explain_place(cache, e ? e->next : CARD_NOBODY, out->next);
	card_explain_place(cache, cache->policy->lookup(cache, block), out->ask);
	out->nr_hosted = cache->nr_hosted;
	out->host_max = cache->host_max;
	spin_unlock_irq(&cache->lock);
}

/* The cache that is meant, its size in blocks, and its name into @out. */
static struct card_cache *card_explain_find(struct card_net *cn, const char *name, u64 *blocks,
					    struct card_explained *out, unsigned int *found)
{
	struct card_cache *cache = NULL;
	struct card_export *export;
	struct card_disk *disk;
	unsigned long id;

	lockdep_assert_held(&cn->lock);
	xa_for_each(&cn->disks, id, disk) {
		if (!disk->ready || (name ? strcmp(disk->gendisk->disk_name, name) : !disk->cache))
			continue;
		(*found)++;
		cache = disk->cache;
		*blocks = DIV_ROUND_UP(READ_ONCE(disk->geo.sectors), CARD_BLOCK_SECTORS);
		strscpy(out->name, disk->gendisk->disk_name, sizeof(out->name));
	}
	xa_for_each(&cn->exports, id, export) {
		if (name ? strcmp(export->spec.name, name) : !export->cache)
			continue;
		(*found)++;
		cache = export->cache;
		*blocks = DIV_ROUND_UP(export->sectors, CARD_BLOCK_SECTORS);
		strscpy(out->name, export->spec.name, sizeof(out->name));
	}
	return cache;
}

int card_explain(struct card_net *cn, const char *name, u64 block, struct card_explained *out,
		 struct netlink_ext_ack *extack)
{
	struct card_cache *cache;
	unsigned int found = 0;
	u64 blocks = 0;
	int err = 0;

	memset(out, 0, sizeof(*out));
	mutex_lock(&cn->lock);
	cache = card_explain_find(cn, name, &blocks, out, &found);
	if (!found) {
		NL_SET_ERR_MSG(extack, "there is no such disk or export");
		err = -ENOENT;
	} else if (found > 1) {
		NL_SET_ERR_MSG(extack, "there are several: name the disk or the export");
		err = -EINVAL;
	} else if (!cache) {
		NL_SET_ERR_MSG(extack, "it has no policy: all is asked of the exporter");
		err = -EOPNOTSUPP;
	} else if (block >= blocks) {
		NL_SET_ERR_MSG(extack, "the disk has no such block");
		err = -ERANGE;
	} else {
		card_explain_block(cache, block, out);
	}
	mutex_unlock(&cn->lock);
	return err;
}
