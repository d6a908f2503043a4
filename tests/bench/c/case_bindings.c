// SPDX-License-Identifier: MIT
/* What a send costs on a bus with many bindings that do not concern it. */
#include <stdio.h>

#include "bench.h"
#include "bus.h"

#define PER_KSOCK	1000
#define SENDS		50
#define MOST_ROUNDS	100000

static __u64 took[MOST_ROUNDS];

static void bind_others(unsigned int count)
{
	unsigned int i;
	char name[32];
	int fd = -1;

	for (i = 0; i < count; i++) {
		if (i % PER_KSOCK == 0)
			fd = bus_open();
		snprintf(name, sizeof(name), "$.Other.N%u", i);
		bus_bind(fd, name, false);
	}
}

void case_bindings(const struct options *options)
{
	const struct transport *by = options->transport;
	unsigned int rounds = 0, i, unused = 0;
	__u64 until, began;

	bind_others(options->others);
	by->prepare();
	by->open_listener(0);
	by->open_sender();
	until = now() + options->seconds * 1e9;
	do {
		began = now();
		for (i = 0; i < SENDS; i++)
			by->send(false);
		took[rounds++] = now() - began;
		for (i = 0; i < SENDS; i++)
			by->receive(0, &unused);
	} while (now() < until && rounds < MOST_ROUNDS);
	printf("{\"messages\": %u, \"p50\": %.1f}\n", rounds * SENDS,
	       (double)quantile(took, rounds, 0.5) / SENDS);
}
