// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's table of targets follows the engine's. The engine is locked while something is noted and not while the
 * kernel is told: so the kernel may have a mapping for some microseconds longer than we do.
 */
#include "early.h"
#include <errno.h>
#include <handoff.h>
#include <stdlib.h>
#include <string.h>
#include "lardd.h"
#include "tools/base/log.h"
#include "worker.h"

#define NOTES		HOF_EARLY_BATCH
#define FRESH_MS	60000	/* the least recently used of the engine's are that by a minute */
#define PAUSE_MAX	16
#define HEADER_MIN	4096	/* the kernel takes no longer ones */

/**
 * struct early - what the kernel was told
 * @device:   of its own, so that the table ends with it; NULL: it is off
 * @page:     is the engine's, see lard_mirror(); under lardd->lock
 * @notes:    for the kernel; @noted of them; @lost: there were more; all under lardd->lock
 * @flush:    held by who tells it, so that nothing old comes after something new; outside lardd->lock
 * @telling:  what is being told; under @flush
 * @stale:    nodes or services are not what it was told; under lardd->lock
 * @services: what it was told of, @count of them; worker 0's, as what follows
 * @again:    there was no way to one of the nodes: it is told once more
 * @told:     that it is on
 * @why:      it is not on, and should be
 * @pause:    ticks to the try after the next, up to PAUSE_MAX: a table may be large; @left of them to the next
 */
struct early {
	struct handoff *device;
	struct hof_early_page *page;
	struct hof_early_target notes[NOTES];
	_Atomic unsigned int noted;
	bool lost;
	_Atomic bool stale;
	pthread_mutex_t flush;
	struct hof_early_target telling[NOTES];
	union address services[CONFIG_LISTEN_MAX];
	unsigned int count;
	bool again, told;
	const char *why;
	unsigned int pause, left;
};

struct early *early_new(void)
{
	struct early *early = calloc(1, sizeof(*early));

	if (early)
		pthread_mutex_init(&early->flush, NULL);
	return early;
}

/* --- what can be --- */

/* In clear text, at an address of its own, and no cache is asked before a node is. */
static bool is_service(const struct config *config, unsigned int i)
{
	const union address *address = &config->listen[i];

	return config->doors[i] == DOOR_PLAIN && config->misses[i] != MISS_PROXY &&
	       address->any.sa_family == AF_INET && address->in.sin_addr.s_addr != htonl(INADDR_ANY);
}

const char *early_check(const struct config *config)
{
	unsigned int i;

	if (!config->early)
		return NULL;
	if (config->mode == MODE_PROXY)
		return "early needs mode auto: the kernel hands off and does not proxy";
	if (*config->https.client_ca)
		return "early and client-ca: back-ends are told of certificates by the proxy only";
	if (config->cache_size)
		return "early and cache-size: the kernel does not look into the cache before it gives a request away";
	if (config->share_given)
		return "early and share: the kernel does not hear what other front-ends say";
	if (*config->access_log)
		return "early and access-log: what the kernel gives away would not be in it";
	if (config->max_per_address)
		return "early and max-connections-per-address: the kernel does not count them";
	if (config->max_header < HEADER_MIN)
		return "early needs a max-header of 4096 or more: the kernel takes headers of that length";
	for (i = 0; i < config->listens; i++)
		if (is_service(config, i))
			return NULL;
	return "early needs a listener in clear text, and not of redirect or miss proxy, at an IPv4 address of its own";
}

bool early_is(const struct lardd *lardd)
{
	return __atomic_load_n(&lardd->early->page, __ATOMIC_RELAXED);
}

const char *early_state(const struct lardd *lardd)
{
	const struct early *early = lardd->early;

	if (!lardd->worker[0]->config->early)
		return "off";
	return early->told ? "on" : early->why ? early->why : "not yet";
}

/* --- notes --- */

static void add(struct early *early, const struct hof_early_target *target)
{
	unsigned int n = early->noted;

	if (n == NOTES) {
		early->lost = true;
		return;
	}
	early->notes[n] = *target;
	early->noted = n + 1;
}

void early_note(struct lardd *lardd)
{
	const struct lard_kept *k = lard_kept(lardd->engine);
	struct early *early = lardd->early;

	if (!early->page || !k->kept)
		return;
	if (k->lost)
		add(early, &(struct hof_early_target){ .key = k->lost_key });
	add(early, &(struct hof_early_target){
		.key = k->key, .nodes = k->set, .changed_us = k->since_us, .epoch = k->epoch,
	});
}

void early_waiting(struct lardd *lardd)
{
	struct hof_early_page *page = lardd->early->page;

	if (page)
		__atomic_store_n(&page->waiting, lardd->waiters, __ATOMIC_RELAXED);
}

void early_node(struct lardd *lardd, int slot)
{
	struct early *early = lardd->early;
	uint32_t id = lardd->nodes.at[slot].kernel_id;

	if (!early->page || early->page->slots[slot].node == id)
		return;
	__atomic_store_n(&early->page->slots[slot].node, id, __ATOMIC_RELAXED);
	early->stale = true;
}

/* --- the kernel --- */

static void end(struct lardd *lardd)
{
	struct early *early = lardd->early;

	if (!early->device)
		return;
	pthread_mutex_lock(&early->flush);
	pthread_mutex_lock(&lardd->lock);
	if (early->page)
		lard_mirror(lardd->engine, NULL);
	__atomic_store_n(&early->page, NULL, __ATOMIC_RELAXED);
	early->noted = 0;
	early->lost = false;
	pthread_mutex_unlock(&lardd->lock);
	handoff_close(early->device);
	early->device = NULL;
	early->count = 0;
	pthread_mutex_unlock(&early->flush);
	if (early->told)
		log_info("early", "state=off");
	early->told = early->again = false;
}

void early_free(struct lardd *lardd)
{
	if (!lardd->early)
		return;
	end(lardd);
	pthread_mutex_destroy(&lardd->early->flush);
	free(lardd->early);
	lardd->early = NULL;
}

/* It is tried again: that is said once. */
static void sorry(struct early *early, const char *why)
{
	early->left = early->pause;
	early->pause = early->pause ? early->pause * 2 : 1;
	if (early->pause > PAUSE_MAX)
		early->pause = PAUSE_MAX;
	if (!early->why || strcmp(early->why, why))
		log_warn("early", "state=off why=\"%s\"", why);
	early->why = why;
}

static const char *reason_of(int err)
{
	switch (err) {
	case -EPERM:
		return "the kernel refuses: CAP_NET_ADMIN of the machine is needed";
	case -EBUSY:
		return "another program has the service, or a rule of flotilla redirect";
	case -ENOTTY:
	case -EOPNOTSUPP:
		return "this kernel or its handoff.ko cannot do it";
	case -ENOMEM:
		return "there is no memory for it";
	case -ENOENT:
	case -ENODEV:
	case -ENXIO:
		return "/dev/handoff cannot be opened: is handoff.ko loaded?";
	default:
		return "the kernel refuses";
	}
}

static int open_table(struct early *early, uint32_t targets, struct hof_early_page **page)
{
	struct hof_info info;
	int err = handoff_open(&early->device);

	if (err) {
		early->device = NULL;
		return err;
	}
	if (handoff_info(early->device, &info) || !(info.features & HOF_FEATURE_EARLY_TABLE))
		err = -EOPNOTSUPP;
	else
		err = handoff_early_create(early->device, targets < HOF_EARLY_TARGETS_MAX ?
					   targets : HOF_EARLY_TARGETS_MAX, page);
	if (err) {
		handoff_close(early->device);
		early->device = NULL;
	}
	return err;
}

static void begin(struct lardd *lardd)
{
	const struct config *config = lardd->worker[0]->config;
	struct early *early = lardd->early;
	struct hof_early_page *page;
	int err = open_table(early, config->targets, &page), slot;

	if (err) {
		sorry(early, reason_of(err));
		return;
	}
	page->fresh_ms = FRESH_MS;
	page->any_host = !config->key_host;
	pthread_mutex_lock(&lardd->lock);
	__atomic_store_n(&early->page, page, __ATOMIC_RELAXED);
	for (slot = 0; slot < LARD_MAX_NODES; slot++)
		early_node(lardd, slot);
	early_waiting(lardd);
	early->stale = true;
	lard_mirror(lardd->engine, page);
	pthread_mutex_unlock(&lardd->lock);
}

static int serve(struct early *early, const union address *address, const uint32_t *nodes, uint32_t nr)
{
	return handoff_early(early->device, (const uint8_t *)&address->in.sin_addr, address_port(address), nodes, nr);
}

/* Those that are none any more. */
static void drop_services(struct early *early, const struct config *config)
{
	unsigned int i, at, kept = 0;

	for (at = 0; at < early->count; at++) {
		for (i = 0; i < config->listens; i++)
			if (is_service(config, i) && !memcmp(&config->listen[i], &early->services[at],
							     sizeof(early->services[at])))
				break;
		if (i < config->listens)
			early->services[kept++] = early->services[at];
		else
			serve(early, &early->services[at], NULL, 0);
	}
	early->count = kept;
}

/* Which services, and who is in which slot. */
static void tell_services(struct lardd *lardd)
{
	const struct config *config = lardd->worker[0]->config;
	struct early *early = lardd->early;
	uint32_t nodes[LARD_MAX_NODES];
	unsigned int i;
	int err = 0, slot;

	pthread_mutex_lock(&lardd->lock);
	early->stale = false;
	for (slot = 0; slot < LARD_MAX_NODES; slot++)
		nodes[slot] = early->page->slots[slot].node;
	pthread_mutex_unlock(&lardd->lock);
	early->again = false;
	drop_services(early, config);
	for (i = 0; i < config->listens && err >= 0; i++) {
		bool known = false;
		unsigned int at;

		if (!is_service(config, i))
			continue;
		for (at = 0; at < early->count; at++)
			known |= !memcmp(&early->services[at], &config->listen[i], sizeof(config->listen[i]));
		err = serve(early, &config->listen[i], nodes, LARD_MAX_NODES);
		if (err >= 0 && !known)
			early->services[early->count++] = config->listen[i];
		early->again |= err > 0;
	}
	if (err < 0) {
		end(lardd);
		sorry(early, reason_of(err));
	} else if (!early->told) {
		log_info("early", "state=on services=%u", early->count);
		early->told = true;
		early->why = NULL;
		early->pause = 0;
	}
}

/* What is lost of the notes was to be new, or to go: all that the kernel knows goes, and comes again by misses. */
static int tell_notes(struct early *early, unsigned int nr, bool lost)
{
	int err = 0;

	if (lost)
		return handoff_early_clear(early->device);
	if (nr)
		err = handoff_early_set(early->device, early->telling, nr);
	return err < 0 ? handoff_early_clear(early->device) : 0;
}

static void flush(struct lardd *lardd)
{
	struct early *early = lardd->early;
	unsigned int nr;
	bool lost;

	pthread_mutex_lock(&early->flush);
	pthread_mutex_lock(&lardd->lock);
	nr = early->noted;
	lost = early->lost;
	memcpy(early->telling, early->notes, nr * sizeof(early->notes[0]));
	early->noted = 0;
	early->lost = false;
	pthread_mutex_unlock(&lardd->lock);
	/* Not when it has ended meanwhile: then nothing is noted. */
	if ((nr || lost) && tell_notes(early, nr, lost))
		log_error("early", "text=\"the kernel's table of targets cannot be changed\"");
	pthread_mutex_unlock(&early->flush);
}

void early_batch_end(struct worker *w)
{
	struct early *early = w->lardd->early;

	if (early->noted)
		flush(w->lardd);
	if (w->index)
		return;
	/* A successor is to have the services; and what comes is to find our listeners as they end. */
	if (lardd_stopping(w))
		end(w->lardd);
	else if (early->page && early->stale)
		tell_services(w->lardd);
}

void early_tick(struct lardd *lardd)
{
	struct early *early = lardd->early;
	const struct config *config = lardd->worker[0]->config;

	if (lardd_stopping(lardd->worker[0]))
		return;
	/* By another key nothing would be found. */
	if (!config->early || (early->page && early->page->any_host == config->key_host))
		end(lardd);
	if (config->early && !early->device && early->left)
		early->left--;
	else if (config->early && !early->device)
		begin(lardd);
	else if (early->again)
		early->stale = true;
	early->again = false;
}

void early_reload(struct lardd *lardd)
{
	lardd->early->stale = true;
	lardd->early->left = 0;
	early_tick(lardd);
}
