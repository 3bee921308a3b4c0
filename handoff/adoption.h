/* SPDX-License-Identifier: GPL-2.0 */
/* A connection that is being taken. Private to the files that take. */
#ifndef HOF_ADOPTION_H
#define HOF_ADOPTION_H

#include <linux/types.h>
#include <flotilla/flotilla.h>

struct flt_node;
struct hof_adoption;
struct hof_entry;
struct hof_net;

/* One without a child; NULL: there are too many, or no memory. */
struct hof_adoption *hof_adoption_create(struct hof_net *hn, struct flt_node *node, u64 id,
					 u32 flags);
/* Make the child. After a refusal nothing of @a is left. Process context, may sleep. */
enum flt_refusal hof_adoption_build(struct hof_adoption *a, const void *wire, u32 len);
/* It is ours again, as @a: for its last owner, and for who watches, that is its end. */
void hof_adoption_return(struct hof_adoption *a, struct hof_entry *e);
/* It stays the giver's; the caller's reference goes. Process context, may sleep. */
void hof_adoption_undo(struct hof_adoption *a, enum flt_refusal why);

#endif
