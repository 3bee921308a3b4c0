// SPDX-License-Identifier: GPL-2.0
/*
 * preload_case NAME: a small program that waits, and prints what it was told.
 *
 * Run with the preload library and without it must print the same. The last line on stderr says how
 * many answers came without a call, where the library is there to know.
 */

#include <dlfcn.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "uselect/tests/lib/preload_case.h"

int ended(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return status;
}

/* --- copies of the epoll's descriptor --- */

static int copies_of_the_epoll(void)
{
	int epfd = epoll_create1(EPOLL_CLOEXEC), one[2], two[2], three[2], copy, other;

	warm(epfd, one, 1);
	copy = fcntl(epfd, F_DUPFD_CLOEXEC, 0);
	pair(AF_INET, two);
	pair(AF_INET, three);
	byte(two[0]);
	byte(three[0]);
	lib_epoll_ctl(copy, EPOLL_CTL_ADD, two[1], EPOLLIN, 0xfedcba9876543210);
	say("the original, added by the copy", epfd);
	lib_epoll_ctl(epfd, EPOLL_CTL_ADD, three[1], EPOLLIN | EPOLLOUT, UINT64_MAX);
	say("the copy, added by the original", copy);
	lib_epoll_ctl(copy, EPOLL_CTL_MOD, one[1], EPOLLIN, 0x8000000000000001);
	say("the original, changed by the copy", epfd);
	other = dup(copy);
	close(copy);
	lib_epoll_ctl(other, EPOLL_CTL_DEL, one[1], 0, 0);
	say("the original, taken out by another copy", epfd);
	warm(other, one, 7);
	say("the original, added again", epfd);
	raw_epoll_ctl(other, EPOLL_CTL_DEL, one[1], 0, 0);
	say("the copy itself, taken out past the C library", other);
	say("the original", epfd);
	dup2(epfd, other);
	close(epfd);
	say("the copy that is left", other);
	return 0;
}

static int numbers_are_used_again(void)
{
	int epfd = epoll_create1(0), one[2], two[2], again;

	warm(epfd, one, 1);
	syscall(SYS_close, epfd);
	again = syscall(SYS_epoll_create1, 0);
	printf("same number %d\n", again == epfd);
	say("an epoll that has nothing", again);
	pair(AF_INET, two);
	byte(two[0]);
	raw_epoll_ctl(again, EPOLL_CTL_ADD, two[1], EPOLLIN, 2);
	say("and something", again);
	syscall(SYS_close, one[1]);
	printf("same number %d\n", fcntl(two[1], F_DUPFD, one[1]) == one[1]);
	say("a copy of another socket", again);
	close(two[1]);
	say("of which a copy is left", again);
	close(one[1]);
	say("and is closed", again);
	return 0;
}

/* --- what the data says is the program's --- */

static int data_is_what_the_program_says(void)
{
	static const uint64_t odd[] = { 0, UINT64_MAX, UINT64_MAX - 1, 1ULL << 63, 0xffffffff,
					0x7fffffffffff, 65536, 1048576 };
	int epfd = epoll_create(1), fds[2], pipes[2], i;

	for (i = 0; i < 8; i++) {
		pair(AF_INET, fds);
		byte(fds[0]);
		lib_epoll_ctl(epfd, EPOLL_CTL_ADD, fds[1], EPOLLIN, odd[i]);
		if (pipe(pipes) || write(pipes[1], "x", 1) != 1)
			return 1;
		lib_epoll_ctl(epfd, EPOLL_CTL_ADD, pipes[0], EPOLLIN, odd[i] ^ 0x55);
	}
	say("all", epfd);
	for (i = 0; i < 50; i++)
		say("again", epfd);
	return 0;
}

/* --- children --- */

static int in_child(int epfd, const int one[2])
{
	struct pollfd p = { .fd = one[1], .events = POLLIN };
	int own = epoll_create1(0), two[2];
	fd_set set;

	say("child: the parent's", epfd);
	printf("child: poll %d\n", poll(&p, 1, 0));
	FD_ZERO(&set);
	FD_SET(one[1], &set);
	printf("child: select %d\n", select(one[1] + 1, &set, NULL, NULL, NULL));
	warm(own, two, 5);
	say("child: its own", own);
	lib_epoll_ctl(epfd, EPOLL_CTL_MOD, one[1], EPOLLIN, 9);
	say("child: changed", epfd);
	close_range(3, ~0U, 0);
	return 0;
}

static int child_by_raw_clone(void)
{
	int epfd = epoll_create1(0), one[2];
	pid_t pid;

	warm(epfd, one, 1);
	pid = raw_clone();
	if (!pid)
		_exit(in_child(epfd, one));
	printf("child %d\n", ended(pid));
	say("parent, after the child's change", epfd);
	pid = raw_clone();
	if (!pid) {
		syscall(SYS_epoll_ctl, epfd, EPOLL_CTL_DEL, one[1], NULL);
		_exit(0);
	}
	printf("child %d\n", ended(pid));
	say("parent, after the child has taken it out", epfd);
	return 0;
}

static int child_by_fork(void)
{
	int epfd = epoll_create1(0), one[2];
	pid_t pid;

	warm(epfd, one, 1);
	pid = fork();
	if (!pid)
		_exit(in_child(epfd, one));
	printf("child %d\n", ended(pid));
	say("parent, after the child's change", epfd);
	return 0;
}

/* What the library has opened, if it is there; else a number that is free. */
static int hidden(void)
{
	char path[64], name[64];
	int fd;

	for (fd = 3; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, name, sizeof(name)) > 0 && !strncmp(name, "/dev/uselect", 12))
			return fd;
	}
	return 960;
}

static int child_by_vfork(void)
{
	int epfd = epoll_create1(0), one[2], number, fd;
	pid_t pid;

	warm(epfd, one, 1);
	number = hidden();
	pid = vfork();
	if (!pid) {
		if (dup2(1, number) != number)
			_exit(1);
		for (fd = 3; fd < 900; fd++)
			close(fd);
		execl("/bin/sh", "sh", "-c", "echo child", NULL);
		_exit(2);
	}
	printf("child %d\n", ended(pid));
	say("parent", epfd);
	warm(epfd, one, 2);
	return 0;
}

/* --- the rest of what can be done to an epoll --- */

static int changes_by_io_uring(void)
{
	int epfd = epoll_create1(0), one[2], two[2];

	warm(epfd, one, 1);
	pair(AF_INET, two);
	byte(two[0]);
	printf("add %ld\n", ring_epoll_ctl(epfd, EPOLL_CTL_ADD, two[1], EPOLLIN, 0x123456789abcdef));
	say("added", epfd);
	printf("mod %ld\n", ring_epoll_ctl(epfd, EPOLL_CTL_MOD, one[1], EPOLLIN, 11));
	say("changed", epfd);
	printf("del %ld\n", ring_epoll_ctl(epfd, EPOLL_CTL_DEL, one[1], 0, 0));
	say("taken out", epfd);
	return 0;
}

static int epoll_within_an_epoll(void)
{
	int inner = epoll_create1(0), outer = epoll_create1(0), edges = epoll_create1(0), one[2], copy;
	struct pollfd p = { .fd = inner, .events = POLLIN };
	char c;

	warm(inner, one, 1);
	lib_epoll_ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 2);
	copy = dup(inner);
	lib_epoll_ctl(edges, EPOLL_CTL_ADD, copy, EPOLLIN | EPOLLET, 3);
	say("outer", outer);
	say("edges", edges);
	printf("poll %d\n", poll(&p, 1, 0));
	while (recv(one[1], &c, 1, 0) == 1)
		;
	say("inner, quiet", inner);
	say("outer, quiet", outer);
	printf("poll %d\n", poll(&p, 1, 0));
	byte(one[0]);
	printf("poll %d\n", poll(&p, 1, -1));
	say("outer", outer);
	say("edges", edges);
	return 0;
}

static int edges_and_one_shots(void)
{
	struct epoll_event ev[4] = { 0 };
	int epfd = epoll_create1(0), one[2], two[2], n;

	warm(epfd, one, 1);
	lib_epoll_ctl(epfd, EPOLL_CTL_DEL, one[1], 0, 0);
	pair(AF_INET, two);
	byte(two[0]);
	lib_epoll_ctl(epfd, EPOLL_CTL_ADD, two[1], EPOLLIN | EPOLLONESHOT, 5);
	printf("once %d\n", epoll_wait(epfd, ev, 4, 0));
	printf("not twice %d\n", epoll_wait(epfd, ev, 4, 0));
	lib_epoll_ctl(epfd, EPOLL_CTL_MOD, two[1], EPOLLIN | EPOLLONESHOT, 6);
	n = epoll_wait(epfd, ev, 4, 0);
	printf("armed again %d %d\n", n, (int)ev[0].data.u64);
	lib_epoll_ctl(epfd, EPOLL_CTL_MOD, two[1], EPOLLIN, 7);
	say("by levels", epfd);
	lib_epoll_ctl(epfd, EPOLL_CTL_MOD, two[1], EPOLLIN | EPOLLET, 8);
	printf("edge %d\n", epoll_wait(epfd, ev, 4, 0));
	printf("no edge %d\n", epoll_wait(epfd, ev, 4, 0));
	byte(two[0]);
	printf("edge %d\n", epoll_wait(epfd, ev, 4, WAIT_S * 1000));
	printf("add %d", lib_epoll_ctl(epfd, EPOLL_CTL_ADD, one[1], EPOLLIN | EPOLLEXCLUSIVE, 9));
	printf(", mod %d", lib_epoll_ctl(epfd, EPOLL_CTL_MOD, one[1], EPOLLIN | EPOLLEXCLUSIVE, 9));
	printf(" %s\n", strerror(errno));
	lib_epoll_ctl(epfd, EPOLL_CTL_DEL, two[1], 0, 0);
	say("exclusive", epfd);
	printf("twice %d", lib_epoll_ctl(epfd, EPOLL_CTL_ADD, one[1], EPOLLIN, 9));
	printf(" %s\n", strerror(errno));
	return 0;
}

/* --- what a program does to numbers that it does not know --- */

static int hidden_numbers_are_taken(void)
{
	int epfd = epoll_create1(0), one[2], number, pipes[2], round;
	struct pollfd p[2];

	for (round = 0; round < 3; round++) {
		warm(epfd, one, round);
		number = hidden();
		if (pipe(pipes))
			return 1;
		if (round == 0) {
			printf("taken %d\n", dup2(pipes[0], number) == number);
		} else {
			syscall(SYS_close_range, number, number, 0);
			printf("taken %d\n", fcntl(pipes[0], F_DUPFD, number) == number);
		}
		byte(one[0]);
		say("still", epfd);
		p[0] = (struct pollfd){ .fd = number, .events = POLLIN };
		p[1] = (struct pollfd){ .fd = one[1], .events = POLLIN };
		close(pipes[1]);
		printf("poll %d", poll(p, 2, 0));
		printf(" %d %d\n", p[0].revents, p[1].revents);
		printf("close %d\n", close(number));
		close(one[1]);
		printf("none %d", poll(p + 1, 1, 0));
		printf(" %d\n", p[1].revents);
	}
	return 0;
}

static int closed_numbers_are_not_there(void)
{
	int one[2], copy, i, n = 0;
	struct pollfd p;
	char c;

	for (i = 0; i < 100; i++) {
		if (!i) {
			pair(AF_INET, one);
			byte(one[0]);
			p = (struct pollfd){ .fd = one[1], .events = POLLIN };
		}
		n += poll(&p, 1, 0);
	}
	printf("ready %d\n", n);
	copy = dup(one[1]);
	close(one[1]);
	for (n = 0, i = 0; i < 100; i++)
		n += poll(&p, 1, 0) == 1 && p.revents == POLLNVAL;
	printf("closed, with a copy %d\n", n);
	p.fd = copy;
	printf("the copy %d", poll(&p, 1, 0));
	printf(" %d\n", p.revents);
	while (recv(copy, &c, 1, 0) == 1)
		;
	printf("quiet %d\n", poll(&p, 1, 0));
	return 0;
}

/* A thread that leaves the others' descriptors has numbers of its own. */
static void *alone(void *arg)
{
	struct pollfd p = { .fd = *(int *)arg, .events = POLLIN };
	int pipes[2];

	if (unshare(CLONE_FILES) || pipe(pipes) || dup2(pipes[0], p.fd) < 0)
		exit(1);
	printf("alone %d\n", poll(&p, 1, 0));
	return NULL;
}

static int table_of_its_own(void)
{
	int epfd = epoll_create1(0), one[2];
	pthread_t thread;

	warm(epfd, one, 1);
	pthread_create(&thread, NULL, alone, &one[1]);
	pthread_join(thread, NULL);
	say("the others", epfd);
	return 0;
}

/* --- a fork in the midst of the end of an epoll --- */

static bool forks_at_munmap;
static int forks_bad;

/* Descriptors of the library's that are open. */
static int hidden_ones(void)
{
	char path[64], name[64];
	int fd, n = 0;

	for (fd = 3; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n += readlink(path, name, sizeof(name)) > 0 && !strncmp(name, "/dev/uselect", 12);
	}
	return n;
}

int munmap(void *at, size_t size)
{
	int ret = syscall(SYS_munmap, at, size), err = errno;
	pid_t pid;

	if (forks_at_munmap) {
		forks_at_munmap = false;
		pid = fork();
		if (!pid)
			_exit(hidden_ones());
		forks_bad += ended(pid) != 0;
		forks_at_munmap = true;
	}
	errno = err;
	return ret;
}

static int children_are_made_while_an_epoll_is_closed(void)
{
	int epfd = epoll_create1(0), one[2];

	warm(epfd, one, 1);
	forks_at_munmap = true;
	close(epfd);
	forks_at_munmap = false;
	printf("children that died or have more than they know of %d\n", forks_bad);
	return 0;
}

/* No call is allowed that the program does not make itself. */
static int sandbox(void)
{
	static const int allowed[] = { SYS_epoll_wait, SYS_epoll_ctl, SYS_poll, SYS_write, SYS_close,
				       SYS_exit_group };
	enum { CALLS = sizeof(allowed) / sizeof(*allowed) };
	struct sock_filter code[2 * CALLS + 2] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0) };
	struct sock_fprog prog = { .len = 2 * CALLS + 2, .filter = code };
	int i;

	for (i = 0; i < CALLS; i++) {
		code[2 * i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i],
							       0, 1);
		code[2 * i + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[2 * CALLS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}

static int program_in_a_sandbox(void)
{
	int epfd, one[2], two[2], other, late, way, fd, i;
	struct pollfd p;
	pid_t pid;

	/* Helped before, or not yet. */
	for (way = 0; way < 2; way++) {
		pid = fork();
		if (pid) {
			printf("child %d\n", ended(pid));
			continue;
		}
		epfd = epoll_create1(0);
		other = epoll_create1(0);
		pair(AF_INET, two);
		byte(two[0]);
		late = two[1];
		if (way == 0)
			warm(epfd, one, 1);
		if (sandbox())
			_exit(1);
		p = (struct pollfd){ .fd = late, .events = POLLIN };
		for (i = 0; i < 100; i++)
			poll(&p, 1, 0);
		lib_epoll_ctl(other, EPOLL_CTL_ADD, late, EPOLLIN, 2);
		say("in the sandbox", other);
		say("the other", epfd);
		for (fd = 3; fd < 1024; fd++)
			close(fd);
		_exit(0);
	}
	epfd = epoll_create1(0);
	warm(epfd, one, 1);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
#define CASE(name) { #name, name }
	CASE(copies_of_the_epoll), CASE(numbers_are_used_again), CASE(data_is_what_the_program_says),
	CASE(child_by_raw_clone), CASE(child_by_fork), CASE(child_by_vfork), CASE(changes_by_io_uring),
	CASE(epoll_within_an_epoll), CASE(edges_and_one_shots), CASE(hidden_numbers_are_taken),
	CASE(closed_numbers_are_not_there), CASE(table_of_its_own),
	CASE(signal_handlers_wait_and_change), CASE(waiting_threads_are_cancelled),
	CASE(sleepers_are_woken), CASE(program_in_a_sandbox),
	CASE(thread_is_cancelled_while_the_library_registers),
	CASE(threads_wait_while_the_library_registers), CASE(table_of_its_own_before_all),
	CASE(children_are_made_while_an_epoll_is_closed),
	CASE(random_changes_by_all_ways),
};

int main(int argc, char **argv)
{
	unsigned long (*answers)(void) = dlsym(RTLD_DEFAULT, "uselect_preload_answers");
	unsigned int i;
	int ret = 2;

	setvbuf(stdout, NULL, _IONBF, 0);
	for (i = 0; argc == 2 && i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(cases[i].name, argv[1]))
			ret = cases[i].run();
	fprintf(stderr, "answers %lu\n", answers ? answers() : 0);
	return ret;
}
