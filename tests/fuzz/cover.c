// SPDX-License-Identifier: MIT
/*
 * What was reached in the module, by KCOV: each thread has the kernel list the
 * places in the code that it passes. A place that nobody has passed before, or
 * two in a row that nobody has passed in a row, make a program interesting.
 */
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ops.h"

#define KCOV		"/sys/kernel/debug/kcov"
#define TEXT		"/sys/module/kbus/sections/.text"
/* The kernel's words have 64 bits, whatever the program's have. */
#define KCOV_INIT_TRACE	_IOR('c', 1, uint64_t)
#define KCOV_ENABLE	_IO('c', 100)
#define KCOV_TRACE_PC	0
#define WORDS		(64 << 10)

#define PLACES		(1 << 20)	/* bytes of the module's code that can be told apart */
#define PAIRS		(1 << 16)

static struct {
	_Atomic uint32_t count;
	_Atomic uint8_t places[PLACES];
	_Atomic uint8_t pairs[PAIRS];
} *seen;

static uint64_t text;

/* Return false if there is no KCOV, or the module has not been built for it. */
bool cover_init(void)
{
	char line[32];
	FILE *file;

	seen = share(sizeof(*seen));
	if (access(KCOV, R_OK | W_OK))
		return false;
	file = fopen(TEXT, "re");
	if (!file || !fgets(line, sizeof(line), file))
		err(2, TEXT);
	fclose(file);
	text = strtoull(line, NULL, 16);
	return true;
}

/* To be called by the thread itself */
void cover_init_task(struct cover *cover)
{
	int fd = open(KCOV, O_RDWR | O_CLOEXEC);
	void *area;

	if (fd < 0 || ioctl(fd, KCOV_INIT_TRACE, WORDS))
		err(2, KCOV);
	area = mmap(NULL, WORDS * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (area == MAP_FAILED || ioctl(fd, KCOV_ENABLE, KCOV_TRACE_PC))
		err(2, KCOV);
	cover->area = area;
	/* The descriptor stays open: coverage ends with it. */
}

/* Forget what the thread has reached so far. */
void cover_reset(struct cover *cover)
{
	if (cover->area)
		__atomic_store_n(&cover->area[0], 0, __ATOMIC_RELAXED);
}

/* Return whether the thread has reached anything new since cover_reset(). */
bool cover_collect(struct cover *cover)
{
	uint64_t count, i, before = 0;
	bool is_new = false;

	if (!cover->area)
		return false;
	count = __atomic_load_n(&cover->area[0], __ATOMIC_RELAXED);
	for (i = 1; i <= count; i++) {
		uint64_t place = cover->area[i] - text;

		if (place >= PLACES)
			continue;
		if (!atomic_exchange(&seen->places[place], 1)) {
			seen->count++;
			is_new = true;
		}
		if (!atomic_exchange(&seen->pairs[(place * 31 + before) % PAIRS], 1))
			is_new = true;
		before = place;
	}
	return is_new;
}

unsigned int cover_count(void)
{
	return seen->count;
}

/* The places, as offsets in the module's .text */
void cover_print(FILE *file)
{
	unsigned int i;

	for (i = 0; i < PLACES; i++) {
		if (seen->places[i])
			fprintf(file, "%x\n", i);
	}
}
