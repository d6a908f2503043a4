// SPDX-License-Identifier: MIT
/* Operations: NEXTMSG and reading. */
#include <string.h>
#include <sys/uio.h>

#include "ops.h"

long op_next(struct task *task, const uint32_t *arg)
{
	__u32 len = 0;

	return ioctl_placed(task, slot_fd(task_slot(task, arg[0])), KBUS_IOC_NEXTMSG, arg[1], &len,
			    sizeof(len));
}

long op_read(struct task *task, const uint32_t *arg)
{
	int fd = slot_fd(task_slot(task, arg[0]));
	size_t len = arg[1] % BUFFER;
	void *place = memory_place(&task->memory, arg[2], task->buffer, len);
	struct iovec vector[] = {
		{ task->buffer, len / 3 }, { NULL, 0 }, { place, len }, { task->buffer, 1 },
	};
	long got;

	switch (arg[3] % 4) {
	case 0:
		got = result(readv(fd, vector, ARRAY_SIZE(vector)));
		break;
	case 1:
		/* By hand, for the C library and the compiler know that it is too much. */
		got = result(syscall(SYS_read, fd, place, (long)INT32_MAX));
		break;
	default:
		got = result(read(fd, place, len));
		break;
	}
	memory_done(&task->memory, arg[2]);
	return got;
}

/* Take the next message whole. A Request that is to be answered here is remembered. */
static long take(struct task *task, struct slot *slot)
{
	struct kbus_message_header hdr;
	int fd = slot_fd(slot);
	__u32 len = 0;
	long got;

	got = result(ioctl(fd, KBUS_IOC_NEXTMSG, &len));
	if (got != 1)
		return got;
	got = result(read(fd, task->buffer, len < BUFFER ? len : BUFFER));
	if (got < (long)sizeof(hdr))
		return got;
	memcpy(&hdr, task->buffer, sizeof(hdr));
	if (hdr.flags & KBUS_BIT_WANT_YOU_TO_REPLY)
		remember(slot->owed, &slot->owed_count, &hdr.id, hdr.from);
	return got;
}

long op_take(struct task *task, const uint32_t *arg)
{
	struct slot *slot = task_slot(task, arg[0]);
	/* One, as a rule; now and then a lot. */
	unsigned int times = arg[1] % 16 < 12 ? 1 : 1U << (arg[1] % 16 - 8);
	long got = 0;

	while (times--) {
		got = take(task, slot);
		if (got <= 0)
			break;
	}
	return got;
}
