// SPDX-License-Identifier: GPL-2.0
/*
 * A channel's sending side.
 *
 * A message goes one of two ways. When nothing waits and the channel was quiet
 * in this tick, the sender writes to the socket itself: no copy of its own, no
 * wake-up, lowest latency. Otherwise it is appended to the queue and one worker
 * writes all that has gathered: few segments and few wake-ups when messages come
 * fast. Messages sent by a message handler wait for the end of the received
 * batch. Order is the same on all ways: who writes holds tx_mutex, and whoever
 * finds something queued queues behind it.
 */

#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/sock.h>
#include "chan.h"
#include "counter.h"
#include "linkwork.h"

/* Pieces written by one call. */
#define FLT_TX_VECS	16

/* Parts of one message that are written directly; more go through the queue. */
#define FLT_TX_DIRECT_PARTS	7

static void flt_piece_free(struct flt_piece *piece)
{
	if (piece && piece->bulk)
		piece->bulk->done(piece->bulk);
	if (piece && piece->secret)
		memzero_explicit(piece->data, sizeof(piece->data));
	kfree(piece);
}

static void flt_pieces_free(struct list_head *list)
{
	struct flt_piece *piece, *next;

	list_for_each_entry_safe(piece, next, list, list)
		flt_piece_free(piece);
	INIT_LIST_HEAD(list);
}

static void flt_piece_add(struct list_head *list, struct flt_piece *piece)
{
	piece->bulk = NULL;
	piece->len = 0;
	piece->off = 0;
	piece->secret = false;
	list_add_tail(&piece->list, list);
}

/* Paid for by who added the node, whoever sends. */
static void *flt_piece_alloc(const struct flt_chan *chan, size_t size, gfp_t gfp)
{
	struct mem_cgroup *old = set_active_memcg(chan->link->memcg);
	void *piece;

	if (gfpflags_allow_blocking(gfp))
		gfp |= __GFP_RETRY_MAYFAIL;
	piece = kmalloc(size, gfp | __GFP_ACCOUNT | __GFP_NOWARN);
	set_active_memcg(old);
	return piece;
}

static int flt_pieces_alloc(const struct flt_chan *chan, struct list_head *list, u32 bytes,
			    gfp_t gfp)
{
	struct flt_piece *piece;
	u32 have;

	for (have = 0; have < bytes; have += FLT_PIECE_SIZE) {
		piece = flt_piece_alloc(chan, sizeof(*piece), gfp);
		if (!piece) {
			flt_pieces_free(list);
			return -ENOMEM;
		}
		flt_piece_add(list, piece);
	}
	return 0;
}

static struct flt_piece *flt_piece_of_bulk(const struct flt_chan *chan, struct flt_bulk *bulk,
					   gfp_t gfp)
{
	struct flt_piece *piece;

	piece = flt_piece_alloc(chan, offsetof(struct flt_piece, data), gfp);
	if (!piece)
		return NULL;
	piece->bulk = bulk;
	piece->len = bulk->len;
	piece->off = 0;
	piece->secret = false;
	return piece;
}

/* Appends to the pieces from *@piece on, which have the room. */
static void flt_pieces_write(struct flt_piece **piece, const void *data, u32 len, bool secret)
{
	while (len) {
		u32 n = min_t(u32, len, FLT_PIECE_SIZE - (*piece)->len);

		if (!n) {
			*piece = list_next_entry(*piece, list);
			continue;
		}
		memcpy((*piece)->data + (*piece)->len, data, n);
		(*piece)->secret |= secret;
		(*piece)->len += n;
		data += n;
		len -= n;
	}
}

static void flt_message_write(struct flt_piece *piece, const struct flt_frame *head,
			      const struct kvec *vec, unsigned int nr)
{
	bool secret = flt_msg_is_secret(head->type);
	unsigned int i;

	flt_pieces_write(&piece, head, sizeof(*head), secret);
	for (i = 0; i < nr; i++)
		flt_pieces_write(&piece, vec[i].iov_base, vec[i].iov_len, secret);
}

static bool flt_chan_takes(const struct flt_chan *chan)
{
	lockdep_assert_held(&chan->tx_lock);
	return chan->state == FLT_CHAN_OPEN || chan->state == FLT_CHAN_UP;
}

static int flt_chan_may_queue(struct flt_chan *chan, u32 bytes, bool urgent)
{
	u32 max = READ_ONCE(chan->fn->queue_max);

	lockdep_assert_held(&chan->tx_lock);
	if (!flt_chan_takes(chan) && !urgent)
		return -ENOTCONN;
	/* Room for our own frames; not without end: a peer may ask and never read. */
	if (urgent)
		max += SZ_64K;
	/* One message of any legal size is taken by an empty queue. */
	if (chan->queued && chan->queued - chan->bulked + bytes > max)
		return -ENOBUFS;
	return 0;
}

/* @bytes are in the queue; the peer's time to take them begins if nothing else was. */
static void flt_chan_count(struct flt_chan *chan, u32 bytes)
{
	lockdep_assert_held(&chan->tx_lock);
	if (!chan->queued)
		WRITE_ONCE(chan->tx_moved, jiffies);
	WRITE_ONCE(chan->queued, chan->queued + bytes);
}

/* The usual case: the message fits behind what is queued, or in the spare piece. */
static bool flt_chan_queue_small(struct flt_chan *chan, const struct flt_frame *head,
				 const struct kvec *vec, unsigned int nr, u32 bytes)
{
	struct flt_piece *tail;

	lockdep_assert_held(&chan->tx_lock);
	tail = list_empty(&chan->queue) ? NULL :
	       list_last_entry(&chan->queue, struct flt_piece, list);
	if (!tail || tail->bulk || FLT_PIECE_SIZE - tail->len < bytes) {
		tail = chan->spare;
		if (!tail || bytes > FLT_PIECE_SIZE)
			return false;
		chan->spare = NULL;
		flt_piece_add(&chan->queue, tail);
	}
	flt_message_write(tail, head, vec, nr);
	flt_chan_count(chan, bytes);
	return true;
}

static void flt_chan_queue_bulk(struct flt_chan *chan, struct flt_piece *piece)
{
	lockdep_assert_held(&chan->tx_lock);
	if (!piece)
		return;
	list_add_tail(&piece->list, &chan->queue);
	flt_chan_count(chan, piece->len);
	WRITE_ONCE(chan->bulked, chan->bulked + piece->len);
}

/* Queues a message of @bytes, and @bulk, if there is one, behind them. */
static int flt_chan_queue(struct flt_chan *chan, const struct flt_frame *head,
			  const struct kvec *vec, unsigned int nr, u32 bytes,
			  struct flt_piece *bulk, bool urgent, gfp_t gfp)
{
	LIST_HEAD(fresh);
	int err;

	spin_lock_bh(&chan->tx_lock);
	err = flt_chan_may_queue(chan, bytes, urgent);
	if (err || flt_chan_queue_small(chan, head, vec, nr, bytes)) {
		if (!err)
			flt_chan_queue_bulk(chan, bulk);
		spin_unlock_bh(&chan->tx_lock);
		return err;
	}
	spin_unlock_bh(&chan->tx_lock);

	err = flt_pieces_alloc(chan, &fresh, bytes, gfp);
	if (err)
		return err;
	flt_message_write(list_first_entry(&fresh, struct flt_piece, list), head, vec, nr);

	spin_lock_bh(&chan->tx_lock);
	err = flt_chan_may_queue(chan, bytes, urgent);
	if (!err) {
		list_splice_tail_init(&fresh, &chan->queue);
		flt_chan_count(chan, bytes);
		flt_chan_queue_bulk(chan, bulk);
	}
	spin_unlock_bh(&chan->tx_lock);
	flt_pieces_free(&fresh);
	return err;
}

/*
 * Accounts @n bytes as taken by the socket and frees the pieces that are through. Bulk data
 * leaves @queued and @bulked together: what a queue may hold is their difference.
 */
static void flt_chan_sent(struct flt_chan *chan, u32 n)
{
	struct flt_piece *piece, *next;
	u32 left = n, bulk = 0;
	bool empty;

	lockdep_assert_held(&chan->tx_mutex);
	list_for_each_entry_safe(piece, next, &chan->sending, list) {
		u32 part = min(left, piece->len - piece->off);

		piece->off += part;
		left -= part;
		if (piece->bulk)
			bulk += part;
		if (piece->off < piece->len)
			break;
		list_del(&piece->list);
		spin_lock_bh(&chan->tx_lock);
		if (!piece->bulk && !piece->secret && !chan->spare)
			swap(chan->spare, piece);
		spin_unlock_bh(&chan->tx_lock);
		flt_piece_free(piece);
	}
	spin_lock_bh(&chan->tx_lock);
	WRITE_ONCE(chan->queued, chan->queued - n);
	WRITE_ONCE(chan->bulked, chan->bulked - bulk);
	empty = !chan->queued;
	spin_unlock_bh(&chan->tx_lock);
	/* Who takes a byte now and then takes no message. */
	chan->tx_run += n;
	if (empty || chan->tx_run >= FLT_MSG_SMALL) {
		chan->tx_run = 0;
		WRITE_ONCE(chan->tx_moved, jiffies);
	}
}

static int flt_sock_write(struct socket *sock, struct kvec *vec, unsigned int nr, size_t bytes,
			  bool more)
{
	struct msghdr msg = {
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0),
	};

	return kernel_sendmsg(sock, &msg, vec, nr, bytes);
}

/* Hands the pages of a bulk piece to the socket. */
static int flt_sock_splice(struct socket *sock, const struct flt_piece *piece, bool more)
{
	struct msghdr msg = {
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_SPLICE_PAGES | (more ? MSG_MORE : 0),
	};

	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, piece->bulk->bvec, piece->bulk->nr, piece->len);
	iov_iter_advance(&msg.msg_iter, piece->off);
	return sock_sendmsg(sock, &msg);
}

/* Writes queued pieces until the socket is full or nothing is left. */
static void flt_chan_drain(struct flt_chan *chan)
{
	struct kvec vec[FLT_TX_VECS];
	struct flt_piece *piece;
	unsigned int nr;
	size_t bytes;
	int n;

	lockdep_assert_held(&chan->tx_mutex);
	while (chan->sock && !READ_ONCE(chan->why)) {
		spin_lock_bh(&chan->tx_lock);
		list_splice_tail_init(&chan->queue, &chan->sending);
		spin_unlock_bh(&chan->tx_lock);

		nr = 0;
		bytes = 0;
		list_for_each_entry(piece, &chan->sending, list) {
			if (nr == FLT_TX_VECS || piece->bulk)
				break;
			vec[nr].iov_base = piece->data + piece->off;
			vec[nr].iov_len = piece->len - piece->off;
			bytes += vec[nr++].iov_len;
		}
		if (nr)
			n = flt_sock_write(chan->sock, vec, nr, bytes,
					   !list_entry_is_head(piece, &chan->sending, list));
		else if (!list_empty(&chan->sending))
			n = flt_sock_splice(chan->sock, piece,
					    !list_is_last(&piece->list, &chan->sending));
		else
			break;
		if (n == -EAGAIN)
			break;	/* write_space queues the work again */
		if (n < 0) {
			flt_chan_fail(chan, FLT_WHY_CLOSED);
			break;
		}
		flt_count(chan->fn, FLT_SEND_BATCHES);
		flt_count_add(chan->fn, FLT_BYTES_OUT, n);
		flt_chan_sent(chan, n);
	}
}

/* Send what is queued, now, by this task. */
void flt_chan_flush(struct flt_chan *chan)
{
	if (!READ_ONCE(chan->queued))
		return;
	mutex_lock(&chan->tx_mutex);
	flt_chan_drain(chan);
	mutex_unlock(&chan->tx_mutex);
}

/* Has what is queued sent: by this task now, or soon by a work. */
void flt_chan_kick(struct flt_chan *chan, bool now)
{
	/* The receive work sends its handlers' answers itself. */
	if (READ_ONCE(chan->rx_task) == current)
		return;
	if (now)
		flt_chan_flush(chan);
	else
		queue_work(flt_msg_wq, &chan->tx_work);
}

static void flt_chan_tx_work(struct work_struct *work)
{
	flt_chan_flush(container_of(work, struct flt_chan, tx_work));
}

/* Keeps the rest of a message of which the socket took the first @done bytes. */
static int flt_chan_keep_rest(struct flt_chan *chan, const struct kvec *vec, unsigned int nr,
			      u32 bytes, u32 done)
{
	const struct flt_frame *head = vec[0].iov_base;
	bool secret = flt_msg_is_secret(head->type);
	struct flt_piece *piece;
	LIST_HEAD(rest);
	unsigned int i;

	lockdep_assert_held(&chan->tx_mutex);
	if (flt_pieces_alloc(chan, &rest, bytes - done, GFP_NOIO))
		return -ENOMEM;
	piece = list_first_entry(&rest, struct flt_piece, list);
	for (i = 0; i < nr; i++) {
		u32 skip = min_t(u32, done, vec[i].iov_len);

		flt_pieces_write(&piece, vec[i].iov_base + skip, vec[i].iov_len - skip, secret);
		done -= skip;
		bytes -= skip;
	}
	list_splice(&rest, &chan->sending);
	spin_lock_bh(&chan->tx_lock);
	flt_chan_count(chan, bytes);
	spin_unlock_bh(&chan->tx_lock);
	return 0;
}

/* False: not now, queue it. */
static bool flt_chan_send_direct(struct flt_chan *chan, const struct flt_frame *head,
				 const struct kvec *vec, unsigned int nr, u32 bytes, int *err)
{
	struct kvec parts[FLT_TX_DIRECT_PARTS + 1];
	bool idle;
	int n;

	if (READ_ONCE(chan->tx_jiffy) == (u32)jiffies || nr > FLT_TX_DIRECT_PARTS ||
	    READ_ONCE(chan->rx_task) == current || !mutex_trylock(&chan->tx_mutex))
		return false;
	spin_lock_bh(&chan->tx_lock);
	idle = flt_chan_takes(chan) && !chan->queued;
	spin_unlock_bh(&chan->tx_lock);
	if (!idle) {
		mutex_unlock(&chan->tx_mutex);
		return false;
	}

	WRITE_ONCE(chan->tx_jiffy, jiffies);
	parts[0].iov_base = (void *)head;
	parts[0].iov_len = sizeof(*head);
	memcpy(parts + 1, vec, nr * sizeof(*vec));
	n = flt_sock_write(chan->sock, parts, nr + 1, bytes, false);
	*err = 0;
	if (n == -EAGAIN)
		n = 0;
	if (n < 0) {
		flt_chan_fail(chan, FLT_WHY_CLOSED);
		*err = -ENOTCONN;
	} else {
		flt_count(chan->fn, FLT_SEND_DIRECT);
		flt_count_add(chan->fn, FLT_BYTES_OUT, n);
		WRITE_ONCE(chan->tx_moved, jiffies);
		if (n < bytes && flt_chan_keep_rest(chan, parts, nr + 1, bytes, n)) {
			/* Half a message cannot be taken back. */
			*err = -ENOMEM;
			if (n)
				flt_chan_fail(chan, FLT_WHY_NOMEM);
		}
		/* Others may have queued behind us meanwhile. */
		flt_chan_drain(chan);
	}
	mutex_unlock(&chan->tx_mutex);
	return true;
}

/* Checks the parts and frames them: the bytes that are copied, or -EMSGSIZE. */
static int flt_chan_frame(const struct flt_chan *chan, struct flt_frame *head,
			  const struct kvec *vec, unsigned int nr, const struct flt_bulk *bulk)
{
	size_t max = chan->features & FLT_FEATURE_LARGE ? FLT_MSG_MAX : FLT_MSG_SMALL;
	size_t len = bulk ? bulk->len : 0;
	unsigned int i;

	if (len > max)
		return -EMSGSIZE;
	for (i = 0; i < nr; i++) {
		if (vec[i].iov_len > max - len)
			return -EMSGSIZE;
		len += vec[i].iov_len;
	}
	head->len = cpu_to_be32(len);
	return len + sizeof(*head) - (bulk ? bulk->len : 0);
}

static int flt_chan_put_framed(struct flt_chan *chan, const struct flt_frame *head,
			       const struct kvec *vec, unsigned int nr, u32 bytes,
			       struct flt_bulk *bulk, gfp_t gfp)
{
	struct flt_piece *piece = NULL;
	int err;

	if (bulk) {
		piece = flt_piece_of_bulk(chan, bulk, gfp);
		if (!piece)
			return -ENOMEM;
	}
	err = flt_chan_queue(chan, head, vec, nr, bytes, piece, false, gfp);
	if (err)
		kfree(piece);	/* not done: the caller keeps the data */
	return err;
}

/**
 * flt_chan_put_message - queue a message that flt_chan_kick() will send
 * @chan: referenced
 * @type: as flt_link_send()
 * @vec:  as flt_link_send()
 * @nr:   as flt_link_send()
 * @bulk: as flt_link_send_bulk(), or NULL
 * @gfp:  as flt_link_send()
 *
 * Return: as flt_link_send().
 */
int flt_chan_put_message(struct flt_chan *chan, u8 type, const struct kvec *vec, unsigned int nr,
			 struct flt_bulk *bulk, gfp_t gfp)
{
	struct flt_frame head = { .type = type };
	int bytes = flt_chan_frame(chan, &head, vec, nr, bulk);

	if (bytes < 0)
		return bytes;
	return flt_chan_put_framed(chan, &head, vec, nr, bytes, bulk, gfp);
}

/**
 * flt_chan_send - send a message by the cheaper way
 * @chan: referenced
 * @type: as flt_link_send()
 * @vec:  as flt_link_send()
 * @nr:   as flt_link_send()
 * @bulk: as flt_link_send_bulk(), or NULL
 * @gfp:  as flt_link_send()
 *
 * Return: as flt_link_send().
 */
int flt_chan_send(struct flt_chan *chan, u8 type, const struct kvec *vec, unsigned int nr,
		  struct flt_bulk *bulk, gfp_t gfp)
{
	struct flt_frame head = { .type = type };
	int bytes, err;

	bytes = flt_chan_frame(chan, &head, vec, nr, bulk);
	if (bytes < 0)
		return bytes;
	if (!bulk && gfpflags_allow_blocking(gfp) &&
	    flt_chan_send_direct(chan, &head, vec, nr, bytes, &err))
		return err;
	err = flt_chan_put_framed(chan, &head, vec, nr, bytes, bulk, gfp);
	if (!err)
		flt_chan_kick(chan, false);
	return err;
}

/* A frame of the link itself: not held back by a full queue or a link not yet up. */
static int flt_chan_say(struct flt_chan *chan, enum flt_frame_type type, const void *body, u32 len)
{
	struct flt_frame head = { .type = type, .len = cpu_to_be32(len) };
	struct kvec vec = { .iov_base = (void *)body, .iov_len = len };
	int err;

	err = flt_chan_queue(chan, &head, &vec, 1, sizeof(head) + len, NULL, true, GFP_NOIO);
	if (!err)
		flt_chan_kick(chan, true);
	return err;
}

int flt_chan_say_hello(struct flt_chan *chan, const struct flt_local *local)
{
	struct {
		struct flt_hello hello;
		struct flt_hello_more more;
	} __packed body = {
		.hello.magic = cpu_to_be32(FLT_FRAME_MAGIC),
		.hello.version = cpu_to_be16(FLT_FRAME_VERSION),
		.hello.instance = cpu_to_be64(chan->fn->instance),
		.hello.heartbeat_ms = cpu_to_be32(READ_ONCE(chan->fn->heartbeat_ms)),
		.more.features = cpu_to_be64(FLT_FEATURES),
	};

	strscpy_pad(body.hello.name, local->name, sizeof(body.hello.name));
	return flt_chan_say(chan, FLT_FRAME_HELLO, &body,
			    chan->more ? sizeof(body) : sizeof(body.hello));
}

void flt_chan_say_reject(struct flt_chan *chan, enum flt_why why)
{
	struct flt_reject reject = { .why = cpu_to_be32(why) };

	flt_chan_say(chan, FLT_FRAME_REJECT, &reject, sizeof(reject));
}

int flt_chan_say_ping(struct flt_chan *chan)
{
	struct flt_ping ping = { .stamp = cpu_to_be64(ktime_get_ns()) };

	return flt_chan_say(chan, FLT_FRAME_PING, &ping, sizeof(ping));
}

int flt_chan_say_pong(struct flt_chan *chan, const struct flt_ping *ping)
{
	return flt_chan_say(chan, FLT_FRAME_PONG, ping, sizeof(*ping));
}

int flt_chan_say_absent(struct flt_chan *chan, u8 type)
{
	struct flt_absent absent = { .type = type };

	return flt_chan_say(chan, FLT_FRAME_ABSENT, &absent, sizeof(absent));
}

int flt_chan_say_report(struct flt_chan *chan, const struct flt_report *report)
{
	return flt_chan_say(chan, FLT_FRAME_REPORT, report, sizeof(*report));
}

void flt_chan_tx_init(struct flt_chan *chan)
{
	spin_lock_init(&chan->tx_lock);
	INIT_LIST_HEAD(&chan->queue);
	mutex_init(&chan->tx_mutex);
	INIT_LIST_HEAD(&chan->sending);
	INIT_WORK(&chan->tx_work, flt_chan_tx_work);
	chan->tx_moved = jiffies;
}

void flt_chan_tx_free(struct flt_chan *chan)
{
	flt_pieces_free(&chan->queue);
	flt_pieces_free(&chan->sending);
	kfree(chan->spare);
}
