/* SPDX-License-Identifier: GPL-2.0 */
/* What a dispatcher has said of its targets and nodes: see <flotilla/early_table.h>. */
#ifndef HOF_EARLY_TABLE_H
#define HOF_EARLY_TABLE_H

#include <linux/types.h>

struct hof_early_rule;
struct hof_early_table;
struct hof_file;
struct hof_net;
struct hof_ticket;
struct vm_area_struct;

/**
 * struct hof_early_choice - where a connection goes
 * @slot:    of whom
 * @node:    FLT_A_NODE_ID that the dispatcher has there
 * @relaxed: its end need not be told at once
 */
struct hof_early_choice {
	int slot;
	u32 node;
	bool relaxed;
};

long hof_early_table_ioctl(struct hof_file *file, void __user *arg);
int hof_early_table_mmap(struct hof_file *file, struct vm_area_struct *vma);
/* The file closes: nothing is given by it any more, and nothing of it is under way. */
void hof_early_table_free(struct hof_early_table *table);

/*
 * Whose is the request in these @len bytes, which hof_request_is_whole()? False: the listener's.
 * Counts. Softirq, RCU.
 */
bool hof_early_table_choose(struct hof_net *hn, struct hof_early_table *table, const char *text,
			    unsigned int len, struct hof_early_choice *choice);

/*
 * A ticket by which the node's load follows its connection, charged by now. NULL: no memory.
 * Softirq.
 */
struct hof_ticket *hof_early_table_charge(struct hof_early_table *table,
					  const struct hof_early_choice *choice);

#endif
