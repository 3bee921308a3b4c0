// SPDX-License-Identifier: GPL-2.0
/* One random call; see calls.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

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

static const char *const sysctls[] = {
	"/proc/sys/net/flotilla/forward_linger_ms", "/proc/sys/net/flotilla/forward_idle_s",
	"/proc/sys/net/flotilla/handoff_timeout_ms", "/proc/sys/net/flotilla/forward_max",
};

/* Whoever is faster: threads replace each other's descriptors, which is the point. */
static int pool[POOL];
/* What was put there; a hint, as others replace it meanwhile. */
static unsigned char tags[POOL];
static int listener, netlink;
struct sockaddr_in listening = { .sin_family = AF_INET };

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
int one_of(struct caller *c, enum what tag)
{
	unsigned int slot, i;

	for (i = 0; i < POOL && dice(c, 200); i++) {
		slot = dice(c, POOL);
		if (tags[slot] == tag)
			return __atomic_load_n(&pool[slot], __ATOMIC_RELAXED);
	}
	return some_fd(c);
}

bool keep_as(struct caller *c, int fd, enum what tag)
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
uint64_t address(struct caller *c)
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
