// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin that counts executed instructions by address, from outside the guest and without
 * sampling. Whoever connects to the socket of its argument `control=PATH` gets all counts since the
 * start, as pairs of native 64-bit words: address of a translated block, instructions executed in it.
 *
 * Distributions do not ship qemu-plugin.h; what is used of it is declared here (interface 4).
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SLOTS (4 << 20)

struct qemu_plugin_scoreboard;
struct qemu_plugin_tb;
struct qemu_plugin_u64 {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
};
enum { QEMU_PLUGIN_INLINE_ADD_U64 };

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned int vcpu);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
					   void (*cb)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *tb, int op,
						       struct qemu_plugin_u64 entry, uint64_t imm);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);

__attribute__((visibility("default"))) int qemu_plugin_version = 4;

/* Slot i of the one vCPU's element counts for addresses[i]. @lock guards @used and @addresses. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct qemu_plugin_scoreboard *counts;
static uint64_t *addresses;
static size_t used;
static int listener;

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	struct qemu_plugin_u64 slot = { counts, 0 };

	(void)id;
	pthread_mutex_lock(&lock);
	if (used == SLOTS) {
		fprintf(stderr, "executed: more than %d blocks\n", SLOTS);
		exit(1);
	}
	slot.offset = used * sizeof(uint64_t);
	addresses[used++] = qemu_plugin_tb_vaddr(tb);
	pthread_mutex_unlock(&lock);
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, slot,
							  qemu_plugin_tb_n_insns(tb));
}

/* A count that is just being added to is read before or after, never in between. */
static void report(int fd)
{
	volatile uint64_t *count = qemu_plugin_scoreboard_find(counts, 0);
	FILE *out = fdopen(fd, "w");
	size_t i, n;

	if (!out) {
		close(fd);
		return;
	}
	pthread_mutex_lock(&lock);
	n = used;
	pthread_mutex_unlock(&lock);
	for (i = 0; i < n; i++) {
		uint64_t pair[2] = { addresses[i], count[i] };

		if (pair[1])
			fwrite(pair, sizeof(pair), 1, out);
	}
	fclose(out);
}

static void *answer(void *arg)
{
	int fd;

	while ((fd = accept(listener, NULL, NULL)) >= 0)
		report(fd);
	return arg;
}

__attribute__((visibility("default")))
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	pthread_t thread;

	(void)info;
	if (argc != 1 || strncmp(argv[0], "control=", 8) ||
	    strlen(argv[0] + 8) >= sizeof(addr.sun_path)) {
		fprintf(stderr, "executed: the argument is control=PATH\n");
		return -1;
	}
	strcpy(addr.sun_path, argv[0] + 8);
	counts = qemu_plugin_scoreboard_new(SLOTS * sizeof(uint64_t));
	addresses = calloc(SLOTS, sizeof(*addresses));
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!addresses || listener < 0 || bind(listener, (struct sockaddr *)&addr, sizeof(addr)) ||
	    listen(listener, 1) || pthread_create(&thread, NULL, answer, NULL)) {
		perror("executed");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
