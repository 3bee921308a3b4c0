// SPDX-License-Identifier: GPL-2.0
/* One random call; see calls.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <flotilla/afpa.h>
#include <flotilla/handoff.h>
#include <flotilla/move.h>
#include <flotilla/iolite.h>
#include <flotilla/splice.h>
#include <flotilla/uselect.h>
#include "tools/testing/tests/lib/calls.h"

/* As IOL_IOC_INIT says. */
#define IOLITE_WINDOW	(1ULL << 36)

#ifndef TCP_ULP
#define TCP_ULP	31
#endif

/* More than what a call with a wrong length writes. */
#define APART		(1 << 20)

const char *const call_names[CALL_KINDS] = {
	"open", "sockets", "close", "dup", "pass", "fork", "map", "unmap", "touch", "read", "write", "poll",
	"option", "move", "genl", "card", "sysctl", "handoff", "iolite", "splice", "uselect", "afpa", "nonsense",
};

static const char *const devices[] = { "/dev/iolite", "/dev/uselect", "/dev/sksplice", "/dev/handoff", "/dev/afpa" };
static const char *const sysctls[] = {
	"/proc/sys/net/flotilla/forward_linger_ms", "/proc/sys/net/flotilla/forward_idle_s",
	"/proc/sys/net/flotilla/handoff_timeout_ms", "/proc/sys/net/flotilla/forward_max",
};

/* Whoever is faster: threads replace each other's descriptors, which is the point. */
static int pool[POOL];
/* What was put there; a hint, as others replace it meanwhile. */
enum what { ANYTHING, IOLITE, USELECT, SPLICE, HANDOFF, AFPA, TCP, PIPE };
static unsigned char tags[POOL];
static int listener, netlink;
static struct sockaddr_in listening = { .sin_family = AF_INET };

/* The last names of pools and buffers that the kernel gave to this thread, some of them gone. */
static __thread struct iolite_names {
	uint64_t pool[4], offset[8], generation[8];
} names;

uint32_t dice(struct caller *c, uint32_t sides)
{
	c->rng = c->rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return (c->rng >> 33) % sides;
}

uint64_t odd_number(struct caller *c)
{
	static const uint64_t odd[] = {
		0, 1, 2, 3, 4, 7, 8, 16, 64, 100, 255, 1000, 4095, 4096, 4097, 16384, 65535, 65536, 1 << 20,
		0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffffffff, ~0ULL, ~0ULL - 4095,
	};
	uint64_t number = odd[dice(c, sizeof(odd) / sizeof(odd[0]))];

	return dice(c, 4) ? number : number + dice(c, 5) - 2;
}

int some_fd(struct caller *c)
{
	if (!dice(c, 40))
		return odd_number(c);
	return __atomic_load_n(&pool[dice(c, POOL)], __ATOMIC_RELAXED);
}

/* Mostly one of this kind, if there is one. */
static int one_of(struct caller *c, enum what tag)
{
	unsigned int slot, i;

	for (i = 0; i < POOL && dice(c, 200); i++) {
		slot = dice(c, POOL);
		if (tags[slot] == tag)
			return __atomic_load_n(&pool[slot], __ATOMIC_RELAXED);
	}
	return some_fd(c);
}

static bool keep_as(struct caller *c, int fd, enum what tag)
{
	unsigned int slot = dice(c, POOL);

	if (fd < 0)
		return false;
	tags[slot] = tag;
	fd = __atomic_exchange_n(&pool[slot], fd, __ATOMIC_RELAXED);
	if (fd >= 0)
		close(fd);
	return true;
}

static bool keep(struct caller *c, int fd)
{
	return keep_as(c, fd, ANYTHING);
}

/* An address for an argument: mostly in the arena, where it may end in the middle of what is wanted. */
static uint64_t address(struct caller *c)
{
	switch (dice(c, 12)) {
	case 0:
		return odd_number(c);
	case 1:
		return (uintptr_t)c->arena + ARENA - dice(c, 64);
	case 2:
		return 0xffff888000000000ULL + dice(c, 1 << 30);
	default:
		return (uintptr_t)c->arena + dice(c, ARENA / 8) * 8;
	}
}

static bool sockets(struct caller *c)
{
	int fds[2] = { -1, -1 }, tag = ANYTHING;

	switch (dice(c, 5)) {
	case 0:
		if (pipe2(fds, O_NONBLOCK))
			return false;
		tag = PIPE;
		break;
	case 1:
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
			return false;
		break;
	default:
		fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (fds[0] < 0 || (connect(fds[0], (void *)&listening, sizeof(listening)) && errno != EINPROGRESS)) {
			close(fds[0]);
			return false;
		}
		fds[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
		tag = TCP;
	}
	keep_as(c, fds[0], tag);
	return keep_as(c, fds[1], tag);
}

static bool pass(struct caller *c)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
				.cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct iovec data = { c->arena, 1 };
	struct msghdr m = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	int fd = some_fd(c), got;

	if (dice(c, 2)) {
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		return sendmsg(some_fd(c), &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
	}
	if (recvmsg(some_fd(c), &m, MSG_DONTWAIT) < 0 || m.msg_controllen < CMSG_LEN(sizeof(int)))
		return false;
	memcpy(&got, CMSG_DATA(&control.head), sizeof(got));
	return keep(c, got);
}

/* A child that makes a few calls, or none, and ends somehow. */
static bool child(struct caller *c)
{
	struct caller copy = *c;
	unsigned int i, calls = dice(c, 12), how = dice(c, 3);
	pid_t pid = fork();

	if (!pid) {
		for (i = 0; i < calls; i++) {
			copy.rng ^= 0x9e3779b97f4a7c15ULL;
			alarm(5);
			calls_one(&copy);
		}
		if (how == 0)
			raise(SIGKILL);
		if (how == 1)
			execl("/bin/true", "true", NULL);
		_exit(0);
	}
	if (pid < 0)
		return false;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return true;
}

static bool map(struct caller *c)
{
	static const off_t places[] = { USEL_MAP_REGION, USEL_MAP_SET, USEL_MAP_WANT };
	unsigned int slot = dice(c, 4);
	bool iolite = dice(c, 2);
	size_t length = dice(c, 3) ? 4096u << dice(c, 12) : odd_number(c);
	off_t offset = dice(c, 8) ? places[dice(c, 3)] : (off_t)(odd_number(c) & ~4095ULL);
	int prot = dice(c, 4) ? PROT_READ | (dice(c, 2) ? PROT_WRITE : 0) : (int)dice(c, 8);
	int fd = one_of(c, iolite ? IOLITE : USELECT);
	void *at;

	/* That one's windows are mapped whole, to read or to fill. */
	if (iolite && dice(c, 6)) {
		length = IOLITE_WINDOW;
		offset = dice(c, 2) ? 0 : IOLITE_WINDOW;
		prot = PROT_READ | (offset ? PROT_WRITE : 0);
	}
	if (c->maps[slot].at)
		return mprotect(c->maps[slot].at, c->maps[slot].length, prot) == 0;
	at = mmap(NULL, length, prot, dice(c, 5) ? MAP_SHARED : MAP_PRIVATE, fd, offset);
	if (at == MAP_FAILED)
		return false;
	c->maps[slot].at = at;
	c->maps[slot].length = length;
	return true;
}

static bool unmap(struct caller *c)
{
	static const int advice[] = { MADV_DONTNEED, MADV_REMOVE, MADV_DONTFORK, MADV_WILLNEED, MADV_PAGEOUT };
	unsigned int slot = dice(c, 4);

	if (!c->maps[slot].at)
		return false;
	if (dice(c, 3))
		return madvise(c->maps[slot].at, c->maps[slot].length, advice[dice(c, 5)]) == 0;
	munmap(c->maps[slot].at, c->maps[slot].length);
	c->maps[slot].at = NULL;
	return true;
}

/* By the kernel, for which a page that is not there is an error and not a signal. */
static bool touch(struct caller *c)
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

static bool option(struct caller *c)
{
	int fd = some_fd(c), value = odd_number(c);

	switch (dice(c, 8)) {
	case 0:
		return setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3) == 0;
	case 1:
		return setsockopt(fd, SOL_SOCKET, dice(c, 2) ? SO_RCVBUF : SO_SNDBUF, &value, sizeof(value)) == 0;
	case 2:
		return setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger)) == 0;
	case 3:
		return shutdown(fd, dice(c, 3)) == 0;
	case 4:
		return setsockopt(fd, IPPROTO_TCP, dice(c, 40), &value, sizeof(value)) == 0;
	case 5:
		return fcntl(fd, F_SETFL, dice(c, 4) ? O_NONBLOCK : 0) == 0;
	case 6:
		return fcntl(fd, F_SETPIPE_SZ, 4096 << dice(c, 6)) >= 0;
	default:
		return getsockopt(fd, IPPROTO_TCP, TCP_INFO, c->arena, &(socklen_t){ 256 }) == 0;
	}
}

static bool move(struct caller *c)
{
	size_t length = dice(c, 100000);
	struct iovec data = { c->arena, dice(c, 65536) };

	switch (dice(c, 4)) {
	case 0:
		return splice(some_fd(c), NULL, some_fd(c), NULL, length, SPLICE_F_NONBLOCK) >= 0;
	case 1:
		return tee(some_fd(c), some_fd(c), length, SPLICE_F_NONBLOCK) >= 0;
	case 2:
		return vmsplice(some_fd(c), &data, 1, SPLICE_F_NONBLOCK) >= 0;
	default:
		return sendfile(some_fd(c), some_fd(c), NULL, length) >= 0;
	}
}

static bool wait_some(struct caller *c)
{
	struct pollfd fds[4] = { { some_fd(c), POLLIN, 0 }, { some_fd(c), POLLOUT, 0 }, { some_fd(c), -1, 0 },
				 { some_fd(c), POLLIN | POLLOUT, 0 } };
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | (dice(c, 2) ? EPOLLET : 0) };
	int fd = some_fd(c);

	switch (dice(c, 4)) {
	case 0:
		return keep(c, epoll_create1(0));
	case 1:
		return epoll_ctl(fd, 1 + dice(c, 3), some_fd(c), &event) == 0;
	case 2:
		return epoll_wait(fd, &event, 1, 0) >= 0;
	default:
		return poll(fds, 4, dice(c, 20) ? 0 : 5) >= 0;
	}
}

static bool sysctl(struct caller *c)
{
	int fd = open(sysctls[dice(c, 4)], O_RDWR), length;
	char text[32];
	bool good;

	if (fd < 0)
		return false;
	length = snprintf(text, sizeof(text), "%lld", (long long)odd_number(c));
	good = write(fd, text, length) > 0;
	close(fd);
	return good;
}

static bool ask_handoff(struct caller *c)
{
	struct hof_submit submit = { .size = dice(c, 9) ? sizeof(submit) : odd_number(c), .fd = one_of(c, TCP),
				     .node = dice(c, 4), .flags = dice(c, 4) ? 0 : odd_number(c),
				     .cookie = odd_number(c), .timeout_ms = dice(c, 3000) };
	struct hof_move_start start = { .size = sizeof(start), .idle_ms = dice(c, 100) };
	struct hof_info info;

	if (!dice(c, 4))
		return ioctl(one_of(c, HANDOFF), HOF_IOC_INFO, &info) == 0;
	/* Only root of the machine gets the descriptor that other calls of a move need. */
	if (!dice(c, 9))
		return ioctl(one_of(c, HANDOFF), HOF_IOC_MOVE, &start) == 0;
	return ioctl(one_of(c, HANDOFF), HOF_IOC_SUBMIT, dice(c, 9) ? (uint64_t)(uintptr_t)&submit : address(c)) == 0;
}

static bool ask_uselect(struct caller *c)
{
	struct usel_setup setup = { .abi = dice(c, 20) ? USEL_ABI : odd_number(c),
				    .flags = dice(c, 3) ? 0 : dice(c, 16), .nfds = dice(c, 3) ? 256 : odd_number(c),
				    .ring = dice(c, 3) ? 64 : odd_number(c) };
	int fd = one_of(c, USELECT);

	switch (dice(c, 6)) {
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
	default:
		return ioctl(fd, USEL_KICK, odd_number(c)) == 0;
	}
}

static bool ask_splice(struct caller *c)
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
				.flags = dice(c, 4) ? 0 : dice(c, 5), .host_len = strlen(host), .path_len = strlen(path),
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
	static const unsigned long about[] = { AFPA_IOC_DEL, AFPA_IOC_QUERY, AFPA_IOC_TTL };
	int fd = one_of(c, AFPA);

	if (dice(c, 3))
		return ioctl(fd, AFPA_IOC_PUT, &put) == 0;
	if (!dice(c, 5))
		return ioctl(fd, dice(c, 3) ? AFPA_IOC_BAN : AFPA_IOC_TICKET, dice(c, 3) ? (void *)&ban : (void *)&ticket) == 0;
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

static bool ask_afpa(struct caller *c)
{
	static const char *const requests[] = { "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /b?c=%41 HTTP/1.0\r\nHost: x\r\n\r\n",
						"GET /a HTTP/1.1\r\nHo", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", "POST /a" };
	struct afpa_site_args args = { .size = dice(c, 15) ? sizeof(args) : odd_number(c), .site = afpa_site(c),
				       .flags = dice(c, 4) ? 0 : dice(c, 3) };
	struct afpa_next_site next = { .size = sizeof(next), .index = dice(c, 4) ? dice(c, 3) : odd_number(c) };
	struct afpa_key key = { .size = sizeof(key), .host_len = dice(c, 300), .path_len = dice(c, 3000), .host = address(c),
				.path = address(c), .cursor = dice(c, 2) ? 0 : dice(c, 1000) };
	struct afpa_info info = { .size = sizeof(info), .flags = dice(c, 3) ? 0 : dice(c, 16), .mode = dice(c, 4),
				  .budget = dice(c, 2) ? 4 << 20 : odd_number(c), .max_object = dice(c, 2) ? 1 << 20 : odd_number(c),
				  .stall_ms = dice(c, 2) ? 1000 : odd_number(c) };
	const char *request = requests[dice(c, 5)];
	int fd = one_of(c, AFPA);

	switch (dice(c, 16)) {
	case 0:
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

static bool ask_iolite(struct caller *c)
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
static bool nonsense(struct caller *c)
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
static bool open_device(struct caller *c)
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

static bool act(struct caller *c, enum call_kind kind)
{
	switch (kind) {
	case CALL_OPEN:
		return open_device(c);
	case CALL_SOCKETS:
		return sockets(c);
	case CALL_CLOSE:
		return close(__atomic_exchange_n(&pool[dice(c, POOL)], -1, __ATOMIC_RELAXED)) == 0;
	case CALL_DUP:
		return keep(c, dup(some_fd(c)));
	case CALL_PASS:
		return pass(c);
	case CALL_FORK:
		return child(c);
	case CALL_MAP:
		return map(c);
	case CALL_UNMAP:
		return unmap(c);
	case CALL_TOUCH:
		return touch(c);
	case CALL_READ:
		return read(some_fd(c), c->arena, dice(c, 70000)) >= 0;
	case CALL_WRITE:
		return write(some_fd(c), c->arena, dice(c, 70000)) >= 0;
	case CALL_POLL:
		return wait_some(c);
	case CALL_OPTION:
		return option(c);
	case CALL_MOVE:
		return move(c);
	case CALL_GENL:
	case CALL_CARD:
		return call_genl(c, dice(c, 6) ? c->netlink : netlink, kind == CALL_CARD);
	case CALL_SYSCTL:
		return sysctl(c);
	case CALL_HANDOFF:
		return ask_handoff(c);
	case CALL_IOLITE:
		return ask_iolite(c);
	case CALL_SPLICE:
		return ask_splice(c);
	case CALL_USELECT:
		return ask_uselect(c);
	case CALL_AFPA:
		return ask_afpa(c);
	default:
		return nonsense(c);
	}
}

/* Of 110 calls; an open device is asked far more often than made, a fork is dear. */
static const unsigned char weights[CALL_KINDS] = {
	[CALL_OPEN] = 3, [CALL_SOCKETS] = 5, [CALL_CLOSE] = 1, [CALL_DUP] = 1, [CALL_PASS] = 1, [CALL_FORK] = 0,
	[CALL_MAP] = 2, [CALL_UNMAP] = 1, [CALL_TOUCH] = 2, [CALL_READ] = 4, [CALL_WRITE] = 4, [CALL_POLL] = 3,
	[CALL_OPTION] = 3, [CALL_MOVE] = 3, [CALL_GENL] = 10, [CALL_CARD] = 10, [CALL_SYSCTL] = 1, [CALL_HANDOFF] = 10,
	[CALL_IOLITE] = 12, [CALL_SPLICE] = 10, [CALL_USELECT] = 10, [CALL_AFPA] = 10, [CALL_NONSENSE] = 4,
};

void calls_one(struct caller *c)
{
	unsigned int kind = CALL_FORK, at = dice(c, 110);

	if (dice(c, 300)) {
		for (kind = 0; kind < CALL_KINDS - 1 && at >= weights[kind]; kind++)
			at -= weights[kind];
	}
	__atomic_store_n(&c->last, kind, __ATOMIC_RELAXED);
	c->made[kind]++;
	c->good[kind] += act(c, kind);
	__atomic_fetch_add(&c->total, 1, __ATOMIC_RELAXED);
}

int calls_init(void)
{
	socklen_t length = sizeof(listening);
	unsigned int i;

	for (i = 0; i < POOL; i++)
		pool[i] = -1;
	listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
	listening.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0 || netlink < 0 || bind(listener, (void *)&listening, length) || listen(listener, 64))
		return -1;
	return getsockname(listener, (void *)&listening, &length);
}

void *apart(size_t length, int flags)
{
	char *around = mmap(NULL, length + 2 * APART, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (around == MAP_FAILED)
		return NULL;
	around = mmap(around + APART, length, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	return around == MAP_FAILED ? NULL : around;
}

void calls_begin(struct caller *c, uint64_t seed)
{
	memset(c, 0, sizeof(*c));
	c->rng = seed;
	c->netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
	c->arena = apart(ARENA, MAP_PRIVATE);
}

void calls_end(struct caller *c)
{
	unsigned int i;

	for (i = 0; i < 4; i++)
		if (c->maps[i].at)
			munmap(c->maps[i].at, c->maps[i].length);
	munmap(c->arena, ARENA);
	close(c->netlink);
}
