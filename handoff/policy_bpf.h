/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HOF_POLICY_BPF_H
#define HOF_POLICY_BPF_H

#include <linux/types.h>

struct hof_policy_request;

void hof_policy_bpf_init(void);

/* For programs; nobody else calls them. */
u32 bpf_hof_bytes(const struct hof_policy_request *req, u32 offset, void *buffer, u32 buffer__sz);
int bpf_hof_path(const struct hof_policy_request *req, u32 *offset, u32 *length);
int bpf_hof_target(struct hof_policy_request *req, u32 node);
int bpf_hof_target_name(struct hof_policy_request *req, const char *name__str);
u32 bpf_hof_nodes(const struct hof_policy_request *req, u32 *ids, u32 ids__sz);
int bpf_hof_node_load(const struct hof_policy_request *req, u32 node);
u32 bpf_hof_turn(const struct hof_policy_request *req);
u64 bpf_hof_option(const struct hof_policy_request *req, const char *name__str, u64 otherwise);

#endif
