// SPDX-License-Identifier: GPL-2.0
/* Values of arguments: from text, with a sentence when it is wrong, and to text. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

#define WORDS(...) {							\
	.name = (const char *const []){ __VA_ARGS__ },			\
	.nr = ARRAY_SIZE(((const char *const []){ __VA_ARGS__ })),	\
}

const struct words node_states = WORDS("down", "connecting", "up");
const struct words node_admins = WORDS("active", "drain", "maintenance");
const struct words node_roles = WORDS("backend", "frontend");
const struct words forwards = WORDS("direct", "ipip", "udp");
const struct words auths = WORDS("none", "psk", "x509");
const struct words switches = WORDS("off", "on");

const char *word_of(const struct words *words, unsigned int value)
{
	return value < words->nr ? words->name[value] : "unknown";
}

int value_word(struct cli *cli, const char *what, const char *text, const struct words *words,
	       uint8_t *out)
{
	char choice[128] = "";
	unsigned int i;

	for (i = 0; i < words->nr; i++) {
		if (!strcmp(words->name[i], text)) {
			*out = i;
			return 0;
		}
		snprintf(choice + strlen(choice), sizeof(choice) - strlen(choice), "%s%s",
			 i ? i + 1 == words->nr ? " or " : ", " : "", words->name[i]);
	}
	return cli_usage(cli, "%s %s is not %s", what, text, choice);
}

int value_number(struct cli *cli, const char *what, const char *text, uint64_t min, uint64_t max,
		 uint64_t *out)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end)
		return cli_usage(cli, "%s %s is not a number", what, text);
	if (errno || value < min || value > max)
		return cli_usage(cli, "%s %s is not between %llu and %llu", what, text,
				 (unsigned long long)min, (unsigned long long)max);
	*out = value;
	return 0;
}

int value_address(struct cli *cli, const char *what, const char *text,
		  struct sockaddr_storage *out)
{
	struct sockaddr_in6 *v6 = (void *)out;
	struct sockaddr_in *v4 = (void *)out;
	uint16_t port = address_port(out);

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		return 0;
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		return 0;
	}
	return cli_usage(cli, "%s %s is not an address", what, text);
}

/* sin_port and sin6_port are at the same place, so the family may come later. */
int value_port(struct cli *cli, const char *text, struct sockaddr_storage *addr)
{
	uint64_t port;
	int status;

	status = value_number(cli, "port", text, 1, 65535, &port);
	if (!status)
		((struct sockaddr_in *)addr)->sin_port = htons(port);
	return status;
}

uint16_t address_port(const struct sockaddr_storage *ss)
{
	return ntohs(((const struct sockaddr_in *)ss)->sin_port);
}

int value_name(struct cli *cli, const char *text, char out[FLT_NAME_MAX])
{
	size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			    "0123456789._-");

	if (text[len])
		return cli_usage(cli, "name %s has a character other than letters, digits, '.', '_', '-'",
				 text);
	if (!len || len >= FLT_NAME_MAX)
		return cli_usage(cli, "name \"%s\" does not have 1 to %d characters", text,
				 FLT_NAME_MAX - 1);
	memcpy(out, text, len + 1);
	return 0;
}

const char *address_text(const struct sockaddr_storage *ss, char *text, size_t size)
{
	const void *addr = ss->ss_family == AF_INET ?
		(const void *)&((const struct sockaddr_in *)ss)->sin_addr :
		(const void *)&((const struct sockaddr_in6 *)ss)->sin6_addr;

	if ((ss->ss_family != AF_INET && ss->ss_family != AF_INET6) ||
	    !inet_ntop(ss->ss_family, addr, text, size))
		text[0] = '\0';
	return text;
}
