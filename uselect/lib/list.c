// SPDX-License-Identifier: MIT
/* uselect_loop_*(): the list of what is ready, for programs. */

#include <stdlib.h>
#include <sys/epoll.h>

#include "loop.h"

struct uselect_loop {
	struct usl_loop loop;
};

struct uselect_loop *uselect_loop_new(void)
{
	struct uselect_loop *ul = calloc(1, sizeof(*ul));
	int epfd, err;

	if (!ul)
		return NULL;
	epfd = epoll_create1(EPOLL_CLOEXEC);
	if (epfd >= 0 && usl_loop_init(&ul->loop, epfd, true))
		return ul;
	err = errno;
	if (epfd >= 0)
		usl_sys_close(epfd);
	free(ul);
	errno = err;
	return NULL;
}

void uselect_loop_free(struct uselect_loop *ul)
{
	if (!ul)
		return;
	usl_loop_done(&ul->loop);
	usl_sys_close(ul->loop.epfd);
	free(ul);
}

int uselect_loop_fd(const struct uselect_loop *ul)
{
	/* From now on the kernel has to be told what only we know. */
	usl_loop_nest((struct usl_loop *)&ul->loop);
	return ul->loop.epfd;
}

int uselect_loop_add(struct uselect_loop *ul, int fd, uint32_t events, uint64_t data)
{
	return usl_loop_add(&ul->loop, fd, events, data);
}

int uselect_loop_mod(struct uselect_loop *ul, int fd, uint32_t events, uint64_t data)
{
	return usl_loop_mod(&ul->loop, fd, events, data);
}

int uselect_loop_del(struct uselect_loop *ul, int fd)
{
	return usl_loop_del(&ul->loop, fd);
}

int uselect_loop_pwait(struct uselect_loop *ul, struct epoll_event *events, int max, int timeout,
		       const sigset_t *mask)
{
	return usl_loop_wait(&ul->loop, events, max, timeout, mask);
}

int uselect_loop_wait(struct uselect_loop *ul, struct epoll_event *events, int max, int timeout)
{
	return usl_loop_wait(&ul->loop, events, max, timeout, NULL);
}

int uselect_loop_threshold(struct uselect_loop *ul, int fd, uint32_t rx_bytes)
{
	return usl_loop_threshold(&ul->loop, fd, rx_bytes);
}
