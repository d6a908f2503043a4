// SPDX-License-Identifier: MIT
/*
 * What is about to run, on files that outlive the machine that it runs on.
 *
 * Each worker has two files, of which it fills one while the other has what went
 * before. They are open from the beginning, for the worker may not be root later.
 */
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "ops.h"
#include "supervise.h"

#define FILES		2
#define FILE_SIZE	(128 << 10)
#define TEXT_SIZE	(OPS_MAX * 96)

static int files[FILES] = { -1, -1 };
static unsigned int current;
static size_t written;
static char heading[64];

void log_open(unsigned int worker, unsigned int threads)
{
	unsigned int i;

	if (!options.results)
		return;
	snprintf(heading, sizeof(heading), "worker %u threads %u\n", worker, threads);
	for (i = 0; i < FILES; i++) {
		char path[256];

		snprintf(path, sizeof(path), "%s/worker%02u-%u.ops", options.results, worker, i);
		files[i] = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
		if (files[i] < 0)
			err(2, "%s", path);
	}
	written = FILE_SIZE;
}

void log_program(const struct program *program, uint64_t number)
{
	static char text[TEXT_SIZE];
	size_t len = 0;

	if (!options.results)
		return;
	if (written >= FILE_SIZE) {
		current = (current + 1) % FILES;
		if (ftruncate(files[current], 0))
			err(2, "ftruncate");
		written = 0;
		len = snprintf(text, sizeof(text), "%s", heading);
	}
	len += snprintf(text + len, sizeof(text) - len, "program %llu\n",
			(unsigned long long)number);
	len += program_print(program, text + len, sizeof(text) - len);
	/* In one piece, so that at most the last program is torn. */
	if (write(files[current], text, len) != (ssize_t)len)
		err(2, "write");
	written += len;
}

static FILE *open_for(const char *name)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", options.results, name);
	file = fopen(path, "we");
	if (!file)
		err(2, "%s", path);
	return file;
}

/* How often which operation ended how */
static void print_results(FILE *file)
{
	unsigned int i, j;

	for (i = 0; i < op_type_count; i++) {
		fputs(op_types[i].name, file);
		for (j = 0; j < ERRNOS; j++) {
			if (shared->results[i][j])
				fprintf(file, " %s=%llu", j ? strerrorname_np(j) : "0",
					(unsigned long long)shared->results[i][j]);
		}
		fputs("\n", file);
	}
}

/* What has come of it all */
void log_end(bool fine)
{
	FILE *file;

	if (!options.results)
		return;
	file = open_for("reached.txt");
	cover_print(file);
	fclose(file);
	file = open_for("results.txt");
	print_results(file);
	fclose(file);
	file = open_for("summary.txt");
	supervise_summary(file, fine);
	fclose(file);
}
