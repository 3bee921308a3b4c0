/* SPDX-License-Identifier: GPL-2.0 */
/* The module for one test, and its counters. */
#ifndef IOLITE_TEST_MODULE_H
#define IOLITE_TEST_MODULE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <flotilla/iolite.h>

/*
 * mount -o loop keeps the device open, and a kernel that lets nobody write to a mounted device then
 * refuses. Unmount with -d.
 */
#define MODULE_MOUNT(image, at)	"mount $(losetup -f --show " image ") " at

static inline int module_load(void)
{
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	if (system("modprobe -a loop ext4; modprobe iolite"))
		return -1;
	return access("/dev/iolite", R_OK | W_OK);
}

/* An open device becomes a domain; its window for reading is mapped until the process ends. */
static inline int module_domain(int fd, struct iol_init *init)
{
	if (ioctl(fd, IOL_IOC_INIT, init))
		return -1;
	return mmap(NULL, init->window, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0;
}

/* Slots of pipes and dying processes may keep it for a moment. */
static inline int module_unload(void)
{
	int tries;

	for (tries = 0; tries < 300; tries++) {
		if (!system("rmmod iolite 2>/dev/null"))
			return 0;
		usleep(100000);
	}
	return -1;
}

/* The last claim of a test: a fixture, so that it comes after those without one. */
#define MODULE_UNLOADS \
	FIXTURE(end) { \
	}; \
	FIXTURE_SETUP(end) \
	{ \
	} \
	FIXTURE_TEARDOWN(end) \
	{ \
	} \
	TEST_F(end, the_module_unloads) \
	{ \
		EXPECT_EQ(0, module_unload()); \
	}

static inline unsigned long long counter(const char *name)
{
	FILE *file = fopen("/sys/kernel/debug/iolite/counters", "r");
	unsigned long long value = 0, found = ~0ULL;
	char line[64];

	while (file && fscanf(file, "%63s %llu", line, &value) == 2)
		if (!strcmp(line, name))
			found = value;
	if (file)
		fclose(file);
	return found;
}

#endif
