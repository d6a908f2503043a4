// SPDX-License-Identifier: MIT
/*
 * ZeroMQ over ipc: PUSH to one listener, which may have many senders, XPUB to many
 * listeners, REQ and REP. Sockets are not shared with children: each makes its own.
 */
#include <stdio.h>
#include <unistd.h>
#include <zmq.h>

#include "bench.h"

static char address[64], *buffer;
static void *sender, *listeners[MAX_LISTENERS], *asker, *answerer;

static void check(int result, const char *what)
{
	if (result < 0)
		errx(1, "%s: %s", what, zmq_strerror(zmq_errno()));
}

static void set(void *socket, int option, int value)
{
	check(zmq_setsockopt(socket, option, &value, sizeof(value)), "zmq_setsockopt");
}

static void *new_socket(int type)
{
	void *context = zmq_ctx_new(), *socket = context ? zmq_socket(context, type) : NULL;

	if (!socket)
		errx(1, "zmq_socket: %s", zmq_strerror(zmq_errno()));
	/* Half of the room is the sender's, half of it the listener's. */
	set(socket, ZMQ_SNDHWM, setup.depth / 2);
	set(socket, ZMQ_RCVHWM, setup.depth / 2);
	set(socket, ZMQ_RECONNECT_IVL, 1);
	return socket;
}

static void *new_bound(int type)
{
	void *socket = new_socket(type);

	check(zmq_bind(socket, address), address);
	return socket;
}

static void *new_connected(int type)
{
	void *socket = new_socket(type);

	check(zmq_connect(socket, address), address);
	return socket;
}

static void send_to(void *socket)
{
	check(zmq_send(socket, buffer, setup.size, 0), "zmq_send");
}

static void receive_from(void *socket)
{
	int len = zmq_recv(socket, buffer, setup.size, 0);

	check(len, "zmq_recv");
	if (len != (int)setup.size)
		errx(1, "a message of %d bytes", len);
}

static void await_subscribers(void)
{
	unsigned int i;
	char byte;

	for (i = 0; i < setup.listeners; i++)
		check(zmq_recv(sender, &byte, 1, 0), "a subscription");
}

static void zmq_prepare(void)
{
	snprintf(address, sizeof(address), "ipc:///tmp/bench.%d", getpid());
	buffer = allocate(setup.size);
}

static void zmq_open_sender(void)
{
	if (setup.listeners == 1) {
		sender = new_connected(ZMQ_PUSH);
	} else {
		sender = new_bound(ZMQ_XPUB);
		set(sender, ZMQ_XPUB_NODROP, 1);
		set(sender, ZMQ_XPUB_VERBOSE, 1);
		await_subscribers();
	}
}

static void zmq_open_listener(unsigned int number)
{
	if (setup.listeners == 1) {
		listeners[number] = new_bound(ZMQ_PULL);
	} else {
		listeners[number] = new_connected(ZMQ_SUB);
		check(zmq_setsockopt(listeners[number], ZMQ_SUBSCRIBE, "", 0), "ZMQ_SUBSCRIBE");
	}
}

static void zmq_send_message(bool last)
{
	*buffer = last;
	send_to(sender);
}

static unsigned int zmq_receive(unsigned int number, unsigned int *lasts)
{
	receive_from(listeners[number]);
	look_at(buffer, lasts);
	return 1;
}

static void zmq_open_asker(void)
{
	asker = new_connected(ZMQ_REQ);
}

static void zmq_open_answerer(void)
{
	answerer = new_bound(ZMQ_REP);
}

static void zmq_ask(void)
{
	send_to(asker);
	receive_from(asker);
}

static void zmq_answer(void)
{
	receive_from(answerer);
	send_to(answerer);
}

const struct transport by_zmq = {
	.name = "zeromq",
	.batch = 1,
	.prepare = zmq_prepare,
	.open_sender = zmq_open_sender,
	.open_listener = zmq_open_listener,
	.send = zmq_send_message,
	.receive = zmq_receive,
	.open_asker = zmq_open_asker,
	.open_answerer = zmq_open_answerer,
	.ask = zmq_ask,
	.answer = zmq_answer,
};
