/* SPDX-License-Identifier: GPL-2.0 */
/* For the tests of this room: sockets in pairs, waiting for a state, a seeded generator. */
#ifndef USELECT_TEST_SOCKETS_H
#define USELECT_TEST_SOCKETS_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <flotilla/uselect.h>

#include "uselect.h"

#define WAIT_S	60

static inline double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Waits until the expression holds; its value after at most WAIT_S seconds. */
#define WAIT(expr) ({							\
	double until__ = now_s() + WAIT_S;				\
	bool ok__;							\
	while (!(ok__ = (expr)) && now_s() < until__)			\
		usleep(200);						\
	ok__;								\
})

static inline uint64_t env_number(const char *name, uint64_t def)
{
	const char *value = getenv(name);

	return value && *value ? strtoull(value, NULL, 0) : def;
}

/* How often to do something: @stock times, @checking times on the kernel that checks. */
static inline uint64_t rounds_of(const char *name, uint64_t stock, uint64_t checking)
{
	struct utsname kernel;

	return env_number(name, !uname(&kernel) && strstr(kernel.release, "debug") ? checking :
										     stock);
}

/* xorshift64* */
static inline uint32_t rnd(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * 0x2545F4914F6CDD1DULL) >> 32;
}

static inline void nonblock(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* A listener on the loopback of the family; the address is filled in. */
static inline int listener(int family, struct sockaddr_storage *addr, socklen_t *len)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(addr, 0, sizeof(*addr));
	addr->ss_family = family;
	if (family == AF_INET) {
		((struct sockaddr_in *)addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		*len = sizeof(struct sockaddr_in);
	} else {
		((struct sockaddr_in6 *)addr)->sin6_addr = in6addr_loopback;
		*len = sizeof(struct sockaddr_in6);
	}
	if (fd < 0 || bind(fd, (struct sockaddr *)addr, *len) || listen(fd, 1024) ||
	    getsockname(fd, (struct sockaddr *)addr, len)) {
		perror("listener");
		exit(1);
	}
	return fd;
}

/* [0] connected, [1] is accepted; both non-blocking. */
static inline void pair_on(int lfd, struct sockaddr_storage *addr, socklen_t len, int fds[2])
{
	fds[0] = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fds[0] < 0 || connect(fds[0], (struct sockaddr *)addr, len)) {
		perror("connect");
		exit(1);
	}
	fds[1] = accept(lfd, NULL, NULL);
	if (fds[1] < 0) {
		perror("accept");
		exit(1);
	}
	nonblock(fds[0]);
	nonblock(fds[1]);
}

static inline void pair(int family, int fds[2])
{
	struct sockaddr_storage addr;
	socklen_t len;
	int lfd = listener(family, &addr, &len);

	pair_on(lfd, &addr, len, fds);
	close(lfd);
}

/* close() by RST. */
static inline void reset(int fd)
{
	struct linger hard = { .l_onoff = 1 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	close(fd);
}

#define EVERY	(POLLIN | POLLPRI | POLLOUT | POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND | \
		 POLLRDHUP | POLLERR | POLLHUP)

/* What poll(2) says, by a system call. */
static inline int truth(int fd)
{
	struct pollfd p = { .fd = fd, .events = EVERY };

	poll(&p, 1, 0);
	return p.revents;
}

/* What the region says, or -1. */
static inline int told(int fd)
{
	struct uselect_info info;

	return uselect_get_info(fd, &info) ? -1 : (int)(info.events & EVERY);
}

/* A set of the test's own, which wants nothing; its descriptor. */
static inline int set_of_flags(uint32_t flags)
{
	struct usel_setup setup = { .abi = USEL_ABI, .flags = flags };
	int dev = open(USEL_DEVICE, O_RDWR | O_CLOEXEC);

	if (dev >= 0 && ioctl(dev, USEL_SETUP, &setup)) {
		close(dev);
		dev = -1;
	}
	return dev;
}

/* What the kernel writes, past the library. NULL with errno. */
static inline const struct usel_region_head *raw_region(void)
{
	struct usel_setup setup = { .abi = USEL_ABI, .flags = USEL_SETUP_EDGES };
	int dev = open(USEL_DEVICE, O_RDWR | O_CLOEXEC);
	void *at;

	if (dev < 0 || ioctl(dev, USEL_SETUP, &setup))
		return NULL;
	at = mmap(NULL, setup.region_size, PROT_READ, MAP_SHARED, dev, USEL_MAP_REGION);
	return at == MAP_FAILED ? NULL : at;
}

static inline uint32_t raw_events(const struct usel_region_head *head, int fd)
{
	const struct usel_fd *fds = (const struct usel_fd *)((const char *)head + head->fds);

	return __atomic_load_n(&fds[fd].events, __ATOMIC_ACQUIRE);
}

static inline int load_module(const char *parameters)
{
	char command[200];

	snprintf(command, sizeof(command), "modprobe uselect %s", parameters);
	return system(command);
}

static inline int unload_module(void)
{
	return system("modprobe -r uselect 2>/dev/null || rmmod uselect");
}

#endif
