// SPDX-License-Identifier: MIT
/* The operation `message`: make one, with or without a flaw, and its bytes. */
#include <string.h>

#include "fuzz.h"
#include "message.h"
#include "ops.h"

/* One of those that the slot remembers; the newest for 0 */
static struct request *remembered(struct request *requests, uint32_t count, uint32_t back)
{
	return &requests[(count - 1 - back) % REMEMBERED];
}

void remember(struct request *requests, _Atomic uint32_t *count, const struct kbus_msg_id *id,
	      uint32_t peer)
{
	struct request *request = remembered(requests, ++*count, 0);

	request->network_id = id->network_id;
	request->serial_num = id->serial_num;
	request->peer = peer;
}

struct kbus_msg_id slot_sent(struct slot *slot, uint32_t back)
{
	struct request *sent = remembered(slot->sent, slot->sent_count, back);

	return (struct kbus_msg_id) { sent->network_id, sent->serial_num };
}

static void reply_to(struct kbus_message_header *hdr, struct slot *slot, uint32_t back)
{
	struct request *owed = remembered(slot->owed, slot->owed_count, back);

	hdr->in_reply_to.network_id = owed->network_id;
	hdr->in_reply_to.serial_num = owed->serial_num;
	hdr->to = owed->peer;
}

/* What somebody else was asked, or nobody */
static void reply_made_up(struct kbus_message_header *hdr, struct task *task, uint32_t which)
{
	struct slot *slot = task_slot(task, which);

	hdr->in_reply_to = slot_sent(slot, which / SLOTS);
	hdr->to = slot->id;
	if (!hdr->in_reply_to.serial_num)
		hdr->in_reply_to.serial_num = which;
}

static void set_type(struct kbus_message_header *hdr, struct task *task, struct slot *slot,
		     uint32_t kind)
{
	uint32_t which = kind >> KIND_PICK_SHIFT;

	switch (kind % TYPES) {
	case TYPE_ANNOUNCEMENT:
		break;
	case TYPE_REQUEST_TO:
		hdr->to = task_slot(task, which)->id;
		/* fallthrough */
	case TYPE_REQUEST:
		hdr->flags |= KBUS_BIT_WANT_A_REPLY;
		break;
	case TYPE_REPLY:
		reply_to(hdr, slot, 0);
		break;
	case TYPE_REPLY_OLD:
		reply_to(hdr, slot, 1 + which);
		break;
	case TYPE_REPLY_MADE_UP:
		reply_made_up(hdr, task, which);
		break;
	case TYPE_REQUEST_FOREIGN:
		hdr->flags |= KBUS_BIT_WANT_A_REPLY;
		/* fallthrough */
	case TYPE_FOREIGN:
		hdr->id.network_id = 1 + which % 2;
		hdr->id.serial_num = which / 2;
		break;
	}
}

static void set_flags(struct kbus_message_header *hdr, uint32_t kind)
{
	if (kind & KIND_URGENT)
		hdr->flags |= KBUS_BIT_URGENT;
	if (kind & KIND_ALL_OR_WAIT)
		hdr->flags |= KBUS_BIT_ALL_OR_WAIT;
	else if (kind & KIND_ALL_OR_FAIL)
		hdr->flags |= KBUS_BIT_ALL_OR_FAIL;
	if (kind & KIND_OTHER_FLAGS)
		hdr->flags |= KBUS_BIT_SYNTHETIC | KBUS_BIT_WANT_YOU_TO_REPLY | KBUS_BITS_USER |
			KBUS_BITS_DATA_PAD;
}

static void spoil_header(struct kbus_message_header *hdr, uint32_t flaw)
{
	switch (flaw) {
	case FLAW_START_GUARD:
		hdr->start_guard ^= 1 << 24;
		break;
	case FLAW_NAME_LONGER:
		hdr->name_len++;
		break;
	case FLAW_NAME_SHORTER:
		hdr->name_len--;
		break;
	case FLAW_NAME_HUGE:
		hdr->name_len = UINT32_MAX;
		break;
	case FLAW_DATA_LONGER:
		hdr->data_len++;
		break;
	case FLAW_DATA_SHORTER:
		hdr->data_len--;
		break;
	case FLAW_DATA_HUGE:
		hdr->data_len = UINT32_MAX;
		break;
	case FLAW_DATA_OVERFLOWS:
		hdr->data_len += 1U << 30;
		break;
	case FLAW_RESERVED:
		hdr->flags |= KBUS_BITS_RESERVED & -KBUS_BITS_RESERVED;
		break;
	case FLAW_BOTH_FLAGS:
		hdr->flags |= KBUS_BIT_ALL_OR_WAIT | KBUS_BIT_ALL_OR_FAIL;
		break;
	case FLAW_REQUEST_AND_REPLY:
		hdr->flags |= KBUS_BIT_WANT_A_REPLY;
		hdr->in_reply_to.serial_num |= 1;
		break;
	}
}

/* Bytes without order, and without random numbers */
static void garbage(unsigned char *bytes, size_t len, uint32_t seed)
{
	struct random random = { seed };
	size_t i;

	for (i = 0; i < len; i++)
		bytes[i] = random_next(&random);
}

/* Spoil the whole message of @len bytes; give its length, which may be another now. */
static size_t spoil_bytes(unsigned char *bytes, size_t len, uint32_t name_end, uint32_t flaw)
{
	switch (flaw) {
	case FLAW_END_GUARD:
		bytes[len - 1] ^= 1;
		break;
	case FLAW_PADDING:
		if (name_end % 4)
			bytes[name_end] = 1;
		break;
	case FLAW_TRUNCATED:
		return len - 1 - len / 3;
	case FLAW_ONE_MORE_BYTE:
		bytes[len] = 0;
		return len + 1;
	case FLAW_TWO_IN_ONE:
		if (2 * len > BUFFER)
			break;
		memcpy(bytes + len, bytes, len);
		return 2 * len;
	case FLAW_GARBAGE:
		garbage(bytes, len, name_end);
		break;
	}
	return len;
}

/* Make a message in the task's buffer. Give how many bytes are to be written. */
size_t message_make(struct task *task, struct slot *slot, const uint32_t *arg)
{
	const uint32_t end_guard = KBUS_MSG_END_GUARD, kind = arg[2], flaw = arg[4] % FLAWS;
	const struct name name = name_get(arg[1]);
	const uint32_t words = arg[3] % ((1 << 18) + 8000);
	struct kbus_message_header hdr = {
		.start_guard = KBUS_MSG_START_GUARD,
		.from = kind,
		.name_len = name.len,
		.data_len = words,
	};
	unsigned char *bytes = task->buffer;
	size_t len = sizeof(hdr), name_end;

	set_type(&hdr, task, slot, kind);
	set_flags(&hdr, kind);
	if (kind & KIND_EXTENDED) {
		hdr.flags |= KBUS_BIT_EXTENDED;
		memset(bytes + len, 0x5a, 2 * sizeof(struct kbus_orig_from));
		len += 2 * sizeof(struct kbus_orig_from);
	}
	memcpy(bytes + len, name.bytes, name.len);
	len += name.len;
	name_end = len;
	while (len % 4)
		bytes[len++] = 0;
	memset(bytes + len, 0xd0, words * sizeof(uint32_t));
	len += words * sizeof(uint32_t);
	memcpy(bytes + len, &end_guard, sizeof(end_guard));
	len += sizeof(end_guard);

	spoil_header(&hdr, flaw);
	memcpy(bytes, &hdr, sizeof(hdr));
	return spoil_bytes(bytes, len, name_end, flaw);
}
