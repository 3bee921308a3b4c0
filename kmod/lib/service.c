// SPDX-License-Identifier: MIT
/* Services that connections of other nodes are taken for. */
#include <errno.h>
#include <string.h>
#include "internal.h"

static int service_parse(const struct nlmsghdr *nlh, struct sockaddr_storage *service)
{
	struct flt_attrs attrs;
	uint16_t port = 0;
	int err;

	memset(service, 0, sizeof(*service));
	err = flt_attrs_parse(nlh, &attrs);
	if (err)
		return err;
	if (attrs.at[FLT_A_SERVICE_PORT])
		port = mnl_attr_get_u16(attrs.at[FLT_A_SERVICE_PORT]);
	flt_attrs_addr(attrs.at[FLT_A_SERVICE_ADDR4], attrs.at[FLT_A_SERVICE_ADDR6], port, service);
	return service->ss_family ? 0 : -EPROTO;
}

struct service_call {
	flt_service_fn fn;
	void *arg;
};

static int service_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct service_call *call = arg;
	struct sockaddr_storage service;
	int err;

	err = service_parse(nlh, &service);
	return err ? err : call->fn(&service, call->arg);
}

int flt_service_each(struct flt_client *c, flt_service_fn fn, void *arg)
{
	struct service_call call = { fn, arg };

	return flt_transact(c, flt_request(c, FLT_CMD_SERVICE_GET, NLM_F_DUMP), service_message,
			    &call);
}

static int change(struct flt_client *c, uint8_t cmd, const struct sockaddr_storage *service)
{
	uint16_t port = flt_addr_port(service);
	struct nlmsghdr *nlh;

	nlh = flt_request(c, cmd, NLM_F_ACK);
	flt_attrs_put_addr(nlh, FLT_A_SERVICE_ADDR4, FLT_A_SERVICE_ADDR6, service);
	if (port)
		mnl_attr_put_u16(nlh, FLT_A_SERVICE_PORT, port);
	return flt_transact(c, nlh, NULL, NULL);
}

int flt_service_new(struct flt_client *c, const struct sockaddr_storage *service)
{
	return change(c, FLT_CMD_SERVICE_NEW, service);
}

int flt_service_del(struct flt_client *c, const struct sockaddr_storage *service)
{
	return change(c, FLT_CMD_SERVICE_DEL, service);
}
