// SPDX-License-Identifier: MIT
/* A POSIX message queue for each listener, and another one for answers. */
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"

static mqd_t to[MAX_LISTENERS], back;
static char *buffer;

static mqd_t new_queue(unsigned int number)
{
	struct mq_attr attr = { .mq_maxmsg = setup.depth, .mq_msgsize = setup.size };
	char name[64];
	mqd_t queue;

	snprintf(name, sizeof(name), "/bench.%d.%u", getpid(), number);
	queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600, &attr);
	if (queue < 0 || mq_unlink(name))
		err(1, "mq_open");
	return queue;
}

static void mqueue_prepare(void)
{
	const struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
	unsigned int i;

	if (setrlimit(RLIMIT_MSGQUEUE, &none))
		err(1, "RLIMIT_MSGQUEUE");
	for (i = 0; i < setup.listeners; i++)
		to[i] = new_queue(i);
	back = new_queue(i);
	buffer = allocate(setup.size);
}

static void send_to(mqd_t queue)
{
	if (mq_send(queue, buffer, setup.size, 0))
		err(1, "mq_send");
}

static void receive_from(mqd_t queue)
{
	if (mq_receive(queue, buffer, setup.size, NULL) != (ssize_t)setup.size)
		err(1, "mq_receive");
}

static void mqueue_open(void)
{
}

static void mqueue_open_listener(unsigned int number)
{
	(void)number;
}

static void mqueue_send(bool last)
{
	unsigned int i;

	*buffer = last;
	for (i = 0; i < setup.listeners; i++)
		send_to(to[i]);
}

static unsigned int mqueue_receive(unsigned int number, unsigned int *lasts)
{
	receive_from(to[number]);
	look_at(buffer, lasts);
	return 1;
}

static void mqueue_ask(void)
{
	send_to(to[0]);
	receive_from(back);
}

static void mqueue_answer(void)
{
	receive_from(to[0]);
	send_to(back);
}

const struct transport by_mqueue = {
	.name = "mqueue",
	.batch = 1,
	.prepare = mqueue_prepare,
	.open_sender = mqueue_open,
	.open_listener = mqueue_open_listener,
	.send = mqueue_send,
	.receive = mqueue_receive,
	.open_asker = mqueue_open,
	.open_answerer = mqueue_open,
	.ask = mqueue_ask,
	.answer = mqueue_answer,
};
