// SPDX-License-Identifier: MIT
/* KBUS as its specification has it: write and SEND; NEXTMSG and read. */
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bench.h"
#include "bus.h"

static struct bus_messages out, in;
static int sender, listeners[MAX_LISTENERS], asker, answerer;

static void send_it(int fd)
{
	struct kbus_msg_id id;

	if (write(fd, out.start, out.len) != (ssize_t)out.len)
		err(1, "write");
	if (ioctl(fd, KBUS_IOC_SEND, &id))
		err(1, "SEND");
}

static void wait_for_one(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	if (poll(&pollfd, 1, -1) != 1)
		err(1, "poll");
}

/* False if there is none */
static bool read_one(int fd)
{
	__u32 len;

	if (ioctl(fd, KBUS_IOC_NEXTMSG, &len) < 0)
		err(1, "NEXTMSG");
	if (!len)
		return false;
	if (len > in.len || read(fd, in.start, len) != (ssize_t)len)
		err(1, "read %u bytes", len);
	return true;
}

static void kbus_prepare(void)
{
	out = bus_messages(bus_name(), KBUS_BIT_ALL_OR_WAIT, 1);
	in = bus_messages(bus_name(), 0, 1);
}

static void kbus_open_sender(void)
{
	sender = bus_open();
}

static void kbus_open_listener(unsigned int number)
{
	listeners[number] = bus_listen(bus_name());
}

static void kbus_send(bool last)
{
	*bus_data(&out, 0) = last;
	send_it(sender);
}

static unsigned int kbus_receive(unsigned int number, unsigned int *lasts)
{
	while (!read_one(listeners[number]))
		wait_for_one(listeners[number]);
	look_at(bus_data(&in, 0), lasts);
	return 1;
}

static void kbus_open_asker(void)
{
	asker = bus_open();
	out = bus_messages(bus_name(), KBUS_BIT_WANT_A_REPLY, 1);
}

static void kbus_open_answerer(void)
{
	answerer = bus_open();
	bus_bind(answerer, bus_name(), true);
	out = bus_messages(bus_name(), 0, 1);
}

static void kbus_ask(void)
{
	send_it(asker);
	wait_for_one(asker);
	if (!read_one(asker))
		errx(1, "no answer");
}

static void kbus_answer(void)
{
	wait_for_one(answerer);
	if (!read_one(answerer))
		errx(1, "no question");
	bus_answer(&out, bus_message(&in, 0));
	send_it(answerer);
}

const struct transport by_kbus = {
	.name = "kbus",
	.batch = 1,
	.prepare = kbus_prepare,
	.open_sender = kbus_open_sender,
	.open_listener = kbus_open_listener,
	.send = kbus_send,
	.receive = kbus_receive,
	.open_asker = kbus_open_asker,
	.open_answerer = kbus_open_answerer,
	.ask = kbus_ask,
	.answer = kbus_answer,
};
