// SPDX-License-Identifier: GPL-2.0
/*
 * flood: SYNs of clients that do not exist.
 *
 *	flood -r RATE [-t SECONDS] [-s SEED] ADDRESS PORT
 *
 * RATE of them a second on average (a Poisson process), from addresses of 198.18.0.0/15, which are
 * for benchmarks, each from another one and another port. Prints how many were sent.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "../program.h"

#define SOURCES		0xc6120000u
#define SOURCES_LOW	0x0001ffffu

/* What a Linux client sends: MSS, SACK, time stamps, window scale. */
static const unsigned char options[] = {
	2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7
};

#define LENGTH		(sizeof(struct tcphdr) + sizeof(options))

struct syn {
	struct iphdr ip;
	struct tcphdr tcp;
	unsigned char options[sizeof(options)];
} __attribute__((packed));

static uint32_t sum(const void *data, size_t length)
{
	const uint16_t *words = data;
	uint32_t total = 0;

	for (size_t i = 0; i < length / 2; i++)
		total += words[i];
	return total;
}

static uint16_t folded(uint32_t total)
{
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return ~total;
}

static void make(struct syn *s, const struct sockaddr_in *to)
{
	uint32_t pseudo;

	memset(s, 0, sizeof(*s));
	s->ip = (struct iphdr){
		.version = 4, .ihl = 5, .tot_len = htons(sizeof(*s)), .ttl = 64,
		.protocol = IPPROTO_TCP, .saddr = htonl(SOURCES | (random() & SOURCES_LOW)),
		.daddr = to->sin_addr.s_addr,
	};
	s->tcp = (struct tcphdr){
		.source = htons(1024 + random() % 60000), .dest = to->sin_port,
		.seq = htonl(random()), .syn = 1, .doff = LENGTH / 4, .window = htons(64240),
	};
	memcpy(s->options, options, sizeof(options));
	pseudo = sum(&s->ip.saddr, 8) + htons(IPPROTO_TCP) + htons(LENGTH);
	s->tcp.check = folded(pseudo + sum(&s->tcp, LENGTH));
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	double rate = 0, seconds = 10;
	uint64_t begin, due;
	unsigned long sent = 0, failed = 0;
	struct syn syn;
	ssize_t n;
	int c, fd;

	while ((c = getopt(argc, argv, "r:t:s:")) != -1) {
		if (c == 'r')
			rate = atof(optarg);
		else if (c == 't')
			seconds = atof(optarg);
		else if (c == 's')
			srandom(atoi(optarg));
		else
			return 2;
	}
	if (argc - optind != 2 || rate <= 0 ||
	    inet_pton(AF_INET, argv[optind], &to.sin_addr) != 1)
		die("usage: flood -r RATE [-t SECONDS] [-s SEED] ADDRESS PORT");
	to.sin_port = htons(atoi(argv[optind + 1]));
	fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	if (fd < 0)
		die("socket: %s", strerror(errno));
	/* Not as late as 50 microseconds. */
	prctl(PR_SET_TIMERSLACK, 1);
	begin = now();
	due = begin;
	while (due < begin + seconds * SECOND) {
		struct timespec until = { due / SECOND, due % SECOND };

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
			;
		make(&syn, &to);
		n = sendto(fd, &syn, sizeof(syn), 0, (struct sockaddr *)&to, sizeof(to));
		*(n == sizeof(syn) ? &sent : &failed) += 1;
		due += -log((random() + 1.0) / (RAND_MAX + 2.0)) / rate * SECOND;
	}
	printf("{\"sent\": %lu, \"failed\": %lu}\n", sent, failed);
	return 0;
}
