// SPDX-License-Identifier: MIT
/* NATS over loopback, with its C client, which has threads of its own. */
#include <nats/nats.h>

#include "bench.h"

#define SUBJECT		"bench"
#define TIMEOUT_MS	60000

static natsConnection *sender, *asker, *answerer;
static natsSubscription *listeners[MAX_LISTENERS], *questions;
static char *buffer;

static void check(natsStatus status, const char *what)
{
	if (status != NATS_OK)
		errx(1, "%s: %s", what, natsStatus_GetText(status));
}

/* With @at_once what is published is not collected for a moment. */
static natsConnection *connect_to_server(bool at_once)
{
	natsConnection *connection;
	natsOptions *options;

	if (!setup.address)
		errx(2, "NATS needs an --address");
	check(natsOptions_Create(&options), "natsOptions_Create");
	check(natsOptions_SetURL(options, setup.address), setup.address);
	check(natsOptions_SetSendAsap(options, at_once), "natsOptions_SetSendAsap");
	check(natsConnection_Connect(&connection, options), setup.address);
	natsOptions_Destroy(options);
	return connection;
}

static natsSubscription *subscribe(natsConnection *connection)
{
	natsSubscription *subscription;

	check(natsConnection_SubscribeSync(&subscription, connection, SUBJECT), "subscribe");
	check(natsConnection_Flush(connection), "flush");
	return subscription;
}

static void nats_prepare(void)
{
	buffer = allocate(setup.size);
}

static void nats_open_sender(void)
{
	sender = connect_to_server(false);
}

static void nats_open_listener(unsigned int number)
{
	listeners[number] = subscribe(connect_to_server(false));
}

static void nats_send(bool last)
{
	*buffer = last;
	check(natsConnection_Publish(sender, SUBJECT, buffer, setup.size), "publish");
}

static unsigned int nats_receive(unsigned int number, unsigned int *lasts)
{
	natsMsg *message;

	check(natsSubscription_NextMsg(&message, listeners[number], TIMEOUT_MS), "receive");
	look_at(natsMsg_GetData(message), lasts);
	natsMsg_Destroy(message);
	return 1;
}

static void nats_open_asker(void)
{
	asker = connect_to_server(true);
}

static void nats_open_answerer(void)
{
	answerer = connect_to_server(true);
	questions = subscribe(answerer);
}

static void nats_ask(void)
{
	natsMsg *answer;

	check(natsConnection_Request(&answer, asker, SUBJECT, buffer, setup.size, TIMEOUT_MS),
	      "request");
	natsMsg_Destroy(answer);
}

static void nats_answer(void)
{
	natsMsg *question;

	check(natsSubscription_NextMsg(&question, questions, TIMEOUT_MS), "receive");
	check(natsConnection_Publish(answerer, natsMsg_GetReply(question), buffer, setup.size),
	      "answer");
	natsMsg_Destroy(question);
}

const struct transport by_nats = {
	.name = "nats",
	.batch = 1,
	.never_full = true,
	.prepare = nats_prepare,
	.open_sender = nats_open_sender,
	.open_listener = nats_open_listener,
	.send = nats_send,
	.receive = nats_receive,
	.open_asker = nats_open_asker,
	.open_answerer = nats_open_answerer,
	.ask = nats_ask,
	.answer = nats_answer,
};
