/* SPDX-License-Identifier: MIT */
/* Every ioctl of KBUS, each in a function that can be copied; ioctls.c calls them. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <linux/kbus.h>

/* --- RESET --- */
static void reset(int fd)
{
	if (ioctl(fd, KBUS_IOC_RESET))
		err(1, "RESET");
}

/* --- KSOCKID --- */
static __u32 ksock_id(int fd)
{
	__u32 id;

	if (ioctl(fd, KBUS_IOC_KSOCKID, &id))
		err(1, "KSOCKID");
	return id;
}

/* --- MAXMSGS --- */
/* Make the queue as long as possible, up to @length; what it is now comes back. */
static __u32 set_queue_length(int fd, __u32 length)
{
	if (ioctl(fd, KBUS_IOC_MAXMSGS, &length))
		err(1, "MAXMSGS");
	return length;
}

/* --- MSGONLYONCE --- */
static void want_messages_once(int fd)
{
	__u32 value = KBUS_SWITCH_ON;

	if (ioctl(fd, KBUS_IOC_MSGONLYONCE, &value))
		err(1, "MSGONLYONCE");
	printf("only once: it was %s\n", value == KBUS_SWITCH_ON ? "on" : "off");
}

/* --- BIND --- */
static void bind_to(int fd, const char *name, bool as_replier)
{
	struct kbus_bind_request request = {
		.is_replier = as_replier,
		.name_len = strlen(name),
		.name = (uintptr_t)name,
	};

	if (!ioctl(fd, KBUS_IOC_BIND, &request))
		return;
	if (errno == EADDRINUSE)
		errx(1, "%s has a replier already", name);
	err(1, "bind to %s", name);
}

/* --- UNBIND --- */
static void unbind_from(int fd, const char *name, bool as_replier)
{
	struct kbus_bind_request request = {
		.is_replier = as_replier,
		.name_len = strlen(name),
		.name = (uintptr_t)name,
	};

	if (ioctl(fd, KBUS_IOC_UNBIND, &request))
		err(1, "unbind from %s", name);
}

/* --- REPLIER --- */
/* The KSock that is bound as replier to exactly this name, 0 for none */
static __u32 bound_replier(int fd, const char *name)
{
	struct kbus_replier_query query = { .name_len = strlen(name), .name = (uintptr_t)name };

	if (ioctl(fd, KBUS_IOC_REPLIER, &query) < 0)
		err(1, "REPLIER %s", name);
	return query.ksock_id;
}

/* --- RESOLVE --- */
/* The KSock that would get a Request of this name, 0 for none */
static __u32 who_would_answer(int fd, const char *name)
{
	struct kbus_replier_query query = { .name_len = strlen(name), .name = (uintptr_t)name };

	if (ioctl(fd, KBUS_IOC_RESOLVE, &query) < 0)
		err(1, "RESOLVE %s", name);
	return query.ksock_id;
}

/* --- write --- */
/* Write a message in one call; @header has what the message needs besides lengths and guards. */
static void write_message(int fd, struct kbus_message_header header, const char *name,
			  const void *data, size_t len)
{
	static char zero[4];
	__u32 end_guard = KBUS_MSG_END_GUARD;
	size_t name_len = strlen(name), data_pad = -len % 4;
	struct iovec parts[] = {
		{ &header, sizeof(header) },
		{ (void *)name, name_len }, { zero, -name_len % 4 },
		{ (void *)data, len }, { zero, data_pad },
		{ &end_guard, sizeof(end_guard) },
	};

	header.start_guard = KBUS_MSG_START_GUARD;
	header.flags |= data_pad << KBUS_DATA_PAD_SHIFT;
	header.name_len = name_len;
	header.data_len = (len + data_pad) / 4;
	if (writev(fd, parts, sizeof(parts) / sizeof(*parts)) < 0)
		err(1, "write %s", name);
}

/* --- SEND --- */
static struct kbus_msg_id send_written(int fd)
{
	struct kbus_msg_id id;

	/* EINTR keeps the message; every other error but EAGAIN drops it. */
	while (ioctl(fd, KBUS_IOC_SEND, &id)) {
		if (errno != EINTR)
			err(1, "SEND");
	}
	return id;
}

/* --- poll --- */
/* SEND on a descriptor with O_NONBLOCK: wait for room no longer than @timeout ms. */
static bool send_within(int fd, int timeout, struct kbus_msg_id *id)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLOUT };

	while (ioctl(fd, KBUS_IOC_SEND, id)) {
		if (errno != EAGAIN)
			err(1, "SEND");
		if (poll(&pollfd, 1, timeout) == 0) {
			ioctl(fd, KBUS_IOC_DISCARD);
			return false;
		}
	}
	return true;
}

/* --- DISCARD --- */
static void think_better_of_it(int fd)
{
	write_message(fd, (struct kbus_message_header){ 0 }, "$.Never.Sent", "", 0);
	if (ioctl(fd, KBUS_IOC_DISCARD))
		err(1, "DISCARD");
}

/* --- LASTSENT --- */
static struct kbus_msg_id last_sent(int fd)
{
	struct kbus_msg_id id;

	if (ioctl(fd, KBUS_IOC_LASTSENT, &id))
		err(1, "LASTSENT");
	return id;
}

/* --- ABANDON --- */
/* Give up waiting for an answer; false if it has come already. */
static bool abandon(int fd, struct kbus_msg_id id)
{
	if (!ioctl(fd, KBUS_IOC_ABANDON, &id))
		return true;
	if (errno != ENOENT)
		err(1, "ABANDON");
	return false;
}

/* --- NEXTMSG --- */
/* The next message, to be freed; NULL if none is queued. */
static struct kbus_message_header *next_message(int fd)
{
	struct kbus_message_header *message;
	__u32 length;

	if (ioctl(fd, KBUS_IOC_NEXTMSG, &length) < 0)
		err(1, "NEXTMSG");
	if (!length)
		return NULL;
	message = malloc(length);
	if (!message || read(fd, message, length) != (ssize_t)length)
		err(1, "read");
	return message;
}

/* --- LENLEFT --- */
static __u32 bytes_left(int fd)
{
	__u32 left;

	if (ioctl(fd, KBUS_IOC_LENLEFT, &left))
		err(1, "LENLEFT");
	return left;
}

/* --- NUMMSGS --- */
static __u32 messages_queued(int fd)
{
	__u32 count;

	if (ioctl(fd, KBUS_IOC_NUMMSGS, &count))
		err(1, "NUMMSGS");
	return count;
}

/* --- UNREPLIEDTO --- */
static __u32 answers_owed(int fd)
{
	__u32 count;

	if (ioctl(fd, KBUS_IOC_UNREPLIEDTO, &count))
		err(1, "UNREPLIEDTO");
	return count;
}

/* --- LOSTMSGS --- */
static unsigned long long messages_lost(int fd)
{
	struct kbus_lost_msgs lost;

	if (ioctl(fd, KBUS_IOC_LOSTMSGS, &lost))
		err(1, "LOSTMSGS");
	return lost.count;
}

/* --- REPORTLOST --- */
static void report_lost(int fd)
{
	__u32 value = KBUS_SWITCH_ON;

	if (ioctl(fd, KBUS_IOC_REPORTLOST, &value))
		err(1, "REPORTLOST");
}

/* --- TRANSFER --- */
/* Send messages that are packed already, and give as many as come within a second and fit. */
static unsigned int send_and_receive(int fd, const void *messages, __u32 length, void *room,
				     __u32 room_length)
{
	struct kbus_transfer transfer = {
		.send = (uintptr_t)messages,
		.send_len = length,
		.receive = (uintptr_t)room,
		.receive_len = room_length,
	};
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	transfer.deadline = (now.tv_sec + 1) * 1000000000ULL + now.tv_nsec;
	if (ioctl(fd, KBUS_IOC_TRANSFER, &transfer))
		err(1, "TRANSFER");
	if (transfer.error)
		errx(1, "TRANSFER: after %u messages: %s", transfer.sent, strerror(transfer.error));
	printf("sent: %u, received: %u\n", transfer.sent, transfer.received);
	return transfer.received;
}

/* --- PEERINFO --- */
/* Was the message sent by a program of this user? */
static bool is_from_user(int fd, const struct kbus_message_header *message, uid_t uid)
{
	struct kbus_peer_info info = { .ksock_id = message->from };

	if (ioctl(fd, KBUS_IOC_PEERINFO, &info)) {
		if (errno == ESRCH)	/* it has gone, and nobody can tell any more */
			return false;
		err(1, "PEERINFO");
	}
	return info.uid == uid;
}

/* --- VERBOSE --- */
static bool is_verbose(int fd)
{
	__u32 value = KBUS_SWITCH_ASK;

	if (ioctl(fd, KBUS_IOC_VERBOSE, &value))
		err(1, "VERBOSE");
	return value == KBUS_SWITCH_ON;
}

/* --- NEWDEVICE --- */
static __u32 new_device(int fd)
{
	__u32 number;

	if (ioctl(fd, KBUS_IOC_NEWDEVICE, &number))
		err(1, "NEWDEVICE");
	return number;
}

/* --- REPORTREPLIERBINDS --- */
static void report_replier_binds(int fd, bool on)
{
	__u32 value = on ? KBUS_SWITCH_ON : KBUS_SWITCH_OFF;

	if (ioctl(fd, KBUS_IOC_REPORTREPLIERBINDS, &value))
		err(1, "REPORTREPLIERBINDS");
}

/* --- MAXMSGSIZE --- */
/* Let messages on this device be as long as the administrator allows. */
static __u32 allow_long_messages(int fd)
{
	__u32 size = 1;

	if (ioctl(fd, KBUS_IOC_MAXMSGSIZE, &size) || ioctl(fd, KBUS_IOC_MAXMSGSIZE, &size))
		err(1, "MAXMSGSIZE");
	return size;
}
/* --- end --- */
