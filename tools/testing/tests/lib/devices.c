// SPDX-License-Identifier: GPL-2.0
/* One random call to a device of ours, its arguments half right; see calls.h. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <flotilla/afpa.h>
#include <flotilla/early.h>
#include <flotilla/early_table.h>
#include <flotilla/handoff.h>
#include <flotilla/move.h>
#include <flotilla/relocate.h>
#include <flotilla/takeover.h>
#include <flotilla/iolite.h>
#include <flotilla/splice.h>
#include <flotilla/uselect.h>
#include "tools/testing/tests/lib/calls.h"

static const char *const devices[] = { "/dev/iolite", "/dev/uselect", "/dev/sksplice", "/dev/handoff", "/dev/afpa" };

/* The last names of pools and buffers that the kernel gave to this thread, some of them gone. */
static __thread struct iolite_names {
	uint64_t pool[4], offset[8], generation[8];
} names;

/* By the kernel, for which a page that is not there is an error and not a signal. */
bool touch(struct caller *c)
{
	unsigned int slot = dice(c, 4);
	size_t room = c->maps[slot].length < (4u << 20) ? c->maps[slot].length : 4u << 20;
	char *at = (char *)c->maps[slot].at;
	uint64_t where;
	size_t length;

	if (!at || !room)
		return false;
	/* Nearly everywhere is nothing: mostly where a buffer of its own is or was. */
	where = names.offset[dice(c, 8)] + dice(c, 4096);
	where = dice(c, 4) && where < room ? where : dice(c, room);
	/* What lies behind it may be our own stack. */
	length = 1 + dice(c, 8192);
	if (length > c->maps[slot].length - where)
		length = c->maps[slot].length - where;
	if (dice(c, 2))
		return write(one_of(c, PIPE), at + where, length) > 0;
	return read(one_of(c, PIPE), at + where, length) > 0;
}

bool ask_handoff(struct caller *c)
{
	struct hof_submit submit = { .size = dice(c, 9) ? sizeof(submit) : odd_number(c), .fd = one_of(c, TCP),
				     .node = dice(c, 4), .flags = dice(c, 4) ? 0 : odd_number(c),
				     .cookie = odd_number(c), .timeout_ms = dice(c, 3000) };
	struct hof_move_start start = { .size = sizeof(start), .idle_ms = dice(c, 100) };
	struct hof_takeover takeover = { .size = dice(c, 9) ? sizeof(takeover) : odd_number(c), .op = dice(c, 5),
					 .family = dice(c, 5) ? AF_INET : AF_INET6, .port = dice(c, 3) ? 0 : odd_number(c),
					 .timeout_ms = dice(c, 50), .address = { 10, dice(c, 2), dice(c, 2), dice(c, 99) },
					 .nodes = address(c), .nr_nodes = dice(c, 3) ? dice(c, 99) : odd_number(c) };
	struct hof_relocate relocate = { .size = dice(c, 9) ? sizeof(relocate) : odd_number(c), .flags = dice(c, 5),
					 .run = dice(c, 2) ? 0 : dice(c, 9), .node = dice(c, 4), .to = { dice(c, 4), dice(c, 2) },
					 .nr_to = dice(c, 3), .timeout_ms = dice(c, 50), .idle_ms = dice(c, 50), .max = dice(c, 3),
					 .tuple = { .family = dice(c, 3) ? 0 : dice(c, 12) } };
	struct hof_early early = { .size = dice(c, 9) ? sizeof(early) : odd_number(c), .flags = dice(c, 9) ? 0 : odd_number(c),
				   .family = dice(c, 5) ? AF_INET : AF_INET6, .port = odd_number(c),
				   .nr_nodes = dice(c, 9) ? dice(c, 4) : odd_number(c),
				   .address = { 10, dice(c, 2), dice(c, 2), dice(c, 99) }, .nodes = address(c) };
	struct hof_early_table_args table = { .size = dice(c, 9) ? sizeof(table) : odd_number(c), .op = dice(c, 5),
					      .nr = dice(c, 3) ? dice(c, 99) : odd_number(c), .pad = !dice(c, 20),
					      .targets = dice(c, 3) ? address(c) : 0 };
	struct hof_info info;

	if (!dice(c, 6))
		return ioctl(one_of(c, HANDOFF), HOF_IOC_EARLY_TABLE, &table) == 0;
	if (!dice(c, 6))
		return ioctl(one_of(c, HANDOFF), HOF_IOC_EARLY, &early) == 0;
	if (!dice(c, 6))
		return ioctl(one_of(c, HANDOFF), HOF_IOC_RELOCATE, &relocate) == 0;
	if (!dice(c, 4))
		return ioctl(one_of(c, HANDOFF), HOF_IOC_INFO, &info) == 0;
	if (!dice(c, 6))
		return ioctl(one_of(c, HANDOFF), HOF_IOC_TAKEOVER, &takeover) == 0;
	/* Only root of the machine gets the descriptor that other calls of a move need. */
	if (!dice(c, 9))
		return ioctl(one_of(c, HANDOFF), HOF_IOC_MOVE, &start) == 0;
	return ioctl(one_of(c, HANDOFF), HOF_IOC_SUBMIT, dice(c, 9) ? (uint64_t)(uintptr_t)&submit : address(c)) == 0;
}

bool ask_uselect(struct caller *c)
{
	struct usel_setup setup = { .abi = dice(c, 20) ? USEL_ABI : odd_number(c),
				    .flags = dice(c, 3) ? 0 : dice(c, 16), .nfds = dice(c, 3) ? 256 : odd_number(c),
				    .ring = dice(c, 3) ? 64 : odd_number(c) };
	/* At the arena's end: more than these two must not be found in our own words, with addresses in them. */
	struct usel_move *move = (void *)(c->arena + ARENA - 2 * sizeof(*move));
	const struct usel_move moved[2] = {
		{ .fd = some_fd(c), .flags = dice(c, 3), .addr = address(c), .len = dice(c, 9000) },
		{ .fd = one_of(c, TCP), .flags = dice(c, 8), .addr = address(c), .len = odd_number(c) },
	};
	struct usel_moves moves = { .moves = dice(c, 9) ? (uint64_t)(uintptr_t)move : address(c),
				    .nr = dice(c, 9) ? 2 : odd_number(c), .reserved = !dice(c, 20) };
	int fd = one_of(c, USELECT);

	switch (dice(c, 7)) {
	case 0:
		return ioctl(fd, USEL_SETUP, &setup) == 0;
	case 1:
		return ioctl(fd, USEL_TRACK, dice(c, 2) ? (uint64_t)one_of(c, TCP) : address(c)) == 0;
	case 2:
		return ioctl(fd, USEL_FORGET, dice(c, 2) ? (uint64_t)one_of(c, TCP) : address(c)) == 0;
	case 3:
		return ioctl(fd, dice(c, 2) ? USEL_TRACK : USEL_FORGET, &(int){ one_of(c, TCP) }) == 0;
	case 4:
		return ioctl(fd, USEL_WATCH, dice(c, 2) ? (uint64_t)&(int){ some_fd(c) } : address(c)) == 0;
	case 5:
		memcpy(move, moved, sizeof(moved));
		return ioctl(fd, USEL_MOVE, dice(c, 4) ? (uint64_t)&moves : address(c)) == 0;
	default:
		return ioctl(fd, USEL_KICK, odd_number(c)) == 0;
	}
}

bool ask_splice(struct caller *c)
{
	struct ssp_splice splice = { .size = dice(c, 12) ? sizeof(splice) : odd_number(c), .flags = dice(c, 32),
				     .fd0 = one_of(c, TCP), .fd1 = one_of(c, TCP), .limit = dice(c, 2) ? dice(c, 9999) : odd_number(c),
				     .data = address(c), .data_len = dice(c, 2) ? 0 : dice(c, 99999), .inbuf = address(c),
				     .inbuf_len = dice(c, 2) ? 0 : dice(c, 99999), .min2read = dice(c, 3) ? 0 : odd_number(c),
				     .max2cache = dice(c, 3) ? 0 : odd_number(c) };
	struct ssp_result result = { .size = dice(c, 12) ? sizeof(result) : odd_number(c), .fd0 = one_of(c, TCP),
				     .fd1 = dice(c, 2) ? one_of(c, TCP) : -1, .flags = dice(c, 5) ? 0 : odd_number(c) };
	struct ssp_info info;

	if (dice(c, 2))
		splice.flags &= ~SSP_KEEPCOPY;
	switch (dice(c, 6)) {
	case 0:
		return ioctl(one_of(c, SPLICE), SSP_IOC_INFO, &info) == 0;
	case 1:
		return ioctl(one_of(c, SPLICE), SSP_IOC_UNSPLICE, &result) == 0;
	case 2:
		return ioctl(one_of(c, SPLICE), SSP_IOC_RESULT, &result) == 0;
	default:
		return ioctl(one_of(c, SPLICE), SSP_IOC_SPLICE, dice(c, 15) ? (uint64_t)(uintptr_t)&splice : address(c)) == 0;
	}
}

static struct afpa_site afpa_site(struct caller *c)
{
	struct afpa_site site = { .family = AF_INET, .port = listening.sin_port };

	memcpy(site.addr, &listening.sin_addr, sizeof(listening.sin_addr));
	if (!dice(c, 10))
		site.family = dice(c, 2) ? AF_INET6 : odd_number(c);
	if (!dice(c, 10))
		memset(site.addr, dice(c, 3), dice(c, 17));
	return site;
}

/* Of an object, and what requests ask for: names meet often enough for all of these to be about the same ones. */
static bool ask_afpa_object(struct caller *c)
{
	static const char *const hosts[] = { "a", "a", "*", "B.example", "a:80", "" };
	static const char *const paths[] = { "/a", "/a", "/b?c=%41", "/", "/../x", "/%00", "a" };
	static const char *const headers[] = { "", "X: y\r\n", "X: y\r\nZ:\r\n", "Date: x\r\n", "X: y\r\n\r\nHTTP" };
	const char *host = hosts[dice(c, 6)], *path = paths[dice(c, 7)], *header = headers[dice(c, 5)];
	struct afpa_put put = { .size = dice(c, 15) ? sizeof(put) : odd_number(c), .site = afpa_site(c),
				.flags = dice(c, 4) ? 0 : dice(c, 17), .age = dice(c, 4) ? 0 : odd_number(c),
				.host_len = strlen(host), .path_len = strlen(path),
				.tags = (uintptr_t)"a bb", .tags_len = dice(c, 2) ? 4 : dice(c, 5),
				.since = dice(c, 3) ? 0 : dice(c, 1000), .type_len = dice(c, 2) ? 0 : dice(c, 150), .headers_len = strlen(header),
				.ttl_ms = dice(c, 2) ? 0 : dice(c, 2000), .host = (uintptr_t)host, .path = (uintptr_t)path,
				.type = address(c), .headers = (uintptr_t)header, .body = address(c),
				.body_len = dice(c, 3) ? dice(c, ARENA / 2) : odd_number(c) };
	struct afpa_key key = { .size = put.size == sizeof(put) ? sizeof(key) : odd_number(c), .site = put.site,
				.host_len = dice(c, 15) ? put.host_len : odd_number(c), .path_len = put.path_len,
				.host = dice(c, 15) ? put.host : address(c), .path = put.path, .left_ms = put.ttl_ms };
	struct afpa_ban ban = { .size = put.size == sizeof(put) ? sizeof(ban) : odd_number(c), .site = put.site,
				.flags = dice(c, 5), .host_len = key.host_len, .host = key.host,
				.text_len = dice(c, 9) ? put.path_len : odd_number(c), .text = dice(c, 3) ? put.path : put.tags };
	struct afpa_ticket ticket = { .size = ban.size == sizeof(ban) ? sizeof(ticket) : odd_number(c) };
	struct afpa_explain explain = { .size = key.size == sizeof(key) ? sizeof(explain) : odd_number(c), .flags = !dice(c, 15),
					.site = put.site, .host_len = key.host_len, .path_len = key.path_len, .host = key.host,
					.path = dice(c, 15) ? put.path : address(c), .pad = !dice(c, 15) };
	static const unsigned long about[] = { AFPA_IOC_DEL, AFPA_IOC_QUERY, AFPA_IOC_TTL };
	int fd = one_of(c, AFPA);

	if (put.flags & AFPA_PUT_FILE && dice(c, 9)) {
		put.body = dice(c, 40);
		put.body_len = 0;
	}
	if (dice(c, 3))
		return ioctl(fd, AFPA_IOC_PUT, &put) == 0;
	if (!dice(c, 5))
		return ioctl(fd, dice(c, 3) ? AFPA_IOC_BAN : AFPA_IOC_TICKET, dice(c, 3) ? (void *)&ban : (void *)&ticket) == 0;
	if (!dice(c, 5))
		return ioctl(fd, AFPA_IOC_EXPLAIN, &explain) == 0;
	return ioctl(fd, about[dice(c, 3)], &key) == 0;
}

/* One that is there to be read from is read, in pieces that may be too small. */
static bool ask_afpa_log(struct caller *c, int fd)
{
	struct afpa_log_args log = { .size = dice(c, 15) ? sizeof(log) : odd_number(c), .flags = !dice(c, 15),
				     .bytes = dice(c, 4) ? AFPA_LOG_LEAST : odd_number(c) };
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	if (poll(&poll_fd, 1, 0) == 1 && poll_fd.revents & POLLIN)
		return read(fd, (void *)address(c), dice(c, 3) ? 4096 : odd_number(c)) > 0;
	return ioctl(fd, AFPA_IOC_LOG, &log) == 0;
}

static bool ask_afpa_protocol(struct caller *c, int fd)
{
	static const char names[][AFPA_PROTOCOL_NAME] = { "memcached", "memcached", "http", "gopher", "" };
	struct afpa_listen listen = { .size = dice(c, 15) ? sizeof(listen) : odd_number(c), .site = afpa_site(c),
				      .flags = !dice(c, 15) };

	memcpy(listen.protocol, names[dice(c, 5)], sizeof(listen.protocol));
	if (!dice(c, 15))
		memset(listen.protocol, 'a', sizeof(listen.protocol));
	return ioctl(fd, dice(c, 2) ? AFPA_IOC_LISTEN : AFPA_IOC_PROTOCOL, &listen) == 0;
}

/* Of this machine's node table, which has such names only now and then; nobody answers there for long. */
static bool ask_afpa_remote(struct caller *c, int fd)
{
	static const char names[][AFPA_NODE_NAME] = { "a", "b", "c", "", "no node" };
	struct afpa_remote_args from = { .size = dice(c, 15) ? sizeof(from) : odd_number(c), .flags = dice(c, 9) ? dice(c, 2) : 2,
					 .from = dice(c, 4), .pad = !dice(c, 15) };
	struct afpa_node node = { .size = dice(c, 15) ? sizeof(node) : odd_number(c), .flags = !dice(c, 15),
				  .timeout_ms = dice(c, 9) ? 1 + dice(c, 50) : odd_number(c), .pad = !dice(c, 15) };

	if (dice(c, 2))
		return ioctl(fd, AFPA_IOC_REMOTE, &from) == 0;
	memcpy(node.name, names[dice(c, 5)], sizeof(node.name));
	if (!dice(c, 20))
		memset(node.name, 'x', sizeof(node.name));
	return ioctl(fd, AFPA_IOC_NODE, &node) == 0;
}

bool ask_afpa(struct caller *c)
{
	static const char *const requests[] = { "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /b?c=%41 HTTP/1.0\r\nHost: x\r\n\r\n",
						"GET /a HTTP/1.1\r\nHo", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", "POST /a",
						"get a\r\n", "get a b?c=%41 a\r\nget", "gets a\r\n" };
	struct afpa_site_args args = { .size = dice(c, 15) ? sizeof(args) : odd_number(c), .site = afpa_site(c),
				       .flags = dice(c, 4) ? 0 : dice(c, 3) };
	struct afpa_next_site next = { .size = sizeof(next), .index = dice(c, 4) ? dice(c, 3) : odd_number(c) };
	struct afpa_key key = { .size = sizeof(key), .host_len = dice(c, 300), .path_len = dice(c, 3000), .host = address(c),
				.path = address(c), .cursor = dice(c, 2) ? 0 : dice(c, 1000) };
	struct afpa_info info = { .size = sizeof(info), .flags = dice(c, 3) ? 0 : dice(c, 16), .mode = dice(c, 5),
				  .budget = dice(c, 2) ? 4 << 20 : odd_number(c), .max_object = dice(c, 2) ? 1 << 20 : odd_number(c),
				  .stall_ms = dice(c, 2) ? 1000 : odd_number(c) };
	struct afpa_policy_args policy = { .size = dice(c, 15) ? sizeof(policy) : odd_number(c), .flags = dice(c, 9) ? dice(c, 2) : 2,
					   .policy = dice(c, 3), .pad = !dice(c, 15) };
	const char *request = requests[dice(c, 8)];
	int fd = one_of(c, AFPA);

	switch (dice(c, 18)) {
	case 17:
		return ask_afpa_remote(c, fd);
	case 0:
		if (!dice(c, 3))
			return ioctl(fd, AFPA_IOC_POLICY, &policy) == 0;
		return ioctl(fd, dice(c, 2) ? AFPA_IOC_INFO : AFPA_IOC_SET, &info) == 0;
	case 1:
		return ioctl(fd, AFPA_IOC_SITE_ADD, &args) == 0;
	case 2:
		return !dice(c, 4) && ioctl(fd, dice(c, 2) ? AFPA_IOC_SITE_DEL : AFPA_IOC_FLUSH, &args) == 0;
	case 3:
		return ioctl(fd, AFPA_IOC_NEXT_SITE, &next) == 0;
	case 4:
		return ioctl(fd, AFPA_IOC_NEXT, &key) == 0;
	case 5:
		return ask_afpa_log(c, fd);
	case 16:
		return ask_afpa_protocol(c, fd);
	case 6:
	case 7:
	case 8:
		return send(one_of(c, TCP), request, strlen(request), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
	default:
		return ask_afpa_object(c);
	}
}

static void some_slices(struct caller *c, struct iol_slice *slices, unsigned int count)
{
	unsigned int i, name;

	for (i = 0; i < count; i++) {
		name = dice(c, 8);
		slices[i] = (struct iol_slice){ names.offset[name] + dice(c, 3) * 300, names.generation[name],
						dice(c, 4) ? 1 + dice(c, 4000) : odd_number(c), 0 };
		if (!dice(c, 10))
			slices[i].generation += dice(c, 3) - 1;
		if (!dice(c, 20))
			slices[i].offset = odd_number(c);
	}
}

static bool iolite_buffers(struct caller *c, int fd)
{
	struct iol_init init = { .version = dice(c, 20) ? IOL_VERSION : odd_number(c), .scratch = dice(c, 2) ? -1 : some_fd(c) };
	struct iol_pool_args pool = { .pool = names.pool[dice(c, 4)], .domain = dice(c, 3) ? 0 : odd_number(c),
				      .quota = dice(c, 2) ? 0 : odd_number(c) };
	struct iol_alloc alloc = { .pool = names.pool[dice(c, 4)], .size = dice(c, 3) ? 1 + dice(c, 70000) : odd_number(c),
				   .offset = names.offset[dice(c, 8)], .generation = names.generation[dice(c, 8)] };
	unsigned int slot = dice(c, 8);
	bool good;

	switch (dice(c, 8)) {
	case 0:
		good = ioctl(fd, IOL_IOC_INIT, &init) == 0;
		if (good)
			names.pool[slot % 4] = init.pool;
		return good;
	case 1:
		good = ioctl(fd, IOL_IOC_POOL_CREATE, &pool) == 0;
		if (good)
			names.pool[slot % 4] = pool.pool;
		return good;
	case 2:
		return ioctl(fd, IOL_IOC_POOL_DESTROY, &pool) == 0;
	case 3:
		return ioctl(fd, IOL_IOC_POOL_GRANT, &pool) == 0;
	case 4:
		return ioctl(fd, IOL_IOC_POOL_STAT, &pool) == 0;
	case 5:
		good = ioctl(fd, IOL_IOC_REOPEN, &alloc) == 0;
		break;
	default:
		good = ioctl(fd, IOL_IOC_ALLOC, &alloc) == 0;
	}
	if (good) {
		names.offset[slot] = alloc.offset;
		names.generation[slot] = alloc.generation;
	}
	return good;
}

bool ask_iolite(struct caller *c)
{
	struct iol_slice *slices = (void *)(c->arena + 4096);
	struct iol_release release = { .slices = dice(c, 12) ? (uintptr_t)slices : address(c), .count = 1 + dice(c, 20) };
	struct iol_io io = { .fd = one_of(c, dice(c, 2) ? PIPE : TCP), .flags = dice(c, 6) ? IOL_IO_NOWAIT : odd_number(c),
			     .position = dice(c, 2) ? -1 : (int64_t)odd_number(c), .pool = names.pool[dice(c, 4)],
			     .size = dice(c, 2) ? dice(c, 100000) : odd_number(c), .slices = release.slices,
			     .count = 1 + dice(c, 20), .inline_max = dice(c, 3) ? 0 : odd_number(c) };
	struct iol_send send = { .fd = one_of(c, TCP), .file = some_fd(c), .head = address(c), .head_len = dice(c, 3) ?
				 dice(c, 200) : odd_number(c), .flags = IOL_IO_NOWAIT, .position = dice(c, 2) ? -1 : 0,
				 .size = dice(c, 100000) };
	struct iol_policy policy = { .policy = dice(c, 6), .flags = dice(c, 4) ? 0 : odd_number(c) };
	int fd = one_of(c, IOLITE);
	unsigned int slot = dice(c, 8);
	bool good;

	switch (dice(c, 12)) {
	case 0:
		return ioctl(fd, IOL_IOC_SEND, &send) == 0;
	case 1:
		return ioctl(fd, IOL_IOC_POLICY, &policy) == 0;
	case 2:
		some_slices(c, slices, 1);
		return ioctl(fd, IOL_IOC_SEAL, slices) == 0;
	case 3:
		some_slices(c, slices, release.count);
		return ioctl(fd, IOL_IOC_RELEASE, &release) == 0;
	case 4:
	case 5:
		some_slices(c, slices, io.count);
		return ioctl(fd, IOL_IOC_WRITE, dice(c, 12) ? (uint64_t)(uintptr_t)&io : address(c)) == 0;
	case 6:
	case 7:
		good = ioctl(fd, IOL_IOC_READ, &io) == 0 && io.count && io.slices == (uintptr_t)slices;
		if (good) {
			names.offset[slot] = slices[0].offset;
			names.generation[slot] = slices[0].generation;
		}
		return good;
	default:
		return iolite_buffers(c, fd);
	}
}

/* A number of one of our devices, or near one, with any size and any argument. */
bool nonsense(struct caller *c)
{
	static const unsigned char magic[] = { HOF_IOC_MAGIC, IOL_IOC_MAGIC, SSP_IOC_MAGIC, 'u', _IOC_TYPE(AFPA_IOC_INFO) };
	unsigned char type = magic[dice(c, 5)];
	unsigned int i, number = type == 'u' ? 0x90 + dice(c, 6) : dice(c, 18);

	for (i = 0; i < 512; i += 8)
		*(uint64_t *)(c->arena + i) = odd_number(c);
	return ioctl(some_fd(c), _IOC(dice(c, 4), type, number, dice(c, 200)), dice(c, 3) ? (uint64_t)(uintptr_t)c->arena :
		     address(c)) == 0;
}

/* Most are set up at once: nobody else sees the descriptor yet. */
bool open_device(struct caller *c)
{
	static const unsigned char tag[] = { IOLITE, USELECT, SPLICE, HANDOFF, AFPA };
	unsigned int which = dice(c, 5);
	int fd = open(devices[which], (dice(c, 6) ? O_RDWR : O_RDONLY) | (dice(c, 4) ? O_NONBLOCK : 0));
	struct iol_init init = { .version = IOL_VERSION, .scratch = -1 };
	struct usel_setup setup = { .abi = USEL_ABI, .nfds = 256, .ring = 64 };

	if (fd >= 0 && which == 0 && dice(c, 4) && !ioctl(fd, IOL_IOC_INIT, &init))
		names.pool[dice(c, 4)] = init.pool;
	if (fd >= 0 && which == 1 && dice(c, 4))
		ioctl(fd, USEL_SETUP, &setup);
	return keep_as(c, fd, tag[which]);
}
