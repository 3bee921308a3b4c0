// SPDX-License-Identifier: GPL-2.0
/*
 * Policies that are BPF programs: struct_ops hof_policy_ops. The kernel's verifier proves them
 * safe, a link holds each: while it is there the module stays, when it goes the policy does.
 */

#include <linux/capability.h>
#include <linux/ctype.h>
#include <linux/module.h>
#include <linux/printk.h>
#include <linux/stddef.h>
#include <linux/string.h>

#include "kmod/compat/bpf.h"

#include "policy.h"
#include "policy_bpf.h"

#if IS_ENABLED(CONFIG_BPF_JIT) && IS_ENABLED(CONFIG_BPF_SYSCALL) && \
	IS_ENABLED(CONFIG_DEBUG_INFO_BTF_MODULES)

/* --- what a program may call; flotilla/policy.bpf.h says what for --- */

__bpf_kfunc_start_defs();

__bpf_kfunc u32 bpf_hof_bytes(const struct hof_policy_request *req, u32 offset, void *buffer,
			      u32 buffer__sz)
{
	return hof_policy_bytes(req, offset, buffer, buffer__sz);
}

__bpf_kfunc int bpf_hof_path(const struct hof_policy_request *req, u32 *offset, u32 *length)
{
	return hof_policy_path(req, offset, length);
}

__bpf_kfunc int bpf_hof_target(struct hof_policy_request *req, u32 node)
{
	return hof_policy_target(req, node);
}

__bpf_kfunc int bpf_hof_target_name(struct hof_policy_request *req, const char *name__str)
{
	return hof_policy_target_name(req, name__str);
}

__bpf_kfunc u32 bpf_hof_nodes(const struct hof_policy_request *req, u32 *ids, u32 ids__sz)
{
	return hof_policy_nodes(req, ids, ids__sz / sizeof(*ids));
}

__bpf_kfunc int bpf_hof_node_load(const struct hof_policy_request *req, u32 node)
{
	return hof_policy_node_load(req, node);
}

__bpf_kfunc u32 bpf_hof_turn(const struct hof_policy_request *req)
{
	return hof_policy_turn(req);
}

__bpf_kfunc u64 bpf_hof_option(const struct hof_policy_request *req, const char *name__str,
			       u64 otherwise)
{
	return hof_policy_option(req, name__str, otherwise);
}

__bpf_kfunc_end_defs();

BTF_KFUNCS_START(hof_policy_bpf_calls)
BTF_ID_FLAGS(func, bpf_hof_bytes, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_hof_path, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_hof_target, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_hof_target_name, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_hof_nodes, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_hof_node_load, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_hof_turn, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_hof_option, KF_TRUSTED_ARGS)
BTF_KFUNCS_END(hof_policy_bpf_calls)

static const struct btf_kfunc_id_set hof_policy_bpf_set = {
	.owner	= THIS_MODULE,
	.set	= &hof_policy_bpf_calls,
};

/* --- what the verifier asks --- */

static bool hof_policy_bpf_access(int off, int size, enum bpf_access_type type,
				  const struct bpf_prog *prog,
				  struct bpf_insn_access_aux *info)
{
	return bpf_tracing_btf_ctx_access(off, size, type, prog, info);
}

static const struct bpf_verifier_ops hof_policy_bpf_verifier = {
	.get_func_proto	 = bpf_base_func_proto,
	.is_valid_access = hof_policy_bpf_access,
	/* No btf_struct_access: a request's fields are read only. */
};

/* It is asked with bottom halves off. */
static int hof_policy_bpf_check(const struct btf_type *type, const struct btf_member *member,
				const struct bpf_prog *prog)
{
	return prog->sleepable ? -EINVAL : 0;
}

/* --- a policy comes and goes --- */

static bool hof_policy_bpf_named(const char *name)
{
	size_t i, length = strnlen(name, HOF_POLICY_NAME_MAX);

	for (i = 0; i < length; i++)
		if (!isalnum(name[i]) && name[i] != '-' && name[i] != '_')
			return false;
	return length && length < HOF_POLICY_NAME_MAX;
}

/* 1: taken care of; 0: the caller sees to it, and wants all but programs to be zero. */
static int hof_policy_bpf_member(const struct btf_type *type, const struct btf_member *member,
				 void *into, const void *from)
{
	const struct hof_policy_ops *said = from;
	struct hof_policy_ops *ops = into;

	if (member->offset != offsetof(struct hof_policy_ops, name) * BITS_PER_BYTE)
		return 0;
	if (!hof_policy_bpf_named(said->name))
		return -EINVAL;
	strscpy(ops->name, said->name);
	return 1;
}

/*
 * A policy is offered to all network namespaces, so a namespace's own rights are not enough, and
 * those to load programs (CAP_BPF, CAP_PERFMON) say nothing of the network.
 */
static int hof_policy_bpf_may(struct hof_policy_ops *ops)
{
	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	/* BPF has put a mark there; its link holds the module. */
	ops->owner = NULL;
	return 0;
}

static int hof_policy_bpf_register(void *data, struct bpf_link *link)
{
	int err = hof_policy_bpf_may(data);

	if (!err)
		err = hof_policy_register(data);
	return err == -EEXIST ? -EBUSY : err;
}

static void hof_policy_bpf_unregister(void *data, struct bpf_link *link)
{
	hof_policy_unregister(data);
}

static int hof_policy_bpf_update(void *data, void *old, struct bpf_link *link)
{
	int err = hof_policy_bpf_may(data);

	return err ?: hof_policy_update(old, data);
}

static int hof_policy_bpf_none(struct hof_policy_request *req)
{
	return HOF_POLICY_STAY;
}

static struct hof_policy_ops hof_policy_bpf_stubs = {
	.request = hof_policy_bpf_none,
};

static bool hof_policy_bpf_known;

/* Called when the module's types were found. */
static int hof_policy_bpf_types(struct btf *btf)
{
	hof_policy_bpf_known = true;
	return 0;
}

static struct bpf_struct_ops hof_policy_bpf = {
	.name		= "hof_policy_ops",
	.owner		= THIS_MODULE,
	.verifier_ops	= &hof_policy_bpf_verifier,
	.cfi_stubs	= &hof_policy_bpf_stubs,
	.init		= hof_policy_bpf_types,
	.check_member	= hof_policy_bpf_check,
	.init_member	= hof_policy_bpf_member,
	.reg		= hof_policy_bpf_register,
	.unreg		= hof_policy_bpf_unregister,
	.update		= hof_policy_bpf_update,
};

static bool hof_policy_bpf_offer(void)
{
	if (register_btf_kfunc_id_set(BPF_PROG_TYPE_STRUCT_OPS, &hof_policy_bpf_set))
		return false;
	return !register_bpf_struct_ops(&hof_policy_bpf, hof_policy_ops) && hof_policy_bpf_known;
}

#else

static bool hof_policy_bpf_offer(void)
{
	return false;
}

#endif

/* There is no exit: what is registered goes with the module's types. */
void hof_policy_bpf_init(void)
{
	if (!hof_policy_bpf_offer())
		pr_info("policies cannot be BPF programs: no types (BTF) of this module\n");
}
