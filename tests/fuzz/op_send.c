// SPDX-License-Identifier: MIT
/* Operations: writing, SEND and DISCARD. */
#include <string.h>
#include <sys/uio.h>

#include "message.h"
#include "ops.h"

#define PIECES	64	/* at most, of one message */

static long send(struct task *task, struct slot *slot, uint32_t memory, bool is_request)
{
	struct kbus_msg_id id = { 0 };
	long got;

	task_alarm(task, true);
	got = ioctl_placed(task, slot_fd(slot), KBUS_IOC_SEND, memory, &id, sizeof(id));
	task_alarm(task, false);
	if (!got && is_request)
		remember(slot->sent, &slot->sent_count, &id, slot->id);
	return got;
}

static long write_placed(struct task *task, int fd, const void *bytes, size_t len, uint32_t memory)
{
	void *place = memory_place(&task->memory, memory, (void *)bytes, len);
	long got = result(write(fd, place, len));

	memory_done(&task->memory, memory);
	return got;
}

/* In pieces of @piece bytes, but for @first that come at once */
static long write_pieces(struct task *task, int fd, size_t len, size_t first, size_t piece,
			 uint32_t memory)
{
	unsigned int pieces = 0;
	size_t done = 0;
	long got = 0;

	while (done < len) {
		size_t count = done ? piece : first;

		if (!count || count > len - done || ++pieces == PIECES)
			count = len - done;
		got = write_placed(task, fd, task->buffer + done, count, memory);
		if (got < 0)
			break;
		done += count;
	}
	return got;
}

static long write_vector(struct task *task, int fd, size_t len, size_t piece, uint32_t memory)
{
	size_t middle = piece < len ? piece : len / 2;
	void *place = memory_place(&task->memory, memory, task->buffer + middle, len - middle);
	struct iovec vector[] = {
		{ task->buffer, middle / 2 },
		{ NULL, 0 },
		{ task->buffer + middle / 2, middle - middle / 2 },
		{ place, len - middle },
	};
	long got = result(writev(fd, vector, ARRAY_SIZE(vector)));

	memory_done(&task->memory, memory);
	return got;
}

static long write_message(struct task *task, int fd, size_t len, uint32_t how)
{
	uint32_t memory = how >> HOW_MEMORY_SHIFT & HOW_MEMORY_MASK;
	size_t piece = how >> HOW_PIECE_SHIFT;

	switch (how & HOW_MANNER_MASK) {
	case MANNER_HEADER_FIRST:
		return write_pieces(task, fd, len, sizeof(struct kbus_message_header), len, memory);
	case MANNER_BYTES:
		return write_pieces(task, fd, len, 1, 1, memory);
	case MANNER_PIECES:
		return write_pieces(task, fd, len, piece, piece, memory);
	case MANNER_WRITEV:
		return write_vector(task, fd, len, piece, memory);
	case MANNER_WRITEV_BAD:
		return write_vector(task, fd, len, piece, MEMORY_HALF);
	case MANNER_HUGE_COUNT:
		/* By hand, for the C library and the compiler know that it is too much. */
		return result(syscall(SYS_write, fd, task->buffer, (long)INT32_MAX));
	case MANNER_NOTHING_FIRST:
		write_placed(task, fd, task->buffer, 0, memory);
		/* fallthrough */
	default:
		return write_placed(task, fd, task->buffer, len, memory);
	}
}

long op_message(struct task *task, const uint32_t *arg)
{
	struct slot *slot = task_slot(task, arg[0]);
	uint32_t how = arg[5], type = arg[2] % TYPES;
	size_t len = message_make(task, slot, arg);
	long got = write_message(task, slot_fd(slot), len, how);

	if (got < 0 || !(how & HOW_SEND))
		return got;
	return send(task, slot, MEMORY_PLAIN, type == TYPE_REQUEST ||
		    type == TYPE_REQUEST_TO || type == TYPE_REQUEST_FOREIGN);
}

long op_send(struct task *task, const uint32_t *arg)
{
	return send(task, task_slot(task, arg[0]), arg[1], true);
}

long op_discard(struct task *task, const uint32_t *arg)
{
	return result(ioctl(slot_fd(task_slot(task, arg[0])), KBUS_IOC_DISCARD));
}
