// SPDX-License-Identifier: GPL-2.0
#include "cache_class.h"
#include <string.h>
#include <strings.h>
#include "cacheable.h"
#include "response.h"

#define BIT(class)	(1U << CLASS_##class)

const char *const cache_class_names[CACHE_CLASSES] = { "static", "image", "dynamic" };

/* What is behind the last dot of a path's last part. */
static struct span extension(struct span path)
{
	const char *slash = memrchr(path.at, '/', path.len);
	const char *start = slash ? slash : path.at, *end = path.at + path.len;
	const char *dot = memrchr(start, '.', end - start);

	return dot ? (struct span){ dot + 1, end - dot - 1 } : (struct span){ end, 0 };
}

static bool is_one_of(struct span word, const char *const *words)
{
	for (; *words; words++)
		if (span_is(word, *words))
			return true;
	return false;
}

static bool begins_as_dynamic(const struct cache_policy *policy, struct span path)
{
	unsigned int i;

	for (i = 0; i < policy->prefixes; i++) {
		size_t len = strlen(policy->dynamic[i]);

		if (path.len >= len && !memcmp(path.at, policy->dynamic[i], len))
			return true;
	}
	return false;
}

unsigned int cache_class_of_target(const struct cache_policy *policy, struct span target)
{
	static const char *const images[] = {
		"avif", "bmp", "gif", "ico", "jpeg", "jpg", "png", "svg", "tif", "tiff", "webp", NULL,
	};
	/* Nobody's name for a file that is served as it is. */
	static const char *const scripts[] = { "asp", "aspx", "cgi", "do", "jsp", "php", "pl", "py", NULL };
	struct span end;

	if (memchr(target.at, '?', target.len) || begins_as_dynamic(policy, target))
		return BIT(DYNAMIC);
	end = extension(target);
	if (is_one_of(end, images))
		return BIT(IMAGE);
	return !end.len || is_one_of(end, scripts) ? BIT(STATIC) | BIT(DYNAMIC) : BIT(STATIC);
}

bool cache_class_is_kept(const struct cache_policy *policy, struct span target)
{
	unsigned int classes = cache_class_of_target(policy, target), i;

	for (i = 0; i < CACHE_CLASSES; i++)
		if (classes & 1U << i && policy->classes[i].on)
			return true;
	return false;
}

enum cache_class cache_class_of_answer(unsigned int classes, const struct response *r)
{
	struct span type = cacheable_field(&r->fields, "content-type");

	if (classes == BIT(DYNAMIC))
		return CLASS_DYNAMIC;
	if (type.len > 6 && !strncasecmp(type.at, "image/", 6))
		return CLASS_IMAGE;
	/* Who cannot say whether it has changed has made it for the request. */
	return cacheable_field(&r->fields, "last-modified").at ||
	       cacheable_field(&r->fields, "etag").at ? CLASS_STATIC : CLASS_DYNAMIC;
}
