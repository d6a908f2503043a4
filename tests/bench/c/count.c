// SPDX-License-Identifier: MIT
/*
 * A plugin of QEMU's (version 1 of its interface) that counts how often each
 * address was executed: -plugin count.so,out=FILE. The file has a line for each,
 * with the address in hexadecimal, and how often.
 *
 * Debian's packages of QEMU have no header for plugins, so what is used of it is
 * declared here.
 */
#include <err.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT		__attribute__((visibility("default")))
#define INLINE_ADD	0
#define SLOT_BITS	22
#define SLOTS		(1U << SLOT_BITS)

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*translated_fn)(uint64_t id, struct qemu_plugin_tb *tb);
typedef void (*exit_fn)(uint64_t id, void *data);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *to,
						uint64_t value);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, translated_fn fn);
void qemu_plugin_register_atexit_cb(uint64_t id, exit_fn fn, void *data);

EXPORT int qemu_plugin_version = 1;

static struct {
	uint64_t address;
	uint64_t count;
} *slots;

static uint64_t *count_of(uint64_t address)
{
	uint32_t i = (address * 0x9E3779B97F4A7C15) >> (64 - SLOT_BITS);

	while (slots[i].address && slots[i].address != address)
		i = (i + 1) % SLOTS;
	slots[i].address = address;
	return &slots[i].count;
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	size_t i, count = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD,
							   count_of(qemu_plugin_insn_vaddr(insn)), 1);
	}
}

static void write_counts(uint64_t id, void *path)
{
	FILE *out = fopen(path, "we");
	uint32_t i;

	(void)id;
	if (!out)
		err(1, "%s", (char *)path);
	for (i = 0; i < SLOTS; i++) {
		if (slots[i].count)
			fprintf(out, "%" PRIx64 " %" PRIu64 "\n", slots[i].address, slots[i].count);
	}
	if (fclose(out))
		err(1, "%s", (char *)path);
}

EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		warnx("count.so wants out=FILE");
		return 1;
	}
	slots = calloc(SLOTS, sizeof(*slots));
	if (!slots)
		return 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, write_counts, strdup(argv[0] + 4));
	return 0;
}
