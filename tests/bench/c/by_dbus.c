// SPDX-License-Identifier: MIT
/* D-Bus, with sd-bus: signals to listeners, and a method that is called. */
#include <string.h>
#include <systemd/sd-bus.h>

#include "bench.h"

#define NAME		"org.kbus.Bench"
#define PATH		"/bench"
#define NO_TIMEOUT	UINT64_MAX

static sd_bus *sender, *listeners[MAX_LISTENERS], *asker, *answerer;
static unsigned int received, lasts_received;
static char *buffer;

static void check(int result, const char *what)
{
	if (result < 0)
		errx(1, "%s: %s", what, strerror(-result));
}

static sd_bus *connect_to_broker(void)
{
	sd_bus *bus;

	if (!setup.address)
		errx(2, "D-Bus needs an --address");
	check(sd_bus_new(&bus), "sd_bus_new");
	check(sd_bus_set_address(bus, setup.address), setup.address);
	check(sd_bus_set_bus_client(bus, true), "sd_bus_set_bus_client");
	check(sd_bus_start(bus), setup.address);
	return bus;
}

static void append(sd_bus_message *message)
{
	check(sd_bus_message_append_array(message, 'y', buffer, setup.size), "append");
}

static const char *read_data(sd_bus_message *message)
{
	const void *data;
	size_t len;

	check(sd_bus_message_read_array(message, 'y', &data, &len), "read");
	if (len != setup.size)
		errx(1, "a message of %zu bytes", len);
	return data;
}

static int take_signal(sd_bus_message *message, void *unused, sd_bus_error *error)
{
	(void)unused;
	(void)error;
	look_at(read_data(message), &lasts_received);
	received++;
	return 1;
}

static void process(sd_bus *bus, sd_bus_message **message)
{
	int result = sd_bus_process(bus, message);

	check(result, "sd_bus_process");
	if (!result)
		check(sd_bus_wait(bus, NO_TIMEOUT), "sd_bus_wait");
}

static void dbus_prepare(void)
{
	buffer = allocate(setup.size);
}

static void dbus_open_sender(void)
{
	sender = connect_to_broker();
}

static void dbus_open_listener(unsigned int number)
{
	listeners[number] = connect_to_broker();
	check(sd_bus_match_signal(listeners[number], NULL, NULL, PATH, NAME, "Message",
				  take_signal, NULL), "match");
}

static void dbus_send(bool last)
{
	sd_bus_message *message;

	*buffer = last;
	check(sd_bus_message_new_signal(sender, &message, PATH, NAME, "Message"), "signal");
	append(message);
	check(sd_bus_send(sender, message, NULL), "send");
	check(sd_bus_flush(sender), "flush");
	sd_bus_message_unref(message);
}

static unsigned int dbus_receive(unsigned int number, unsigned int *lasts)
{
	received = 0;
	lasts_received = 0;
	while (!received)
		process(listeners[number], NULL);
	*lasts += lasts_received;
	return received;
}

static void dbus_open_asker(void)
{
	asker = connect_to_broker();
}

static void dbus_open_answerer(void)
{
	answerer = connect_to_broker();
	check(sd_bus_request_name(answerer, NAME, 0), NAME);
}

static void dbus_ask(void)
{
	sd_bus_message *question, *answer;

	check(sd_bus_message_new_method_call(asker, &question, NAME, PATH, NAME, "Ask"), "call");
	append(question);
	check(sd_bus_call(asker, question, NO_TIMEOUT, NULL, &answer), "call");
	read_data(answer);
	sd_bus_message_unref(question);
	sd_bus_message_unref(answer);
}

static void dbus_answer(void)
{
	sd_bus_message *question = NULL, *answer;

	while (!question || !sd_bus_message_is_method_call(question, NAME, "Ask")) {
		sd_bus_message_unref(question);
		question = NULL;
		process(answerer, &question);
	}
	read_data(question);
	check(sd_bus_message_new_method_return(question, &answer), "answer");
	append(answer);
	check(sd_bus_send(answerer, answer, NULL), "answer");
	sd_bus_message_unref(question);
	sd_bus_message_unref(answer);
}

#define TRANSPORT(variable, its_name)			\
const struct transport variable = {			\
	.name = its_name,				\
	.batch = 1,					\
	.never_full = true,				\
	.prepare = dbus_prepare,			\
	.open_sender = dbus_open_sender,		\
	.open_listener = dbus_open_listener,		\
	.send = dbus_send,				\
	.receive = dbus_receive,			\
	.open_asker = dbus_open_asker,			\
	.open_answerer = dbus_open_answerer,		\
	.ask = dbus_ask,				\
	.answer = dbus_answer,				\
}

TRANSPORT(by_dbus_daemon, "dbus-daemon");
TRANSPORT(by_dbus_broker, "dbus-broker");
