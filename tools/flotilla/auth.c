// SPDX-License-Identifier: GPL-2.0
/* flotilla auth: the key that the nodes of a cluster share, from a file to where the kernel and tlshd look for it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "key.h"

static int key_create(struct cli *cli, const char *path)
{
	unsigned char key[KEY_BYTES];
	char text[2 * KEY_BYTES + 2];
	int fd, i, status = CLI_OK;

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return cli_fail(cli, "no random numbers: %s", strerror(errno));
	for (i = 0; i < KEY_BYTES; i++)
		sprintf(text + 2 * i, "%02x", key[i]);
	text[2 * KEY_BYTES] = '\n';
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return cli_fail(cli, "%s cannot be made: %s", path, strerror(errno));
	if (write(fd, text, 2 * KEY_BYTES + 1) != 2 * KEY_BYTES + 1 || fsync(fd)) {
		status = cli_fail(cli, "%s cannot be written: %s", path, strerror(errno));
		unlink(path);
	}
	close(fd);
	explicit_bzero(key, sizeof(key));
	explicit_bzero(text, sizeof(text));
	return status;
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
