// SPDX-License-Identifier: GPL-2.0
/*
 * Which number has a socket in its process's descriptor table?
 *
 * accept() and socket() make the socket before its number is in the table, and
 * dup(), SCM_RIGHTS and fork() give it further ones without asking the socket.
 *
 * probe: the places where a file gets a number, fd_install() and do_dup2(), are probed
 *	  while anyone is registered. Exact, and a number that comes to name another
 *	  file loses its old owner at once.
 * guess: in accept(), the number reserved last is this connection's if no other thread
 *	  uses the table; the next operation on the socket confirms it. Where the table is
 *	  shared, and for other sockets, the first operation searches.
 * poll:  as in the paper: the first operation after accept(), commonly poll(), searches.
 */

#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <net/sock.h>

#include "counter.h"
#include "fd.h"
#include "region.h"
#include "sock.h"

enum { USEL_FD_PROBE, USEL_FD_GUESS, USEL_FD_POLL };

static char *fd_track = "probe";
module_param(fd_track, charp, 0444);
MODULE_PARM_DESC(fd_track, "how descriptor numbers are learnt: probe (default), guess, poll");

static int usel_fd_mode __read_mostly = USEL_FD_GUESS;

static struct socket *usel_fd_socket(struct file *file)
{
	struct socket *sock = sock_from_file(file);

	return sock && sock->sk && sk_is_tcp(sock->sk) ? sock : NULL;
}

/* --- probe --- */

#if defined(CONFIG_KPROBES_ON_FTRACE) && defined(CONFIG_HAVE_FUNCTION_ARG_ACCESS_API)

/* The caller's table has, or will have in a moment, @file under this number. */
static void usel_fd_named(unsigned int fd, struct file *file)
{
	struct usel_region *region;
	struct usel_bind *bind;
	struct usel_sock *us = NULL;
	struct socket *sock;

	rcu_read_lock();
	region = usel_region_current();
	if (!region || fd >= region->nfds)
		goto out;
	sock = usel_fd_socket(file);
	if (sock)
		us = usel_sock_find(sock->sk);
	bind = rcu_dereference(region->owner[fd]);
	if (bind && bind->us != us)
		usel_sock_evict(region, fd, USEL_WHY_REUSED);
	if (us)
		usel_sock_bind(us, region, fd, false);
	else if (READ_ONCE(region->fds[fd].events))
		WRITE_ONCE(region->fds[fd].events, 0);	/* USEL_FD_LOST was another's */
out:
	rcu_read_unlock();
}

static int usel_on_install(struct kprobe *probe, struct pt_regs *regs)
{
	usel_fd_named(regs_get_kernel_argument(regs, 0),
		      (struct file *)regs_get_kernel_argument(regs, 1));
	return 0;
}

NOKPROBE_SYMBOL(usel_on_install);

static int usel_on_dup2(struct kprobe *probe, struct pt_regs *regs)
{
	if ((struct files_struct *)regs_get_kernel_argument(regs, 0) == current->files)
		usel_fd_named(regs_get_kernel_argument(regs, 2),
			      (struct file *)regs_get_kernel_argument(regs, 1));
	return 0;
}

NOKPROBE_SYMBOL(usel_on_dup2);

static struct kprobe usel_probes[] = {
	{ .symbol_name = "fd_install", .pre_handler = usel_on_install },
	{ .symbol_name = "do_dup2", .pre_handler = usel_on_dup2 },
};

static void usel_probes_remove(unsigned int nr)
{
	while (nr)
		unregister_kprobe(&usel_probes[--nr]);
}

/*
 * Only probes that ftrace carries: they run as a function call in the task. One that is
 * carried by a breakpoint runs like an NMI and must not take a lock.
 */
static bool usel_probes_add(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(usel_probes); i++) {
		usel_probes[i].flags = KPROBE_FLAG_DISABLED;
		if (register_kprobe(&usel_probes[i])) {
			usel_probes_remove(i);
			return false;
		}
		if (!kprobe_ftrace(&usel_probes[i])) {
			usel_probes_remove(i + 1);
			return false;
		}
	}
	return true;
}

static void usel_probes_end(void)
{
	usel_probes_remove(ARRAY_SIZE(usel_probes));
}

static void usel_probes_enable(bool on)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(usel_probes); i++)
		WARN_ON_ONCE(on ? enable_kprobe(&usel_probes[i]) : disable_kprobe(&usel_probes[i]));
}

#else

static bool usel_probes_add(void)
{
	return false;
}

static void usel_probes_end(void)
{
}

static void usel_probes_enable(bool on)
{
}

#endif

/* --- guess --- */

/*
 * accept() has reserved a number, the last one that anybody reserved if the table has one
 * user, and has not yet filled it: open, and no file. Nothing else looks like that.
 */
static int usel_fd_reserved(void)
{
	struct files_struct *files = current->files;
	struct fdtable *fdt;
	unsigned int fd;
	int found = -1;

	if (atomic_read(&files->count) != 1 || (current->flags & (PF_KTHREAD | PF_IO_WORKER)))
		return -1;
	rcu_read_lock();
	fdt = files_fdtable(files);
	fd = READ_ONCE(files->next_fd) - 1;
	if (fd < fdt->max_fds && test_bit(fd, fdt->open_fds) &&
	    !rcu_access_pointer(fdt->fd[fd]))
		found = fd;
	rcu_read_unlock();
	return found;
}

void usel_fd_accepted(struct usel_sock *us, struct socket *sock)
{
	struct usel_region *region;
	int fd;

	if (usel_fd_mode != USEL_FD_GUESS)
		return;
	fd = usel_fd_reserved();
	if (fd < 0)
		return;
	rcu_read_lock();
	region = usel_region_current();
	if (region && !usel_sock_bind(us, region, fd, true))
		usel_count(sock_net(sock->sk), USEL_STAT_GUESSED);
	rcu_read_unlock();
}

/* --- search --- */

static int usel_fd_is(const void *wanted, struct file *file, unsigned int fd)
{
	return file == wanted ? fd + 1 : 0;
}

void usel_fd_settle(struct usel_sock *us, struct socket *sock)
{
	struct usel_region *region;
	int fd;

	rcu_read_lock();
	region = usel_region_current();
	if (!region || !sock->file)
		goto out;
	fd = usel_sock_guess(us, region);
	if (fd >= 0) {
		if (files_lookup_fd_raw(current->files, fd) == sock->file) {
			usel_sock_bind(us, region, fd, false);
			goto out;
		}
		usel_count(sock_net(sock->sk), USEL_STAT_GUESS_WRONG);
		usel_sock_evict(region, fd, USEL_WHY_WRONG);
	}
	WRITE_ONCE(us->settled, true);
	usel_count(sock_net(sock->sk), USEL_STAT_SEARCHED);
	fd = iterate_fd(current->files, 0, usel_fd_is, sock->file) - 1;
	if (fd >= 0)
		usel_sock_bind(us, region, fd, false);
out:
	rcu_read_unlock();
}

/* --- by hand --- */

int usel_fd_track(struct usel_region *region, unsigned int fd)
{
	struct usel_sock *us;
	struct socket *sock;
	int err;

	CLASS(fd, f)(fd);

	if (fd_empty(f))
		return -EBADF;
	sock = sock_from_file(fd_file(f));
	if (!sock)
		return -ENOTSOCK;
	if (!usel_fd_socket(fd_file(f)))
		return -EOPNOTSUPP;
	us = usel_sock_find(sock->sk);
	if (!us) {
		us = usel_sock_add(sock->sk);
		if (IS_ERR(us))
			return PTR_ERR(us);
	}
	rcu_read_lock();
	err = usel_region_current() == region ? usel_sock_bind(us, region, fd, false) : -EXDEV;
	rcu_read_unlock();
	return err == -ESHUTDOWN ? -EOPNOTSUPP : err;
}

int usel_fd_forget(struct usel_region *region, unsigned int fd)
{
	struct usel_sock *us = NULL;
	struct usel_bind *bind;
	struct socket *sock;
	struct file *file;
	int err = 0;

	rcu_read_lock();
	if (usel_region_current() != region) {
		err = -EXDEV;
	} else if (fd < region->nfds) {
		file = files_lookup_fd_raw(current->files, fd);
		sock = file ? usel_fd_socket(file) : NULL;
		if (sock)
			us = usel_sock_find(sock->sk);
		bind = rcu_dereference(region->owner[fd]);
		if (bind && bind->us != us)
			usel_sock_evict(region, fd, USEL_WHY_FORGET);
	}
	rcu_read_unlock();
	return err;
}

/* --- life --- */

bool usel_fd_is_traced(void)
{
	return usel_fd_mode == USEL_FD_PROBE;
}

void usel_fd_get(void)
{
	static_assert(USEL_FD_PROBE == 0);
	if (usel_fd_is_traced())
		usel_probes_enable(true);
}

void usel_fd_put(void)
{
	if (usel_fd_is_traced())
		usel_probes_enable(false);
}

int usel_fd_init(void)
{
	if (sysfs_streq(fd_track, "poll"))
		usel_fd_mode = USEL_FD_POLL;
	else if (sysfs_streq(fd_track, "guess"))
		usel_fd_mode = USEL_FD_GUESS;
	else if (sysfs_streq(fd_track, "probe"))
		usel_fd_mode = usel_probes_add() ? USEL_FD_PROBE : USEL_FD_GUESS;
	else
		return -EINVAL;
	return 0;
}

void usel_fd_exit(void)
{
	if (usel_fd_is_traced())
		usel_probes_end();
}
