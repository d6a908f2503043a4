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

/* What op_types has */

long op_open(struct task *task, const uint32_t *arg);
long op_close(struct task *task, const uint32_t *arg);
long op_dup(struct task *task, const uint32_t *arg);
long op_nonblock(struct task *task, const uint32_t *arg);
long op_pass(struct task *task, const uint32_t *arg);
long op_fork(struct task *task, const uint32_t *arg);
long op_kick(struct task *task, const uint32_t *arg);
long op_area(struct task *task, const uint32_t *arg);
long op_limit(struct task *task, const uint32_t *arg);
long op_proc(struct task *task, const uint32_t *arg);
long op_odd(struct task *task, const uint32_t *arg);
long op_poll(struct task *task, const uint32_t *arg);

long op_bind(struct task *task, const uint32_t *arg);
long op_unbind(struct task *task, const uint32_t *arg);
long op_swarm(struct task *task, const uint32_t *arg);
long op_crowd(struct task *task, const uint32_t *arg);
long op_replier(struct task *task, const uint32_t *arg);
long op_resolve(struct task *task, const uint32_t *arg);
long op_abandon(struct task *task, const uint32_t *arg);
long op_get(struct task *task, const uint32_t *arg);
long op_switch(struct task *task, const uint32_t *arg);
long op_maxmsgs(struct task *task, const uint32_t *arg);
long op_maxmsgsize(struct task *task, const uint32_t *arg);
long op_peerinfo(struct task *task, const uint32_t *arg);
long op_newdevice(struct task *task, const uint32_t *arg);
long op_ioctl(struct task *task, const uint32_t *arg);

long op_message(struct task *task, const uint32_t *arg);
long op_send(struct task *task, const uint32_t *arg);
long op_discard(struct task *task, const uint32_t *arg);

long op_transfer(struct task *task, const uint32_t *arg);

long op_next(struct task *task, const uint32_t *arg);
long op_read(struct task *task, const uint32_t *arg);
long op_take(struct task *task, const uint32_t *arg);

#endif /* _KBUS_FUZZ_OPS_H */
