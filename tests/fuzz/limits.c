// SPDX-License-Identifier: MIT
/* The module's parameters, limits and one switch, which only root can set: all are put back in the end. */
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "ops.h"

#define PARAMETERS	"/sys/module/kbus/parameters/"

static const char * const limits[] = {
	"max_user_bytes", "max_queue_bytes", "max_user_bindings", "max_ksock_bindings",
	"max_user_ksocks", "max_queue_length", "default_queue_length", "max_message_size",
	"default_message_size", "max_name_bindings", "writers_configure",
};

#define SWITCH	(ARRAY_SIZE(limits) - 1)

static char saved[ARRAY_SIZE(limits)][24];

/* Set one of the parameters, also one that is not among the limits. */
long parameter_set(const char *name, const char *value)
{
	char path[96];
	long got;
	int fd;

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = result(write(fd, value, strlen(value)));
	close(fd);
	return got < 0 ? got : 0;
}

/* Remember the values of all; there must be a module. */
void limits_save(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		char path[96];
		FILE *file;

		snprintf(path, sizeof(path), PARAMETERS "%s", limits[i]);
		file = fopen(path, "re");
		/* A module that has no such switch is fuzzed without it. */
		if (!file && i == SWITCH && errno == ENOENT)
			continue;
		if (!file || !fgets(saved[i], sizeof(saved[i]), file))
			err(2, "%s: is the module loaded?", path);
		fclose(file);
	}
}

void limits_restore(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		if (*saved[i])
			parameter_set(limits[i], saved[i]);
	}
}

long limits_set(uint32_t which, uint32_t value)
{
	char text[16];

	which %= ARRAY_SIZE(limits);
	if (which == SWITCH)
		return parameter_set(limits[which], value % 2 ? "Y" : "N");
	/* Bytes in steps of a small message, or nobody could do anything. */
	snprintf(text, sizeof(text), "%u", which < 2 && value < 1 << 24 ? value * 256 : value);
	return parameter_set(limits[which], text);
}

long op_limit(struct task *task, const uint32_t *arg)
{
	task->worker->limits_changed = true;
	return limits_set(arg[0], arg[1]);
}
