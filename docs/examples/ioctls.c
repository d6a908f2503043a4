// SPDX-License-Identifier: MIT
/* Two KSocks talk, and use every ioctl of KBUS at least once. */
#include "ioctls.h"

static int open_ksock(int flags)
{
	int fd = open("/dev/kbus0", flags | O_CLOEXEC);

	if (fd < 0)
		err(1, "/dev/kbus0");
	return fd;
}

/* Show what is queued, and answer what must be answered. */
static void read_all(int fd)
{
	struct kbus_message_header *message;

	while ((message = next_message(fd))) {
		printf("KSock %u reads [%u:%u] %.*s from %s, bytes left: %u\n", ksock_id(fd),
		       message->id.network_id, message->id.serial_num, (int)message->name_len,
		       (const char *)(message + 1),
		       is_from_user(fd, message, getuid()) ? "a program of ours" : "KBUS",
		       bytes_left(fd));
		if (message->flags & KBUS_BIT_WANT_YOU_TO_REPLY) {
			struct kbus_message_header reply = {
				.in_reply_to = message->id,
				.to = message->from,
			};

			printf("answers owed: %u\n", answers_owed(fd));
			write_message(fd, reply, "$.Lamp.Hall", "done", 4);
			send_written(fd);
		}
		free(message);
	}
}

/* Two messages at once, to be read as one after the other. */
static void blink(int fd)
{
	static const struct {
		struct kbus_message_header header;
		char name[12];
		__u32 end_guard;
	} __attribute__((aligned(KBUS_TRANSFER_ALIGN))) messages[2] = {
		{ { KBUS_MSG_START_GUARD, .name_len = 11 }, "$.Lamp.Hall", KBUS_MSG_END_GUARD },
		{ { KBUS_MSG_START_GUARD, .name_len = 11 }, "$.Lamp.Hall", KBUS_MSG_END_GUARD },
	};
	char room[2 * sizeof(messages[0])];

	send_and_receive(fd, messages, sizeof(messages), room, sizeof(room));
}

static void make_the_switches_known(int fd)
{
	reset(fd);
	report_replier_binds(fd, true);
	printf("verbose: %d\n", is_verbose(fd));
	printf("a message may have %u bytes\n", allow_long_messages(fd));
	printf("there is a /dev/kbus%u now\n", new_device(fd));
}

int main(void)
{
	const struct kbus_message_header announcement = { 0 };
	const struct kbus_message_header patient = { .flags = KBUS_BIT_ALL_OR_WAIT };
	const struct kbus_message_header request = { .flags = KBUS_BIT_WANT_A_REPLY };
	int lamp = open_ksock(O_RDWR), panel = open_ksock(O_RDWR | O_NONBLOCK);
	struct kbus_msg_id id, last;

	make_the_switches_known(panel);
	want_messages_once(panel);
	bind_to(panel, KBUS_NAME_REPLIER_BIND_EVENT, false);
	printf("the queue takes %u messages\n", set_queue_length(lamp, 2));
	report_lost(lamp);
	bind_to(lamp, "$.Lamp.*", true);
	bind_to(lamp, "$.Lamp.Hall", false);
	printf("replier for $.Lamp.Hall: bound %u, would answer %u\n",
	       bound_replier(panel, "$.Lamp.Hall"), who_would_answer(panel, "$.Lamp.Hall"));

	write_message(panel, request, "$.Lamp.Hall", "on", 2);
	id = send_written(panel);
	think_better_of_it(panel);
	write_message(panel, announcement, "$.Lamp.Hall", "", 0);
	send_written(panel);
	write_message(panel, patient, "$.Lamp.Hall", "", 0);
	if (!send_within(panel, 10, &last))
		puts("there was no room for a while");
	last = last_sent(panel);
	printf("request [%u:%u], last sent [%u:%u]\n", id.network_id, id.serial_num,
	       last.network_id, last.serial_num);
	printf("queued: %u, lost: %llu\n", messages_queued(lamp), messages_lost(lamp));
	read_all(lamp);
	printf("abandoned: %d\n", abandon(panel, id));
	read_all(panel);

	write_message(panel, request, "$.Lamp.Hall", "off", 3);
	id = send_written(panel);
	printf("abandoned: %d\n", abandon(panel, id));
	unbind_from(lamp, "$.Lamp.*", true);
	read_all(lamp);

	blink(lamp);
	return 0;
}
