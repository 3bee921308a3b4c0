// SPDX-License-Identifier: GPL-2.0
/* The sites of afpa.ko that lardd fills: which there are, and whose they are. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "config.h"
#include "kernel_sites.h"
#include "tools/base/log.h"

struct kernel_cache *kernel_cache_new(void)
{
	struct kernel_cache *kc = calloc(1, sizeof(*kc));

	if (!kc)
		return NULL;
	pthread_rwlock_init(&kc->lock, NULL);
	kc->device = -1;
	kc->why = "cache-kernel is off";
	return kc;
}

/* --- the lock is held for writing, but in kernel_cache_free() --- */

static void close_site(struct kernel_cache *kc, struct site *site)
{
	char text[AFPA_SITE_TEXT];
	int err = 0;

	if (site->ours)
		err = afpa_site_del(kc->device, &site->name, NULL);
	else if (site->on)
		err = afpa_ban_tag(kc->device, &site->name, KERNEL_TAG, NULL);
	if (err && err != -ENOENT)
		log_warn("cache-kernel", "site=%s why=\"%s\" text=\"it cannot be taken away\"",
			 afpa_site_name(&site->name, text), strerror(-err));
	site->on = site->ours = false;
}

static void close_device(struct kernel_cache *kc)
{
	unsigned int i;

	for (i = 0; i < kc->count && kc->device >= 0 && !kc->given; i++)
		close_site(kc, &kc->sites[i]);
	if (kc->device >= 0)
		close(kc->device);
	kc->device = -1;
}

void kernel_cache_free(struct kernel_cache *kc)
{
	if (!kc)
		return;
	close_device(kc);
	pthread_rwlock_destroy(&kc->lock);
	free(kc);
}

static struct site *find_site(struct kernel_cache *kc, const struct afpa_site *name)
{
	unsigned int i;

	for (i = 0; i < kc->count; i++)
		if (!memcmp(&kc->sites[i].name, name, sizeof(*name)))
			return &kc->sites[i];
	return NULL;
}

static struct site *add_site(struct kernel_cache *kc, const struct afpa_site *name)
{
	struct site *site = find_site(kc, name);

	if (site || kc->count == KERNEL_SITES_MAX)
		return site;
	site = &kc->sites[kc->count];
	site->name = *name;
	kc->count++;
	return site;
}

uint8_t kernel_cache_site(struct kernel_cache *kc, const union address *address)
{
	struct site *site = NULL;
	struct afpa_site name;

	if (afpa_site_of(&name, &address->any))
		return KERNEL_SITE_NONE;
	pthread_rwlock_wrlock(&kc->lock);
	site = add_site(kc, &name);
	pthread_rwlock_unlock(&kc->lock);
	return site ? site - kc->sites : KERNEL_SITE_NONE;
}

static int is_this(const struct afpa_next_site *next, void *arg)
{
	return !memcmp(&next->site, arg, sizeof(next->site));
}

static int open_site(struct kernel_cache *kc, struct site *site)
{
	int there = afpa_site_each(kc->device, is_this, &site->name), err;
	char protocol[AFPA_PROTOCOL_NAME];

	if (there < 0)
		return there;
	/* Whoever has added it may have meant another protocol. */
	if (there && !afpa_site_protocol(kc->device, &site->name, protocol) && strcmp(protocol, "http"))
		return -EPROTONOSUPPORT;
	/* Also of one that is there, so that it finds new listeners. */
	err = afpa_site_add(kc->device, &site->name, NULL);
	if (!err) {
		site->on = true;
		site->ours |= !there;
	}
	return err;
}

static bool is_wanted(const struct config *config, const struct site *site)
{
	struct afpa_site name;
	unsigned int i;

	for (i = 0; config->cache_kernel && config->cache_size && i < config->listens; i++)
		if (config->doors[i] == DOOR_PLAIN && !afpa_site_of(&name, &config->listen[i].any) &&
		    !memcmp(&name, &site->name, sizeof(name)))
			return true;
	return false;
}

static bool has_sites(const struct kernel_cache *kc)
{
	unsigned int i;

	for (i = 0; i < kc->count; i++)
		if (kc->sites[i].ours)
			return true;
	return false;
}

static int open_device(struct kernel_cache *kc)
{
	int device = afpa_open();

	if (device < 0)
		return device;
	kc->device = device;
	return 0;
}

static const char *configure(struct kernel_cache *kc, const struct config *config)
{
	const char *why = NULL;
	char text[AFPA_SITE_TEXT];
	unsigned int i;
	int err;

	if (kc->device < 0 && (err = open_device(kc))) {
		log_warn("cache-kernel", "why=\"%s\" text=\"/dev/afpa cannot be opened: lardd's own cache it is\"",
			 strerror(-err));
		return "/dev/afpa cannot be opened: is afpa.ko loaded, and may we use it?";
	}
	for (i = 0; i < kc->count; i++) {
		struct site *site = &kc->sites[i];

		if (!is_wanted(config, site)) {
			close_site(kc, site);
			continue;
		}
		err = open_site(kc, site);
		if (!err)
			continue;
		site->on = false;
		log_warn("cache-kernel", "site=%s why=\"%s\" text=\"it is not filled\"",
			 afpa_site_name(&site->name, text), strerror(-err));
		why = "a site could not be added: see the log";
	}
	return why;
}

void kernel_cache_configure(struct kernel_cache *kc, const struct config *config)
{
	bool wanted = config->cache_kernel && config->cache_size;
	struct afpa_site name;
	unsigned int i;

	pthread_rwlock_wrlock(&kc->lock);
	for (i = 0; wanted && i < config->listens; i++)
		if (config->doors[i] == DOOR_PLAIN && !afpa_site_of(&name, &config->listen[i].any))
			add_site(kc, &name);
	/* What a predecessor has left is taken away even if nothing is wanted. */
	kc->why = wanted || has_sites(kc) ? configure(kc, config) : NULL;
	if (!wanted) {
		close_device(kc);
		kc->why = "cache-kernel is off";
	}
	kc->told = 0;
	pthread_rwlock_unlock(&kc->lock);
}

void kernel_cache_inherit(struct kernel_cache *kc, const char *names)
{
	char text[AFPA_SITE_TEXT];
	struct afpa_site name;
	struct site *site;
	int len;

	for (; sscanf(names, " %63s%n", text, &len) == 1; names += len) {
		if (afpa_site_parse(&name, text))
			continue;
		site = add_site(kc, &name);
		if (site)
			site->ours = true;
	}
}

char *kernel_cache_ours(struct kernel_cache *kc)
{
	char *names = calloc(KERNEL_SITES_MAX, AFPA_SITE_TEXT + 1), *at = names, text[AFPA_SITE_TEXT];
	unsigned int i;

	pthread_rwlock_rdlock(&kc->lock);
	for (i = 0; names && i < kc->count; i++)
		if (kc->sites[i].ours)
			at += sprintf(at, "%s ", afpa_site_name(&kc->sites[i].name, text));
	pthread_rwlock_unlock(&kc->lock);
	return names;
}

void kernel_cache_give_away(struct kernel_cache *kc)
{
	pthread_rwlock_wrlock(&kc->lock);
	kc->given = true;
	pthread_rwlock_unlock(&kc->lock);
}

unsigned int kernel_cache_filled(const struct kernel_cache *kc)
{
	unsigned int i, n = 0;

	for (i = 0; i < kc->count; i++)
		n += kc->sites[i].on;
	return n;
}

void kernel_cache_get_info(struct kernel_cache *kc, struct kernel_cache_info *info)
{
	pthread_rwlock_rdlock(&kc->lock);
	*info = (struct kernel_cache_info){
		.on = kc->device >= 0, .sites = kernel_cache_filled(kc), .why = kc->why,
	};
	pthread_rwlock_unlock(&kc->lock);
}
