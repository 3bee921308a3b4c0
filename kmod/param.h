/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types of modules' parameters that can be set while these are loaded, for module_param(). The
 * kernel itself asks for the mode of the file only: for root, also for one who has lost every
 * capability.
 */
#ifndef FLT_PARAM_H
#define FLT_PARAM_H

#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/moduleparam.h>

/* Who loads a module sets them; later, who administers the machine does, too. */
static inline bool flt_param_may_set(void)
{
	return capable(CAP_SYS_MODULE) || capable(CAP_SYS_ADMIN);
}

static inline int flt_param_set_bool(const char *text, const struct kernel_param *param)
{
	return flt_param_may_set() ? param_set_bool(text, param) : -EPERM;
}

static inline int flt_param_set_uint(const char *text, const struct kernel_param *param)
{
	return flt_param_may_set() ? param_set_uint(text, param) : -EPERM;
}

static inline int flt_param_set_ulong(const char *text, const struct kernel_param *param)
{
	return flt_param_may_set() ? param_set_ulong(text, param) : -EPERM;
}

static const struct kernel_param_ops param_ops_admin_bool __maybe_unused = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = flt_param_set_bool,
	.get = param_get_bool,
};

static const struct kernel_param_ops param_ops_admin_uint __maybe_unused = {
	.set = flt_param_set_uint,
	.get = param_get_uint,
};

static const struct kernel_param_ops param_ops_admin_ulong __maybe_unused = {
	.set = flt_param_set_ulong,
	.get = param_get_ulong,
};

#define param_check_admin_bool	param_check_bool
#define param_check_admin_uint	param_check_uint
#define param_check_admin_ulong	param_check_ulong

#endif
