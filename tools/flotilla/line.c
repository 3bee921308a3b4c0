// SPDX-License-Identifier: GPL-2.0
/* Words of a line, read and written. */
#include <string.h>
#include "cli.h"

#define BLANKS	" \t\r\n"

/* One word, in place. Return: what follows it, or NULL without its second quotation mark. */
static char *take_word(char *line)
{
	char *to = line;
	bool quoted = false;

	for (; *line && (quoted || !strchr(BLANKS, *line)); line++) {
		if (*line == '"') {
			quoted = !quoted;
			continue;
		}
		if (quoted && *line == '\\' && line[1])
			*to++ = *++line == 'n' ? '\n' : *line;
		else
			*to++ = *line;
	}
	if (quoted)
		return NULL;
	if (*line)
		line++;
	*to = '\0';
	return line;
}

int cli_split(char *line, char *words[CLI_WORDS])
{
	int nr = 0;

	for (;;) {
		line += strspn(line, BLANKS);
		if (!*line || *line == '#')
			return nr;
		if (nr == CLI_WORDS)
			return CLI_TOO_MANY;
		words[nr++] = line;
		line = take_word(line);
		if (!line)
			return CLI_OPEN_QUOTE;
	}
}

const char *cli_split_why(int nr)
{
	return nr == CLI_OPEN_QUOTE ? "a quotation mark has no second one" : "a line has 64 words at most";
}

void cli_put_word(FILE *to, const char *word)
{
	if (*word && *word != '#' && !word[strcspn(word, BLANKS "\"\\")]) {
		fputs(word, to);
		return;
	}
	putc('"', to);
	for (; *word; word++) {
		if (*word == '"' || *word == '\\' || *word == '\n')
			putc('\\', to);
		putc(*word == '\n' ? 'n' : *word, to);
	}
	putc('"', to);
}
