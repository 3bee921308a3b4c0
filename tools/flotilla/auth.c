// SPDX-License-Identifier: GPL-2.0
/* flotilla auth: the key that the nodes of a cluster share, from a file to where the kernel and tlshd look for it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "cli.h"

#define KEY_BYTES	32

/* tlshd finds the key by its name, and the keyring by "keyrings=flotilla" in its configuration. */
#define KEY_TYPE	"psk"
#define KEY_NAME	"flotilla"
/* Possessor and user: all. tlshd links the keyring into its session. */
#define KEY_PERM	0x3f3f0000

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

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int key_read(struct cli *cli, const char *path, unsigned char key[KEY_BYTES])
{
	char text[2 * KEY_BYTES + 2] = "";
	struct stat st;
	ssize_t got;
	int fd, i;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return cli_fail(cli, "%s: %s", path, strerror(errno));
	got = fstat(fd, &st) ? -1 : read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got < 0)
		return cli_fail(cli, "%s: %s", path, strerror(errno));
	if (st.st_mode & 077)
		return cli_fail(cli, "others may read %s: chmod 600, and make a new key", path);
	if (got < 2 * KEY_BYTES || (got > 2 * KEY_BYTES && text[2 * KEY_BYTES] != '\n'))
		return cli_fail(cli, "%s does not hold %d hexadecimal digits", path, 2 * KEY_BYTES);
	for (i = 0; i < KEY_BYTES; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return cli_fail(cli, "%s does not hold %d hexadecimal digits", path,
					2 * KEY_BYTES);
		key[i] = high << 4 | low;
	}
	explicit_bzero(text, sizeof(text));
	return CLI_OK;
}

static int key_add(struct cli *cli, const unsigned char key[KEY_BYTES], long *serial)
{
	long ring;

	/* The one that is there, or a new one. */
	ring = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "keyring", KEY_NAME, 0);
	if (ring < 0)
		ring = syscall(SYS_add_key, "keyring", KEY_NAME, NULL, 0, KEY_SPEC_USER_KEYRING);
	if (ring < 0 || syscall(SYS_keyctl, KEYCTL_SETPERM, ring, KEY_PERM) < 0)
		return cli_fail(cli, "no keyring: %s", strerror(errno));
	*serial = syscall(SYS_add_key, KEY_TYPE, KEY_NAME, key, KEY_BYTES, ring);
	if (*serial < 0 && errno == ENODEV)
		return cli_fail(cli, "this kernel has no keys of type psk: modprobe nvme-keyring");
	if (*serial < 0)
		return cli_fail(cli, "the kernel does not take it: %s", strerror(errno));
	return CLI_OK;
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
