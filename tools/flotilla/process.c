// SPDX-License-Identifier: GPL-2.0
/* flotilla process: established connections change their process (flotilla/move.h). */
#include <errno.h>
#include <fcntl.h>
#include <flotilla/handoff.h>
#include <flotilla/move.h>
#include <netinet/in.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "cli.h"
#include "handoff.h"
#include "process.h"

/* Between two looks at the old process's descriptors. */
#define LOOK_MS		50
/* Between two lines that say how far it is. */
#define SAY_MS		1000
#define NEVER		UINT64_MAX

/**
 * enum known - what a socket of the old process was found to be
 * @KNOWN_OTHER: not of the service
 * @KNOWN_GIVEN: the kernel watches it, or it has moved
 * @KNOWN_TAKEN: another move has it
 * @KNOWN_FIXED: cannot move
 * @KNOWN_LISTENER: listens
 */
enum known { KNOWN_OTHER, KNOWN_GIVEN, KNOWN_TAKEN, KNOWN_FIXED, KNOWN_LISTENER };

struct sock_known {
	uint64_t inode;
	enum known known;
};

/**
 * struct listener - of either process
 * @inode: tells it from others
 * @fd:    a copy, until the kernel has it
 * @local: its address
 */
struct listener {
	uint64_t inode;
	int fd;
	struct sockaddr_storage local;
};

struct listeners {
	struct listener of[HOF_MOVE_LISTENERS];
	unsigned int nr;
};

/**
 * struct job - one run of the command
 * @cli:            it
 * @old, @new:      the processes
 * @idle_ms:        see hof_move_start
 * @wait_ms:        end after this, whatever is left
 * @dry_run:        only count
 * @gone:           the old process is
 * @move:           the kernel's descriptor
 * @olds, @news:    listeners
 * @shared:         of @news, that are @olds as well
 * @known:          sockets of @old by inode number (tsearch)
 * @fresh:          connections found in the last look that were not known before
 * @taken, @fixed:  connections of the last look that are, see enum known
 * @held:           connections of the last look whose program is in a call
 * @conns:          connections of the service that were ever seen
 * @err:            of the kernel, when a look was broken off
 * @status:         the kernel's
 */
struct job {
	struct cli *cli;
	struct process old, new;
	uint64_t idle_ms, wait_ms;
	bool dry_run, tree, gone;
	int move;
	struct listeners olds, news;
	unsigned int shared;
	void *known;
	unsigned int fresh, taken, fixed, held, conns;
	int err;
	struct hof_move_status status;
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ULL + now.tv_nsec / 1000000;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = ((const struct sock_known *)a)->inode, y = ((const struct sock_known *)b)->inode;

	return (x > y) - (x < y);
}

/* 0, or -ENOMEM. */
static int remember(struct job *job, uint64_t inode, enum known known)
{
	struct sock_known *k = malloc(sizeof(*k));

	if (!k)
		return -ENOMEM;
	*k = (struct sock_known){ inode, known };
	if (tsearch(k, &job->known, compare))
		return 0;
	free(k);
	return -ENOMEM;
}

static bool has(const struct listeners *list, uint64_t inode)
{
	unsigned int i;

	for (i = 0; i < list->nr; i++)
		if (list->of[i].inode == inode)
			return true;
	return false;
}

static int collect_listener(uint64_t inode, int pidfd, int number, void *arg)
{
	struct listeners *list = arg;
	struct sockaddr_storage local;
	int fd;

	if (has(list, inode))
		return 0;
	fd = process_socket(pidfd, number);
	if (fd < 0)
		return fd == -EBADF || fd == -ESRCH ? 0 : fd;
	if (socket_kind(fd, &local) != SOCKET_LISTENS || list->nr == HOF_MOVE_LISTENERS) {
		close(fd);
		return 0;
	}
	list->of[list->nr++] = (struct listener){ inode, fd, local };
	return 0;
}

static void let_go(struct listeners *list)
{
	unsigned int i;

	for (i = 0; i < list->nr; i++) {
		if (list->of[i].fd >= 0)
			close(list->of[i].fd);
		list->of[i].fd = -1;
	}
}

static int no_rights(struct job *job, const struct process *p, int err)
{
	if (err == -ESRCH)
		return cli_fail(job->cli, "there is no process %d any more", p->pid);
	if (err == -EPERM || err == -EACCES)
		return cli_fail(job->cli, "no right to the descriptors of process %d (root, or CAP_SYS_PTRACE)",
				p->pid);
	return cli_fail(job->cli, "the descriptors of process %d: %s", p->pid, strerror(-err));
}

/* What the kernel says of a descriptor that is given. */
static int refused(struct job *job, const char *what)
{
	if (errno == EXDEV)
		return cli_fail(job->cli, "%s is in another network namespace than this command", what);
	if (errno == EBUSY)
		return cli_fail(job->cli, "%s is in another move, which has to end first", what);
	return cli_fail(job->cli, "%s: %s", what, strerror(errno));
}

static int open_move(struct job *job)
{
	struct hof_move_start start = { .size = sizeof(start), .idle_ms = job->idle_ms };
	int device = open(HOF_DEVICE, O_RDWR | O_CLOEXEC), err;

	if (device < 0)
		return cli_fail(job->cli, errno == ENOENT || errno == ENODEV || errno == ENXIO ?
				"handoff.ko is not loaded (modprobe handoff)" : HOF_DEVICE ": %s",
				strerror(errno));
	job->move = ioctl(device, HOF_IOC_MOVE, &start);
	err = errno;
	close(device);
	if (job->move >= 0)
		return CLI_OK;
	if (err == EPERM)
		return cli_fail(job->cli, "that needs CAP_NET_ADMIN (root of the machine)");
	return cli_fail(job->cli, err == ENOTTY ? "the loaded handoff.ko is too old for this" :
			HOF_DEVICE ": %s", strerror(err));
}

/* Which of the new process's listeners get connections. */
static int give_new(struct job *job)
{
	unsigned int i;

	for (i = 0; i < job->news.nr; i++) {
		if (has(&job->olds, job->news.of[i].inode))
			job->shared++;
		else if (ioctl(job->move, HOF_MOVE_TO, job->news.of[i].fd) && errno != EOPNOTSUPP)
			return refused(job, "a listener of the new process");
	}
	return CLI_OK;
}

/* Clients find the new one only, from here on. */
static int hide_old(struct job *job)
{
	unsigned int i;

	for (i = 0; i < job->olds.nr; i++)
		if (ioctl(job->move, HOF_MOVE_FROM, job->olds.of[i].fd) && errno != EADDRNOTAVAIL &&
		    errno != EOPNOTSUPP && errno != EEXIST)
			return refused(job, "a listener of the old process");
	return CLI_OK;
}

static int find_listeners(struct job *job)
{
	int err;

	err = process_sockets(&job->old, collect_listener, &job->olds);
	if (err)
		return no_rights(job, &job->old, err);
	err = process_sockets(&job->new, collect_listener, &job->news);
	if (err)
		return no_rights(job, &job->new, err);
	if (!job->news.nr)
		return cli_fail(job->cli, "process %d listens on no TCP address", job->new.pid);
	return give_new(job);
}

/* Gives one connection to the kernel. */
static int give(struct job *job, uint64_t inode, int fd)
{
	if (job->dry_run || !ioctl(job->move, HOF_MOVE_CONN, fd)) {
		job->fresh++;
		job->conns++;
		return remember(job, inode, KNOWN_GIVEN);
	}
	switch (errno) {
	case EADDRNOTAVAIL:
	case EXDEV:
		return remember(job, inode, KNOWN_OTHER);
	case EEXIST:
		job->taken++;
		job->conns++;
		return remember(job, inode, KNOWN_TAKEN);
	case EOPNOTSUPP:
		job->fixed++;
		job->conns++;
		return remember(job, inode, KNOWN_FIXED);
	case EBUSY:
		job->held++;
		return 0;
	case ENOTCONN:
		return 0;	/* it ends, or is not there yet */
	default:
		return -errno;
	}
}

static int see_socket(uint64_t inode, int pidfd, int number, void *arg)
{
	struct sock_known key = { .inode = inode }, **found;
	struct sockaddr_storage local;
	struct job *job = arg;
	enum socket_kind kind;
	int fd, err = 0;

	found = tfind(&key, &job->known, compare);
	if (found) {
		job->taken += (*found)->known == KNOWN_TAKEN;
		job->fixed += (*found)->known == KNOWN_FIXED;
		return 0;
	}
	fd = process_socket(pidfd, number);
	if (fd < 0)
		return fd == -EBADF || fd == -ESRCH ? 0 : fd;
	kind = socket_kind(fd, &local);
	if (kind == SOCKET_CONNECTED)
		err = give(job, inode, fd);
	else if (kind == SOCKET_LISTENS)
		err = remember(job, inode, KNOWN_LISTENER);
	/* Else it may become a connection yet. */
	close(fd);
	return err;
}

static unsigned int left(const struct job *job)
{
	return job->status.waiting + job->status.busy + job->status.stuck + job->status.queued +
	       job->taken + job->fixed + job->held;
}

/* One look. Of a process that has gone the kernel has what others may hold yet. */
static int look(struct job *job)
{
	int err;

	job->fresh = job->taken = job->fixed = job->held = 0;
	err = job->gone ? 0 : process_sockets(&job->old, see_socket, job);
	if (err == -ESRCH) {
		job->gone = true;
		err = 0;
	}
	if (!job->dry_run && ioctl(job->move, HOF_MOVE_STATUS, &job->status))
		return -errno;
	return err;
}

static void say(const struct job *job)
{
	const struct hof_move_status *s = &job->status;

	if (!job->cli->json && !job->cli->tabs && isatty(STDERR_FILENO))
		fprintf(stderr, "moved %llu, between requests %u, busy %u\n",
			(unsigned long long)s->moved, s->waiting, s->busy + s->queued);
}

/* Nothing of it can move any more by waiting. */
static bool is_hopeless(const struct job *job)
{
	return !job->fresh && !job->held && !job->status.waiting && !job->status.busy && !job->status.queued;
}

/* Until none is left, the time is over, or it makes no sense. 0 or a negative errno. */
static int follow(struct job *job)
{
	struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };
	uint64_t begin = now_ms(), said = begin;
	int err;

	for (;;) {
		err = look(job);
		if (err || stopped || is_hopeless(job) ||
		    (job->wait_ms != NEVER && now_ms() - begin >= job->wait_ms))
			return err;
		if (!job->status.listeners || process_is_gone(&job->new))
			return -ECONNREFUSED;
		if (now_ms() - said >= SAY_MS) {
			say(job);
			said = now_ms();
		}
		nanosleep(&pause, NULL);
	}
}

static json_t *reasons(const __u32 counts[HOF_MOVE_REASONS])
{
	json_t *all = json_object();
	unsigned int i;

	for (i = 1; i < HOF_MOVE_REASONS; i++)
		if (counts[i])
			json_object_set_new(all, handoff_refusal_name(i), json_integer(counts[i]));
	return all;
}

static void print_json(const struct job *job)
{
	const struct hof_move_status *s = &job->status;

	json_print(job->cli, json_pack("{s:i, s:i, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o}",
				       "old", job->old.pid, "new", job->new.pid,
				       "moved", (json_int_t)s->moved, "ended", (json_int_t)s->ended,
				       "left", left(job), "waiting", s->waiting, "busy", s->busy,
				       "queued", s->queued, "stuck", s->stuck,
				       "unsupported", job->fixed, "other_move", job->taken,
				       "held", job->held,
				       "stuck_by", reasons(s->stuck_by), "put_off", reasons(s->refused)));
}

static void print_reason(unsigned int nr, const char *text)
{
	if (nr)
		printf("  %6u  %s\n", nr, text);
}

static void print_text(const struct job *job)
{
	const struct hof_move_status *s = &job->status;
	unsigned int i;
	char text[80];

	printf("moved %llu connection%s from process %d to %d", (unsigned long long)s->moved,
	       s->moved == 1 ? "" : "s", job->old.pid, job->new.pid);
	if (s->ended)
		printf(", %llu ended", (unsigned long long)s->ended);
	printf(", %u left\n", left(job));
	print_reason(s->waiting, "between requests; they move with the next one (or by --idle)");
	print_reason(s->busy, "with a request or an answer under way");
	print_reason(s->queued, "not accepted yet by the old process");
	print_reason(job->fixed, "cannot move: kTLS, a sockmap, or another user in the kernel");
	print_reason(job->taken, "in another move");
	print_reason(job->held, "whose program is in a call on it");
	for (i = 1; i < HOF_MOVE_REASONS; i++) {
		snprintf(text, sizeof(text), "cannot move: %s", handoff_refusal_name(i));
		print_reason(s->stuck_by[i], text);
	}
}

static void print_counted(const struct job *job)
{
	if (job->cli->json)
		json_print(job->cli, json_pack("{s:i, s:i, s:i}", "old", job->old.pid,
					       "new", job->new.pid, "connections", job->conns));
	else
		printf("process %d has %u connection%s, of which those that process %d listens for would move\n",
		       job->old.pid, job->conns, job->conns == 1 ? "" : "s", job->new.pid);
}

static int nothing_common(struct job *job)
{
	if (job->shared)
		return cli_fail(job->cli, "both processes have the same listening socket: the new one needs one of its own (SO_REUSEPORT; nginx: listen ... reuseport)");
	return cli_fail(job->cli, "process %d listens on no address of process %d (both need SO_REUSEPORT; nginx: listen ... reuseport)",
			job->new.pid, job->old.pid);
}

static bool same_service(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	char x[64], y[64];

	return a->ss_family == b->ss_family && address_port(a) == address_port(b) &&
	       !strcmp(address_text(a, x, sizeof(x)), address_text(b, y, sizeof(y)));
}

static bool have_common(const struct job *job)
{
	unsigned int i, k;

	for (i = 0; i < job->olds.nr; i++)
		for (k = 0; k < job->news.nr; k++)
			if (!has(&job->olds, job->news.of[k].inode) &&
			    same_service(&job->olds.of[i].local, &job->news.of[k].local))
				return true;
	return false;
}

/* The old process may have closed its listeners: then its connections say whether there is a service. */
static int run(struct job *job)
{
	int status, err;

	status = open_move(job);
	if (!status)
		status = find_listeners(job);
	if (status)
		return status;
	if (!have_common(job) && (job->shared || job->olds.nr))
		return nothing_common(job);
	if (job->dry_run) {
		err = look(job);
		if (err)
			return no_rights(job, &job->old, err);
		print_counted(job);
		return CLI_OK;
	}
	status = hide_old(job);
	if (status)
		return status;
	let_go(&job->olds);
	let_go(&job->news);
	err = follow(job);
	if (err && err != -ECONNREFUSED)
		return no_rights(job, &job->old, err);
	if (!left(job) && err != -ECONNREFUSED)
		ioctl(job->move, HOF_MOVE_KEEP);
	if (job->cli->json)
		print_json(job);
	else
		print_text(job);
	if (err == -ECONNREFUSED)
		return cli_fail(job->cli, "process %d does not listen any more; the rest stays with process %d",
				job->new.pid, job->old.pid);
	return left(job) ? CLI_FAILED : CLI_OK;
}

static int parse(struct job *job, int argc, char **argv, uint64_t pids[2])
{
	struct cli *cli = job->cli;
	int i, nr = 0, status = 0;

	for (i = 0; i < argc && !status; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--dry-run"))
			job->dry_run = true;
		else if (!strcmp(argv[i], "--no-tree"))
			job->tree = false;
		else if (!strcmp(argv[i], "--idle") && more)
			status = value_number(cli, "--idle", argv[++i], 10, 86400000, &job->idle_ms);
		else if (!strcmp(argv[i], "--wait") && more) {
			status = value_number(cli, "--wait", argv[++i], 0, 86400, &job->wait_ms);
			job->wait_ms *= 1000;
		} else if (!strcmp(argv[i], "--idle") || !strcmp(argv[i], "--wait"))
			status = cli_usage(cli, "%s needs a number", argv[i]);
		else if (nr < 2 && argv[i][0] != '-')
			status = value_number(cli, "process", argv[i], 1, INT32_MAX, &pids[nr++]);
		else
			status = cli_unknown(cli, argv[i]);
	}
	if (!status && nr < 2)
		status = cli_usage(cli, "the numbers of the old and the new process are missing");
	if (!status && pids[0] == pids[1])
		status = cli_usage(cli, "the old and the new process are the same");
	return status;
}

static int process_move(struct cli *cli, int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stop }, before[2];
	struct job *job = calloc(1, sizeof(*job));
	uint64_t pids[2];
	int status;

	cli_doing(cli, "move connections");
	if (!job)
		return cli_fail(cli, "no memory");
	job->cli = cli;
	job->move = job->old.pidfd = job->new.pidfd = -1;
	job->wait_ms = NEVER;
	job->tree = true;
	status = parse(job, argc, argv, pids);
	if (status)
		goto out;
	if (process_open(&job->old, pids[0], job->tree) || process_open(&job->new, pids[1], job->tree)) {
		status = cli_fail(cli, "there is no process %d",
				  job->old.pidfd < 0 ? job->old.pid : job->new.pid);
		goto out;
	}
	/* A server that starts its successor itself. */
	job->old.but = job->new.pid;
	job->new.but = job->old.pid;
	sigaction(SIGINT, &action, &before[0]);
	sigaction(SIGTERM, &action, &before[1]);
	status = run(job);
	sigaction(SIGINT, &before[0], NULL);
	sigaction(SIGTERM, &before[1], NULL);
out:
	let_go(&job->olds);
	let_go(&job->news);
	if (job->move >= 0)
		close(job->move);
	process_close(&job->old);
	process_close(&job->new);
	tdestroy(job->known, free);
	free(job);
	return status;
}

static const struct command commands[] = {
	{ "move", NULL, process_move,
	  "move OLDPID NEWPID [--idle MS] [--wait SECONDS] [--dry-run] [--no-tree]",
	  "Move the established connections of a server to its successor, while clients use them" },
	{ 0 }
};

const struct object process_object = {
	"process", "servers of this machine that are replaced", commands, false,
	"Both processes listen on the same address (SO_REUSEPORT; nginx: listen ... reuseport). New clients come\n"
	"to the new one from here on. A connection moves before its first request, or with the next one after an\n"
	"answer; an answer under way is ended by the old process first. --idle MS moves those, too, on which\n"
	"nothing has happened for so long after an answer: also WebSockets, and answers that pause.\n"
	"It ends when the old process has none left, or --wait SECONDS are over; then those that are left stay\n"
	"where they are, and the exit status is 1. Descendants of both processes count unless --no-tree.\n",
};
