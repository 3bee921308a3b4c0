// SPDX-License-Identifier: GPL-2.0
/* A lock for each pipe and socket that is being written, for as long as somebody wants it. */
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <net/sock.h>

#include "io.h"

/**
 * struct iol_object - a pipe or socket that is being written
 * @inode: whose; the writers' files keep it
 * @users: writers that have or want the lock; under iol_objects_lock
 * @busy:  bit 0, held for a whole IOL_write
 * @wait:  for @busy, by those who have a time-out
 * @node:  under iol_objects_lock
 */
struct iol_object {
	struct inode *inode;
	unsigned int users;
	unsigned long busy;
	wait_queue_head_t wait;
	struct list_head node;
};

static LIST_HEAD(iol_objects);
static DEFINE_SPINLOCK(iol_objects_lock);

static struct iol_object *iol_object_find(struct inode *inode)
{
	struct iol_object *object;

	lockdep_assert_held(&iol_objects_lock);
	list_for_each_entry(object, &iol_objects, node) {
		if (object->inode == inode) {
			object->users++;
			return object;
		}
	}
	return NULL;
}

static struct iol_object *iol_object_get(struct inode *inode)
{
	struct iol_object *object, *fresh;

	spin_lock(&iol_objects_lock);
	object = iol_object_find(inode);
	spin_unlock(&iol_objects_lock);
	if (object)
		return object;
	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
	if (!fresh)
		return NULL;
	fresh->inode = inode;
	fresh->users = 1;
	init_waitqueue_head(&fresh->wait);
	spin_lock(&iol_objects_lock);
	object = iol_object_find(inode);
	if (!object)
		list_add(&fresh->node, &iol_objects);
	spin_unlock(&iol_objects_lock);
	if (!object)
		return fresh;
	kfree(fresh);
	return object;
}

static void iol_object_put(struct iol_object *object)
{
	bool last;

	spin_lock(&iol_objects_lock);
	last = !--object->users;
	if (last)
		list_del(&object->node);
	spin_unlock(&iol_objects_lock);
	if (last)
		kfree(object);
}

/* Is an IOL_write to it under way? */
bool iol_object_written(const struct file *file)
{
	struct iol_object *object;
	bool found = false;

	if (list_empty_careful(&iol_objects))
		return false;
	spin_lock(&iol_objects_lock);
	list_for_each_entry(object, &iol_objects, node)
		found |= object->inode == file_inode(file);
	spin_unlock(&iol_objects_lock);
	return found;
}

/**
 * iol_object_lock - keep other IOL_writes of the same object out
 * @call:  says which
 * @timeo: jiffies to wait at most; 0 for a descriptor or call that does not wait
 *
 * Return: the object, or -EAGAIN, -ERESTARTSYS, -EINTR, -ENOMEM.
 */
struct iol_object *iol_object_lock(struct iol_call *call, long timeo)
{
	struct iol_object *object = iol_object_get(file_inode(call->file));
	long left;

	if (!object)
		return ERR_PTR(-ENOMEM);
	left = wait_event_interruptible_timeout(object->wait,
						!test_and_set_bit_lock(0, &object->busy), timeo);
	if (left > 0)
		return object;
	iol_object_put(object);
	return ERR_PTR(left ? sock_intr_errno(timeo) : -EAGAIN);
}

void iol_object_unlock(struct iol_object *object)
{
	clear_bit_unlock(0, &object->busy);
	/* The bit first, then whether somebody waits. */
	smp_mb__after_atomic();
	wake_up_interruptible(&object->wait);
	iol_object_put(object);
}
