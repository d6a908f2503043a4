// SPDX-License-Identifier: MIT
/* Operations: poll, what else can be done to a descriptor, and /proc/kbus. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "ops.h"

/* Two descriptors, for a short time or none */
long op_poll(struct task *task, const uint32_t *arg)
{
	struct pollfd fds[] = {
		{ slot_fd(task_slot(task, arg[0])), POLLIN | POLLPRI, 0 },
		{ slot_fd(task_slot(task, arg[1])), arg[2] & 4 ? POLLOUT : POLLPRI, 0 },
	};
	struct timespec wait = { .tv_nsec = arg[2] & 1 ? 2000000 : 0 };

	return result(arg[2] & 2 ? ppoll(fds, ARRAY_SIZE(fds), &wait, NULL) :
		      poll(fds, ARRAY_SIZE(fds), wait.tv_nsec / 1000000));
}

static long epoll(int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	int poller = epoll_create1(EPOLL_CLOEXEC);
	long got;

	if (poller < 0)
		return -errno;
	got = result(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event));
	if (!got)
		got = result(epoll_wait(poller, &event, 1, 0));
	close(poller);
	return got;
}

static long map(int fd)
{
	void *area = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

	if (area == MAP_FAILED)
		return -errno;
	munmap(area, 4096);
	return 0;
}

/* Into a pipe, with no descriptor in between that it could block on */
static long splice_out(int fd)
{
	int pipes[2];
	long got;

	if (pipe2(pipes, O_NONBLOCK | O_CLOEXEC))
		return -errno;
	got = result(splice(fd, NULL, pipes[1], NULL, 100, SPLICE_F_NONBLOCK));
	close(pipes[0]);
	close(pipes[1]);
	return got;
}

/* What a KSock has no use for */
long op_odd(struct task *task, const uint32_t *arg)
{
	int fd = slot_fd(task_slot(task, arg[0]));
	struct iovec vector = { task->buffer, 64 };

	switch (arg[1] % 13) {
	case 0:
		return map(fd);
	case 1:
		return result(lseek(fd, 10, SEEK_SET));
	case 2:
		return result(pread(fd, task->buffer, 64, 8));
	case 3:
		return result(pwrite(fd, task->buffer, 64, 8));
	case 4:
		return result(preadv2(fd, &vector, 1, -1, RWF_NOWAIT));
	case 5:
		return result(pwritev2(fd, &vector, 1, -1, RWF_NOWAIT | RWF_APPEND));
	case 6:
		return result(ftruncate(fd, 0));
	case 7:
		return result(fsync(fd));
	case 8:
		return result(fcntl(fd, F_SETFL, O_ASYNC | O_APPEND));
	case 9:
		return result(flock(fd, LOCK_EX | LOCK_NB));
	case 10:
		return splice_out(fd);
	case 11:
		return result(sendfile(fd, fd, NULL, 64));
	default:
		return epoll(fd);
	}
}

long op_proc(struct task *task, const uint32_t *arg)
{
	const char *path = arg[0] % 2 ? "/proc/kbus/stats" : "/proc/kbus/bindings";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t piece = 1 + arg[1] % BUFFER;
	unsigned int pieces = 8;
	long got = 1;

	if (fd < 0)
		return -errno;
	if (arg[0] % 4 == 3)
		lseek(fd, arg[1], SEEK_SET);
	while (got > 0 && pieces--)
		got = result(read(fd, task->buffer, piece));
	close(fd);
	return got;
}
