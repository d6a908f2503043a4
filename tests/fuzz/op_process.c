// SPDX-License-Identifier: MIT
/* Operations: processes that share the descriptors, and signals. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "ops.h"

/* The child does some of the next operations, which the parent does too. */
static _Noreturn void child(struct task *task, unsigned int count, bool stay)
{
	const struct program *program = &task->worker->program;
	unsigned int i;

	task->is_child = true;
	task->memory.late = NULL;
	task->has_alarm = false;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Else it may sleep until it is killed. */
	if (task->worker->threads == 1)
		task_make_alarm(task);
	for (i = task->at + 1; i < program->count && count; i++) {
		if (program->ops[i].thread != task->thread)
			continue;
		task_run_op(task, &program->ops[i]);
		count--;
	}
	while (stay)
		pause();
	_exit(0);
}

/* Whoever has not ended by itself is killed when the program has been run. */
long op_fork(struct task *task, const uint32_t *arg)
{
	struct worker *worker = task->worker;
	unsigned int i;

	if (task->is_child)
		return -ECHILD;
	for (i = 0; i < CHILDREN; i++) {
		pid_t none = 0, pid;

		if (!atomic_compare_exchange_strong(&worker->children[i], &none, -1))
			continue;
		pid = fork();
		if (!pid)
			child(task, 1 + arg[0] % 16, arg[1] % 2 && worker->threads > 1);
		worker->children[i] = pid < 0 ? 0 : pid;
		/* One thread alone has one process alone beside it, so that all has an order. */
		if (pid > 0 && worker->threads == 1)
			waitid(P_PID, pid, NULL, WEXITED | WNOWAIT);
		return pid < 0 ? -errno : 0;
	}
	return -EAGAIN;
}

/* A signal for another thread, after which the system call goes on or does not */
long op_kick(struct task *task, const uint32_t *arg)
{
	struct task *other = &task->worker->tasks[arg[0] % task->worker->threads];

	if (task->is_child)
		return -ECHILD;
	return result(syscall(SYS_tgkill, getpid(), other->tid, arg[1] % 2 ? SIGUSR1 : SIGUSR2));
}
