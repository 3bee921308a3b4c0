// SPDX-License-Identifier: GPL-2.0
/* What is due when. */

#include <stdlib.h>
#include <time.h>

#include "due.h"
#include "mix.h"

#define DUE_MAX	32768

static struct due {
	uint64_t when;
	int who;
} heap[DUE_MAX];
static int nr;

static void swap(int a, int b)
{
	struct due kept = heap[a];

	heap[a] = heap[b];
	heap[b] = kept;
}

void due_add(uint64_t when, int who)
{
	int at = nr++;

	if (nr > DUE_MAX)
		broken("too many are due");
	heap[at] = (struct due){ when, who };
	for (; at && heap[at].when < heap[(at - 1) / 2].when; at = (at - 1) / 2)
		swap(at, (at - 1) / 2);
}

int due_take(uint64_t now)
{
	int who = heap[0].who, at = 0, least;

	if (!nr || heap[0].when > now)
		return -1;
	heap[0] = heap[--nr];
	for (;;) {
		least = at;
		if (2 * at + 1 < nr && heap[2 * at + 1].when < heap[least].when)
			least = 2 * at + 1;
		if (2 * at + 2 < nr && heap[2 * at + 2].when < heap[least].when)
			least = 2 * at + 2;
		if (least == at)
			return who;
		swap(at, least);
		at = least;
	}
}

int due_wait(int epfd, struct epoll_event *events, int max, uint64_t end)
{
	uint64_t now = mix_now(), until = nr && heap[0].when < end ? heap[0].when : end, left;
	struct timespec ts;

	left = until > now ? until - now : 0;
	ts = (struct timespec){ left / 1000000000, left % 1000000000 };
	return epoll_pwait2(epfd, events, max, &ts, NULL);
}
