// SPDX-License-Identifier: MIT
/*
 * What a message costs, sent and received by the same process; where the clock counts
 * instructions, how many it takes. What interrupts a round does not matter as long as
 * most rounds are not interrupted.
 */
#include <stdio.h>

#include "bench.h"

#define MOST_ROUNDS	10000

static __u64 took[MOST_ROUNDS];

static void one_batch(const struct transport *by)
{
	unsigned int i, got, unused = 0;

	by->send(false);
	for (i = 0; i < setup.listeners; i++) {
		for (got = 0; got < by->batch;)
			got += by->receive(i, &unused);
	}
}

void case_solo(const struct options *options)
{
	const struct transport *by = options->transport;
	unsigned int i;
	__u64 began;

	if (options->rounds < 1 || options->rounds > MOST_ROUNDS)
		errx(2, "%u rounds: 1 to %u are possible", options->rounds, MOST_ROUNDS);
	if (by->prepare)
		by->prepare();
	for (i = 0; i < setup.listeners; i++)
		by->open_listener(i);
	by->open_sender();
	for (i = 0; i < options->rounds; i++)
		one_batch(by);
	for (i = 0; i < options->rounds; i++) {
		began = now();
		one_batch(by);
		took[i] = now() - began;
	}
	printf("{\"messages\": %u, \"p50\": %.1f}\n", options->rounds * by->batch,
	       (double)quantile(took, options->rounds, 0.5) / by->batch);
}
