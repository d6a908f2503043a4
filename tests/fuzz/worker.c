// SPDX-License-Identifier: MIT
/* A process that runs programs: its threads, and what is there when one begins. */
#include <err.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "ops.h"

#define PATIENCE	5000000		/* ns that a thread sleeps before a signal wakes it */
#define NOBODY		65534

static struct worker worker;

/* While it is on, the task is interrupted again and again, wherever it sleeps. */
void task_alarm(struct task *task, bool on)
{
	const struct timespec time = { .tv_nsec = on ? PATIENCE : 0 };
	const struct itimerspec times = { time, time };

	if (task->has_alarm)
		timer_settime(task->alarm, 0, &times, NULL);
}

void task_make_alarm(struct task *task)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };

	task->tid = syscall(SYS_gettid);
	event._sigev_un._tid = task->tid;
	if (timer_create(CLOCK_MONOTONIC, &event, &task->alarm))
		err(2, "timer_create");
	task->has_alarm = true;
}

void task_run_op(struct task *task, const struct op *op)
{
	long got = op_types[op->code].run(task, op->arg);

	shared->operations++;
	shared->results[op->code][got < 0 && got > -ERRNOS ? -got : 0]++;
}

static void task_run(struct task *task)
{
	const struct program *program = &task->worker->program;
	unsigned int i;

	for (i = 0; i < program->count; i++) {
		const struct op *op = &program->ops[i];

		if (op->thread % task->worker->threads != task->thread)
			continue;
		task->at = i;
		task_run_op(task, op);
	}
}

static void *task_loop(void *arg)
{
	struct task *task = arg;

	task_make_alarm(task);
	if (options.steered)
		cover_init_task(&task->cover);
	pthread_barrier_wait(&worker.end);
	while (task->thread) {
		pthread_barrier_wait(&worker.begin);
		task_run(task);
		pthread_barrier_wait(&worker.end);
	}
	return NULL;
}

static void handle(int signal)
{
	(void)signal;
}

static void handle_signals(void)
{
	struct sigaction interrupt = { .sa_handler = handle };
	struct sigaction restart = { .sa_handler = handle, .sa_flags = SA_RESTART };

	sigaction(SIGUSR1, &interrupt, NULL);
	sigaction(SIGUSR2, &restart, NULL);
	signal(SIGIO, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
}

static void begin(unsigned int number, unsigned int threads)
{
	unsigned int i;

	worker.number = number;
	worker.threads = threads;
	worker.random.state = options.seed * WORKERS_MAX + number;
	handle_signals();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	late_init();
	memory_init_worker();
	pthread_barrier_init(&worker.begin, NULL, threads);
	pthread_barrier_init(&worker.end, NULL, threads);
	log_open(number, threads);

	for (i = 0; i < threads; i++) {
		struct task *task = &worker.tasks[i];
		pthread_t thread;

		task->worker = &worker;
		task->thread = i;
		task->buffer = share(3 * BUFFER);
		memory_init_task(&task->memory);
		if (i && pthread_create(&thread, NULL, task_loop, task))
			errx(2, "no thread");
	}
	/* The first thread is this one. */
	task_loop(&worker.tasks[0]);

	/* Some are other users, who may do less and have limits of their own. */
	worker.is_nobody = number % 3 == 2;
	if (worker.is_nobody && (setgroups(0, NULL) || setgid(NOBODY) || setresuid(NOBODY, NOBODY, 0)))
		err(2, "setresuid");
}

/* Only root may look at /proc/kbus, and put devices back as they were. The C library does it for all threads. */
static void be_root(bool on)
{
	if (worker.is_nobody && seteuid(on ? 0 : NOBODY))
		err(2, "seteuid");
}

static void begin_program(void)
{
	unsigned int i;

	memset(worker.slots, 0, sizeof(worker.slots));
	for (i = 0; i < SLOTS; i++)
		worker.slots[i].fd = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, worker.sockets))
		err(2, "socketpair");
}

static bool end_child(pid_t child)
{
	int status;

	kill(child, SIGKILL);
	while (waitpid(child, &status, 0) != child)
		;
	if (!status || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
		return true;
	say("worker %u: a child ended with status %#x", worker.number, status);
	return false;
}

static bool end_children(void)
{
	bool fine = true;
	unsigned int i;

	for (i = 0; i < CHILDREN; i++) {
		if (worker.children[i])
			fine &= end_child(worker.children[i]);
		worker.children[i] = 0;
	}
	for (i = 0; i < SWARM; i++) {
		if (worker.sleepers[i])
			fine &= end_child(worker.sleepers[i]);
		worker.sleepers[i] = 0;
	}
	return fine;
}

/* What concerns everybody is not left as it is. */
static void settle(void)
{
	if (!atomic_exchange(&worker.limits_changed, false))
		return;
	limits_restore();
	be_root(true);
	devices_restore_sizes();
	be_root(false);
}

static bool end_program(void)
{
	bool fine = end_children();
	unsigned int i;

	close(worker.sockets[0]);
	close(worker.sockets[1]);
	settle();
	for (i = 0; i < SLOTS; i++)
		slot_put(&worker.slots[i], -1);
	swarm_end(&worker);
	be_root(true);
	fine = fine && check_none_of(getpid());
	be_root(false);
	return fine;
}

/* Return whether all is as it must be. */
static bool run_program(void)
{
	bool is_new = false, fine;
	unsigned int i;

	for (i = 0; i < worker.threads; i++)
		cover_reset(&worker.tasks[i].cover);
	begin_program();
	pthread_barrier_wait(&worker.begin);
	task_run(&worker.tasks[0]);
	pthread_barrier_wait(&worker.end);
	fine = end_program();
	for (i = 0; i < worker.threads; i++)
		is_new |= cover_collect(&worker.tasks[i].cover);
	if (is_new && worker.threads > 1)
		corpus_add(&worker.program, &worker.random);
	return fine;
}

/* The exit status of a worker process: 1 if something was wrong that must hold. */
int worker_run(unsigned int number, unsigned int threads, program_source next)
{
	begin(number, threads);
	while (!shared->stop && next(&worker)) {
		log_program(&worker.program, worker.programs);
		if (!run_program()) {
			say("worker %u: program %llu", number, (unsigned long long)worker.programs);
			return 1;
		}
		worker.programs++;
		shared->programs[number]++;
	}
	return 0;
}
