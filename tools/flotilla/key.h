/* SPDX-License-Identifier: GPL-2.0 */
/* Keys that links are authenticated with. */
#ifndef FLOTILLA_CLI_KEY_H
#define FLOTILLA_CLI_KEY_H

#include "cli.h"

#define KEY_BYTES	32
/* Where the manual page keeps it. */
#define KEY_FILE	"/etc/flotilla/key"

/* Exit statuses; the file must be its owner's alone. */
int key_read(struct cli *cli, const char *path, unsigned char key[KEY_BYTES]);
int key_add(struct cli *cli, const unsigned char key[KEY_BYTES], long *serial);
/*
 * A serial number, the name of a key in the keyring, or the path of a file. What the file has is loaded if @load says so
 * and it is not there yet; otherwise *@serial is 0 then.
 */
int value_key(struct cli *cli, const char *text, bool load, int32_t *serial);
/* How a file names that key: by KEY_FILE if that holds it, by name, else by serial number, which a boot forgets. */
void key_reference(int32_t serial, char *text, size_t size);

#endif
