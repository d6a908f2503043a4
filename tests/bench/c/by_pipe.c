// SPDX-License-Identifier: MIT
/* A pipe to each listener, and another one for answers. */
#include <fcntl.h>

#include "bench.h"

static int to[MAX_LISTENERS][2], back[2];
static char *buffer;

static void pipe_prepare(void)
{
	unsigned int i;

	for (i = 0; i < setup.listeners; i++) {
		open_pipe(to[i]);
		if (fcntl(to[i][0], F_SETPIPE_SZ, setup.depth * setup.size) < 0)
			err(1, "F_SETPIPE_SZ");
	}
	open_pipe(back);
	buffer = allocate(setup.size);
}

static void pipe_open(void)
{
}

static void pipe_open_listener(unsigned int number)
{
	(void)number;
}

static void pipe_send(bool last)
{
	unsigned int i;

	*buffer = last;
	for (i = 0; i < setup.listeners; i++)
		write_all(to[i][1], buffer, setup.size);
}

static unsigned int pipe_receive(unsigned int number, unsigned int *lasts)
{
	read_all(to[number][0], buffer, setup.size);
	look_at(buffer, lasts);
	return 1;
}

static void pipe_ask(void)
{
	write_all(to[0][1], buffer, setup.size);
	read_all(back[0], buffer, setup.size);
}

static void pipe_answer(void)
{
	read_all(to[0][0], buffer, setup.size);
	write_all(back[1], buffer, setup.size);
}

const struct transport by_pipe = {
	.name = "pipe",
	.batch = 1,
	.prepare = pipe_prepare,
	.open_sender = pipe_open,
	.open_listener = pipe_open_listener,
	.send = pipe_send,
	.receive = pipe_receive,
	.open_asker = pipe_open,
	.open_answerer = pipe_open,
	.ask = pipe_ask,
	.answer = pipe_answer,
};
