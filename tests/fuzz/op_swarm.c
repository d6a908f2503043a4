// SPDX-License-Identifier: MIT
/* The operation `swarm`: many who wait for the same KSock, until the program ends. */
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "message.h"
#include "ops.h"

/* Remember a descriptor until the program ends, or close it, as there are enough. */
static long keep(struct worker *worker, int fd)
{
	unsigned int i;

	if (fd < 0)
		return -errno;
	for (i = 0; i < SWARM; i++) {
		int none = 0;

		if (atomic_compare_exchange_strong(&worker->swarm[i], &none, fd))
			return 0;
	}
	close(fd);
	return -EAGAIN;
}

/* A KSock of its own, with a message that waits, or is sent if there is room after all */
static long wait_for_room(struct task *task, uint32_t name, int flags, int *fd)
{
	const uint32_t arg[] = { 0, name, TYPE_ANNOUNCEMENT | KIND_ALL_OR_WAIT, 0, FLAW_NONE, 0 };
	struct kbus_msg_id id;
	size_t len;

	*fd = open("/dev/kbus0", O_RDWR | O_CLOEXEC | flags);
	if (*fd < 0)
		return -errno;
	len = message_make(task, task_slot(task, 0), arg);
	if (write(*fd, task->buffer, len) < 0)
		return -errno;
	return result(ioctl(*fd, KBUS_IOC_SEND, &id));
}

/* They have been given EAGAIN. */
static long swarm_of_pollers(struct task *task, unsigned int count, uint32_t name)
{
	long got = 0;

	while (count-- && !got) {
		int fd;

		got = wait_for_room(task, name, O_NONBLOCK, &fd);
		if (fd >= 0 && keep(task->worker, fd))
			return -EMFILE;
		if (got == -EAGAIN)
			got = 0;
	}
	return got;
}

static _Noreturn void sleeper(struct task *task, uint32_t name)
{
	int fd;

	task->is_child = true;
	task->has_alarm = false;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	wait_for_room(task, name, 0, &fd);
	_exit(0);
}

/* They sleep in SEND, each in a process of its own. */
static long swarm_of_sleepers(struct task *task, unsigned int count, uint32_t name)
{
	struct worker *worker = task->worker;
	unsigned int i;

	/* One thread alone has at most one process beside it. */
	if (task->is_child || worker->threads == 1)
		return -ECHILD;
	for (i = 0; i < SWARM && count; i++) {
		pid_t none = 0, pid;

		if (!atomic_compare_exchange_strong(&worker->sleepers[i], &none, -1))
			continue;
		pid = fork();
		if (!pid)
			sleeper(task, name);
		worker->sleepers[i] = pid < 0 ? 0 : pid;
		if (pid < 0)
			return -errno;
		count--;
	}
	return 0;
}

/* One epoll has the KSock many times. */
static long swarm_in_epoll(struct task *task, unsigned int count, uint32_t slot)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLET };
	int poller = epoll_create1(EPOLL_CLOEXEC);
	long got = keep(task->worker, poller);

	while (count-- && !got) {
		int fd = dup(slot_fd(task_slot(task, slot)));

		if (fd < 0)
			return -errno;
		got = result(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event));
		if (keep(task->worker, fd))
			return -EMFILE;
	}
	if (!got)
		got = result(epoll_wait(poller, &event, 1, 0));
	return got;
}

long op_swarm(struct task *task, const uint32_t *arg)
{
	unsigned int count = arg[1] % SWARM;

	switch (arg[3] % 3) {
	case 0:
		return swarm_of_pollers(task, count, arg[2]);
	case 1:
		return swarm_of_sleepers(task, count, arg[2]);
	default:
		return swarm_in_epoll(task, count, arg[0]);
	}
}

/* All of a worker's are gone. */
void swarm_end(struct worker *worker)
{
	unsigned int i;

	for (i = 0; i < SWARM; i++) {
		int fd = atomic_exchange(&worker->swarm[i], 0);

		if (fd)
			close(fd);
	}
}
