// SPDX-License-Identifier: MIT
/*
 * Two bystanders: one sends small messages at a fixed rate, the other listens to
 * them.
 *
 * probe CPU INTERVAL: both are pinned to that processor, a message is sent each
 * INTERVAL microseconds. For each number on stdin so many messages are sent, and
 * a line of JSON tells how long each took from before its write to after its read,
 * in microseconds, and whether all came in order.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "bus.h"

#define NAME		"$.Bystander.Ping"
#define PATIENCE_MS	20000
#define MAX_COUNT	100000

struct ping {
	__u64 sent_at;			/* ns */
	__u32 number;
	__u32 unused;
};

static int receiver;
static long took[MAX_COUNT];		/* ns */
static __u32 expected;			/* how many pings come in this window */
static __u32 received;
static bool in_order;

static __u64 now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Read pings until all have come, or for too long nothing has. */
static void *listen_to_pings(void *unused)
{
	struct pollfd pollfd = { .fd = receiver, .events = POLLIN };
	char bytes[sizeof(struct kbus_message_header) + sizeof(NAME) + sizeof(struct ping) + 8];
	const size_t offset = sizeof(struct kbus_message_header) + ((sizeof(NAME) + 2) & ~3UL);
	struct ping ping;

	while (received < expected && poll(&pollfd, 1, PATIENCE_MS) == 1) {
		__u32 len = bus_next(receiver);

		if (len > sizeof(bytes) || read(receiver, bytes, len) != (ssize_t)len)
			errx(1, "a message of %u bytes", len);
		memcpy(&ping, bytes + offset, sizeof(ping));
		in_order &= ping.number == received;
		took[received++] = now() - ping.sent_at;
	}
	return unused;
}

static void send_pings(int sender, long interval)
{
	struct timespec when;
	struct ping *ping;
	__u64 due = now();
	void *data;
	struct bytes msg = bus_message(NAME, 0, sizeof(*ping) / sizeof(__u32), &data);

	ping = data;
	for (ping->number = 0; ping->number < expected; ping->number++) {
		due += interval * 1000;
		when.tv_sec = due / 1000000000;
		when.tv_nsec = due % 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
		ping->sent_at = now();
		if (bus_send(sender, msg))
			err(1, "SEND");
	}
	free(msg.start);
}

static int compare(const void *a, const void *b)
{
	const long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double quantile(double part)
{
	return received ? took[(size_t)(part * (received - 1))] / 1000.0 : -1;
}

static void window(int sender, long interval)
{
	struct kbus_lost_msgs lost;
	pthread_t thread;

	received = 0;
	in_order = true;
	if (pthread_create(&thread, NULL, listen_to_pings, NULL))
		errx(1, "no thread");
	send_pings(sender, interval);
	pthread_join(thread, NULL);
	if (ioctl(receiver, KBUS_IOC_LOSTMSGS, &lost))
		err(1, "LOSTMSGS");
	qsort(took, received, sizeof(*took), compare);
	printf("{\"sent\": %u, \"received\": %u, \"in_order\": %s, ", expected, received,
	       in_order ? "true" : "false");
	printf("\"missed\": %llu, \"p50\": %.1f, ", lost.count, quantile(0.5));
	printf("\"p90\": %.1f, \"p95\": %.1f, ", quantile(0.9), quantile(0.95));
	printf("\"p99\": %.1f, \"max\": %.1f}\n", quantile(0.99), quantile(1));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	__u32 max_msgs = 10000;
	cpu_set_t cpus;
	int sender;

	if (argc != 3)
		errx(2, "usage: probe CPU INTERVAL");
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "CPU %s", argv[1]);
	sender = bus_open();
	receiver = bus_open();
	if (sender < 0 || receiver < 0)
		err(1, "/dev/kbus0");
	if (ioctl(receiver, KBUS_IOC_MAXMSGS, &max_msgs) ||
	    bus_bind(receiver, KBUS_IOC_BIND, NAME, 0))
		err(1, "the receiver");
	while (scanf("%u", &expected) == 1) {
		if (expected > MAX_COUNT)
			errx(2, "%u pings are too many", expected);
		window(sender, atol(argv[2]));
	}
	return 0;
}
