// SPDX-License-Identifier: MIT
/* Starting workers, showing how they get on, and noticing when one does not. */
#include <dirent.h>
#include <err.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "ops.h"
#include "supervise.h"

#define PROGRESS	5	/* seconds between two lines */
#define PATIENCE	120	/* seconds that a program may take */

static struct {
	pid_t pid;
	unsigned int number;
	uint64_t programs;		/* when it was looked at last, */
	double since;			/* and when that had changed */
} workers[WORKERS_MAX];

static unsigned int worker_count, running;
static pid_t witness;
static double started;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static pid_t start(void)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		err(2, "fork");
	return pid;
}

void supervise_start(unsigned int number, unsigned int threads, program_source next)
{
	pid_t pid = start();

	if (!pid)
		exit(worker_run(number, threads, next));
	workers[worker_count].pid = pid;
	workers[worker_count].number = number;
	workers[worker_count].since = now();
	worker_count++;
	running++;
}

static void show_progress(void)
{
	double seconds = now() - started;

	say("%4.0f s %9llu operations %6.0f/s  corpus %4u  reached %5u  witnessed %llu", seconds,
	    (unsigned long long)shared->operations, shared->operations / seconds, corpus_count(),
	    cover_count(), (unsigned long long)shared->witnessed);
}

static void copy_file(const char *path)
{
	char text[2000];
	FILE *file = fopen(path, "re");
	size_t len;

	if (!file)
		return;
	len = fread(text, 1, sizeof(text) - 1, file);
	text[len] = 0;
	dprintf(2, "%s:\n%s\n", path, text);
	fclose(file);
}

/* Where the threads of a process are in the kernel */
static void show_stacks(pid_t pid)
{
	char path[300];
	struct dirent *entry;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	directory = opendir(path);
	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stack", pid, entry->d_name);
		copy_file(path);
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/syscall", pid, entry->d_name);
		copy_file(path);
	}
	closedir(directory);
}

static bool ended_well(pid_t pid, int status)
{
	unsigned int i;

	for (i = 0; i < worker_count; i++) {
		if (workers[i].pid == pid) {
			workers[i].pid = 0;
			running--;
		}
	}
	if (pid == witness)
		witness = 0;
	if (status)
		say("process %d ended with status %#x", pid, status);
	return !status;
}

static bool anybody_hangs(void)
{
	unsigned int i;

	for (i = 0; i < worker_count; i++) {
		uint64_t programs = shared->programs[workers[i].number];

		if (programs != workers[i].programs) {
			workers[i].programs = programs;
			workers[i].since = now();
		}
		if (!workers[i].pid || now() - workers[i].since < PATIENCE)
			continue;
		say("worker %u hangs in program %llu", workers[i].number,
		    (unsigned long long)programs);
		show_stacks(workers[i].pid);
		workers[i].since = now();
		return true;
	}
	return false;
}

static void kill_all(void)
{
	unsigned int i;

	for (i = 0; i < worker_count; i++) {
		if (workers[i].pid)
			kill(workers[i].pid, SIGKILL);
	}
	if (witness)
		kill(witness, SIGKILL);
}

/**
 * supervise() - watch over the workers until they have ended
 * @until_done: they end by themselves, however long it takes
 *
 * Return: whether all was well.
 */
bool supervise(bool until_done)
{
	const struct timespec step = { .tv_nsec = 100000000 };
	bool fine = true;
	double shown;
	int status;
	pid_t pid;

	started = now();
	shown = started;
	/* One worker alone is to meet nobody. */
	if (worker_count > 1) {
		witness = start();
		if (!witness)
			exit(witness_run(options.seed));
	}

	while (running || witness) {
		pid = waitpid(-1, &status, WNOHANG);
		if (pid > 0) {
			fine &= ended_well(pid, status);
			continue;
		}
		nanosleep(&step, NULL);
		if (now() - shown >= PROGRESS) {
			show_progress();
			shown = now();
		}
		if (!fine || !running || (!until_done && now() - started >= options.seconds))
			shared->stop = true;
		if (running && anybody_hangs()) {
			fine = false;
			kill_all();
		}
	}
	return fine;
}

/* One line that says it all */
void supervise_summary(FILE *file, bool fine)
{
	uint64_t programs = 0;
	unsigned int i;

	for (i = 0; i < WORKERS_MAX; i++)
		programs += shared->programs[i];
	fprintf(file, "fuzz: %zu bits, seed %llu, %u workers, %.0f seconds: ", 8 * sizeof(long),
		(unsigned long long)options.seed, options.workers, now() - started);
	fprintf(file, "%llu programs, %llu operations, corpus %u, reached %u, witnessed %llu: %s\n",
		(unsigned long long)programs, (unsigned long long)shared->operations,
		corpus_count(), cover_count(), (unsigned long long)shared->witnessed,
		fine ? "all well" : "FAILED");
}
