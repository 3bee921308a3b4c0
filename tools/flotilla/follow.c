// SPDX-License-Identifier: GPL-2.0
/* Connections that are followed while they move: signals, time, and what is said of those that are left. */
#include <errno.h>
#include <fcntl.h>
#include <flotilla/handoff.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "follow.h"
#include "handoff.h"

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

void follow_begin(struct follow *f)
{
	struct sigaction action = { .sa_handler = stop };

	sigaction(SIGINT, &action, &f->before[0]);
	sigaction(SIGTERM, &action, &f->before[1]);
}

void follow_end(const struct follow *f)
{
	sigaction(SIGINT, &f->before[0], NULL);
	sigaction(SIGTERM, &f->before[1], NULL);
}

bool follow_is_stopped(void)
{
	return stopped;
}

uint64_t follow_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ULL + now.tv_nsec / 1000000;
}

int follow_device(struct cli *cli)
{
	int device = open(HOF_DEVICE, O_RDWR | O_CLOEXEC);

	if (device < 0)
		cli_fail(cli, errno == ENOENT || errno == ENODEV || errno == ENXIO ?
			 "handoff.ko is not loaded (modprobe handoff)" : HOF_DEVICE ": %s", strerror(errno));
	return device;
}

json_t *follow_reasons(const __u32 counts[HOF_MOVE_REASONS])
{
	json_t *all = json_object();
	unsigned int i;

	for (i = 1; i < HOF_MOVE_REASONS; i++)
		if (counts[i])
			json_object_set_new(all, handoff_refusal_name(i), json_integer(counts[i]));
	return all;
}

void follow_print(unsigned int nr, const char *text)
{
	if (nr)
		printf("  %6u  %s\n", nr, text);
}

bool follow_is_watched(const struct cli *cli)
{
	return !cli->json && !cli->tabs && isatty(STDERR_FILENO);
}

int follow_wait(struct cli *cli, const char *text, uint64_t *wait_ms)
{
	int status = value_number(cli, "--wait", text, 0, 86400, wait_ms);

	*wait_ms *= 1000;
	return status;
}
