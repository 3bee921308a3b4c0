// SPDX-License-Identifier: GPL-2.0
/* The table of protocols that are loaded. */

#include <linux/capability.h>
#include <linux/ctype.h>
#include <linux/err.h>
#include <linux/kmod.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <flotilla/afpa.h>

#include "protocol.h"

static LIST_HEAD(afpa_protocols);
static DEFINE_MUTEX(afpa_protocols_lock);	/* afpa_protocols */

static struct afpa_protocol *afpa_protocol_find(const char *name)
{
	struct afpa_protocol *protocol;

	lockdep_assert_held(&afpa_protocols_lock);
	list_for_each_entry(protocol, &afpa_protocols, list)
		if (!strcmp(protocol->name, name))
			return protocol;
	return NULL;
}

/* What may be handed to modprobe, too. */
static bool afpa_protocol_name_is_sound(const char *name)
{
	size_t i, len = strnlen(name, AFPA_PROTOCOL_NAME);

	for (i = 0; i < len; i++)
		if (!(isascii(name[i]) && (islower(name[i]) || isdigit(name[i]))))
			return false;
	return len && len < AFPA_PROTOCOL_NAME;
}

static bool afpa_protocol_state_is_sound(const struct afpa_protocol *protocol, unsigned int state)
{
	const u8 *next = protocol->next[state];
	unsigned int i, rows = 0;

	if (!protocol->states[state].act)
		return false;
	for (i = 0; i < AFPA_RESULTS; i++) {
		if (next[i] >= protocol->nr_states && (next[i] < AFPA_NEXT || next[i] > AFPA_LEAVE))
			return false;
		rows += !!next[i];
	}
	return rows;
}

static bool afpa_protocol_is_sound(const struct afpa_protocol *protocol)
{
	unsigned int i;

	if (!protocol->name || !afpa_protocol_name_is_sound(protocol->name) ||
	    !protocol->key_is_sound || !protocol->make_head || !protocol->states ||
	    !protocol->next || !protocol->nr_states || protocol->nr_states > AFPA_PROTOCOL_STATES ||
	    protocol->data_size % sizeof(u64) || protocol->request_size % sizeof(u64) ||
	    protocol->data_size + protocol->request_size > AFPA_PROTOCOL_DATA ||
	    protocol->tail_last > protocol->tail_len || (protocol->tail_len && !protocol->tail))
		return false;
	for (i = 0; i < protocol->nr_states; i++)
		if (!afpa_protocol_state_is_sound(protocol, i))
			return false;
	return true;
}

int afpa_protocol_register(struct afpa_protocol *protocol)
{
	int err = 0;

	if (!afpa_protocol_is_sound(protocol))
		return -EINVAL;
	mutex_lock(&afpa_protocols_lock);
	if (afpa_protocol_find(protocol->name))
		err = -EBUSY;
	else
		list_add_tail(&protocol->list, &afpa_protocols);
	mutex_unlock(&afpa_protocols_lock);
	return err;
}
EXPORT_SYMBOL_GPL(afpa_protocol_register);

void afpa_protocol_unregister(struct afpa_protocol *protocol)
{
	mutex_lock(&afpa_protocols_lock);
	list_del(&protocol->list);
	mutex_unlock(&afpa_protocols_lock);
}
EXPORT_SYMBOL_GPL(afpa_protocol_unregister);

static const struct afpa_protocol *afpa_protocol_try(const char *name)
{
	const struct afpa_protocol *protocol;

	mutex_lock(&afpa_protocols_lock);
	protocol = afpa_protocol_find(name);
	if (protocol && !try_module_get(protocol->owner))
		protocol = NULL;
	mutex_unlock(&afpa_protocols_lock);
	return protocol;
}

const struct afpa_protocol *afpa_protocol_get(const char *name)
{
	const struct afpa_protocol *protocol;

	if (!afpa_protocol_name_is_sound(name))
		return ERR_PTR(-EINVAL);
	protocol = afpa_protocol_try(name);
	/* Root of a container has the modules that the machine's root has chosen. */
	if (!protocol && capable(CAP_NET_ADMIN)) {
		request_module("afpa-protocol-%s", name);
		protocol = afpa_protocol_try(name);
	}
	return protocol ?: ERR_PTR(-EPROTONOSUPPORT);
}

void afpa_protocol_hold(const struct afpa_protocol *protocol)
{
	__module_get(protocol->owner);
}

void afpa_protocol_put(const struct afpa_protocol *protocol)
{
	module_put(protocol->owner);
}
