// SPDX-License-Identifier: MIT
/*
 * One end of a conversation with another program, on /dev/kbus0.
 *
 * peer listen NAME: bind, say so on stdout, wait for one message and print its bytes in hex.
 * peer send FILE: send the bytes of the file as a message.
 */
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/kbus.h>

static void listen_for(int fd, const char *name)
{
	struct kbus_bind_request bind = { .name_len = strlen(name), .name = (uintptr_t)name };
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	unsigned char *bytes;
	__u32 len, i;

	if (ioctl(fd, KBUS_IOC_BIND, &bind))
		err(1, "BIND");
	puts("bound");
	fflush(stdout);
	if (poll(&pollfd, 1, 60000) != 1)
		errx(1, "no message came");
	if (ioctl(fd, KBUS_IOC_NEXTMSG, &len) != 1)
		err(1, "NEXTMSG");
	bytes = malloc(len);
	if (!bytes || read(fd, bytes, len) != (ssize_t)len)
		err(1, "read");
	for (i = 0; i < len; i++)
		printf("%02x", bytes[i]);
	puts("");
}

static void send_file(int fd, const char *path)
{
	struct kbus_msg_id id;
	char bytes[4096];
	ssize_t len;
	int file = open(path, O_RDONLY);

	if (file < 0)
		err(1, "%s", path);
	while ((len = read(file, bytes, sizeof(bytes))) > 0) {
		if (write(fd, bytes, len) != len)
			err(1, "write");
	}
	if (ioctl(fd, KBUS_IOC_SEND, &id))
		err(1, "SEND");
	printf("%u %u\n", id.network_id, id.serial_num);
}

int main(int argc, char **argv)
{
	int fd = open("/dev/kbus0", O_RDWR);

	if (fd < 0)
		err(1, "/dev/kbus0");
	if (argc == 3 && !strcmp(argv[1], "listen"))
		listen_for(fd, argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "send"))
		send_file(fd, argv[2]);
	else
		errx(2, "usage: peer listen NAME | send FILE");
	return 0;
}
