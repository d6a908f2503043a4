// SPDX-License-Identifier: MIT
/*
 * A neighbour who does what others may suffer from.
 *
 * neighbour CPU ORDER...: is pinned to that processor and obeys one order after the
 * other. All KSocks that a process has opened obey those that concern KSocks.
 *
 *	enter CGROUP		go into that cgroup
 *	become UID GID		be that user, in the group of the same number and in this one
 *	fork N			be N processes from here on, besides the first one, which waits
 *	open N			open N more KSocks
 *	close			close them all
 *	queue N			set MAXMSGS
 *	bind NAME N		bind as listener N times
 *	unbind NAME N		as often undo it
 *	observe NAME		bind as observer
 *	names PREFIX N		bind as listener to PREFIX0, PREFIX1 ... on each KSock
 *	serve NAME		bind as replier
 *	unserve NAME		undo it
 *	send NAME WORDS FLAGS	send that much data from each KSock; what is refused is forgotten
 *	flood NAME WORDS FLAGS	likewise, until it is refused
 *	chatter SECONDS NAME WORDS
 *				likewise for so long, without flags; and again if it is refused
 *	wait NAME WORDS		likewise with ALL_OR_WAIT, asleep while there is no room
 *	press NAME WORDS	likewise, but repeat SEND in place of sleeping
 *	crowd N			duplicate each KSock N times, and add all to one epoll
 *	nest N			add each KSock to one epoll, which N processes poll 4000 times each
 *	deep N			serve wildcards after up to N words, one after each number of them
 *	resolve NAME		ask who is to answer a Request of this name
 *	read			take whatever is queued
 *	file PATH		read a file to its end
 *	done			say on stdout with which errno an order was refused last, or 0
 *	pause			do nothing any more
 *	compute			do nothing any more but keep the processor busy
 *	loop			obey all the orders after this one for ever
 */
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "bus.h"

#define MAX_KSOCKS	20000

static int ksocks[MAX_KSOCKS];
static int nr_ksocks;
static int refused_with;
static char **argument;			/* the next one */

static const char *take(void)
{
	if (!*argument)
		errx(2, "an order lacks an argument");
	return *argument++;
}

static unsigned long take_number(void)
{
	return strtoul(take(), NULL, 0);
}

/* Note what was refused; give back whether it was. */
static bool refused(int result)
{
	if (result >= 0)
		return false;
	refused_with = errno;
	return true;
}

static void obey_enter(void)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", take());
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		err(1, "%s", path);
	close(fd);
}

static void obey_become(void)
{
	uid_t uid = take_number();
	gid_t gid = take_number();

	if (setgroups(1, &gid) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		err(1, "to become %u", uid);
	/* As if started by that user, who may debug it. */
	prctl(PR_SET_DUMPABLE, 1);
}

static void obey_fork(void)
{
	unsigned long i, n = take_number();
	bool is_first = true;

	for (i = 0; i < n && is_first; i++)
		is_first = fork() != 0;
	if (is_first) {
		while (wait(NULL) > 0)
			;
		exit(0);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void obey_open(void)
{
	unsigned long n = take_number();

	while (n-- && nr_ksocks < MAX_KSOCKS) {
		int fd = bus_open();

		if (refused(fd))
			return;
		ksocks[nr_ksocks++] = fd;
	}
}

static void obey_close(void)
{
	while (nr_ksocks)
		close(ksocks[--nr_ksocks]);
}

static void obey_queue(void)
{
	__u32 limit = take_number(), n;
	int i;

	for (i = 0; i < nr_ksocks; i++) {
		n = limit;
		refused(ioctl(ksocks[i], KBUS_IOC_MAXMSGS, &n));
	}
}

/* BIND or UNBIND @name @n times on each KSock, or until it is refused there. */
static void bind_all(unsigned long which, const char *name, unsigned long n, int is_replier)
{
	unsigned long j;
	int i;

	for (i = 0; i < nr_ksocks; i++) {
		for (j = 0; j < n && !refused(bus_bind(ksocks[i], which, name, is_replier)); j++)
			;
	}
}

static void obey_names(void)
{
	const char *prefix = take();
	unsigned long j, n = take_number();
	char name[KBUS_MAX_NAME_LEN + 1];
	int i;

	for (i = 0; i < nr_ksocks; i++) {
		for (j = 0; j < n; j++) {
			snprintf(name, sizeof(name), "%s%lu", prefix, j);
			if (refused(bus_bind(ksocks[i], KBUS_IOC_BIND, name, 0)))
				break;
		}
	}
}

static void obey_send(bool until_refused)
{
	const char *name = take();
	unsigned long words = take_number();
	struct bytes msg = bus_message(name, take_number(), words, NULL);
	int i;

	for (i = 0; i < nr_ksocks; i++) {
		do {
			if (!refused(bus_send(ksocks[i], msg)))
				continue;
			ioctl(ksocks[i], KBUS_IOC_DISCARD);
			break;
		} while (until_refused);
	}
	free(msg.start);
}

static time_t now(void)
{
	struct timespec when;

	clock_gettime(CLOCK_MONOTONIC, &when);
	return when.tv_sec;
}

static void obey_chatter(void)
{
	time_t until = now() + take_number();
	const char *name = take();
	struct bytes msg = bus_message(name, 0, take_number(), NULL);
	int i;

	while (now() < until) {
		for (i = 0; i < nr_ksocks; i++) {
			if (refused(bus_send(ksocks[i], msg)))
				ioctl(ksocks[i], KBUS_IOC_DISCARD);
		}
	}
	free(msg.start);
}

static void obey_wait(void)
{
	const char *name = take();
	struct bytes msg = bus_message(name, KBUS_BIT_ALL_OR_WAIT, take_number(), NULL);
	int i;

	for (i = 0; i < nr_ksocks; i++) {
		fcntl(ksocks[i], F_SETFL, 0);
		while (!refused(bus_send(ksocks[i], msg)))
			;
		ioctl(ksocks[i], KBUS_IOC_DISCARD);
	}
	free(msg.start);
}

static void obey_press(void)
{
	const char *name = take();
	struct bytes msg = bus_message(name, KBUS_BIT_ALL_OR_WAIT, take_number(), NULL);
	struct kbus_msg_id id;
	int i;

	for (i = 0; i < nr_ksocks; i++) {
		if (refused(bus_send(ksocks[i], msg)) && errno == EAGAIN) {
			while (ioctl(ksocks[i], KBUS_IOC_SEND, &id) && errno == EAGAIN)
				;
		}
	}
	free(msg.start);
}

static void obey_crowd(void)
{
	unsigned long j, n = take_number();
	int i, epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0)
		err(1, "epoll");
	for (i = 0; i < nr_ksocks; i++) {
		for (j = 0; j < n; j++) {
			struct epoll_event event = { .events = EPOLLIN | EPOLLOUT };
			int fd = dup(ksocks[i]);

			if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
				err(1, "a crowd of %lu", j);
		}
	}
}

/* Sleep for ever in poll(), which waits for the same epoll again and again. */
static void poll_many(int epoll)
{
	static struct pollfd fds[4000];
	unsigned int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		fds[i].fd = epoll;
	if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
		err(1, "poll");
	exit(0);
}

/* Wait until a child sleeps. */
static void wait_until_asleep(pid_t pid)
{
	char path[40], state = '?';
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	while (state != 'S') {
		usleep(10000);
		stat = fopen(path, "re");
		if (!stat || fscanf(stat, "%*d %*s %c", &state) != 1)
			err(1, "%s", path);
		fclose(stat);
	}
}

static void obey_nest(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int i, n = take_number(), epoll = epoll_create1(EPOLL_CLOEXEC);
	pid_t pid;

	for (i = 0; i < nr_ksocks; i++) {
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, ksocks[i], &event))
			err(1, "epoll");
	}
	for (i = 0; i < n; i++) {
		pid = fork();
		if (!pid)
			poll_many(epoll);
		wait_until_asleep(pid);
	}
}

static void obey_deep(void)
{
	char name[KBUS_MAX_NAME_LEN + 1] = "$.*";
	unsigned long j, n = take_number();
	int i;

	for (j = 0; j < n; j++) {
		for (i = 0; i < nr_ksocks; i++)
			refused(bus_bind(ksocks[i], KBUS_IOC_BIND, name, 1));
		strcpy(name + 2 * j + 2, "a.*");
	}
}

static void obey_resolve(void)
{
	const char *name = take();
	struct kbus_replier_query query = {
		.name_len = strlen(name), .name = (__u64)(unsigned long)name,
	};
	int i;

	for (i = 0; i < nr_ksocks; i++)
		refused(ioctl(ksocks[i], KBUS_IOC_RESOLVE, &query));
}

static void read_all(int fd)
{
	static char bytes[1 << 16];

	while (bus_next(fd)) {
		while (read(fd, bytes, sizeof(bytes)) > 0)
			;
	}
}

static void obey_file(void)
{
	static char bytes[1 << 16];
	int fd = open(take(), O_RDONLY | O_CLOEXEC);

	if (refused(fd))
		return;
	while (read(fd, bytes, sizeof(bytes)) > 0)
		;
	close(fd);
}

static void obey(const char *order)
{
	const char *name;
	int i;

	if (!strcmp(order, "enter")) {
		obey_enter();
	} else if (!strcmp(order, "become")) {
		obey_become();
	} else if (!strcmp(order, "fork")) {
		obey_fork();
	} else if (!strcmp(order, "open")) {
		obey_open();
	} else if (!strcmp(order, "close")) {
		obey_close();
	} else if (!strcmp(order, "queue")) {
		obey_queue();
	} else if (!strcmp(order, "bind")) {
		name = take();
		bind_all(KBUS_IOC_BIND, name, take_number(), 0);
	} else if (!strcmp(order, "unbind")) {
		name = take();
		bind_all(KBUS_IOC_UNBIND, name, take_number(), 0);
	} else if (!strcmp(order, "observe")) {
		bind_all(KBUS_IOC_BIND, take(), 1, 2);
	} else if (!strcmp(order, "names")) {
		obey_names();
	} else if (!strcmp(order, "serve")) {
		bind_all(KBUS_IOC_BIND, take(), 1, 1);
	} else if (!strcmp(order, "unserve")) {
		bind_all(KBUS_IOC_UNBIND, take(), 1, 1);
	} else if (!strcmp(order, "send")) {
		obey_send(false);
	} else if (!strcmp(order, "flood")) {
		obey_send(true);
	} else if (!strcmp(order, "chatter")) {
		obey_chatter();
	} else if (!strcmp(order, "wait")) {
		obey_wait();
	} else if (!strcmp(order, "press")) {
		obey_press();
	} else if (!strcmp(order, "crowd")) {
		obey_crowd();
	} else if (!strcmp(order, "nest")) {
		obey_nest();
	} else if (!strcmp(order, "deep")) {
		obey_deep();
	} else if (!strcmp(order, "resolve")) {
		obey_resolve();
	} else if (!strcmp(order, "read")) {
		for (i = 0; i < nr_ksocks; i++)
			read_all(ksocks[i]);
	} else if (!strcmp(order, "file")) {
		obey_file();
	} else if (!strcmp(order, "done")) {
		printf("%d\n", refused_with);
		fflush(stdout);
	} else if (!strcmp(order, "pause")) {
		pause();
	} else if (!strcmp(order, "compute")) {
		for (;;)
			__asm__ volatile("");
	} else {
		errx(2, "there is no order %s", order);
	}
}

int main(int argc, char **argv)
{
	char **again = NULL;
	cpu_set_t cpus;

	if (argc < 3)
		errx(2, "usage: neighbour CPU ORDER...");
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "CPU %s", argv[1]);
	argument = argv + 2;
	while (*argument || again) {
		if (!*argument)
			argument = again;
		if (!strcmp(*argument, "loop"))
			again = ++argument;
		else
			obey(*argument++);
	}
	return 0;
}
