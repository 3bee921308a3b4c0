// SPDX-License-Identifier: GPL-2.0
/*
 * Whose nodes are the source's: those that were added for it, by name, address and the number that the kernel gave them.
 *
 * A name is written down before its node is added, its number afterwards. Who stops in between finds the name without a
 * number, and the node is the source's. A node that somebody deletes and adds by hand has another number.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "owner.h"

static int take_line(struct cli *cli, struct owner *owner, char *line)
{
	struct cli quiet = { .quiet = true };
	struct owned *owned;
	char *words[CLI_WORDS];
	uint64_t id, port;

	if (!line[strspn(line, " \t\r\n")])
		return CLI_OK;
	owned = config_grow(cli, &owner->list, &owner->nr, sizeof(*owned));
	if (!owned)
		return CLI_FAILED;
	if (cli_split(line, words) == 4 && !value_name(&quiet, words[0], owned->name) &&
	    !value_number(&quiet, "", words[1], 0, UINT32_MAX, &id) &&
	    !value_address(&quiet, "", words[2], &owned->addr) && !value_number(&quiet, "", words[3], 1, 65535, &port)) {
		owned->id = id;
		return value_port(&quiet, words[3], &owned->addr);
	}
	return cli_fail(cli, "%s is not what this program writes there: remove it, and the nodes that the source had added "
			"are left to you", owner->path);
}

static int read_list(struct cli *cli, struct owner *owner, int fd)
{
	FILE *f = fdopen(dup(fd), "r");
	char *line = NULL;
	size_t size = 0;
	int status = CLI_OK;

	if (!f)
		return cli_fail(cli, "%s", strerror(errno));
	while (!status && getline(&line, &size, f) >= 0)
		status = take_line(cli, owner, line);
	if (!status && ferror(f))
		status = cli_fail(cli, "cannot read %s", owner->path);
	free(line);
	fclose(f);
	return status;
}

/* The lock is on a file of its own: the list is replaced by a rename. */
static int lock(struct cli *cli, struct owner *owner)
{
	char *path;

	if (asprintf(&path, "%s" OWNER_LOCK, owner->path) < 0)
		return cli_fail(cli, "out of memory");
	owner->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (owner->fd < 0)
		cli_fail(cli, "%s cannot be opened: %s", path, strerror(errno));
	free(path);
	if (owner->fd < 0)
		return CLI_FAILED;
	if (flock(owner->fd, LOCK_EX | LOCK_NB))
		return cli_fail(cli, errno == EWOULDBLOCK ? "another flotilla-follow follows it" : "%s cannot be locked",
				owner->path);
	return CLI_OK;
}

int owner_open(struct cli *cli, struct owner *owner, const char *path, bool dry)
{
	int status = CLI_OK, fd;

	*owner = (struct owner){ .path = path, .fd = -1 };
	if (!path)
		return CLI_OK;
	if (!dry)
		status = lock(cli, owner);
	if (status)
		return status;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT)
		return cli_fail(cli, "cannot read %s: %s", path, strerror(errno));
	if (fd >= 0) {
		status = read_list(cli, owner, fd);
		close(fd);
	}
	if (dry)
		owner->path = NULL;
	return status;
}

bool owner_has(const struct owner *owner, const struct config_node *node)
{
	size_t i;

	for (i = 0; i < owner->nr; i++) {
		const struct owned *o = &owner->list[i];

		if (!strcmp(o->name, node->info.name) && (!o->id || o->id == node->info.id) &&
		    address_equal(&o->addr, &node->info.addr) && address_port(&o->addr) == address_port(&node->info.addr))
			return true;
	}
	return false;
}

static bool equal(const struct owner *owner, const struct owned *list, size_t nr)
{
	size_t i;

	for (i = 0; i < nr && i < owner->nr; i++)
		if (strcmp(owner->list[i].name, list[i].name) || owner->list[i].id != list[i].id ||
		    !address_equal(&owner->list[i].addr, &list[i].addr) ||
		    address_port(&owner->list[i].addr) != address_port(&list[i].addr))
			return false;
	return nr == owner->nr;
}

static int write_list(struct cli *cli, const struct owner *owner)
{
	char text[64], *path;
	bool bad = true;
	size_t i;
	FILE *f;
	int fd;

	if (asprintf(&path, "%s.new", owner->path) < 0)
		return cli_fail(cli, "out of memory");
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	for (i = 0; f && i < owner->nr; i++)
		fprintf(f, "%s %u %s %u\n", owner->list[i].name, owner->list[i].id,
			address_text(&owner->list[i].addr, text, sizeof(text)), address_port(&owner->list[i].addr));
	if (f) {
		bad = ferror(f);
		bad |= fclose(f) != 0;
	}
	bad = bad || rename(path, owner->path);
	free(path);
	return bad ? cli_fail(cli, "cannot write %s, where the nodes of the source are kept: %s", owner->path,
			      strerror(errno)) : CLI_OK;
}

int owner_set(struct cli *cli, struct owner *owner, const struct owned *list, size_t nr)
{
	struct owned *copy;

	if (equal(owner, list, nr))
		return CLI_OK;
	copy = calloc(nr ? nr : 1, sizeof(*copy));
	if (!copy)
		return cli_fail(cli, "out of memory");
	if (nr)
		memcpy(copy, list, nr * sizeof(*copy));
	free(owner->list);
	owner->list = copy;
	owner->nr = nr;
	return owner->path ? write_list(cli, owner) : CLI_OK;
}

void owner_close(struct owner *owner)
{
	if (owner->fd >= 0)
		close(owner->fd);
	free(owner->list);
	owner->list = NULL;
	owner->nr = 0;
}

static bool is_spoken_of(const struct config *wanted, const struct config_node *node)
{
	const struct sockaddr_storage *addr = &node->info.addr;
	size_t i;

	if (!strcmp(wanted->local.name, node->info.name) || address_equal(addr, &wanted->local.addr4) ||
	    address_equal(addr, &wanted->local.addr6))
		return true;
	for (i = 0; i < wanted->nr_nodes; i++)
		if (!strcmp(wanted->nodes[i].info.name, node->info.name) ||
		    address_equal(&wanted->nodes[i].info.addr, addr))
			return true;
	return false;
}

static int keep_of(struct cli *cli, const char *path, const struct config *live, struct config *wanted)
{
	struct config_node *copy;
	struct owner owner;
	int status = owner_open(cli, &owner, path, true);
	size_t i;

	for (i = 0; i < live->nr_nodes && !status; i++) {
		if (!owner_has(&owner, &live->nodes[i]) || is_spoken_of(wanted, &live->nodes[i]))
			continue;
		copy = config_grow(cli, &wanted->nodes, &wanted->nr_nodes, sizeof(*copy));
		if (copy)
			*copy = live->nodes[i];
		else
			status = CLI_FAILED;
	}
	owner_close(&owner);
	return status;
}

int owner_keep(struct cli *cli, const struct config *live, struct config *wanted)
{
	glob_t files = { 0 };
	int status = CLI_OK;
	size_t i, len;

	if (glob(OWNER_FILES "*", 0, NULL, &files))
		return CLI_OK;
	for (i = 0; i < files.gl_pathc && !status; i++) {
		len = strlen(files.gl_pathv[i]);
		/* Locks, and what a rename has not yet put in place. */
		if (len < 5 || (strcmp(files.gl_pathv[i] + len - 5, OWNER_LOCK) &&
				strcmp(files.gl_pathv[i] + len - 4, ".new")))
			status = keep_of(cli, files.gl_pathv[i], live, wanted);
	}
	globfree(&files);
	return status;
}
