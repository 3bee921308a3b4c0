// SPDX-License-Identifier: GPL-2.0
/*
 * Which number has a socket in its process's descriptor table?
 *
 * accept() and socket() make the socket before its number is in the table, and
 * dup(), SCM_RIGHTS and fork() give it further ones without asking the socket.
 *
 * probe: the places where a file gets a number, fd_install() and do_dup2(), are traced
 *	  while anyone is registered. Exact, and a number that comes to name another
 *	  file loses its old owner at once. Changes of epolls are traced with them, see watch.c.
 * guess: in accept(), the number reserved last is this connection's if no other thread
 *	  uses the table; the next operation on the socket confirms it. Where the table is
 *	  shared, and for other sockets, the first operation searches.
 * poll:  as in the paper: the first operation after accept(), commonly poll(), searches.
 */

#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/ftrace.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/sock.h>

#include "kmod/compat/epoll.h"
#include "counter.h"
#include "fd.h"
#include "region.h"
#include "sock.h"
#include "watch.h"

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

#if defined(CONFIG_DYNAMIC_FTRACE_WITH_ARGS)

/* The caller's table has, or will have in a moment, @file under this number. */
static void usel_fd_named(unsigned int fd, struct file *file)
{
	struct usel_region *region;
	struct usel_bind *bind;
	struct usel_sock *us = NULL;
	struct socket *sock;

	rcu_read_lock();
	region = usel_region_of_table();
	if (!region)
		goto out;
	usel_watch_named(region, fd);
	if (fd >= region->nfds)
		goto out;
	/* What another memory puts into the table is not the region's, but ends what was there. */
	sock = region->mm == current->mm ? usel_fd_socket(file) : NULL;
	if (sock)
		us = usel_sock_find(sock->sk);
	bind = rcu_dereference(region->owner[fd]);
	if (bind && bind->us != us)
		usel_sock_evict(region, fd, USEL_WHY_REUSED);
	if (us && usel_sock_bind(us, region, fd, false))
		WRITE_ONCE(region->fds[fd].events, USEL_FD_LOST);
	else if (!us && READ_ONCE(region->fds[fd].events))
		WRITE_ONCE(region->fds[fd].events, 0);	/* USEL_FD_LOST was another's */
out:
	rcu_read_unlock();
}

static void usel_on_install(unsigned long ip, unsigned long parent, struct ftrace_ops *ops,
			    struct ftrace_regs *regs)
{
	usel_fd_named(ftrace_regs_get_argument(regs, 0),
		      (struct file *)ftrace_regs_get_argument(regs, 1));
}

static void usel_on_dup2(unsigned long ip, unsigned long parent, struct ftrace_ops *ops,
			 struct ftrace_regs *regs)
{
	if ((struct files_struct *)ftrace_regs_get_argument(regs, 0) == current->files)
		usel_fd_named(ftrace_regs_get_argument(regs, 2),
			      (struct file *)ftrace_regs_get_argument(regs, 1));
}

static void usel_on_epoll_ctl(unsigned long ip, unsigned long parent, struct ftrace_ops *ops,
			      struct ftrace_regs *regs)
{
	const struct file *file;

	rcu_read_lock();
	file = flt_epoll_ctl_file(regs);
	if (file)
		usel_watch_changed(file);
	rcu_read_unlock();
}

/**
 * struct usel_probe - a function where a file gets a number, or an epoll is changed
 * @name: of the function
 * @ops:  PERMANENT: it is refused while kernel.ftrace_enabled is 0, and that cannot be set to 0
 *	  (EBUSY) while it is there. So it is called for certain, or known not to be.
 *
 * It runs as a function call in the task. No kprobe: one that is carried by a breakpoint runs
 * like an NMI and must not take a lock, and each may be switched off behind our back.
 */
struct usel_probe {
	char *name;
	struct ftrace_ops ops;
};

static struct usel_probe usel_probes[] = {
	{ "fd_install", { .func = usel_on_install, .flags = FTRACE_OPS_FL_PERMANENT } },
	{ "do_dup2", { .func = usel_on_dup2, .flags = FTRACE_OPS_FL_PERMANENT } },
	{ FLT_EPOLL_CTL, { .func = usel_on_epoll_ctl, .flags = FTRACE_OPS_FL_PERMANENT } },
};

static void usel_probes_free(unsigned int nr)
{
	while (nr)
		ftrace_free_filter(&usel_probes[--nr].ops);
}

static bool usel_probes_init(void)
{
	struct usel_probe *probe;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(usel_probes); i++) {
		probe = &usel_probes[i];
		if (ftrace_set_filter(&probe->ops, probe->name, strlen(probe->name), 1)) {
			usel_probes_free(i + 1);
			return false;
		}
	}
	return true;
}

static void usel_probes_exit(void)
{
	usel_probes_free(ARRAY_SIZE(usel_probes));
}

static void usel_probes_remove(unsigned int nr)
{
	while (nr)
		WARN_ON_ONCE(unregister_ftrace_function(&usel_probes[--nr].ops));
}

static int usel_probes_add(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(usel_probes); i++) {
		err = register_ftrace_function(&usel_probes[i].ops);
		if (err) {
			usel_probes_remove(i);
			return err;
		}
	}
	return 0;
}

static void usel_probes_end(void)
{
	usel_probes_remove(ARRAY_SIZE(usel_probes));
}

#else

static bool usel_probes_init(void)
{
	return false;
}

static void usel_probes_exit(void)
{
}

static int usel_probes_add(void)
{
	return -EOPNOTSUPP;
}

static void usel_probes_end(void)
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

	if (usel_fd_mode == USEL_FD_POLL)
		return;
	fd = usel_fd_reserved();
	if (fd < 0)
		return;
	rcu_read_lock();
	region = usel_region_current();
	if (region && !region->traced && !usel_sock_bind(us, region, fd, true))
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

/* By whichever number. */
bool usel_fd_names(const struct file *file)
{
	return iterate_fd(current->files, 0, usel_fd_is, file);
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

#define USEL_PROBES_LINGER	(2 * HZ)

static DEFINE_SPINLOCK(usel_fd_lock);
static unsigned int usel_fd_users;	/* regions that the probes serve; under usel_fd_lock */
static bool usel_probes_there;		/* the same */
static int usel_probes_err;		/* the same; of the last attempt */
static unsigned int usel_probes_tries;	/* the same; attempts */
static DECLARE_WAIT_QUEUE_HEAD(usel_probes_wait);

/*
 * Code is patched and grace periods pass. So the probes come in a work item, which no cgroup keeps
 * from the CPU: others wait for the same. They do not go at once: a process that comes and goes
 * would make all others wait for that again and again. The work is never twice at once.
 *
 * That they go waits for each task in the kernel to sleep or to leave it (tasks RCU), with ftrace's
 * lock held. Any that has no CPU time left can make that long, so nobody waits here without end.
 */
#define USEL_PROBES_PATIENCE	(10 * HZ)

static void usel_fd_work(struct work_struct *work)
{
	bool wanted, there;
	int err = 0;

	spin_lock(&usel_fd_lock);
	wanted = usel_fd_users;
	there = usel_probes_there;
	if (!wanted)
		usel_probes_there = false;
	spin_unlock(&usel_fd_lock);

	if (wanted && !there)
		err = usel_probes_add();
	else if (there && !wanted)
		usel_probes_end();
	if (!wanted)
		return;
	spin_lock(&usel_fd_lock);
	usel_probes_there = !err;
	usel_probes_err = err;
	WRITE_ONCE(usel_probes_tries, usel_probes_tries + 1);
	spin_unlock(&usel_fd_lock);
	wake_up_all(&usel_probes_wait);
}

static DECLARE_DELAYED_WORK(usel_fd_probes, usel_fd_work);

bool usel_fd_get(void)
{
	unsigned int tries;
	bool there;
	int err;

	if (usel_fd_mode != USEL_FD_PROBE)
		return false;
	spin_lock(&usel_fd_lock);
	usel_fd_users++;
	there = usel_probes_there;
	tries = usel_probes_tries;
	if (!there)
		mod_delayed_work(usel_wq, &usel_fd_probes, 0);
	spin_unlock(&usel_fd_lock);
	if (there)
		return true;

	/* As long as there are users, nobody puts it off. */
	wait_event_killable_timeout(usel_probes_wait, READ_ONCE(usel_probes_tries) != tries,
				    USEL_PROBES_PATIENCE);
	spin_lock(&usel_fd_lock);
	there = usel_probes_there;
	err = usel_probes_tries == tries ? -ETIMEDOUT : usel_probes_err;
	if (!there)
		usel_fd_users--;
	spin_unlock(&usel_fd_lock);
	if (!there)
		pr_warn_ratelimited("descriptors are guessed: no probes (%d)%s\n",
				    err, err == -EBUSY ? "; kernel.ftrace_enabled is 0" : "");
	return there;
}

void usel_fd_put(void)
{
	spin_lock(&usel_fd_lock);
	if (!--usel_fd_users)
		mod_delayed_work(usel_wq, &usel_fd_probes, USEL_PROBES_LINGER);
	spin_unlock(&usel_fd_lock);
}

int usel_fd_init(void)
{
	if (sysfs_streq(fd_track, "poll"))
		usel_fd_mode = USEL_FD_POLL;
	else if (sysfs_streq(fd_track, "guess"))
		usel_fd_mode = USEL_FD_GUESS;
	else if (sysfs_streq(fd_track, "probe"))
		usel_fd_mode = usel_probes_init() ? USEL_FD_PROBE : USEL_FD_GUESS;
	else
		return -EINVAL;
	return 0;
}

void usel_fd_exit(void)
{
	if (usel_fd_mode != USEL_FD_PROBE)
		return;
	cancel_delayed_work_sync(&usel_fd_probes);
	usel_fd_work(NULL);
	usel_probes_exit();
}
