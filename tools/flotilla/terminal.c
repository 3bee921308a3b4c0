// SPDX-License-Identifier: GPL-2.0
/* The terminal: its modes, its size, its keys, and its signals. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "terminal.h"

#define ENTER	"\033[?1049h\033[?25l"	/* the other screen, without a cursor */
#define LEAVE	"\033[?25h\033[?1049l"

static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGWINCH, SIGTSTP };
static volatile sig_atomic_t ended_by, resized, stopped;

static void on_signal(int signal)
{
	if (signal == SIGWINCH)
		resized = 1;
	else if (signal == SIGTSTP)
		stopped = 1;
	else
		ended_by = signal;
}

bool terminal_is_one(void)
{
	const char *kind = getenv("TERM");

	return isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb");
}

static void handle(struct terminal *t, int signal)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct sigaction was;

	/* What who started us ignores (nohup) stays ignored. */
	if (!sigaction(signal, NULL, &was) && was.sa_handler == SIG_IGN)
		return;
	sigaction(signal, &action, NULL);
	sigaddset(&t->caught, signal);
}

static void let_signals_be(struct terminal *t)
{
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigismember(&t->caught, signals[i]))
			signal(signals[i], SIG_DFL);
	if (ended_by)
		raise(ended_by);	/* who started us learns that it was a signal */
	sigprocmask(SIG_SETMASK, &t->waiting, NULL);
}

static void catch_signals(struct terminal *t)
{
	size_t i;

	sigemptyset(&t->caught);
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		handle(t, signals[i]);
	sigprocmask(SIG_BLOCK, &t->caught, &t->waiting);
}

/* Not for longer than a moment: the terminal may be gone, or nobody reads what it gets. */
static void put(const struct terminal *t, const char *text)
{
	struct pollfd ready = { .fd = t->out, .events = POLLOUT };

	if (poll(&ready, 1, 1000) <= 0 || write(t->out, text, strlen(text)) < 0)
		return;
}

/* In the background the kernel stops us here: then a signal has to be able to end us. */
static void enter(struct terminal *t)
{
	struct termios raw;

	sigprocmask(SIG_SETMASK, &t->waiting, NULL);
	if (isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &t->before)) {
		raw = t->before;
		raw.c_lflag &= ~(ICANON | ECHO);
		raw.c_cc[VMIN] = 1;
		raw.c_cc[VTIME] = 0;
		t->is_raw = !tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	sigprocmask(SIG_BLOCK, &t->caught, NULL);
	t->is_shown = !ended_by;
	if (t->is_shown)
		put(t, ENTER);
}

static void leave(struct terminal *t)
{
	if (t->is_shown) {
		/* What ^S has stopped goes on only if it was stopped so, too. */
		tcflow(STDOUT_FILENO, TCOOFF);
		tcflow(STDOUT_FILENO, TCOON);
		put(t, LEAVE);
	}
	if (t->is_raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
	t->is_raw = t->is_shown = false;
}

void terminal_open(struct terminal *t)
{
	*t = (struct terminal){ 0 };
	fflush(stdout);
	/* Others, who have standard output too, go on waiting for it. */
	t->out = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (t->out < 0)
		t->out = dup(STDOUT_FILENO);
	catch_signals(t);
	enter(t);
}

void terminal_close(struct terminal *t)
{
	leave(t);
	close(t->out);
	let_signals_be(t);
}

/* Stopped by ^Z the shell has its own screen; going on, ours is there again. */
static void stop(struct terminal *t)
{
	stopped = 0;
	leave(t);
	raise(SIGSTOP);
	sigprocmask(SIG_SETMASK, &t->waiting, NULL);
	sigprocmask(SIG_BLOCK, &t->caught, NULL);
	if (!ended_by)
		enter(t);
	resized = 1;
}

void terminal_size(unsigned int *rows, unsigned int *columns)
{
	struct winsize size = { 0 };

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*rows = size.ws_row ? size.ws_row : 24;
	*columns = size.ws_col ? size.ws_col : 80;
}

/* The screen: each line up to the width, and nothing else. To be freed. */
static char *compose(const char *text, size_t *len)
{
	unsigned int rows, columns, row;
	char *screen = NULL;
	FILE *out;
	size_t n;

	terminal_size(&rows, &columns);
	out = open_memstream(&screen, len);
	if (!out)
		return NULL;
	fputs("\033[H", out);
	for (row = 0; row < rows && *text; row++) {
		n = strcspn(text, "\n");
		fprintf(out, "%s%.*s\033[K", row ? "\r\n" : "",
			(int)(n < columns ? n : columns), text);
		text += n + (text[n] == '\n');
	}
	fputs("\033[J", out);
	if (!fclose(out))
		return screen;
	free(screen);
	return NULL;
}

static bool is_over(struct terminal *t)
{
	if (stopped && !ended_by)
		stop(t);
	return ended_by;
}

/* A terminal that takes nothing (^S) must not keep a signal waiting. */
bool terminal_draw(struct terminal *t, const char *text)
{
	static const struct timespec moment = { .tv_nsec = 10 * 1000 * 1000 };
	struct pollfd ready = { .fd = t->out, .events = POLLOUT };
	size_t len = 0, done = 0;
	char *screen = compose(text, &len);
	ssize_t n;

	while (screen && done < len && !is_over(t)) {
		if (ppoll(&ready, 1, NULL, &t->waiting) < 0)
			continue;
		n = write(t->out, screen + done, len - done);
		if (n < 0 && errno != EAGAIN)
			break;
		if (n < 0)
			ppoll(NULL, 0, &moment, &t->waiting);
		if (n > 0)
			done += n;
	}
	free(screen);
	return done && done == len && !is_over(t);
}

double terminal_clock(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}

enum terminal_event terminal_wait(struct terminal *t, double until)
{
	struct pollfd in = { .fd = t->is_raw ? STDIN_FILENO : -1, .events = POLLIN };
	struct timespec limit;
	double left;
	char key;

	while (!is_over(t)) {
		if (resized) {
			resized = 0;
			return TERMINAL_SIZE;
		}
		left = until - terminal_clock();
		if (left <= 0)
			return TERMINAL_TIME;
		limit = (struct timespec){ left, (left - (time_t)left) * 1e9 };
		if (ppoll(&in, 1, &limit, &t->waiting) <= 0 || !in.revents)
			continue;
		if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q')
			return TERMINAL_END;
	}
	return TERMINAL_END;
}
