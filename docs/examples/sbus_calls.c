// SPDX-License-Identifier: MIT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PACKET_MAX 409600

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int bus = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	/* A packet as long as the daemon takes needs a buffer that is not the default one. */
	int buffer = PACKET_MAX;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (bus < 0 || setsockopt(bus, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) ||
	    connect(bus, (struct sockaddr *)&address, sizeof(address)))
		fail(path);
	return bus;
}

/*
 * Send a control message. The payload is made of so many fields, with a NUL between them;
 * the last one could be any bytes, and is a string here.
 */
static void control(int bus, const char *key, const char *const *fields, int count)
{
	static char packet[PACKET_MAX];
	size_t len = snprintf(packet, sizeof(packet), "CMSG %s", key) + 1;
	int i;

	for (i = 0; i < count; i++) {
		if (len + strlen(fields[i]) >= sizeof(packet)) {
			fprintf(stderr, "the packet would be too long\n");
			exit(1);
		}
		strcpy(packet + len, fields[i]);
		len += strlen(fields[i]) + 1;
	}
	/* There is no NUL behind the last field. */
	if (send(bus, packet, len - 1, MSG_NOSIGNAL) < 0)
		fail("send");
}

/*
 * Receive the control message with this key, and split its payload into three fields, of
 * which the last one may be any bytes. Its length is returned. They stay until the next
 * one is received.
 */
static size_t expect(int bus, const char *key, char *fields[3])
{
	static char packet[PACKET_MAX + 1];
	ssize_t len = recv(bus, packet, PACKET_MAX, MSG_TRUNC);
	char *end = packet + len;
	int i;

	if (len < 0)
		fail("recv");
	if (len == 0 || len > PACKET_MAX) {
		fprintf(stderr, len ? "a packet is too long\n" : "the daemon has gone\n");
		exit(1);
	}
	*end = '\0';
	if (strncmp(packet, "CMSG ", 5) || strcmp(packet + 5, key)) {
		fprintf(stderr, "%s is not %s\n", packet, key);
		exit(1);
	}
	for (i = 0; i < 3; i++) {
		fields[i] = memchr(i ? fields[i - 1] : packet, '\0', end - (i ? fields[i - 1] : packet));
		if (!fields[i]) {
			fprintf(stderr, "%s has too few fields\n", key);
			exit(1);
		}
		fields[i]++;
	}
	return end - fields[2];
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/tmp/sbus";
	const char *const serve[] = { "House/Lamp" };
	const char *const call[] = { "17", "House/Lamp", "on" };
	int server = connect_to(path), client = connect_to(path);
	char *fields[3];
	size_t len;

	control(server, "kbus/serve", serve, 1);
	expect(server, "kbus/served", fields);
	printf("served: %s, status '%s'\n", fields[0], fields[1]);

	/* The answer is to come within two seconds. */
	control(client, "kbus/call/2000", call, 3);
	len = expect(server, "kbus/request", fields);
	printf("request: %s, data '%.*s'\n", fields[1], (int)len, fields[2]);

	const char *const reply[] = { fields[0], "is on" };

	control(server, "kbus/reply", reply, 2);
	len = expect(client, "kbus/answer", fields);
	printf("answer to %s: status '%s', data '%.*s'\n", fields[0], fields[1], (int)len,
	       fields[2]);

	/* Nobody answers this one: it is read, and that is all. */
	control(client, "kbus/call/500", call, 3);
	expect(server, "kbus/request", fields);
	expect(client, "kbus/answer", fields);
	printf("answer to %s: status '%s'\n", fields[0], fields[1]);
	return close(server) || close(client) ? 1 : 0;
}
