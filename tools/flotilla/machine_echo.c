// SPDX-License-Identifier: GPL-2.0
/* Does a packet of a certain size reach an address whole? Asked by ICMP echo; see machine.h. */
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "machine.h"

#define WAIT_MS		1000
#define LARGEST		65535U
#define IP4_HEADER	20U
#define IP6_HEADER	40U

/* struct icmp6_hdr has all of these in the same places. */
struct echo {
	unsigned char type, code;
	unsigned short sum, id, number;
};

static unsigned short sum_of(const unsigned char *bytes, size_t len)
{
	unsigned int sum = 0;
	size_t i;

	for (i = 0; i < len; i++)
		sum += i & 1 ? bytes[i] : bytes[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

static int open_socket(int family)
{
	int fd = socket(family, SOCK_RAW | SOCK_CLOEXEC, family == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6);
	int probe = family == AF_INET ? IP_PMTUDISC_PROBE : IPV6_PMTUDISC_PROBE;
	int err = -1;

	if (fd >= 0 && family == AF_INET)
		err = setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe));
	else if (fd >= 0)
		err = setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof(probe));
	if (fd >= 0 && err) {
		close(fd);
		return -1;
	}
	return fd;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Others' answers come to this socket, too, if they are of the same address. */
static bool is_answered(int fd, int family, const struct echo *asked, unsigned char *buffer)
{
	long end = now_ms() + WAIT_MS, left;
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	while ((left = end - now_ms()) > 0 && poll(&wait, 1, left) > 0) {
		ssize_t got = recv(fd, buffer, LARGEST, MSG_DONTWAIT);
		size_t at = family == AF_INET && got > 0 ? (buffer[0] & 15) * 4U : 0;
		struct echo echo;

		if (got < (ssize_t)(at + sizeof(echo)))
			continue;
		memcpy(&echo, buffer + at, sizeof(echo));
		if (echo.type == (family == AF_INET ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY) && echo.id == asked->id &&
		    echo.number == asked->number)
			return true;
	}
	return false;
}

int machine_echo(const struct sockaddr_storage *to, unsigned int size, unsigned int tries)
{
	static unsigned short number;
	int family = to->ss_family, fd = open_socket(family), answered = 0;
	unsigned int header = family == AF_INET ? IP4_HEADER : IP6_HEADER, body = size - header, try;
	struct echo echo = { .type = family == AF_INET ? ICMP_ECHO : ICMP6_ECHO_REQUEST, .id = htons(getpid()) };
	struct sockaddr_storage there = *to;
	unsigned char *buffer = calloc(1, LARGEST);

	if (fd < 0 || !buffer || size > LARGEST || size < header + sizeof(echo))
		answered = -1;
	/* Where IPv4 and IPv6 have their ports: a raw socket takes none. */
	((struct sockaddr_in *)&there)->sin_port = 0;
	if (!answered && connect(fd, (struct sockaddr *)&there, family == AF_INET ? sizeof(struct sockaddr_in) :
				 sizeof(struct sockaddr_in6)))
		answered = -1;
	for (try = 0; !answered && try < tries; try++) {
		echo.number = htons(++number);
		echo.sum = 0;
		memset(buffer, 0, body);
		memcpy(buffer, &echo, sizeof(echo));
		/* ICMPv6's is the kernel's business. */
		if (family == AF_INET)
			echo.sum = sum_of(buffer, body);
		memcpy(buffer, &echo, sizeof(echo));
		if (send(fd, buffer, body, 0) == (ssize_t)body)
			answered = is_answered(fd, family, &echo, buffer);
		else if (errno == EMSGSIZE)
			break;
	}
	free(buffer);
	if (fd >= 0)
		close(fd);
	return answered;
}
