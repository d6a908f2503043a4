// SPDX-License-Identifier: MIT
/* Processes, time and memory. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

__u64 now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

void pin(unsigned int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "processor %u", cpu);
}

void run_undisturbed(void)
{
	const struct sched_param param = { 0 };

	if (sched_setscheduler(0, SCHED_BATCH, &param))
		err(1, "SCHED_BATCH");
}

void run_first(void)
{
	const struct sched_param param = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		err(1, "SCHED_FIFO");
}

void *allocate(size_t len)
{
	void *memory = calloc(1, len);

	if (!memory)
		err(1, "%zu bytes", len);
	return memory;
}

void *allocate_shared(size_t len)
{
	void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		err(1, "%zu bytes", len);
	return memory;
}

int start(void)
{
	int pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (!pid && prctl(PR_SET_PDEATHSIG, SIGKILL))
		err(1, "PR_SET_PDEATHSIG");
	return pid;
}

void stop(int pid)
{
	if (kill(pid, SIGKILL) || waitpid(pid, NULL, 0) != pid)
		err(1, "process %d", pid);
}

void read_all(int fd, void *buffer, size_t len)
{
	ssize_t got;

	for (; len; len -= got, buffer = (char *)buffer + got) {
		got = read(fd, buffer, len);
		if (got < 0)
			err(1, "read");
		if (!got)
			errx(1, "the other end is gone");
	}
}

void write_all(int fd, const void *buffer, size_t len)
{
	ssize_t put;

	for (; len; len -= put, buffer = (const char *)buffer + put) {
		put = write(fd, buffer, len);
		if (put < 0)
			err(1, "write");
	}
}

void open_pipe(int fds[2])
{
	if (pipe(fds))
		err(1, "pipe");
}

static int compare(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

__u64 quantile(__u64 *values, size_t count, double part)
{
	qsort(values, count, sizeof(*values), compare);
	return values[(size_t)(part * (count - 1))];
}
