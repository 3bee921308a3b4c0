/* SPDX-License-Identifier: MIT */
/* libsksplice: /dev/sksplice for programs. Errors are negative errno values. See libsksplice(3). */
#ifndef SKSPLICE_H
#define SKSPLICE_H

#include <stddef.h>
#include <stdint.h>
#include <flotilla/splice.h>

/* A descriptor of the device, close-on-exec; one for the whole program is enough. */
int sksplice_open(void);

/* What the module can do. */
int sksplice_info(int dev, struct ssp_info *info);

/*
 * Starts what is asked for in *req; .size is filled in here. Returns SSP_ACTIVE, or
 * SSP_DONE when it ended within the call, or a negative errno: then go on at user
 * level, after the first req->data_done bytes of req->data.
 */
int sksplice_start(int dev, struct ssp_splice *req);

/*
 * The usual case in one line: write head[0..head_len), then pass on limit bytes from
 * source to sink, and let go of both. As sksplice_start(); *data_done may be NULL.
 */
int sksplice_body(int dev, int source, int sink, const void *head, size_t head_len,
		  uint64_t limit, size_t *data_done);

/* Joins a and b in both directions until both are closed. As sksplice_start(). */
int sksplice_tunnel(int dev, int a, int b);

/* Ends and releases; *result may be NULL. flags: 0 or SSP_DISCARD. */
int sksplice_end(int dev, int fd0, int fd1, uint32_t flags, struct ssp_result *result);

/* How the last transfer of fd went, or goes. */
int sksplice_result(int dev, int fd, struct ssp_result *result);

/* "limit", "eof", ...; never NULL. */
const char *sksplice_cause_name(enum ssp_cause cause);

#endif
