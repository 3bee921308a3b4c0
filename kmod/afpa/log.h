/* SPDX-License-Identifier: GPL-2.0 */
/* The access log: requests that were answered, on their way to who writes them down. */
#ifndef AFPA_LOG_H
#define AFPA_LOG_H

#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <net/sock.h>
#include <flotilla/afpa.h>

struct afpa_answer;
struct afpa_net;

/**
 * struct afpa_log - records of one namespace that nobody has read yet
 * @lock:   who writes; leaf, bottom halves off
 * @reader: who reads, and sleeps on its program's memory; nobody else waits for it
 * @wait:   readers
 * @head:   bytes that were ever written, under @lock; read with acquire
 * @tail:   bytes that were ever read, under @reader; read with acquire
 * @lost:   records that found no room since the last that did, under @lock
 * @size:   of @ring, a power of two
 * @ring:   whole records, from @tail to @head
 */
struct afpa_log {
	spinlock_t lock;	/* @head, @lost */
	struct mutex reader;	/* @tail */
	wait_queue_head_t wait;
	u64 head;
	u64 tail;
	u32 lost;
	u32 size;
	char *ring;
};

/* The namespace has it from here on; ERR_PTR(-EBUSY): another one, -EINVAL, -ENOMEM. */
struct afpa_log *afpa_log_open(struct afpa_net *an, u32 bytes);
void afpa_log_close(struct afpa_net *an, struct afpa_log *log);

ssize_t afpa_log_read(struct afpa_log *log, char __user *buf, size_t count, bool wait);
__poll_t afpa_log_poll(struct afpa_log *log, struct file *filp, poll_table *table);

/**
 * afpa_log_answer() - an answer begins
 * @an:    namespace
 * @sk:    its connection
 * @ans:   the answer
 * @bytes: the request
 * @len:   its length
 *
 * Context: under rcu_read_lock(), bottom halves off.
 */
void afpa_log_answer(struct afpa_net *an, const struct sock *sk, const struct afpa_answer *ans,
		     const char *bytes, u32 len);

#endif
