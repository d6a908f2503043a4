// SPDX-License-Identifier: GPL-2.0
/*
 * One message: from user bytes to an object that queues share, and back.
 *
 * The beginning of a message, with its header and name, is in the object
 * itself, the rest in single pages, so that no message needs a large contiguous
 * piece of memory.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "kbus.h"

/*
 * The object and the first bytes together make one 2 KiB object, which most
 * messages fit into whole.
 */
#define KBUS_MSG_HEAD_MAX	(2048 - sizeof(struct kbus_msg))

static_assert(sizeof(struct kbus_message_header) + 2 * sizeof(struct kbus_orig_from) +
	      KBUS_MAX_NAME_LEN <= KBUS_MSG_HEAD_MAX);
static_assert(sizeof(struct kbus_message_header) == 40);
static_assert(sizeof(struct kbus_bind_request) == 16);
static_assert(sizeof(struct kbus_replier_query) == 16);
static_assert(sizeof(struct kbus_bind_event) == 12);

/*
 * Whoever has no memory for a message, in his cgroup or at all, is told so. That
 * is no reason to kill him or somebody else.
 */
#define KBUS_MSG_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

static struct kbus_msg *kbus_msg_alloc(u32 len)
{
	u32 head_len = min_t(u32, len, KBUS_MSG_HEAD_MAX);
	struct kbus_msg *msg;

	msg = kmalloc(struct_size(msg, head, head_len), KBUS_MSG_GFP);
	if (!msg)
		return NULL;
	memset(msg, 0, sizeof(*msg));
	refcount_set(&msg->refs, 1);
	msg->len = len;
	msg->head_len = head_len;
	if (len == head_len)
		return msg;

	msg->nr_pages = DIV_ROUND_UP(len - head_len, PAGE_SIZE);
	msg->pages = kvcalloc(msg->nr_pages, sizeof(*msg->pages), KBUS_MSG_GFP);
	if (!msg->pages) {
		kfree(msg);
		return NULL;
	}
	return msg;
}

/**
 * kbus_msg_new() - make an empty message that will have @len bytes
 * @len: bytes
 * @payer: who is charged until the message is delivered
 *
 * Return: the message, ERR_PTR(-ENOBUFS) or ERR_PTR(-ENOMEM).
 */
struct kbus_msg *kbus_msg_new(u32 len, struct kbus_user *payer)
{
	size_t charge = sizeof(struct kbus_msg) + len;
	struct kbus_msg *msg;

	if (!kbus_user_charge(payer, charge))
		return ERR_PTR(-ENOBUFS);
	msg = kbus_msg_alloc(len);
	if (!msg) {
		kbus_user_uncharge(payer, charge);
		return ERR_PTR(-ENOMEM);
	}
	msg->payer = payer;
	msg->charged = charge;
	return msg;
}

/* Give the message the page that its byte @pos is in. */
static int kbus_msg_add_page(struct kbus_msg *msg, u32 pos)
{
	unsigned int i = (pos - msg->head_len) >> PAGE_SHIFT;

	if (msg->pages[i])
		return 0;
	msg->pages[i] = alloc_page(KBUS_MSG_GFP | __GFP_HIGHMEM);
	return msg->pages[i] ? 0 : -ENOMEM;
}

/* The page of byte @pos, which is beyond the head, and where in it that byte is */
static struct page *kbus_msg_page(const struct kbus_msg *msg, u32 pos, u32 *offset)
{
	*offset = offset_in_page(pos - msg->head_len);
	return msg->pages[(pos - msg->head_len) >> PAGE_SHIFT];
}

/* How many of the @count bytes from @pos on are in one piece */
static u32 kbus_msg_span(const struct kbus_msg *msg, u32 pos, u32 count)
{
	u32 span = pos < msg->head_len ? msg->head_len - pos :
		PAGE_SIZE - offset_in_page(pos - msg->head_len);

	return min(span, count);
}

/**
 * kbus_msg_fill() - copy what a message still lacks from user memory
 * @msg: the message
 * @from: where its next bytes are
 *
 * Return: 0, -EFAULT or -ENOMEM.
 */
int kbus_msg_fill(struct kbus_msg *msg, struct iov_iter *from)
{
	u32 count = msg->head_len - msg->filled;

	if (copy_from_iter(msg->head + msg->filled, count, from) != count)
		return -EFAULT;
	msg->filled = msg->head_len;
	while (msg->filled < msg->len) {
		u32 span = kbus_msg_span(msg, msg->filled, msg->len - msg->filled);
		struct page *page;
		u32 offset;

		if (kbus_msg_add_page(msg, msg->filled))
			return -ENOMEM;
		page = kbus_msg_page(msg, msg->filled, &offset);
		if (copy_page_from_iter(page, offset, span, from) != span)
			return -EFAULT;
		msg->filled += span;
		cond_resched();
	}
	return 0;
}

/**
 * kbus_msg_from_iter() - copy @len user bytes into what may become a message
 * @from: where the bytes are
 * @len: how many
 * @payer: who is charged
 *
 * Return: the message, or ERR_PTR() of EFAULT, ENOBUFS or ENOMEM.
 */
struct kbus_msg *kbus_msg_from_iter(struct iov_iter *from, u32 len,
				    struct kbus_user *payer)
{
	struct kbus_msg *msg = kbus_msg_new(len, payer);
	int err;

	if (IS_ERR(msg))
		return msg;
	err = kbus_msg_fill(msg, from);
	if (!err)
		return msg;
	kbus_msg_put(msg);
	return ERR_PTR(err);
}

/* Add bytes to a message, all of whose bytes from here on are in its head. */
void kbus_msg_append_bytes(struct kbus_msg *msg, const void *bytes, u32 count)
{
	if (WARN_ON_ONCE(count > msg->head_len - msg->filled))
		return;
	memcpy(msg->head + msg->filled, bytes, count);
	msg->filled += count;
}

/* Pad what had @len bytes to whole words. */
void kbus_msg_append_padding(struct kbus_msg *msg, u32 len)
{
	static const u8 zero[3];

	kbus_msg_append_bytes(msg, zero, -len & 3);
}

static void *kbus_msg_map(const struct kbus_msg *msg, u32 pos)
{
	struct page *page;
	u32 offset;

	if (pos < msg->head_len)
		return (void *)msg->head + pos;
	page = kbus_msg_page(msg, pos, &offset);
	return kmap_local_page(page) + offset;
}

static void kbus_msg_unmap(const struct kbus_msg *msg, u32 pos, void *addr)
{
	if (pos >= msg->head_len)
		kunmap_local(addr);
}

/**
 * kbus_msg_append() - add what a message still lacks
 * @msg: the message
 * @piece: whose bytes are added
 * @from: the first of them
 *
 * Bytes of @piece beyond the end of @msg are left.
 *
 * Return: 0, or -ENOMEM with @msg as it was.
 */
int kbus_msg_append(struct kbus_msg *msg, const struct kbus_msg *piece, u32 from)
{
	u32 count = min(piece->filled - from, msg->len - msg->filled);
	u32 pos, end = msg->filled + count;

	for (pos = max(msg->filled, msg->head_len); pos < end;
	     pos += kbus_msg_span(msg, pos, end - pos)) {
		if (kbus_msg_add_page(msg, pos))
			return -ENOMEM;
	}

	while (msg->filled < end) {
		u32 span = kbus_msg_span(msg, msg->filled, end - msg->filled);
		void *dst, *src;

		span = kbus_msg_span(piece, from, span);
		dst = kbus_msg_map(msg, msg->filled);
		src = kbus_msg_map(piece, from);
		memcpy(dst, src, span);
		kbus_msg_unmap(piece, from, src);
		kbus_msg_unmap(msg, msg->filled, dst);
		msg->filled += span;
		from += span;
	}
	return 0;
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
	size_t done = 0;

	hdr.flags = flags;
	while (done < count) {
		u32 span, offset;
		size_t n;

		if (pos < sizeof(hdr)) {
			span = min_t(u32, sizeof(hdr) - pos, count - done);
			n = copy_to_iter((u8 *)&hdr + pos, span, to);
		} else if (pos < msg->head_len) {
			span = kbus_msg_span(msg, pos, count - done);
			n = copy_to_iter(msg->head + pos, span, to);
		} else {
			struct page *page = kbus_msg_page(msg, pos, &offset);

			span = kbus_msg_span(msg, pos, count - done);
			n = copy_page_to_iter(page, offset, span, to);
			cond_resched();
		}
		done += n;
		pos += n;
		if (n != span)
			break;
	}
	return done;
}

/* Charges for undelivered messages end here; see kbus_queue_push(). */
void kbus_msg_uncharge(struct kbus_msg *msg)
{
	if (!msg->payer)
		return;
	kbus_user_uncharge(msg->payer, msg->charged);
	msg->payer = NULL;
}

void kbus_msg_put(struct kbus_msg *msg)
{
	unsigned int i;

	if (!msg || !refcount_dec_and_test(&msg->refs))
		return;
	kbus_msg_uncharge(msg);
	for (i = 0; i < msg->nr_pages && msg->pages[i]; i++) {
		__free_page(msg->pages[i]);
		cond_resched();
	}
	kvfree(msg->pages);
	kfree(msg);
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
	u32 guard = 0, i;

	for (; pos % 4 && pos < msg->filled; pos++) {
		if (msg->head[pos])
			return -EINVAL;
	}

	if (msg->filled < msg->len)
		return 0;
	for (i = 0; i < sizeof(guard); i++) {
		u8 *byte = kbus_msg_map(msg, msg->len - sizeof(guard) + i);

		((u8 *)&guard)[i] = *byte;
		kbus_msg_unmap(msg, msg->len - sizeof(guard) + i, byte);
	}
	return guard == KBUS_MSG_END_GUARD ? 0 : -EINVAL;
}

/* An object for a message of KBUS itself, to be filled in later */
struct kbus_msg *kbus_msg_synthetic(size_t max_name_len, size_t max_data_len)
{
	return kbus_msg_alloc(sizeof(struct kbus_message_header) + ALIGN(max_name_len, 4) +
			      ALIGN(max_data_len, 4) + sizeof(u32));
}

/**
 * kbus_msg_begin() - fill in a message of KBUS itself, up to its data
 * @msg: made by kbus_msg_synthetic() for a name and data that are not shorter
 * @name: with a NUL
 * @to: the only KSock that gets it, or 0
 * @data_len: bytes of data, a multiple of four; kbus_msg_append_bytes() adds
 *	them, and kbus_msg_finish() ends the message
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
	kbus_msg_append_bytes(msg, &hdr, sizeof(hdr));
	kbus_msg_append_bytes(msg, name, hdr.name_len);
	kbus_msg_append_padding(msg, hdr.name_len);
}

void kbus_msg_finish(struct kbus_msg *msg)
{
	static const u32 guard = KBUS_MSG_END_GUARD;

	kbus_msg_append_bytes(msg, &guard, sizeof(guard));
	msg->len = msg->filled;
}
