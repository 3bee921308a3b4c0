// SPDX-License-Identifier: GPL-2.0
/*
 * The access log. Whoever answers writes a record into a ring in memory and goes on; when there is
 * no room the record is lost, and counted. What is written is the request as it came, so that
 * nobody has to take it apart in the kernel.
 */

#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <net/inet_sock.h>

#include "answer.h"
#include "counter.h"
#include "log.h"
#include "net.h"

/* What does not fit is refused rather than that somebody is killed for it. */
#define AFPA_LOG_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

static struct afpa_log *afpa_log_alloc(u32 bytes)
{
	struct afpa_log *log;

	if (bytes < AFPA_LOG_LEAST || bytes > AFPA_LOG_MOST || !is_power_of_2(bytes))
		return ERR_PTR(-EINVAL);
	log = kzalloc(sizeof(*log), AFPA_LOG_GFP);
	if (!log)
		return ERR_PTR(-ENOMEM);
	log->ring = kvzalloc(bytes, AFPA_LOG_GFP);
	if (!log->ring) {
		kfree(log);
		return ERR_PTR(-ENOMEM);
	}
	log->size = bytes;
	spin_lock_init(&log->lock);
	mutex_init(&log->reader);
	init_waitqueue_head(&log->wait);
	return log;
}

static void afpa_log_free(struct afpa_log *log)
{
	kvfree(log->ring);
	kfree(log);
}

struct afpa_log *afpa_log_open(struct afpa_net *an, u32 bytes)
{
	struct afpa_log *log = afpa_log_alloc(bytes);
	bool taken;

	if (IS_ERR(log))
		return log;
	mutex_lock(&an->lock);
	taken = rcu_access_pointer(an->log);
	if (!taken)
		rcu_assign_pointer(an->log, log);
	mutex_unlock(&an->lock);
	if (!taken)
		return log;
	afpa_log_free(log);
	return ERR_PTR(-EBUSY);
}

void afpa_log_close(struct afpa_net *an, struct afpa_log *log)
{
	mutex_lock(&an->lock);
	RCU_INIT_POINTER(an->log, NULL);
	mutex_unlock(&an->lock);
	synchronize_rcu();	/* who answers may be writing */
	afpa_log_free(log);
}

/* --- writing --- */

static void afpa_log_address(struct afpa_record *rec, const struct sock *sk)
{
	rec->family = sk->sk_family;
	rec->port = inet_sk(sk)->inet_dport;
	rec->site_port = inet_sk(sk)->inet_sport;
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		memcpy(rec->addr, &sk->sk_v6_daddr, sizeof(rec->addr));
		return;
	}
#endif
	memcpy(rec->addr, &sk->sk_daddr, sizeof(sk->sk_daddr));
}

/* At @pos of all that was ever written. */
static void afpa_log_copy(struct afpa_log *log, u64 pos, const void *from, u32 len)
{
	u32 at = pos & (log->size - 1), first = min(len, log->size - at);

	memcpy(log->ring + at, from, first);
	memcpy(log->ring, from + first, len - first);
}

static bool afpa_log_append(struct afpa_log *log, struct afpa_record *rec, const char *bytes)
{
	/* What is overwritten has been read. */
	u64 room = log->size - (log->head - smp_load_acquire(&log->tail));

	lockdep_assert_held(&log->lock);
	if (rec->len > room) {
		log->lost++;
		return false;
	}
	rec->lost = log->lost;
	log->lost = 0;
	afpa_log_copy(log, log->head, rec, sizeof(*rec));
	afpa_log_copy(log, log->head + sizeof(*rec), bytes, rec->request_len);
	/* A reader that sees it sees all of the record. */
	smp_store_release(&log->head, log->head + rec->len);
	return true;
}

void afpa_log_answer(struct afpa_net *an, const struct sock *sk, const struct afpa_answer *ans,
		     const char *bytes, u32 len)
{
	struct afpa_log *log = rcu_dereference(an->log);
	struct afpa_record rec = {};
	bool kept;

	if (!log)
		return;
	rec.request_len = min_t(u32, len, AFPA_LOG_REQUEST);
	rec.len = ALIGN(sizeof(rec) + rec.request_len, sizeof(u64));
	rec.time = ktime_get_real_ns();
	rec.bytes = ans->end;
	rec.body = afpa_answer_body(ans);
	afpa_log_address(&rec, sk);
	spin_lock(&log->lock);
	kept = afpa_log_append(log, &rec, bytes);
	spin_unlock(&log->lock);
	afpa_count(an, kept ? AFPA_STAT_LOGGED : AFPA_STAT_LOG_LOST);
	if (wq_has_sleeper(&log->wait))
		wake_up_interruptible_poll(&log->wait, EPOLLIN | EPOLLRDNORM);
}

/* --- reading --- */

static bool afpa_log_is_empty(struct afpa_log *log)
{
	/* With afpa_log_append(). */
	return smp_load_acquire(&log->head) == READ_ONCE(log->tail);
}

static int afpa_log_give(struct afpa_log *log, u64 pos, char __user *to, u32 len)
{
	u32 at = pos & (log->size - 1), first = min(len, log->size - at);

	return copy_to_user(to, log->ring + at, first) ||
	       copy_to_user(to + first, log->ring, len - first) ? -EFAULT : 0;
}

/* Records begin at a multiple of 8, so that this field is never in two parts. */
static u32 afpa_log_length(const struct afpa_log *log, u64 pos)
{
	return *(const u16 *)(log->ring + (pos & (log->size - 1)));
}

/* Whole records; 0: there are none. */
static ssize_t afpa_log_give_all(struct afpa_log *log, char __user *buf, size_t count)
{
	u64 head = smp_load_acquire(&log->head), pos = log->tail;	/* afpa_log_append() */
	size_t done;
	int err;

	lockdep_assert_held(&log->reader);
	while (pos != head && afpa_log_length(log, pos) <= count - (pos - log->tail))
		pos += afpa_log_length(log, pos);
	done = pos - log->tail;
	if (!done)
		return pos == head ? 0 : -EINVAL;
	err = afpa_log_give(log, log->tail, buf, done);
	if (err)
		return err;
	/* From here on it may be overwritten. */
	smp_store_release(&log->tail, pos);
	return done;
}

ssize_t afpa_log_read(struct afpa_log *log, char __user *buf, size_t count, bool wait)
{
	ssize_t ret;

	do {
		if (wait && wait_event_interruptible(log->wait, !afpa_log_is_empty(log)))
			return -ERESTARTSYS;
		if (mutex_lock_interruptible(&log->reader))
			return -ERESTARTSYS;
		ret = afpa_log_give_all(log, buf, count);
		mutex_unlock(&log->reader);
	} while (!ret && wait);		/* another one was faster */
	return ret ?: -EAGAIN;
}

__poll_t afpa_log_poll(struct afpa_log *log, struct file *filp, poll_table *table)
{
	poll_wait(filp, &log->wait, table);
	return afpa_log_is_empty(log) ? 0 : EPOLLIN | EPOLLRDNORM;
}
