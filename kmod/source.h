/* SPDX-License-Identifier: GPL-2.0 */
/* A room that answers commands of this module: one at a time, and none while it goes. */
#ifndef FLT_SOURCE_H
#define FLT_SOURCE_H

#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/mutex.h>

/**
 * struct flt_source - the place of such a room
 * @lock: guards @ops; held during a call of them, so that they cannot go meanwhile
 * @ops:  what it has registered, or NULL
 */
struct flt_source {
	struct mutex lock;	/* of @ops */
	const void *ops;
};

#define FLT_SOURCE_INIT(name)	{ .lock = __MUTEX_INITIALIZER((name).lock) }

/* 0, or -EBUSY: there is one. */
static inline int flt_source_set(struct flt_source *source, const void *ops)
{
	int err = 0;

	mutex_lock(&source->lock);
	if (source->ops)
		err = -EBUSY;
	else
		source->ops = ops;
	mutex_unlock(&source->lock);
	return err;
}

/* No call of @ops runs on return. */
static inline void flt_source_clear(struct flt_source *source, const void *ops)
{
	mutex_lock(&source->lock);
	if (!WARN_ON_ONCE(source->ops != ops))
		source->ops = NULL;
	mutex_unlock(&source->lock);
}

#endif
