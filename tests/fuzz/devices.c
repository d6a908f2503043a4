// SPDX-License-Identifier: MIT
/* The devices that are hammered: made when there are too few, and put back as they were. */
#include <err.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "ops.h"

static struct {
	mode_t mode;
	__u32 max_msg_size;
} saved[DEVICES];

static int open_device(unsigned int index)
{
	char path[32];

	snprintf(path, sizeof(path), "/dev/kbus%u", index);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int must_open_device(unsigned int index)
{
	int fd = open_device(index);

	if (fd < 0)
		err(2, "device %u", index);
	return fd;
}

/* Numbers wrap soon on the last one. */
static void make_device(bool is_last)
{
	const char *first = is_last ? "4294967200" : "1";
	int fd = must_open_device(0);
	__u32 index;

	parameter_set("first_serial", first);
	parameter_set("first_ksock_id", first);
	if (ioctl(fd, KBUS_IOC_NEWDEVICE, &index))
		err(2, "NEWDEVICE");
	parameter_set("first_serial", "1");
	parameter_set("first_ksock_id", "1");
	close(fd);
}

/* Have DEVICES of them, open to all users, and remember how they are. */
void devices_prepare(void)
{
	struct stat status;
	unsigned int i;

	for (i = 0; i < DEVICES; i++) {
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/dev/kbus%u", i);
		if (access(path, F_OK))
			make_device(i == DEVICES - 1);
		fd = must_open_device(i);
		if (ioctl(fd, KBUS_IOC_MAXMSGSIZE, &saved[i].max_msg_size) ||
		    fstat(fd, &status) || fchmod(fd, 0666))
			err(2, "%s", path);
		saved[i].mode = status.st_mode & 0777;
		close(fd);
	}
}

/* Let messages be as long as they were. */
void devices_restore_sizes(void)
{
	unsigned int i;

	for (i = 0; i < DEVICES; i++) {
		__u32 size = saved[i].max_msg_size;
		int fd = open_device(i);

		/* Where another worker's limits do not allow it, he will come here too. */
		ioctl(fd, KBUS_IOC_MAXMSGSIZE, &size);
		close(fd);
	}
}

/* Put back all that the operations may have changed; the limits are as they were already. */
void devices_restore(void)
{
	static const unsigned int switches[] = { KBUS_IOC_VERBOSE, KBUS_IOC_REPORTREPLIERBINDS };
	unsigned int i, j;

	devices_restore_sizes();
	for (i = 0; i < DEVICES; i++) {
		int fd = must_open_device(i);

		for (j = 0; j < ARRAY_SIZE(switches); j++) {
			__u32 off = KBUS_SWITCH_OFF;

			if (ioctl(fd, switches[j], &off))
				err(2, "switching off");
		}
		if (fchmod(fd, saved[i].mode))
			err(2, "fchmod");
		close(fd);
	}
}
