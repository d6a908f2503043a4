// SPDX-License-Identifier: MIT
/* Operations: all the other ioctls, and those that there are not. */
#include <string.h>

#include "ops.h"

/* An ioctl whose argument is in memory of some kind */
long ioctl_placed(struct task *task, int fd, unsigned long command, uint32_t memory, void *arg,
		  size_t len)
{
	void *place = memory_place(&task->memory, memory, arg, len);
	long got = result(ioctl(fd, command, place));

	memory_done(&task->memory, memory);
	return got;
}

static long ioctl_number(struct task *task, uint32_t slot, unsigned long command, uint32_t memory,
			 __u32 number)
{
	return ioctl_placed(task, slot_fd(task_slot(task, slot)), command, memory, &number,
			    sizeof(number));
}

long op_abandon(struct task *task, const uint32_t *arg)
{
	struct slot *slot = task_slot(task, arg[0]);
	struct kbus_msg_id id = slot_sent(slot, arg[1]);

	return ioctl_placed(task, slot_fd(slot), KBUS_IOC_ABANDON, arg[2], &id, sizeof(id));
}

/* Those that only tell something */
long op_get(struct task *task, const uint32_t *arg)
{
	static const unsigned int commands[] = {
		KBUS_IOC_RESET, KBUS_IOC_KSOCKID, KBUS_IOC_LENLEFT, KBUS_IOC_LASTSENT,
		KBUS_IOC_NUMMSGS, KBUS_IOC_UNREPLIEDTO, KBUS_IOC_LOSTMSGS,
	};
	struct kbus_lost_msgs largest;

	return ioctl_placed(task, slot_fd(task_slot(task, arg[0])),
			    commands[arg[1] % ARRAY_SIZE(commands)], arg[2], &largest,
			    sizeof(largest));
}

long op_switch(struct task *task, const uint32_t *arg)
{
	static const unsigned int commands[] = {
		KBUS_IOC_MSGONLYONCE, KBUS_IOC_REPORTLOST, KBUS_IOC_REPORTREPLIERBINDS,
		KBUS_IOC_VERBOSE,
	};

	return ioctl_number(task, arg[0], commands[arg[1] % ARRAY_SIZE(commands)], arg[3], arg[2]);
}

long op_maxmsgs(struct task *task, const uint32_t *arg)
{
	return ioctl_number(task, arg[0], KBUS_IOC_MAXMSGS, arg[2], arg[1]);
}

long op_maxmsgsize(struct task *task, const uint32_t *arg)
{
	task->worker->limits_changed = true;
	return ioctl_number(task, arg[0], KBUS_IOC_MAXMSGSIZE, arg[2], arg[1]);
}

/* Our own KSocks, those that came after and before them, and none */
long op_peerinfo(struct task *task, const uint32_t *arg)
{
	struct kbus_peer_info info = { .ksock_id = task_slot(task, arg[1])->id };

	if (arg[1] % 4 == 3)
		info.ksock_id += arg[1] / 4 - 2;
	return ioctl_placed(task, slot_fd(task_slot(task, arg[0])), KBUS_IOC_PEERINFO, arg[2],
			    &info, sizeof(info));
}

/* Devices are for ever, so that only a few are made. */
long op_newdevice(struct task *task, const uint32_t *arg)
{
	bool enough = atomic_fetch_add(&shared->devices_made, 1) >= 4;

	return ioctl_number(task, arg[0], KBUS_IOC_NEWDEVICE, enough ? MEMORY_NULL : arg[1], 0);
}

/* Any command with any argument */
long op_ioctl(struct task *task, const uint32_t *arg)
{
	unsigned char *bytes = task->buffer;

	if (arg[1] == KBUS_IOC_NEWDEVICE)
		return -ENOTTY;
	memset(bytes, 0, 16);
	memcpy(bytes, &arg[3], sizeof(arg[3]));
	return ioctl_placed(task, slot_fd(task_slot(task, arg[0])), arg[1], arg[2], bytes, 16);
}
