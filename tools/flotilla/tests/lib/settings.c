// SPDX-License-Identifier: GPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "tools/flotilla/tests/lib/settings.h"

#define TEMPLATE	"/tmp/flotilla_config.XXXXXX"

char said[4096];

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* What goes to standard error meanwhile is in @said. */
static int hear(int (*fn)(void *arg), void *arg)
{
	int error = dup(2), result;
	FILE *f = tmpfile();
	size_t len;

	assert_non_null(f);
	fflush(stderr);
	dup2(fileno(f), 2);
	result = fn(arg);
	fflush(stderr);
	dup2(error, 2);
	close(error);
	rewind(f);
	len = fread(said, 1, sizeof(said) - 1, f);
	said[len] = '\0';
	fclose(f);
	return result;
}

struct reading {
	const char *path;
	struct config *config;
};

static int do_read(void *arg)
{
	struct reading *r = arg;
	struct cli cli = { 0 };

	return config_read(&cli, r->path, r->config);
}

int read_file(const char *path, struct config *config)
{
	struct reading r = { path, config };

	return hear(do_read, &r);
}

int read_text(const char *text, struct config *config)
{
	static char path[sizeof(TEMPLATE)];	/* what was read keeps its name */
	int status;

	strcpy(path, TEMPLATE);
	close(mkstemp(path));
	write_file(path, text);
	status = read_file(path, config);
	unlink(path);
	return status;
}

void must_read(const char *text, struct config *config)
{
	if (read_text(text, config))
		fail_msg("%s: %.200s", said, text);
}

const char *sentence(void)
{
	const char *prefix = "flotilla: " TEMPLATE;

	said[strcspn(said, "\n")] = '\0';
	return strlen(said) > strlen(prefix) ? said + strlen(prefix) : said;
}

char *printed(const struct config *config)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	config_print_text(config, f);
	fclose(f);
	return text;
}

static int do_compare(void *arg)
{
	struct comparing *c = arg;
	struct cli cli = { 0 };

	return config_compare(&cli, &c->live, &c->wanted, c->keep, &c->changes);
}

int compare_again(struct comparing *c)
{
	return hear(do_compare, c);
}

int compare(struct comparing *c, const char *live, const char *wanted, bool keep)
{
	size_t i;

	memset(c, 0, sizeof(*c));
	c->keep = keep;
	must_read(live, &c->live);
	must_read(wanted, &c->wanted);
	/* The kernel knows keys by number. */
	for (i = 0; i < c->live.nr_nodes; i++)
		c->live.nodes[i].info.key = atoi(c->live.nodes[i].key);
	return compare_again(c);
}

void done(struct comparing *c)
{
	changes_free(&c->changes);
	config_free(&c->live);
	config_free(&c->wanted);
}

void must_refuse(const struct bad *bad, size_t nr)
{
	struct config config;
	size_t i;

	for (i = 0; i < nr; i++) {
		int status = read_text(bad[i].text, &config);

		/* Only the first few letters of a JSON library's own sentence are ours to claim. */
		if (status != CLI_USAGE || strncmp(sentence(), bad[i].sentence, strlen(bad[i].sentence)))
			fail_msg("%s: status %d: %s\nexpected %s", bad[i].text, status, said, bad[i].sentence);
		config_free(&config);
	}
}

void must_differ(const struct difference *differences, size_t nr)
{
	struct comparing c;
	char seen[4096];
	size_t i, j, n;
	int phase;

	for (i = 0; i < nr; i++) {
		if (compare(&c, differences[i].live, differences[i].wanted, differences[i].keep))
			fail_msg("%s: %s", differences[i].wanted, said);
		seen[0] = '\0';
		for (phase = 0, n = 0; phase < NR_PHASES; phase++)
			for (j = 0; j < c.changes.nr; j++)
				if ((int)c.changes.list[j].phase == phase && c.changes.list[j].sign)
					n += snprintf(seen + n, sizeof(seen) - n, "%c %s\n", c.changes.list[j].sign,
						      c.changes.list[j].text);
		if (strcmp(seen, differences[i].changes))
			fail_msg("from %s to %s: %s\nexpected %s", differences[i].live, differences[i].wanted, seen,
				 differences[i].changes);
		done(&c);
	}
}
