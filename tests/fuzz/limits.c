// SPDX-License-Identifier: MIT
/* The module's parameters, which only root can set: all are put back in the end. */
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ops.h"

#define PARAMETERS	"/sys/module/kbus/parameters/"

static const char * const limits[] = {
	"max_user_bytes", "max_queue_bytes", "max_user_bindings", "max_ksock_bindings",
	"max_user_ksocks", "max_queue_length", "default_queue_length", "max_message_size",
	"default_message_size",
};

static char saved[ARRAY_SIZE(limits)][24];

static long set(const char *name, const char *value)
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
		if (!file || !fgets(saved[i], sizeof(saved[i]), file))
			err(2, "%s: is the module loaded?", path);
		fclose(file);
	}
}

void limits_restore(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(limits); i++)
		set(limits[i], saved[i]);
}

long limits_set(uint32_t which, uint32_t value)
{
	char text[16];

	/* Bytes in steps of a small message, or nobody could do anything. */
	which %= ARRAY_SIZE(limits);
	snprintf(text, sizeof(text), "%u", which < 2 && value < 1 << 24 ? value * 256 : value);
	return set(limits[which], text);
}

static void make_device(void)
{
	int fd = open("/dev/kbus0", O_RDWR | O_CLOEXEC);
	__u32 number;

	if (fd < 0 || ioctl(fd, KBUS_IOC_NEWDEVICE, &number))
		err(2, "/dev/kbus0: NEWDEVICE");
	close(fd);
}

/* Have DEVICES of them, on the last of which numbers wrap, open to all users. */
void limits_make_devices(void)
{
	unsigned int i;

	for (i = 0; i < DEVICES; i++) {
		bool wraps = i == DEVICES - 1;
		char path[32];

		snprintf(path, sizeof(path), "/dev/kbus%u", i);
		if (access(path, F_OK)) {
			set("first_serial", wraps ? "4294967200" : "1");
			set("first_ksock_id", wraps ? "4294967200" : "1");
			make_device();
			set("first_serial", "1");
			set("first_ksock_id", "1");
		}
		if (chmod(path, 0666))
			err(2, "%s", path);
	}
}

long op_limit(struct task *task, const uint32_t *arg)
{
	task->worker->limits_changed = true;
	return limits_set(arg[0], arg[1]);
}
