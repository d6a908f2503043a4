// SPDX-License-Identifier: MIT
/* MQTT over loopback, with libmosquitto; nothing is acknowledged (QoS 0). */
#include <mosquitto.h>
#include <poll.h>
#include <stdio.h>

#include "bench.h"

#define KEEPALIVE	300
#define TO		"bench/to"
#define BACK		"bench/back"

static struct mosquitto *sender, *listeners[MAX_LISTENERS], *asker, *answerer;
static unsigned int received, lasts_received;
static bool is_subscribed;
static char *buffer;

static void check(int result, const char *what)
{
	if (result != MOSQ_ERR_SUCCESS)
		errx(1, "%s: %s", what, mosquitto_strerror(result));
}

static void take_message(struct mosquitto *client, void *unused,
			 const struct mosquitto_message *message)
{
	(void)client;
	(void)unused;
	if (message->payloadlen != (int)setup.size)
		errx(1, "a message of %d bytes", message->payloadlen);
	look_at(message->payload, &lasts_received);
	received++;
}

static void note_subscription(struct mosquitto *client, void *unused, int id, int count,
			      const int *granted)
{
	(void)client;
	(void)unused;
	(void)id;
	(void)count;
	(void)granted;
	is_subscribed = true;
}

/* Wait for something to happen, and deal with it. */
static void loop(struct mosquitto *client)
{
	check(mosquitto_loop(client, -1, 1), "mosquitto_loop");
}

/* The address is HOST:PORT. */
static struct mosquitto *connect_to_broker(const char *topic)
{
	struct mosquitto *client;
	char host[64];
	int port;

	if (!setup.address || sscanf(setup.address, "%63[^:]:%d", host, &port) != 2)
		errx(2, "MQTT needs an --address HOST:PORT");
	check(mosquitto_lib_init(), "mosquitto_lib_init");
	client = mosquitto_new(NULL, true, NULL);
	if (!client)
		err(1, "mosquitto_new");
	check(mosquitto_int_option(client, MOSQ_OPT_TCP_NODELAY, 1), "TCP_NODELAY");
	mosquitto_message_callback_set(client, take_message);
	mosquitto_subscribe_callback_set(client, note_subscription);
	check(mosquitto_connect(client, host, port, KEEPALIVE), setup.address);
	is_subscribed = !topic;
	if (topic)
		check(mosquitto_subscribe(client, NULL, topic, 0), topic);
	while (!is_subscribed)
		loop(client);
	return client;
}

static void publish(struct mosquitto *client, const char *topic)
{
	struct pollfd pollfd = { .fd = mosquitto_socket(client), .events = POLLOUT };

	check(mosquitto_publish(client, NULL, topic, setup.size, buffer, 0, false), "publish");
	while (mosquitto_want_write(client)) {
		if (poll(&pollfd, 1, -1) < 0)
			err(1, "poll");
		check(mosquitto_loop_write(client, 1), "write");
	}
}

static unsigned int receive(struct mosquitto *client)
{
	received = 0;
	lasts_received = 0;
	while (!received)
		loop(client);
	return received;
}

static void mqtt_prepare(void)
{
	buffer = allocate(setup.size);
}

static void mqtt_open_sender(void)
{
	sender = connect_to_broker(NULL);
}

static void mqtt_open_listener(unsigned int number)
{
	listeners[number] = connect_to_broker(TO);
}

static void mqtt_send(bool last)
{
	*buffer = last;
	publish(sender, TO);
}

static unsigned int mqtt_receive(unsigned int number, unsigned int *lasts)
{
	unsigned int count = receive(listeners[number]);

	*lasts += lasts_received;
	return count;
}

static void mqtt_open_asker(void)
{
	asker = connect_to_broker(BACK);
}

static void mqtt_open_answerer(void)
{
	answerer = connect_to_broker(TO);
}

static void mqtt_ask(void)
{
	publish(asker, TO);
	receive(asker);
}

static void mqtt_answer(void)
{
	receive(answerer);
	publish(answerer, BACK);
}

const struct transport by_mqtt = {
	.name = "mosquitto",
	.batch = 1,
	.never_full = true,
	.prepare = mqtt_prepare,
	.open_sender = mqtt_open_sender,
	.open_listener = mqtt_open_listener,
	.send = mqtt_send,
	.receive = mqtt_receive,
	.open_asker = mqtt_open_asker,
	.open_answerer = mqtt_open_answerer,
	.ask = mqtt_ask,
	.answer = mqtt_answer,
};
