// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../program.h"
#include "actor.h"
#include "marks.h"

void must(bool good, const char *what)
{
	if (!good)
		die("%s: %s", what, strerror(errno));
}

/* A mark is a constant. */
static void announce(int cpu)
{
	switch (cpu) {
	case 0:
		MARK(16);
		break;
	case 1:
		MARK(17);
		break;
	case 2:
		MARK(18);
		break;
	case 3:
		MARK(19);
		break;
	case 4:
		MARK(20);
		break;
	}
}

static void *act(void *arg)
{
	struct actor *a = arg;
	cpu_set_t set;
	char path[300];
	int ns;

	CPU_ZERO(&set);
	CPU_SET(a->cpu, &set);
	snprintf(path, sizeof(path), "/run/netns/%s", a->ns);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	must(ns >= 0 && !setns(ns, CLONE_NEWNET), path);
	must(!sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity");
	announce(a->cpu);
	close(ns);
	pthread_mutex_lock(&a->lock);
	for (;;) {
		while (!a->work)
			pthread_cond_wait(&a->asked, &a->lock);
		pthread_mutex_unlock(&a->lock);
		a->work(a);
		pthread_mutex_lock(&a->lock);
		a->work = NULL;
		pthread_cond_signal(&a->done);
	}
	return NULL;
}

void actor_start(struct actor *a)
{
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->asked, NULL);
	pthread_cond_init(&a->done, NULL);
	must(!pthread_create(&a->thread, NULL, act, a), "pthread_create");
}

void ask(struct actor *a, void (*work)(struct actor *a))
{
	pthread_mutex_lock(&a->lock);
	a->work = work;
	pthread_cond_signal(&a->asked);
	pthread_mutex_unlock(&a->lock);
}

void until(struct actor *a)
{
	pthread_mutex_lock(&a->lock);
	while (a->work)
		pthread_cond_wait(&a->done, &a->lock);
	pthread_mutex_unlock(&a->lock);
}

void have(struct actor *a, void (*work)(struct actor *a))
{
	ask(a, work);
	until(a);
}
