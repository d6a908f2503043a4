// SPDX-License-Identifier: MIT
/*
 * scale KSOCKS BINDINGS: what many KSocks and many bindings cost.
 *
 * The bindings are shared out among the KSocks. Of those that all KSocks have, which
 * are to one name, a message is delivered to everybody. Prints a line of JSON; times
 * are in ns, memory in bytes, for each.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"
#include "bus.h"

#define SENDS		1000
#define TO_ALL		10

struct setup setup = { .size = 64, .depth = 100 };

static int *fds;
static unsigned int ksocks, bindings;
static struct bus_messages to_some[SENDS], to_all;

/* Bytes that the kernel has handed out, to slabs, pages and tables */
static long memory_used(void)
{
	static const char *const counted[] = { "Slab:", "Percpu:", "VmallocUsed:", "KernelStack:" };
	char line[128], name[32];
	FILE *file = fopen("/proc/meminfo", "re");
	long kib, total = 0;
	unsigned int i;

	if (!file)
		err(1, "/proc/meminfo");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%31s %ld", name, &kib) != 2)
			continue;
		for (i = 0; i < sizeof(counted) / sizeof(*counted); i++)
			total += strcmp(name, counted[i]) ? 0 : kib;
	}
	fclose(file);
	return total * 1024;
}

static const char *name_of(unsigned int binding)
{
	static char name[32];

	snprintf(name, sizeof(name), "$.Scale.N%u", binding);
	return name;
}

static void unbind_one(int fd, const char *name)
{
	struct kbus_bind_request request = { .name_len = strlen(name), .name = (uintptr_t)name };

	if (ioctl(fd, KBUS_IOC_UNBIND, &request))
		err(1, "unbind from %s", name);
}

static void open_all(void)
{
	unsigned int i;

	for (i = 0; i < ksocks; i++) {
		fds[i] = open("/dev/kbus0", O_RDWR | O_CLOEXEC);
		if (fds[i] < 0)
			err(1, "KSock %u", i);
	}
}

static void close_all(void)
{
	unsigned int i;

	for (i = 0; i < ksocks; i++)
		close(fds[i]);
}

static void bind_all(void)
{
	unsigned int i;

	for (i = 0; i < bindings; i++)
		bus_bind(fds[i % ksocks], name_of(i), false);
}

static void unbind_all(void)
{
	unsigned int i;

	for (i = 0; i < bindings; i++)
		unbind_one(fds[i % ksocks], name_of(i));
}

static void send_it(int sender, const struct bus_messages *message)
{
	struct kbus_msg_id id;

	if (write(sender, message->start, message->len) < 0 || ioctl(sender, KBUS_IOC_SEND, &id))
		err(1, "send");
}

static void read_all_of(int fd, unsigned int count)
{
	char bytes[256];
	__u32 len;

	while (count--) {
		if (ioctl(fd, KBUS_IOC_NEXTMSG, &len) != 1 || read(fd, bytes, sizeof(bytes)) < 0)
			err(1, "read");
	}
}

/* Which binding a message is for: those are spread over all of them */
static unsigned int target(unsigned int i)
{
	return (unsigned long long)i * bindings / SENDS;
}

static void prepare_messages(void)
{
	unsigned int i;

	for (i = 0; i < SENDS; i++)
		to_some[i] = bus_messages(name_of(target(i)), 0, 1);
	to_all = bus_messages("$.Scale.All", 0, 1);
}

/* A message to one listener, sent and read */
static void send_to_some(int sender)
{
	unsigned int i;

	for (i = 0; i < SENDS; i++) {
		send_it(sender, &to_some[i]);
		read_all_of(fds[target(i) % ksocks], 1);
	}
}

static void send_to_everybody(int sender)
{
	unsigned int i;

	for (i = 0; i < TO_ALL; i++)
		send_it(sender, &to_all);
	for (i = 0; i < ksocks; i++)
		read_all_of(fds[i], TO_ALL);
}

/* Time of what was done, for each of @count, and the memory it took */
static void tell(const char *what, __u64 began, long memory, double count)
{
	double took = (now() - began) / count;

	fprintf(stderr, "%s: %.0f ns\n", what, took);
	printf("\"%s\": %.1f, \"%s_memory\": %.1f, ", what, took, what,
	       (memory_used() - memory) / count);
}

#define MEASURE(what, action, count)			\
do {							\
	long memory_before = memory_used();		\
	__u64 began_at = now();				\
							\
	action;						\
	tell(what, began_at, memory_before, count);	\
} while (0)

static unsigned int argument(const char *text)
{
	long value = atol(text);

	if (value < 1 || value > 1000000)
		errx(2, "%s should be a number from 1 to 1000000", text);
	return value;
}

int main(int argc, char **argv)
{
	struct rlimit files;
	unsigned int i;
	int sender;

	if (argc != 3)
		errx(2, "usage: scale KSOCKS BINDINGS");
	ksocks = argument(argv[1]);
	bindings = argument(argv[2]);
	files.rlim_cur = ksocks + 100;
	files.rlim_max = files.rlim_cur;
	if (setrlimit(RLIMIT_NOFILE, &files))
		err(1, "%u open files", ksocks);
	fds = allocate(ksocks * sizeof(*fds));
	sender = bus_open();
	prepare_messages();

	printf("{");
	MEASURE("open", open_all(), ksocks);
	MEASURE("bind", bind_all(), bindings);
	MEASURE("deliver", send_to_some(sender), SENDS);
	for (i = 0; i < ksocks; i++)
		bus_bind(fds[i], "$.Scale.All", false);
	MEASURE("deliver_to_all", send_to_everybody(sender), (double)ksocks * TO_ALL);
	for (i = 0; i < ksocks; i++)
		unbind_one(fds[i], "$.Scale.All");
	MEASURE("unbind", unbind_all(), bindings);
	bind_all();
	MEASURE("close", close_all(), ksocks);
	printf("\"ksocks\": %u, \"bindings\": %u}\n", ksocks, bindings);
	return 0;
}
