// SPDX-License-Identifier: GPL-2.0
/* What programs say of objects, here or at another node: see the uapi header for the contract. */

#include <linux/ctype.h>
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <flotilla/afpa.h>

#include "cache.h"
#include "calls.h"
#include "file.h"
#include "past.h"
#include "protocol.h"
#include "request.h"
#include "site.h"

/**
 * struct afpa_key_at - a key as a caller has it
 * @site:     of it
 * @host:     address
 * @path:     address
 * @host_len: bytes
 * @path_len: bytes
 */
struct afpa_key_at {
	const struct afpa_site *site;
	u64 host;
	u64 path;
	u16 host_len;
	u16 path_len;
};

/* What a key is there, and other strings of an object, copied. */
struct afpa_names {
	char host[AFPA_HOST_MAX];
	char path[AFPA_PATH_MAX];
	char type[AFPA_TYPE_MAX];
	char headers[AFPA_HEADERS_MAX];
	char tags[AFPA_TAGS_MAX];
};

static int afpa_call_bytes(char *to, u64 from, size_t len, size_t most, bool user)
{
	if (len > most)
		return -EINVAL;
	return afpa_copy_in(to, from, len, user);
}

static bool afpa_key_host_is_sound(const char *host, size_t len)
{
	return (len == 1 && host[0] == '*') || afpa_host_length(host, len, NULL) == len;
}

static void afpa_call_lower(char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		text[i] = tolower(text[i]);
}

/* A request could ask for it. */
static bool afpa_key_is_sound(const struct afpa_protocol *protocol, const struct afpa_key_ref *key)
{
	return key->host_len && key->path_len &&
	       afpa_key_host_is_sound(key->host, key->host_len) && protocol->key_is_sound(key);
}

/* The key at @at, copied to @names and judged. */
static int afpa_call_take_key(struct afpa_net *an, const struct afpa_key_at *at, bool user,
			      struct afpa_key_ref *key, struct afpa_names *names)
{
	const struct afpa_protocol *protocol;
	int err;

	err = afpa_call_bytes(names->host, at->host, at->host_len, sizeof(names->host), user) ?:
	      afpa_call_bytes(names->path, at->path, at->path_len, sizeof(names->path), user);
	if (err)
		return err;
	key->host_len = at->host_len;
	key->path_len = at->path_len;
	key->host = names->host;
	key->path = names->path;
	protocol = afpa_site_protocol(an, at->site, &key->site);
	if (!protocol)
		return -ENOENT;
	if (!afpa_key_is_sound(protocol, key))
		err = -EINVAL;
	afpa_protocol_put(protocol);
	afpa_call_lower(names->host, key->host_len);
	return err;
}

/* What each call that names an object does: @act with the key, and with room for more strings. */
static int afpa_call_key(struct afpa_net *an, const struct afpa_key_at *at, bool user, void *args,
			 int (*act)(struct afpa_net *an, const struct afpa_key_ref *key,
				    struct afpa_names *names, void *args))
{
	struct afpa_names *names = kmalloc(sizeof(*names), GFP_KERNEL);
	struct afpa_key_ref key = {};
	int err;

	if (!names)
		return -ENOMEM;
	err = afpa_call_take_key(an, at, user, &key, names) ?: act(an, &key, names, args);
	kfree(names);
	return err;
}

static bool afpa_is_printable(const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if ((u8)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return true;
}

static int afpa_put_file(struct afpa_recipe *recipe, const struct afpa_put *args)
{
	struct file *file;

	/* A descriptor is one of the caller's. */
	if (!recipe->user)
		return -EOPNOTSUPP;
	if (args->body_len)
		return -EINVAL;
	file = afpa_file_open(args->body, &recipe->body_len);
	if (IS_ERR(file))
		return PTR_ERR(file);
	recipe->file = file;
	return 0;
}

/* But for its key. */
static int afpa_put_recipe(struct afpa_net *an, struct afpa_recipe *recipe,
			   struct afpa_names *names, const struct afpa_put *args)
{
	bool user = recipe->user;
	int err;

	err = afpa_call_bytes(names->type, args->type, args->type_len, sizeof(names->type), user);
	err = err ?: afpa_call_bytes(names->headers, args->headers, args->headers_len,
				     sizeof(names->headers), user);
	err = err ?: afpa_call_bytes(names->tags, args->tags, args->tags_len, sizeof(names->tags),
				     user);
	if (err)
		return err;
	if (!afpa_is_printable(names->type, args->type_len) ||
	    !afpa_is_printable(names->tags, args->tags_len))
		return -EINVAL;
	recipe->type = names->type;
	recipe->type_len = args->type_len;
	recipe->headers = names->headers;
	recipe->headers_len = args->headers_len;
	recipe->tags = names->tags;
	recipe->tags_len = args->tags_len;
	recipe->body = args->body;
	recipe->body_len = args->body_len;
	err = args->flags & AFPA_PUT_FILE ? afpa_put_file(recipe, args) : 0;
	if (err)
		return err;
	recipe->automatic = args->flags & AFPA_PUT_AUTOMATIC;
	recipe->aged = args->flags & AFPA_PUT_AGED;
	recipe->age = args->age;
	return recipe->body_len > READ_ONCE(an->max_object) ? -EFBIG : 0;
}

static struct afpa_object *afpa_put_make(struct afpa_net *an, const struct afpa_recipe *recipe)
{
	struct afpa_object *obj = afpa_object_make(&an->cache, recipe);
	u64 body = recipe->file ? 0 : recipe->body_len;

	/* The caller's group is at its limit, and reclaim of a group does not find the cache. */
	if (obj == ERR_PTR(-ENOMEM) &&
	    afpa_cache_make_room(an, &recipe->key, 2 * body + SZ_64K)) {
		rcu_barrier();
		obj = afpa_object_make(&an->cache, recipe);
	}
	return obj;
}

static int afpa_put_insert(struct afpa_net *an, struct afpa_recipe *recipe, struct afpa_put *args)
{
	struct afpa_object *obj;
	int err;

	obj = afpa_put_make(an, recipe);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	recipe->file = NULL;	/* the object's */
	err = afpa_cache_put(an, obj, args->ttl_ms, args->flags & AFPA_PUT_UPDATE, args->since,
			     &args->version);
	if (err)
		afpa_object_put(obj);
	else if (afpa_site_id(an, &args->site) != recipe->key.site)
		afpa_cache_flush(an, recipe->key.site);	/* taken away meanwhile */
	return err;
}

/* Not that there was nothing to be replaced: why that is so is remembered already. */
static bool afpa_put_remembers(int err)
{
	return err && err != -ENOENT && err != -EFAULT;
}

/**
 * struct afpa_putting - a put under way
 * @args:   as its caller said it
 * @recipe: of the object
 * @id:     of the site whose protocol @recipe has
 */
struct afpa_putting {
	struct afpa_put *args;
	struct afpa_recipe recipe;
	u32 id;
};

static int afpa_put_key(struct afpa_net *an, const struct afpa_key_ref *key,
			struct afpa_names *names, void *arg)
{
	struct afpa_putting *putting = arg;
	struct afpa_recipe *recipe = &putting->recipe;
	int err;

	/* Taken away meanwhile, and added again with another protocol. */
	if (key->site != putting->id)
		return -ENOENT;
	recipe->key = *key;
	afpa_past_begin(&an->cache);
	err = afpa_put_recipe(an, recipe, names, putting->args) ?:
	      afpa_put_insert(an, recipe, putting->args);
	if (afpa_put_remembers(err))
		afpa_cache_refuse(an, key, err);
	return err;
}

int afpa_call_put(struct afpa_net *an, void *arg, bool user)
{
	struct afpa_put *args = arg;
	struct afpa_key_at at = {
		.site = &args->site,
		.host = args->host,
		.path = args->path,
		.host_len = args->host_len,
		.path_len = args->path_len,
	};
	struct afpa_putting putting = { .args = args, .recipe.user = user };
	int err;

	if (args->flags & ~(AFPA_PUT_UPDATE | AFPA_PUT_AUTOMATIC | AFPA_PUT_AGED | AFPA_PUT_FILE))
		return -EOPNOTSUPP;
	if (args->age > (args->flags & AFPA_PUT_AGED ? AFPA_AGE_MAX : 0))
		return -EINVAL;
	putting.recipe.protocol = afpa_site_protocol(an, &args->site, &putting.id);
	if (!putting.recipe.protocol)
		return -ENOENT;
	err = afpa_call_key(an, &at, user, &putting, afpa_put_key);
	if (putting.recipe.file)
		afpa_file_close(putting.recipe.file);
	afpa_protocol_put(putting.recipe.protocol);
	return err;
}

int afpa_call_ticket(struct afpa_net *an, void *arg, bool user)
{
	struct afpa_ticket *args = arg;

	return args->flags ? -EOPNOTSUPP : afpa_cache_ticket(an, &args->ticket);
}

/* A tag is one word; of a path any bytes, as some requests' begin with it or none. */
static bool afpa_ban_is_sound(const struct afpa_ban_ref *ban)
{
	if (ban->host_len && !afpa_key_host_is_sound(ban->host, ban->host_len))
		return false;
	if (!ban->text_len || !afpa_is_printable(ban->text, ban->text_len))
		return false;
	return ban->is_tag ? !memchr(ban->text, ' ', ban->text_len) : ban->text[0] == '/';
}

static int afpa_ban_take(struct afpa_net *an, struct afpa_ban_ref *ban, struct afpa_names *names,
			 const struct afpa_ban *args, bool user)
{
	size_t most = args->flags & AFPA_BAN_TAG ? AFPA_TAGS_MAX : AFPA_PATH_MAX;
	int err;

	err = afpa_call_bytes(names->host, args->host, args->host_len, sizeof(names->host), user) ?:
	      afpa_call_bytes(names->path, args->text, args->text_len, most, user);
	if (err)
		return err;
	*ban = (struct afpa_ban_ref){
		.host_len = args->host_len,
		.text_len = args->text_len,
		.is_tag = args->flags & AFPA_BAN_TAG,
		.host = names->host,
		.text = names->path,
	};
	if (!afpa_ban_is_sound(ban))
		return -EINVAL;
	afpa_call_lower(names->host, args->host_len);
	if (args->flags & AFPA_ALL_SITES)
		return 0;
	ban->site = afpa_site_id(an, &args->site);
	return ban->site ? 0 : -ENOENT;
}

int afpa_call_ban(struct afpa_net *an, void *arg, bool user)
{
	struct afpa_ban *args = arg;
	struct afpa_names *names;
	struct afpa_ban_ref ban;
	int err;

	if (args->flags & ~(AFPA_ALL_SITES | AFPA_BAN_TAG))
		return -EOPNOTSUPP;
	names = kmalloc(sizeof(*names), GFP_KERNEL);
	if (!names)
		return -ENOMEM;
	err = afpa_ban_take(an, &ban, names, args, user);
	if (!err)
		args->objects = afpa_cache_ban(an, &ban);
	kfree(names);
	return err;
}

static void afpa_key_describe(struct afpa_key *args, const struct afpa_object *obj)
{
	u64 now = get_jiffies_64(), expires = READ_ONCE(obj->expires);

	args->flags = (obj->automatic ? AFPA_PUT_AUTOMATIC : 0) | (obj->aged ? AFPA_PUT_AGED : 0) |
		      (obj->file ? AFPA_PUT_FILE : 0);
	args->age = obj->aged ? afpa_object_age(obj) : 0;
	args->version = obj->version;
	args->body_len = obj->body_len;
	args->charged = obj->charged;
	args->hits = atomic64_read(&obj->hits);
	args->age_ms = jiffies64_to_msecs(now - obj->put);
	args->left_ms = 0;
	if (expires)
		args->left_ms = time_before64(now, expires) ?
				min_t(u64, jiffies64_to_msecs(expires - now), U32_MAX) : 1;
}

static int afpa_key_query(struct afpa_net *an, const struct afpa_key_ref *key,
			  struct afpa_names *names, void *arg)
{
	struct afpa_object *obj;

	rcu_read_lock();
	obj = afpa_cache_find_exact(&an->cache, key);
	if (obj)
		afpa_key_describe(arg, obj);
	rcu_read_unlock();
	return obj ? 0 : -ENOENT;
}

static int afpa_key_del(struct afpa_net *an, const struct afpa_key_ref *key,
			struct afpa_names *names, void *arg)
{
	return afpa_cache_del(an, key);
}

static int afpa_key_ttl(struct afpa_net *an, const struct afpa_key_ref *key,
			struct afpa_names *names, void *arg)
{
	struct afpa_key *args = arg;

	return afpa_cache_set_ttl(an, key, args->left_ms) ?: afpa_key_query(an, key, names, arg);
}

static bool afpa_key_flags_are_known(const struct afpa_key *args)
{
	return !(args->flags & ~(AFPA_PUT_AUTOMATIC | AFPA_PUT_AGED | AFPA_PUT_FILE));
}

static int afpa_call_object(struct afpa_net *an, struct afpa_key *args, bool user,
			    int (*act)(struct afpa_net *an, const struct afpa_key_ref *key,
				       struct afpa_names *names, void *args))
{
	struct afpa_key_at at = {
		.site = &args->site,
		.host = args->host,
		.path = args->path,
		.host_len = args->host_len,
		.path_len = args->path_len,
	};

	if (!afpa_key_flags_are_known(args))
		return -EOPNOTSUPP;
	return afpa_call_key(an, &at, user, args, act);
}

int afpa_call_query(struct afpa_net *an, void *args, bool user)
{
	return afpa_call_object(an, args, user, afpa_key_query);
}

int afpa_call_del(struct afpa_net *an, void *args, bool user)
{
	return afpa_call_object(an, args, user, afpa_key_del);
}

int afpa_call_ttl(struct afpa_net *an, void *args, bool user)
{
	return afpa_call_object(an, args, user, afpa_key_ttl);
}

static int afpa_key_explain(struct afpa_net *an, const struct afpa_key_ref *key,
			    struct afpa_names *names, void *arg)
{
	struct afpa_explain *args = arg;
	struct afpa_object *obj;
	struct afpa_past past;

	obj = afpa_cache_recall(an, key, &past);
	args->state = 0;
	args->last = past.last;
	args->error = past.error;
	args->last_ms = past.last ? jiffies64_to_msecs(get_jiffies_64() - past.when) : 0;
	args->version = past.version;
	args->hits = past.hits;
	if (!obj)
		return 0;
	args->state = AFPA_EXPLAIN_THERE;
	if (!afpa_object_is_there(obj))
		args->state |= AFPA_EXPLAIN_ON_DISK;
	args->version = obj->version;
	args->hits = atomic64_read(&obj->hits);
	afpa_object_put(obj);
	return 0;
}

int afpa_call_explain(struct afpa_net *an, void *arg, bool user)
{
	struct afpa_explain *args = arg;
	struct afpa_key_at at = {
		.site = &args->site,
		.host = args->host,
		.path = args->path,
		.host_len = args->host_len,
		.path_len = args->path_len,
	};

	if (args->flags)
		return -EOPNOTSUPP;
	if (args->pad)
		return -EINVAL;
	return afpa_call_key(an, &at, user, args, afpa_key_explain);
}

/* Also -ENOSPC gives back how much room is needed. */
static int afpa_next_name(struct afpa_key *args, const struct afpa_object *obj, bool user)
{
	bool fits = args->host_len >= obj->key.host_len && args->path_len >= obj->key.path_len;
	int err;

	args->host_len = obj->key.host_len;
	args->path_len = obj->key.path_len;
	if (!fits)
		return -ENOSPC;
	err = afpa_copy_out(args->host, obj->key.host, obj->key.host_len, user) ?:
	      afpa_copy_out(args->path, obj->key.path, obj->key.path_len, user);
	if (!err)
		args->cursor = obj->version;
	return err;
}

int afpa_call_next(struct afpa_net *an, void *arg, bool user)
{
	struct afpa_key *args = arg;
	struct afpa_object *obj;
	u64 cursor = args->cursor;
	int err;

	if (!afpa_key_flags_are_known(args))
		return -EOPNOTSUPP;
	/* Of a site that is going, or expired: not listed. */
	while (true) {
		obj = afpa_cache_next(&an->cache, cursor);
		if (!obj)
			return -ENOENT;
		if (!afpa_object_is_over(obj, get_jiffies_64()) &&
		    !afpa_site_at(an, obj->key.site, &args->site))
			break;
		cursor = obj->version;
		afpa_object_put(obj);
	}
	afpa_key_describe(args, obj);
	err = afpa_next_name(args, obj, user);
	afpa_object_put(obj);
	return err;
}
