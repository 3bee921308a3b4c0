// SPDX-License-Identifier: GPL-2.0
/* Keys of links: in a file, in the keyring where the kernel and tlshd look, and by serial number. */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "key.h"

/* tlshd finds the key by its name, and the keyring by "keyrings=flotilla" in its configuration. */
#define KEY_TYPE	"psk"
#define KEY_NAME	"flotilla"
/* Possessor and user: all. tlshd links the keyring into its session. */
#define KEY_PERM	0x3f3f0000

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What it says in digits; false: not 64 of them, and a line's end. */
static bool key_parse(const char *text, ssize_t len, unsigned char key[KEY_BYTES])
{
	int i, high, low;

	if (len < 2 * KEY_BYTES || (len > 2 * KEY_BYTES && text[2 * KEY_BYTES] != '\n'))
		return false;
	for (i = 0; i < KEY_BYTES; i++) {
		high = hex_digit(text[2 * i]);
		low = hex_digit(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		key[i] = high << 4 | low;
	}
	return true;
}

static int check_file(struct cli *cli, const char *path, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return cli_fail(cli, "%s is not a regular file", path);
	if (st->st_mode & 077)
		return cli_fail(cli, "others may read %s: chmod 600, and make a new key", path);
	if (st->st_uid && st->st_uid != geteuid())
		return cli_fail(cli, "%s is user %u's, who knows it: make a new key", path,
				st->st_uid);
	return CLI_OK;
}

int key_read(struct cli *cli, const char *path, unsigned char key[KEY_BYTES])
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), status;
	char text[2 * KEY_BYTES + 1];
	struct stat st;
	ssize_t len;

	if (fd < 0)
		return cli_fail(cli, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st))
		status = cli_fail(cli, "%s: %s", path, strerror(errno));
	else
		status = check_file(cli, path, &st);
	if (!status) {
		len = read(fd, text, sizeof(text));
		if (len < 0)
			status = cli_fail(cli, "%s: %s", path, strerror(errno));
		else if (!key_parse(text, len, key))
			status = cli_fail(cli, "%s does not hold %d hexadecimal digits", path,
					  2 * KEY_BYTES);
	}
	close(fd);
	explicit_bzero(text, sizeof(text));
	return status;
}

/*
 * The keyring that is there, or a new one; negative when there is none. Linked to this process, since only who
 * possesses a key may read it, and a service's session does not possess what its user has.
 */
static long key_ring(bool make)
{
	long ring;

	ring = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "keyring", KEY_NAME, 0);
	if (ring < 0 && make)
		ring = syscall(SYS_add_key, "keyring", KEY_NAME, NULL, 0, KEY_SPEC_USER_KEYRING);
	if (ring < 0)
		return -1;
	if (make && syscall(SYS_keyctl, KEYCTL_SETPERM, ring, KEY_PERM) < 0)
		return -1;
	syscall(SYS_keyctl, KEYCTL_LINK, ring, KEY_SPEC_PROCESS_KEYRING);
	return ring;
}

int key_add(struct cli *cli, const unsigned char key[KEY_BYTES], long *serial)
{
	long ring = key_ring(true);

	if (ring < 0)
		return cli_fail(cli, "no keyring: %s", strerror(errno));
	*serial = syscall(SYS_add_key, KEY_TYPE, KEY_NAME, key, KEY_BYTES, ring);
	if (*serial < 0 && errno == ENODEV)
		return cli_fail(cli, "this kernel has no keys of type psk: modprobe nvme-keyring");
	if (*serial < 0)
		return cli_fail(cli, "the kernel does not take it: %s", strerror(errno));
	return CLI_OK;
}

/* The key of that name in the keyring, or 0. */
static int32_t key_find(const char *name)
{
	long ring = key_ring(false), serial;

	if (ring < 0)
		return 0;
	serial = syscall(SYS_keyctl, KEYCTL_SEARCH, ring, KEY_TYPE, name, 0);
	return serial < 0 ? 0 : serial;
}

static bool key_holds(int32_t serial, const unsigned char key[KEY_BYTES])
{
	unsigned char has[KEY_BYTES + 1];
	long len = syscall(SYS_keyctl, KEYCTL_READ, serial, has, sizeof(has));
	bool same = len == KEY_BYTES && !memcmp(has, key, KEY_BYTES);

	explicit_bzero(has, sizeof(has));
	return same;
}

/* One that has been loaded before keeps its serial number: loaded again it would be another key. */
static int key_of_file(struct cli *cli, const char *path, bool load, int32_t *serial)
{
	unsigned char key[KEY_BYTES];
	int status = key_read(cli, path, key);
	long fresh;

	if (!status) {
		*serial = key_find(KEY_NAME);
		if (!*serial || !key_holds(*serial, key)) {
			*serial = 0;
			if (load)
				status = key_add(cli, key, &fresh);
			if (load && !status)
				*serial = fresh;
		}
	}
	explicit_bzero(key, sizeof(key));
	return status;
}

int value_key(struct cli *cli, const char *text, bool load, int32_t *serial)
{
	uint64_t number;
	int status;

	if (text[0] == '/')
		return key_of_file(cli, text, load, serial);
	if (text[strspn(text, "0123456789")]) {
		*serial = key_find(text);
		return *serial ? CLI_OK : cli_fail(cli, "no key of the name %s is loaded", text);
	}
	status = value_number(cli, "key", text, 1, INT32_MAX, &number);
	if (!status)
		*serial = number;
	return status;
}

void key_reference(int32_t serial, char *text, size_t size)
{
	struct cli quiet = { .quiet = true };
	unsigned char key[KEY_BYTES];

	key_find(KEY_NAME);	/* possessed from here on */
	if (!access(KEY_FILE, R_OK) && !key_read(&quiet, KEY_FILE, key) && key_holds(serial, key))
		snprintf(text, size, "%s", KEY_FILE);
	else if (key_find(KEY_NAME) == serial)
		snprintf(text, size, "%s", KEY_NAME);
	else
		snprintf(text, size, "%d", serial);
	explicit_bzero(key, sizeof(key));
}
