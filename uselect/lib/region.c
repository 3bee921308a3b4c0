// SPDX-License-Identifier: MIT
/* Registration of the process, its region, and the sets of its threads. */

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

/* A page of its own, which a child finds wiped whatever it was made by: see usl_register(). */
struct usl_region usl_region __attribute__((aligned(USL_PAGE)));
_Atomic unsigned int usl_epoch;

/*
 * @usl_lock: registration, that is @usl_region, @usl_first and @usl_atfork.
 * @usl_sets_lock: @usl_sets, the sets of this process; inside @usl_lock, held over fork().
 */
static pthread_mutex_t usl_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t usl_sets_lock = PTHREAD_MUTEX_INITIALIZER;
static struct usl_set *usl_sets;
static struct usl_set *usl_first;
static bool usl_atfork;

/* A bit for each number that is a set's; memory comes as it is touched. */
static usl_word usl_own[USEL_NFDS_MAX / USL_BITS];
static dev_t usl_device_number;
int usl_device_floor = STDERR_FILENO + 1;

bool usl_is_own(int fd)
{
	return (unsigned int)fd < USEL_NFDS_MAX && usl_test(usl_own, fd);
}

/* It may have been closed past the C library, and the number be the program's by now. */
static bool usl_is_device(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == usl_device_number;
}

bool usl_is_own_still(int fd)
{
	return usl_is_own(fd) && usl_region.nfds && usl_is_device(fd);
}

static void usl_device_close(int fd)
{
	if (usl_is_device(fd))
		usl_sys_close(fd);
}

static pthread_once_t usl_once = PTHREAD_ONCE_INIT;
static pthread_key_t usl_key;

void *usl_table(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static void usl_set_unmap(struct usl_set *set)
{
	if (set->out)
		munmap(set->out, set->out_size);
	if (set->in)
		munmap(set->in, set->in_size);
	set->out = NULL;
	set->in = NULL;
}

/* Listed and open at once: a child has no descriptor that it does not know of. */
static void usl_set_end(struct usl_set *set)
{
	struct usl_set **at;

	pthread_mutex_lock(&usl_sets_lock);
	for (at = &usl_sets; *at; at = &(*at)->next) {
		if (*at == set) {
			*at = set->next;
			usl_clear_bit(usl_own, set->fd);
			break;
		}
	}
	usl_device_close(set->fd);
	pthread_mutex_unlock(&usl_sets_lock);
}

void usl_set_close(struct usl_set *set)
{
	if (!set)
		return;
	if (set->fd >= 0) {
		usl_set_end(set);
		usl_set_unmap(set);
	}
	free(set->scratch);
	munmap(set, sizeof(*set));
}

static void *usl_map(int fd, size_t size, int prot, off_t offset)
{
	void *at = mmap(NULL, size, prot, MAP_SHARED, fd, offset);

	return at == MAP_FAILED ? NULL : at;
}

static int usl_region_map(int fd, const struct usel_setup *setup)
{
	const struct usel_region_head *head;
	const char *base;

	if (usl_region.head)
		return 0;
	head = usl_map(fd, setup->region_size, PROT_READ, USEL_MAP_REGION);
	if (!head)
		return -1;
	base = (const char *)head;
	usl_region.size = setup->region_size;
	usl_region.active = (const usl_word *)(base + head->active);
	usl_region.read = (const usl_word *)(base + head->read);
	usl_region.write = (const usl_word *)(base + head->write);
	usl_region.except = (const usl_word *)(base + head->except);
	usl_region.fds = (const struct usel_fd *)(base + head->fds);
	usl_region.flags = setup->flags;
	usl_region.features = setup->features;
	usl_region.head = head;
	return 0;
}

void usl_region_show(void)
{
	__atomic_store_n(&usl_region.nfds, usl_region.head->nfds, __ATOMIC_RELEASE);
}

static int usl_set_map(struct usl_set *set, const struct usel_setup *setup)
{
	char *base;

	set->out_size = setup->set_size;
	set->in_size = setup->want_size;
	set->out = usl_map(set->fd, set->out_size, PROT_READ, USEL_MAP_SET);
	set->in = usl_map(set->fd, set->in_size, PROT_READ | PROT_WRITE, USEL_MAP_WANT);
	if (!set->out || !set->in)
		return -1;
	set->ring = (uint32_t *)((char *)set->out + set->out->ring);
	base = (char *)set->in;
	set->want_read = (usl_word *)(base + set->in->read);
	set->want_write = (usl_word *)(base + set->in->write);
	set->want_except = (usl_word *)(base + set->in->except);
	set->pending = (usl_word *)(base + set->in->pending);
	set->want_rx = set->in->rx ? (uint32_t *)(base + set->in->rx) : NULL;
	return 0;
}

/* Not in the place of a standard stream that the program has closed. */
static int usl_device_open(void)
{
	int fd = open(USEL_DEVICE, O_RDWR | O_CLOEXEC), low = -1;
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENXIO))
		errno = ENODEV;
	if (fd >= 0 && fd < usl_device_floor) {
		low = fd;
		fd = fcntl(low, F_DUPFD_CLOEXEC, usl_device_floor);
		if (fd < 0)
			fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		usl_sys_close(low);
	}
	if (fd >= 0 && !fstat(fd, &st))
		usl_device_number = st.st_rdev;
	if (fd >= USEL_NFDS_MAX) {
		usl_sys_close(fd);
		errno = EMFILE;
		fd = -1;
	}
	return fd;
}

/* open() is where a thread that was cancelled ends, and the locks would stay behind. */
static int usl_set_begin(struct usl_set *set)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&usl_sets_lock);
	set->fd = usl_device_open();
	if (set->fd >= 0) {
		set->next = usl_sets;
		usl_sets = set;
		usl_set_bit(usl_own, set->fd);
	}
	pthread_mutex_unlock(&usl_sets_lock);
	pthread_setcancelstate(cancel, NULL);
	return set->fd;
}

/* An older module knows no edges. */
static int usl_set_up(int fd, struct usel_setup *setup)
{
	struct usel_setup asked = *setup;
	int err = ioctl(fd, USEL_SETUP, setup);

	if (!err || errno != EOPNOTSUPP || !(asked.flags & USEL_SETUP_EDGES))
		return err;
	*setup = asked;
	setup->flags &= ~USEL_SETUP_EDGES;
	return ioctl(fd, USEL_SETUP, setup);
}

struct usl_set *usl_set_open(uint32_t flags, uint32_t ring)
{
	struct usel_setup setup = { .abi = USEL_ABI, .flags = flags, .ring = ring };
	struct usl_set *set = usl_table(sizeof(*set));
	int err;

	if (!set)
		return NULL;
	set->epoch = usl_epoch;
	if (usl_set_begin(set) >= 0 && !usl_set_up(set->fd, &setup) &&
	    !usl_set_map(set, &setup) && !usl_region_map(set->fd, &setup))
		return set;
	err = errno;
	usl_set_close(set);
	errno = err;
	return NULL;
}

static void usl_before_fork(void)
{
	pthread_mutex_lock(&usl_lock);
	pthread_mutex_lock(&usl_sets_lock);
}

static void usl_in_parent(void)
{
	pthread_mutex_unlock(&usl_sets_lock);
	pthread_mutex_unlock(&usl_lock);
}

/*
 * The kernel has taken the mappings out of the child; the descriptors are copies of the
 * parent's. What is left of a set is memory, which whoever has the set frees.
 */
static void usl_in_child(void)
{
	struct usl_set *set;

	usl_epoch++;
	usl_region = (struct usl_region){ 0 };
	for (set = usl_sets; set; set = set->next) {
		usl_clear_bit(usl_own, set->fd);
		usl_device_close(set->fd);
		set->fd = -1;
		set->out = NULL;
		set->in = NULL;
	}
	usl_sets = NULL;
	usl_set_close(usl_first);
	usl_first = NULL;
	usl_in_parent();
}

int usl_register(uint32_t flags)
{
	struct usl_set *set;
	int err = 0;

	pthread_mutex_lock(&usl_lock);
	if (usl_region.head) {
		errno = EBUSY;
		err = -1;
		goto out;
	}
	if (!usl_atfork && !pthread_atfork(usl_before_fork, usl_in_parent, usl_in_child))
		usl_atfork = true;
	/* A child that was made past fork() has neither the mappings nor the above. */
	if (madvise(&usl_region, sizeof(usl_region), MADV_WIPEONFORK)) {
		err = -1;
		goto out;
	}
	set = usl_set_open(flags, 1);
	if (!set) {
		err = -1;
		goto out;
	}
	usl_first = set;
out:
	pthread_mutex_unlock(&usl_lock);
	return err;
}

void usl_unregister(void)
{
	struct usl_region old = usl_region;

	pthread_mutex_lock(&usl_lock);
	usl_region = (struct usl_region){ 0 };
	if (old.head)
		munmap((void *)old.head, old.size);
	usl_set_close(usl_first);
	usl_first = NULL;
	pthread_mutex_unlock(&usl_lock);
}

static int usl_register_and_show(uint32_t flags)
{
	if (usl_register(flags))
		return -1;
	usl_region_show();
	return 0;
}

int uselect_init(void)
{
	return usl_register_and_show(0);
}

/* The sets of loops are such, too. Who looks at all bits has one that is not: usl_set_mine(). */
int uselect_init_edges(void)
{
	return usl_register_and_show(USEL_SETUP_EDGES);
}

int uselect_init_bytes(void)
{
	return usl_register_and_show(USEL_SETUP_BYTES);
}

bool uselect_active(void)
{
	return usl_region.nfds;
}

static void usl_thread_ends(void *arg)
{
	usl_set_close(arg);
}

static void usl_key_make(void)
{
	pthread_key_create(&usl_key, usl_thread_ends);
}

struct usl_set *usl_set_mine(void)
{
	struct usl_set *set;

	if (!usl_region.nfds)
		return NULL;
	pthread_once(&usl_once, usl_key_make);
	set = pthread_getspecific(usl_key);
	if (set && set->epoch != usl_epoch) {
		pthread_setspecific(usl_key, NULL);
		usl_set_close(set);
		set = NULL;
	}
	if (!set) {
		set = usl_set_open(0, 1);
		if (set && pthread_setspecific(usl_key, set)) {
			usl_set_close(set);
			set = NULL;
		}
	}
	return set;
}

uint32_t usl_fd_now(unsigned int fd)
{
	uint32_t events = usl_fd_events(fd);
	struct pollfd p = { .fd = fd, .events = SHRT_MAX };

	if (!(events & USEL_FD_EDGES))
		return events;
	events &= ~USEL_FD_EDGES;
	/* What is asked for is not more than what was so; errors and the end are always told. */
	if (usl_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) < 0 || (p.revents & POLLNVAL))
		return events;
	return (unsigned short)p.revents;
}

/* As the kernel reads it for the bitmaps. */
static int usl_state_of(uint32_t events)
{
	int state = 0;

	if (events & (EPOLLIN | EPOLLRDNORM | EPOLLRDBAND | EPOLLHUP | EPOLLERR))
		state |= USEL_STATE_R;
	if (events & (EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND | EPOLLERR))
		state |= USEL_STATE_W;
	if (events & EPOLLPRI)
		state |= USEL_STATE_E;
	return state;
}

int get_socket_state(int fd)
{
	int state = 0;

	if (!usl_tracked(fd)) {
		errno = ENOENT;
		return -1;
	}
	if (usl_fd_events(fd) & USEL_FD_EDGES)
		return usl_state_of(usl_fd_now(fd));
	if (usl_test(usl_region.read, fd))
		state |= USEL_STATE_R;
	if (usl_test(usl_region.write, fd))
		state |= USEL_STATE_W;
	if (usl_test(usl_region.except, fd))
		state |= USEL_STATE_E;
	return state;
}

int uselect_get_info(int fd, struct uselect_info *info)
{
	const struct usel_fd *state;

	if (!usl_tracked(fd)) {
		errno = ENOENT;
		return -1;
	}
	state = &usl_region.fds[fd];
	info->events = usl_fd_now(fd);
	info->rx_bytes = __atomic_load_n(&state->rx_bytes, __ATOMIC_RELAXED);
	info->tx_space = __atomic_load_n(&state->tx_space, __ATOMIC_RELAXED);
	info->snd_cwnd = __atomic_load_n(&state->snd_cwnd, __ATOMIC_RELAXED);
	info->srtt_us = __atomic_load_n(&state->srtt_us, __ATOMIC_RELAXED);
	return 0;
}

int usl_region_fd(void)
{
	return usl_first ? usl_first->fd : -1;
}

int uselect_track(int fd)
{
	struct usl_set *set = usl_first;

	if (!set) {
		errno = ENODEV;
		return -1;
	}
	return ioctl(set->fd, USEL_TRACK, &fd);
}

void usl_closed(int fd)
{
	struct usl_set *set = usl_first;
	int err = errno;

	if (set && usl_tracked(fd))
		ioctl(set->fd, USEL_FORGET, &fd);
	errno = err;
}

int uselect_close(int fd)
{
	bool tracked = usl_tracked(fd);
	int ret = usl_sys_close(fd);

	if (tracked)
		usl_closed(fd);
	return ret;
}
