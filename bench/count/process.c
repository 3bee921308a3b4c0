// SPDX-License-Identifier: GPL-2.0
/* The processes to watch, from /proc. */
#include <bpf/bpf.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/count/process.h"

/* Does the process hold the socket of this inode? */
static bool holds_socket(uint32_t pid, unsigned long inode)
{
	char path[64], link[320], wanted[64], to[128];
	struct dirent *entry;
	bool found = false;
	ssize_t len;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%u/fd", pid);
	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir))) {
		snprintf(link, sizeof(link), "%s/%s", path, entry->d_name);
		len = readlink(link, to, sizeof(to) - 1);
		if (len < 0)
			continue;
		to[len] = 0;
		found = !strcmp(to, wanted);
	}
	closedir(dir);
	return found;
}

/* Listeners of the process in its network namespace: state 0A of /proc/PID/net/tcp. */
static int watch_ports(uint32_t pid, const char *table, int ports)
{
	unsigned int port, state;
	unsigned long inode;
	char path[64], line[512];
	uint8_t one = 1;
	uint16_t key;
	FILE *file;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%u/net/%s", pid, table);
	file = fopen(path, "r");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*s %*s %lu",
			   &port, &state, &inode) != 3 || state != 0x0a)
			continue;
		if (!holds_socket(pid, inode))
			continue;
		key = port;
		bpf_map_update_elem(ports, &key, &one, BPF_ANY);
		n++;
	}
	fclose(file);
	return n;
}

static uint32_t parent_of(uint32_t pid)
{
	char path[64], line[512], *after;
	unsigned int parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	/* The name in parentheses may hold anything. */
	after = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	if (after)
		sscanf(after, ") %*c %u", &parent);
	fclose(file);
	return parent;
}

static void watch_one(uint32_t pid, int targets, int ports)
{
	uint8_t one = 1;

	bpf_map_update_elem(targets, &pid, &one, BPF_ANY);
	watch_ports(pid, "tcp", ports);
	watch_ports(pid, "tcp6", ports);
}

/* The children of those watched, and theirs: each pass may find one generation more. */
static void watch_children(int targets, int ports)
{
	struct dirent *entry;
	bool found = true;
	uint32_t pid, parent;
	uint8_t value;
	DIR *dir;

	while (found) {
		found = false;
		dir = opendir("/proc");
		if (!dir)
			return;
		while ((entry = readdir(dir))) {
			if (!isdigit(entry->d_name[0]))
				continue;
			pid = strtoul(entry->d_name, NULL, 10);
			parent = parent_of(pid);
			if (!parent || bpf_map_lookup_elem(targets, &parent, &value) ||
			    !bpf_map_lookup_elem(targets, &pid, &value))
				continue;
			watch_one(pid, targets, ports);
			found = true;
		}
		closedir(dir);
	}
}

int count_watch(const char *pids, int targets, int ports)
{
	char path[32], *end;
	unsigned long pid;

	do {
		pid = strtoul(pids, &end, 10);
		snprintf(path, sizeof(path), "/proc/%lu", pid);
		if (end == pids || (*end && *end != ',') || !pid || access(path, F_OK)) {
			fprintf(stderr, "count: there is no process '%s'\n", pids);
			return -1;
		}
		watch_one(pid, targets, ports);
		pids = end + 1;
	} while (*end);
	watch_children(targets, ports);
	return 0;
}
