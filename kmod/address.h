/* SPDX-License-Identifier: GPL-2.0 */
/* Addresses of nodes: of their links, and those that packets are forwarded to. */
#ifndef FLT_ADDRESS_H
#define FLT_ADDRESS_H

#include "node.h"

struct flt_net;

/**
 * struct flt_where - an address without a port, as a key of hash tables
 * @family: AF_INET or AF_INET6
 * @bytes:  the rest is zero
 */
struct flt_where {
	u8 family;
	u8 bytes[16];
};

void flt_where_fill(struct flt_where *where, const union flt_addr *addr);

/*
 * Another node has it, or no more; of family 0: nothing. Under fn->lock.
 * Return: 0 or -ENOMEM.
 */
int flt_address_add(struct flt_net *fn, const union flt_addr *addr);
void flt_address_del(struct flt_net *fn, const union flt_addr *addr);

int flt_address_init(struct flt_net *fn);
void flt_address_exit(struct flt_net *fn);

#endif
