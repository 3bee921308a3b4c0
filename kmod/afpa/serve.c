// SPDX-License-Identifier: GPL-2.0
/*
 * Commands of other nodes for this node's cache. A message handler only judges and keeps them, as
 * other messages wait behind it; a work item of the namespace carries them out, one after another.
 */

#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "kmod/node.h"
#include "kmod/service.h"

#include "calls.h"
#include "counter.h"
#include "net.h"
#include "remote.h"
#include "trace.h"

/**
 * struct afpa_job - a command of another node
 * @list: in its namespace's, under that one's lock; of nobody while it is carried out
 * @node: whose; referenced
 * @call: which call
 * @id:   the asker's number
 * @args: the call's structure; addresses are of @body
 * @len:  bytes of @body
 * @body: the message
 */
struct afpa_job {
	struct list_head list;
	struct flt_node *node;
	const struct afpa_call *call;
	__be64 id;
	union afpa_args args;
	u32 len;
	u8 body[] __aligned(8);
};

static struct workqueue_struct *afpa_serve_wq;

static void afpa_serve_say(struct afpa_net *an, struct flt_node *node, u8 number,
			   struct afpa_msg *msg, u32 len, int err)
{
	struct kvec vec = { .iov_base = msg, .iov_len = len };

	msg->error = cpu_to_be32(-err);
	trace_afpa_remote(node->name, number, false, err);
	/* Who takes no answers learns of none. */
	flt_link_send(node, AFPA_MSG_ANSWER, &vec, 1, GFP_KERNEL);
}

static int afpa_serve_refuse(struct afpa_net *an, struct flt_node *node,
			     const struct afpa_msg *ask, int err)
{
	struct afpa_msg msg = { .id = ask->id, .number = ask->number };

	afpa_count(an, AFPA_STAT_REMOTE_REFUSED);
	afpa_serve_say(an, node, ask->number, &msg, sizeof(msg), err);
	return 0;
}

static int afpa_serve_permit(struct afpa_net *an, const struct flt_node *node)
{
	u32 from = READ_ONCE(an->remote.from);

	if (!flt_node_is_proven(node) && !flt_service_insecure(an->net))
		return -ENOKEY;
	if (from == AFPA_REMOTE_NODES ||
	    (from == AFPA_REMOTE_FRONTENDS && READ_ONCE(node->role) == FLT_ROLE_FRONTEND))
		return 0;
	return -EACCES;
}

/* The texts of a command lie in its message; they end where it does. */
static bool afpa_job_texts(struct afpa_job *job, u32 at)
{
	const struct afpa_text *text;

	for (text = job->call->texts; text->most; text++) {
		u64 len = afpa_wire_length(&job->args, text);

		if (!(text->way & AFPA_FIELD_IN))
			continue;
		if (len > job->len - at)
			return false;
		*afpa_wire_address(&job->args, text) = (uintptr_t)&job->body[at];
		at += len;
	}
	return at == job->len;
}

static void afpa_job_free(struct afpa_job *job)
{
	flt_node_put(job->node);
	kvfree(job);
}

/* -EBADMSG: no node says that. */
static int afpa_job_take(struct afpa_job *job, const struct flt_msg *msg)
{
	const struct afpa_msg *head = (const struct afpa_msg *)job->body;
	int err;

	memcpy(job->body, msg->body, msg->len);
	job->len = msg->len;
	job->id = head->id;
	/* Each structure begins with its size, which nobody looks at here. */
	err = afpa_wire_unpack(job->call, &job->args, AFPA_FIELD_IN, head->value, head->nr);
	if (err == -ERANGE)
		return -EBADMSG;
	if (!afpa_job_texts(job, struct_size(head, value, head->nr)))
		return err ?: -EBADMSG;	/* what is not known may have brought more */
	return err;
}

static struct afpa_job *afpa_job_make(struct flt_node *node, const struct afpa_call *call,
				      const struct flt_msg *msg)
{
	struct mem_cgroup *old = flt_node_pays(node);
	struct afpa_job *job;
	int err;

	job = kvzalloc(struct_size(job, body, msg->len),
		       GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	set_active_memcg(old);
	if (!job)
		return ERR_PTR(-ENOMEM);
	job->node = flt_node_get(node);
	job->call = call;
	err = afpa_job_take(job, msg);
	if (err) {
		afpa_job_free(job);
		return ERR_PTR(err);
	}
	return job;
}

/* Room for one more of @node, which is taken. */
static bool afpa_serve_room(struct afpa_remote_net *rn, const struct flt_node *node, u32 bytes)
{
	unsigned int nr = 0;
	struct afpa_job *job;
	bool room;

	spin_lock(&rn->lock);
	list_for_each_entry(job, &rn->jobs, list)
		nr += job->node == node;
	room = nr < AFPA_JOBS_NODE && rn->nr_jobs < AFPA_JOBS_MAX &&
	       rn->bytes + bytes <= AFPA_JOBS_BYTES;
	if (room) {
		rn->nr_jobs++;
		rn->bytes += bytes;
	}
	spin_unlock(&rn->lock);
	return room;
}

static void afpa_serve_leave(struct afpa_remote_net *rn, u32 bytes)
{
	spin_lock(&rn->lock);
	rn->nr_jobs--;
	rn->bytes -= bytes;
	spin_unlock(&rn->lock);
}

int afpa_serve_ask(struct afpa_net *an, struct flt_node *node, const struct flt_msg *msg)
{
	struct afpa_remote_net *rn = &an->remote;
	const struct afpa_msg *head = msg->body;
	const struct afpa_call *call;
	struct afpa_job *job;
	int err;

	if (!afpa_wire_is_sound(msg) || head->error)
		return -EBADMSG;
	err = afpa_serve_permit(an, node);
	if (err)
		return afpa_serve_refuse(an, node, head, err);
	call = afpa_call_numbered(head->number);
	if (!call)
		return afpa_serve_refuse(an, node, head, -EOPNOTSUPP);
	if (!afpa_serve_room(rn, node, msg->len))
		return afpa_serve_refuse(an, node, head, -EBUSY);
	job = afpa_job_make(node, call, msg);
	if (IS_ERR(job)) {
		afpa_serve_leave(rn, msg->len);
		if (PTR_ERR(job) == -EBADMSG)
			return -EBADMSG;
		return afpa_serve_refuse(an, node, head, PTR_ERR(job));
	}
	spin_lock(&rn->lock);
	list_add_tail(&job->list, &rn->jobs);
	spin_unlock(&rn->lock);
	queue_work(afpa_serve_wq, &rn->serve);
	return 0;
}

/* Room for the texts that go back, behind the values: each as much as the asker has, at most. */
static void afpa_job_rooms(struct afpa_job *job, void *at)
{
	const struct afpa_text *text;

	for (text = job->call->texts; text->most; text++) {
		if (!(text->way & AFPA_FIELD_OUT))
			continue;
		/* Such a length is one of struct afpa_key. */
		*(u16 *)((void *)&job->args + text->len_at) =
			min_t(u64, afpa_wire_length(&job->args, text), text->most);
		*afpa_wire_address(&job->args, text) = (uintptr_t)at;
		at += text->most;
	}
}

/* They are moved together; bytes. */
static u32 afpa_job_close_up(struct afpa_job *job, void *to)
{
	const struct afpa_text *text;
	u32 bytes = 0;

	for (text = job->call->texts; text->most; text++) {
		u64 len = afpa_wire_length(&job->args, text);
		u64 *from = afpa_wire_address(&job->args, text);

		if (!(text->way & AFPA_FIELD_OUT))
			continue;
		memmove(to + bytes, (void *)(uintptr_t)*from, len);
		bytes += len;
	}
	return bytes;
}

static int afpa_job_run(struct afpa_net *an, struct afpa_job *job)
{
	struct mem_cgroup *old = flt_node_pays(job->node);
	int err;

	err = job->call->run(an, &job->args, false);
	set_active_memcg(old);
	return err;
}

static void afpa_serve_job(struct afpa_net *an, struct afpa_job *job)
{
	struct afpa_msg *msg = kzalloc(AFPA_ANSWER_MAX, GFP_KERNEL);
	u32 len = sizeof(*msg);
	void *texts;
	int err;

	/* It may have waited while the setting was changed. */
	err = msg ? afpa_serve_permit(an, job->node) : -ENOMEM;
	if (err) {
		afpa_serve_refuse(an, job->node, (const struct afpa_msg *)job->body, err);
		kfree(msg);
		return;
	}
	texts = &msg->value[AFPA_VALUES_MAX];
	afpa_job_rooms(job, texts);
	err = afpa_job_run(an, job);
	msg->id = job->id;
	msg->number = job->call->number;
	if (afpa_call_answers(job->call, err)) {
		msg->nr = afpa_wire_pack(job->call, &job->args, AFPA_FIELD_OUT, msg->value);
		len = struct_size(msg, value, msg->nr);
		if (!err)
			len += afpa_job_close_up(job, (void *)msg + len);
	}
	afpa_count(an, AFPA_STAT_REMOTE_DONE);
	afpa_serve_say(an, job->node, msg->number, msg, len, err);
	kfree(msg);
}

void afpa_serve_work(struct work_struct *work)
{
	struct afpa_net *an = container_of(work, struct afpa_net, remote.serve);
	struct afpa_remote_net *rn = &an->remote;
	struct afpa_job *job;
	bool more;

	spin_lock(&rn->lock);
	job = list_first_entry_or_null(&rn->jobs, struct afpa_job, list);
	if (job)
		list_del(&job->list);
	more = !list_empty(&rn->jobs);
	spin_unlock(&rn->lock);
	if (!job)
		return;
	afpa_serve_job(an, job);
	afpa_serve_leave(rn, job->len);
	afpa_job_free(job);
	if (more)
		queue_work(afpa_serve_wq, work);
}

void afpa_serve_set(struct afpa_net *an, u32 from)
{
	WRITE_ONCE(an->remote.from, from);
	flush_work(&an->remote.serve);
}

void afpa_serve_drop(struct afpa_net *an)
{
	struct afpa_job *job, *next;

	list_for_each_entry_safe(job, next, &an->remote.jobs, list) {
		list_del(&job->list);
		afpa_job_free(job);
	}
}

int afpa_serve_init(void)
{
	afpa_serve_wq = alloc_workqueue("afpa_serve", WQ_UNBOUND, 0);
	return afpa_serve_wq ? 0 : -ENOMEM;
}

void afpa_serve_exit(void)
{
	destroy_workqueue(afpa_serve_wq);
}
