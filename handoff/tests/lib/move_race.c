// SPDX-License-Identifier: GPL-2.0
/*
 * move_race SECONDS: connections whose requests always could move and never do, and whose readers
 * empty their queues while the kernel tries. What arrives is told of to nobody most of the time
 * (SO_RCVLOWAT), so that the wake-up after a refused move is the first to see it. Prints how often
 * a move was refused.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <flotilla/handoff.h>
#include <flotilla/move.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIRS	2
#define WORD	"GET a"

static struct sockaddr_in address = { .sin_family = AF_INET };
static volatile bool over;

static void must(bool done, const char *what)
{
	if (done)
		return;
	perror(what);
	exit(2);
}

static int listener(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	must(!bind(fd, (struct sockaddr *)&address, sizeof(address)) && !listen(fd, 128), "listen");
	return fd;
}

static void *ask(void *arg)
{
	int fd = *(int *)arg, on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	while (!over)
		if (send(fd, WORD, strlen(WORD), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			sched_yield();
	return NULL;
}

static void low_water(int fd, int bytes)
{
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

static void *take(void *arg)
{
	int fd = *(int *)arg, i;
	char text[sizeof(WORD)];

	while (!over) {
		low_water(fd, 1);
		low_water(fd, 1 << 20);
		/* In whole words, so that what is left begins as a request does. */
		for (i = 0; i < 100 && !over; i++) {
			ssize_t got = recv(fd, text, strlen(WORD), MSG_DONTWAIT);

			while (got > 0 && got < (ssize_t)strlen(WORD) && !over) {
				ssize_t more = recv(fd, text, strlen(WORD) - got, MSG_DONTWAIT);

				got += more > 0 ? more : 0;
			}
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct hof_move_start start = { .size = sizeof(start) };
	int client[PAIRS], served[PAIRS], old, new, move, i;
	struct hof_move_status status;
	pthread_t threads[2 * PAIRS];
	unsigned long refused = 0;
	char text[sizeof(WORD)];

	address.sin_port = htons(8080);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	old = listener();
	for (i = 0; i < PAIRS; i++) {
		client[i] = socket(AF_INET, SOCK_STREAM, 0);
		must(!connect(client[i], (struct sockaddr *)&address, sizeof(address)), "connect");
		served[i] = accept(old, NULL, NULL);
		must(send(client[i], WORD, strlen(WORD), 0) > 0 && recv(served[i], text, strlen(WORD), 0) > 0 &&
		     send(served[i], "x", 1, 0) == 1 && recv(client[i], text, 1, 0) == 1, "an exchange");
	}
	new = listener();
	move = ioctl(open("/dev/handoff", O_RDWR), HOF_IOC_MOVE, &start);
	must(move >= 0 && !ioctl(move, HOF_MOVE_TO, new), "HOF_IOC_MOVE");
	for (i = 0; i < PAIRS; i++) {
		must(!ioctl(move, HOF_MOVE_CONN, served[i]), "HOF_MOVE_CONN");
		pthread_create(&threads[2 * i], NULL, ask, &client[i]);
		pthread_create(&threads[2 * i + 1], NULL, take, &served[i]);
	}
	sleep(argc > 1 ? atoi(argv[1]) : 20);
	over = true;
	for (i = 0; i < 2 * PAIRS; i++)
		pthread_join(threads[i], NULL);
	must(!ioctl(move, HOF_MOVE_STATUS, &status), "HOF_MOVE_STATUS");
	for (i = 0; i < HOF_MOVE_REASONS; i++)
		refused += status.refused[i];
	printf("%lu moves were refused\n", refused);
	return 0;
}
