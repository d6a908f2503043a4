// SPDX-License-Identifier: MIT
/*
 * How many messages come through: senders send as fast as they can, listeners take
 * all of it, each in a process of its own.
 *
 * A sender that nothing keeps waiting needs a credit of every listener for each
 * chunk of messages; a listener gives one for each chunk that it has taken.
 */
#include <stdio.h>
#include <unistd.h>

#include "bench.h"

/* How often the clock is looked at, in calls */
#define CHUNK		16
/* Chunks that may be under way */
#define CREDITS		2

struct count {
	unsigned long messages;
	char other_cache_line[64 - sizeof(long)];
};

static const struct transport *by;
static unsigned int chunk;
static struct count *sent, *received;
static int ready[2], go[2], done[2], credits[MAX_LISTENERS][2];

static void tell(int fd)
{
	write_all(fd, "", 1);
}

static void await(int fd, unsigned int count)
{
	char byte;

	while (count--)
		read_all(fd, &byte, 1);
}

static void do_listen(unsigned int number, unsigned int senders)
{
	unsigned long *count = &received[number].messages;
	unsigned int lasts = 0;
	unsigned long credited = 0;

	by->open_listener(number);
	tell(ready[1]);
	while (lasts < senders) {
		*count += by->receive(number, &lasts);
		for (; by->never_full && *count - credited >= chunk; credited += chunk)
			tell(credits[number][1]);
	}
	tell(done[1]);
}

static void do_send(unsigned int number, double seconds)
{
	unsigned long *count = &sent[number].messages;
	unsigned int i;
	__u64 until;

	by->open_sender();
	tell(ready[1]);
	await(go[0], 1);
	until = now() + seconds * 1e9;
	do {
		for (i = 0; by->never_full && i < setup.listeners; i++)
			await(credits[i][0], 1);
		for (i = 0; i < chunk; i++, *count += by->batch)
			by->send(false);
	} while (now() < until);
	by->send(true);
	*count += by->batch;
	tell(done[1]);
	/* What a library still has to send is not lost with its process. */
	pause();
}

static unsigned long check(unsigned int senders)
{
	unsigned long total = 0;
	unsigned int i;

	for (i = 0; i < senders; i++)
		total += sent[i].messages;
	for (i = 0; i < setup.listeners; i++) {
		if (received[i].messages != total)
			errx(1, "%s: listener %u got %lu messages of %lu", by->name, i,
			     received[i].messages, total);
	}
	return total;
}

static void make_shared(void)
{
	unsigned int i, j;

	sent = allocate_shared(MAX_SENDERS * sizeof(*sent));
	received = allocate_shared(MAX_LISTENERS * sizeof(*received));
	open_pipe(ready);
	open_pipe(go);
	open_pipe(done);
	for (i = 0; i < setup.listeners; i++) {
		open_pipe(credits[i]);
		for (j = 0; j < CREDITS; j++)
			tell(credits[i][1]);
	}
}

void case_stream(const struct options *options)
{
	unsigned int processes = setup.listeners + options->senders, i;
	unsigned long total;
	int pids[MAX_LISTENERS + MAX_SENDERS];
	__u64 began;
	double took;

	by = options->transport;
	chunk = by->never_full ? (setup.depth + CREDITS - 1) / CREDITS : CHUNK;
	make_shared();
	if (by->prepare)
		by->prepare();
	for (i = 0; i < processes; i++) {
		pids[i] = start();
		if (pids[i])
			continue;
		if (i < setup.listeners) {
			do_listen(i, options->senders);
		} else {
			pin(options->others_cpu);
			do_send(i - setup.listeners, options->seconds);
		}
		pause();
	}
	await(ready[0], processes);
	began = now();
	for (i = 0; i < options->senders; i++)
		tell(go[1]);
	await(done[0], processes);
	took = (now() - began) / 1e9;
	for (i = 0; i < processes; i++)
		stop(pids[i]);
	total = check(options->senders);
	printf("{\"messages\": %lu, \"seconds\": %.6f, \"rate\": %.1f, \"deliveries\": %.1f}\n",
	       total, took, total / took, total * setup.listeners / took);
}
