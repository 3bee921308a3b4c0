// SPDX-License-Identifier: MIT
/* /dev/sksplice for programs. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include "sksplice.h"

static int call(int dev, unsigned long request, void *arg)
{
	return ioctl(dev, request, arg) < 0 ? -errno : 0;
}

int sksplice_open(void)
{
	int dev = open(SSP_DEVICE, O_RDWR | O_CLOEXEC);

	return dev < 0 ? -errno : dev;
}

int sksplice_info(int dev, struct ssp_info *info)
{
	return call(dev, SSP_IOC_INFO, info);
}

int sksplice_start(int dev, struct ssp_splice *req)
{
	int err;

	req->size = sizeof(*req);
	req->data_done = 0;
	err = call(dev, SSP_IOC_SPLICE, req);
	return err ? err : (int)req->status;
}

int sksplice_body(int dev, int source, int sink, const void *head, size_t head_len,
		  uint64_t limit, size_t *data_done)
{
	struct ssp_splice req = {
		.flags = SSP_LIMIT | SSP_AUTORELEASE,
		.fd0 = source,
		.fd1 = sink,
		.limit = limit,
		.data = (uintptr_t)head,
		.data_len = head_len,
	};
	int ret = sksplice_start(dev, &req);

	if (data_done)
		*data_done = req.data_done;
	return ret;
}

int sksplice_tunnel(int dev, int a, int b)
{
	struct ssp_splice req = {
		.flags = SSP_BIDIR | SSP_AUTORELEASE,
		.fd0 = a,
		.fd1 = b,
	};

	return sksplice_start(dev, &req);
}

int sksplice_end(int dev, int fd0, int fd1, uint32_t flags, struct ssp_result *result)
{
	struct ssp_result own, *r = result ? result : &own;

	memset(r, 0, sizeof(*r));
	r->size = sizeof(*r);
	r->flags = flags;
	r->fd0 = fd0;
	r->fd1 = fd1;
	return call(dev, SSP_IOC_UNSPLICE, r);
}

int sksplice_result(int dev, int fd, struct ssp_result *result)
{
	memset(result, 0, sizeof(*result));
	result->size = sizeof(*result);
	result->fd0 = fd;
	result->fd1 = -1;
	return call(dev, SSP_IOC_RESULT, result);
}

const char *sksplice_cause_name(enum ssp_cause cause)
{
	static const char *const names[] = {
		[SSP_CAUSE_NONE] = "none",
		[SSP_CAUSE_LIMIT] = "limit",
		[SSP_CAUSE_EOF] = "eof",
		[SSP_CAUSE_SOURCE] = "source",
		[SSP_CAUSE_SINK] = "sink",
		[SSP_CAUSE_CLOSED] = "closed",
		[SSP_CAUSE_UNSPLICED] = "unspliced",
		[SSP_CAUSE_BOTH] = "both",
		[SSP_CAUSE_URGENT] = "urgent",
		[SSP_CAUSE_TAKEN] = "taken",
	};

	return cause < sizeof(names) / sizeof(names[0]) ? names[cause] : "unknown";
}
