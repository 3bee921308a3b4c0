/* SPDX-License-Identifier: GPL-2.0 */
/* May the caller receive from a socket, and send on it? */
#ifndef SSP_PERMIT_H
#define SSP_PERMIT_H

#include <linux/net.h>

struct ssp_splice;

/**
 * ssp_permit - asks the security modules what recv() and send() would ask them
 * @sock0: of args->fd0
 * @sock1: of args->fd1
 * @args:  which directions
 *
 * Once, with the caller's credentials, when a transfer begins: what is forwarded later is not
 * looked at again, as with any descriptor that was handed to somebody.
 * Neither socket is changed. Context: process, no lock held.
 *
 * Return: 0, or the errno of the security module.
 */
int ssp_permit(struct socket *sock0, struct socket *sock1, const struct ssp_splice *args);

#endif
