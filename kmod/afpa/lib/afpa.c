// SPDX-License-Identifier: MIT
/* /dev/afpa for programs: settings, sites and objects. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "afpa.h"

static int call(int dev, unsigned long request, void *arg)
{
	return ioctl(dev, request, arg) < 0 ? -errno : 0;
}

int afpa_open(void)
{
	int dev = open(AFPA_DEVICE, O_RDWR | O_CLOEXEC);

	return dev < 0 ? -errno : dev;
}

int afpa_open_node(const char *name, uint32_t timeout_ms)
{
	struct afpa_node node = { .size = sizeof(node), .timeout_ms = timeout_ms };
	int dev, err;

	if (strlen(name) >= sizeof(node.name))
		return -EINVAL;
	strcpy(node.name, name);
	dev = afpa_open();
	if (dev < 0)
		return dev;
	err = call(dev, AFPA_IOC_NODE, &node);
	if (!err)
		return dev;
	close(dev);
	return err;
}

int afpa_remote(int dev, uint32_t *from)
{
	struct afpa_remote_args args = { .size = sizeof(args) };
	int err = call(dev, AFPA_IOC_REMOTE, &args);

	*from = args.from;
	return err;
}

int afpa_set_remote(int dev, uint32_t from)
{
	struct afpa_remote_args args = {
		.size = sizeof(args),
		.flags = AFPA_REMOTE_SET,
		.from = from,
	};

	return call(dev, AFPA_IOC_REMOTE, &args);
}

int afpa_info(int dev, struct afpa_info *info)
{
	*info = (struct afpa_info){ .size = sizeof(*info) };
	return call(dev, AFPA_IOC_INFO, info);
}

int afpa_set(int dev, struct afpa_info *info)
{
	info->size = sizeof(*info);
	return call(dev, AFPA_IOC_SET, info);
}

int afpa_policy(int dev, uint32_t *policy)
{
	struct afpa_policy_args args = { .size = sizeof(args) };
	int err = call(dev, AFPA_IOC_POLICY, &args);

	*policy = args.policy;
	return err;
}

int afpa_set_policy(int dev, uint32_t policy)
{
	struct afpa_policy_args args = {
		.size = sizeof(args),
		.flags = AFPA_POLICY_SET,
		.policy = policy,
	};

	return call(dev, AFPA_IOC_POLICY, &args);
}

int afpa_site_of(struct afpa_site *site, const struct sockaddr *addr)
{
	const struct sockaddr_in6 *v6 = (const void *)addr;
	const struct sockaddr_in *v4 = (const void *)addr;

	memset(site, 0, sizeof(*site));
	site->family = addr->sa_family;
	if (addr->sa_family == AF_INET) {
		site->port = v4->sin_port;
		memcpy(site->addr, &v4->sin_addr, sizeof(v4->sin_addr));
	} else if (addr->sa_family == AF_INET6) {
		site->port = v6->sin6_port;
		memcpy(site->addr, &v6->sin6_addr, sizeof(v6->sin6_addr));
	} else {
		return -EAFNOSUPPORT;
	}
	return site->port ? 0 : -EINVAL;
}

int afpa_site_parse(struct afpa_site *site, const char *text)
{
	char addr[AFPA_SITE_TEXT], *colon, *end;
	size_t len = strlen(text);
	unsigned long port;

	memset(site, 0, sizeof(*site));
	if (len >= sizeof(addr))
		return -EINVAL;
	memcpy(addr, text, len + 1);
	colon = strrchr(addr, ':');
	if (!colon || colon[1] < '0' || colon[1] > '9')
		return -EINVAL;
	*colon = '\0';
	port = strtoul(colon + 1, &end, 10);
	if (*end || !port || port > 65535)
		return -EINVAL;
	site->port = htons(port);
	if (addr[0] == '[' && colon - addr > 2 && colon[-1] == ']') {
		colon[-1] = '\0';
		site->family = AF_INET6;
		return inet_pton(AF_INET6, addr + 1, site->addr) == 1 ? 0 : -EINVAL;
	}
	site->family = AF_INET;
	return inet_pton(AF_INET, addr, site->addr) == 1 ? 0 : -EINVAL;
}

const char *afpa_site_name(const struct afpa_site *site, char text[AFPA_SITE_TEXT])
{
	char addr[INET6_ADDRSTRLEN];

	if (!inet_ntop(site->family, site->addr, addr, sizeof(addr)))
		addr[0] = '\0';
	snprintf(text, AFPA_SITE_TEXT, site->family == AF_INET6 ? "[%s]:%u" : "%s:%u", addr,
		 ntohs(site->port));
	return text;
}

int afpa_site_add(int dev, const struct afpa_site *site, struct afpa_site_args *result)
{
	struct afpa_site_args own, *args = result ? result : &own;

	*args = (struct afpa_site_args){ .size = sizeof(*args), .site = *site };
	return call(dev, AFPA_IOC_SITE_ADD, args);
}

int afpa_site_listen(int dev, const struct afpa_site *site, const char *protocol,
		     struct afpa_site_args *result)
{
	struct afpa_listen args = { .size = sizeof(args), .site = *site };
	int err;

	if (strlen(protocol) >= sizeof(args.protocol))
		return -EINVAL;
	strcpy(args.protocol, protocol);
	err = call(dev, AFPA_IOC_LISTEN, &args);
	if (result)
		*result = (struct afpa_site_args){
			.size = sizeof(*result),
			.site = *site,
			.listeners = args.listeners,
			.refused = args.refused,
			.error = args.error,
		};
	return err;
}

int afpa_site_protocol(int dev, const struct afpa_site *site, char protocol[AFPA_PROTOCOL_NAME])
{
	struct afpa_listen args = { .size = sizeof(args), .site = *site };
	int err = call(dev, AFPA_IOC_PROTOCOL, &args);

	memcpy(protocol, args.protocol, sizeof(args.protocol));
	return err;
}

int afpa_site_del(int dev, const struct afpa_site *site, uint64_t *objects)
{
	struct afpa_site_args args = { .size = sizeof(args), .site = *site };
	int err = call(dev, AFPA_IOC_SITE_DEL, &args);

	if (objects)
		*objects = args.objects;
	return err;
}

int afpa_site_each(int dev, afpa_site_fn fn, void *arg)
{
	struct afpa_next_site next = { .size = sizeof(next) };
	uint32_t index;
	int ret;

	for (index = 0; ; index++) {
		next = (struct afpa_next_site){ .size = sizeof(next), .index = index };
		ret = call(dev, AFPA_IOC_NEXT_SITE, &next);
		if (ret)
			return ret == -ENOENT ? 0 : ret;
		ret = fn(&next, arg);
		if (ret)
			return ret;
	}
}

/* Longer ones than the kernel's fields can say are refused here as there. */
static int length(const char *text, size_t max, uint16_t *len)
{
	size_t n = text ? strlen(text) : 0;

	if (n > max)
		return -EINVAL;
	*len = n;
	return 0;
}

static int put(int dev, uint32_t flags, const struct afpa_site *site, const char *host,
	       const char *path, const struct afpa_object *object, uint64_t *version)
{
	struct afpa_put args = {
		.size = sizeof(args),
		.flags = flags | object->flags,
		.site = *site,
		.ttl_ms = object->ttl_ms,
		.host = (uintptr_t)host,
		.path = (uintptr_t)path,
		.type = (uintptr_t)object->type,
		.headers = (uintptr_t)object->headers,
		.body = (uintptr_t)object->body,
		.body_len = object->body_len,
		.since = object->since,
		.tags = (uintptr_t)object->tags,
		.tags_len = object->tags ? strlen(object->tags) : 0,
		/* Who does not know of it may have been built with a smaller structure. */
		.age = object->flags & AFPA_PUT_AGED ? object->age : 0,
	};
	int err;

	if (length(host, AFPA_HOST_MAX, &args.host_len) ||
	    length(path, AFPA_PATH_MAX, &args.path_len) ||
	    length(object->type, AFPA_TYPE_MAX, &args.type_len) ||
	    length(object->headers, AFPA_HEADERS_MAX, &args.headers_len))
		return -EINVAL;
	err = call(dev, AFPA_IOC_PUT, &args);
	if (version)
		*version = args.version;
	return err;
}

int afpa_put(int dev, const struct afpa_site *site, const char *host, const char *path,
	     const struct afpa_object *object, uint64_t *version)
{
	return put(dev, 0, site, host, path, object, version);
}

int afpa_put_file(int dev, const struct afpa_site *site, const char *host, const char *path, int fd,
		  const struct afpa_object *object, uint64_t *version)
{
	struct afpa_object file = *object;

	if (fd < 0)
		return -EBADF;
	file.body = (void *)(uintptr_t)fd;
	file.body_len = 0;
	return put(dev, AFPA_PUT_FILE, site, host, path, &file, version);
}

int afpa_update(int dev, const struct afpa_site *site, const char *host, const char *path,
		const struct afpa_object *object, uint64_t *version)
{
	return put(dev, AFPA_PUT_UPDATE, site, host, path, object, version);
}

static int key_call(int dev, unsigned long request, const struct afpa_site *site, const char *host,
		    const char *path, struct afpa_key *key)
{
	key->size = sizeof(*key);
	key->site = *site;
	key->host = (uintptr_t)host;
	key->path = (uintptr_t)path;
	if (length(host, AFPA_HOST_MAX, &key->host_len) ||
	    length(path, AFPA_PATH_MAX, &key->path_len))
		return -EINVAL;
	return call(dev, request, key);
}

int afpa_del(int dev, const struct afpa_site *site, const char *host, const char *path)
{
	struct afpa_key key = { 0 };

	return key_call(dev, AFPA_IOC_DEL, site, host, path, &key);
}

int afpa_query(int dev, const struct afpa_site *site, const char *host, const char *path,
	       struct afpa_key *key)
{
	memset(key, 0, sizeof(*key));
	return key_call(dev, AFPA_IOC_QUERY, site, host, path, key);
}

int afpa_explain(int dev, const struct afpa_site *site, const char *host, const char *path,
		 struct afpa_explain *explain)
{
	*explain = (struct afpa_explain){
		.size = sizeof(*explain),
		.site = *site,
		.host = (uintptr_t)host,
		.path = (uintptr_t)path,
	};
	if (length(host, AFPA_HOST_MAX, &explain->host_len) ||
	    length(path, AFPA_PATH_MAX, &explain->path_len))
		return -EINVAL;
	return call(dev, AFPA_IOC_EXPLAIN, explain);
}

int afpa_ttl(int dev, const struct afpa_site *site, const char *host, const char *path,
	     uint32_t ttl_ms)
{
	struct afpa_key key = { .left_ms = ttl_ms };

	return key_call(dev, AFPA_IOC_TTL, site, host, path, &key);
}

int afpa_flush(int dev, const struct afpa_site *site, uint64_t *objects)
{
	struct afpa_site_args args = { .size = sizeof(args) };
	int err;

	if (site)
		args.site = *site;
	else
		args.flags = AFPA_ALL_SITES;
	err = call(dev, AFPA_IOC_FLUSH, &args);
	if (objects)
		*objects = args.objects;
	return err;
}

static int ban(int dev, uint32_t flags, const struct afpa_site *site, const char *host,
	       const char *text, size_t most, uint64_t *objects)
{
	struct afpa_ban args = {
		.size = sizeof(args),
		.flags = flags,
		.host = (uintptr_t)host,
		.text = (uintptr_t)text,
	};
	int err;

	if (length(host, AFPA_HOST_MAX, &args.host_len) || length(text, most, &args.text_len))
		return -EINVAL;
	if (site)
		args.site = *site;
	else
		args.flags |= AFPA_ALL_SITES;
	err = call(dev, AFPA_IOC_BAN, &args);
	if (objects)
		*objects = args.objects;
	return err;
}

int afpa_ban(int dev, const struct afpa_site *site, const char *host, const char *prefix,
	     uint64_t *objects)
{
	return ban(dev, 0, site, host, prefix, AFPA_PATH_MAX, objects);
}

int afpa_ban_tag(int dev, const struct afpa_site *site, const char *tag, uint64_t *objects)
{
	return ban(dev, AFPA_BAN_TAG, site, NULL, tag, AFPA_TAGS_MAX, objects);
}

int afpa_ticket(int dev, uint64_t *ticket)
{
	struct afpa_ticket args = { .size = sizeof(args) };
	int err = call(dev, AFPA_IOC_TICKET, &args);

	*ticket = args.ticket;
	return err;
}

int afpa_log(int dev, uint32_t bytes)
{
	struct afpa_log_args args = { .size = sizeof(args), .bytes = bytes };

	return call(dev, AFPA_IOC_LOG, &args);
}

const struct afpa_record *afpa_record_next(const void *buf, size_t len,
					   const struct afpa_record *last)
{
	const char *next = last ? (const char *)last + last->len : buf;

	return next < (const char *)buf + len ? (const void *)next : NULL;
}

int afpa_each(int dev, afpa_object_fn fn, void *arg)
{
	char host[AFPA_HOST_MAX + 1], path[AFPA_PATH_MAX + 1];
	uint64_t cursor = 0;
	int ret;

	for (;;) {
		struct afpa_key key = {
			.size = sizeof(key),
			.host_len = AFPA_HOST_MAX,
			.path_len = AFPA_PATH_MAX,
			.host = (uintptr_t)host,
			.path = (uintptr_t)path,
			.cursor = cursor,
		};

		ret = call(dev, AFPA_IOC_NEXT, &key);
		if (ret)
			return ret == -ENOENT ? 0 : ret;
		cursor = key.cursor;
		host[key.host_len] = '\0';
		path[key.path_len] = '\0';
		ret = fn(&key, host, path, arg);
		if (ret)
			return ret;
	}
}

const char *afpa_mode_name(uint32_t mode)
{
	static const char *const names[] = { "off", "softirq", "thread", "hybrid" };

	return mode < sizeof(names) / sizeof(names[0]) ? names[mode] : "unknown";
}

const char *afpa_policy_name(uint32_t policy)
{
	static const char *const names[] = { "clock", "lru" };

	return policy < sizeof(names) / sizeof(names[0]) ? names[policy] : "unknown";
}

const char *afpa_remote_name(uint32_t from)
{
	static const char *const names[] = { "off", "frontends", "nodes" };

	return from < sizeof(names) / sizeof(names[0]) ? names[from] : "unknown";
}

const char *afpa_last_name(uint32_t last)
{
	static const char *const names[] = {
		"none", "deleted", "banned", "flushed", "expired", "evicted", "shrunk", "refused",
	};

	return last < sizeof(names) / sizeof(names[0]) ? names[last] : "unknown";
}
