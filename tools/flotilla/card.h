/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of "flotilla card" share. */
#ifndef FLOTILLA_CLI_CARD_H
#define FLOTILLA_CLI_CARD_H

#include <libmnl/libmnl.h>
#include <flotilla/card.h>
#include "cli.h"

/**
 * struct wire - one conversation with the kernel
 * @nl:     the socket
 * @family: number of the family "flotilla_card"
 * @error:  the kernel's sentence, or ""
 * @buffer: request, then its answers
 */
struct wire {
	struct mnl_socket *nl;
	uint16_t family;
	char error[256];
	_Alignas(struct nlmsghdr) char buffer[32768];
};

/* Attributes of a message by number; those that are listed several times: the last. */
struct attrs {
	const struct nlattr *at[CARD_A_MAX + 1];
};

/**
 * struct card_device - what is seen of a block device from here and not in the kernel
 * @known: @uuid is the disk's own, the same one after a restart
 * @uuid:  identity
 * @nr_twins, @twins: loop devices and what they lie on that lead to the same storage, as in
 *	   CARD_A_EXPORT_CLAIM
 */
struct card_device {
	bool known;
	unsigned char uuid[CARD_UUID_LEN];
	unsigned int nr_twins;
	uint32_t twins[CARD_CLAIMS_MAX];
};

/* What cannot be found out is left out. */
void card_device_look(const char *path, struct card_device *device);

/* Text to bytes and back. */
#define UUID_TEXT 37
bool uuid_read(const char *text, unsigned char uuid[CARD_UUID_LEN]);
void uuid_write(const void *uuid, char text[UUID_TEXT]);

typedef void (*message_fn)(const struct nlmsghdr *nlh, void *arg);

/* NULL after saying why. */
struct wire *wire_open(struct cli *cli);
/* The same for a family of version 1 that @module has. */
struct wire *wire_open_family(struct cli *cli, const char *family, const char *module);
void wire_close(struct wire *w);
struct nlmsghdr *wire_request(struct wire *w, uint8_t cmd, uint16_t flags);
/* @fn gets each message of the answer. 0 or a negative errno. */
int wire_transact(struct wire *w, const struct nlmsghdr *nlh, message_fn fn, void *arg);
/* Ends the conversation; an exit status. */
int wire_settle(struct cli *cli, struct wire *w, int err);

void attrs_parse(const struct nlmsghdr *nlh, struct attrs *a);
/* "" and 0 for what is not there. */
const char *attrs_text(const struct attrs *a, enum card_attr attr);
uint64_t attrs_number(const struct attrs *a, enum card_attr attr);

extern const struct words card_serves, card_delivers, card_modes;
/* The bit of a word that stands alone, or 0. */
uint32_t card_flag(const char *word);

int card_show(struct cli *cli, int argc, char **argv);
int card_explain(struct cli *cli, int argc, char **argv);
int card_stats(struct cli *cli, int argc, char **argv);

#endif
