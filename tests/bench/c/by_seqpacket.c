// SPDX-License-Identifier: MIT
/*
 * AF_UNIX SEQPACKET: a message with each call, or 32 with sendmmsg and recvmmsg.
 * Each listener has a pair of its own; senders share the other ends.
 */
#include <sys/socket.h>
#include <sys/uio.h>

#include "bench.h"

#define BATCH	32

static int pairs[MAX_LISTENERS][2];
static char *out, *in;
static struct mmsghdr out_batch[BATCH], in_batch[BATCH];
static struct iovec out_parts[BATCH], in_parts[BATCH];

/* Room for as many messages as elsewhere; 1 KiB is about what the kernel adds to each. */
static void set_room(int fd)
{
	int room = setup.depth * (setup.size + 1024) / 2;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)))
		err(1, "SO_SNDBUFFORCE");
}

static void seqpacket_prepare(void)
{
	unsigned int i;

	for (i = 0; i < setup.listeners; i++) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pairs[i]))
			err(1, "socketpair");
		set_room(pairs[i][0]);
		set_room(pairs[i][1]);
	}
	out = allocate(setup.size * BATCH);
	in = allocate(setup.size * BATCH);
	for (i = 0; i < BATCH; i++) {
		out_parts[i] = (struct iovec){ out + i * setup.size, setup.size };
		in_parts[i] = (struct iovec){ in + i * setup.size, setup.size };
		out_batch[i].msg_hdr = (struct msghdr){ .msg_iov = &out_parts[i], .msg_iovlen = 1 };
		in_batch[i].msg_hdr = (struct msghdr){ .msg_iov = &in_parts[i], .msg_iovlen = 1 };
	}
}

static void send_one(int fd)
{
	if (send(fd, out, setup.size, 0) != (ssize_t)setup.size)
		err(1, "send");
}

static void receive_one(int fd)
{
	if (recv(fd, in, setup.size, 0) != (ssize_t)setup.size)
		err(1, "recv");
}

static void seqpacket_open(void)
{
}

static void seqpacket_open_listener(unsigned int number)
{
	(void)number;
}

static void seqpacket_send(bool last)
{
	unsigned int i;

	*out = last;
	for (i = 0; i < setup.listeners; i++)
		send_one(pairs[i][0]);
}

static unsigned int seqpacket_receive(unsigned int number, unsigned int *lasts)
{
	receive_one(pairs[number][1]);
	look_at(in, lasts);
	return 1;
}

static void seqpacket_ask(void)
{
	send_one(pairs[0][0]);
	receive_one(pairs[0][0]);
}

static void seqpacket_answer(void)
{
	receive_one(pairs[0][1]);
	send_one(pairs[0][1]);
}

static void mmsg_send(bool last)
{
	unsigned int i, done;
	int sent;

	out[(BATCH - 1) * setup.size] = last;
	for (i = 0; i < setup.listeners; i++) {
		for (done = 0; done < BATCH; done += sent) {
			sent = sendmmsg(pairs[i][0], out_batch + done, BATCH - done, 0);
			if (sent < 0)
				err(1, "sendmmsg");
		}
	}
}

static unsigned int mmsg_receive(unsigned int number, unsigned int *lasts)
{
	int i, count = recvmmsg(pairs[number][1], in_batch, BATCH, MSG_WAITFORONE, NULL);

	if (count < 0)
		err(1, "recvmmsg");
	for (i = 0; i < count; i++)
		look_at(in + i * setup.size, lasts);
	return count;
}

const struct transport by_seqpacket = {
	.name = "seqpacket",
	.batch = 1,
	.prepare = seqpacket_prepare,
	.open_sender = seqpacket_open,
	.open_listener = seqpacket_open_listener,
	.send = seqpacket_send,
	.receive = seqpacket_receive,
	.open_asker = seqpacket_open,
	.open_answerer = seqpacket_open,
	.ask = seqpacket_ask,
	.answer = seqpacket_answer,
};

const struct transport by_mmsg = {
	.name = "mmsg",
	.batch = BATCH,
	.prepare = seqpacket_prepare,
	.open_sender = seqpacket_open,
	.open_listener = seqpacket_open_listener,
	.send = mmsg_send,
	.receive = mmsg_receive,
};
