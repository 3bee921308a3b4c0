// SPDX-License-Identifier: GPL-2.0
/* Names of system calls: those of servers; the rest keep their numbers. */
#include <stdio.h>
#include <sys/syscall.h>
#include "bench/count/calls.h"
#include "bench/count/count.h"

#define NAME(call) [SYS_##call] = #call

static const char *const names[COUNT_CALLS] = {
	NAME(accept), NAME(accept4), NAME(bind), NAME(close), NAME(connect), NAME(epoll_create1),
	NAME(epoll_ctl), NAME(epoll_pwait), NAME(epoll_wait), NAME(eventfd2), NAME(exit), NAME(fcntl),
	NAME(fstat), NAME(futex), NAME(getdents64), NAME(getpeername), NAME(getpid), NAME(getsockname),
	NAME(getsockopt), NAME(io_uring_enter), NAME(ioctl), NAME(listen), NAME(lseek), NAME(madvise),
	NAME(mincore), NAME(mmap), NAME(munmap), NAME(nanosleep), NAME(newfstatat), NAME(open),
	NAME(openat), NAME(pipe2), NAME(poll), NAME(ppoll), NAME(pread64), NAME(preadv), NAME(preadv2),
	NAME(pselect6), NAME(read), NAME(readahead), NAME(readv), NAME(recvfrom), NAME(recvmmsg),
	NAME(recvmsg), NAME(rt_sigprocmask), NAME(sched_yield), NAME(select), NAME(sendfile),
	NAME(sendmmsg), NAME(sendmsg), NAME(sendto), NAME(setsockopt), NAME(shutdown), NAME(socket),
	NAME(splice), NAME(stat), NAME(statx), NAME(tee), NAME(timerfd_settime), NAME(vmsplice),
	NAME(wait4), NAME(write), NAME(writev),
};

const char *count_call_name(uint32_t nr, char number[24])
{
	if (nr < COUNT_CALLS && names[nr])
		return names[nr];
	snprintf(number, 24, "call %u", nr);
	return number;
}
