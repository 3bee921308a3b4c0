// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin: how many instructions each CPU of a guest executed between two marks that a program in it makes
 * (marks.h), exactly. Nothing else runs in the guest for it. For each pair of marks it writes to out=PATH
 *
 *	interval USER KERNEL [USER KERNEL...]		of each CPU
 *
 * and at MARK_PROFILE where all of them since the last one went, and then "end":
 *
 *	block CPU ADDRESS INSTRUCTIONS
 *
 * Under -icount all CPUs take turns in one thread of QEMU's and share what it has translated, and QEMU 10.0 then takes
 * the CPU that translated a block for the one that executes it. So the kernel's GS base says which one it is; whose it
 * is, MARK_CPU does. What it uses of QEMU's plugin interface (version 4) and of glib, which
 * QEMU has, is declared here, as in bench/pathlen/profile.c.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "marks.h"

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_register;
struct qemu_info;

/* GByteArray and GArray. */
struct bytes {
	uint8_t *data;
	unsigned int length;
};

struct descriptor {
	struct qemu_plugin_register *handle;
	const char *name, *feature;
};

struct descriptors {
	struct descriptor *data;
	unsigned int length;
};

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS };

struct bytes *g_byte_array_new(void);
struct bytes *g_byte_array_set_size(struct bytes *array, unsigned int length);
struct descriptors *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(struct qemu_plugin_register *handle, struct bytes *to);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t idx);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *dest, size_t len);
void qemu_plugin_register_vcpu_init_cb(uint64_t id, void (*cb)(uint64_t id, unsigned int vcpu));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*cb)(unsigned int vcpu, void *data),
					    enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*cb)(unsigned int vcpu, void *data),
					  enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*cb)(uint64_t id,
								   struct qemu_plugin_tb *tb));
int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc, char **argv);

__attribute__((visibility("default"))) int qemu_plugin_version = 4;

/* Open addressing by the block's address; all of user space is in the first. */
#define SLOTS		(1u << 18)
#define MAX_CPUS	8

static uint64_t addresses[SLOTS];
static uint64_t counts[MAX_CPUS][SLOTS], sum[MAX_CPUS][SLOTS];
static uint64_t bases[MAX_CPUS];
static struct qemu_plugin_register *gs, *other_gs;
static struct bytes *value;
static int cpus;
static bool counting;
static FILE *out;

__attribute__((noreturn)) static void stop(const char *why)
{
	fprintf(stderr, "marks plugin: %s\n", why);
	exit(1);
}

static uint32_t slot_of(uint64_t address)
{
	uint32_t i;

	if (!(address >> 63))
		return 0;
	i = (address * 0x9e3779b97f4a7c15ull) >> 46;
	for (uint32_t tries = 0; tries < SLOTS; tries++, i = (i + 1) % SLOTS) {
		if (!i)
			continue;
		if (!addresses[i])
			addresses[i] = address;
		if (addresses[i] == address)
			return i;
	}
	stop("more blocks than there is room for");
	return 0;
}

static uint64_t read_register(struct qemu_plugin_register *which)
{
	uint64_t number = 0;

	g_byte_array_set_size(value, 0);
	if (qemu_plugin_read_register(which, value) > 0)
		memcpy(&number, value->data, value->length < sizeof(number) ? value->length : sizeof(number));
	return number;
}

/* A program's own is in the other one while its kernel runs. */
static uint64_t base(void)
{
	uint64_t number = read_register(gs);

	return number >> 63 ? number : read_register(other_gs);
}

/* Of who executes; the first one's is what was not announced. */
static int current(void)
{
	uint64_t mine = base();
	int cpu = cpus;

	while (--cpu > 0 && bases[cpu] != mine)
		;
	return cpu;
}

static void on_block(unsigned int vcpu, void *data)
{
	uint32_t slot = (uintptr_t)data >> 32, n = (uintptr_t)data;

	(void)vcpu;
	if (counting)
		counts[current()][slot] += n;
}

static void begin(void)
{
	memset(counts, 0, cpus * sizeof(*counts));
	counting = true;
}

static void end(void)
{
	counting = false;
	fputs("interval", out);
	for (int c = 0; c < cpus; c++) {
		uint64_t kernel = 0;

		for (uint32_t i = 0; i < SLOTS; i++)
			sum[c][i] += counts[c][i];
		for (uint32_t i = 1; i < SLOTS; i++)
			kernel += counts[c][i];
		fprintf(out, " %llu %llu", (unsigned long long)counts[c][0], (unsigned long long)kernel);
	}
	fputc('\n', out);
	fflush(out);
}

static void profile(void)
{
	for (int c = 0; c < cpus; c++) {
		for (uint32_t i = 0; i < SLOTS; i++)
			if (sum[c][i])
				fprintf(out, "block %d %llx %llu\n", c, (unsigned long long)addresses[i],
					(unsigned long long)sum[c][i]);
		memset(sum[c], 0, sizeof(sum[c]));
	}
	fputs("end\n", out);
	fflush(out);
}

static void on_mark(unsigned int vcpu, void *data)
{
	int what = (uintptr_t)data;

	(void)vcpu;
	if (what == MARK_BEGIN)
		begin();
	else if (what == MARK_END)
		end();
	else if (what == MARK_PROFILE)
		profile();
	else if (what >= MARK_CPU && what < MARK_CPU + cpus)
		bases[what - MARK_CPU] = base();
}

static void on_cpu(uint64_t id, unsigned int vcpu)
{
	struct descriptors *registers = qemu_plugin_get_registers();

	(void)id;
	(void)vcpu;
	if (++cpus > MAX_CPUS)
		stop("more CPUs than there is room for");
	for (unsigned int i = 0; i < registers->length; i++) {
		if (!strcmp(registers->data[i].name, "gs_base"))
			gs = registers->data[i].handle;
		if (!strcmp(registers->data[i].name, "k_gs_base"))
			other_gs = registers->data[i].handle;
	}
	if (!gs || !other_gs)
		stop("no GS base");
}

static void on_translation(uint64_t id, struct qemu_plugin_tb *tb)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	size_t n = qemu_plugin_tb_n_insns(tb);
	void *block = (void *)((uint64_t)slot_of(address) << 32 | n);
	uint8_t mark[] = { MARK_OPCODE }, data[MARK_LENGTH];

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_R_REGS, block);
	for (size_t i = 0; !(address >> 63) && i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_data(insn, data, sizeof(data)) == sizeof(data) &&
		    !memcmp(data, mark, sizeof(mark)))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, QEMU_PLUGIN_CB_R_REGS,
							       (void *)(uintptr_t)data[sizeof(mark)]);
	}
}

__attribute__((visibility("default")))
int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			out = fopen(argv[i] + 4, "we");
	if (!out) {
		fputs("marks plugin: out=PATH\n", stderr);
		return -1;
	}
	value = g_byte_array_new();
	qemu_plugin_register_vcpu_init_cb(id, on_cpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
