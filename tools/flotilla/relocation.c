// SPDX-License-Identifier: GPL-2.0
/* A node is asked to hand connections on, again and again until none is left. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "handoff.h"
#include "relocation.h"

/* Between two questions; longer than the node takes to count again. */
#define ASK_MS		200
/* Connections are named so often: some may have come, or be of those that could not be taken before. */
#define NAME_MS		2000
/* One that the node does not know has ended just now, or it never will. */
#define UNKNOWN_MAX	3
/* For an answer. */
#define ANSWER_MS	2000
/* The last ones may be forwarded elsewhere before the node has counted them. */
#define SETTLE_MS	2000
/* Between two lines that say how far it is. */
#define SAY_MS		1000
/* What --now means: a server that is silent for so long after the client has all of it has answered. */
#define NOW_MS		1000

void relocation_begin(struct relocation *re, struct cli *cli)
{
	memset(re, 0, sizeof(*re));
	re->cli = cli;
	re->wait_ms = NEVER;
	re->device = -1;
	re->r.size = sizeof(re->r);
	re->r.timeout_ms = ANSWER_MS;
}

int relocation_to(struct relocation *re, char *text)
{
	char *name, *rest = NULL;
	int status = CLI_OK;

	for (name = strtok_r(text, ",", &rest); name && !status; name = strtok_r(NULL, ",", &rest)) {
		if (re->r.nr_to == HOF_MOVE_NODES)
			return cli_usage(re->cli, "more than %u nodes", HOF_MOVE_NODES);
		status = value_name(re->cli, name, re->to[re->r.nr_to++]);
	}
	return status;
}

int relocation_option(struct relocation *re, int argc, char **argv, int *at)
{
	const char *word = argv[*at];
	uint64_t idle_ms;
	int status;

	if (!strcmp(word, "--now")) {
		re->r.idle_ms = NOW_MS;
		return CLI_OK;
	}
	if (strcmp(word, "--idle") && strcmp(word, "--wait"))
		return cli_unknown(re->cli, word);
	if (++*at >= argc)
		return cli_usage(re->cli, "%s needs a number", word);
	if (!strcmp(word, "--wait"))
		return follow_wait(re->cli, argv[*at], &re->wait_ms);
	status = value_number(re->cli, word, argv[*at], 10, 86400000, &idle_ms);
	re->r.idle_ms = status ? 0 : idle_ms;
	return status;
}

static int see_named(const struct flt_node_info *node, void *arg)
{
	struct relocation *re = arg;
	unsigned int i;

	if (!strcmp(re->from, node->name))
		re->r.node = node->id;
	for (i = 0; i < re->r.nr_to; i++)
		if (!strcmp(re->to[i], node->name))
			re->r.to[i] = node->id;
	return 0;
}

/* Who gets new connections gets these. */
static int see_all(const struct flt_node_info *node, void *arg)
{
	struct relocation *re = arg;

	if (node->id == re->r.node || node->role != FLT_ROLE_BACKEND || node->admin != FLT_ADMIN_ACTIVE ||
	    node->state != FLT_NODE_UP || !node->weight || re->r.nr_to == HOF_MOVE_NODES)
		return 0;
	snprintf(re->to[re->r.nr_to], FLT_NAME_MAX, "%s", node->name);
	re->r.to[re->r.nr_to++] = node->id;
	return 0;
}

int relocation_nodes(struct relocation *re)
{
	struct flt_client *client = cli_client(re->cli);
	unsigned int i;
	int status;

	if (!client)
		return CLI_FAILED;
	status = cli_result(re->cli, flt_node_each(client, see_named, re));
	if (!status && !re->r.node)
		return cli_fail(re->cli, "there is no node %s", re->from);
	for (i = 0; !status && i < re->r.nr_to; i++) {
		if (!re->r.to[i])
			return cli_fail(re->cli, "there is no node %s", re->to[i]);
		if (re->r.to[i] == re->r.node)
			return cli_fail(re->cli, "%s itself cannot get them", re->from);
	}
	if (!status && !re->r.nr_to)
		status = cli_result(re->cli, flt_node_each(client, see_all, re));
	if (!status && !re->r.nr_to)
		return cli_fail(re->cli, "no other back-end is up and active");
	return status;
}

uint64_t relocation_moved(const struct relocation *re)
{
	return re->moved + re->r.moved;
}

int relocation_failed(struct cli *cli, int err)
{
	switch (err) {
	case EPERM:
		return cli_fail(cli, "that needs CAP_NET_ADMIN");
	case ENOTTY:
		return cli_fail(cli, "the loaded handoff.ko is too old for this");
	case ENOENT:
		return cli_fail(cli, "a node has been deleted");
	default:
		return cli_fail(cli, "%s", strerror(err));
	}
}

const char *relocation_hopeless(uint32_t refusal)
{
	switch (refusal) {
	case FLT_REFUSE_VERSION:
		return "it cannot be asked to move connections, its version is too old (process drain, there)";
	case FLT_REFUSE_INSECURE:
		return "its link is not authenticated (node set NAME auth psk, or local set insecure on)";
	case FLT_REFUSE_ROLE:
		return "this node is no front-end there (node set NAME role frontend)";
	case FLT_REFUSE_POLICY:
		return "it is told not to (net.flotilla.relocate)";
	case FLT_REFUSE_NONODE:
		return "it knows none of the nodes that should get them";
	case FLT_REFUSE_FULL:
		return "others are asking it for too much already";
	default:
		return NULL;
	}
}

/* One question. 0 or an errno. */
static int ask(struct relocation *re, uint32_t flags)
{
	uint64_t moved = re->r.moved, ended = re->r.ended;

	re->r.flags = flags;
	re->r.pad = 0;
	if (ioctl(re->device, HOF_IOC_RELOCATE, &re->r))
		return errno;
	if (!re->r.answered) {
		re->r.moved = moved;
		re->r.ended = ended;
	} else if (re->r.moved < moved || re->r.ended < ended) {
		re->moved += moved;
		re->ended += ended;
	}
	return 0;
}

static uint32_t run_has(const struct hof_relocate *r)
{
	return r->waiting + r->busy + r->stuck;
}

static int ask_next(struct relocation *re)
{
	uint64_t now = follow_now_ms();
	bool names = !re->named_ms || now - re->named_ms >= NAME_MS;
	int err = ask(re, names ? HOF_RELOCATE_NAME : 0);

	/* A node that does not answer, or has forgotten the run, hears them all again. */
	if (!err && names && re->r.answered) {
		re->named_ms = now;
		re->others = re->r.had + re->r.begun > run_has(&re->r) ?
			     re->r.had + re->r.begun - run_has(&re->r) : 0;
	}
	if (!err && !re->r.answered)
		re->named_ms = 0;
	return err;
}

/* Nothing of it can move any more by waiting. */
static bool is_stuck(struct relocation *re)
{
	const struct hof_relocate *r = &re->r;

	/* Said with the names only. */
	if (!r->answered || !(r->flags & HOF_RELOCATE_NAME))
		return false;
	/* What is being given to it just now can be named next time. */
	if (r->left > r->named || r->begun || r->queued || r->held || r->waiting || r->busy || r->through ||
	    re->others)
		re->unknown = 0;
	else if (!r->absent || ++re->unknown == UNKNOWN_MAX)
		return true;
	return false;
}

static void say(const struct relocation *re)
{
	const struct hof_relocate *r = &re->r;

	if (!follow_is_watched(re->cli))
		return;
	fprintf(stderr, "%s: moved %llu, between requests %u, busy %u, cannot move %u, left %u%s\n", re->from,
		(unsigned long long)relocation_moved(re), r->waiting, r->busy, r->stuck + r->fixed, r->left,
		r->answered ? "" : " (no answer)");
}

/* Which of the nodes it does not know. */
static void warn_unknown(const struct relocation *re)
{
	char text[128];
	unsigned int i;

	for (i = 0; i < re->r.nr_to; i++) {
		if (re->r.known & 1U << i)
			continue;
		snprintf(text, sizeof(text), "%s does not know %s, which gets none", re->from, re->to[i]);
		cli_warn(re->cli, text);
	}
}

/* None is left, and the node says so, too. */
static bool is_done(struct relocation *re)
{
	const struct hof_relocate *r = &re->r;

	if (!r->answered || r->left)
		return false;
	if (!re->done_ms)
		re->done_ms = follow_now_ms();
	return !(r->waiting + r->busy + r->through) || follow_now_ms() - re->done_ms >= SETTLE_MS;
}

/* An exit status; -1: it goes on. */
static int judge(struct relocation *re, bool first)
{
	const char *why = re->r.refusal ? relocation_hopeless(re->r.refusal) : NULL;

	if (why)
		return cli_fail(re->cli, "%s: %s", re->from, why);
	if (first && re->r.refusal == FLT_REFUSE_NODEDOWN)
		return cli_fail(re->cli, "there is no link to %s", re->from);
	/* Lost with it, or moved by then: for its link to come back there is no reason to wait. */
	if (re->r.refusal == FLT_REFUSE_NODEDOWN && !re->r.left)
		return cli_fail(re->cli, "%s is down, and none of the connections that it was given is left", re->from);
	if (is_done(re))
		return CLI_OK;
	if (!follow_is_stopped() && !is_stuck(re) &&
	    (re->wait_ms == NEVER || follow_now_ms() - re->begun_ms < re->wait_ms))
		return -1;
	if (!re->r.answered)
		cli_fail(re->cli, re->r.refusal == FLT_REFUSE_NODEDOWN ? "there is no link to %s any more" :
			 "%s does not answer", re->from);
	return CLI_FAILED;
}

static int ask_until_over(struct relocation *re)
{
	struct timespec pause = { .tv_nsec = ASK_MS * 1000000L };
	uint64_t said = follow_now_ms();
	int err, status;
	bool first;

	for (first = true; ; first = false) {
		err = ask_next(re);
		if (err && err != EINTR)
			return relocation_failed(re->cli, err);
		status = err ? -1 : judge(re, first);
		if (first && re->r.answered && !re->r.refusal)
			warn_unknown(re);
		if (status >= 0)
			return status;
		if (err && follow_is_stopped())
			return CLI_FAILED;
		if (follow_now_ms() - said >= SAY_MS) {
			say(re);
			said = follow_now_ms();
		}
		nanosleep(&pause, NULL);
	}
}

/* The node is told that it is over; what was found stays as it is. */
static void end_run(const struct relocation *re)
{
	struct hof_relocate over = re->r;

	over.flags = HOF_RELOCATE_END;
	over.pad = 0;
	if (over.run)
		(void)ioctl(re->device, HOF_IOC_RELOCATE, &over);
}

int relocation_run(struct relocation *re)
{
	struct follow follow;
	int status;

	re->device = follow_device(re->cli);
	if (re->device < 0)
		return CLI_FAILED;
	re->begun_ms = follow_now_ms();
	follow_begin(&follow);
	status = ask_until_over(re);
	follow_end(&follow);
	end_run(re);
	close(re->device);
	re->device = -1;
	return status;
}

json_t *relocation_targets(const struct relocation *re)
{
	json_t *all = json_array();
	unsigned int i;

	for (i = 0; i < re->r.nr_to; i++)
		json_array_append_new(all, json_string(re->to[i]));
	return all;
}

json_t *relocation_json(const struct relocation *re)
{
	const struct hof_relocate *r = &re->r;

	return json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:o, s:o}",
			 "node", re->from, "to", relocation_targets(re),
			 "moved", (json_int_t)relocation_moved(re),
			 "ended", (json_int_t)(re->ended + r->ended), "left", (json_int_t)r->left,
			 "waiting", (json_int_t)r->waiting, "busy", (json_int_t)r->busy,
			 "stuck", (json_int_t)r->stuck, "unsupported", (json_int_t)r->fixed,
			 "queued", (json_int_t)r->queued, "held", (json_int_t)r->held,
			 "through", (json_int_t)r->through, "absent", (json_int_t)r->absent, "other_move", (json_int_t)re->others,
			 "refusal", handoff_refusal_name(r->refusal),
			 "stuck_by", follow_reasons(r->stuck_by), "put_off", follow_reasons(r->put_off));
}

const char *relocation_refused(uint32_t why)
{
	switch (why) {
	case FLT_REFUSE_NOLISTENER:
		return "nobody listens there on the service's address";
	case FLT_REFUSE_FULL:
		return "the server's queue there is full";
	case FLT_REFUSE_ROLE:
		return "the node that has them is no front-end there (node set NAME role frontend)";
	case FLT_REFUSE_SERVICE:
		return "the service is not listed there (service add)";
	case FLT_REFUSE_NOTLOCAL:
		return "the service's address is not on its lo";
	case FLT_REFUSE_INSECURE:
		return "the link between the two is not authenticated";
	case FLT_REFUSE_NODEDOWN:
		return "no link between the two";
	case FLT_REFUSE_TIMEOUT:
		return "it does not answer in time";
	case FLT_REFUSE_ULP:
		return "the server uses kTLS";
	default:
		return NULL;
	}
}

static void print_reasons(const __u32 counts[HOF_MOVE_REASONS], unsigned int from, const char *what)
{
	char text[160];
	unsigned int i;

	for (i = from; i < HOF_MOVE_REASONS; i++) {
		const char *more = relocation_refused(i);

		snprintf(text, sizeof(text), "%s: %s%s%s", what, handoff_refusal_name(i), more ? ", " : "",
			 more ? more : "");
		follow_print(counts[i], text);
	}
}

void relocation_print_left(const struct relocation *re)
{
	const struct hof_relocate *r = &re->r;

	follow_print(r->waiting, "between requests; they move with the next one (or by --now)");
	follow_print(r->busy, "with a request or an answer under way; they move with the request after it");
	follow_print(r->queued, "not accepted yet by a server there");
	follow_print(r->held, "whose program is in a call on it");
	follow_print(r->fixed, "cannot move: kTLS, a sockmap, or another user in the kernel");
	follow_print(re->others, "in another move there");
	follow_print(r->absent, "that the node does not know as of here: ended just now, taken over by another front-end, or "
		     "its handoff.ko was loaded anew");
	follow_print(r->through, "moved; their packets still go by the node, since who has them knows no claims");
	print_reasons(r->stuck_by, 1, "cannot move");
	print_reasons(r->put_off, FLT_REFUSE_NOLISTENER, "times put off");
}
