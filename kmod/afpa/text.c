// SPDX-License-Identifier: GPL-2.0
/*
 * Copied into the socket, the hundred bytes of a header would cost a page fragment of each socket.
 * Instead each CPU makes the text once a second, and all answers of that second refer to it. It
 * comes first, so that an object's header and body are one stretch of memory to TCP and the device.
 */

#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/skbuff.h>
#include <linux/time.h>
#include <linux/timekeeping.h>

#include "text.h"

#define AFPA_TEXT_ROOM	80
static_assert(sizeof("HTTP/1.1 200 OK\r\n"
		     "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
		     "Connection: keep-alive\r\n") <= AFPA_TEXT_ROOM);

#define AFPA_AGE_ROOM	sizeof("Age: 4294967295\r\n")

/**
 * struct afpa_text - texts of one CPU; bottom halves off
 * @frags:  where the room for them comes from
 * @room:   AFPA_TEXT_KINDS times AFPA_TEXT_ROOM bytes, or NULL
 * @second: that they are of
 * @len:    of each
 */
struct afpa_text {
	struct page_frag_cache frags;
	char *room;
	time64_t second;
	u8 len[AFPA_TEXT_KINDS];
};

static DEFINE_PER_CPU(struct afpa_text, afpa_texts);

static const char *const afpa_text_ends[AFPA_TEXT_KINDS] = {
	[AFPA_TEXT_KEPT] = "",
	[AFPA_TEXT_KEPT_OLD] = "Connection: keep-alive\r\n",
	[AFPA_TEXT_CLOSED] = "Connection: close\r\n",
};

static void afpa_text_write(struct afpa_text *text)
{
	static const char days[] = "SunMonTueWedThuFriSat";
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	struct tm tm;
	int i;

	time64_to_tm(text->second, 0, &tm);
	for (i = 0; i < AFPA_TEXT_KINDS; i++)
		text->len[i] = scnprintf(text->room + i * AFPA_TEXT_ROOM, AFPA_TEXT_ROOM,
					 "HTTP/1.1 200 OK\r\n"
					 "Date: %.3s, %02d %.3s %ld %02d:%02d:%02d GMT\r\n%s",
					 days + 3 * tm.tm_wday, tm.tm_mday, months + 3 * tm.tm_mon,
					 tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec,
					 afpa_text_ends[i]);
}

void *afpa_text_get(enum afpa_text_kind kind, unsigned int *len)
{
	struct afpa_text *text = this_cpu_ptr(&afpa_texts);
	time64_t now = ktime_get_real_seconds();
	char *fresh;

	lockdep_assert_in_softirq();	/* or bottom halves off */
	if (!text->room || text->second != now) {
		fresh = page_frag_alloc(&text->frags, AFPA_TEXT_KINDS * AFPA_TEXT_ROOM,
					GFP_ATOMIC | __GFP_NOWARN);
		if (!fresh)
			return NULL;
		/* Answers under way have their own references. */
		if (text->room)
			page_frag_free(text->room);
		text->room = fresh;
		text->second = now;
		afpa_text_write(text);
	}
	*len = text->len[kind];
	return text->room + kind * AFPA_TEXT_ROOM;
}

void *afpa_text_aged(enum afpa_text_kind kind, u32 age, unsigned int *len)
{
	unsigned int before;
	char *text, *aged;

	text = afpa_text_get(kind, &before);
	if (!text)
		return NULL;
	aged = page_frag_alloc(&this_cpu_ptr(&afpa_texts)->frags, AFPA_TEXT_ROOM + AFPA_AGE_ROOM,
			       GFP_ATOMIC | __GFP_NOWARN);
	if (!aged)
		return NULL;
	memcpy(aged, text, before);
	*len = before + scnprintf(aged + before, AFPA_AGE_ROOM, "Age: %u\r\n", age);
	return aged;
}

void afpa_text_exit(void)
{
	struct afpa_text *text;
	int cpu;

	for_each_possible_cpu(cpu) {
		text = per_cpu_ptr(&afpa_texts, cpu);
		if (text->room)
			page_frag_free(text->room);
		page_frag_cache_drain(&text->frags);
	}
}
