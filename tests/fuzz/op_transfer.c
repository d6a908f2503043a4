// SPDX-License-Identifier: MIT
/* The operation `transfer`: the same message several times, and room for some. */
#include <err.h>
#include <string.h>
#include <time.h>

#include "message.h"
#include "ops.h"

#define COPIES	8	/* at most */
#define ROOM	(1 << 16)

/*
 * Memory that others change under the call may have as many messages as fit there,
 * and one more may have been kept.
 */
#define IDS	((64 << 10) / sizeof(struct kbus_message_header) + 1)

/* Which of the four pieces of memory is of the kind that the operation says */
enum { PLACE_SEND, PLACE_IDS, PLACE_RECEIVE, PLACE_ARGUMENT };

/* A length of a piece with which one of the words is set that must be zero */
#define UNKNOWN	1000

/* There may be as many in the room. */
#define TIMES	(ROOM / 48 + 1)

/* Put more copies of the message of @len bytes behind it; give the length of all. */
static size_t repeat(unsigned char *bytes, size_t len, unsigned int copies)
{
	size_t step = (len + KBUS_TRANSFER_ALIGN - 1) & -(size_t)KBUS_TRANSFER_ALIGN;
	unsigned int i;

	for (i = 1; i < copies && i * step + len <= BUFFER; i++)
		memcpy(bytes + i * step, bytes, len);
	return (i - 1) * step + len;
}

static __u64 deadline(uint32_t which)
{
	struct timespec now;

	if (which % 4 == 0)
		return KBUS_TRANSFER_NEVER;
	if (which % 4 == 1)
		return KBUS_TRANSFER_NOW;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec + (which % 4 == 2 ? 1000000 : -1000000);
}

/* Remember the Requests that have come and must be answered. */
static void look_at(struct slot *slot, const unsigned char *room, const struct kbus_transfer *t)
{
	struct kbus_message_header hdr;
	size_t pos = 0;
	__u32 i;

	for (i = 0; i < t->received && pos + sizeof(hdr) <= t->received_len; i++) {
		memcpy(&hdr, room + pos, sizeof(hdr));
		if (hdr.flags & KBUS_BIT_WANT_YOU_TO_REPLY)
			remember(slot->owed, &slot->owed_count, &hdr.id, hdr.from);
		pos += sizeof(hdr) + (hdr.flags & KBUS_BIT_EXTENDED ?
				      2 * sizeof(struct kbus_orig_from) : 0) +
			((hdr.name_len + 3) & ~3UL) + hdr.data_len * 4UL + 4;
		pos = (pos + KBUS_TRANSFER_ALIGN - 1) & -(size_t)KBUS_TRANSFER_ALIGN;
	}
}

/* A word that must be zero is not. Whatever else is asked for, nothing may come of it. */
static long transfer_unknown(struct slot *slot, struct kbus_transfer *t, uint32_t which)
{
	long got;

	if (which % 6 == 5)
		t->flags = 1U << which % 32;
	else
		t->reserved[which % 6] = 1U << which % 32;
	got = result(ioctl(slot_fd(slot), KBUS_IOC_TRANSFER, t));
	if (got >= 0)
		errx(1, "TRANSFER does what it cannot know");
	return got;
}

long op_transfer(struct task *task, const uint32_t *arg)
{
	const uint32_t how = arg[5], memory = how >> HOW_MEMORY_SHIFT & HOW_MEMORY_MASK;
	const uint32_t pick = how >> HOW_PIECE_SHIFT, odd = pick % 4;
	struct slot *slot = task_slot(task, arg[0]);
	static _Thread_local unsigned char room[ROOM];
	static _Thread_local struct kbus_msg_id ids[IDS];
	static _Thread_local __u64 times[TIMES];
	struct kbus_transfer t = {
		.ids = (uintptr_t)ids,
		.receive = (uintptr_t)room,
		.receive_len = pick / 4 % 4 ? pick / 16 % ROOM : 0,
		.deadline = deadline(how),
		.kept = pick / 16 % 16 == 1,
		.receive_max = pick / 16 % 4,
	};
	unsigned int i;
	long got;

	if (!(how & HOW_SEND) || pick % 3)
		t.send_len = repeat(task->buffer, message_make(task, slot, arg), 1 + pick % COPIES);
	t.send = (uintptr_t)task->buffer;
	if (odd == PLACE_SEND)
		t.send = (uintptr_t)memory_place(&task->memory, memory, task->buffer, t.send_len);
	else if (odd == PLACE_IDS)
		t.ids = (uintptr_t)memory_place(&task->memory, memory, ids, COPIES * sizeof(*ids));
	else if (odd == PLACE_RECEIVE)
		t.receive = (uintptr_t)memory_place(&task->memory, memory, room, t.receive_len);

	if (pick / 64 % 4 == 1)
		t.times = (uintptr_t)times;
	else if (pick / 64 % 4 == 2)
		t.times = t.receive;

	if (pick == UNKNOWN)
		return transfer_unknown(slot, &t, arg[3]);
	task_alarm(task, true);
	if (odd == PLACE_ARGUMENT)
		got = ioctl_placed(task, slot_fd(slot), KBUS_IOC_TRANSFER, memory, &t, sizeof(t));
	else
		got = result(ioctl(slot_fd(slot), KBUS_IOC_TRANSFER, &t));
	task_alarm(task, false);
	if (odd != PLACE_ARGUMENT)
		memory_done(&task->memory, memory);
	if (got)
		return got;

	if (odd != PLACE_RECEIVE && odd != PLACE_ARGUMENT)
		look_at(slot, room, &t);
	for (i = 0; i < t.sent && odd > PLACE_IDS; i++)
		remember(slot->sent, &slot->sent_count, &ids[i], slot->id);
	return t.error ? -(long)t.error : 0;
}
