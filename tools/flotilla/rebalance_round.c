// SPDX-License-Identifier: GPL-2.0
/*
 * flotilla rebalance: the moves of a plan are asked for. Each pair of nodes is a run of flotilla/relocate.h with one node
 * that gets them, for which the connections are named one by one, so that no others move and no more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include "rebalance.h"
#include "relocation.h"

/* For an answer; a node that is silent for so long in all is left out. */
#define ANSWER_MS	1000
#define SILENT_MS	5000
#define ASK_MS		200
/* A node lets one front-end ask for four things at once: others may want to. */
#define STEPS_OF_NODE	2
/* Named in one turn, and for so long, so that each step has its turn; and named without having moved: the node
   looks at each. A node ends a run that it does not hear of for 5 s. */
#define NAME_AT_ONCE	32
#define TURN_MS		500
#define NAMED_MAX	256
/* A pair of which nothing comes but refusals. */
#define REFUSED_MS	2000
#define REFUSALS_MIN	2
/* Loads are looked at again after so long. */
#define ROUND_MS	10000
/* Front-ends have heard of what has moved. */
#define SETTLE_MS	2000
#define ENDED_MS	400

/**
 * struct step - a run
 * @pair:  index
 * @moves: of the plan, @nr; @next is to be named
 * @r:     the kernel's
 * @begun: of those named, how many it has taken
 * @moved, @ended: of the node's runs before this one, when it has begun anew
 * @counted: how many of those that moved are in the pair's sum
 * @progress_ms: when something has moved or was named
 * @refusals: up to then
 * @done_ms: since when nothing more is to come
 * @over:  nothing more is asked
 * @late:  and yet some of it may move: the node has not heard so
 */
struct step {
	size_t pair;
	const struct reb_move *moves;
	size_t nr, next;
	struct hof_relocate r;
	uint64_t begun, moved, ended, counted, progress_ms, refusals, done_ms;
	bool open, over, late;
};

static struct reb_node *giver(struct rebalance *r, const struct step *s)
{
	return &r->nodes[r->pairs[s->pair].from];
}

static struct reb_node *taker(struct rebalance *r, const struct step *s)
{
	return &r->nodes[r->pairs[s->pair].to];
}

/* Times that the taker has refused one. */
static uint64_t refusals(const struct hof_relocate *r, uint16_t *why)
{
	uint64_t sum = 0, most = 0;
	unsigned int i;

	for (i = FLT_REFUSE_NOLISTENER; i < HOF_MOVE_REASONS; i++) {
		uint64_t nr = (uint64_t)r->put_off[i] + r->stuck_by[i];

		sum += nr;
		if (nr > most && why)
			*why = i;
		most = nr > most ? nr : most;
	}
	return sum;
}

static uint32_t stuck_by_taker(const struct hof_relocate *r)
{
	uint32_t sum = 0;
	unsigned int i;

	for (i = FLT_REFUSE_NOLISTENER; i < HOF_MOVE_REASONS; i++)
		sum += r->stuck_by[i];
	return sum;
}

static void bar(struct rebalance *r, struct step *s, uint16_t why)
{
	*rebalance_barred(r, r->pairs[s->pair].from, r->pairs[s->pair].to) = why;
	s->over = true;
}

/* It has said nothing to the question. */
static void not_answered(struct rebalance *r, struct step *s)
{
	struct reb_node *node = giver(r, s);
	const char *why = relocation_hopeless(s->r.refusal);

	if (why) {
		rebalance_leave_out(node, REFUSES, why);
		s->over = true;
		return;
	}
	if (!node->silent_ms)
		node->silent_ms = follow_now_ms();
	if (s->r.refusal == FLT_REFUSE_NODEDOWN)
		s->over = true;		/* whether it is lost, the next look says */
	if (follow_now_ms() - node->silent_ms < SILENT_MS)
		return;
	if (s->r.refusal != FLT_REFUSE_NODEDOWN)
		rebalance_leave_out(node, REFUSES, "it does not answer");
	s->over = true;
}

/* No more than it was asked for: numbers of another machine. */
static uint64_t believed(const struct step *s, uint64_t nr)
{
	return nr < s->begun ? nr : s->begun;
}

/* Those that were named and are of no more concern to it. */
static uint64_t settled(const struct step *s)
{
	return s->moved + believed(s, s->r.moved) + s->ended + believed(s, s->r.ended);
}

static void count_moved(struct rebalance *r, struct step *s)
{
	uint64_t moved = believed(s, s->moved + believed(s, s->r.moved));

	if (moved <= s->counted)
		return;
	rebalance_count(r, &r->pairs[s->pair], moved - s->counted);
	s->counted = moved;
	s->progress_ms = follow_now_ms();
	s->refusals = refusals(&s->r, NULL);
}

/* Once it has answered: does it make sense to go on? */
static void judge(struct rebalance *r, struct step *s)
{
	const struct hof_relocate *run = &s->r;
	const char *why = relocation_hopeless(run->refusal);
	uint16_t code = run->up & 1 ? FLT_REFUSE_TIMEOUT : FLT_REFUSE_NODEDOWN;
	uint64_t now = follow_now_ms(), nr = refusals(run, &code);

	if (run->refusal == FLT_REFUSE_NONODE) {
		bar(r, s, FLT_REFUSE_NONODE);
	} else if (run->refusal) {
		rebalance_leave_out(giver(r, s), REFUSES, why ? why : "it refuses");
		s->over = true;
	} else if (stuck_by_taker(run) && !s->counted) {
		bar(r, s, code);
	} else if (now - s->progress_ms >= REFUSED_MS && (!(run->up & 1) || nr >= s->refusals + REFUSALS_MIN)) {
		bar(r, s, code);
	} else if (s->next == s->nr && !run->waiting && !run->busy) {
		if (!s->done_ms)
			s->done_ms = now;
		/* It forwards them until it has heard that others do. */
		if (run->through && now - s->done_ms < SETTLE_MS)
			return;
		if (run->through)
			bar(r, s, BARRED_THROUGH);
		s->over = true;
	}
}

/* One question. 0 or an errno. */
static int ask(struct rebalance *r, struct step *s, size_t conn, uint32_t flags)
{
	uint64_t moved = s->r.moved, ended = s->r.ended;

	s->r.flags = flags;
	s->r.pad = 0;
	s->r.tuple = r->conns[s->moves[conn].conn].tuple;
	s->open = true;
	if (ioctl(r->device, HOF_IOC_RELOCATE, &s->r))
		return errno;
	if (!s->r.answered) {
		s->r.moved = moved;
		s->r.ended = ended;
		not_answered(r, s);
		return 0;
	}
	giver(r, s)->silent_ms = 0;
	if (s->r.moved < moved || s->r.ended < ended) {
		s->moved += believed(s, moved);
		s->ended += believed(s, ended);
	}
	count_moved(r, s);
	r->pairs[s->pair].last = s->r;
	return 0;
}

/* What it says of the one that was named. */
static void note_named(struct rebalance *r, struct step *s)
{
	struct reb_conn *conn = &r->conns[s->moves[s->next].conn];

	conn->fixed = s->r.fixed || (s->r.absent && conn->tries + 1 >= UNKNOWN_MAX);
	conn->named_to = s->moves[s->next].to;
	s->begun += s->r.begun > 0;
	s->next++;
	s->progress_ms = follow_now_ms();
	s->refusals = refusals(&s->r, NULL);
}

static bool may_name(const struct step *s)
{
	return s->next < s->nr && s->begun < settled(s) + NAMED_MAX;
}

static int name_some(struct rebalance *r, struct step *s)
{
	uint64_t begun = follow_now_ms();
	unsigned int i;
	int err = 0;

	for (i = 0; i < NAME_AT_ONCE && may_name(s) && !s->over && !rebalance_is_over(r) &&
	     follow_now_ms() - begun < TURN_MS; i++) {
		err = ask(r, s, s->next, HOF_RELOCATE_NAME);
		if (err || !s->r.answered)
			break;
		if (!s->r.refusal)
			note_named(r, s);
		/* It may have moved at once: one more is believed now. */
		count_moved(r, s);
		judge(r, s);
	}
	return err;
}

static int turn(struct rebalance *r, struct step *s)
{
	int err;

	if (may_name(s))
		return name_some(r, s);
	err = ask(r, s, 0, 0);
	if (!err && s->r.answered)
		judge(r, s);
	return err;
}

/* The node is told; those that have not moved are not the first to be named the next time. */
static void end(struct rebalance *r, struct step *s)
{
	struct reb_pair *pair = &r->pairs[s->pair];
	struct hof_relocate over = s->r;
	bool stuck = s->next == s->nr && !s->counted && s->r.answered && s->r.stuck && !s->r.waiting && !s->r.busy &&
		     !stuck_by_taker(&s->r);
	size_t i;

	over.flags = HOF_RELOCATE_END;
	over.pad = 0;
	if (s->open && over.run)
		(void)ioctl(r->device, HOF_IOC_RELOCATE, &over);
	for (i = 0; i < s->next; i++) {
		struct reb_conn *conn = &r->conns[s->moves[i].conn];

		conn->tries += conn->tries < UINT16_MAX;
		conn->fixed |= stuck;
	}
	s->late = s->open && s->begun > settled(s);
	/* It has begun with some, and then it has none of them and none has moved. */
	pair->forgot = s->done_ms && s->begun > settled(s) + s->r.stuck && !s->counted ? pair->forgot + 1 : 0;
	if (pair->forgot == UNKNOWN_MAX)
		bar(r, s, BARRED_FORGOT);
	pair->named = s->done_ms && !s->late ? s->next : 0;
	pair->said = s->counted;
	giver(r, s)->steps -= s->open;
	s->open = false;
	s->over = true;
}

static void prepare(struct rebalance *r, struct step *s)
{
	s->r = (struct hof_relocate){ .size = sizeof(s->r), .node = giver(r, s)->id, .idle_ms = r->idle_ms,
				      .timeout_ms = ANSWER_MS, .nr_to = 1, .to = { taker(r, s)->id } };
	s->progress_ms = follow_now_ms();
}

/* The moves of a pair are a step. NULL: out of memory. */
static struct step *make_steps(struct rebalance *r, size_t *nr)
{
	struct step *steps = calloc(r->nr_moves + 1, sizeof(*steps));
	size_t i;

	*nr = 0;
	for (i = 0; steps && i < r->nr_moves; i++) {
		struct reb_pair *pair = rebalance_pair(r, r->conns[r->moves[i].conn].node, r->moves[i].to);
		size_t at = pair - r->pairs;

		if (!*nr || steps[*nr - 1].pair != at)
			steps[(*nr)++] = (struct step){ .pair = at, .moves = &r->moves[i] };
		steps[*nr - 1].nr++;
	}
	return steps;
}

static bool may_begin(struct rebalance *r, const struct step *s)
{
	return giver(r, s)->steps < STEPS_OF_NODE;
}

/* Each that has begun has a turn; one that has nothing to come makes room. Is there one that may still do something? */
static int turns(struct rebalance *r, struct step *steps, size_t nr, bool *more)
{
	size_t i;
	int err = 0;

	for (i = 0, *more = false; i < nr && !err && !rebalance_is_over(r); i++) {
		struct step *s = &steps[i];

		if (s->over)
			continue;
		if (!s->open && giver(r, s)->out == COUNTS && may_begin(r, s)) {
			prepare(r, s);
			giver(r, s)->steps++;
			s->open = true;
		}
		if (giver(r, s)->out != COUNTS)
			end(r, s);
		else if (s->open)
			err = turn(r, s);
		if (s->open && s->over)
			end(r, s);
		*more |= s->open && follow_now_ms() - s->progress_ms < r->patience_ms;
		*more |= !s->open && !s->over && may_begin(r, s);
	}
	return err == EINTR || err == ENOENT ? 0 : err;
}

static void say(const struct rebalance *r, const struct step *steps, size_t nr)
{
	unsigned long long waiting = 0, busy = 0;

	for (; nr--; steps++) {
		waiting += steps->open ? steps->r.waiting : 0;
		busy += steps->open ? steps->r.busy : 0;
	}
	fprintf(stderr, "moved %llu, between requests %llu, busy %llu\n", (unsigned long long)r->moved, waiting, busy);
}

static int ask_until_over(struct rebalance *r, struct step *steps, size_t nr)
{
	uint64_t begun = follow_now_ms(), said = begun;
	bool more = true;
	int err = 0;

	while (more && !err && !rebalance_is_over(r) && follow_now_ms() - begun < ROUND_MS + r->patience_ms) {
		err = turns(r, steps, nr, &more);
		if (follow_is_watched(r->cli) && follow_now_ms() - said >= 1000) {
			say(r, steps, nr);
			said = follow_now_ms();
		}
		if (more && !err)
			rebalance_sleep(ASK_MS);
	}
	return err;
}

int rebalance_round(struct rebalance *r)
{
	bool late = false;
	size_t nr, i;
	struct step *steps = make_steps(r, &nr);
	int err;

	if (!steps)
		return cli_fail(r->cli, "out of memory");
	r->rounds++;
	err = ask_until_over(r, steps, nr);
	for (i = 0; i < nr; i++) {
		if (steps[i].open)
			end(r, &steps[i]);
		late |= steps[i].late;
	}
	free(steps);
	rebalance_sleep(late ? ENDED_MS : ASK_MS);
	return err ? relocation_failed(r->cli, err) : CLI_OK;
}
