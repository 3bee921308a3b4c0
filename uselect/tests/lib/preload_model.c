// SPDX-License-Identifier: GPL-2.0
/* An epoll that is changed at random in each of the ways there are says what a model says. */

#include <linux/io_uring.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "uselect/tests/lib/preload_case.h"

long raw_epoll_ctl(int epfd, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return syscall(SYS_epoll_ctl, epfd, op, fd, &ev);
}

long raw_clone(void)
{
	return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

int lib_epoll_ctl(int epfd, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return epoll_ctl(epfd, op, fd, &ev);
}

/* A ring of one entry, made for one call. */
long ring_epoll_ctl(int epfd, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };
	struct io_uring_params p = { 0 };
	int ring = syscall(SYS_io_uring_setup, 1, &p);
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	char *sq, *cq;
	long res = -1;

	if (ring < 0)
		return -1;
	sq = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	cq = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	sqe = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	*sqe = (struct io_uring_sqe){ .opcode = IORING_OP_EPOLL_CTL, .fd = epfd, .off = fd, .len = op,
				      .addr = (uintptr_t)&ev };
	*(uint32_t *)(sq + p.sq_off.array) = 0;
	__atomic_store_n((uint32_t *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1) {
		cqe = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
		res = cqe->res;
	}
	munmap(sq, 4096);
	munmap(cq, 4096);
	munmap(sqe, 4096);
	close(ring);
	return res;
}

static int by_data(const void *a, const void *b)
{
	const struct epoll_event *x = a, *y = b;

	return x->data.u64 < y->data.u64 ? -1 : x->data.u64 > y->data.u64;
}

void ask(int epfd, struct said *said)
{
	struct epoll_event ev[16];
	int i, k, n, wait;

	said->nr = 0;
	for (wait = 0; wait < 24; wait++) {
		n = epoll_wait(epfd, ev, 16, 0);
		for (i = 0; i < n; i++) {
			for (k = 0; k < said->nr; k++)
				if (said->ev[k].data.u64 == ev[i].data.u64)
					break;
			if (k == said->nr && said->nr < 64)
				said->ev[said->nr++] = (struct epoll_event){ .data = ev[i].data };
			if (k < said->nr)
				said->ev[k].events |= ev[i].events;
		}
	}
	qsort(said->ev, said->nr, sizeof(*said->ev), by_data);
}

void say(const char *what, int epfd)
{
	struct said said;
	int i;

	ask(epfd, &said);
	printf("%s:", what);
	for (i = 0; i < said.nr; i++)
		printf(" %llx=%x", (unsigned long long)said.ev[i].data.u64, said.ev[i].events);
	printf("\n");
}

void byte(int fd)
{
	if (send(fd, "x", 1, MSG_NOSIGNAL) != 1)
		perror("send");
}

void warm(int epfd, int fds[2], uint64_t data)
{
	struct said said;

	pair(AF_INET, fds);
	if (lib_epoll_ctl(epfd, EPOLL_CTL_ADD, fds[1], EPOLLIN, data))
		perror("epoll_ctl");
	byte(fds[0]);
	ask(epfd, &said);
	ask(epfd, &said);
}

#define SLOTS	6

/**
 * struct slot - a connection
 * @fds:    [1] is waited for
 * @data:   of its interest; never the same twice
 * @events: the interest; 0: none
 * @ready:  there is something to read
 */
struct slot {
	int fds[2];
	uint64_t data;
	uint32_t events;
	bool ready;
};

static struct slot slots[SLOTS];
static uint64_t next_data = 1ULL << 40;

static bool model_agrees(int epfd)
{
	struct epoll_event wanted[SLOTS];
	struct said said;
	int nr = 0, i;

	for (i = 0; i < SLOTS; i++) {
		uint32_t events = (slots[i].ready ? EPOLLIN : 0) | EPOLLOUT;

		if (slots[i].events & events)
			wanted[nr++] = (struct epoll_event){ .events = slots[i].events & events,
							     .data.u64 = slots[i].data };
	}
	qsort(wanted, nr, sizeof(*wanted), by_data);
	ask(epfd, &said);
	if (said.nr == nr) {
		for (i = 0; i < nr; i++)
			if (wanted[i].data.u64 != said.ev[i].data.u64 ||
			    wanted[i].events != said.ev[i].events)
				break;
		if (i == nr)
			return true;
	}
	for (i = 0; i < nr; i++)
		printf("wanted %llx=%x\n", (unsigned long long)wanted[i].data.u64, wanted[i].events);
	for (i = 0; i < said.nr; i++)
		printf("said %llx=%x\n", (unsigned long long)said.ev[i].data.u64, said.ev[i].events);
	return false;
}

enum { LIB, COPY, RAW, RAW_COPY, RING, FORK, CLONE, WAYS };

static long change(int way, int epfd, int copy, int op, const struct slot *slot)
{
	int status;
	pid_t pid;

	switch (way) {
	case COPY:
		return lib_epoll_ctl(copy, op, slot->fds[1], slot->events, slot->data);
	case RAW:
		return raw_epoll_ctl(epfd, op, slot->fds[1], slot->events, slot->data);
	case RAW_COPY:
		return raw_epoll_ctl(copy, op, slot->fds[1], slot->events, slot->data);
	case RING:
		return ring_epoll_ctl(epfd, op, slot->fds[1], slot->events, slot->data);
	case FORK:
	case CLONE:
		pid = way == FORK ? fork() : raw_clone();
		if (!pid)
			_exit(!!lib_epoll_ctl(copy, op, slot->fds[1], slot->events, slot->data));
		return waitpid(pid, &status, 0) == pid ? status : -1;
	default:
		return lib_epoll_ctl(epfd, op, slot->fds[1], slot->events, slot->data);
	}
}

static void fresh(struct slot *slot)
{
	if (slot->fds[0]) {
		close(slot->fds[0]);
		close(slot->fds[1]);
	}
	pair(AF_INET, slot->fds);
	slot->events = 0;
	slot->ready = false;
}

static void step(uint64_t *seed, int epfd, int copy)
{
	struct slot *slot = &slots[rnd(seed) % SLOTS];
	/* Most often the way that the library follows; else there would soon be nothing to follow. */
	int way = rnd(seed) % 16 ? LIB : (int)(rnd(seed) % WAYS), op;
	char c;

	switch (rnd(seed) % 8) {
	case 0:
		fresh(slot);
		break;
	case 1:
	case 2:
		byte(slot->fds[0]);
		slot->ready = true;
		break;
	case 3:
		while (recv(slot->fds[1], &c, 1, 0) == 1)
			;
		slot->ready = false;
		break;
	default:
		op = !slot->events ? EPOLL_CTL_ADD : rnd(seed) % 3 ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
		slot->events = op == EPOLL_CTL_DEL ? 0 : rnd(seed) % 3 ? EPOLLIN : EPOLLIN | EPOLLOUT;
		slot->data = next_data++;
		if (change(way, epfd, copy, op, slot))
			perror("change");
	}
}

int random_changes_by_all_ways(void)
{
	uint64_t seed = env_number("USELECT_SEED", 1) * 0x9E3779B97F4A7C15ULL;
	int games = env_number("USELECT_ROUNDS", 25), game, i, epfd, copy;

	for (game = 0; game < games; game++) {
		epfd = epoll_create1(0);
		copy = dup(epfd);
		for (i = 0; i < SLOTS; i++)
			fresh(&slots[i]);
		for (i = 0; i < 40; i++) {
			step(&seed, epfd, copy);
			if (!model_agrees(epfd)) {
				printf("game %d, step %d\n", game, i);
				return 1;
			}
		}
		close(copy);
		close(epfd);
	}
	printf("as the model\n");
	return 0;
}
