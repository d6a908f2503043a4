// SPDX-License-Identifier: GPL-2.0
/*
 * One message: from user bytes to an object that queues share, and back.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "kbus.h"

static void kbus_msg_free(struct kbus_msg *msg)
{
	kbus_msg_uncharge(msg);
	kvfree(msg);
}

/**
 * kbus_msg_new() - make an empty message that will have @len bytes
 * @len: bytes
 * @payer: who is charged until the message is delivered, and stays that long
 *
 * Return: the message, ERR_PTR(-ENOBUFS) or ERR_PTR(-ENOMEM).
 */
struct kbus_msg *kbus_msg_new(u32 len, struct kbus_user *payer)
{
	struct kbus_msg *msg;
	u32 cost;

	msg = kbus_user_alloc(payer, sizeof(*msg) + len, 0, &cost);
	if (IS_ERR(msg))
		return msg;
	refcount_set(&msg->refs, 1);
	msg->size = len;
	msg->len = len;
	msg->filled = 0;
	msg->cost = cost;
	msg->payer = payer;
	msg->queued_at = 0;
	return msg;
}

/* Charges for undelivered messages end here; see kbus_send_commit(). */
void kbus_msg_uncharge(struct kbus_msg *msg)
{
	if (!msg->payer)
		return;
	kbus_user_uncharge(msg->payer, msg->cost);
	msg->payer = NULL;
}

/* Not for whoever holds a spinlock, unless the message is one of KBUS's own. */
void kbus_msg_put(struct kbus_msg *msg)
{
	if (msg && refcount_dec_and_test(&msg->refs))
		kbus_msg_free(msg);
}

/* For who does: kbus_msgs_free() frees what is added to @dead, later. */
void kbus_msg_put_later(struct kbus_msg *msg, struct kbus_msg **dead)
{
	if (!refcount_dec_and_test(&msg->refs))
		return;
	msg->next_dead = *dead;
	*dead = msg;
}

void kbus_msgs_free(struct kbus_msg *dead)
{
	struct kbus_msg *next;

	for (; dead; dead = next) {
		next = dead->next_dead;
		kbus_msg_free(dead);
		cond_resched();
	}
}

/**
 * kbus_msg_fill() - copy more of a message from user memory
 * @msg: the message
 * @from: where the bytes are
 * @count: how many, no more than it lacks
 *
 * Return: 0, or -EFAULT with as many of them there as before.
 */
int kbus_msg_fill(struct kbus_msg *msg, struct iov_iter *from, u32 count)
{
	if (copy_from_iter(msg->head + msg->filled, count, from) != count)
		return -EFAULT;
	msg->filled += count;
	return 0;
}

/**
 * kbus_msg_from_user() - copy a whole message from user memory, and check its form
 * @from: where it begins
 * @available: how many bytes there are; it may be followed by others
 * @writer: whose user is charged until the message is delivered
 *
 * Return: the message, or an ERR_PTR() of kbus_msg_new() or kbus_msg_check_header();
 * -EFAULT, or -EINVAL too if it is not whole.
 */
struct kbus_msg *kbus_msg_from_user(const void __user *from, u32 available,
				    struct kbus_ksock *writer)
{
	struct kbus_message_header hdr;
	struct kbus_msg *msg;
	u32 len;
	int err;

	if (available < sizeof(hdr))
		return ERR_PTR(-EINVAL);
	if (copy_from_user(&hdr, from, sizeof(hdr)))
		return ERR_PTR(-EFAULT);
	err = kbus_msg_check_header(&hdr, sizeof(hdr), READ_ONCE(writer->dev->max_msg_size),
				    &len);
	if (err)
		return ERR_PTR(err);
	if (len > available)
		return ERR_PTR(-EINVAL);
	msg = kbus_msg_new(len, writer->user);
	if (IS_ERR(msg))
		return msg;

	kbus_msg_append(msg, &hdr, sizeof(hdr));
	err = -EFAULT;
	if (!copy_from_user(msg->head + sizeof(hdr), from + sizeof(hdr), len - sizeof(hdr))) {
		msg->filled = len;
		err = kbus_msg_check_filled(msg);
	}
	if (!err)
		return msg;
	kbus_msg_put(msg);
	return ERR_PTR(err);
}

/**
 * kbus_msg_to_iter() - copy part of a message to user memory
 * @msg: the message
 * @pos: first byte
 * @count: how many, all of them there
 * @flags: the flags that this reader sees
 * @to: where to
 *
 * Return: how many bytes could be copied.
 */
size_t kbus_msg_to_iter(const struct kbus_msg *msg, u32 pos, u32 count, u32 flags,
			struct iov_iter *to)
{
	struct kbus_message_header hdr = *kbus_msg_header(msg);
	u32 first = pos < sizeof(hdr) ? min_t(u32, sizeof(hdr) - pos, count) : 0;
	size_t done = 0;

	hdr.flags = flags;
	if (first)
		done = copy_to_iter((u8 *)&hdr + pos, first, to);
	if (done == first)
		done += copy_to_iter(msg->head + pos + first, count - first, to);
	return done;
}

/* Copy a whole message to user memory. Return whether it could be copied. */
bool kbus_msg_to_user(const struct kbus_msg *msg, u32 flags, void __user *to)
{
	struct kbus_message_header __user *hdr = to;

	return !copy_to_user(to, msg->head, msg->len) && !put_user(flags, &hdr->flags);
}

/* Is the field there, of a header of which @have bytes are? */
#define KBUS_HAS_FIELD(have, field) \
	((have) >= offsetofend(struct kbus_message_header, field))

/**
 * kbus_msg_check_header() - can a message begin like this
 * @hdr: as it was written
 * @have: how many bytes of it have been
 * @max_len: the limit in force on a whole message, in bytes
 * @len: out: bytes of the whole message, 0 while @hdr is not complete
 *
 * Return: 0, -EINVAL, -ENAMETOOLONG or -EMSGSIZE.
 */
int kbus_msg_check_header(const struct kbus_message_header *hdr, u32 have, u32 max_len,
			  u32 *len)
{
	const u32 both = KBUS_BIT_ALL_OR_WAIT | KBUS_BIT_ALL_OR_FAIL;
	u64 whole;

	*len = 0;
	if (KBUS_HAS_FIELD(have, start_guard) && hdr->start_guard != KBUS_MSG_START_GUARD)
		return -EINVAL;
	if (KBUS_HAS_FIELD(have, flags)) {
		if (hdr->flags & KBUS_BITS_RESERVED)
			return -EINVAL;
		if (kbus_msg_is_reply(hdr) ? kbus_msg_is_request(hdr) :
		    (hdr->flags & both) == both)
			return -EINVAL;
	}
	if (KBUS_HAS_FIELD(have, name_len) && hdr->name_len > KBUS_MAX_NAME_LEN)
		return -ENAMETOOLONG;
	if (have < sizeof(*hdr))
		return 0;

	whole = kbus_msg_name_offset(hdr) + ALIGN(hdr->name_len, 4) +
		(u64)hdr->data_len * sizeof(u32) + sizeof(u32);
	if (whole > max_len)
		return -EMSGSIZE;
	*len = whole;
	return 0;
}

/* Check the name's padding and the end guard, as far as they have come. */
int kbus_msg_check_filled(const struct kbus_msg *msg)
{
	const struct kbus_message_header *hdr = kbus_msg_header(msg);
	u32 pos = kbus_msg_name_offset(hdr) + hdr->name_len;
	const u32 *guard;

	for (; pos % 4 && pos < msg->filled; pos++) {
		if (msg->head[pos])
			return -EINVAL;
	}

	if (msg->filled < msg->len)
		return 0;
	guard = (const u32 *)(msg->head + msg->len - sizeof(*guard));
	return *guard == KBUS_MSG_END_GUARD ? 0 : -EINVAL;
}

/* A message of KBUS itself, to be filled in later; the errors are kbus_msg_new()'s. */
struct kbus_msg *kbus_msg_synthetic(size_t max_name_len, size_t max_data_len,
				    struct kbus_user *payer)
{
	return kbus_msg_new(sizeof(struct kbus_message_header) + ALIGN(max_name_len, 4) +
			    ALIGN(max_data_len, 4) + sizeof(u32), payer);
}

void kbus_msg_append(struct kbus_msg *msg, const void *bytes, u32 count)
{
	if (WARN_ON_ONCE(count > msg->size - msg->filled))
		return;
	memcpy(msg->head + msg->filled, bytes, count);
	msg->filled += count;
}

/* Pad what had @len bytes to whole words. */
void kbus_msg_append_padding(struct kbus_msg *msg, u32 len)
{
	static const u8 zero[3];

	kbus_msg_append(msg, zero, -len & 3);
}

/**
 * kbus_msg_begin() - fill in a message of KBUS itself, up to its data
 * @msg: made by kbus_msg_synthetic() for a name and data that are not shorter
 * @name: with a NUL
 * @to: the only KSock that gets it, or 0
 * @data_len: bytes of data, a multiple of four; kbus_msg_append() adds them, and
 *	kbus_msg_finish() ends the message
 */
void kbus_msg_begin(struct kbus_msg *msg, const char *name, u32 to, u32 data_len)
{
	const struct kbus_message_header hdr = {
		.start_guard = KBUS_MSG_START_GUARD,
		.to = to,
		.flags = KBUS_BIT_SYNTHETIC,
		.name_len = strlen(name),
		.data_len = data_len / sizeof(u32),
	};

	msg->filled = 0;
	kbus_msg_append(msg, &hdr, sizeof(hdr));
	kbus_msg_append(msg, name, hdr.name_len);
	kbus_msg_append_padding(msg, hdr.name_len);
}

void kbus_msg_finish(struct kbus_msg *msg)
{
	static const u32 guard = KBUS_MSG_END_GUARD;

	kbus_msg_append(msg, &guard, sizeof(guard));
	msg->len = msg->filled;
}
