// SPDX-License-Identifier: GPL-2.0
/* flotilla auth: the key that the nodes of a cluster share, from a file to where the kernel and tlshd look for it. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "key.h"

static void key_make(char text[2 * KEY_BYTES + 1])
{
	unsigned char key[KEY_BYTES];
	int i;

	text[0] = '\0';
	if (getrandom(key, sizeof(key), 0) == sizeof(key))
		for (i = 0; i < KEY_BYTES; i++)
			sprintf(text + 2 * i, "%02x", key[i]);
	explicit_bzero(key, sizeof(key));
}

/* The name lasts, too: a key that others have by now must not be another one after a power cut. */
static bool sync_directory(const char *path)
{
	char copy[PATH_MAX];
	int fd, err;

	snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = fd < 0 ? -1 : fsync(fd);
	if (fd >= 0)
		close(fd);
	return !err;
}

/* Of two at once one is first, and his is the other's. */
static bool key_write(int fd, const char *fresh, const char *path)
{
	char text[2 * KEY_BYTES + 1];
	bool ok;

	key_make(text);
	ok = text[0] && dprintf(fd, "%s\n", text) == 2 * KEY_BYTES + 1 && !fsync(fd) &&
	     (!link(fresh, path) || errno == EEXIST);
	explicit_bzero(text, sizeof(text));
	return ok;
}

/* Whole or not at all: half a key would be none for ever. */
static int key_create(struct cli *cli, const char *path)
{
	char fresh[PATH_MAX];
	int fd, err;
	bool ok;

	if (snprintf(fresh, sizeof(fresh), "%s.XXXXXX", path) >= (int)sizeof(fresh))
		return cli_fail(cli, "%s cannot be made: its name is too long", path);
	fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return cli_fail(cli, "%s cannot be made: %s", path, strerror(errno));
	ok = key_write(fd, fresh, path);
	err = errno;
	close(fd);
	unlink(fresh);
	if (ok && !sync_directory(path)) {
		ok = false;
		err = errno;
	}
	return ok ? CLI_OK : cli_fail(cli, "%s cannot be written: %s", path, strerror(err));
}

static int auth_key(struct cli *cli, int argc, char **argv)
{
	unsigned char key[KEY_BYTES];
	long serial = 0;
	int status;

	cli_doing(cli, "load a key");
	if (!argc)
		return cli_usage(cli, "its file is missing");
	if (argc > 1)
		return cli_unknown(cli, argv[1]);
	cli_doing(cli, "load the key in %s", argv[0]);
	if (access(argv[0], F_OK) && errno == ENOENT) {
		status = key_create(cli, argv[0]);
		if (status)
			return status;
	}
	status = key_read(cli, argv[0], key);
	if (!status)
		status = key_add(cli, key, &serial);
	explicit_bzero(key, sizeof(key));
	if (!status)
		printf("%ld\n", serial);
	return status;
}

static const struct command commands[] = {
	{ "key", NULL, auth_key, "key FILE",
	  "Load the key in FILE, made when it is not there, and print its serial number" },
	{ 0 }
};

const struct object auth_object = {
	"auth", "the key that the nodes of a cluster share", commands, false,
	"The same FILE is copied to each node, by a way that nobody else can read. It holds 64 hexadecimal\n"
	"digits. tlshd finds the key with \"keyrings=flotilla\" in its configuration. For example:\n"
	"  flotilla node add be1 address 10.0.0.11 auth psk key $(flotilla auth key /etc/flotilla/key)\n"
	"Loaded again after a change the key is for links to come; those that are up stay.\n",
};
