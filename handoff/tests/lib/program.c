// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#define TICK_MS		20
/* A tick counts for no more. */
#define STOOD_MS	(10 * TICK_MS)
#define PATIENCE_MS	60000

unsigned long lived_ms;

static unsigned long long lot;

void die(const char *what)
{
	perror(what);
	exit(1);
}

void draw_from(unsigned long long seed)
{
	lot = seed;
}

unsigned int draw(unsigned int below)
{
	lot = lot * 6364136223846793005ULL + 1442695040888963407ULL;
	return (lot >> 33) % below;
}

unsigned long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

unsigned long patience_ms(void)
{
	const char *ms = getenv("STALLED_MS");

	return ms ? strtoul(ms, NULL, 10) : PATIENCE_MS;
}

int tick_start(int epoll_fd)
{
	struct itimerspec every = { { 0, TICK_MS * 1000000 }, { 0, TICK_MS * 1000000 } };
	struct epoll_event event = { .events = EPOLLIN };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	if (fd < 0 || timerfd_settime(fd, 0, &every, NULL) < 0 ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		die("timer");
	return fd;
}

void tick_passed(int timer)
{
	static unsigned long last_ms;
	unsigned long ms = now_ms(), since = last_ms ? ms - last_ms : 0;
	unsigned long long ticks;

	(void)!read(timer, &ticks, sizeof(ticks));
	lived_ms += since < STOOD_MS ? since : STOOD_MS;
	last_ms = ms;
}

int listen_on(const char *address, const char *port)
{
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(atoi(port)) };
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	bool v6 = inet_pton(AF_INET6, address, &to6.sin6_addr) == 1;
	int one = 1, fd;

	if (!v6 && inet_pton(AF_INET, address, &to4.sin_addr) != 1)
		die(address);
	fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, v6 ? (void *)&to6 : (void *)&to4, v6 ? sizeof(to6) : sizeof(to4)) < 0 ||
	    listen(fd, 4096) < 0)
		die("listen");
	return fd;
}

int signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

unsigned int signal_taken(int fd)
{
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != sizeof(info))
		die("signalfd");
	return info.ssi_signo;
}
