// SPDX-License-Identifier: GPL-2.0
/* The targets that are asked for most. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hot.h"

struct hot *hot_new(void)
{
	struct hot *hot = calloc(1, sizeof(*hot));

	if (hot)
		pthread_mutex_init(&hot->lock, NULL);
	return hot;
}

void hot_free(struct hot *hot)
{
	if (hot)
		pthread_mutex_destroy(&hot->lock);
	free(hot);
}

static void keep_text(char *out, const char *text, size_t len)
{
	size_t at = 0, i;

	for (i = 0; i < len && at < HOT_TEXT - 6; i++) {
		unsigned char c = text[i];

		if (c > ' ' && c < 0x7f)
			out[at++] = c;
		else
			at += sprintf(out + at, "%%%02X", c);
	}
	strcpy(out + at, i < len ? "..." : "");
}

/* Where @key is, or will be: in the place of the rarest, if there is no other. */
static unsigned int place(const struct hot *hot, uint64_t key)
{
	unsigned int i, rarest = 0;

	for (i = 0; i < hot->used; i++)
		if (hot->keys[i] == key)
			return i;
	if (hot->used < HOT_MAX)
		return hot->used;
	for (i = 1; i < HOT_MAX; i++)
		if (hot->counts[i] < hot->counts[rarest])
			rarest = i;
	return rarest;
}

static void add(struct hot *hot, uint64_t key, uint64_t count, const char *text, size_t len)
{
	unsigned int i = place(hot, key);

	if (i == hot->used)
		hot->counts[hot->used++] = 0;
	else if (hot->keys[i] == key)
		text = NULL;
	hot->keys[i] = key;
	hot->counts[i] += count;
	if (text)
		keep_text(hot->texts[i], text, len);
}

void hot_note(struct hot *hot, uint64_t key, const char *text, size_t len)
{
	pthread_mutex_lock(&hot->lock);
	add(hot, key, 1, text, len);
	pthread_mutex_unlock(&hot->lock);
}

void hot_add(struct hot *to, struct hot *from)
{
	unsigned int i;

	pthread_mutex_lock(&from->lock);
	for (i = 0; i < from->used; i++)
		add(to, from->keys[i], from->counts[i], from->texts[i], strlen(from->texts[i]));
	pthread_mutex_unlock(&from->lock);
}

void hot_age(struct hot *hot)
{
	unsigned int i;

	pthread_mutex_lock(&hot->lock);
	for (i = 0; i < hot->used; i++)
		hot->counts[i] /= 2;
	pthread_mutex_unlock(&hot->lock);
}

static void swap(struct hot *hot, unsigned int a, unsigned int b)
{
	uint64_t key = hot->keys[a], count = hot->counts[a];
	char text[HOT_TEXT];

	memcpy(text, hot->texts[a], HOT_TEXT);
	hot->keys[a] = hot->keys[b];
	hot->counts[a] = hot->counts[b];
	memcpy(hot->texts[a], hot->texts[b], HOT_TEXT);
	hot->keys[b] = key;
	hot->counts[b] = count;
	memcpy(hot->texts[b], text, HOT_TEXT);
}

/* Equal ones by key, so that they stay where they are from one page to the next. */
static int before(const struct hot *hot, unsigned int a, unsigned int b)
{
	return hot->counts[a] != hot->counts[b] ? hot->counts[a] > hot->counts[b] :
						  hot->keys[a] < hot->keys[b];
}

void hot_sort(struct hot *hot)
{
	unsigned int i, j;

	for (i = 1; i < hot->used; i++)
		for (j = i; j && before(hot, j, j - 1); j--)
			swap(hot, j, j - 1);
}
