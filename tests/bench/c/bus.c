// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "bench.h"
#include "bus.h"

static size_t round_up(size_t n, size_t step)
{
	return (n + step - 1) / step * step;
}

const char *bus_name(void)
{
	static char name[32];

	snprintf(name, sizeof(name), "$.Bench.C%u", setup.channel % 10000);
	return name;
}

int bus_open(void)
{
	int fd = open("/dev/kbus0", O_RDWR | O_CLOEXEC);
	__u32 size = 1;

	if (fd < 0)
		err(1, "/dev/kbus0");
	if (ioctl(fd, KBUS_IOC_MAXMSGSIZE, &size) || ioctl(fd, KBUS_IOC_MAXMSGSIZE, &size))
		err(1, "MAXMSGSIZE");
	return fd;
}

void bus_bind(int fd, const char *name, bool as_replier)
{
	struct kbus_bind_request request = {
		.is_replier = as_replier, .name_len = strlen(name), .name = (uintptr_t)name,
	};

	if (ioctl(fd, KBUS_IOC_BIND, &request))
		err(1, "bind to %s", name);
}

int bus_listen(const char *name)
{
	int fd = bus_open();
	__u32 length = setup.depth;

	if (ioctl(fd, KBUS_IOC_MAXMSGS, &length))
		err(1, "MAXMSGS");
	bus_bind(fd, name, false);
	return fd;
}

struct bus_messages bus_messages(const char *name, __u32 flags, unsigned int count)
{
	size_t data_words = round_up(setup.size, 4) / 4, data_pad = -setup.size % 4;
	struct kbus_message_header header = {
		.start_guard = KBUS_MSG_START_GUARD,
		.flags = flags | data_pad << KBUS_DATA_PAD_SHIFT,
		.name_len = strlen(name),
		.data_len = data_words,
	};
	const __u32 end_guard = KBUS_MSG_END_GUARD;
	struct bus_messages messages = {
		.count = count,
		.data = sizeof(header) + round_up(header.name_len, 4),
	};
	unsigned int i;
	char *message;

	messages.len = messages.data + data_words * 4 + sizeof(end_guard);
	messages.step = round_up(messages.len, KBUS_TRANSFER_ALIGN);
	messages.start = allocate((size_t)messages.step * count);
	for (i = 0; i < count; i++) {
		message = messages.start + (size_t)i * messages.step;
		memcpy(message, &header, sizeof(header));
		memcpy(message + sizeof(header), name, header.name_len);
		memcpy(message + messages.len - sizeof(end_guard), &end_guard, sizeof(end_guard));
	}
	return messages;
}

void bus_answer(struct bus_messages *answer, const struct kbus_message_header *question)
{
	struct kbus_message_header *header = bus_message(answer, 0);

	header->in_reply_to = question->id;
	header->to = question->from;
}
