// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/kbus.h>

static struct {
	struct kbus_message_header header;
	char name[8], data[8];		/* padded with zeros to whole words */
	__u32 end_guard;
} hello = {
	{ .start_guard = KBUS_MSG_START_GUARD, .name_len = 7, .data_len = 2 },
	"$.Hello", "world!", KBUS_MSG_END_GUARD,
};

int main(void)
{
	int sender = open("/dev/kbus0", O_RDWR), listener = open("/dev/kbus0", O_RDONLY);
	struct kbus_bind_request bind = { .name_len = 7, .name = (uintptr_t)"$.Hello" };
	struct kbus_msg_id id;
	__u32 length;

	if (sender < 0 || listener < 0 || ioctl(listener, KBUS_IOC_BIND, &bind) ||
	    write(sender, &hello, sizeof(hello)) < 0 || ioctl(sender, KBUS_IOC_SEND, &id) ||
	    ioctl(listener, KBUS_IOC_NEXTMSG, &length) != 1 ||
	    read(listener, &hello, sizeof(hello)) < 0) {
		perror("KBUS");
		return 1;
	}
	printf("%u bytes from KSock %u: %s %s\n", length, hello.header.from, hello.name, hello.data);
	return 0;
}
