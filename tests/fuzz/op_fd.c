// SPDX-License-Identifier: MIT
/* Operations: descriptors that are opened, shared, passed on and closed. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "ops.h"

static struct slot *slot_at(struct task *task, uint32_t which)
{
	return &task->worker->slots[which % SLOTS];
}

int slot_fd(struct slot *slot)
{
	return slot->fd;
}

/* The slot has this descriptor, or none, from now on; the one before is closed. */
void slot_put(struct slot *slot, int fd)
{
	int before = atomic_exchange(&slot->fd, fd);
	__u32 id = 0;

	if (fd >= 0 && !ioctl(fd, KBUS_IOC_KSOCKID, &id))
		slot->id = id;
	if (before >= 0)
		close(before);
}

static long slot_open(struct slot *slot, uint32_t device, int flags)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/kbus%u", device % DEVICES);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	slot_put(slot, fd);
	return 0;
}

/* If nothing is in the slot, a KSock of the first device comes there, if it can be opened. */
struct slot *task_slot(struct task *task, uint32_t which)
{
	struct slot *slot = slot_at(task, which);

	if (slot->fd < 0)
		slot_open(slot, 0, O_RDWR);
	return slot;
}

long op_open(struct task *task, const uint32_t *arg)
{
	static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR };

	return slot_open(slot_at(task, arg[0]), arg[1],
			 modes[arg[2] % 3] | (arg[2] / 3 % 2 ? O_NONBLOCK : 0));
}

long op_close(struct task *task, const uint32_t *arg)
{
	slot_put(slot_at(task, arg[0]), -1);
	return 0;
}

/* Two slots are one KSock from now on. */
long op_dup(struct task *task, const uint32_t *arg)
{
	int fd = dup(slot_fd(task_slot(task, arg[0])));

	if (fd < 0)
		return -errno;
	slot_put(slot_at(task, arg[1]), fd);
	return 0;
}

long op_nonblock(struct task *task, const uint32_t *arg)
{
	return result(fcntl(slot_fd(task_slot(task, arg[0])), F_SETFL,
			    arg[1] % 2 ? O_NONBLOCK : 0));
}

/* Room for one descriptor in a control message */
union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static long pass(int socket, int fd)
{
	char byte = 0;
	struct iovec vector = { &byte, 1 };
	union control control = { 0 };
	struct msghdr msg = {
		.msg_iov = &vector, .msg_iovlen = 1,
		.msg_control = control.bytes, .msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&msg);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	return result(sendmsg(socket, &msg, 0));
}

static long receive(int socket, struct slot *slot)
{
	char byte;
	struct iovec vector = { &byte, 1 };
	union control control = { 0 };
	struct msghdr msg = {
		.msg_iov = &vector, .msg_iovlen = 1,
		.msg_control = control.bytes, .msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *header;
	int fd;

	if (recvmsg(socket, &msg, MSG_CMSG_CLOEXEC) < 0)
		return -errno;
	header = CMSG_FIRSTHDR(&msg);
	if (!header)
		return -ENOMSG;
	memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	slot_put(slot, fd);
	return 0;
}

/* Over a socket; what nobody receives is closed when the socket is. */
long op_pass(struct task *task, const uint32_t *arg)
{
	int *sockets = task->worker->sockets;
	struct slot *from = task_slot(task, arg[0]), *to = slot_at(task, arg[1]);
	long got;

	if (arg[2] % 4 == 3)
		return receive(sockets[1], to);
	got = pass(sockets[0], slot_fd(from));
	if (got < 0)
		return got;
	if (arg[2] % 4 != 2)
		slot_put(from, -1);
	return arg[2] % 4 ? receive(sockets[1], to) : 0;
}
