// SPDX-License-Identifier: GPL-2.0
/* flotilla process: the connections of a process, followed while they move away (flotilla/move.h). */
#include <errno.h>
#include <flotilla/handoff.h>
#include <netinet/in.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "follow.h"
#include "handoff.h"
#include "process_job.h"

/* Between two looks at the old process's descriptors. */
#define LOOK_MS		50
/* Between two lines that say how far it is. */
#define SAY_MS		1000

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

bool job_has(const struct listeners *list, uint64_t inode)
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

	if (job_has(list, inode))
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

void job_let_go(struct listeners *list)
{
	unsigned int i;

	for (i = 0; i < list->nr; i++) {
		if (list->of[i].fd >= 0)
			close(list->of[i].fd);
		list->of[i].fd = -1;
	}
}

int job_no_rights(struct job *job, const struct process *p, int err)
{
	if (err == -ESRCH)
		return cli_fail(job->cli, "there is no process %d any more", p->pid);
	if (err == -EPERM || err == -EACCES)
		return cli_fail(job->cli, "no right to the descriptors of process %d (root, or CAP_SYS_PTRACE)",
				p->pid);
	return cli_fail(job->cli, "the descriptors of process %d: %s", p->pid, strerror(-err));
}

int job_listeners(struct job *job, const struct process *p, struct listeners *list)
{
	int err = process_sockets(p, collect_listener, list);

	return err ? job_no_rights(job, p, err) : CLI_OK;
}

/* What the kernel says of a descriptor that is given. */
int job_refused(struct job *job, const char *what)
{
	if (errno == EXDEV)
		return cli_fail(job->cli, "%s is in another network namespace than this command", what);
	if (errno == EBUSY)
		return cli_fail(job->cli, "%s is in another move, which has to end first", what);
	return cli_fail(job->cli, "%s: %s", what, strerror(errno));
}

int job_open(struct job *job)
{
	struct hof_move_start start = { .size = sizeof(start), .idle_ms = job->idle_ms };
	int device = follow_device(job->cli), err;

	if (device < 0)
		return CLI_FAILED;
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

int job_hide(struct job *job)
{
	unsigned int i;

	for (i = 0; i < job->olds.nr; i++)
		if (ioctl(job->move, HOF_MOVE_FROM, job->olds.of[i].fd) && errno != EADDRNOTAVAIL &&
		    errno != EOPNOTSUPP && errno != EEXIST)
			return job_refused(job, "a listener of the old process");
	return CLI_OK;
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

unsigned int job_left(const struct job *job)
{
	return job->status.waiting + job->status.busy + job->status.stuck + job->status.queued +
	       job->taken + job->fixed + job->held;
}

/* One look, 0 or a negative errno. Of a process that has gone the kernel has what others may hold yet. */
static int job_look(struct job *job)
{
	int err;

	job->fresh = job->taken = job->fixed = job->held = 0;
	err = job->gone ? 0 : process_sockets(&job->old, see_socket, job);
	if (err == -ESRCH) {
		job->gone = true;
		err = 0;
	}
	if (!job->dry_run && (ioctl(job->move, HOF_MOVE_STATUS, &job->status) ||
			      (job->drains && ioctl(job->move, HOF_MOVE_PASSED, &job->passed))))
		return -errno;
	return err;
}

int job_count(struct job *job, void (*print)(const struct job *job))
{
	int err = job_look(job);

	if (err)
		return job_no_rights(job, &job->old, err);
	print(job);
	return CLI_OK;
}

static void say(const struct job *job)
{
	const struct hof_move_status *s = &job->status;

	if (follow_is_watched(job->cli))
		fprintf(stderr, "moved %llu, between requests %u, busy %u, cannot move %u\n",
			(unsigned long long)s->moved, s->waiting, s->busy + s->queued,
			s->stuck + job->fixed);
}

/* Nothing of it can move any more by waiting. */
static bool is_hopeless(const struct job *job)
{
	return !job->fresh && !job->held && !job->status.waiting && !job->status.busy && !job->status.queued &&
	       !job->passed.through;
}

/* Until none is left, the time is over, or it makes no sense. 0 or a negative errno. */
int job_follow(struct job *job)
{
	struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };
	uint64_t begin = follow_now_ms(), said = begin;
	int err;

	for (;;) {
		err = job_look(job);
		if (err || follow_is_stopped() || is_hopeless(job) ||
		    (job->wait_ms != NEVER && follow_now_ms() - begin >= job->wait_ms))
			return err;
		/* A node's link may come again. */
		if (!job->drains && (!job->status.listeners || process_is_gone(&job->new)))
			return -ECONNREFUSED;
		if (follow_now_ms() - said >= SAY_MS) {
			say(job);
			said = follow_now_ms();
		}
		nanosleep(&pause, NULL);
	}
}

int job_json(const struct job *job, json_t *row)
{
	const struct hof_move_status *s = &job->status;

	return json_object_update_new(row, json_pack(
		"{s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o}",
		"moved", (json_int_t)s->moved, "ended", (json_int_t)s->ended,
		"left", job_left(job), "waiting", s->waiting, "busy", s->busy,
		"queued", s->queued, "stuck", s->stuck, "unsupported", job->fixed,
		"other_move", job->taken, "held", job->held,
		"stuck_by", follow_reasons(s->stuck_by), "put_off", follow_reasons(s->refused)));
}

void job_print_left(const struct job *job)
{
	const struct hof_move_status *s = &job->status;
	unsigned int i;
	char text[80];

	if (s->ended)
		printf(", %llu ended", (unsigned long long)s->ended);
	printf(", %u left\n", job_left(job));
	follow_print(s->waiting, "between requests; they move with the next one (or by --idle)");
	follow_print(s->busy, "with a request or an answer under way");
	follow_print(s->queued, "not accepted yet by the old process");
	follow_print(job->fixed, "cannot move: kTLS, a sockmap, or another user in the kernel");
	follow_print(job->taken, "in another move");
	follow_print(job->held, "whose program is in a call on it");
	for (i = 1; i < HOF_MOVE_REASONS; i++) {
		snprintf(text, sizeof(text), "cannot move: %s", handoff_refusal_name(i));
		follow_print(s->stuck_by[i], text);
	}
}

int job_option(struct job *job, int argc, char **argv, int *at)
{
	const char *word = argv[*at];
	struct cli *cli = job->cli;

	if (!strcmp(word, "--dry-run")) {
		job->dry_run = true;
		return CLI_OK;
	}
	if (!strcmp(word, "--no-tree")) {
		job->tree = false;
		return CLI_OK;
	}
	if (strcmp(word, "--idle") && strcmp(word, "--wait"))
		return cli_unknown(cli, word);
	if (++*at >= argc)
		return cli_usage(cli, "%s needs a number", word);
	if (!strcmp(word, "--idle"))
		return value_number(cli, word, argv[*at], 10, 86400000, &job->idle_ms);
	return follow_wait(cli, argv[*at], &job->wait_ms);
}

struct job *job_begin(struct cli *cli)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job) {
		cli_fail(cli, "no memory");
		return NULL;
	}
	job->cli = cli;
	job->move = job->old.pidfd = job->new.pidfd = -1;
	job->wait_ms = NEVER;
	job->tree = true;
	return job;
}

int job_run(struct job *job, int (*run)(struct job *job))
{
	struct follow follow;
	int status;

	follow_begin(&follow);
	status = run(job);
	follow_end(&follow);
	return status;
}

void job_end(struct job *job)
{
	job_let_go(&job->olds);
	job_let_go(&job->news);
	if (job->move >= 0)
		close(job->move);
	process_close(&job->old);
	process_close(&job->new);
	tdestroy(job->known, free);
	free(job);
}

