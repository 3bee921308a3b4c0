// SPDX-License-Identifier: GPL-2.0
/* The table of calls that are made here or at another node. */

#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <linux/stddef.h>

#include "cache.h"
#include "calls.h"
#include "net.h"
#include "protocol.h"
#include "remote.h"
#include "site.h"

#define IN	AFPA_FIELD_IN
#define OUT	AFPA_FIELD_OUT

#define U16(type, name, way)	{ offsetof(type, name), sizeof(u16), way }
#define U32(type, name, way)	{ offsetof(type, name), sizeof(u32), way }
#define U64(type, name, way)	{ offsetof(type, name), sizeof(u64), way }
#define RAW16(type, name, way)	{ offsetof(type, name), sizeof(u16), AFPA_FIELD_RAW | (way) }
#define RAW64(type, name, way)	{ offsetof(type, name), sizeof(u64), AFPA_FIELD_RAW | (way) }

static const struct afpa_field put_fields[] = {
	U32(struct afpa_put, flags, IN),
	U16(struct afpa_put, site.family, IN),
	RAW16(struct afpa_put, site.port, IN),
	RAW64(struct afpa_put, site.addr[0], IN),
	RAW64(struct afpa_put, site.addr[8], IN),
	U16(struct afpa_put, host_len, IN),
	U16(struct afpa_put, path_len, IN),
	U16(struct afpa_put, type_len, IN),
	U16(struct afpa_put, headers_len, IN),
	U32(struct afpa_put, tags_len, IN),
	U64(struct afpa_put, body_len, IN),
	U32(struct afpa_put, ttl_ms, IN),
	U64(struct afpa_put, since, IN),
	U32(struct afpa_put, age, IN),
	U64(struct afpa_put, version, OUT),
	{}
};

static const struct afpa_text put_texts[] = {
	{ offsetof(struct afpa_put, host), offsetof(struct afpa_put, host_len),
	  sizeof(u16), IN, AFPA_HOST_MAX },
	{ offsetof(struct afpa_put, path), offsetof(struct afpa_put, path_len),
	  sizeof(u16), IN, AFPA_PATH_MAX },
	{ offsetof(struct afpa_put, type), offsetof(struct afpa_put, type_len),
	  sizeof(u16), IN, AFPA_TYPE_MAX },
	{ offsetof(struct afpa_put, headers), offsetof(struct afpa_put, headers_len),
	  sizeof(u16), IN, AFPA_HEADERS_MAX },
	{ offsetof(struct afpa_put, tags), offsetof(struct afpa_put, tags_len),
	  sizeof(u32), IN, AFPA_TAGS_MAX },
	{ offsetof(struct afpa_put, body), offsetof(struct afpa_put, body_len),
	  sizeof(u64), IN, AFPA_REMOTE_BODY_MAX },
	{}
};

static const struct afpa_field key_fields[] = {
	U32(struct afpa_key, flags, IN | OUT),
	U16(struct afpa_key, site.family, IN),
	RAW16(struct afpa_key, site.port, IN),
	RAW64(struct afpa_key, site.addr[0], IN),
	RAW64(struct afpa_key, site.addr[8], IN),
	U16(struct afpa_key, host_len, IN),
	U16(struct afpa_key, path_len, IN),
	U32(struct afpa_key, left_ms, IN | OUT),
	U64(struct afpa_key, version, OUT),
	U64(struct afpa_key, body_len, OUT),
	U64(struct afpa_key, charged, OUT),
	U64(struct afpa_key, hits, OUT),
	U64(struct afpa_key, age_ms, OUT),
	U32(struct afpa_key, age, OUT),
	{}
};

static const struct afpa_text key_texts[] = {
	{ offsetof(struct afpa_key, host), offsetof(struct afpa_key, host_len),
	  sizeof(u16), IN, AFPA_HOST_MAX },
	{ offsetof(struct afpa_key, path), offsetof(struct afpa_key, path_len),
	  sizeof(u16), IN, AFPA_PATH_MAX },
	{}
};

static const struct afpa_field next_fields[] = {
	U32(struct afpa_key, flags, IN | OUT),
	U16(struct afpa_key, site.family, OUT),
	RAW16(struct afpa_key, site.port, OUT),
	RAW64(struct afpa_key, site.addr[0], OUT),
	RAW64(struct afpa_key, site.addr[8], OUT),
	U16(struct afpa_key, host_len, IN | OUT),
	U16(struct afpa_key, path_len, IN | OUT),
	U64(struct afpa_key, cursor, IN | OUT),
	U64(struct afpa_key, version, OUT),
	U64(struct afpa_key, body_len, OUT),
	U64(struct afpa_key, charged, OUT),
	U64(struct afpa_key, hits, OUT),
	U64(struct afpa_key, age_ms, OUT),
	U32(struct afpa_key, left_ms, OUT),
	U32(struct afpa_key, age, OUT),
	{}
};

static const struct afpa_text next_texts[] = {
	{ offsetof(struct afpa_key, host), offsetof(struct afpa_key, host_len),
	  sizeof(u16), OUT, AFPA_HOST_MAX },
	{ offsetof(struct afpa_key, path), offsetof(struct afpa_key, path_len),
	  sizeof(u16), OUT, AFPA_PATH_MAX },
	{}
};

static const struct afpa_field flush_fields[] = {
	U32(struct afpa_site_args, flags, IN),
	U16(struct afpa_site_args, site.family, IN),
	RAW16(struct afpa_site_args, site.port, IN),
	RAW64(struct afpa_site_args, site.addr[0], IN),
	RAW64(struct afpa_site_args, site.addr[8], IN),
	U64(struct afpa_site_args, objects, OUT),
	{}
};

static const struct afpa_field ban_fields[] = {
	U32(struct afpa_ban, flags, IN),
	U16(struct afpa_ban, site.family, IN),
	RAW16(struct afpa_ban, site.port, IN),
	RAW64(struct afpa_ban, site.addr[0], IN),
	RAW64(struct afpa_ban, site.addr[8], IN),
	U16(struct afpa_ban, host_len, IN),
	U16(struct afpa_ban, text_len, IN),
	U64(struct afpa_ban, objects, OUT),
	{}
};

static const struct afpa_text ban_texts[] = {
	{ offsetof(struct afpa_ban, host), offsetof(struct afpa_ban, host_len),
	  sizeof(u16), IN, AFPA_HOST_MAX },
	{ offsetof(struct afpa_ban, text), offsetof(struct afpa_ban, text_len),
	  sizeof(u16), IN, AFPA_PATH_MAX },
	{}
};

static const struct afpa_field ticket_fields[] = {
	U32(struct afpa_ticket, flags, IN),
	U64(struct afpa_ticket, ticket, OUT),
	{}
};

static const struct afpa_field explain_fields[] = {
	U32(struct afpa_explain, flags, IN),
	U16(struct afpa_explain, site.family, IN),
	RAW16(struct afpa_explain, site.port, IN),
	RAW64(struct afpa_explain, site.addr[0], IN),
	RAW64(struct afpa_explain, site.addr[8], IN),
	U16(struct afpa_explain, host_len, IN),
	U16(struct afpa_explain, path_len, IN),
	U32(struct afpa_explain, pad, IN),
	U32(struct afpa_explain, state, OUT),
	U32(struct afpa_explain, last, OUT),
	U32(struct afpa_explain, error, OUT),
	U64(struct afpa_explain, last_ms, OUT),
	U64(struct afpa_explain, version, OUT),
	U64(struct afpa_explain, hits, OUT),
	{}
};

static const struct afpa_text explain_texts[] = {
	{ offsetof(struct afpa_explain, host), offsetof(struct afpa_explain, host_len),
	  sizeof(u16), IN, AFPA_HOST_MAX },
	{ offsetof(struct afpa_explain, path), offsetof(struct afpa_explain, path_len),
	  sizeof(u16), IN, AFPA_PATH_MAX },
	{}
};

static const struct afpa_field info_fields[] = {
	U32(struct afpa_info, flags, IN),
	U32(struct afpa_info, version, OUT),
	U32(struct afpa_info, mode, OUT),
	U64(struct afpa_info, budget, OUT),
	U64(struct afpa_info, max_object, OUT),
	U32(struct afpa_info, stall_ms, OUT),
	U32(struct afpa_info, sites, OUT),
	U64(struct afpa_info, used, OUT),
	U64(struct afpa_info, objects, OUT),
	{}
};

static const struct afpa_field next_site_fields[] = {
	U32(struct afpa_next_site, index, IN),
	U16(struct afpa_next_site, site.family, OUT),
	RAW16(struct afpa_next_site, site.port, OUT),
	RAW64(struct afpa_next_site, site.addr[0], OUT),
	RAW64(struct afpa_next_site, site.addr[8], OUT),
	U32(struct afpa_next_site, listeners, OUT),
	U64(struct afpa_next_site, conns, OUT),
	{}
};

static const struct afpa_field protocol_fields[] = {
	U32(struct afpa_listen, flags, IN),
	U16(struct afpa_listen, site.family, IN),
	RAW16(struct afpa_listen, site.port, IN),
	RAW64(struct afpa_listen, site.addr[0], IN),
	RAW64(struct afpa_listen, site.addr[8], IN),
	RAW64(struct afpa_listen, protocol[0], OUT),
	RAW64(struct afpa_listen, protocol[8], OUT),
	{}
};

/* Of calls that have none. */
static const struct afpa_text no_texts[] = { {} };

static const struct afpa_call afpa_calls[] = {
	{ AFPA_IOC_PUT, 1, sizeof(struct afpa_put), true,
	  afpa_call_put, put_fields, put_texts },
	{ AFPA_IOC_DEL, 2, sizeof(struct afpa_key), true,
	  afpa_call_del, key_fields, key_texts },
	{ AFPA_IOC_QUERY, 3, sizeof(struct afpa_key), false,
	  afpa_call_query, key_fields, key_texts },
	{ AFPA_IOC_TTL, 4, sizeof(struct afpa_key), true,
	  afpa_call_ttl, key_fields, key_texts },
	{ AFPA_IOC_NEXT, 5, sizeof(struct afpa_key), false,
	  afpa_call_next, next_fields, next_texts },
	{ AFPA_IOC_FLUSH, 6, sizeof(struct afpa_site_args), true,
	  afpa_call_flush, flush_fields, no_texts },
	{ AFPA_IOC_BAN, 7, sizeof(struct afpa_ban), true,
	  afpa_call_ban, ban_fields, ban_texts },
	{ AFPA_IOC_TICKET, 8, sizeof(struct afpa_ticket), true,
	  afpa_call_ticket, ticket_fields, no_texts },
	{ AFPA_IOC_EXPLAIN, 9, sizeof(struct afpa_explain), false,
	  afpa_call_explain, explain_fields, explain_texts },
	{ AFPA_IOC_INFO, 10, sizeof(struct afpa_info), false,
	  afpa_call_info, info_fields, no_texts },
	{ AFPA_IOC_NEXT_SITE, 11, sizeof(struct afpa_next_site), false,
	  afpa_call_next_site, next_site_fields, no_texts },
	{ AFPA_IOC_PROTOCOL, 12, sizeof(struct afpa_listen), false,
	  afpa_call_protocol, protocol_fields, no_texts },
};

static_assert(sizeof(union afpa_args) <= U8_MAX);
static_assert(ARRAY_SIZE(put_fields) <= AFPA_VALUES_MAX);
static_assert(ARRAY_SIZE(put_texts) <= AFPA_TEXTS_MAX + 1);
static_assert(sizeof_field(struct afpa_listen, protocol) == 16);

const struct afpa_call *afpa_call_of(unsigned int cmd)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(afpa_calls); i++)
		if (afpa_calls[i].cmd == cmd)
			return &afpa_calls[i];
	return NULL;
}

const struct afpa_call *afpa_call_numbered(u8 number)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(afpa_calls); i++)
		if (afpa_calls[i].number == number)
			return &afpa_calls[i];
	return NULL;
}

/* --- those that name no object --- */

int afpa_call_info(struct afpa_net *an, void *arg, bool user)
{
	struct afpa_info *args = arg;

	if (args->flags)
		return -EOPNOTSUPP;
	args->version = AFPA_VERSION;
	args->mode = READ_ONCE(an->mode);
	args->budget = READ_ONCE(an->cache.budget);
	args->max_object = READ_ONCE(an->max_object);
	args->stall_ms = READ_ONCE(an->stall_ms);
	args->sites = READ_ONCE(an->nr_sites);
	args->used = READ_ONCE(an->cache.used[AFPA_CLOCK_ALL]);
	args->objects = READ_ONCE(an->cache.objects);
	return 0;
}

int afpa_call_flush(struct afpa_net *an, void *arg, bool user)
{
	struct afpa_site_args *args = arg;
	u32 id = 0;

	if (args->flags & ~AFPA_ALL_SITES)
		return -EOPNOTSUPP;
	if (!(args->flags & AFPA_ALL_SITES)) {
		id = afpa_site_id(an, &args->site);
		if (!id)
			return -ENOENT;
	}
	args->objects = afpa_cache_flush(an, id);
	return 0;
}

int afpa_call_next_site(struct afpa_net *an, void *args, bool user)
{
	return afpa_site_next(an, args);
}

int afpa_call_protocol(struct afpa_net *an, void *arg, bool user)
{
	const struct afpa_protocol *protocol;
	struct afpa_listen *args = arg;
	u32 id;

	if (args->flags)
		return -EOPNOTSUPP;
	protocol = afpa_site_protocol(an, &args->site, &id);
	if (!protocol)
		return -ENOENT;
	args->listeners = 0;
	args->refused = 0;
	args->error = 0;
	strscpy_pad(args->protocol, protocol->name);
	afpa_protocol_put(protocol);
	return 0;
}
