// SPDX-License-Identifier: MIT
/*
 * How long a question and its answer take, between two processes; and the same while
 * others flood the bus.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define WARM_UP		100
#define PAUSE		500000	/* ns */
#define MOST		1048576

static __u64 took[MOST];

/* A process that is idle the rest of the time: what it costs is what is asked of it. */
static int start_answerer(const struct transport *by)
{
	int ready[2], pid;
	char byte = 0;

	open_pipe(ready);
	pid = start();
	if (pid) {
		read_all(ready[0], &byte, 1);
		return pid;
	}
	by->open_answerer();
	write_all(ready[1], &byte, 1);
	while (true)
		by->answer();
}

/* Wait for a time that has not come yet, and return it. */
static __u64 wait_for_next(void)
{
	__u64 due = now() + PAUSE;
	const struct timespec when = { due / 1000000000, due % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
	return due;
}

/*
 * With @pause_between others have the processor in between, even if they come last;
 * and how long it takes until they give it back counts too.
 */
static size_t ask_for(const struct transport *by, double seconds, bool pause_between)
{
	__u64 until, began, ended;
	size_t count = 0;

	for (count = 0; count < WARM_UP; count++)
		by->ask();
	count = 0;
	until = now() + seconds * 1e9;
	do {
		began = pause_between ? wait_for_next() : now();
		by->ask();
		ended = now();
		took[count++] = ended - began;
	} while (ended < until && count < MOST);
	return count;
}

void case_round_trip(const struct options *options)
{
	const struct transport *by = options->transport;
	size_t count;
	int pid;

	if (!by->ask)
		errx(2, "%s is no way to ask", by->name);
	if (options->first)
		run_first();
	if (by->prepare)
		by->prepare();
	pid = start_answerer(by);
	by->open_asker();
	count = ask_for(by, options->seconds, options->first);
	stop(pid);
	printf("{\"messages\": %zu, \"p50\": %llu, \"p99\": %llu, \"p999\": %llu}\n", count,
	       (unsigned long long)quantile(took, count, 0.5),
	       (unsigned long long)quantile(took, count, 0.99),
	       (unsigned long long)quantile(took, count, 0.999));
}

/* Somebody with a channel of his own, who sends and hears as much as he can */
static void flood(const struct options *options, unsigned int number)
{
	const struct transport *by = options->transport;
	unsigned int unused = 0, got;

	setup.channel += 1 + number;
	setup.listeners = 1;
	if (by->prepare)
		by->prepare();
	by->open_listener(0);
	by->open_sender();
	while (true) {
		by->send(false);
		for (got = 0; got < by->batch;)
			got += by->receive(0, &unused);
	}
}

static void compute(void)
{
	while (now())
		;
}

static void measure_among_others(const struct options *options, bool others_flood)
{
	int pids[MAX_SENDERS];
	unsigned int i;

	if (options->others > MAX_SENDERS)
		errx(2, "%u others: %u are possible", options->others, MAX_SENDERS);
	for (i = 0; i < options->others; i++) {
		pids[i] = start();
		if (pids[i])
			continue;
		pin(options->others_cpu);
		if (others_flood)
			flood(options, i);
		compute();
	}
	case_round_trip(options);
	for (i = 0; i < options->others; i++)
		stop(pids[i]);
}

void case_flood(const struct options *options)
{
	measure_among_others(options, true);
}

/* As many processes, but they leave the bus alone: what of it is due to the machine. */
void case_busy(const struct options *options)
{
	measure_among_others(options, false);
}
