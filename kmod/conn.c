// SPDX-License-Identifier: GPL-2.0
/* Who answers for connections: one source, registered by the room that has them. */

#include <linux/mutex.h>
#include "conn.h"
#include "connwalk.h"

/* Guards the source; held during a walk, so that it cannot go meanwhile. */
static DEFINE_MUTEX(flt_conn_lock);
static const struct flt_conn_source *flt_conn_source;

/**
 * flt_conn_source_register - become the source of FLT_CMD_CONN_GET
 * @source: what to ask
 *
 * Return: 0, or -EBUSY when there is one already.
 */
int flt_conn_source_register(const struct flt_conn_source *source)
{
	int err = 0;

	mutex_lock(&flt_conn_lock);
	if (flt_conn_source)
		err = -EBUSY;
	else
		flt_conn_source = source;
	mutex_unlock(&flt_conn_lock);
	return err;
}
EXPORT_SYMBOL_GPL(flt_conn_source_register);

/**
 * flt_conn_source_unregister - the source goes; no walk runs on return
 * @source: the one registered
 */
void flt_conn_source_unregister(const struct flt_conn_source *source)
{
	mutex_lock(&flt_conn_lock);
	if (!WARN_ON_ONCE(flt_conn_source != source))
		flt_conn_source = NULL;
	mutex_unlock(&flt_conn_lock);
}
EXPORT_SYMBOL_GPL(flt_conn_source_unregister);

int flt_conn_walk(struct net *net, u64 *cursor,
		  int (*emit)(const struct flt_conn *conn, void *arg), void *arg)
{
	int err = 0;

	mutex_lock(&flt_conn_lock);
	if (flt_conn_source)
		err = flt_conn_source->walk(net, cursor, emit, arg);
	mutex_unlock(&flt_conn_lock);
	return err;
}
