// SPDX-License-Identifier: GPL-2.0
/* Cases of preload_case: signals and threads. */

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "uselect/tests/lib/preload_case.h"

static int signal_epfd, signal_fd;
static volatile sig_atomic_t signals;

static void on_signal(int sig)
{
	struct epoll_event ev[4];
	struct pollfd p = { .fd = signal_fd, .events = POLLIN };
	int err = errno;

	(void)sig;
	epoll_wait(signal_epfd, ev, 4, 0);
	poll(&p, 1, 0);
	/* Nothing that changes it, at first: the library should see some of that, too. */
	if (signals > 50)
		lib_epoll_ctl(signal_epfd, EPOLL_CTL_MOD, signal_fd, EPOLLIN, 3);
	signals++;
	errno = err;
}

int signal_handlers_wait_and_change(void)
{
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } };
	struct epoll_event ev[4];
	int epfd = epoll_create1(0), one[2], two[2];

	warm(epfd, one, 3);
	signal_epfd = epfd;
	signal_fd = one[1];
	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &every, NULL);
	while (signals < 300) {
		epoll_wait(epfd, ev, 4, 0);
		pair(AF_INET, two);
		lib_epoll_ctl(epfd, EPOLL_CTL_ADD, two[1], EPOLLIN, 4);
		if (signals % 2)
			lib_epoll_ctl(epfd, EPOLL_CTL_DEL, two[1], 0, 0);
		close(two[0]);
		close(two[1]);
	}
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	byte(one[0]);
	say("still", epfd);
	return 0;
}

static void *waits_for_ever(void *arg)
{
	struct epoll_event ev[4];

	for (;;)
		epoll_wait(*(int *)arg, ev, 4, -1);
	return NULL;
}

int waiting_threads_are_cancelled(void)
{
	int epfd = epoll_create1(0), one[2];
	pthread_t thread[2];
	void *how;
	int i;

	warm(epfd, one, 1);
	for (i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, waits_for_ever, &epfd);
	usleep(20000);
	for (i = 0; i < 2; i++) {
		pthread_cancel(thread[i]);
		pthread_join(thread[i], &how);
		printf("cancelled %d\n", how == PTHREAD_CANCELED);
	}
	say("still", epfd);
	return 0;
}

/* A sleeper is woken by what another thread, or process, adds. */
int sleepers_are_woken(void)
{
	int epfd = epoll_create1(0), one[2], two[2], epcopy = -1, way;
	struct epoll_event ev = { 0 };
	char c;

	for (way = 0; way < 4; way++) {
		warm(epfd, one, 1);
		while (recv(one[1], &c, 1, 0) == 1)
			;
		pair(AF_INET, two);
		byte(two[0]);
		if (!fork()) {
			usleep(20000);
			epcopy = dup(epfd);
			if (way == 0)
				lib_epoll_ctl(epfd, EPOLL_CTL_ADD, two[1], EPOLLIN, 2);
			else if (way == 1)
				lib_epoll_ctl(epcopy, EPOLL_CTL_ADD, two[1], EPOLLIN, 2);
			else if (way == 2)
				raw_epoll_ctl(epfd, EPOLL_CTL_ADD, two[1], EPOLLIN, 2);
			else
				byte(one[0]);
			_exit(0);
		}
		printf("woken %d", epoll_wait(epfd, &ev, 1, -1));
		printf(" %d\n", (int)ev.data.u64);
		wait(NULL);
		close(epfd);
		epfd = epoll_create1(0);
	}
	return 0;
}

static int cancel_epfd, cancel_fd, cancel_added = -1;

/* epoll_ctl() is not one of the calls in which a thread that was cancelled ends. */
static void *is_cancelled_and_adds(void *unused)
{
	(void)unused;
	pthread_cancel(pthread_self());
	cancel_added = lib_epoll_ctl(cancel_epfd, EPOLL_CTL_ADD, cancel_fd, EPOLLIN, 2);
	pthread_testcancel();
	return NULL;
}

int thread_is_cancelled_while_the_library_registers(void)
{
	int epfd = epoll_create1(0), one[2];
	pthread_t thread;
	pid_t pid;
	void *how;

	pair(AF_INET, one);
	byte(one[0]);
	cancel_epfd = epfd;
	cancel_fd = one[1];
	pthread_create(&thread, NULL, is_cancelled_and_adds, NULL);
	pthread_join(thread, &how);
	printf("added %d, cancelled %d\n", cancel_added, how == PTHREAD_CANCELED);
	/* Both take the library's locks. */
	pid = fork();
	if (!pid)
		_exit(0);
	printf("child %d\n", ended(pid));
	warm(epfd, one, 1);
	say("still", epfd);
	return 0;
}

static _Atomic bool wait_stops, wait_slowly;
static _Atomic int waits, wrong_waits;

/* Always of a connection that was made just before, as a server's. */
static void *waits_of_new_ones(void *unused)
{
	struct pollfd p = { .events = POLLIN };
	int fds[2], i;

	(void)unused;
	while (!wait_stops) {
		pair(AF_INET, fds);
		byte(fds[0]);
		p.fd = fds[1];
		for (i = 0; i < 10; i++)
			wrong_waits += poll(&p, 1, -1) != 1 || p.revents != POLLIN;
		close(fds[0]);
		close(fds[1]);
		waits++;
	}
	return NULL;
}

/* In the library's place: what it calls on its way, which others now wait in the midst of. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);

int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
{
	int (*real)(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso) =
		dlsym(RTLD_NEXT, "__register_atfork");
	int until = waits + 20;

	while (wait_slowly && waits < until)
		usleep(1000);
	return real(prepare, parent, child, dso);
}

int threads_wait_while_the_library_registers(void)
{
	int epfd = epoll_create1(0), one[2], until;
	pthread_t thread;

	/* The thread's own waits are fewer than those after which it would register. */
	setenv("USELECT_PRELOAD_AFTER", "1000000", 1);
	pthread_create(&thread, NULL, waits_of_new_ones, NULL);
	pair(AF_INET, one);
	byte(one[0]);
	wait_slowly = true;
	lib_epoll_ctl(epfd, EPOLL_CTL_ADD, one[1], EPOLLIN, 1);
	wait_slowly = false;
	until = waits + 20;
	while (waits < until)
		usleep(1000);
	wait_stops = true;
	pthread_join(thread, NULL);
	printf("wrong %d\n", wrong_waits);
	return 0;
}

static void *leaves_the_table(void *arg)
{
	int *fds = arg, pipes[2], until;
	struct pollfd p;

	if (unshare(CLONE_FILES) || pipe(pipes))
		exit(1);
	/* Under the numbers that are ready for the others. */
	if (dup2(pipes[0], fds[0]) < 0 || dup2(pipes[0], fds[1]) < 0)
		exit(1);
	waits++;
	while (!wait_stops)
		usleep(1000);
	for (until = 0; until < 50; until++) {
		p = (struct pollfd){ .fd = fds[1], .events = POLLIN };
		wrong_waits += poll(&p, 1, 0) != 0;
	}
	return NULL;
}

/* Before the library registers, that is: it would be told of one table, and asked of two. */
int table_of_its_own_before_all(void)
{
	int epfd, one[2];
	pthread_t thread;
	pid_t pid = fork();

	if (pid) {
		printf("child %d\n", ended(pid));
		/* In its parent nobody has left. */
		epfd = epoll_create1(0);
		warm(epfd, one, 1);
		return 0;
	}
	epfd = epoll_create1(0);
	pair(AF_INET, one);
	byte(one[0]);
	pthread_create(&thread, NULL, leaves_the_table, one);
	while (!waits)
		usleep(1000);
	lib_epoll_ctl(epfd, EPOLL_CTL_ADD, one[1], EPOLLIN, 1);
	say("the others", epfd);
	wait_stops = true;
	pthread_join(thread, NULL);
	printf("wrong %d\n", wrong_waits);
	_exit(0);
}
