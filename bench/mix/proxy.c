// SPDX-License-Identifier: GPL-2.0
/*
 * mix-proxy [-s] [-k] [-b BYTES] [-f BYTES] [-m BYTES] LAYER SHOWN PORT ORIGIN-ADDRESS ORIGIN-PORT: a
 * caching proxy of one thread that waits by LAYER (bench/uselect/wait.c).
 *
 * Hits are answered from memory, misses relayed with a buffer of -b bytes (64 KB). -s: of an answer of
 * which -m bytes or more (1) are missing after a first read of -f (2896, as in the paper) the kernel
 * passes on the rest (sksplice). -k: check what was kept for the cache, byte for byte.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench/uselect/load.h"
#include "bench/uselect/wait.h"
#include "mix.h"
#include "splice/lib/sksplice.h"

#define BLOCK_MAX	65536
#define CACHE_SIZE	(16 << 20)
/* As the paper's proxy reads first, and as its Squid asked for copies. */
#define FIRST		2896
#define COPY_WAKE	(16 << 10)
#define COPY_MAX	(64 << 10)

/* For the layer `floor`, which this program does not have. */
struct shown *shown;

enum state {
	GONE,
	IDLE,		/* robot: may ask; origin: in the pool */
	CONNECTING,	/* origin */
	ASKED,		/* origin: thinks, or sends; robot: waits for it */
	SENDING,	/* robot: has no room for what it is to get */
	JOINED,		/* robot: the kernel sends; origin: and we read a copy, if one is kept */
};

/**
 * struct conn - a connection, of a robot or to the origin
 * @other:  origin that serves the robot, or robot that it serves
 * @events: that are of interest
 * @missed: something came in a state in which it was not looked at
 * Of robots:
 * @head:   what is asked
 * @sent:   of a hit, head and body
 * @left:   of a miss, bytes that are to be read from the origin
 * @spare:  bytes that were read and that the robot had no room for, or NULL; @from to @to
 * @copy:   where the copy is
 * @copied: bytes of it
 */
struct conn {
	enum state state;
	bool robot;
	bool missed;
	int other;
	uint32_t events;
	struct mix_head head;
	size_t sent;
	size_t left;
	unsigned char *spare;
	size_t from;
	size_t to;
	unsigned char *copy;
	size_t copied;
};

static struct conn conns[FDS_MAX];
static int pool[FDS_MAX], nr_pool;
static unsigned char buffer[BLOCK_MAX], cache[CACHE_SIZE];
static size_t cache_at;
static size_t block = BLOCK_MAX, first = FIRST, least = 1;
static bool splices, checks;
static int listener, device;
static struct sockaddr_in origin_address;
static const struct wait_layer *layer;
static struct mix_shown *stats;

static void want(int fd, uint32_t events)
{
	if (conns[fd].events == events)
		return;
	conns[fd].events = events;
	if (layer->want)
		layer->want(fd, events);
}

static void add(int fd, bool robot, enum state state)
{
	if (fd < 0 || fd >= FDS_MAX)
		broken("mix-proxy: descriptor");
	conns[fd] = (struct conn){ .state = state, .robot = robot, .events = EPOLLIN };
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	layer->add(fd);
}

static void end(int fd)
{
	if (layer->remove)
		layer->remove(fd);
	close(fd);
	free(conns[fd].spare);
	conns[fd].spare = NULL;
	conns[fd].state = GONE;
}

/* The robot has gone in the midst, or nothing is under way. */
static void end_robot(int fd)
{
	if (conns[fd].other)
		end(conns[fd].other);
	end(fd);
	stats->closed++;
}

/* --- copies for the cache --- */

static void cache_begin(struct conn *r)
{
	if (cache_at + r->head.size > CACHE_SIZE)
		cache_at = 0;
	r->copy = cache + cache_at;
	r->copied = 0;
	cache_at += r->head.size;
}

static void cache_add(struct conn *r, const unsigned char *bytes, size_t len)
{
	if (!(r->head.flags & MIX_CACHE))
		return;
	memcpy(r->copy + r->copied, bytes, len);
	r->copied += len;
}

static void cache_end(struct conn *r)
{
	if (r->copied != r->head.size ||
	    (checks && memcmp(r->copy, mix_body(r->head.object), r->head.size))) {
		fprintf(stderr, "mix-proxy: the copy of %u bytes is wrong, %zu came\n", r->head.size,
			r->copied);
		exit(1);
	}
	stats->copied += r->copied;
}

/* --- answers --- */

static bool robot_asks(int fd);

/* The answer is out. */
static bool finish(int fd)
{
	struct conn *r = &conns[fd];
	int origin = r->other;

	if (origin) {
		if (r->head.flags & MIX_CACHE)
			cache_end(r);
		if (r->head.flags & MIX_LAST) {
			end(origin);
		} else {
			conns[origin].state = IDLE;
			conns[origin].other = 0;
			want(origin, EPOLLIN);
			pool[nr_pool++] = origin;
			stats->pooled = nr_pool;
		}
		r->other = 0;
	}
	r->state = IDLE;
	want(fd, EPOLLIN);
	if (!r->missed)
		return true;
	r->missed = false;
	return robot_asks(fd);
}

static void no_room(int fd)
{
	conns[fd].state = SENDING;
	want(fd, EPOLLOUT);
	stats->blocked++;
}

static bool send_hit(int fd)
{
	struct conn *r = &conns[fd];
	const unsigned char *body = mix_body(r->head.object);
	size_t all = sizeof(r->head) + r->head.size;

	while (r->sent < all) {
		size_t head = r->sent < sizeof(r->head) ? sizeof(r->head) - r->sent : 0;
		size_t done = head ? 0 : r->sent - sizeof(r->head);
		struct iovec iov[2] = {
			{ (char *)&r->head + (head ? r->sent : 0), head },
			{ (void *)(body + done), r->head.size - done },
		};
		struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
		ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN) {
			no_room(fd);
			return false;
		}
		if (n < 0) {
			end_robot(fd);
			return true;
		}
		r->sent += n;
	}
	return finish(fd);
}

/* What was read goes out, or is put aside. False: there was no room, or the robot has gone. */
static bool send_read(int fd, const unsigned char *bytes, size_t len)
{
	struct conn *r = &conns[fd];
	size_t sent = 0;
	ssize_t n;

	while (sent < len) {
		n = send(fd, bytes + sent, len - sent, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN) {
			end_robot(fd);
			return false;
		}
		if (n < 0)
			break;
		sent += n;
	}
	if (r->spare)
		r->from += sent;
	if (sent == len) {
		free(r->spare);
		r->spare = NULL;
		return true;
	}
	if (!r->spare) {
		r->spare = malloc(len - sent);
		if (!r->spare)
			broken("memory");
		memcpy(r->spare, bytes + sent, len - sent);
		r->from = 0;
		r->to = len - sent;
	}
	want(r->other, 0);
	no_room(fd);
	return false;
}

/* The rest of an answer, as far as it is there. */
static bool relay(int fd)
{
	struct conn *r = &conns[fd];
	size_t most;
	ssize_t n;

	while (r->left) {
		most = r->left < block ? r->left : block;
		n = recv(r->other, buffer, most, 0);
		if (!n || (n < 0 && errno != EAGAIN))
			broken("mix-proxy: the origin left");
		if (n < 0)
			break;
		cache_add(r, buffer, n);
		r->left -= n;
		if (!send_read(fd, buffer, n))
			return true;
		if (n < (ssize_t)most)
			break;
	}
	if (!r->left)
		return finish(fd);
	r->state = ASKED;
	conns[r->other].state = ASKED;
	want(fd, 0);
	want(r->other, EPOLLIN);
	return false;
}

static bool read_copy(int fd)
{
	struct conn *r = &conns[fd];
	size_t most = r->head.size - r->copied;
	ssize_t n = recv(r->other, r->copy + r->copied, most, 0);

	if (!n || (n < 0 && errno != EAGAIN))
		broken("mix-proxy: the copy ended");
	if (n < 0)
		return false;
	r->copied += n;
	return n < (ssize_t)most || finish(fd);
}

static bool join(int fd, size_t len)
{
	struct conn *r = &conns[fd];
	bool keep = r->head.flags & MIX_CACHE;
	struct ssp_splice req = {
		.flags = SSP_LIMIT | SSP_AUTORELEASE | (keep ? SSP_KEEPCOPY : 0),
		.fd0 = r->other,
		.fd1 = fd,
		.limit = r->left,
		.data = (uintptr_t)buffer,
		.data_len = len,
	};
	int ret;

	if (keep) {
		req.inbuf = (uintptr_t)(r->copy + r->copied);
		req.inbuf_len = r->left;
		req.min2read = r->left < COPY_WAKE ? r->left : COPY_WAKE;
		req.max2cache = COPY_MAX;
	}
	ret = sksplice_start(device, &req);
	if (ret < 0) {
		if (ret != -EAGAIN) {
			errno = -ret;
			broken("mix-proxy: sksplice");
		}
		return !send_read(fd, buffer + req.data_done, len - req.data_done) || relay(fd);
	}
	stats->spliced++;
	r->copied += req.inbuf_done;
	r->left = 0;
	if (ret == SSP_DONE) {
		stats->in_call++;
		return finish(fd);
	}
	r->state = JOINED;
	conns[r->other].state = JOINED;
	/* With a copy its last byte tells the end. */
	want(fd, keep ? 0 : EPOLLOUT);
	want(r->other, keep ? EPOLLIN : 0);
	return true;
}

/* --- the origin --- */

static bool origin_answers(int fd)
{
	struct mix_head *head = (struct mix_head *)buffer;
	struct conn *r = &conns[conns[fd].other];
	ssize_t n;

	if (r->left < r->head.size)
		return relay(conns[fd].other);
	n = recv(fd, buffer, splices ? first : block, 0);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n < (ssize_t)sizeof(*head) || head->magic != MIX_MAGIC || head->size != r->head.size ||
	    head->object != r->head.object || (size_t)n - sizeof(*head) > head->size)
		broken("mix-proxy: an answer");
	r->head.flags = head->flags;
	r->left -= n - sizeof(*head);
	/* To the robot its own connection is not the one that ends. */
	head->flags &= ~MIX_LAST;
	if (r->head.flags & MIX_CACHE)
		cache_begin(r);
	cache_add(r, buffer + sizeof(*head), n - sizeof(*head));
	if (splices && r->left && r->left >= least)
		return join(conns[fd].other, n);
	return !send_read(conns[fd].other, buffer, n) || relay(conns[fd].other);
}

/* While the connection is not there yet there is no room either. */
static bool ask(int fd)
{
	const struct mix_head *head = &conns[conns[fd].other].head;
	ssize_t n = send(fd, head, sizeof(*head), MSG_NOSIGNAL);

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n != sizeof(*head))
		broken("mix-proxy: a request to the origin");
	conns[fd].state = ASKED;
	want(fd, EPOLLIN);
	return true;
}

static void ask_origin(int fd)
{
	int origin;

	if (nr_pool) {
		origin = pool[--nr_pool];
		stats->pooled = nr_pool;
	} else {
		origin = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (connect(origin, (struct sockaddr *)&origin_address, sizeof(origin_address)) &&
		    errno != EINPROGRESS)
			broken("mix-proxy: connect");
		add(origin, false, CONNECTING);
		want(origin, EPOLLOUT);
		stats->opened++;
	}
	conns[fd].state = ASKED;
	conns[fd].left = conns[fd].head.size;
	conns[fd].other = origin;
	conns[origin].other = fd;
	want(fd, 0);
	if (conns[origin].state == IDLE)
		ask(origin);
}

/* A connection of the pool has ended. */
static void origin_left(int fd)
{
	int i;

	for (i = 0; pool[i] != fd;)
		i++;
	pool[i] = pool[--nr_pool];
	stats->pooled = nr_pool;
	end(fd);
}

static bool origin_ready(int fd)
{
	char byte;

	switch (conns[fd].state) {
	case IDLE:
		if (!recv(fd, &byte, 1, 0))
			origin_left(fd);
		return false;
	case CONNECTING:
		return ask(fd);
	case JOINED:
		if (conns[conns[fd].other].head.flags & MIX_CACHE)
			return read_copy(conns[fd].other);
		return false;
	default:
		/* The rest is read when the robot has room. */
		if (conns[conns[fd].other].state == SENDING)
			return false;
		return origin_answers(fd);
	}
}

/* --- robots --- */

static bool robot_asks(int fd)
{
	struct conn *r = &conns[fd];
	ssize_t n = recv(fd, &r->head, sizeof(r->head), 0);

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		end_robot(fd);
		return true;
	}
	if (n != sizeof(r->head) || r->head.magic != MIX_MAGIC || r->head.size > MIX_SIZE_MAX)
		broken("mix-proxy: a request");
	if (!(r->head.flags & MIX_HIT)) {
		ask_origin(fd);
		return true;
	}
	r->sent = 0;
	return send_hit(fd);
}

static bool robot_ready(int fd)
{
	struct conn *r = &conns[fd];

	if (r->state == IDLE)
		return robot_asks(fd);
	if (wait_ready & EPOLLIN)
		r->missed = true;
	if (!(wait_ready & ~(uint32_t)EPOLLIN))
		return false;
	/* It is writable when the transfer is over. */
	if (r->state == JOINED)
		return !(r->head.flags & MIX_CACHE) && finish(fd);
	if (r->state != SENDING)
		return false;
	if (!r->other)
		return send_hit(fd);
	return !send_read(fd, r->spare + r->from, r->to - r->from) || relay(fd);
}

static bool accept_one(void)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return false;
	add(fd, true, IDLE);
	stats->accepted++;
	/* Who connects has something to ask. */
	robot_asks(fd);
	return true;
}

bool serve(int fd)
{
	if (fd == listener) {
		while (accept_one())
			;
		return false;
	}
	if (conns[fd].state == GONE)
		return false;
	return conns[fd].robot ? robot_ready(fd) : origin_ready(fd);
}

static int usage(void)
{
	const struct wait_layer *l;

	fputs("usage: mix-proxy [-s] [-k] [-b BYTES] [-f BYTES] [-m BYTES] LAYER SHOWN PORT ORIGIN-ADDRESS "
	      "ORIGIN-PORT\n"
	      "LAYER:", stderr);
	for (l = wait_layers; l->name; l++)
		if (l->both)
			fprintf(stderr, " %s", l->name);
	fputc('\n', stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct rlimit nofile = { FDS_MAX, FDS_MAX };
	int c;

	while ((c = getopt(argc, argv, "skb:f:m:")) >= 0) {
		if (c == 's')
			splices = true;
		else if (c == 'k')
			checks = true;
		else if (c == 'b')
			block = strtoul(optarg, NULL, 0);
		else if (c == 'f')
			first = strtoul(optarg, NULL, 0);
		else if (c == 'm')
			least = strtoul(optarg, NULL, 0);
		else
			return usage();
	}
	argv += optind;
	if (argc - optind != 5 || block < sizeof(struct mix_head) || block > BLOCK_MAX ||
	    first < sizeof(struct mix_head) || first > BLOCK_MAX)
		return usage();
	for (layer = wait_layers; layer->name && strcmp(layer->name, argv[0]); layer++)
		;
	/* It remembers that a socket was writable, and would take that for the end of a transfer. */
	if (!layer->name || !layer->both || (splices && !strcmp(layer->name, "epoll-paper")))
		return usage();
	origin_address.sin_family = AF_INET;
	origin_address.sin_port = htons(atoi(argv[4]));
	if (!inet_aton(argv[3], &origin_address.sin_addr))
		return usage();
	setrlimit(RLIMIT_NOFILE, &nofile);
	if (splices) {
		device = sksplice_open();
		if (device < 0) {
			errno = -device;
			broken("mix-proxy: " SSP_DEVICE);
		}
	}
	mix_body(0);
	stats = mix_shown_map(argv[1]);
	*stats = (struct mix_shown){ .origin = stats->origin };
	wait_edges = EPOLLIN | EPOLLOUT;
	if (!layer->open()) {
		fprintf(stderr, "mix-proxy: %s cannot be had\n", layer->name);
		return 4;
	}
	listener = mix_listen(atoi(argv[2]), SOCK_NONBLOCK);
	layer->add(listener);
	stats->proxy = getpid();
	for (;;) {
		layer->wait();
		stats->calls = wait_calls;
	}
}
