/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who asks in clear text is sent to the same address by HTTPS: only to hosts that a certificate of
 * ours is for, so that nobody is led elsewhere by what he says himself.
 */
#ifndef LARD_REDIRECT_H
#define LARD_REDIRECT_H

#include <stdbool.h>

struct conn;

/* True: worker->request is answered. False: it is to be served as it came. */
bool redirect_request(struct conn *conn);

#endif
