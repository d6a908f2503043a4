// SPDX-License-Identifier: GPL-2.0
/*
 * One message: from user bytes to an object that queues share, and back.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "kbus.h"

/*
 * A message that takes up to KBUS_SMALL bytes is an object of a cache of its own, a longer one
 * of kmalloc()'s. What does not fit into KBUS_CHUNK goes on in chunks: to map pages for it takes
 * a lock of the whole system, more time than to copy it, and addresses, of which 32 bits have few.
 */
#define KBUS_SMALL	192
#define KBUS_CHUNK	4096
#define KBUS_HEAD_MAX	(KBUS_CHUNK - sizeof(struct kbus_msg))
/* So many chunks are allocated and freed with interrupts off. */
#define KBUS_CHUNKS	32

static struct kmem_cache *kbus_small_cache, *kbus_chunk_cache;

/* With one, objects are not cleared at each allocation: of a message nothing unwritten is read. */
static void kbus_msg_construct(void *object)
{
}

int kbus_msgs_init(void)
{
	kbus_small_cache = kmem_cache_create_usercopy("kbus_message", KBUS_SMALL, 0, SLAB_ACCOUNT,
						      0, KBUS_SMALL, kbus_msg_construct);
	kbus_chunk_cache = kmem_cache_create_usercopy("kbus_chunk", KBUS_CHUNK, 0, SLAB_ACCOUNT,
						      0, KBUS_CHUNK, kbus_msg_construct);
	if (kbus_small_cache && kbus_chunk_cache)
		return 0;
	kbus_msgs_exit();
	return -ENOMEM;
}

void kbus_msgs_exit(void)
{
	kmem_cache_destroy(kbus_small_cache);
	kmem_cache_destroy(kbus_chunk_cache);
}

static void kbus_msg_free(struct kbus_msg *msg)
{
	u32 count;

	kbus_msg_uncharge(msg);
	for (; msg->nr_chunks; msg->nr_chunks -= count) {
		count = min_t(u32, msg->nr_chunks, KBUS_CHUNKS);
		kmem_cache_free_bulk(kbus_chunk_cache, count,
				     msg->chunks + msg->nr_chunks - count);
	}
	if (msg->chunks)
		kvfree(msg->chunks);
	if (msg->cost == KBUS_SMALL)
		kmem_cache_free(kbus_small_cache, msg);
	else
		kfree(msg);
}

/* Allocate so many chunks. Return whether there was memory for all of them. */
static bool kbus_msg_add_chunks(struct kbus_msg *msg, u32 count)
{
	u32 added;

	msg->chunks = kvmalloc_array(count, sizeof(*msg->chunks), KBUS_GFP);
	if (!msg->chunks)
		return false;
	for (; msg->nr_chunks < count; msg->nr_chunks += added) {
		added = kmem_cache_alloc_bulk(kbus_chunk_cache, KBUS_GFP,
					      min_t(u32, count - msg->nr_chunks, KBUS_CHUNKS),
					      msg->chunks + msg->nr_chunks);
		if (!added)
			return false;
		cond_resched();
	}
	return true;
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
	u32 size = sizeof(struct kbus_msg) + len, cost = KBUS_SMALL, chunks = 0;
	struct kbus_msg *msg;

	if (size > KBUS_CHUNK) {
		chunks = DIV_ROUND_UP(size - KBUS_CHUNK, KBUS_CHUNK);
		size = KBUS_CHUNK;
		cost = KBUS_CHUNK + chunks * KBUS_CHUNK +
			kbus_memory_cost(chunks * sizeof(*msg->chunks));
	} else if (size > KBUS_SMALL) {
		cost = kbus_memory_cost(size);
	}
	if (!kbus_user_charge(payer, cost))
		return ERR_PTR(-ENOBUFS);
	msg = size > KBUS_SMALL ? kmalloc(size, KBUS_GFP) :
				  kmem_cache_alloc(kbus_small_cache, KBUS_GFP);
	if (!msg) {
		kbus_user_uncharge(payer, cost);
		return ERR_PTR(-ENOMEM);
	}
	refcount_set(&msg->refs, 1);
	msg->len = len;
	msg->filled = 0;
	msg->cost = cost;
	msg->payer = payer;
	msg->queued_at = 0;
	msg->nr_chunks = 0;
	msg->chunks = NULL;
	if (likely(!chunks || kbus_msg_add_chunks(msg, chunks)))
		return msg;
	kbus_msg_put(msg);
	return ERR_PTR(-ENOMEM);
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

/* Where byte @pos of a message is, and how many bytes from there are in one piece */
static u8 *kbus_msg_at(const struct kbus_msg *msg, u32 pos, u32 *piece)
{
	if (pos < KBUS_HEAD_MAX) {
		*piece = KBUS_HEAD_MAX - pos;
		return (u8 *)msg->head + pos;
	}
	pos -= KBUS_HEAD_MAX;
	*piece = KBUS_CHUNK - pos % KBUS_CHUNK;
	return (u8 *)msg->chunks[pos / KBUS_CHUNK] + pos % KBUS_CHUNK;
}

/* Copy bytes from user memory or to it. Return how many could be copied. */
static size_t kbus_msg_copy(const struct kbus_msg *msg, u32 pos, u32 count, struct iov_iter *user)
{
	size_t done = 0, copied;
	u32 piece;

	do {
		u8 *ours = kbus_msg_at(msg, pos + done, &piece);

		piece = min_t(u32, piece, count - done);
		copied = iov_iter_rw(user) == READ ? copy_to_iter(ours, piece, user) :
						     copy_from_iter(ours, piece, user);
		done += copied;
	} while (copied == piece && done < count);
	return done;
}

/*
 * The same without the cost of an iov_iter, from @pos to the end. The size of a whole chunk
 * is a constant, which the compiler checks, and the kernel not each time.
 */
static __always_inline bool kbus_msg_copy_rest(const struct kbus_msg *msg, u32 pos,
					       void __user *user, bool is_in)
{
	unsigned long left = 0;
	u32 piece;

	for (; pos < msg->len && !left; pos += piece, user += piece) {
		u8 *ours = kbus_msg_at(msg, pos, &piece);

		piece = min(piece, msg->len - pos);
		if (piece == KBUS_CHUNK)
			left = is_in ? copy_from_user(ours, user, KBUS_CHUNK) :
				       copy_to_user(user, ours, KBUS_CHUNK);
		else
			left = is_in ? copy_from_user(ours, user, piece) :
				       copy_to_user(user, ours, piece);
	}
	return !left;
}

/*
 * Copy @count bytes more of a message from user memory, which it lacks. Return 0, or -EFAULT
 * with as many of them there as before.
 */
int kbus_msg_fill(struct kbus_msg *msg, struct iov_iter *from, u32 count)
{
	if (kbus_msg_copy(msg, msg->filled, count, from) != count)
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

	*kbus_msg_header(msg) = hdr;
	msg->filled = len;
	err = kbus_msg_copy_rest(msg, sizeof(hdr), (void __user *)from + sizeof(hdr), true) ?
		kbus_msg_check_filled(msg) : -EFAULT;
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
	if (done == first && first < count)
		done += kbus_msg_copy(msg, pos + first, count - first, to);
	return done;
}

/* Copy a whole message to user memory. Return whether it could be copied. */
bool kbus_msg_to_user(const struct kbus_msg *msg, u32 flags, void __user *to)
{
	struct kbus_message_header __user *hdr = to;

	return kbus_msg_copy_rest(msg, 0, to, false) &&
		(flags == kbus_msg_header(msg)->flags || !put_user(flags, &hdr->flags));
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
	u32 piece;

	for (; pos % 4 && pos < msg->filled; pos++) {
		if (msg->head[pos])
			return -EINVAL;
	}

	if (msg->filled < msg->len)
		return 0;
	return *(u32 *)kbus_msg_at(msg, msg->len - sizeof(u32), &piece) == KBUS_MSG_END_GUARD ?
		0 : -EINVAL;
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
	if (WARN_ON_ONCE(count > msg->len - msg->filled))
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
