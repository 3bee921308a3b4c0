/* SPDX-License-Identifier: GPL-2.0 */
/* etcd, version 3, by the gateway that speaks JSON: what flotilla-follow and flotilla-announce share. */
#ifndef FLOTILLA_FOLLOW_ETCD_H
#define FLOTILLA_FOLLOW_ETCD_H

#include "http.h"

#define HOSTS_MAX	8
#define PREFIX_MAX	256

/**
 * struct etcd - a cluster
 * @hosts:  URLs of its members; @at is asked until it does not answer
 * @prefix: ends with /; a node is PREFIX NAME
 */
struct etcd {
	struct http http;
	char *hosts[HOSTS_MAX];
	unsigned int nr_hosts, at;
	char prefix[PREFIX_MAX];
};

/* URL[,URL]/PREFIX */
int etcd_open(struct etcd *etcd, struct cli *cli, const struct access *access, const char *text);
void etcd_close(struct etcd *etcd);
/* Consumes @request. The first member that answers; NULL after saying why none does. *@code as http_ask() gives it. */
json_t *etcd_ask(struct etcd *etcd, const char *path, json_t *request, long *code);
/* As JSON has bytes; to be freed. */
char *base64_encode(const void *data, size_t len);
/* The length, -1: it is none or too long. */
ssize_t base64_decode(const char *text, char *out, size_t size);

#endif
