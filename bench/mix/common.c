// SPDX-License-Identifier: GPL-2.0
/* What proxy, origin and robots share. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "mix.h"

#define BODIES	(1 << 20)

void broken(const char *what)
{
	perror(what);
	exit(1);
}

struct mix_shown *mix_shown_map(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct mix_shown *shown;

	if (fd < 0 || ftruncate(fd, sizeof(*shown)))
		broken(path);
	shown = mmap(NULL, sizeof(*shown), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shown == MAP_FAILED)
		broken("mmap");
	close(fd);
	return shown;
}

uint64_t mix_draw(uint64_t *seed)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

double mix_uniform(uint64_t *seed)
{
	return ((mix_draw(seed) >> 11) + 1) * 0x1p-53;
}

unsigned int mix_zipf(uint64_t *seed, unsigned int most)
{
	double all = 0, at;
	unsigned int k;

	for (k = 1; k <= most; k++)
		all += 1.0 / k;
	at = mix_uniform(seed) * all;
	for (k = 1; k < most && at > 1.0 / k; k++)
		at -= 1.0 / k;
	return k;
}

const unsigned char *mix_body(uint32_t object)
{
	static unsigned char *bodies;
	uint64_t seed = 2003;
	size_t i;

	if (!bodies) {
		bodies = malloc(BODIES + MIX_SIZE_MAX);
		if (!bodies)
			broken("memory");
		for (i = 0; i < BODIES + MIX_SIZE_MAX; i++)
			bodies[i] = mix_draw(&seed);
	}
	return bodies + object % (BODIES / 64) * 64;
}

uint64_t mix_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

int mix_listen(int port, int flags)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)) || listen(fd, 4096))
		broken("listen");
	return fd;
}

void mix_outrank(void)
{
	struct sched_param param = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		broken("sched_setscheduler");
}
