/* SPDX-License-Identifier: GPL-2.0 */
/*
 * FastCGI: persistent programs behind a socket. A pool knows how one of them is reached and who waits
 * for it; "exec:PROGRAM" starts the processes too, with the socket as descriptor 0.
 */
#ifndef FLASH_FCGI_H
#define FLASH_FCGI_H

#include "app.h"
#include "fcgi_record.h"
#include "said.h"

/**
 * struct fcgi_pool - one program as one worker sees it
 * @idle:   open connections without a request, @nr_idle; all of them: @nr
 * @unheard: connections whose request the program has not answered yet, perhaps not even accepted
 * @waiting: runs without a connection, because there are fastcgi_connections
 * @retry:  when they try again
 * @listen: exec: what the processes accept on, @file where it is to be found
 * @spawn:  exec: starts one process; @missing says how many to go
 */
struct fcgi_pool {
	struct worker *w;
	const struct app *app;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	struct list idle, waiting;
	unsigned int nr, nr_idle, unheard;
	bool serving;			/* in next_waiting() */
	struct timer retry;
	int listen, file;
	unsigned int missing;
	bool spawning, stop;
	struct job spawn;
	struct timer respawn;
	pid_t pid;
	int said;			/* of @pid, its standard error */
};

/**
 * struct fcgi - one connection to the program
 * @run:    request it works for; NULL when idle
 * @reused: the program may have closed it meanwhile: worth a second try
 * @out:    records to write
 * @sent:   bytes of the request body put into records
 * @left, @pad: of the record being read
 * @said:   of a line on its standard error; made on first use
 */
struct fcgi {
	struct watch watch;
	struct grave grave;
	struct list node;
	struct timer timer;		/* idle */
	struct fcgi_pool *pool;
	struct app_run *run;
	bool unheard, is_idle, reused, heard, stdin_done;
	char *out;
	size_t out_off, out_len;
	uint64_t sent;
	uint8_t head[HEADER];
	unsigned int head_len, left, pad;
	uint8_t end[8];
	unsigned int end_len;
	struct said_line *said;
};

/* Made on first use; NULL: it cannot be. */
struct fcgi_pool *fcgi_pool_get(struct worker *w, const struct app *app);
/* Who waits for a connection gets one, as long as there are any. */
void fcgi_pool_serve(struct fcgi_pool *p);
bool fcgi_pool_may_keep(const struct fcgi_pool *p);

/* Gives the run a connection, @fresh: none that was kept; or it waits. 0, or minus an HTTP status. */
int fcgi_begin(struct app_run *run, bool fresh);
void fcgi_close(struct fcgi *f);

#endif
