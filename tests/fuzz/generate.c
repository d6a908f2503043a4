// SPDX-License-Identifier: MIT
/* Programs from nothing, and programs from other programs. */
#include <string.h>

#include "fuzz.h"
#include "message.h"

static uint32_t pick(struct random *random, const uint32_t *values, unsigned int count)
{
	return values[random_below(random, count)];
}

#define PICK(random, ...) ({						\
	static const uint32_t values_[] = { __VA_ARGS__ };		\
	pick(random, values_, ARRAY_SIZE(values_));			\
})

static uint32_t kind_random(struct random *random)
{
	/* Answers are as many as questions. */
	uint32_t kind = PICK(random, TYPE_ANNOUNCEMENT, TYPE_ANNOUNCEMENT, TYPE_REQUEST,
			     TYPE_REQUEST, TYPE_REQUEST, TYPE_REQUEST_TO, TYPE_REPLY,
			     TYPE_REPLY, TYPE_REPLY, TYPE_REPLY_OLD, TYPE_REPLY_MADE_UP,
			     TYPE_FOREIGN, TYPE_REQUEST_FOREIGN);

	if (random_chance(random, 15))
		kind |= KIND_URGENT;
	if (random_chance(random, 25))
		kind |= KIND_ALL_OR_WAIT;
	else if (random_chance(random, 15))
		kind |= KIND_ALL_OR_FAIL;
	if (random_chance(random, 8))
		kind |= KIND_EXTENDED;
	if (random_chance(random, 8))
		kind |= KIND_OTHER_FLAGS;
	return kind | random_below(random, 16) << KIND_PICK_SHIFT;
}

static uint32_t how_random(struct random *random)
{
	uint32_t how = random_chance(random, 75) ? MANNER_WHOLE :
		random_below(random, MANNERS);

	how |= arg_random(random, ARG_MEMORY) << HOW_MEMORY_SHIFT;
	if (random_chance(random, 80))
		how |= HOW_SEND;
	return how | arg_random(random, ARG_LENGTH) << HOW_PIECE_SHIFT;
}

/* A length in words that is near some boundary, or a big one */
static uint32_t words_random(struct random *random)
{
	if (random_chance(random, 70))
		return random_below(random, 8);
	if (random_chance(random, 90))
		return PICK(random, 13, 14, 15, 16, 440, 480, 484, 490, 500, 1000, 1024, 1500, 2000,
			    3000, 5000);
	return PICK(random, 16000, 65536, 262130, 262144, 270000);
}

static uint32_t command_random(struct random *random)
{
	uint32_t direction = random_below(random, 4);
	uint32_t size = PICK(random, 0, 1, 3, 4, 8, 12, 16, 24, 4096, 16383);
	uint32_t number = random_chance(random, 90) ? random_below(random, 42) :
		random_below(random, 256);
	uint32_t magic = random_chance(random, 90) ? KBUS_IOC_MAGIC :
		KBUS_IOC_MAGIC ^ 1 << random_below(random, 8);

	return _IOC(direction, magic, number, size);
}

uint32_t arg_random(struct random *random, enum arg_kind kind)
{
	switch (kind) {
	case ARG_NONE:
		return 0;
	case ARG_SLOT:
		return random_below(random, random_chance(random, 80) ? 4 : SLOTS);
	case ARG_DEVICE:
		return random_chance(random, 75) ? 0 : random_below(random, DEVICES);
	case ARG_MODE:
		return random_chance(random, 75) ? 2 : random_below(random, 6);
	case ARG_NAME:
		if (random_chance(random, 70))
			return random_below(random, 10);
		return random_below(random, random_chance(random, 70) ? NAMES_GOOD : name_count);
	case ARG_ROLE:
		return random_chance(random, 97) ? PICK(random, 0, 0, 1, 1, 2) :
			PICK(random, 3, UINT32_MAX);
	case ARG_MEMORY:
		return random_chance(random, 85) ? MEMORY_PLAIN :
			random_below(random, MEMORY_KINDS);
	case ARG_KIND:
		return kind_random(random);
	case ARG_WORDS:
		return words_random(random);
	case ARG_FLAW:
		return random_chance(random, 85) ? FLAW_NONE : random_below(random, FLAWS);
	case ARG_HOW:
		return how_random(random);
	case ARG_PICK:
		return random_below(random, 16);
	case ARG_LENGTH:
		return PICK(random, 0, 1, 2, 3, 4, 7, 16, 39, 40, 41, 56, 100, 1000, 2047, 4096,
			    5000, 65536);
	case ARG_VALUE:
		return PICK(random, 0, 1, 1, 1, 2, 2, 3, 4, 5, 10, 99, 100, 101, 200,
			    1000, 4096, 30000, 1 << 20, 16 << 20, (16 << 20) + 1, UINT32_MAX);
	case ARG_COMMAND:
		return command_random(random);
	case ARG_THREAD:
		return random_below(random, THREADS);
	case ARG_MANY:
		return PICK(random, 1, 10, 25, 50);
	}
	return 0;
}

struct op op_random(struct random *random)
{
	static unsigned int whole;
	struct op op = { .thread = random_below(random, THREADS) };
	unsigned int i, left;

	if (!whole) {
		for (i = 0; i < op_type_count; i++)
			whole += op_types[i].weight;
	}
	left = random_below(random, whole);
	for (i = 0; left >= op_types[i].weight; i++)
		left -= op_types[i].weight;
	op.code = i;
	for (i = 0; i < ARGS_MAX; i++)
		op.arg[i] = arg_random(random, op_types[op.code].args[i]);
	return op;
}

/* Add an operation; a program that is full stays as it is. */
void program_add(struct program *program, const struct op *op)
{
	if (program->count < OPS_MAX)
		program->ops[program->count++] = *op;
}

void program_generate(struct random *random, struct program *program)
{
	unsigned int count = 20 + random_below(random, 100);

	program->count = 0;
	while (program->count < count) {
		if (random_chance(random, 20)) {
			recipe_add(random, program);
		} else {
			struct op op = op_random(random);

			program_add(program, &op);
		}
	}
}

static void program_remove(struct program *program, unsigned int at, unsigned int count)
{
	memmove(&program->ops[at], &program->ops[at + count],
		(program->count - at - count) * sizeof(program->ops[0]));
	program->count -= count;
}

static void program_insert(struct program *program, unsigned int at, const struct op *ops,
			   unsigned int count)
{
	if (count > OPS_MAX - program->count)
		count = OPS_MAX - program->count;
	memmove(&program->ops[at + count], &program->ops[at],
		(program->count - at) * sizeof(program->ops[0]));
	memcpy(&program->ops[at], ops, count * sizeof(*ops));
	program->count += count;
}

/* Change an argument or two, or the thread. */
static void op_mutate(struct random *random, struct op *op)
{
	unsigned int i = random_below(random, ARGS_MAX + 1);

	if (i == ARGS_MAX)
		op->thread = random_below(random, THREADS);
	else
		op->arg[i] = arg_random(random, op_types[op->code].args[i]);
}

static void program_mutate_once(struct random *random, struct program *program,
				const struct program *other)
{
	unsigned int at = random_below(random, program->count);
	struct program piece = { 0 };
	unsigned int count, from;

	switch (random_below(random, 8)) {
	case 0:
		count = 1 + random_below(random, 20);
		if (at + count < program->count)
			program_remove(program, at, count);
		break;
	case 1:
		piece.ops[0] = op_random(random);
		program_insert(program, at, piece.ops, 1);
		break;
	case 2:
		recipe_add(random, &piece);
		program_insert(program, at, piece.ops, piece.count);
		break;
	case 3:
		from = random_below(random, other->count);
		count = 1 + random_below(random, other->count - from);
		program_insert(program, at, &other->ops[from], count);
		break;
	case 4:
		piece.ops[0] = program->ops[at];
		program_insert(program, random_below(random, program->count), piece.ops, 1);
		break;
	default:
		op_mutate(random, &program->ops[at]);
		break;
	}
}

/* Both have an operation at least. */
void program_mutate(struct random *random, struct program *program, const struct program *other)
{
	unsigned int times = 1 + random_below(random, 8);

	while (times--)
		program_mutate_once(random, program, other);
}
