// SPDX-License-Identifier: MIT
/* Operations: binding, and who is bound. */
#include <string.h>

#include "ops.h"

static long bind(struct task *task, unsigned long command, const uint32_t *arg)
{
	const struct name name = name_get(arg[1]);
	struct kbus_bind_request request = { .is_replier = arg[2], .name_len = name.len };
	long got;

	/* The request itself cannot come late or from the edge too: there is one such area. */
	request.name = (uintptr_t)memory_place(&task->memory, arg[4], (void *)name.bytes, name.len);
	got = ioctl_placed(task, slot_fd(task_slot(task, arg[0])), command,
			   arg[3] == arg[4] ? MEMORY_PLAIN : arg[3], &request, sizeof(request));
	memory_done(&task->memory, arg[4]);
	return got;
}

long op_bind(struct task *task, const uint32_t *arg)
{
	return bind(task, KBUS_IOC_BIND, arg);
}

long op_unbind(struct task *task, const uint32_t *arg)
{
	return bind(task, KBUS_IOC_UNBIND, arg);
}

/* Many bindings of one KSock: as replier for names of its own, or as listener to binds */
long op_crowd(struct task *task, const uint32_t *arg)
{
	struct slot *slot = task_slot(task, arg[0]);
	unsigned int count = arg[1] % 100, i;
	long got = 0;

	for (i = 0; i < count && got >= 0; i++) {
		char name[48] = KBUS_NAME_REPLIER_BIND_EVENT;
		struct kbus_bind_request request = {
			.is_replier = arg[2] % 2, .name = (uintptr_t)name,
		};

		if (request.is_replier)
			snprintf(name, sizeof(name), "$.a.w%ut%us%un%u", task->worker->number,
				 task->thread, arg[0] % SLOTS, i);
		request.name_len = strlen(name);
		got = result(ioctl(slot_fd(slot), KBUS_IOC_BIND, &request));
	}
	return got;
}

static long ask(struct task *task, unsigned long command, const uint32_t *arg)
{
	const struct name name = name_get(arg[1]);
	struct kbus_replier_query query = { .name_len = name.len };
	long got;

	query.name = (uintptr_t)memory_place(&task->memory, arg[3], (void *)name.bytes, name.len);
	got = ioctl_placed(task, slot_fd(task_slot(task, arg[0])), command,
			   arg[2] == arg[3] ? MEMORY_PLAIN : arg[2], &query, sizeof(query));
	memory_done(&task->memory, arg[3]);
	return got;
}

long op_replier(struct task *task, const uint32_t *arg)
{
	return ask(task, KBUS_IOC_REPLIER, arg);
}

long op_resolve(struct task *task, const uint32_t *arg)
{
	return ask(task, KBUS_IOC_RESOLVE, arg);
}
