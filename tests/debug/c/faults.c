// SPDX-License-Identifier: MIT
/*
 * One system call in which the n-th allocation or user copy fails.
 *
 * This is C because nothing may come between the write to fail-nth and the call: whatever the task does in the
 * kernel counts.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct call {
	long number;
	long args[6];
};

/* error: errno or 0; left: what fail-nth counted down to, 0 if the fault was injected */
struct outcome {
	long result;
	long error;
	unsigned long left;
};

static int arm(int fail_nth, unsigned int nth)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", nth);

	return pwrite(fail_nth, text, len, 0) == len ? 0 : -1;
}

/* Switch the injection off; what was left of the count. */
static unsigned long disarm(int fail_nth)
{
	char text[16] = "";
	/* To read the file is a user copy too: if that is the one to fail, 1 was left. */
	unsigned long left = pread(fail_nth, text, sizeof(text) - 1, 0) > 0 ? strtoul(text, NULL, 10) : 1;

	/* Fails if it is the next one to fail; then the count is 0 all the same. */
	arm(fail_nth, 0);
	return left;
}

static long run(const struct call *call)
{
	const long *args = call->args;
	long pid;

	if (call->number != SYS_vfork)
		return syscall(call->number, args[0], args[1], args[2], args[3], args[4], args[5]);
	pid = vfork();
	if (!pid)
		_exit(0);
	return pid;
}

/* @fail_nth: descriptor of this thread's fail-nth; @nth: 0 for none. Returns 0, or -1 with errno. */
int faults_call(int fail_nth, unsigned int nth, const struct call *call, struct outcome *outcome)
{
	if (arm(fail_nth, nth))
		return -1;
	errno = 0;
	outcome->result = run(call);
	outcome->error = outcome->result == -1 ? errno : 0;
	outcome->left = disarm(fail_nth);
	return 0;
}

/* End this process, with the n-th of what that needs failing. */
void faults_exit(int fail_nth, unsigned int nth)
{
	arm(fail_nth, nth);
	_exit(0);
}
