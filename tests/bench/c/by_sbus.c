// SPDX-License-Identifier: MIT
/* sbus, through the bridge daemon: clients' sockets, and all messages through KBUS. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"

#define TO		"MSG Bench/To"
#define BACK		"MSG Bench/Back"
/* More than a queue and a socket hold */
#define FILL		6000

static int sender, listeners[MAX_LISTENERS], asker;
static char *out, *in;
static size_t room;

static int connect_to_daemon(const char *subscription)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int buffer = setup.depth * (setup.size + 1024) / 2;

	if (!setup.address)
		errx(2, "sbus needs an --address");
	strncpy(address.sun_path, setup.address, sizeof(address.sun_path) - 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		err(1, "%s", setup.address);
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)))
		err(1, "SO_SNDBUFFORCE");
	if (subscription && send(fd, subscription, strlen(subscription), 0) < 0)
		err(1, "subscribe");
	return fd;
}

/* The daemon does one thing after the other: what was sent before has been done. */
static void settle(int fd)
{
	static const char ask[] = "CMSG !/cred/whoami";

	if (send(fd, ask, sizeof(ask) - 1, 0) < 0 || recv(fd, in, room, 0) <= 0)
		err(1, "whoami");
}

static void publish(int fd, const char *head, bool last)
{
	size_t len = strlen(head) + 1;

	memcpy(out, head, len);
	out[len] = last;
	if (send(fd, out, len + setup.size, 0) != (ssize_t)(len + setup.size))
		err(1, "send");
}

static void take(int fd, const char *head, unsigned int *lasts)
{
	size_t len = strlen(head) + 1;

	if (recv(fd, in, room, 0) != (ssize_t)(len + setup.size))
		errx(1, "another message than was sent");
	look_at(in + len, lasts);
}

static void subscribe_to_others(unsigned int count)
{
	int fd = connect_to_daemon(NULL);
	char pattern[64];

	while (count--) {
		int len = snprintf(pattern, sizeof(pattern), "SUB Unrelated/%u", count);

		if (send(fd, pattern, len, 0) != len)
			err(1, "subscribe");
	}
	settle(fd);
}

/* Its queue is full when others begin. */
static void be_stuck(void)
{
	int fd = connect_to_daemon("SUB Bench/Back"), filler = connect_to_daemon(NULL);
	unsigned int i;

	settle(fd);
	for (i = 0; i < FILL; i++)
		publish(filler, BACK, false);
	settle(filler);
}

static void sbus_prepare(void)
{
	room = setup.size + 64;
	out = allocate(room);
	in = allocate(room);
	if (setup.subscriptions)
		subscribe_to_others(setup.subscriptions);
	if (setup.stuck)
		be_stuck();
}

static void sbus_open_sender(void)
{
	sender = connect_to_daemon(NULL);
	settle(sender);
}

static void sbus_open_listener(unsigned int number)
{
	listeners[number] = connect_to_daemon("SUB Bench/To");
	settle(listeners[number]);
}

static void sbus_send(bool last)
{
	publish(sender, TO, last);
}

static unsigned int sbus_receive(unsigned int number, unsigned int *lasts)
{
	take(listeners[number], TO, lasts);
	return 1;
}

/* A round trip to oneself: nobody answers. */
static void sbus_open_asker(void)
{
	asker = connect_to_daemon("SUB Bench/Back");
	settle(asker);
}

static void sbus_open_answerer(void)
{
}

static void sbus_ask(void)
{
	unsigned int unused = 0;

	publish(asker, BACK, false);
	take(asker, BACK, &unused);
}

static void sbus_answer(void)
{
	pause();
}

const struct transport by_sbus = {
	.name = "sbus",
	.batch = 1,
	.never_full = true,
	.prepare = sbus_prepare,
	.open_sender = sbus_open_sender,
	.open_listener = sbus_open_listener,
	.send = sbus_send,
	.receive = sbus_receive,
	.open_asker = sbus_open_asker,
	.open_answerer = sbus_open_answerer,
	.ask = sbus_ask,
	.answer = sbus_answer,
};
