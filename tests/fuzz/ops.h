/* SPDX-License-Identifier: MIT */
/* What the operations share among themselves. */
#ifndef _KBUS_FUZZ_OPS_H
#define _KBUS_FUZZ_OPS_H

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fuzz.h"

/* What a system call returned, as the kernel gives it */
static inline long result(long returned)
{
	return returned < 0 ? -errno : returned;
}


void remember(struct request *requests, _Atomic uint32_t *count, const struct kbus_msg_id *id,
	      uint32_t peer);
struct kbus_msg_id slot_sent(struct slot *slot, uint32_t back);
size_t message_make(struct task *task, struct slot *slot, const uint32_t *arg);
long ioctl_placed(struct task *task, int fd, unsigned long command, uint32_t memory, void *arg,
		  size_t len);

#endif /* _KBUS_FUZZ_OPS_H */
