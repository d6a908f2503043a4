// SPDX-License-Identifier: MIT
/* What must hold, as far as /proc/kbus shows it. */
#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

#define PATIENCE_MS	60000

/* Others of the user may have as many snapshots open as a lowered max_user_bytes allows. */
static FILE *open_snapshot(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned int ms;

	for (ms = 0; !file && errno == ENOBUFS && ms < PATIENCE_MS; ms++) {
		usleep(1000);
		file = fopen(path, "re");
	}
	if (!file)
		err(2, "%s", path);
	return file;
}

/* Say and count the lines that are not as they should be. */
static unsigned int complain(const char *path, bool (*is_wrong)(const char *line))
{
	FILE *file = open_snapshot(path);
	unsigned int wrong = 0;
	char line[1200];

	while (fgets(line, sizeof(line), file)) {
		if (is_wrong(line)) {
			say("still in %s: %s", path, line);
			wrong++;
		}
	}
	fclose(file);
	return wrong;
}

static bool is_binding(const char *line)
{
	return *line != '#';
}

static bool has_something(const char *line)
{
	return strncmp(line, "device ", 7) || !strstr(line, " ksocks=0 bindings=0 ") ||
		!strstr(line, " waiting=0 events_aside=0\n");
}

/* Nobody has a device open; so nothing is left of those who had. */
bool check_nothing_left(void)
{
	return !(complain("/proc/kbus/bindings", is_binding) +
		complain("/proc/kbus/stats", has_something));
}

static char of_pid[24];

static bool is_of_pid(const char *line)
{
	return strstr(line, of_pid);
}

/* A process that has no KSock open any more has none. */
bool check_none_of(pid_t pid)
{
	snprintf(of_pid, sizeof(of_pid), " pid=%d ", pid);
	return !complain("/proc/kbus/stats", is_of_pid);
}
