/* SPDX-License-Identifier: MIT */
/* What the C programs of tests/neighbours share: device 0, and messages as bytes. */
#ifndef BUS_H
#define BUS_H

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/kbus.h>

struct bytes {
	char *start;
	size_t len;
};

static inline int bus_open(void)
{
	return open("/dev/kbus0", O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

/* BIND or UNBIND; 0 or -1 with errno. */
static inline int bus_bind(int fd, unsigned long which, const char *name, int is_replier)
{
	struct kbus_bind_request req = {
		.is_replier = is_replier, .name_len = strlen(name), .name = (uintptr_t)name,
	};

	return ioctl(fd, which, &req);
}

/* A message with @words words of zeroes as its data, and where they are if @data is not NULL */
static inline struct bytes bus_message(const char *name, __u32 flags, __u32 words, void **data)
{
	struct kbus_message_header hdr = {
		.start_guard = KBUS_MSG_START_GUARD, .flags = flags,
		.name_len = strlen(name), .data_len = words,
	};
	size_t padded = (hdr.name_len + 3) & ~3UL;
	const __u32 end = KBUS_MSG_END_GUARD;
	struct bytes msg = { .len = sizeof(hdr) + padded + 4UL * words + sizeof(end) };

	msg.start = calloc(1, msg.len);
	if (!msg.start)
		err(1, "malloc");
	memcpy(msg.start, &hdr, sizeof(hdr));
	memcpy(msg.start + sizeof(hdr), name, hdr.name_len);
	memcpy(msg.start + msg.len - sizeof(end), &end, sizeof(end));
	if (data)
		*data = msg.start + sizeof(hdr) + padded;
	return msg;
}

/* Write and SEND; 0 or -1 with errno. */
static inline int bus_send(int fd, struct bytes msg)
{
	struct kbus_msg_id id;

	if (write(fd, msg.start, msg.len) < 0)
		return -1;
	return ioctl(fd, KBUS_IOC_SEND, &id);
}

/* NEXTMSG; the length of what is to be read now, 0 if nothing is. */
static inline __u32 bus_next(int fd)
{
	__u32 len;

	if (ioctl(fd, KBUS_IOC_NEXTMSG, &len) < 0)
		err(1, "NEXTMSG");
	return len;
}

#endif
