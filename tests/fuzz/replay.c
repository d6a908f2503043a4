// SPDX-License-Identifier: MIT
/* Programs from files that log.c has written, or somebody by hand. */
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static struct {
	unsigned int threads;		/* 0: nothing is to be run by it */
	struct program *programs;
	unsigned int count;
} replayed[WORKERS_MAX];

static struct program *add_program(unsigned int worker)
{
	struct program *programs;

	programs = reallocarray(replayed[worker].programs, replayed[worker].count + 1,
				sizeof(*programs));
	if (!programs)
		err(2, "replay");
	replayed[worker].programs = programs;
	programs += replayed[worker].count++;
	programs->count = 0;
	return programs;
}

/* Read a file, in addition to others. Give how many workers there are in all. */
unsigned int replay_read(const char *path)
{
	FILE *file = fopen(path, "re");
	struct program *program = NULL;
	unsigned int worker = WORKERS_MAX, threads, count = 0, i;
	char line[128];
	struct op op;

	if (!file)
		err(2, "%s", path);
	/* A last line without an end was being written when the machine died. */
	while (fgets(line, sizeof(line), file) && strchr(line, '\n')) {
		if (sscanf(line, "worker %u threads %u", &worker, &threads) == 2) {
			if (worker >= WORKERS_MAX || !threads || threads > THREADS)
				errx(2, "%s: no such worker: %s", path, line);
			replayed[worker].threads = threads;
		} else if (worker == WORKERS_MAX) {
			errx(2, "%s: not of a worker: %s", path, line);
		} else if (!strncmp(line, "program", 7)) {
			program = add_program(worker);
		} else if (program && op_parse(line, &op)) {
			program_add(program, &op);
		} else {
			errx(2, "%s: not an operation: %s", path, line);
		}
	}
	fclose(file);
	for (i = 0; i < WORKERS_MAX; i++)
		count += replayed[i].threads != 0;
	return count;
}

unsigned int replay_threads(unsigned int worker)
{
	return replayed[worker].threads;
}

/* All of a worker's programs in turn, as often as is asked for */
bool replay_next(struct worker *worker)
{
	unsigned int count = replayed[worker->number].count;

	if (worker->programs >= (uint64_t)count * options.repeat)
		return false;
	worker->program = replayed[worker->number].programs[worker->programs % count];
	return true;
}
