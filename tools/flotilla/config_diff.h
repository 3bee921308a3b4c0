/* SPDX-License-Identifier: GPL-2.0 */
/* What the comparisons of all kinds of things share. */
#ifndef FLOTILLA_CLI_CONFIG_DIFF_H
#define FLOTILLA_CLI_CONFIG_DIFF_H

#include "config.h"

/**
 * struct compare - one comparison
 * @keep: what is not in the file stays
 */
struct compare {
	struct cli *cli;
	const struct config *live, *wanted;
	bool keep;
	struct changes *changes;
};

/* @memory, or the end: nothing has been changed yet, there is nothing to be told but that there is none. */
void *have(void *memory);
char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* @words is freed. */
char *with_words(const char *before, char *words);
struct change *add_change(struct compare *c, char sign, enum change_phase phase, const char *place);

/**
 * struct diff - differences of one thing
 * @to, @text:    for people: "weight 100 -> 50, admin active -> drain"
 * @args, @words: the new values as arguments of a command: " weight 50 admin drain"
 * @nr:           how many
 */
struct diff {
	FILE *to, *args;
	char *text, *words;
	size_t text_size, words_size;
	unsigned int nr;
};

void diff_begin(struct diff *d);
void diff_end(struct diff *d);
void diff_free(struct diff *d);
/* Nothing when both are equal. */
void diff_text(struct diff *d, const char *key, const char *was, const char *is);
void diff_number(struct diff *d, const char *key, unsigned int was, unsigned int is);
void diff_word(struct diff *d, const char *key, const struct words *words, uint8_t was, uint8_t is);
void diff_address(struct diff *d, const char *key, const struct sockaddr_storage *was,
		  const struct sockaddr_storage *is);

/* Rules of services (config_rule.c): those that are wanted, and those that go. */
int compare_rules(struct compare *c);
void compare_rules_gone(struct compare *c);

#endif
