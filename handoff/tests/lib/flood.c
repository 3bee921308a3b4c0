// SPDX-License-Identifier: GPL-2.0
/*
 * handoff-flood NUMBER ADDRESS PORT: SYNs with the options that Linux sends, of clients in 198.18.0.0/15 that do not
 * exist, each of another one. Prints how many the kernel has taken.
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BATCH 64

static const uint8_t options[20] = { 2, 4, 5, 180, 4, 2, 8, 10, 0, 1, 2, 3, 0, 0, 0, 0, 1, 3, 3, 7 };

struct packet {
	struct iphdr ip;
	struct tcphdr tcp;
	uint8_t options[sizeof(options)];
};

static uint32_t sum(const void *data, size_t len)
{
	const uint16_t *words = data;
	uint32_t total = 0;

	for (; len; len -= 2)
		total += *words++;
	return total;
}

static uint16_t fold(uint32_t total)
{
	total = (total >> 16) + (total & 0xffff);
	return ~((total >> 16) + total);
}

static void fill(struct packet *p, uint32_t number, struct in_addr to, uint16_t port)
{
	const size_t len = sizeof(p->tcp) + sizeof(p->options);

	memset(p, 0, sizeof(*p));
	p->ip = (struct iphdr){ .version = 4, .ihl = 5, .tot_len = htons(sizeof(*p)), .ttl = 64,
				.protocol = IPPROTO_TCP, .daddr = to.s_addr,
				.saddr = htonl(0xc6120000 + (number & 0x1ffff)) };
	p->ip.check = fold(sum(&p->ip, sizeof(p->ip)));
	p->tcp.source = htons(1024 + (number >> 17) + number % 50000);
	p->tcp.dest = port;
	p->tcp.seq = htonl(number * 2654435761U);
	p->tcp.doff = len / 4;
	p->tcp.syn = 1;
	p->tcp.window = htons(64240);
	memcpy(p->options, options, sizeof(options));
	p->tcp.check = fold(sum(&p->ip.saddr, 8) + htons(IPPROTO_TCP) + htons(len) + sum(&p->tcp, len));
}

int main(int argc, char **argv)
{
	static struct packet packets[BATCH];
	static struct iovec vecs[BATCH];
	static struct mmsghdr messages[BATCH];
	struct sockaddr_in to = { .sin_family = AF_INET };
	uint32_t number, sent = 0;
	uint16_t port;
	int fd, i, n;

	if (argc != 4 || !inet_aton(argv[2], &to.sin_addr))
		errx(2, "usage: handoff-flood NUMBER ADDRESS PORT");
	number = strtoul(argv[1], NULL, 10);
	port = htons(strtoul(argv[3], NULL, 10));
	fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	if (fd < 0)
		err(1, "socket");
	for (i = 0; i < BATCH; i++) {
		vecs[i] = (struct iovec){ &packets[i], sizeof(packets[i]) };
		messages[i].msg_hdr = (struct msghdr){ .msg_name = &to, .msg_namelen = sizeof(to),
						       .msg_iov = &vecs[i], .msg_iovlen = 1 };
	}
	for (uint32_t at = 0; at < number; at += BATCH) {
		for (i = 0; i < BATCH; i++)
			fill(&packets[i], at + i, to.sin_addr, port);
		n = sendmmsg(fd, messages, number - at < BATCH ? number - at : BATCH, 0);
		if (n > 0)
			sent += n;
	}
	printf("%u\n", sent);
	return 0;
}
