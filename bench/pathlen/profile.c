// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin: how many instructions a guest executed in each block of code, exactly. Nothing
 * runs in the guest for it. On a Unix socket (socket=PATH) it answers "clear" by starting from
 * zero, and "dump" with a line "ADDRESS INSTRUCTIONS RUNS" for each block that has run.
 *
 * What it uses of QEMU's plugin interface (version 4) is declared here: distributions do not
 * package qemu-plugin.h.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct qemu_plugin_tb;
struct qemu_plugin_scoreboard;
struct qemu_info;

struct qemu_plugin_u64 {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
};

enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned int vcpu);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *tb,
						       enum qemu_plugin_op op,
						       struct qemu_plugin_u64 entry, uint64_t imm);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*cb)(uint64_t id,
								   struct qemu_plugin_tb *tb));
int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc, char **argv);

__attribute__((visibility("default"))) int qemu_plugin_version = 4;

/* Open addressing by the block's address; a power of two, far more than a kernel has blocks. */
#define SLOTS	(1u << 20)

struct slot {
	uint64_t instructions;
	uint64_t runs;
};

static uint64_t addresses[SLOTS];	/* of the slots; 0: free; written by the one translator */
static struct qemu_plugin_scoreboard *board;
static char path[108];

static int slot_of(uint64_t address)
{
	uint32_t i = (address * 0x9e3779b97f4a7c15ull) >> 44;

	for (uint32_t tries = 0; tries < SLOTS; tries++, i = (i + 1) % SLOTS) {
		if (!addresses[i])
			addresses[i] = address;
		if (addresses[i] == address)
			return i;
	}
	return -1;
}

static void on_translation(uint64_t id, struct qemu_plugin_tb *tb)
{
	int slot = slot_of(qemu_plugin_tb_vaddr(tb));
	struct qemu_plugin_u64 entry = { board, slot * sizeof(struct slot) };

	(void)id;
	if (slot < 0)
		return;
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, entry,
							  qemu_plugin_tb_n_insns(tb));
	entry.offset += offsetof(struct slot, runs);
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, entry, 1);
}

static void answer(FILE *peer)
{
	struct slot *slots = qemu_plugin_scoreboard_find(board, 0);
	char line[32];

	while (fgets(line, sizeof(line), peer)) {
		if (!strcmp(line, "clear\n")) {
			memset(slots, 0, SLOTS * sizeof(*slots));
		} else if (!strcmp(line, "dump\n")) {
			for (uint32_t i = 0; i < SLOTS; i++)
				if (slots[i].runs)
					fprintf(peer, "%llx %llu %llu\n",
						(unsigned long long)addresses[i],
						(unsigned long long)slots[i].instructions,
						(unsigned long long)slots[i].runs);
		}
		fputs(".\n", peer);
		fflush(peer);
	}
}

static void *serve(void *arg)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;
	FILE *file;

	(void)arg;
	memcpy(at.sun_path, path, sizeof(path));
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 1)) {
		perror("profile plugin");
		return NULL;
	}
	while ((peer = accept(fd, NULL, NULL)) >= 0) {
		file = fdopen(peer, "r+");
		if (file) {
			answer(file);
			fclose(file);
		}
	}
	return NULL;
}

__attribute__((visibility("default")))
int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc, char **argv)
{
	pthread_t thread;

	(void)info;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "socket=", 7) && strlen(argv[i] + 7) < sizeof(path))
			strcpy(path, argv[i] + 7);
	if (!*path) {
		fputs("profile plugin: socket=PATH\n", stderr);
		return -1;
	}
	board = qemu_plugin_scoreboard_new(SLOTS * sizeof(struct slot));
	if (!board || pthread_create(&thread, NULL, serve, NULL))
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
