// SPDX-License-Identifier: GPL-2.0
/* What programs say of objects to /dev/afpa: see the uapi header for the contract. */

#include <linux/ctype.h>
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <flotilla/afpa.h>

#include "cache.h"
#include "device.h"
#include "file.h"
#include "past.h"
#include "protocol.h"
#include "request.h"
#include "site.h"

/* What a key is in user memory, copied. */
struct afpa_names {
	char host[AFPA_HOST_MAX];
	char path[AFPA_PATH_MAX];
	char type[AFPA_TYPE_MAX];
	char headers[AFPA_HEADERS_MAX];
	char tags[AFPA_TAGS_MAX];
};

static int afpa_device_bytes(char *to, u64 from, size_t len, size_t most)
{
	if (len > most)
		return -EINVAL;
	return copy_from_user(to, u64_to_user_ptr(from), len) ? -EFAULT : 0;
}

static bool afpa_key_host_is_sound(const char *host, size_t len)
{
	return (len == 1 && host[0] == '*') || afpa_host_length(host, len, NULL) == len;
}

static void afpa_device_lower(char *text, size_t len)
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

static int afpa_device_key(struct afpa_net *an, struct afpa_key_ref *key, struct afpa_names *names,
			   const struct afpa_site *site, u64 host, u64 path)
{
	const struct afpa_protocol *protocol;
	int err;

	err = afpa_device_bytes(names->host, host, key->host_len, sizeof(names->host)) ?:
	      afpa_device_bytes(names->path, path, key->path_len, sizeof(names->path));
	if (err)
		return err;
	key->host = names->host;
	key->path = names->path;
	protocol = afpa_site_protocol(an, site, &key->site);
	if (!protocol)
		return -ENOENT;
	if (!afpa_key_is_sound(protocol, key))
		err = -EINVAL;
	afpa_protocol_put(protocol);
	afpa_device_lower(names->host, key->host_len);
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

static int afpa_device_file(struct afpa_recipe *recipe, const struct afpa_put *args)
{
	struct file *file;

	if (args->body_len)
		return -EINVAL;
	file = afpa_file_open(args->body, &recipe->body_len);
	if (IS_ERR(file))
		return PTR_ERR(file);
	recipe->file = file;
	return 0;
}

/* But for its key. */
static int afpa_device_recipe(struct afpa_net *an, struct afpa_recipe *recipe,
			      struct afpa_names *names, const struct afpa_put *args)
{
	int err;

	err = afpa_device_bytes(names->type, args->type, args->type_len, sizeof(names->type)) ?:
	      afpa_device_bytes(names->headers, args->headers, args->headers_len,
				sizeof(names->headers)) ?:
	      afpa_device_bytes(names->tags, args->tags, args->tags_len, sizeof(names->tags));
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
	recipe->body = u64_to_user_ptr(args->body);
	recipe->body_len = args->body_len;
	err = args->flags & AFPA_PUT_FILE ? afpa_device_file(recipe, args) : 0;
	if (err)
		return err;
	recipe->automatic = args->flags & AFPA_PUT_AUTOMATIC;
	recipe->aged = args->flags & AFPA_PUT_AGED;
	recipe->age = args->age;
	return recipe->body_len > READ_ONCE(an->max_object) ? -EFBIG : 0;
}

static struct afpa_object *afpa_device_make(struct afpa_net *an, const struct afpa_recipe *recipe)
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

static int afpa_device_insert(struct afpa_net *an, struct afpa_recipe *recipe,
			      struct afpa_put *args)
{
	struct afpa_object *obj;
	int err;

	obj = afpa_device_make(an, recipe);
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
static bool afpa_device_remembers(int err)
{
	return err && err != -ENOENT && err != -EFAULT;
}

static int afpa_device_put_key(struct afpa_net *an, struct afpa_recipe *recipe,
			       struct afpa_names *names, struct afpa_put *args, u32 id)
{
	int err;

	recipe->key.host_len = args->host_len;
	recipe->key.path_len = args->path_len;
	err = afpa_device_key(an, &recipe->key, names, &args->site, args->host, args->path);
	if (err)
		return err;
	/* Taken away meanwhile, and added again with another protocol. */
	if (recipe->key.site != id)
		return -ENOENT;
	afpa_past_begin(&an->cache);
	err = afpa_device_recipe(an, recipe, names, args) ?: afpa_device_insert(an, recipe, args);
	if (afpa_device_remembers(err))
		afpa_cache_refuse(an, &recipe->key, err);
	return err;
}

int afpa_device_put(struct afpa_net *an, void __user *arg)
{
	struct afpa_recipe recipe = {};
	struct afpa_names *names;
	struct afpa_put args;
	u32 id;
	int err;

	err = afpa_device_copy(&args, sizeof(args), arg);
	if (err)
		return err;
	if (args.flags & ~(AFPA_PUT_UPDATE | AFPA_PUT_AUTOMATIC | AFPA_PUT_AGED | AFPA_PUT_FILE))
		return -EOPNOTSUPP;
	if (args.age > (args.flags & AFPA_PUT_AGED ? AFPA_AGE_MAX : 0))
		return -EINVAL;
	recipe.protocol = afpa_site_protocol(an, &args.site, &id);
	if (!recipe.protocol)
		return -ENOENT;
	names = kmalloc(sizeof(*names), GFP_KERNEL);
	err = names ? afpa_device_put_key(an, &recipe, names, &args, id) : -ENOMEM;
	err = err ?: afpa_device_return(arg, &args, sizeof(args));
	if (recipe.file)
		afpa_file_close(recipe.file);
	kfree(names);
	afpa_protocol_put(recipe.protocol);
	return err;
}

int afpa_device_ticket(struct afpa_net *an, void __user *arg)
{
	struct afpa_ticket args;
	int err;

	err = afpa_device_copy(&args, sizeof(args), arg);
	if (err)
		return err;
	if (args.flags)
		return -EOPNOTSUPP;
	return afpa_cache_ticket(an, &args.ticket) ?: afpa_device_return(arg, &args, sizeof(args));
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

static int afpa_device_ban_ref(struct afpa_net *an, struct afpa_ban_ref *ban,
			       struct afpa_names *names, const struct afpa_ban *args)
{
	size_t most = args->flags & AFPA_BAN_TAG ? AFPA_TAGS_MAX : AFPA_PATH_MAX;
	int err;

	err = afpa_device_bytes(names->host, args->host, args->host_len, sizeof(names->host)) ?:
	      afpa_device_bytes(names->path, args->text, args->text_len, most);
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
	afpa_device_lower(names->host, args->host_len);
	if (args->flags & AFPA_ALL_SITES)
		return 0;
	ban->site = afpa_site_id(an, &args->site);
	return ban->site ? 0 : -ENOENT;
}

int afpa_device_ban(struct afpa_net *an, void __user *arg)
{
	struct afpa_names *names;
	struct afpa_ban_ref ban;
	struct afpa_ban args;
	int err;

	err = afpa_device_copy(&args, sizeof(args), arg);
	if (err)
		return err;
	if (args.flags & ~(AFPA_ALL_SITES | AFPA_BAN_TAG))
		return -EOPNOTSUPP;
	names = kmalloc(sizeof(*names), GFP_KERNEL);
	if (!names)
		return -ENOMEM;
	err = afpa_device_ban_ref(an, &ban, names, &args);
	if (!err)
		args.objects = afpa_cache_ban(an, &ban);
	kfree(names);
	return err ?: afpa_device_return(arg, &args, sizeof(args));
}

static void afpa_device_describe(struct afpa_key *args, const struct afpa_object *obj)
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

int afpa_device_query(struct afpa_net *an, const struct afpa_key_ref *key,
		      struct afpa_key *args)
{
	struct afpa_object *obj;

	rcu_read_lock();
	obj = afpa_cache_find_exact(&an->cache, key);
	if (obj)
		afpa_device_describe(args, obj);
	rcu_read_unlock();
	return obj ? 0 : -ENOENT;
}

int afpa_device_del(struct afpa_net *an, const struct afpa_key_ref *key,
		    struct afpa_key *args)
{
	return afpa_cache_del(an, key);
}

int afpa_device_ttl(struct afpa_net *an, const struct afpa_key_ref *key,
		    struct afpa_key *args)
{
	return afpa_cache_set_ttl(an, key, args->left_ms) ?: afpa_device_query(an, key, args);
}

static int afpa_device_copy_key(struct afpa_key *args, void __user *arg)
{
	int err = afpa_device_copy(args, sizeof(*args), arg);

	if (err)
		return err;
	if (args->flags & ~(AFPA_PUT_AUTOMATIC | AFPA_PUT_AGED | AFPA_PUT_FILE))
		return -EOPNOTSUPP;
	return 0;
}

int afpa_device_object(struct afpa_net *an, void __user *arg,
		       int (*do_it)(struct afpa_net *an, const struct afpa_key_ref *key,
				    struct afpa_key *args))
{
	struct afpa_key_ref key = {};
	struct afpa_names *names;
	struct afpa_key args;
	int err;

	err = afpa_device_copy_key(&args, arg);
	if (err)
		return err;
	names = kmalloc(sizeof(*names), GFP_KERNEL);
	if (!names)
		return -ENOMEM;
	key.host_len = args.host_len;
	key.path_len = args.path_len;
	err = afpa_device_key(an, &key, names, &args.site, args.host, args.path);
	if (!err)
		err = do_it(an, &key, &args);
	kfree(names);
	return err ?: afpa_device_return(arg, &args, sizeof(args));
}

static void afpa_device_explain_key(struct afpa_net *an, const struct afpa_key_ref *key,
				    struct afpa_explain *args)
{
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
		return;
	args->state = AFPA_EXPLAIN_THERE;
	if (!afpa_object_is_there(obj))
		args->state |= AFPA_EXPLAIN_ON_DISK;
	args->version = obj->version;
	args->hits = atomic64_read(&obj->hits);
	afpa_object_put(obj);
}

int afpa_device_explain(struct afpa_net *an, void __user *arg)
{
	struct afpa_key_ref key = {};
	struct afpa_explain args;
	struct afpa_names *names;
	int err;

	err = afpa_device_copy(&args, sizeof(args), arg);
	if (err)
		return err;
	if (args.flags)
		return -EOPNOTSUPP;
	if (args.pad)
		return -EINVAL;
	names = kmalloc(sizeof(*names), GFP_KERNEL);
	if (!names)
		return -ENOMEM;
	key.host_len = args.host_len;
	key.path_len = args.path_len;
	err = afpa_device_key(an, &key, names, &args.site, args.host, args.path);
	if (!err)
		afpa_device_explain_key(an, &key, &args);
	kfree(names);
	return err ?: afpa_device_return(arg, &args, sizeof(args));
}

/* Also -ENOSPC gives back how much room is needed. */
static int afpa_device_name(struct afpa_key *args, const struct afpa_object *obj)
{
	bool fits = args->host_len >= obj->key.host_len && args->path_len >= obj->key.path_len;

	args->host_len = obj->key.host_len;
	args->path_len = obj->key.path_len;
	if (!fits)
		return -ENOSPC;
	if (copy_to_user(u64_to_user_ptr(args->host), obj->key.host, obj->key.host_len) ||
	    copy_to_user(u64_to_user_ptr(args->path), obj->key.path, obj->key.path_len))
		return -EFAULT;
	args->cursor = obj->version;
	return 0;
}

int afpa_device_next(struct afpa_net *an, void __user *arg)
{
	struct afpa_object *obj;
	struct afpa_key args;
	u64 cursor;
	int err;

	err = afpa_device_copy_key(&args, arg);
	if (err)
		return err;
	cursor = args.cursor;
	/* Of a site that is going, or expired: not listed. */
	while (true) {
		obj = afpa_cache_next(&an->cache, cursor);
		if (!obj)
			return -ENOENT;
		if (!afpa_object_is_over(obj, get_jiffies_64()) &&
		    !afpa_site_at(an, obj->key.site, &args.site))
			break;
		cursor = obj->version;
		afpa_object_put(obj);
	}
	afpa_device_describe(&args, obj);
	err = afpa_device_name(&args, obj);
	afpa_object_put(obj);
	if (err && err != -ENOSPC)
		return err;
	return afpa_device_return(arg, &args, sizeof(args)) ?: err;
}
