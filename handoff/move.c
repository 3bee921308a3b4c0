// SPDX-License-Identifier: GPL-2.0
/* Connections that change their process: the descriptor that a tool has of one such move. */

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/inet_connection_sock.h>
#include <net/ipv6.h>

#include "kmod/endpoint.h"
#include "kmod/requeue.h"

#include "adopt.h"
#include "drain.h"
#include "move.h"
#include "moving.h"

/* Looks at all connections are so far apart. */
#define HOF_MOVE_LOOK	(HZ / 50)
#define HOF_MOVE_IDLE_MIN	10

/*
 * All open moves. Their @from is changed under this lock as well: a listener is hidden by one move
 * at a time, or the first that ends would show what another still hides.
 */
static LIST_HEAD(hof_moves);
static DEFINE_MUTEX(hof_moves_lock);
/* Those of them that have nodes; changed under the lock, READ_ONCE. */
static unsigned int hof_drains;

/* By the port of the listener that has accepted it, which with TLS may be another. */
static void hof_move_door(const struct sock *sk, struct flt_tuple *door)
{
	flt_tuple_from_sock(sk, door);
	door->server_port = hof_sock_door(sk);
}

bool hof_move_fits(struct hof_move *move, const struct sock *sk)
{
	struct flt_tuple door;
	unsigned int i;

	lockdep_assert_held(&move->lock);
	hof_move_door(sk, &door);
	for (i = 0; i < move->to.nr; i++)
		if (flt_listener_rank_of(move->to.sk[i], sock_net(sk), &door))
			return true;
	return false;
}

struct sock *hof_move_listener(struct hof_move *move, const struct sock *sk)
{
	unsigned int i, rank, best = 0, at = 0;
	struct flt_tuple door;

	lockdep_assert_held(&move->lock);
	hof_move_door(sk, &door);
	/* The one that TCP would choose; of several in turns. */
	for (i = 0; i < move->to.nr; i++) {
		rank = flt_listener_rank_of(move->to.sk[(move->next + i) % move->to.nr],
					    sock_net(sk), &door);
		if (rank > best) {
			best = rank;
			at = (move->next + i) % move->to.nr;
		}
	}
	if (!best)
		return NULL;
	move->next = at + 1;
	sock_hold(move->to.sk[at]);
	return move->to.sk[at];
}

void hof_move_tried(struct hof_move *move, enum flt_refusal why)
{
	lockdep_assert_held(&move->lock);
	if (why < HOF_MOVE_REASONS)
		move->refused[why]++;
}

static bool hof_listeners_have(const struct hof_move_listeners *of, const struct sock *sk)
{
	unsigned int i;

	for (i = 0; i < of->nr; i++)
		if (of->sk[i] == sk)
			return true;
	return false;
}

static int hof_listeners_add(struct hof_move_listeners *to, struct sock *sk)
{
	if (to->nr == HOF_MOVE_LISTENERS)
		return -ENOSPC;
	sock_hold(sk);
	to->sk[to->nr++] = sk;
	return 0;
}

static void hof_listeners_put(struct hof_move_listeners *of)
{
	while (of->nr)
		sock_put(of->sk[--of->nr]);
	kvfree(of->sk);
}

/* By any move that is open. */
static bool hof_listener_is_hidden(const struct sock *sk)
{
	struct hof_move *move;

	lockdep_assert_held(&hof_moves_lock);
	list_for_each_entry(move, &hof_moves, node)
		if (hof_listeners_have(&move->from, sk))
			return true;
	return false;
}

static bool hof_sock_listens(const struct sock *sk)
{
	return sk_is_tcp(sk) && inet_sk_state_load(sk) == TCP_LISTEN && !sk->sk_bound_dev_if;
}

static int hof_move_to(struct hof_move *move, struct sock *sk)
{
	int err;

	if (!hof_sock_listens(sk))
		return -EOPNOTSUPP;
	if (move->drain)
		return -EINVAL;
	if (hof_listeners_have(&move->to, sk) || hof_listeners_have(&move->from, sk))
		return -EEXIST;
	if (hof_listener_is_hidden(sk))
		return -EBUSY;
	/* It may be the old one of an earlier move. */
	err = flt_listener_mute(sk, false);
	return err ?: hof_listeners_add(&move->to, sk);
}

static bool hof_listeners_alike(const struct sock *a, const struct sock *b)
{
	if (a->sk_family != b->sk_family || inet_sk(a)->inet_num != inet_sk(b)->inet_num)
		return false;
	/* IPv4 clients of the one would find nobody. */
	if (ipv6_only_sock(a) && !ipv6_only_sock(b))
		return false;
#if IS_ENABLED(CONFIG_IPV6)
	if (a->sk_family == AF_INET6)
		return ipv6_addr_equal(&a->sk_v6_rcv_saddr, &b->sk_v6_rcv_saddr);
#endif
	return a->sk_rcv_saddr == b->sk_rcv_saddr;
}

/* Another one has to take the clients that this one does not get. */
static bool hof_move_replaces(const struct hof_move *move, const struct sock *sk)
{
	unsigned int i;

	for (i = 0; i < move->to.nr; i++)
		if (inet_sk_state_load(move->to.sk[i]) == TCP_LISTEN &&
		    hof_listeners_alike(move->to.sk[i], sk))
			return true;
	return false;
}

static int hof_move_from(struct hof_move *move, struct sock *sk)
{
	int err;

	if (!hof_sock_listens(sk))
		return -EOPNOTSUPP;
	if (hof_listeners_have(&move->to, sk) || hof_listeners_have(&move->from, sk))
		return -EEXIST;
	if (!move->drain && !hof_move_replaces(move, sk))
		return -EADDRNOTAVAIL;
	if (hof_listener_is_hidden(sk))
		return -EBUSY;
	err = hof_listeners_add(&move->from, sk);
	/* Of a drained one clients may come in here, and are handed on. */
	if (err || move->drain)
		return err;
	err = flt_listener_mute(sk, true);
	if (err)
		sock_put(move->from.sk[--move->from.nr]);
	return err;
}

int hof_move_add_conn(struct hof_move *move, struct sock *sk)
{
	int err = 0;

	if (!sk_is_tcp(sk))
		return -EOPNOTSUPP;
	if (inet_sk_state_load(sk) != TCP_ESTABLISHED)
		return -ENOTCONN;
	/* One that it has opened itself, from its service's port, is no client's. */
	if (!flt_sock_came(sk))
		return -EADDRNOTAVAIL;
	if (!hof_sock_door(sk))
		return -EOPNOTSUPP;
	mutex_lock(&move->lock);
	/* Whether a node listens there it says itself. */
	if (move->drain)
		err = hof_drain_begin(move->drain);
	else if (!hof_move_fits(move, sk))
		err = -EADDRNOTAVAIL;
	mutex_unlock(&move->lock);
	return err ?: hof_moving_begin(move, sk);
}

static int hof_move_socket(struct hof_move *move, unsigned int cmd, int fd)
{
	struct socket *sock;
	int err;

	sock = sockfd_lookup(fd, &err);
	if (!sock)
		return err;
	err = -EXDEV;
	if (!net_eq(sock_net(sock->sk), move->net))
		goto put;
	if (cmd == HOF_MOVE_CONN) {
		err = hof_move_add_conn(move, sock->sk);
		goto put;
	}
	mutex_lock(&move->lock);
	mutex_lock(&hof_moves_lock);
	err = cmd == HOF_MOVE_TO ? hof_move_to(move, sock->sk) : hof_move_from(move, sock->sk);
	mutex_unlock(&hof_moves_lock);
	mutex_unlock(&move->lock);
put:
	sockfd_put(sock);
	return err;
}

static int hof_move_node(struct hof_move *move, u32 id)
{
	struct hof_drain *drain = move->drain;
	int err;

	lockdep_assert_held(&move->lock);
	if (move->to.nr || move->from.nr || move->watched)
		return -EINVAL;
	if (!drain)
		drain = hof_drain_create(move->net);
	if (!drain)
		return -ENOMEM;
	err = hof_drain_add(drain, id);
	if (move->drain)
		return err;
	if (err) {
		hof_drain_free(drain);
		return err;
	}
	mutex_lock(&hof_moves_lock);
	move->drain = drain;
	WRITE_ONCE(hof_drains, hof_drains + 1);
	mutex_unlock(&hof_moves_lock);
	return 0;
}

int hof_move_add_node(struct hof_move *move, u32 id)
{
	int err;

	mutex_lock(&move->lock);
	err = hof_move_node(move, id);
	mutex_unlock(&move->lock);
	return err;
}

bool hof_move_drains(const struct net *net, const struct flt_tuple *tuple)
{
	struct hof_move *move;
	bool drains = false;
	unsigned int i;

	if (!READ_ONCE(hof_drains))
		return false;
	mutex_lock(&hof_moves_lock);
	list_for_each_entry(move, &hof_moves, node)
		for (i = 0; move->drain && i < move->from.nr; i++)
			drains |= flt_listener_rank_of(move->from.sk[i], net, tuple) != 0;
	mutex_unlock(&hof_moves_lock);
	return drains;
}

static void hof_move_count(struct hof_move *move, struct hof_move_status *status)
{
	struct hof_moving *m;
	unsigned int i;
	u8 why;

	lockdep_assert_held(&move->lock);
	status->moved = move->moved;
	status->ended = move->ended;
	list_for_each_entry(m, &move->conns, list) {
		why = READ_ONCE(m->why);
		if (why) {
			status->stuck++;
			status->stuck_by[why]++;
		} else if (hof_moving_waits(m)) {
			status->waiting++;
		} else {
			status->busy++;
		}
	}
	for (i = 0; i < move->to.nr; i++)
		status->listeners += READ_ONCE(move->to.sk[i]->sk_state) == TCP_LISTEN;
	if (move->drain)
		status->listeners = hof_drain_up(move->drain);
	for (i = 0; i < move->from.nr; i++)
		if (READ_ONCE(move->from.sk[i]->sk_state) == TCP_LISTEN)
			status->queued += READ_ONCE(move->from.sk[i]->sk_ack_backlog);
	memcpy(status->refused, move->refused, sizeof(status->refused));
}

void hof_move_get_status(struct hof_move *move, struct hof_move_status *status)
{
	memset(status, 0, sizeof(*status));
	mutex_lock(&move->lock);
	hof_move_count(move, status);
	mutex_unlock(&move->lock);
}

static int hof_move_status(struct hof_move *move, void __user *arg)
{
	struct hof_move_status *status = kmalloc(sizeof(*status), GFP_KERNEL);
	int err;

	if (!status)
		return -ENOMEM;
	hof_move_get_status(move, status);
	err = copy_to_user(arg, status, sizeof(*status)) ? -EFAULT : 0;
	kfree(status);
	return err;
}

static int hof_move_passed(struct hof_move *move, void __user *arg)
{
	struct hof_move_passed passed;

	lockdep_assert_held(&move->lock);
	if (!move->drain)
		return -EINVAL;
	hof_drain_passed(move->drain, &passed);
	return copy_to_user(arg, &passed, sizeof(passed)) ? -EFAULT : 0;
}

static long hof_move_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct hof_move *move = filp->private_data;
	int err;

	switch (cmd) {
	case HOF_MOVE_TO:
	case HOF_MOVE_FROM:
	case HOF_MOVE_CONN:
		return hof_move_socket(move, cmd, arg);
	case HOF_MOVE_KEEP:
		mutex_lock(&move->lock);
		err = move->drain ? -EINVAL : 0;
		move->keep = !err;
		mutex_unlock(&move->lock);
		return err;
	case HOF_MOVE_NODE:
		return arg > U32_MAX ? -ENOENT : hof_move_add_node(move, arg);
	case HOF_MOVE_PASSED:
		mutex_lock(&move->lock);
		err = hof_move_passed(move, (void __user *)arg);
		mutex_unlock(&move->lock);
		return err;
	case HOF_MOVE_STATUS:
		return hof_move_status(move, (void __user *)arg);
	default:
		return -ENOTTY;
	}
}

static void hof_move_look(struct work_struct *work)
{
	struct hof_move *move = container_of(work, struct hof_move, look.work);
	struct hof_moving *m;

	mutex_lock(&move->lock);
	list_for_each_entry(m, &move->conns, list)
		hof_moving_look(m, move->idle_ms);
	if (!list_empty(&move->conns))
		hof_move_watch(move);
	mutex_unlock(&move->lock);
}

void hof_move_watch(struct hof_move *move)
{
	lockdep_assert_held(&move->lock);
	queue_delayed_work(system_unbound_wq, &move->look, HOF_MOVE_LOOK);
}

static void hof_move_free(struct hof_move *move)
{
	hof_listeners_put(&move->to);
	hof_listeners_put(&move->from);
	hof_drain_free(move->drain);
	kfree(move);
}

static void hof_move_show(struct hof_move *move)
{
	unsigned int i;
	int err;

	lockdep_assert_held(&hof_moves_lock);
	if (move->drain || move->keep)
		return;
	for (i = 0; i < move->from.nr; i++) {
		err = flt_listener_mute(move->from.sk[i], false);
		if (err && err != -EINVAL)
			pr_warn_ratelimited("a listener stays hidden from clients: %pe\n",
					    ERR_PTR(err));
	}
}

void hof_move_end(struct hof_move *move)
{
	struct hof_moving *m, *next;

	cancel_delayed_work_sync(&move->look);
	mutex_lock(&move->lock);
	move->closing = true;
	if (move->drain)
		WRITE_ONCE(move->drain->ending, true);
	list_for_each_entry(m, &move->conns, list)
		hof_moving_stop(m);
	mutex_unlock(&move->lock);
	if (move->watched)
		synchronize_rcu();	/* nothing is queued from here on */
	list_for_each_entry_safe(m, next, &move->conns, list)
		hof_moving_end(m);
	mutex_lock(&hof_moves_lock);
	list_del(&move->node);
	if (move->drain)
		WRITE_ONCE(hof_drains, hof_drains - 1);
	hof_move_show(move);
	mutex_unlock(&hof_moves_lock);
	/* Some may be in the last instructions of our lock. */
	if (move->watched)
		hof_moving_flush();
	hof_move_free(move);
}

static int hof_move_close(struct inode *inode, struct file *filp)
{
	struct hof_move *move = filp->private_data;
	struct net *net = move->net;

	hof_move_end(move);
	put_net(net);
	return 0;
}

static const struct file_operations hof_move_fops = {
	.owner = THIS_MODULE,
	.release = hof_move_close,
	.unlocked_ioctl = hof_move_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

struct hof_move *hof_move_begin(struct net *net, u32 idle_ms)
{
	struct hof_move *move = kzalloc(sizeof(*move), GFP_KERNEL_ACCOUNT);

	if (!move)
		return NULL;
	move->net = net;
	move->idle_ms = idle_ms;
	mutex_init(&move->lock);
	INIT_LIST_HEAD(&move->conns);
	INIT_DELAYED_WORK(&move->look, hof_move_look);
	move->to.sk = kvcalloc(HOF_MOVE_LISTENERS, sizeof(*move->to.sk), GFP_KERNEL_ACCOUNT);
	move->from.sk = kvcalloc(HOF_MOVE_LISTENERS, sizeof(*move->from.sk), GFP_KERNEL_ACCOUNT);
	if (!move->to.sk || !move->from.sk) {
		hof_move_free(move);
		return NULL;
	}
	mutex_lock(&hof_moves_lock);
	list_add(&move->node, &hof_moves);
	mutex_unlock(&hof_moves_lock);
	return move;
}

int hof_move_open(struct net *net, const void __user *arg)
{
	struct hof_move_start start;
	struct hof_move *move;
	int fd;

	/* It works on the machine's time, for a program whose sockets others have as well. */
	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	if (copy_from_user(&start, arg, sizeof(start)))
		return -EFAULT;
	if (start.size != sizeof(start) || start.flags || start.pad ||
	    (start.idle_ms && start.idle_ms < HOF_MOVE_IDLE_MIN) || start.idle_ms > INT_MAX / 2)
		return -EINVAL;
	move = hof_move_begin(get_net(net), start.idle_ms);
	if (!move) {
		put_net(net);
		return -ENOMEM;
	}
	fd = anon_inode_getfd("[handoff-move]", &hof_move_fops, move, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	hof_move_end(move);
	put_net(net);
	return fd;
}
