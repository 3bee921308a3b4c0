// SPDX-License-Identifier: GPL-2.0
/* Which source it is, and nodes from its answers. */
#include <string.h>
#include "source.h"

static const struct source_kind *const kinds[] = { &source_file, &source_dns, &source_etcd, &source_kube };

int source_open(struct source *s, const char *text)
{
	size_t i, len;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		len = strlen(kinds[i]->scheme);
		if (!strncmp(text, kinds[i]->scheme, len) && text[len] == ':') {
			s->kind = kinds[i];
			return s->kind->open(s, text + len + 1);
		}
	}
	return cli_usage(s->cli, "%s does not begin with file:, dns:, etcd: or kube:", text);
}

void source_place(struct source *s, const struct config *answer, const char *place)
{
	config_place(s->cli, answer, place);
	s->cli->doing[0] = '\0';
}

int answer_node(struct source *s, struct config *answer, const char *place, const char *name, const char *address,
		const char *port, const char *weight, const char *admin)
{
	char *words[10] = { "node", (char *)name, "address", (char *)address };
	int nr = 4;

	if (port) {
		words[nr++] = "port";
		words[nr++] = (char *)port;
	}
	if (weight) {
		words[nr++] = "weight";
		words[nr++] = (char *)weight;
	}
	if (admin) {
		words[nr++] = "admin";
		words[nr++] = (char *)admin;
	}
	return config_take(s->cli, answer, place, nr, words);
}

void first_label(const char *name, char *label, size_t size)
{
	snprintf(label, size, "%.*s", (int)strcspn(name, "."), name);
}
