// SPDX-License-Identifier: GPL-2.0
/* Differences, as text for people and as words of commands. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "config_diff.h"

void *have(void *memory)
{
	if (memory)
		return memory;
	fputs("flotilla: out of memory\n", stderr);
	exit(CLI_FAILED);
}

char *text_of(const char *format, ...)
{
	char *text = NULL;
	va_list args;
	int len;

	va_start(args, format);
	len = vasprintf(&text, format, args);
	va_end(args);
	return have(len < 0 ? NULL : text);
}

char *with_words(const char *before, char *words)
{
	char *text = text_of("%s %s", before, (char *)have(words));

	free(words);
	return text;
}

struct change *add_change(struct compare *c, char sign, enum change_phase phase, const char *place)
{
	struct changes *changes = c->changes;
	struct change *change;

	changes->list = have(reallocarray(changes->list, changes->nr + 1, sizeof(*change)));
	change = memset(&changes->list[changes->nr++], 0, sizeof(*change));
	change->sign = sign;
	change->phase = phase;
	change->place = place;
	return change;
}

void diff_begin(struct diff *d)
{
	memset(d, 0, sizeof(*d));
	d->to = have(open_memstream(&d->text, &d->text_size));
	d->args = have(open_memstream(&d->words, &d->words_size));
}

void diff_end(struct diff *d)
{
	if (fclose(d->to) | fclose(d->args))
		have(NULL);
}

void diff_free(struct diff *d)
{
	free(d->text);
	free(d->words);
}

void diff_text(struct diff *d, const char *key, const char *was, const char *is)
{
	if (!strcmp(was, is))
		return;
	fprintf(d->to, "%s%s %s -> %s", d->nr++ ? ", " : "", key, was[0] ? was : "none", is[0] ? is : "none");
	fprintf(d->args, " %s %s", key, is);
}

void diff_number(struct diff *d, const char *key, unsigned int was, unsigned int is)
{
	char a[16], b[16];

	snprintf(a, sizeof(a), "%u", was);
	snprintf(b, sizeof(b), "%u", is);
	diff_text(d, key, a, b);
}

void diff_word(struct diff *d, const char *key, const struct words *words, uint8_t was, uint8_t is)
{
	diff_text(d, key, word_of(words, was), word_of(words, is));
}

void diff_address(struct diff *d, const char *key, const struct sockaddr_storage *was,
			 const struct sockaddr_storage *is)
{
	char a[64], b[64];

	diff_text(d, key, address_text(was, a, sizeof(a)), address_text(is, b, sizeof(b)));
}

void changes_free(struct changes *changes)
{
	size_t i;

	for (i = 0; i < changes->nr; i++) {
		struct change *c = &changes->list[i];

		free(c->text);
		free(c->early);
		free(c->commands[0]);
		free(c->commands[1]);
		free(c->undo);
	}
	free(changes->list);
	memset(changes, 0, sizeof(*changes));
}
