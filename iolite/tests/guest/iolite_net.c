// SPDX-License-Identifier: GPL-2.0
// long: debug it takes three minutes there
/* Over a real device: retransmissions come from the same pages, checksums from what is known of them. */
/* timeout: 180 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kselftest_harness.h"

#include <iolite.h>
#include "iolite/tests/lib/module.h"

#define PORT	7777
#define BODY	200000
/* How often a body is sent again. */
#define ROUNDS	4

/* 10.9.9.1 in iol_tx, whose device neither sums nor segments, and 10.9.9.2 in iol_rx. */
static const char *const topology =
	"ip netns del iol_tx 2>/dev/null; ip netns del iol_rx 2>/dev/null; set -e; "
	"ip netns add iol_tx; ip netns add iol_rx; "
	"ip link add iol0 netns iol_tx type veth peer name iol0 netns iol_rx; "
	"ip -n iol_tx addr add 10.9.9.1/24 dev iol0; ip -n iol_rx addr add 10.9.9.2/24 dev iol0; "
	"ip netns exec iol_tx ethtool -K iol0 tx off >/dev/null; "
	"ip -n iol_tx link set iol0 gso_max_segs 1 up; ip -n iol_rx link set iol0 up";

FIXTURE(net) {
	int home;
	int listener;
	int sock;
	pid_t receiver;
};

static int enter(const char *name)
{
	char path[64];
	int fd, err;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -1;
	err = setns(fd, CLONE_NEWNET);
	close(fd);
	return err;
}

static uint8_t expected(size_t at, unsigned int mark)
{
	return (at * 31 + at / 253 + mark) & 0xff;
}

static void expect(char *bytes, size_t len, unsigned int mark)
{
	size_t i;

	for (i = 0; i < len; i++)
		bytes[i] = expected(i, mark);
}

/* Ordinary reads of @rounds bodies, each behind @before bytes '!'; exits with 0 if all is right. */
static int receive(int fd, size_t before, unsigned int rounds)
{
	char *bytes = malloc(before + BODY), *model = malloc(before + BODY);
	unsigned int round;

	for (round = 0; round < rounds; round++) {
		memset(model, '!', before);
		expect(model + before, BODY, round);
		if (recv(fd, bytes, before + BODY, MSG_WAITALL) != (ssize_t)(before + BODY))
			return 1;
		if (memcmp(bytes, model, before + BODY))
			return 2;
	}
	return recv(fd, bytes, 1, 0) ? 3 : 0;
}

static void start(struct __test_metadata *_metadata, FIXTURE_DATA(net) *self, size_t before,
		  unsigned int rounds)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int one = 1, fd;

	addr.sin_addr.s_addr = inet_addr("10.9.9.2");
	ASSERT_EQ(0, enter("iol_rx"));
	self->listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(self->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	ASSERT_EQ(0, bind(self->listener, (struct sockaddr *)&addr, sizeof(addr)));
	ASSERT_EQ(0, listen(self->listener, 1));
	ASSERT_EQ(0, enter("iol_tx"));
	self->sock = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, connect(self->sock, (struct sockaddr *)&addr, sizeof(addr)));
	self->receiver = fork();
	if (!self->receiver) {
		fd = accept(self->listener, NULL, NULL);
		close(self->sock);
		_exit(receive(fd, before, rounds));
	}
	close(self->listener);
}

static int finish(FIXTURE_DATA(net) *self)
{
	int status;

	close(self->sock);
	if (waitpid(self->receiver, &status, 0) != self->receiver)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/* Packets that the receiver found wrong. */
static long bad_sums(void)
{
	FILE *file = popen("ip netns exec iol_rx nstat -asz TcpInCsumErrors", "r");
	long n = -1;
	char line[256];

	while (fgets(line, sizeof(line), file))
		sscanf(line, "TcpInCsumErrors %ld", &n);
	pclose(file);
	return n;
}

static int send_all(int fd, IOL_Agg *agg)
{
	size_t at = 0, n;

	while (at < IOL_length(agg)) {
		IOL_Agg *rest;

		if (IOL_select(&rest, agg, at, IOL_length(agg)))
			return -1;
		if (IOL_write(fd, rest, &n))
			return -2;
		IOL_destroy(rest);
		at += n;
	}
	return 0;
}

FIXTURE_SETUP(net)
{
	ASSERT_EQ(0, module_load());
	self->home = open("/proc/self/ns/net", O_RDONLY);
	ASSERT_EQ(0, system(topology));
}

FIXTURE_TEARDOWN(net)
{
	IOL_flush();
	EXPECT_EQ(0, setns(self->home, CLONE_NEWNET));
	EXPECT_EQ(0, system("ip netns del iol_tx; ip netns del iol_rx"));
}

TEST_F(net, lost_packets_are_sent_again_from_pages_that_nobody_uses_anew)
{
	unsigned long long copied = counter("BytesCopiedSend"), recycled = counter("BuffersRecycled");
	char *model = malloc(BODY);
	struct tcp_info info;
	socklen_t len = sizeof(info);
	unsigned int round;

	ASSERT_EQ(0, system("tc -n iol_tx qdisc add dev iol0 root netem loss 2% delay 1ms limit 10000"));
	start(_metadata, self, 0, 30);
	for (round = 0; round < 30; round++) {
		IOL_Agg *agg;

		expect(model, BODY, round);
		ASSERT_EQ(0, IOL_from_memory(IOL_DEF_ALLOC, &agg, model, BODY));
		ASSERT_EQ(0, send_all(self->sock, agg));
		/* The memory is ours to fill again, when no packet needs it any more. */
		IOL_destroy(agg);
		IOL_flush();
	}
	ASSERT_EQ(0, getsockopt(self->sock, IPPROTO_TCP, TCP_INFO, &info, &len));
	EXPECT_EQ(0, finish(self));
	TH_LOG("%u segments sent again", info.tcpi_total_retrans);
	EXPECT_LT(0, info.tcpi_total_retrans);
	EXPECT_LT(recycled, counter("BuffersRecycled"));
	EXPECT_EQ(copied, counter("BytesCopiedSend"));
	EXPECT_EQ(0, bad_sums());
	free(model);
}

/* A body from the file cache, sent @rounds times behind @before bytes; what was summed. */
static unsigned long long sums_of(struct __test_metadata *_metadata, FIXTURE_DATA(net) *self,
				  size_t before)
{
	unsigned long long summed = 0;
	char *model = malloc(BODY);
	IOL_Agg *body, *head, *both;
	unsigned int round;
	size_t n;
	int fd;

	fd = open("/tmp/iolite.body", O_RDWR | O_CREAT | O_TRUNC, 0600);
	expect(model, BODY, 0);
	ASSERT_EQ(BODY, write(fd, model, BODY));
	close(fd);
	/* Files of memory that somebody may write are read by copy. */
	fd = open("/tmp/iolite.body", O_RDONLY);
	ASSERT_EQ(0, IOL_pread(fd, &body, BODY, 0, &n));
	ASSERT_EQ(BODY, n);
	memset(model, '!', before);
	for (round = 0; round < 1 + ROUNDS; round++) {
		/* The second time around everything is known. */
		if (round == 1)
			summed = counter("BytesSummed");
		start(_metadata, self, before, 1);
		ASSERT_EQ(0, IOL_from_memory(IOL_DEF_ALLOC, &head, model, before));
		ASSERT_EQ(0, IOL_concat(&both, head, body));
		ASSERT_EQ(0, send_all(self->sock, both));
		EXPECT_EQ(0, finish(self));
		IOL_destroy(head);
		IOL_destroy(both);
	}
	summed = counter("BytesSummed") - summed;
	IOL_destroy(body);
	close(fd);
	unlink("/tmp/iolite.body");
	free(model);
	return summed;
}

TEST_F(net, what_was_summed_once_is_not_summed_again)
{
	unsigned long long cached, summed, passed = counter("PacketsNotSummed");
	size_t before;

	for (before = 1; before < 1000; before = before * 17 + 2) {
		cached = counter("BytesSummedFromCache");
		summed = sums_of(_metadata, self, before);
		cached = counter("BytesSummedFromCache") - cached;
		TH_LOG("behind %zu bytes: %llu of %u bytes summed, %llu from the cache", before, summed,
		       ROUNDS * BODY, cached);
		/* Headers of TCP, what stands before the body, and segments cut elsewhere this time. */
		EXPECT_GT(ROUNDS * (before + BODY / 1448 * 40 + BODY / 50), summed);
		EXPECT_LT(ROUNDS * BODY * 19 / 20, cached);
	}
	EXPECT_EQ(passed, counter("PacketsNotSummed"));
	EXPECT_EQ(0, bad_sums());
}

TEST_F(net, memory_that_is_used_anew_has_new_sums)
{
	char *model = malloc(BODY);
	unsigned int round;

	start(_metadata, self, 0, 25);
	for (round = 0; round < 25; round++) {
		IOL_Agg *agg;

		expect(model, BODY, round);
		ASSERT_EQ(0, IOL_from_memory(IOL_DEF_ALLOC, &agg, model, BODY));
		ASSERT_EQ(0, send_all(self->sock, agg));
		IOL_destroy(agg);
		IOL_flush();
	}
	EXPECT_EQ(0, finish(self));
	EXPECT_EQ(0, bad_sums());
	free(model);
}

TEST_F(net, without_the_cache_the_kernel_sums_as_ever)
{
	unsigned long long packets;

	ASSERT_EQ(0, system("echo N > /sys/module/iolite/parameters/csum_cache"));
	packets = counter("PacketsSummed");
	sums_of(_metadata, self, 7);
	EXPECT_EQ(packets, counter("PacketsSummed"));
	EXPECT_EQ(0, bad_sums());
	ASSERT_EQ(0, system("echo Y > /sys/module/iolite/parameters/csum_cache"));
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
