// SPDX-License-Identifier: GPL-2.0
/* The table of policies that are loaded. */

#include <linux/mutex.h>
#include <linux/slab.h>

#include "policy.h"

static LIST_HEAD(card_policies);
static DEFINE_MUTEX(card_policies_lock);	/* card_policies */

static struct card_policy *card_policy_find(const char *name)
{
	struct card_policy *policy;

	lockdep_assert_held(&card_policies_lock);
	list_for_each_entry(policy, &card_policies, list)
		if (!strcmp(policy->name, name))
			return policy;
	return NULL;
}

/**
 * card_policy_register - offer a policy to disks and exports
 * @policy: all four operations set; stays until card_policy_unregister()
 *
 * Return: 0; -EINVAL; -EBUSY the name is taken, as a module's init must not return -EEXIST.
 */
int card_policy_register(struct card_policy *policy)
{
	int err = 0;

	if (!policy->lookup || !policy->handle_eviction || !policy->keep_consistency ||
	    !policy->handle_request || !policy->name[0] || strlen(policy->name) >= CARD_NAME_MAX ||
	    !strcmp(policy->name, "none"))
		return -EINVAL;
	mutex_lock(&card_policies_lock);
	if (card_policy_find(policy->name))
		err = -EBUSY;
	else
		list_add_tail(&policy->list, &card_policies);
	mutex_unlock(&card_policies_lock);
	return err;
}
EXPORT_SYMBOL_GPL(card_policy_register);

/**
 * card_policy_unregister - withdraw a policy
 * @policy: unused, because users hold its module
 */
void card_policy_unregister(struct card_policy *policy)
{
	mutex_lock(&card_policies_lock);
	list_del(&policy->list);
	mutex_unlock(&card_policies_lock);
}
EXPORT_SYMBOL_GPL(card_policy_unregister);

static const struct card_policy *card_policy_try(const char *name)
{
	struct card_policy *policy;

	mutex_lock(&card_policies_lock);
	policy = card_policy_find(name);
	if (policy && !try_module_get(policy->owner))
		policy = NULL;
	mutex_unlock(&card_policies_lock);
	return policy ?: ERR_PTR(-ENOENT);
}

const struct card_policy *card_policy_get(const char *name)
{
	const struct card_policy *policy;

	if (!strcmp(name, "none"))
		return NULL;
	policy = card_policy_try(name);
	if (!IS_ERR(policy))
		return policy;
	request_module("card-policy-%s", name);
	return card_policy_try(name);
}

void card_policy_put(const struct card_policy *policy)
{
	if (policy)
		module_put(policy->owner);
}
