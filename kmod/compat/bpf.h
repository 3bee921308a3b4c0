/* SPDX-License-Identifier: GPL-2.0 */
/* What BPF programs call: on 7.3 all of it takes trusted pointers only, without being asked. */
#ifndef FLT_COMPAT_BPF_H
#define FLT_COMPAT_BPF_H

#include <linux/bpf.h>
#include <linux/bpf_verifier.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>

#ifndef KF_TRUSTED_ARGS
#define KF_TRUSTED_ARGS 0
#endif

#endif
