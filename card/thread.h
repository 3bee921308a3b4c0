/* SPDX-License-Identifier: GPL-2.0 */
/* The thread of an export: what is not answered where it is received. */
#ifndef CARD_THREAD_H
#define CARD_THREAD_H

#include "serve.h"

struct card_thread;

/* NULL is never returned: ERR_PTR. */
struct card_thread *card_thread_start(struct card_export *export);
/* The queue is empty by then. NULL is fine. */
void card_thread_stop(struct card_thread *thread);

/* Give a request to the thread. Any context but hard interrupt. */
void card_thread_queue(struct card_serve *s);
/* The disk is through with it: answer, by whom the delivery mode says. Any context. */
void card_thread_disk_done(struct card_serve *s);

#endif
