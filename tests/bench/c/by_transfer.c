// SPDX-License-Identifier: MIT
/* KBUS by TRANSFER: a message with each call, or 32 of them. */
#include <string.h>
#include <sys/ioctl.h>

#include "bench.h"
#include "bus.h"

static struct bus_messages out, in;
static int sender, listeners[MAX_LISTENERS], asker, answerer;
static bool is_owed;

/* Send what is in @out, if anything; receive what fits into @in, if that is wanted. */
static const struct kbus_transfer *transfer(int fd, bool has_out, bool wants_in)
{
	static struct kbus_transfer t = { .deadline = KBUS_TRANSFER_NEVER };

	t.send = (uintptr_t)out.start;
	t.send_len = has_out ? out.step * out.count : 0;
	t.receive = (uintptr_t)in.start;
	t.receive_len = wants_in ? in.step * in.count : 0;
	if (ioctl(fd, KBUS_IOC_TRANSFER, &t))
		err(1, "TRANSFER");
	if (t.error)
		errx(1, "TRANSFER: after %u messages: %s", t.sent, strerror(t.error));
	return &t;
}

static void prepare_batches(unsigned int count)
{
	out = bus_messages(bus_name(), KBUS_BIT_ALL_OR_WAIT, count);
	in = bus_messages(bus_name(), 0, count);
}

static void transfer_prepare(void)
{
	prepare_batches(1);
}

static void transfer32_prepare(void)
{
	prepare_batches(32);
}

static void transfer_open_sender(void)
{
	sender = bus_open();
}

static void transfer_open_listener(unsigned int number)
{
	listeners[number] = bus_listen(bus_name());
}

static void transfer_send(bool last)
{
	*bus_data(&out, out.count - 1) = last;
	transfer(sender, true, false);
}

static unsigned int transfer_receive(unsigned int number, unsigned int *lasts)
{
	unsigned int i, count = transfer(listeners[number], false, true)->received;

	for (i = 0; i < count; i++)
		look_at(bus_data(&in, i), lasts);
	return count;
}

static void transfer_open_asker(void)
{
	asker = bus_open();
	out = bus_messages(bus_name(), KBUS_BIT_WANT_A_REPLY, 1);
}

static void transfer_open_answerer(void)
{
	answerer = bus_open();
	bus_bind(answerer, bus_name(), true);
	out = bus_messages(bus_name(), 0, 1);
}

static void transfer_ask(void)
{
	if (transfer(asker, true, true)->received != 1)
		errx(1, "no answer");
}

static void transfer_answer(void)
{
	if (transfer(answerer, is_owed, true)->received != 1)
		errx(1, "no question");
	bus_answer(&out, bus_message(&in, 0));
	is_owed = true;
}

const struct transport by_transfer = {
	.name = "transfer",
	.batch = 1,
	.prepare = transfer_prepare,
	.open_sender = transfer_open_sender,
	.open_listener = transfer_open_listener,
	.send = transfer_send,
	.receive = transfer_receive,
	.open_asker = transfer_open_asker,
	.open_answerer = transfer_open_answerer,
	.ask = transfer_ask,
	.answer = transfer_answer,
};

const struct transport by_transfer32 = {
	.name = "transfer32",
	.batch = 32,
	.prepare = transfer32_prepare,
	.open_sender = transfer_open_sender,
	.open_listener = transfer_open_listener,
	.send = transfer_send,
	.receive = transfer_receive,
};
