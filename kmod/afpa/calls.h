/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The calls of /dev/afpa that a program may make at another node's cache, too: what each does, and
 * what of its structure is said over a link.
 */
#ifndef AFPA_CALLS_H
#define AFPA_CALLS_H

#include <linux/string.h>
#include <linux/types.h>
#include <linux/uaccess.h>
#include <flotilla/afpa.h>

struct afpa_net;

/* Of struct afpa_field: the caller says it; it is said to the caller; it is kept as on the wire. */
#define AFPA_FIELD_IN	1
#define AFPA_FIELD_OUT	2
#define AFPA_FIELD_RAW	4

/**
 * struct afpa_field - a number in a call's structure
 * @at:   where
 * @size: 2, 4 or 8 bytes
 * @way:  AFPA_FIELD_*
 */
struct afpa_field {
	u16 at;
	u8 size;
	u8 way;
};

/**
 * struct afpa_text - bytes that a call's structure has the address of
 * @at:       where the address is
 * @len_at:   where their number is
 * @len_size: bytes of that
 * @way:      AFPA_FIELD_IN, or AFPA_FIELD_OUT: the number is the room there
 * @most:     of them
 */
struct afpa_text {
	u16 at;
	u16 len_at;
	u8 len_size;
	u8 way;
	u32 most;
};

/**
 * struct afpa_call - one of these calls
 * @cmd:       AFPA_IOC_*
 * @number:    on the wire; never changed
 * @size:      bytes of its structure
 * @admin:     it takes CAP_NET_ADMIN
 * @run:       what it does; @user: addresses in @args are the caller's, else the kernel's
 * @fields:    in the order of the wire: later ones come at the end; ends with an empty one
 * @texts:     the same
 */
struct afpa_call {
	unsigned int cmd;
	u8 number;
	u8 size;
	bool admin;
	int (*run)(struct afpa_net *an, void *args, bool user);
	const struct afpa_field *fields;
	const struct afpa_text *texts;
};

#define AFPA_TEXTS_MAX	6

/* Room for the structure of any. */
union afpa_args {
	struct afpa_put put;
	struct afpa_key key;
	struct afpa_ban ban;
	struct afpa_explain explain;
	struct afpa_site_args site;
	struct afpa_ticket ticket;
	struct afpa_next_site next_site;
	struct afpa_info info;
	struct afpa_listen listen;
};

/* NULL: none of these. */
const struct afpa_call *afpa_call_of(unsigned int cmd);
const struct afpa_call *afpa_call_numbered(u8 number);

/* What failed has something to say all the same. */
static inline bool afpa_call_answers(const struct afpa_call *call, int err)
{
	return !err || (err == -ENOSPC && call->cmd == AFPA_IOC_NEXT);
}

static inline int afpa_copy_in(void *to, u64 from, size_t len, bool user)
{
	if (user)
		return copy_from_user(to, u64_to_user_ptr(from), len) ? -EFAULT : 0;
	memcpy(to, (const void *)(uintptr_t)from, len);
	return 0;
}

static inline int afpa_copy_out(u64 to, const void *from, size_t len, bool user)
{
	if (user)
		return copy_to_user(u64_to_user_ptr(to), from, len) ? -EFAULT : 0;
	memcpy((void *)(uintptr_t)to, from, len);
	return 0;
}

int afpa_call_put(struct afpa_net *an, void *args, bool user);
int afpa_call_del(struct afpa_net *an, void *args, bool user);
int afpa_call_query(struct afpa_net *an, void *args, bool user);
int afpa_call_ttl(struct afpa_net *an, void *args, bool user);
int afpa_call_next(struct afpa_net *an, void *args, bool user);
int afpa_call_ban(struct afpa_net *an, void *args, bool user);
int afpa_call_ticket(struct afpa_net *an, void *args, bool user);
int afpa_call_explain(struct afpa_net *an, void *args, bool user);
int afpa_call_info(struct afpa_net *an, void *args, bool user);
int afpa_call_flush(struct afpa_net *an, void *args, bool user);
int afpa_call_next_site(struct afpa_net *an, void *args, bool user);
int afpa_call_protocol(struct afpa_net *an, void *args, bool user);

#endif
