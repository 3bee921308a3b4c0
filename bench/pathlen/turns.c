// SPDX-License-Identifier: GPL-2.0
/*
 * turns: a guest and those outside of it work in turns.
 *
 *	turns MONITOR GUEST PROCESS...
 *
 * The PROCESSes work until all their threads sleep, and the guest (QEMU process GUEST, QMP socket
 * MONITOR) stands still meanwhile, its clock too; then the guest works until it has nothing more to
 * do, and they stand still. So whatever can be sent is there before the other looks, on a busy machine
 * as on a quiet one, and next to no time passes for the guest but what it works.
 * Ends with the last of the processes, or by SIGTERM; all go on then.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX	64
#define LOOK_NS		100000
/* Looks in a row that find it asleep: one may fall between a thread's end and its successor's start. */
#define SURE		2
/* However busy one is, after so many looks the other has its turn. */
#define PATIENCE	20000

/**
 * struct group - threads that have their turn together
 * @at: /proc/PID/task/TID/stat of each
 * @nr: of them
 */
struct group {
	int at[THREADS_MAX];
	unsigned int nr;
};

static FILE *monitor;		/* what it says; told through its descriptor */
static volatile sig_atomic_t over;

static void on_signal(int number)
{
	(void)number;
	over = 1;
}

static void watch(struct group *g, const char *pid)
{
	char path[64];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.16s/task", pid);
	dir = opendir(path);
	if (!dir)
		return;
	while ((e = readdir(dir)) && g->nr < THREADS_MAX) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%.16s/task/%.16s/stat", pid, e->d_name);
		g->at[g->nr] = open(path, O_RDONLY | O_CLOEXEC);
		g->nr += g->at[g->nr] >= 0;
	}
	closedir(dir);
}

/* Does any thread want a processor? -1: all have ended. */
static int busy(const struct group *g)
{
	char text[256], *end;
	int alive = 0;
	ssize_t n;

	for (unsigned int i = 0; i < g->nr; i++) {
		n = pread(g->at[i], text, sizeof(text) - 1, 0);
		if (n <= 0)
			continue;
		text[n] = '\0';
		end = strrchr(text, ')');
		if (!end || end[2] == 'Z' || end[2] == 'X')
			continue;
		alive = 1;
		if (end[2] == 'R' || end[2] == 'D')
			return 1;
	}
	return alive ? 0 : -1;
}

/* Until all of @g sleep; false: they have ended. */
static bool turn(const struct group *g)
{
	const struct timespec look = { .tv_nsec = LOOK_NS };
	unsigned int looks = 0, asleep = 0;

	while (!over && asleep < SURE && looks++ < PATIENCE) {
		int state = busy(g);

		if (state < 0)
			return false;
		asleep = state ? 0 : asleep + 1;
		nanosleep(&look, NULL);
	}
	return !over;
}

/* Waits for the answer; events come in between. */
static bool tell(const char *command)
{
	char line[1024];

	if (dprintf(fileno(monitor), "{\"execute\": \"%s\"}\n", command) < 0)
		return false;
	while (fgets(line, sizeof(line), monitor)) {
		if (!strncmp(line, "{\"return\"", 9))
			return true;
		if (!strncmp(line, "{\"error\"", 8))
			break;
	}
	return false;
}

static bool connect_monitor(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(path) >= sizeof(at.sun_path))
		return false;
	strcpy(at.sun_path, path);
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
		return false;
	monitor = fdopen(fd, "r");
	return monitor && tell("qmp_capabilities");
}

static void signal_all(char **processes, int number)
{
	for (; *processes; processes++)
		kill(atoi(*processes), number);
}

int main(int argc, char **argv)
{
	struct sigaction end = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct group guest = { .nr = 0 }, outside = { .nr = 0 };
	bool ok = true;

	if (argc < 4) {
		fputs("usage: turns MONITOR GUEST PROCESS...\n", stderr);
		return 2;
	}
	for (int i = 3; i < argc; i++) {
		if (atoi(argv[i]) <= 1) {
			fprintf(stderr, "turns: not a process: %s\n", argv[i]);
			return 2;
		}
		watch(&outside, argv[i]);
	}
	watch(&guest, argv[2]);
	if (!connect_monitor(argv[1])) {
		fprintf(stderr, "turns: no monitor at %s\n", argv[1]);
		return 1;
	}
	sigaction(SIGTERM, &end, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	while (ok) {
		ok = tell("stop");
		signal_all(argv + 3, SIGCONT);
		if (!ok || !turn(&outside))
			break;
		signal_all(argv + 3, SIGSTOP);
		ok = tell("cont");
		if (!ok || !turn(&guest))
			break;
	}
	signal_all(argv + 3, SIGCONT);
	/* Whether it was stopped or not. */
	return !(ok && tell("cont"));
}
