// SPDX-License-Identifier: GPL-2.0
/* The table of handoffs under way, and the clock of those that get no answer. */

#include "flight.h"
#include "net.h"
#include "ticket.h"
#include "transfer.h"

static struct workqueue_struct *hof_flight_wq __ro_after_init;

int __init hof_flight_init(void)
{
	hof_flight_wq = alloc_workqueue("handoff", WQ_UNBOUND, 0);
	return hof_flight_wq ? 0 : -ENOMEM;
}

void hof_flight_exit(void)
{
	destroy_workqueue(hof_flight_wq);
}

static void hof_flight_arm(struct hof_flight *flight, unsigned long at)
{
	unsigned long now = jiffies;

	lockdep_assert_held(&flight->lock);
	if (flight->armed && !time_before(at, flight->at))
		return;
	flight->armed = true;
	flight->at = at;
	mod_delayed_work(hof_flight_wq, &flight->late, time_after(at, now) ? at - now : 0);
}

void hof_flight_add(struct hof_transfer *t, u32 timeout_ms)
{
	struct hof_flight *flight = &t->hn->flight;

	t->deadline = jiffies + msecs_to_jiffies(timeout_ms) + 1;
	refcount_inc(&t->ref);
	spin_lock_bh(&flight->lock);
	hash_add(flight->by_id, &t->flying, lower_32_bits(t->id));
	WRITE_ONCE(flight->nr, flight->nr + 1);
	WRITE_ONCE(t->file->inflight, t->file->inflight + 1);
	hof_flight_arm(flight, t->deadline);
	spin_unlock_bh(&flight->lock);
}

void hof_flight_remove(struct hof_transfer *t)
{
	struct hof_flight *flight = &t->hn->flight;
	bool last;

	spin_lock_bh(&flight->lock);
	hash_del(&t->flying);
	WRITE_ONCE(flight->nr, flight->nr - 1);
	WRITE_ONCE(t->file->inflight, t->file->inflight - 1);
	last = !t->file->inflight;
	spin_unlock_bh(&flight->lock);
	if (last)
		wake_up(&t->file->landed);	/* it may be closing */
	hof_transfer_put(t);
}

struct hof_transfer *hof_flight_get(struct hof_net *hn, u64 id)
{
	struct hof_flight *flight = &hn->flight;
	struct hof_transfer *t;

	spin_lock_bh(&flight->lock);
	hash_for_each_possible(flight->by_id, t, flying, lower_32_bits(id)) {
		if (t->id == id) {
			refcount_inc(&t->ref);
			break;
		}
	}
	spin_unlock_bh(&flight->lock);
	return t;
}

struct hof_transfer *hof_flight_next(struct hof_net *hn, unsigned int *bucket,
				     bool (*match)(const struct hof_transfer *t, const void *arg),
				     const void *arg)
{
	struct hof_flight *flight = &hn->flight;
	struct hof_transfer *t;

	for (; *bucket < HASH_SIZE(flight->by_id); ++*bucket) {
		spin_lock_bh(&flight->lock);
		hlist_for_each_entry(t, &flight->by_id[*bucket], flying) {
			if (atomic_read(&t->phase) == HOF_WAITING && match(t, arg)) {
				refcount_inc(&t->ref);
				spin_unlock_bh(&flight->lock);
				return t;
			}
		}
		spin_unlock_bh(&flight->lock);
	}
	return NULL;
}

static bool hof_flight_is_late(const struct hof_transfer *t, const void *arg)
{
	return time_after_eq(jiffies, t->deadline);
}

static void hof_flight_late(struct work_struct *work)
{
	struct hof_flight *flight = container_of(to_delayed_work(work), struct hof_flight, late);
	struct hof_net *hn = container_of(flight, struct hof_net, flight);
	unsigned int bucket = 0;
	struct hof_transfer *t;

	while ((t = hof_flight_next(hn, &bucket, hof_flight_is_late, NULL))) {
		hof_transfer_late(t);
		hof_transfer_put(t);
	}
	/* Whatever is left, and came meanwhile, is to ring at the first's time. */
	spin_lock_bh(&flight->lock);
	flight->armed = false;
	hash_for_each(flight->by_id, bucket, t, flying)
		if (atomic_read(&t->phase) == HOF_WAITING)
			hof_flight_arm(flight, t->deadline);
	spin_unlock_bh(&flight->lock);
}

void hof_flight_net_init(struct hof_net *hn)
{
	spin_lock_init(&hn->flight.lock);
	hash_init(hn->flight.by_id);
	INIT_DELAYED_WORK(&hn->flight.late, hof_flight_late);
}

void hof_flight_net_exit(struct hof_net *hn)
{
	cancel_delayed_work_sync(&hn->flight.late);
	WARN_ON(hn->flight.nr);
}
