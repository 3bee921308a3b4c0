/* SPDX-License-Identifier: GPL-2.0 */
/* Files of settings that are read and compared, and what is said of them. */
#ifndef FLOTILLA_TEST_SETTINGS_H
#define FLOTILLA_TEST_SETTINGS_H

#include "tools/flotilla/config.h"

#define LOCAL	"local name fe address 10.0.0.1\n"
#define ONE	LOCAL "node be1 address 10.0.0.2\n"

extern char said[4096];

/* What these say on standard error is in @said. */
int read_file(const char *path, struct config *config);
int read_text(const char *text, struct config *config);
void must_read(const char *text, struct config *config);
/* The sentence without "flotilla: " and the name of the file. */
const char *sentence(void);
/* As save prints it; to be freed. */
char *printed(const struct config *config);

struct comparing {
	struct config live, wanted;
	bool keep;
	struct changes changes;
};

int compare_again(struct comparing *c);
int compare(struct comparing *c, const char *live, const char *wanted, bool keep);
void done(struct comparing *c);

/* A text that is wrong, and what @said begins with. */
struct bad {
	const char *text, *sentence;
};

void must_refuse(const struct bad *bad, size_t nr);

struct difference {
	const char *live, *wanted;
	bool keep;
	const char *changes;	/* a line each, in the order of their phases */
};

void must_differ(const struct difference *differences, size_t nr);

#endif
