// SPDX-License-Identifier: GPL-2.0
/*
 * afpa_updates ADDRESS:PORT READERS RATE SECONDS BYTES: puts /a, of a site that is there, RATE
 * times a second (0: as fast as it goes), and has READERS connections ask for it all the time.
 *
 * A body is one number again and again, so that it cannot be torn without showing it. It may not be
 * older than what the last put that had returned before the request was sent had.
 */
#include <err.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <afpa.h>

#define HEAD	500
#define DIGITS	8

static const char ask[] = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

struct reader {
	int fd;
	unsigned long least, reads;	/* no older one may come; answers */
	size_t got;
	char *bytes;
};

static size_t body_len;
static atomic_ulong newest;
static atomic_bool stop;
static int poll_fd;

static void reader_ask(struct reader *r)
{
	r->least = atomic_load(&newest);
	r->got = 0;
	if (send(r->fd, ask, sizeof(ask) - 1, MSG_NOSIGNAL) != sizeof(ask) - 1)
		err(1, "send");
}

static void reader_judge(const struct reader *r, const char *body)
{
	unsigned long number;
	char text[DIGITS + 1] = "";

	memcpy(text, body, DIGITS);
	number = strtoul(text, NULL, 10);
	if (memcmp(body, body + DIGITS, body_len - DIGITS))
		errx(1, "a torn answer: it begins with %s", text);
	if (number < r->least)
		errx(1, "version %lu after %lu was put", number, r->least);
}

/* False: more is to come. */
static bool reader_read(struct reader *r)
{
	const char *end;
	ssize_t n;

	n = recv(r->fd, r->bytes + r->got, HEAD + body_len - r->got, MSG_DONTWAIT);
	if (n <= 0)
		err(1, "recv %zd", n);
	r->got += n;
	end = memmem(r->bytes, r->got < HEAD ? r->got : HEAD, "\r\n\r\n", 4);
	if (!end || (size_t)(r->bytes + r->got - end) < 4 + body_len)
		return false;
	if (memcmp(r->bytes, "HTTP/1.1 200 ", 13))
		errx(1, "%.40s", r->bytes);
	reader_judge(r, end + 4);
	r->reads++;
	return true;
}

static void *read_all(void *arg)
{
	struct epoll_event ev[64];
	int i, n;

	(void)arg;
	while (!atomic_load(&stop)) {
		n = epoll_wait(poll_fd, ev, 64, 1000);
		for (i = 0; i < n; i++)
			if (reader_read(ev[i].data.ptr))
				reader_ask(ev[i].data.ptr);
	}
	return NULL;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void put(int dev, const struct afpa_site *site, char *body, unsigned long number)
{
	struct afpa_object obj = { .type = "text/plain", .body = body, .body_len = body_len };
	char text[DIGITS + 1];
	size_t i;

	snprintf(text, sizeof(text), "%08lu", number % 100000000);
	for (i = 0; i < body_len; i += DIGITS)
		memcpy(body + i, text, DIGITS);
	if (afpa_put(dev, site, "*", "/a", &obj, NULL))
		err(1, "put");
	atomic_store(&newest, number);
}

/* Number of puts; each in its time, or at once when that has passed. */
static unsigned long update(int dev, const struct afpa_site *site, char *body, double rate,
			    double seconds)
{
	double begin = now(), wait;
	unsigned long number = 0;

	while (now() < begin + seconds) {
		put(dev, site, body, ++number);
		wait = rate ? begin + number / rate - now() : 0;
		if (wait > 0)
			usleep(wait * 1e6);
	}
	return number;
}

int main(int argc, char **argv)
{
	unsigned long puts, least = -1ul, most = 0, all = 0;
	struct sockaddr_in at = { .sin_family = AF_INET };
	int dev = afpa_open(), nr, i;
	struct afpa_site site;
	struct reader *readers;
	pthread_t thread;
	double seconds;
	char *body;

	if (argc != 6 || afpa_site_parse(&site, argv[1]))
		errx(2, "usage: afpa_updates ADDRESS:PORT READERS RATE SECONDS BYTES");
	nr = atoi(argv[2]);
	seconds = atof(argv[4]);
	body_len = atol(argv[5]) / DIGITS * DIGITS;
	body = malloc(body_len);
	readers = calloc(nr, sizeof(*readers));
	poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (dev < 0 || !body || !readers || poll_fd < 0)
		err(1, "begin");
	memcpy(&at.sin_addr, site.addr, sizeof(at.sin_addr));
	at.sin_port = site.port;
	put(dev, &site, body, 0);
	for (i = 0; i < nr; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &readers[i] };

		readers[i].bytes = malloc(HEAD + body_len);
		readers[i].fd = socket(AF_INET, SOCK_STREAM, 0);
		if (!readers[i].bytes || connect(readers[i].fd, (void *)&at, sizeof(at)) ||
		    epoll_ctl(poll_fd, EPOLL_CTL_ADD, readers[i].fd, &ev))
			err(1, "reader");
		reader_ask(&readers[i]);
	}
	if (pthread_create(&thread, NULL, read_all, NULL))
		errx(1, "thread");
	/* This thread alone: its time comes when it comes. */
	setpriority(PRIO_PROCESS, 0, -20);
	puts = update(dev, &site, body, atof(argv[3]), seconds);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	for (i = 0; i < nr; i++) {
		least = readers[i].reads < least ? readers[i].reads : least;
		most = readers[i].reads > most ? readers[i].reads : most;
		all += readers[i].reads;
	}
	printf("{\"puts\": %lu, \"reads\": %lu, \"least\": %lu, \"most\": %lu}\n", puts, all, least,
	       most);
	return 0;
}
