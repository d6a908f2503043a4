// SPDX-License-Identifier: MIT
/*
 * Binds and unbinds, and tells how long that takes.
 *
 * binder CPU INTERVAL: for each number on stdin, so many milliseconds long, BIND as a
 * listener and UNBIND, and a rest of INTERVAL microseconds. Then a line of JSON on stdout:
 * how many pairs there were, and the mean and longest time of one, in microseconds.
 */
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "bus.h"

#define NAME "$.Bystander.Bound"

static __u64 now(void)
{
	struct timespec when;

	clock_gettime(CLOCK_MONOTONIC, &when);
	return when.tv_sec * 1000000000ULL + when.tv_nsec;
}

static void window(int fd, unsigned int length, long interval)
{
	const struct timespec rest = { .tv_sec = interval / 1000000,
				       .tv_nsec = interval % 1000000 * 1000 };
	__u64 sum = 0, max = 0, until = now() + length * 1000000ULL;
	unsigned int count = 0;

	do {
		__u64 began = now(), took;

		if (bus_bind(fd, KBUS_IOC_BIND, NAME, 0) ||
		    bus_bind(fd, KBUS_IOC_UNBIND, NAME, 0))
			err(1, "BIND or UNBIND");
		took = now() - began;
		sum += took;
		count++;
		if (took > max)
			max = took;
		nanosleep(&rest, NULL);
	} while (now() < until);
	printf("{\"pairs\": %u, \"mean\": %.1f, \"max\": %.1f}\n", count,
	       sum / 1000.0 / count, max / 1000.0);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned int length;
	cpu_set_t cpus;
	int fd;

	if (argc != 3)
		errx(2, "usage: binder CPU INTERVAL");
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "CPU %s", argv[1]);
	fd = bus_open();
	if (fd < 0)
		err(1, "/dev/kbus0");
	while (scanf("%u", &length) == 1)
		window(fd, length, atol(argv[2]));
	return 0;
}
