// SPDX-License-Identifier: MIT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PACKET_MAX 409600

static int bus;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void send_packet(const char *packet, size_t len)
{
	if (send(bus, packet, len, MSG_NOSIGNAL) < 0)
		fail("send");
}

/* Receive a packet, split into what it is, its key, and its payload, which may be any bytes. */
static size_t receive_packet(const char **kind, const char **key, const char **payload)
{
	static char packet[PACKET_MAX + 1];
	ssize_t len = recv(bus, packet, PACKET_MAX, MSG_TRUNC);
	char *blank, *nul;

	if (len < 0)
		fail("recv");
	if (len == 0 || len > PACKET_MAX) {
		fprintf(stderr, len ? "a packet is too long\n" : "the daemon has gone\n");
		exit(1);
	}
	blank = memchr(packet, ' ', len);
	nul = blank ? memchr(blank, '\0', packet + len - blank) : NULL;
	if (!nul) {
		fprintf(stderr, "no packet of the protocol\n");
		exit(1);
	}
	*blank = '\0';
	*kind = packet;
	*key = blank + 1;
	*payload = nul + 1;
	return packet + len - *payload;
}

int main(int argc, char **argv)
{
	/* Each array has one byte more than the packet: the NUL that C adds. */
	static const char sub[] = "SUB Sensors/";
	static const char whoami[] = "CMSG !/cred/whoami";
	static const char msg[] = "MSG Sensors/Kitchen\00021.5";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = argc > 1 ? argv[1] : "/tmp/sbus", *kind, *key, *payload;
	size_t len;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	bus = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bus < 0)
		fail("socket");
	if (connect(bus, (struct sockaddr *)&address, sizeof(address)))
		fail(path);

	send_packet(sub, sizeof(sub) - 1);
	send_packet(whoami, sizeof(whoami) - 1);
	send_packet(msg, sizeof(msg) - 1);
	do {
		len = receive_packet(&kind, &key, &payload);
		if (strcmp(kind, "CMSG") == 0)
			printf("%s is answered\n", key);
	} while (strcmp(kind, "MSG") != 0);
	printf("%s: %.*s\n", key, (int)len, payload);
	return close(bus) ? 1 : 0;
}
