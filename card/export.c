// SPDX-License-Identifier: GPL-2.0
/*
 * Exports: opened and closed by the administrator, attached by listed nodes.
 *
 * A node that is not listed is told ENOENT, as if there were no such export.
 */

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/netlink.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "kmod/compat/block.h"
#include "claim.h"
#include "counter.h"
#include "export.h"
#include "identity.h"
#include "seat.h"
#include "serve.h"
#include "thread.h"
#include "trace.h"

/*
 * Who takes or gives data so slowly when an export ends loses his link: how long that takes is
 * not for him to say.
 */
#define CARD_END_PATIENCE	(5 * HZ)

static void card_session_put(struct card_session *session)
{
	if (!session || !refcount_dec_and_test(&session->ref))
		return;
	card_writer_put(session->writer);
	kfree_rcu(session, rcu);
}

static void card_export_free(struct card_export *export)
{
	struct card_session *session;
	unsigned long id;

	xa_for_each(&export->sessions, id, session)
		card_session_put(session);
	xa_destroy(&export->sessions);
	card_seat_put(export->cn, export->seat);
	card_thread_stop(export->thread);
	card_cache_stop(export->cache);
	card_cache_free(export->cache);
	card_pool_exit(&export->pool);
	card_claim_release(export);
	mem_cgroup_put(export->memcg);
	kfree_rcu(export, rcu);
}

static int card_export_open(struct card_export *export, struct netlink_ext_ack *extack)
{
	int err = card_claim_take(export, extack);

	if (err)
		return err;
	export->sectors = bdev_nr_sectors(export->bdev);
	export->block = bdev_logical_block_size(export->bdev);
	if (!export->sectors || export->block > PAGE_SIZE) {
		NL_SET_ERR_MSG(extack, "the disk is empty, or its blocks are larger than a page");
		return -EINVAL;
	}
	if (uuid_is_null(&export->spec.uuid))
		export->spec.origin = card_identity_find(export->bdev, &export->spec.uuid);
	return 0;
}

/* The participants are those that may attach, in the order in which they are listed. */
static int card_export_join(struct card_export *export, struct netlink_ext_ack *extack)
{
	const struct card_policy *policy = card_policy_get(export->spec.policy);
	struct card_members *members;
	struct card_cache *cache;
	unsigned int i;

	if (!policy)
		return 0;
	if (IS_ERR(policy)) {
		NL_SET_ERR_MSG_FMT(extack, "there is no such policy: %s", export->spec.policy);
		return PTR_ERR(policy);
	}
	members = kzalloc(sizeof(*members), GFP_KERNEL);
	if (!members) {
		card_policy_put(policy);
		return -ENOMEM;
	}
	members->nr = export->spec.nr_nodes + 1;
	members->home_shift = export->spec.home_shift;
	for (i = 0; i < export->spec.nr_nodes; i++)
		strscpy(members->name[i + 1], export->spec.nodes[i], FLT_NAME_MAX);
	cache = card_cache_new(export->cn, policy, members, export->spec.host);
	if (IS_ERR(cache)) {
		NL_SET_ERR_MSG(extack, "no memory for its cache, or the kernel has no hook for it");
		return PTR_ERR(cache);
	}
	export->cache = cache;
	card_cache_start(cache, export->bdev->bd_disk, export->bdev);
	return 0;
}

/* The mount that has the claim is read-only no more: what others have may be old. For ever. */
bool card_export_spoil(struct card_export *export)
{
	if (likely(card_claim_good(export)) && !READ_ONCE(export->spoiled))
		return false;
	if (!xchg(&export->spoiled, true))
		pr_warn("export %s ends: %s was mounted for writing\n", export->spec.name,
			export->spec.mount);
	return true;
}

static bool card_export_named(struct card_net *cn, const char *name)
{
	struct card_export *export;
	unsigned long id;

	lockdep_assert_held(&cn->lock);
	xa_for_each(&cn->exports, id, export)
		if (!strcmp(export->spec.name, name))
			return true;
	return false;
}

/**
 * card_export_add - offer a disk
 * @cn:     namespace
 * @spec:   checked one by one
 * @extack: what is wrong with it
 *
 * Return: 0 or an errno of the uapi; then nothing has changed.
 */
int card_export_add(struct card_net *cn, struct card_export_spec *spec,
		    struct netlink_ext_ack *extack)
{
	char dir[sizeof("export.") + CARD_NAME_MAX];
	struct card_export *export;
	int err;

	export = kzalloc(sizeof(*export), GFP_KERNEL);
	if (!export)
		return -ENOMEM;
	export->cn = cn;
	export->spec = *spec;
	export->epoch = get_random_u64();
	export->memcg = get_mem_cgroup_from_mm(current->mm);
	xa_init(&export->sessions);
	card_works_init(&export->works);
	refcount_set(&export->users, 1);
	init_completion(&export->unused);
	err = card_export_open(export, extack);
	if (!err && (spec->flags & (CARD_FLAG_WRITE | CARD_FLAG_SHARED)) == CARD_FLAG_WRITE) {
		export->seat = card_seat_get(cn, &export->spec.uuid);
		err = export->seat ? 0 : -ENOMEM;
	}
	if (!err)
		err = card_export_join(export, extack);
	if (!err)
		err = card_pool_init(&export->pool);
	if (!err) {
		export->thread = card_thread_start(export);
		err = PTR_ERR_OR_ZERO(export->thread);
		if (err)
			export->thread = NULL;
	}
	if (err)
		goto undo;

	mutex_lock(&cn->lock);
	if (cn->going)
		err = -ENODEV;
	else if (card_export_named(cn, spec->name))
		err = -EEXIST;
	if (err == -EEXIST)
		NL_SET_ERR_MSG(extack, "an export of that name exists");
	if (!err)
		err = xa_alloc_cyclic(&cn->exports, &export->id, export, XA_LIMIT(1, S32_MAX),
				      &cn->next_export, GFP_KERNEL);
	if (err >= 0 && export->cache) {
		card_cache_address(export->cache, export->id, export->epoch);
		snprintf(dir, sizeof(dir), "export.%s", spec->name);
		card_rules_show(export->cache, dir);	/* it works without, too */
	}
	mutex_unlock(&cn->lock);
	if (err >= 0)
		return 0;
undo:
	card_export_free(export);
	return err;
}

/*
 * Whoever has it attached hears that it is no more, before another one can have its
 * name: else participants would serve each other what was on the old disk.
 */
static void card_export_part(struct card_export *export, bool flushed)
{
	struct card_wire_detach bye = {
		.epoch = cpu_to_be64(export->epoch),
		.export = cpu_to_be32(export->id),
		.flags = cpu_to_be32(flushed ? CARD_DETACH_FLUSHED : 0),
	};
	struct kvec vec = { .iov_base = &bye, .iov_len = sizeof(bye) };
	struct card_session *session;
	struct flt_node *node;
	unsigned long id;

	xa_for_each(&export->sessions, id, session) {
		node = flt_node_by_id(export->cn->net, id);
		if (!node)
			continue;
		flt_link_send(node, CARD_MSG_DETACH, &vec, 1, GFP_KERNEL);
		flt_node_put(node);
	}
}

/* Nothing is worked on any more. True: what was written will outlive this machine. */
static bool card_export_flush(struct card_export *export)
{
	int err;

	if (!(export->spec.flags & CARD_FLAG_WRITE))
		return false;
	err = blkdev_issue_flush(export->bdev);
	if (err)
		pr_warn("export %s: its disk cannot be flushed (%d): writes may be lost\n",
			export->spec.name, err);
	if (err && export->seat)
		card_seat_renew(export->cn, export->seat);
	return !err;
}

static void card_export_end(struct card_export *export)
{
	/* The thread still works on what is queued: each of these is a user. */
	if (refcount_dec_and_test(&export->users))
		complete(&export->unused);
	while (!wait_for_completion_timeout(&export->unused, CARD_END_PATIENCE))
		card_works_hang_up(&export->works);
	card_export_part(export, card_export_flush(export));
	card_export_free(export);
}

int card_export_del(struct card_net *cn, const char *name)
{
	struct card_export *export, *found = NULL;
	unsigned long id;

	mutex_lock(&cn->lock);
	xa_for_each(&cn->exports, id, export) {
		if (strcmp(export->spec.name, name))
			continue;
		found = export;
		card_rules_hide(export->cache);		/* its name is free from here on */
		xa_erase(&cn->exports, id);
		break;
	}
	mutex_unlock(&cn->lock);
	if (!found)
		return -ENOENT;
	card_export_end(found);
	return 0;
}

/* Negative values leave what is. */
int card_export_set(struct card_net *cn, const char *name, int serve, int deliver)
{
	struct card_export *export;
	int err = -ENOENT;
	unsigned long id;

	mutex_lock(&cn->lock);
	xa_for_each(&cn->exports, id, export) {
		if (strcmp(export->spec.name, name))
			continue;
		if (serve >= 0)
			WRITE_ONCE(export->spec.serve, serve);
		if (deliver >= 0)
			WRITE_ONCE(export->spec.deliver, deliver);
		err = 0;
	}
	mutex_unlock(&cn->lock);
	return err;
}

void card_export_del_all(struct card_net *cn)
{
	struct card_export *export;
	unsigned long id;

	xa_for_each(&cn->exports, id, export) {
		xa_erase(&cn->exports, id);
		card_export_end(export);
	}
}

struct card_export *card_export_find(struct card_net *cn, u32 id, u64 epoch)
{
	struct card_export *export;

	rcu_read_lock();
	export = xa_load(&cn->exports, id);
	if (export && (export->epoch != epoch || !refcount_inc_not_zero(&export->users)))
		export = NULL;
	rcu_read_unlock();
	return export;
}

void card_export_put(struct card_export *export)
{
	if (refcount_dec_and_test(&export->users))
		complete(&export->unused);
}

struct card_session *card_session_enter(struct card_export *export, const struct flt_node *node)
{
	struct card_session *session;

	rcu_read_lock();
	session = xa_load(&export->sessions, node->id);
	if (session && (session->instance != READ_ONCE(node->instance) ||
			!refcount_inc_not_zero(&session->ref)))
		session = NULL;
	rcu_read_unlock();
	if (session && !card_writer_enter(session->writer)) {
		card_session_put(session);
		session = NULL;
	}
	if (!session)
		return ERR_PTR(-ESTALE);
	if (atomic_inc_return(&session->account->requests) > CARD_NODE_REQUESTS) {
		card_session_leave(session);
		return ERR_PTR(-EBUSY);
	}
	return session;
}

void card_session_leave(struct card_session *session)
{
	atomic_dec(&session->account->requests);
	card_writer_leave(session->writer);
	card_session_put(session);
}

bool card_session_charge(struct card_session *session, u32 bytes)
{
	long max = max_t(u64, CARD_NODE_BYTES, (u64)totalram_pages() << PAGE_SHIFT >> 6);

	if (atomic_long_add_return(bytes, &session->account->bytes) <= max)
		return true;
	card_session_uncharge(session, bytes);
	return false;
}

void card_session_uncharge(struct card_session *session, u32 bytes)
{
	atomic_long_sub(bytes, &session->account->bytes);
}

bool card_session_fenced(const struct card_session *session)
{
	return session->writer && READ_ONCE(session->writer->fenced);
}

unsigned int card_export_sessions(struct card_export *export)
{
	struct card_session *session;
	unsigned int n = 0;
	unsigned long id;

	rcu_read_lock();
	xa_for_each(&export->sessions, id, session)
		n++;
	rcu_read_unlock();
	return n;
}

/* Place in the list of nodes, from 1; 0: not listed. */
static unsigned int card_export_place(const struct card_export *export, const char *name)
{
	unsigned int i;

	for (i = 0; i < export->spec.nr_nodes; i++)
		if (!strcmp(export->spec.nodes[i], name))
			return i + 1;
	return 0;
}

/* Takes @writer over. */
static int card_session_add(struct card_export *export, const struct flt_node *node, bool write,
			    struct card_writer *writer)
{
	struct card_session *session, *old;

	session = kzalloc(sizeof(*session), GFP_NOIO);
	if (!session) {
		card_writer_put(writer);
		return -ENOMEM;
	}
	refcount_set(&session->ref, 1);
	session->account = &export->accounts[card_export_place(export, node->name) - 1];
	session->write = write;
	session->writer = writer;
	session->instance = READ_ONCE(node->instance);
	old = xa_store(&export->sessions, node->id, session, GFP_NOIO);
	if (xa_is_err(old)) {
		card_session_put(session);
		return -ENOMEM;
	}
	card_session_put(old);
	return 0;
}

/* A node that may attach the export, and how it wants to. */
static int card_session_begin(struct card_export *export, const struct flt_node *node,
			      const struct card_wire_attach *ask,
			      struct card_wire_attached *answer)
{
	u32 flags = be32_to_cpu(ask->flags), has = export->spec.flags;
	u64 life = be64_to_cpu(ask->life);
	struct card_writer *writer = NULL;

	if (READ_ONCE(export->spoiled))
		return -ETXTBSY;
	if (!card_identity_same(&export->spec.uuid, ask->uuid)) {
		export_uuid(answer->uuid, &export->spec.uuid);
		return -EUCLEAN;
	}
	if (!(flags & CARD_FLAG_WRITE))
		return flags ? -EINVAL : card_session_add(export, node, false, NULL);
	if (!(has & CARD_FLAG_WRITE))
		return -EACCES;
	if ((flags ^ has) & CARD_FLAG_SHARED)
		return -ENOTUNIQ;
	if (export->seat) {
		writer = card_seat_take(export->cn, export->seat, node, be64_to_cpu(ask->grant),
					&life, flags & CARD_FLAG_STEAL, answer->holder);
		if (IS_ERR(writer))
			return PTR_ERR(writer);
		answer->grant = cpu_to_be64(writer->grant);
	} else {
		life = export->epoch;
	}
	answer->life = cpu_to_be64(life);
	return card_session_add(export, node, true, writer);
}

static void card_export_describe(struct card_export *export, const struct flt_node *node,
				 struct card_wire_attached *answer)
{
	struct block_device *bdev = export->bdev;
	u32 features = 0;

	if (bdev_write_cache(bdev))
		features |= CARD_FEATURE_WRITE_CACHE;
	if (bdev_fua(bdev))
		features |= CARD_FEATURE_FUA;
	if (flt_compat_bdev_rotates(bdev))
		features |= CARD_FEATURE_ROTATIONAL;
	if (export->mnt.mnt)
		features |= CARD_FEATURE_FILES;
	export_uuid(answer->uuid, &export->spec.uuid);
	answer->features = cpu_to_be32(features);
	answer->epoch = cpu_to_be64(export->epoch);
	answer->export = cpu_to_be32(export->id);
	answer->sectors = cpu_to_be64(export->sectors);
	answer->block = cpu_to_be32(export->block);
	answer->phys_block = cpu_to_be32(bdev_physical_block_size(bdev));
	answer->readahead = cpu_to_be32(bdev->bd_disk->bdi->ra_pages);
	strscpy_pad(answer->policy, export->spec.policy, sizeof(answer->policy));
	if (export->cache) {
		answer->place = cpu_to_be16(card_export_place(export, node->name));
		answer->home_shift = export->spec.home_shift;
		answer->nr_nodes = cpu_to_be16(export->spec.nr_nodes);
	}
}

static struct card_export *card_export_by_name(struct card_net *cn, const char *name)
{
	struct card_export *export, *found = NULL;
	unsigned long id;

	rcu_read_lock();
	xa_for_each(&cn->exports, id, export) {
		if (!strcmp(export->spec.name, name) && refcount_inc_not_zero(&export->users)) {
			found = export;
			break;
		}
	}
	rcu_read_unlock();
	return found;
}

/* ATTACH: answered in any case. Process context. */
int card_export_attach(struct card_net *cn, struct flt_node *node,
		       const struct card_wire_attach *ask)
{
	struct card_wire_attached answer = { .disk = ask->disk, .cookie = ask->cookie };
	struct kvec vec[2] = { { .iov_base = &answer, .iov_len = sizeof(answer) } };
	struct card_export *export;
	u32 flags = be32_to_cpu(ask->flags);
	int err = -ENOENT, sent;

	export = card_export_by_name(cn, ask->name);
	if (be32_to_cpu(ask->version) != CARD_WIRE_VERSION)
		err = -EPROTO;
	else if (flags & ~(CARD_FLAG_WRITE | CARD_FLAG_SHARED | CARD_FLAG_STEAL))
		err = -EOPNOTSUPP;
	else if (export && card_export_place(export, node->name))
		err = card_session_begin(export, node, ask, &answer);
	if (!err)
		card_export_describe(export, node, &answer);
	else
		card_count(cn, CARD_STAT_DENIED);
	trace_card_attach(node, ask->name, err);
	answer.status = cpu_to_be32(-err);
	vec[1].iov_base = export ? export->spec.nodes : NULL;
	vec[1].iov_len = be16_to_cpu(answer.nr_nodes) * FLT_NAME_MAX;
	sent = flt_link_send(node, CARD_MSG_ATTACHED, vec, vec[1].iov_len ? 2 : 1, GFP_NOIO);
	if (export)
		card_export_put(export);
	return sent;
}

static void card_session_del(struct card_export *export, const struct flt_node *node, bool left)
{
	struct card_session *session = xa_erase(&export->sessions, node->id);

	if (session && left && export->seat)
		card_seat_leave(export->cn, export->seat, session->writer);
	card_session_put(session);
}

bool card_export_detach(struct card_net *cn, struct flt_node *node,
			const struct card_wire_detach *ask)
{
	struct card_export *export;

	export = card_export_find(cn, be32_to_cpu(ask->export), be64_to_cpu(ask->epoch));
	if (!export)
		return false;
	card_session_del(export, node, true);
	card_export_put(export);
	return true;
}

void card_export_forget(struct card_net *cn, const struct flt_node *node, bool removed)
{
	struct card_export *export;
	unsigned long id;

	mutex_lock(&cn->lock);
	xa_for_each(&cn->exports, id, export)
		card_session_del(export, node, false);
	mutex_unlock(&cn->lock);
	if (removed)
		card_seat_forget(cn, node);
}
