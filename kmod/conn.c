// SPDX-License-Identifier: GPL-2.0
/* Who answers for connections: one source, registered by the room that has them. */

#include "conn.h"
#include "connwalk.h"
#include "source.h"

static struct flt_source flt_conn_source = FLT_SOURCE_INIT(flt_conn_source);

/**
 * flt_conn_source_register - become the source of FLT_CMD_CONN_GET
 * @source: what to ask
 *
 * Return: 0, or -EBUSY when there is one already.
 */
int flt_conn_source_register(const struct flt_conn_source *source)
{
	return flt_source_set(&flt_conn_source, source);
}
EXPORT_SYMBOL_GPL(flt_conn_source_register);

/**
 * flt_conn_source_unregister - the source goes; no walk runs on return
 * @source: the one registered
 */
void flt_conn_source_unregister(const struct flt_conn_source *source)
{
	flt_source_clear(&flt_conn_source, source);
}
EXPORT_SYMBOL_GPL(flt_conn_source_unregister);

int flt_conn_walk(struct net *net, u64 *cursor,
		  int (*emit)(const struct flt_conn *conn, void *arg), void *arg)
{
	const struct flt_conn_source *source;
	int err = 0;

	mutex_lock(&flt_conn_source.lock);
	source = flt_conn_source.ops;
	if (source)
		err = source->walk(net, cursor, emit, arg);
	mutex_unlock(&flt_conn_source.lock);
	return err;
}
