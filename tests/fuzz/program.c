// SPDX-License-Identifier: MIT
/*
 * The kinds of operations, and programs as text: a line for each operation,
 *	THREAD NAME ARGUMENT...
 */
#include <stdlib.h>
#include <string.h>

#include "ops.h"

const struct op_type op_types[] = {
	{ "open", op_open, 6, { ARG_SLOT, ARG_DEVICE, ARG_MODE } },
	{ "close", op_close, 6, { ARG_SLOT } },
	{ "dup", op_dup, 3, { ARG_SLOT, ARG_SLOT } },
	{ "nonblock", op_nonblock, 2, { ARG_SLOT, ARG_PICK } },
	{ "pass", op_pass, 2, { ARG_SLOT, ARG_SLOT, ARG_PICK } },
	{ "fork", op_fork, 1, { ARG_PICK, ARG_PICK } },
	{ "kick", op_kick, 4, { ARG_THREAD, ARG_PICK } },
	{ "area", op_area, 5, { ARG_PICK, ARG_LENGTH } },
	{ "limit", op_limit, 1, { ARG_PICK, ARG_VALUE } },
	{ "proc", op_proc, 2, { ARG_PICK, ARG_LENGTH } },
	{ "odd", op_odd, 2, { ARG_SLOT, ARG_PICK } },
	{ "poll", op_poll, 4, { ARG_SLOT, ARG_SLOT, ARG_PICK } },
	{ "bind", op_bind, 14, { ARG_SLOT, ARG_NAME, ARG_ROLE, ARG_MEMORY, ARG_MEMORY } },
	{ "unbind", op_unbind, 10, { ARG_SLOT, ARG_NAME, ARG_ROLE, ARG_MEMORY, ARG_MEMORY } },
	{ "crowd", op_crowd, 1, { ARG_SLOT, ARG_MANY, ARG_ROLE } },
	{ "swarm", op_swarm, 1, { ARG_SLOT, ARG_MANY, ARG_NAME, ARG_PICK } },
	{ "replier", op_replier, 3, { ARG_SLOT, ARG_NAME, ARG_MEMORY, ARG_MEMORY } },
	{ "resolve", op_resolve, 3, { ARG_SLOT, ARG_NAME, ARG_MEMORY, ARG_MEMORY } },
	{ "message", op_message, 30,
	  { ARG_SLOT, ARG_NAME, ARG_KIND, ARG_WORDS, ARG_FLAW, ARG_HOW } },
	{ "send", op_send, 12, { ARG_SLOT, ARG_MEMORY } },
	{ "transfer", op_transfer, 24,
	  { ARG_SLOT, ARG_NAME, ARG_KIND, ARG_WORDS, ARG_FLAW, ARG_HOW } },
	{ "discard", op_discard, 4, { ARG_SLOT } },
	{ "abandon", op_abandon, 4, { ARG_SLOT, ARG_PICK, ARG_MEMORY } },
	{ "next", op_next, 6, { ARG_SLOT, ARG_MEMORY } },
	{ "read", op_read, 8, { ARG_SLOT, ARG_LENGTH, ARG_MEMORY, ARG_PICK } },
	{ "take", op_take, 20, { ARG_SLOT, ARG_PICK } },
	{ "get", op_get, 6, { ARG_SLOT, ARG_PICK, ARG_MEMORY } },
	{ "switch", op_switch, 6, { ARG_SLOT, ARG_PICK, ARG_VALUE, ARG_MEMORY } },
	{ "maxmsgs", op_maxmsgs, 6, { ARG_SLOT, ARG_VALUE, ARG_MEMORY } },
	{ "maxmsgsize", op_maxmsgsize, 2, { ARG_SLOT, ARG_VALUE, ARG_MEMORY } },
	{ "peerinfo", op_peerinfo, 3, { ARG_SLOT, ARG_PICK, ARG_MEMORY } },
	{ "newdevice", op_newdevice, 1, { ARG_SLOT, ARG_MEMORY } },
	{ "ioctl", op_ioctl, 3, { ARG_SLOT, ARG_COMMAND, ARG_MEMORY, ARG_VALUE } },
};

const unsigned int op_type_count = ARRAY_SIZE(op_types);

_Static_assert(ARRAY_SIZE(op_types) <= OP_TYPES_MAX, "a bigger OP_TYPES_MAX is needed");

/* The index in op_types, or -1 */
int op_code(const char *name)
{
	unsigned int i;

	for (i = 0; i < op_type_count; i++) {
		if (!strcmp(op_types[i].name, name))
			return i;
	}
	return -1;
}

static unsigned int op_arg_count(const struct op *op)
{
	const enum arg_kind *args = op_types[op->code].args;
	unsigned int count = 0;

	while (count < ARGS_MAX && args[count] != ARG_NONE)
		count++;
	return count;
}

/* Give the length of the text, without its NUL. */
size_t program_print(const struct program *program, char *text, size_t size)
{
	size_t len = 0;
	unsigned int i, j;

	for (i = 0; i < program->count; i++) {
		const struct op *op = &program->ops[i];

		len += snprintf(text + len, size - len, "%u %s", op->thread,
				op_types[op->code].name);
		for (j = 0; j < op_arg_count(op); j++)
			len += snprintf(text + len, size - len, " %u", op->arg[j]);
		len += snprintf(text + len, size - len, "\n");
	}
	return len;
}

/* Return false for a line that is none, such as one that was never finished. */
bool op_parse(const char *line, struct op *op)
{
	char name[16], *end;
	unsigned int thread, i;
	int used = 0, code;

	memset(op, 0, sizeof(*op));
	if (sscanf(line, "%u %15s%n", &thread, name, &used) != 2)
		return false;
	code = op_code(name);
	if (code < 0)
		return false;
	op->thread = thread % THREADS;
	op->code = code;
	line += used;
	for (i = 0; i < op_arg_count(op); i++) {
		op->arg[i] = strtoul(line, &end, 10);
		if (end == line)
			return false;
		line = end;
	}
	return *line == '\n';
}
