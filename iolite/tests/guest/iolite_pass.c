// SPDX-License-Identifier: GPL-2.0
// long: debug it takes four minutes there
/* Data goes from process to process by reference. */
/* timeout: 120 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kselftest_harness.h"

#include <iolite.h>
#include "iolite/tests/lib/module.h"

FIXTURE(pass) {
	int ends[2];
};

FIXTURE_SETUP(pass)
{
	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, pipe(self->ends));
}

FIXTURE_TEARDOWN(pass)
{
	close(self->ends[0]);
	close(self->ends[1]);
}

static void fill(IOL_Agg *agg, unsigned int mark)
{
	IOL_Context *context;
	size_t at = 0, len, i;
	char *addr;

	IOL_gen_start(agg, &context);
	while (!IOL_gen_nextWr(context, &addr, &len) && len)
		for (i = 0; i < len; i++, at++)
			addr[i] = (at * 31 + mark) & 0xff;
	IOL_gen_end(context);
}

/* How many bytes from the start are as fill() made them, when the aggregate starts at @at. */
static size_t right(IOL_Agg *agg, unsigned int mark, size_t at)
{
	size_t good = 0, len, i;
	IOL_Context *context;
	const char *addr;

	IOL_gen_start(agg, &context);
	while (!IOL_gen_nextRd(context, &addr, &len) && len)
		for (i = 0; i < len; i++, at++, good++)
			if ((uint8_t)addr[i] != ((at * 31 + mark) & 0xff))
				goto out;
out:
	IOL_gen_end(context);
	return good;
}

/* What the module has copied. */
static unsigned long long copies(void)
{
	return counter("BytesCopiedInline") + counter("BytesCopiedReceive") + counter("BytesCopiedSend");
}

/* Receive and check @rounds times @size bytes, then exit with 0. */
static int receive(int fd, size_t size, unsigned int rounds)
{
	unsigned int round;

	for (round = 0; round < rounds; round++) {
		size_t at = 0, got;

		while (at < size) {
			IOL_Agg *agg;
			int err = IOL_read(fd, &agg, size - at, &got);

			if (err || !got)
				return 10;
			if (right(agg, round, at) != got)
				return 11;
			at += got;
			IOL_destroy(agg);
		}
	}
	IOL_flush();
	return 0;
}

static int transmit(int fd, size_t size, unsigned int rounds)
{
	unsigned int round;

	for (round = 0; round < rounds; round++) {
		size_t at = 0, put;
		IOL_Agg *agg, *rest, *tail;
		int err;

		if (IOL_create(IOL_DEF_ALLOC, &agg, size))
			return 20;
		fill(agg, round);
		while (at < size) {
			if (IOL_split(&rest, &tail, agg, at))
				return 21;
			err = IOL_write(fd, tail, &put);
			if (err || !put)
				return 22;
			at += put;
			IOL_destroy(rest);
			IOL_destroy(tail);
		}
		IOL_destroy(agg);
	}
	return 0;
}

static int wait_for(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/* The child reads one end, the parent writes the other. */
static int transfer(int reader, int writer, size_t size, unsigned int rounds)
{
	pid_t pid = fork();
	int err, sent;

	if (!pid) {
		close(writer);
		_exit(receive(reader, size, rounds));
	}
	sent = transmit(writer, size, rounds);
	err = wait_for(pid);
	return err ? err : sent;
}

TEST_F(pass, a_pipe_passes_200_megabytes_and_copies_none)
{
	unsigned long long copied = copies();
	unsigned long long before = counter("BytesByReference");

	ASSERT_EQ(0, IOL_control(self->ends[0], IOL_PIPE_ROOM));
	ASSERT_EQ(0, transfer(self->ends[0], self->ends[1], 200000, 1000));
	EXPECT_EQ(copied, copies());
	/* Once in and once out. */
	EXPECT_EQ(before + 2 * 200000ULL * 1000, counter("BytesByReference"));
}

/* As transfer(), to a reader that may read all of the writer's pool, now and later. */
static int transfer_granted(int reader, int writer, size_t size, unsigned int rounds)
{
	uint64_t domain = 0;
	int ids[2], go[2], sent;
	char byte = 0;
	pid_t pid;

	if (pipe(ids) || pipe(go))
		return 30;
	pid = fork();
	if (!pid) {
		close(writer);
		domain = IOL_domain();
		if (write(ids[1], &domain, sizeof(domain)) != sizeof(domain) || read(go[0], &byte, 1) != 1)
			_exit(31);
		_exit(receive(reader, size, rounds));
	}
	if (read(ids[0], &domain, sizeof(domain)) != sizeof(domain) ||
	    IOL_grant(IOL_DEF_ALLOC, domain) || write(go[1], &byte, 1) != 1)
		return 32;
	sent = transmit(writer, size, rounds);
	close(ids[0]), close(ids[1]), close(go[0]), close(go[1]);
	return wait_for(pid) + sent;
}

TEST_F(pass, mappings_of_readers_of_the_pool_stay_and_buffers_come_back)
{
	unsigned long long ptes, chunks;

	ASSERT_EQ(0, transmit(open("/dev/null", O_WRONLY), 65536, 2));
	ptes = counter("PtesRead");
	chunks = counter("ChunksMade");
	ASSERT_EQ(0, transfer_granted(self->ends[0], self->ends[1], 65536, 2000));
	/* 131 MB went through; the reader mapped what the pipe and the two ends hold at most. */
	EXPECT_GT(ptes + 40 * 16, counter("PtesRead"));
	EXPECT_GT(chunks + 40, counter("ChunksMade"));
}

TEST_F(pass, a_unix_socket_passes_by_reference)
{
	unsigned long long copied = counter("BytesCopiedReceive");
	int ends[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	ASSERT_EQ(0, transfer(ends[0], ends[1], 100000, 300));
	EXPECT_EQ(copied, counter("BytesCopiedReceive"));
	close(ends[0]);
	close(ends[1]);
}

TEST_F(pass, a_tcp_socket_takes_references_and_gives_copies)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	unsigned long long sent = counter("BytesCopiedSend");
	int listener, client, server;
	socklen_t len = sizeof(addr);

	ASSERT_EQ(0, system("ip link set lo up"));
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, bind(listener, (struct sockaddr *)&addr, sizeof(addr)));
	ASSERT_EQ(0, listen(listener, 1));
	ASSERT_EQ(0, getsockname(listener, (struct sockaddr *)&addr, &len));
	client = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, connect(client, (struct sockaddr *)&addr, sizeof(addr)));
	server = accept(listener, NULL, NULL);
	ASSERT_LE(0, server);
	ASSERT_EQ(0, transfer(client, server, 300000, 100));
	EXPECT_EQ(sent, counter("BytesCopiedSend"));
	close(client);
	close(server);
	close(listener);
}

TEST_F(pass, an_ordinary_reader_and_an_ordinary_writer_cost_one_copy)
{
	unsigned long long before = copies();
	char bytes[4000];
	IOL_Agg *agg;
	size_t n;
	int i;

	ASSERT_EQ(0, IOL_create(IOL_DEF_ALLOC, &agg, sizeof(bytes)));
	fill(agg, 5);
	ASSERT_EQ(0, IOL_write_destroy(self->ends[1], &agg, &n));
	ASSERT_EQ(sizeof(bytes), n);
	ASSERT_EQ(sizeof(bytes), read(self->ends[0], bytes, sizeof(bytes)));
	for (i = 0; i < (int)sizeof(bytes); i++)
		ASSERT_EQ((uint8_t)(i * 31 + 5), (uint8_t)bytes[i]);
	/* The reader's own was the one, of which the module knows nothing. */
	EXPECT_EQ(before, copies());

	ASSERT_EQ(sizeof(bytes), write(self->ends[1], bytes, sizeof(bytes)));
	ASSERT_EQ(0, IOL_read(self->ends[0], &agg, 65536, &n));
	ASSERT_EQ(sizeof(bytes), n);
	EXPECT_EQ(before + n, copies());
	EXPECT_EQ(n, right(agg, 5, 0));
	IOL_destroy(agg);
}

/* Read @size bytes that fill() made, after the first @skip of them; how many were right. */
static size_t right_bytes(int fd, unsigned int mark, size_t skip, size_t size)
{
	uint8_t bytes[8192];
	size_t at = 0, i;
	ssize_t n;

	while (at < size) {
		n = read(fd, bytes, size - at < sizeof(bytes) ? size - at : sizeof(bytes));
		for (i = 0; n > 0 && i < (size_t)n; i++, at++)
			if (bytes[i] != (((skip + at) * 31 + mark) & 0xff))
				return at;
		if (n <= 0)
			break;
	}
	return at;
}

TEST_F(pass, a_header_and_what_a_pipe_holds_go_in_one_call_and_none_is_lost)
{
	unsigned long long received = counter("BytesCopiedReceive");
	unsigned long long sent = counter("BytesCopiedSend"), granted;
	size_t at, n = 0, size = 300000;
	IOL_Agg *agg;
	int pair[2];
	char head[4];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	ASSERT_EQ(0, IOL_control(self->ends[1], IOL_PIPE_ROOM));
	EXPECT_EQ(-ENODATA, IOL_send(pair[0], "head", 4, self->ends[0], 0, 1, IOL_RESIDENT, &n));
	ASSERT_EQ(0, IOL_create(IOL_DEF_ALLOC, &agg, size));
	fill(agg, 9);
	granted = counter("Grants");
	ASSERT_EQ(0, IOL_write_destroy(self->ends[1], &agg, &n));
	ASSERT_EQ(size, n);

	ASSERT_EQ(0, IOL_send(pair[0], "head", 4, self->ends[0], 0, 5000, 0, &n));
	ASSERT_EQ(5004, n);
	ASSERT_EQ(4, read(pair[1], head, 4));
	EXPECT_EQ(0, memcmp("head", head, 4));
	EXPECT_EQ(5000, right_bytes(pair[1], 9, 0, 5000));
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	/* As much as the socket takes, again and again. */
	for (at = 5000; at < size; at += n) {
		ASSERT_EQ(0, IOL_send(pair[0], NULL, 0, self->ends[0], 0, size, 0, &n));
		ASSERT_LT(0, n);
		ASSERT_EQ(n, right_bytes(pair[1], 9, at, n));
	}
	EXPECT_EQ(size, at);
	EXPECT_EQ(received, counter("BytesCopiedReceive"));
	EXPECT_EQ(sent, counter("BytesCopiedSend"));
	EXPECT_EQ(granted, counter("Grants"));

	/* A socket that is full leaves the rest where it was. */
	while (write(pair[0], "full", 4) == 4)
		;
	ASSERT_EQ(6, write(self->ends[1], "others", 6));
	EXPECT_EQ(-EAGAIN, IOL_send(pair[0], "h", 1, self->ends[0], 0, 100, 0, &n));
	fcntl(pair[1], F_SETFL, O_NONBLOCK);
	while (read(pair[1], head, 4) > 0)
		;
	ASSERT_EQ(0, IOL_send(pair[0], NULL, 0, self->ends[0], 0, 100, 0, &n));
	EXPECT_EQ(6, n);

	EXPECT_EQ(-EOPNOTSUPP, IOL_send(pair[0], NULL, 0, self->ends[0], 1, 100, 0, &n));
	EXPECT_EQ(-EOPNOTSUPP, IOL_send(self->ends[1], NULL, 0, self->ends[0], 0, 100, 0, &n));
	EXPECT_EQ(-EBADF, IOL_send(pair[0], NULL, 0, self->ends[1], 0, 100, 0, &n));
	close(self->ends[1]);
	ASSERT_EQ(0, IOL_send(pair[0], "head", 4, self->ends[0], 0, 100, 0, &n));
	EXPECT_EQ(0, n);
	close(pair[0]);
	close(pair[1]);
}

TEST_F(pass, a_full_pipe_is_a_short_write_and_an_empty_one_EAGAIN)
{
	IOL_Agg *agg, *in;
	size_t n;

	fcntl(self->ends[0], F_SETFL, O_NONBLOCK);
	fcntl(self->ends[1], F_SETFL, O_NONBLOCK);
	EXPECT_EQ(-EAGAIN, IOL_read(self->ends[0], &in, 100, &n));
	ASSERT_EQ(0, IOL_create(IOL_DEF_ALLOC, &agg, 1 << 20));
	fill(agg, 1);
	ASSERT_EQ(0, IOL_write_destroy(self->ends[1], &agg, &n));
	EXPECT_EQ(65536, n);
	ASSERT_NE(NULL, agg);
	EXPECT_EQ(-EAGAIN, IOL_write(self->ends[1], agg, &n));
	/* A part of a slot is taken. */
	ASSERT_EQ(0, IOL_read(self->ends[0], &in, 5000, &n));
	EXPECT_EQ(5000, n);
	EXPECT_EQ(5000, right(in, 1, 0));
	IOL_destroy(in);
	ASSERT_EQ(0, IOL_read(self->ends[0], &in, 100000, &n));
	EXPECT_EQ(60536, n);
	EXPECT_EQ(60536, right(in, 1, 5000));
	IOL_destroy(in);
	IOL_destroy(agg);
	close(self->ends[1]);
	ASSERT_EQ(0, IOL_read(self->ends[0], &in, 100, &n));
	EXPECT_EQ(0, n);
	IOL_destroy(in);
}

TEST_F(pass, poll_wakes_for_data_and_EPIPE_comes_for_no_reader)
{
	struct pollfd poll_in = { .fd = self->ends[0], .events = POLLIN };
	IOL_Agg *agg;
	size_t n;

	signal(SIGPIPE, SIG_IGN);
	EXPECT_EQ(0, poll(&poll_in, 1, 0));
	ASSERT_EQ(0, IOL_create(IOL_DEF_ALLOC, &agg, 5000));
	ASSERT_EQ(0, IOL_write(self->ends[1], agg, &n));
	EXPECT_EQ(1, poll(&poll_in, 1, 0));
	close(self->ends[0]);
	EXPECT_EQ(-EPIPE, IOL_write(self->ends[1], agg, &n));
	IOL_destroy(agg);
}

TEST_F(pass, small_data_goes_by_value_and_leaves_the_buffer_open)
{
	unsigned long long made = counter("BuffersMade"), seals = counter("Seals");
	IOL_Agg *agg, *in;
	size_t n;
	int i;

	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, IOL_create(IOL_DEF_ALLOC, &agg, 40));
		fill(agg, i);
		ASSERT_EQ(0, IOL_write_destroy(self->ends[1], &agg, &n));
		ASSERT_EQ(0, IOL_read(self->ends[0], &in, 40, &n));
		EXPECT_EQ(40, right(in, i, 0));
		IOL_destroy(in);
	}
	EXPECT_EQ(seals, counter("Seals"));
	/* One to cut from, and one for each that was read. */
	EXPECT_GE(made + 101, counter("BuffersMade"));
}

TEST_F(pass, writers_of_one_pattern_are_never_mixed)
{
	/* Two that never fit the pipe, and one that often does. */
	static const size_t size[3] = { 150000, 150000, 12000 };
	pid_t writer[3];
	int i, round;

	for (i = 0; i < 3; i++) {
		writer[i] = fork();
		if (!writer[i]) {
			close(self->ends[0]);
			for (round = 0; round < 30; round++) {
				IOL_Agg *agg;
				size_t n;
				char *block = malloc(size[i]);

				memset(block, 'a' + i, size[i]);
				if (IOL_from_memory(IOL_DEF_ALLOC, &agg, block, size[i]))
					_exit(1);
				if (IOL_write_destroy(self->ends[1], &agg, &n) || n != size[i])
					_exit(2);
				free(block);
			}
			_exit(0);
		}
	}
	close(self->ends[1]);
	for (round = 0; round < 90; round++) {
		size_t at = 0, end = size[2];
		char first = 0;

		while (at < end) {
			IOL_Context *context;
			const char *addr;
			IOL_Agg *in;
			size_t n, len, k;

			ASSERT_EQ(0, IOL_read(self->ends[0], &in, end - at, &n));
			ASSERT_NE(0, n);
			IOL_gen_start(in, &context);
			while (!IOL_gen_nextRd(context, &addr, &len) && len) {
				if (!first)
					first = *addr;
				for (k = 0; k < len; k++)
					ASSERT_EQ(first, addr[k]);
			}
			IOL_gen_end(context);
			IOL_destroy(in);
			ASSERT_LE('a', first);
			ASSERT_GE('c', first);
			end = size[first - 'a'];
			at += n;
		}
	}
	for (i = 0; i < 3; i++)
		EXPECT_EQ(0, wait_for(writer[i]));
}

TEST_F(pass, a_killed_writer_leaves_what_it_wrote)
{
	unsigned long long chunks;
	IOL_Agg *in;
	pid_t pid;
	size_t n;

	pid = fork();
	if (!pid) {
		IOL_Agg *agg;

		IOL_create(IOL_DEF_ALLOC, &agg, 65536);
		fill(agg, 9);
		IOL_write(self->ends[1], agg, &n);
		kill(getpid(), SIGKILL);
	}
	EXPECT_EQ(100 + SIGKILL, wait_for(pid));
	ASSERT_EQ(0, IOL_read(self->ends[0], &in, 65536, &n));
	EXPECT_EQ(65536, n);
	EXPECT_EQ(65536, right(in, 9, 0));
	chunks = counter("ChunksMade") - counter("ChunksFreed");
	IOL_destroy(in);
	IOL_flush();
	/* The dead process's pool is gone with the last buffer. */
	EXPECT_EQ(chunks - 1, counter("ChunksMade") - counter("ChunksFreed"));
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
