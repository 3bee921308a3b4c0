/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The terminal as a screen that is drawn anew again and again.
 *
 *	terminal_open(&t);	// signals now arrive within terminal_wait() and _draw() only
 *	while (terminal_draw(&t, text) &&
 *	       terminal_wait(&t, terminal_clock() + 1) != TERMINAL_END)
 *		...
 *	terminal_close(&t);	// as it was; a signal that ended it ends the process now
 */
#ifndef FLOTILLA_TERMINAL_H
#define FLOTILLA_TERMINAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

/**
 * struct terminal - standard output, and standard input if that is a terminal, too
 * @is_raw:  keys come at once and are not shown; @before is how it was
 * @is_shown: our screen is
 * @out:      the same terminal, without blocking
 * @waiting:  the signals that this process blocked before, and blocks while it waits
 * @caught:   those that are handled
 */
struct terminal {
	bool is_raw, is_shown;
	int out;
	struct termios before;
	sigset_t waiting, caught;
};

enum terminal_event { TERMINAL_TIME, TERMINAL_SIZE, TERMINAL_END };

/* Can standard output be one? Not a pipe, nor one that knows no escapes. */
bool terminal_is_one(void);
void terminal_open(struct terminal *t);
void terminal_close(struct terminal *t);
/* At least 1 each. */
void terminal_size(unsigned int *rows, unsigned int *columns);
/* Lines of plain ASCII; what does not fit is cut. False: it is over. */
bool terminal_draw(struct terminal *t, const char *text);
/* Monotonic, in seconds. */
double terminal_clock(void);
/* Until the clock is @until, the size has changed, or it is over: a signal, "q", no terminal. */
enum terminal_event terminal_wait(struct terminal *t, double until);

#endif
