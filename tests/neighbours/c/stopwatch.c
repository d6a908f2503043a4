// SPDX-License-Identifier: MIT
/*
 * How long single calls take, of somebody who has nothing to do with his neighbours.
 *
 * stopwatch CPU: is pinned to that processor. Each line on stdin is one of
 *
 *	send COUNT INTERVAL	send messages that nobody listens to, one each INTERVAL us
 *	read COUNT INTERVAL	take messages from a queue that holds one, and is filled by
 *				whoever sends SLOT
 *	bind COUNT INTERVAL	bind to a name and unbind
 *
 * and is answered on stdout, as JSON, with how long SEND with its write, NEXTMSG, or BIND
 * with UNBIND, took: mean, 50th and 99th percentile and maximum, in microseconds.
 */
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "bus.h"

#define NAME		"$.Stopwatch.Sent"
#define SLOT		"$.Stopwatch.Slot"
#define BOUND		"$.Stopwatch.Bound"
#define MAX_COUNT	100000
#define PATIENCE_MS	120000

static double took[MAX_COUNT];

static __u64 now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static double time_send(int fd, struct bytes msg)
{
	__u64 begin = now();

	if (bus_send(fd, msg))
		err(1, "SEND");
	return (now() - begin) / 1000.0;
}

static double time_read(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	__u64 begin;

	if (poll(&pollfd, 1, PATIENCE_MS) != 1)
		errx(1, "nobody sends " SLOT);
	begin = now();
	if (!bus_next(fd))
		errx(1, "nothing is queued");
	return (now() - begin) / 1000.0;
}

static double time_bind(int fd)
{
	__u64 begin = now();

	if (bus_bind(fd, KBUS_IOC_BIND, BOUND, 0) || bus_bind(fd, KBUS_IOC_UNBIND, BOUND, 0))
		err(1, "BIND or UNBIND");
	return (now() - begin) / 1000.0;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void answer(unsigned int count)
{
	double sum = 0;
	unsigned int i;

	for (i = 0; i < count; i++)
		sum += took[i];
	qsort(took, count, sizeof(*took), compare);
	printf("{\"mean\": %.1f, \"p50\": %.1f, \"p99\": %.1f, \"max\": %.1f}\n", sum / count,
	       took[(count - 1) / 2], took[(count - 1) * 99 / 100], took[count - 1]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct bytes msg = bus_message(NAME, 0, 0, NULL);
	unsigned int count, interval, i;
	int sender, reader;
	__u32 limit = 1;
	cpu_set_t cpus;
	char what[8];

	if (argc != 2)
		errx(2, "usage: stopwatch CPU");
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "CPU %s", argv[1]);
	sender = bus_open();
	reader = bus_open();
	if (sender < 0 || reader < 0)
		err(1, "/dev/kbus0");
	if (ioctl(reader, KBUS_IOC_MAXMSGS, &limit) || bus_bind(reader, KBUS_IOC_BIND, SLOT, 0))
		err(1, "the reader");
	while (scanf("%7s %u %u", what, &count, &interval) == 3) {
		if (!count || count > MAX_COUNT)
			errx(2, "%u calls", count);
		for (i = 0; i < count; i++) {
			struct timespec pause = { .tv_nsec = interval * 1000L };

			if (interval)
				clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
			if (*what == 's')
				took[i] = time_send(sender, msg);
			else
				took[i] = *what == 'r' ? time_read(reader) : time_bind(sender);
		}
		answer(count);
	}
	return 0;
}
