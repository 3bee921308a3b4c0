// SPDX-License-Identifier: GPL-2.0
/* Do addresses of any length have a type of their own? */
#include <linux/net.h>

#ifndef FLT_PROBE_NOT
int flt_probe(struct socket *sock, struct sockaddr_unsized *addr);
int flt_probe(struct socket *sock, struct sockaddr_unsized *addr)
#else
int flt_probe(struct socket *sock, struct sockaddr *addr);
int flt_probe(struct socket *sock, struct sockaddr *addr)
#endif
{
	return kernel_bind(sock, addr, 0);
}
