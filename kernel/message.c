// SPDX-License-Identifier: GPL-2.0
/*
 * One message: from user bytes to an object that queues share, and back.
 *
 * The beginning of a message, with its header and name, is in the object
 * itself, the rest in pages. Single ones will do, so that no message needs a large
 * contiguous piece of memory; but those that follow each other are copied at once.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "kbus.h"

/*
 * The object and the first bytes together make one object of at most 2 KiB, which
 * most messages fit into whole. Those that are small have a cache of their own.
 */
#define KBUS_MSG_HEAD_MAX	(2048 - sizeof(struct kbus_msg))
#define KBUS_MSG_SMALL		(KBUS_MSG_LEAST - sizeof(struct kbus_msg))

/* So many pages are allocated at once, if they are easily had, and copied at once. */
#define KBUS_RUN_ORDER		3
#define KBUS_RUN_PAGES		BIT(KBUS_RUN_ORDER)

static_assert(sizeof(struct kbus_message_header) + 2 * sizeof(struct kbus_orig_from) +
	      KBUS_MAX_NAME_LEN <= KBUS_MSG_HEAD_MAX);
/* A message is whole words, and so is its head, so that no word is in two pieces. */
static_assert(KBUS_MSG_HEAD_MAX % sizeof(u32) == 0);
static_assert(sizeof(struct kbus_message_header) == 40);
static_assert(sizeof(struct kbus_bind_request) == 16);
static_assert(sizeof(struct kbus_replier_query) == 16);
static_assert(sizeof(struct kbus_bind_event) == 12);

static struct kmem_cache *kbus_msg_cache;

/* kmemleak does not see pages, so they are counted where it watches the rest. */
static atomic_long_t kbus_nr_pages;

/* To be called by KUnit's tests too, which some kernels run before the module's init. */
int kbus_msg_cache_init(void)
{
	if (kbus_msg_cache)
		return 0;
	kbus_msg_cache = kmem_cache_create_usercopy("kbus_msg",
						    sizeof(struct kbus_msg) + KBUS_MSG_SMALL,
						    0, SLAB_ACCOUNT, sizeof(struct kbus_msg),
						    KBUS_MSG_SMALL, NULL);
	return kbus_msg_cache ? 0 : -ENOMEM;
}

void kbus_msg_cache_exit(void)
{
	kmem_cache_destroy(kbus_msg_cache);
	WARN_ON(atomic_long_read(&kbus_nr_pages));
}

static void kbus_pages_count(long change)
{
	if (IS_ENABLED(CONFIG_DEBUG_KMEMLEAK))
		atomic_long_add(change, &kbus_nr_pages);
}

void kbus_page_free(void *page)
{
	free_page((unsigned long)page);
	kbus_pages_count(-1);
}

static bool kbus_msg_is_small(u32 head_len)
{
	return head_len <= KBUS_MSG_SMALL;
}

/* Give back the memory of a small message. */
void kbus_msg_free_small(struct kbus_msg *msg)
{
	kmem_cache_free(kbus_msg_cache, msg);
}

/* Give back the memory of the object itself, or keep it for the next message. */
static void kbus_msg_free(struct kbus_msg *msg)
{
	if (!kbus_msg_is_small(msg->head_len))
		kfree(msg);
	else if (!kbus_spare_msg_keep(msg))
		kbus_msg_free_small(msg);
}

/* Bytes that the message's pages and the list of them take, once all are there */
static u32 kbus_msg_pages_cost(u32 nr_pages)
{
	return nr_pages * PAGE_SIZE + kmalloc_size_roundup(nr_pages * sizeof(void *));
}

/* What a message of @len bytes takes: whole slab objects and pages */
static u32 kbus_msg_cost(u32 len)
{
	u32 head_len = min_t(u32, len, KBUS_MSG_HEAD_MAX);
	u32 cost;

	if (kbus_msg_is_small(len))
		return KBUS_MSG_LEAST;
	cost = kmalloc_size_roundup(sizeof(struct kbus_msg) + head_len);
	if (len > head_len)
		cost += kbus_msg_pages_cost(DIV_ROUND_UP(len - head_len, PAGE_SIZE));
	return cost;
}

/* The memory of a message that is not small, and the list of its pages, all of them NULL */
static struct kbus_msg *kbus_msg_alloc_large(u32 len, gfp_t gfp)
{
	u32 head_len = min_t(u32, len, KBUS_MSG_HEAD_MAX);
	struct kbus_msg *msg = kmalloc(struct_size(msg, head, head_len), gfp);

	if (!msg)
		return NULL;
	msg->head_len = head_len;
	msg->nr_pages = DIV_ROUND_UP(len - head_len, PAGE_SIZE);
	msg->pages = NULL;
	if (!msg->nr_pages)
		return msg;
	msg->pages = kvcalloc(msg->nr_pages, sizeof(*msg->pages), gfp);
	if (!msg->pages) {
		kfree(msg);
		return NULL;
	}
	return msg;
}

static struct kbus_msg *kbus_msg_alloc_small(gfp_t gfp)
{
	struct kbus_msg *msg = kmem_cache_alloc(kbus_msg_cache, gfp);

	if (!msg)
		return NULL;
	msg->nr_pages = 0;
	msg->pages = NULL;
	return msg;
}

static struct kbus_msg *kbus_msg_alloc(u32 len, u32 cost, const struct kbus_group *group,
				       gfp_t gfp)
{
	const bool is_small = kbus_msg_is_small(len);
	struct kbus_msg *msg = is_small ? kbus_spare_msg(group) : NULL;
	struct mem_cgroup *before;

	if (!msg) {
		before = kbus_group_enter(group);
		msg = is_small ? kbus_msg_alloc_small(gfp) : kbus_msg_alloc_large(len, gfp);
		kbus_group_leave(before);
	}
	if (!msg)
		return NULL;
	if (is_small)
		msg->head_len = len;
	refcount_set(&msg->refs, 1);
	msg->len = len;
	msg->filled = 0;
	msg->cost = cost;
	msg->payer = NULL;
	msg->owner = group->serial;
	msg->cpu = raw_smp_processor_id();
	msg->nr_items_used = 0;
	atomic64_set(&msg->queued_at, 0);
	if (msg->pages)
		kbus_spare_pages(group, msg->pages, msg->nr_pages);
	return msg;
}

/**
 * kbus_msg_new() - make an empty message that will have @len bytes
 * @len: bytes
 * @writer: who is charged until the message is delivered
 *
 * Return: the message, ERR_PTR(-ENOBUFS) or ERR_PTR(-ENOMEM).
 */
struct kbus_msg *kbus_msg_new(u32 len, struct kbus_ksock *writer)
{
	u32 cost = kbus_msg_cost(len);
	struct kbus_msg *msg;

	if (!kbus_user_charge(writer->user, cost))
		return ERR_PTR(-ENOBUFS);
	msg = kbus_msg_alloc(len, cost, writer->group, KBUS_GFP);
	if (!msg) {
		kbus_user_uncharge(writer->user, cost);
		return ERR_PTR(-ENOMEM);
	}
	msg->payer = writer->user;
	return msg;
}

/* Give the message pages that follow each other, from the @i-th on, if they are easily had. */
static bool kbus_msg_add_run(struct kbus_msg *msg, unsigned int i)
{
	unsigned long run;
	unsigned int n;

	if (msg->nr_pages - i < KBUS_RUN_PAGES)
		return false;
	run = __get_free_pages(KBUS_GFP_NO_RECLAIM, KBUS_RUN_ORDER);
	if (!run)
		return false;
	/* They may go one by one: some to the spare ones. */
	split_page(virt_to_page((void *)run), KBUS_RUN_ORDER);
	for (n = 0; n < KBUS_RUN_PAGES; n++)
		msg->pages[i + n] = (void *)(run + n * PAGE_SIZE);
	kbus_pages_count(KBUS_RUN_PAGES);
	return true;
}

/* Give the message the page that its byte @pos is in; if it has none, nor has it any after it. */
static int kbus_msg_add_page(struct kbus_msg *msg, u32 pos, const struct kbus_group *group,
			     gfp_t gfp)
{
	unsigned int i = (pos - msg->head_len) >> PAGE_SHIFT;
	struct mem_cgroup *before;

	if (msg->pages[i])
		return 0;
	before = kbus_group_enter(group);
	if (!kbus_msg_add_run(msg, i)) {
		msg->pages[i] = (void *)__get_free_page(gfp);
		if (msg->pages[i])
			kbus_pages_count(1);
	}
	kbus_group_leave(before);
	return msg->pages[i] ? 0 : -ENOMEM;
}

/* Where byte @pos of a message is */
static u8 *kbus_msg_at(const struct kbus_msg *msg, u32 pos)
{
	u32 beyond = pos - msg->head_len;

	if (pos < msg->head_len)
		return (u8 *)msg->head + pos;
	return msg->pages[beyond >> PAGE_SHIFT] + offset_in_page(beyond);
}

/* How many of the @count bytes from @pos on are in one piece */
static u32 kbus_msg_span(const struct kbus_msg *msg, u32 pos, u32 count)
{
	u32 span, i;

	if (pos < msg->head_len)
		return min(msg->head_len - pos, count);
	i = (pos - msg->head_len) >> PAGE_SHIFT;
	span = PAGE_SIZE - offset_in_page(pos - msg->head_len);
	while (span < count && span < (KBUS_RUN_PAGES - 1) * PAGE_SIZE &&
	       msg->pages[i + 1] == msg->pages[i] + PAGE_SIZE) {
		span += PAGE_SIZE;
		i++;
	}
	return min(span, count);
}

/* Copy what a message still lacks from user memory. Return 0, -EFAULT or -ENOMEM. */
static int kbus_msg_fill(struct kbus_msg *msg, struct iov_iter *from,
			 const struct kbus_group *group)
{
	u32 count = msg->head_len - msg->filled;

	if (copy_from_iter(msg->head + msg->filled, count, from) != count)
		return -EFAULT;
	msg->filled = msg->head_len;
	while (msg->filled < msg->len) {
		u32 span;

		if (kbus_msg_add_page(msg, msg->filled, group, KBUS_GFP))
			return -ENOMEM;
		span = kbus_msg_span(msg, msg->filled, msg->len - msg->filled);
		if (copy_from_iter(kbus_msg_at(msg, msg->filled), span, from) != span)
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
 * @writer: who is charged
 *
 * Return: the message, or ERR_PTR() of EFAULT, ENOBUFS or ENOMEM.
 */
struct kbus_msg *kbus_msg_from_iter(struct iov_iter *from, u32 len,
				    struct kbus_ksock *writer)
{
	struct kbus_msg *msg = kbus_msg_new(len, writer);
	int err;

	if (IS_ERR(msg))
		return msg;
	err = kbus_msg_fill(msg, from, writer->group);
	if (!err)
		return msg;
	kbus_msg_put(msg);
	return ERR_PTR(err);
}

/*
 * copy_from_user(), where @count bytes, whole words, are known to fit into @to. What it checks
 * beyond that, whether they are in one object, takes as long as a short message does.
 */
static bool kbus_get_words(void *to, const void __user *from, u32 count)
{
	const unsigned long __user *words = from;
	unsigned long *word = to;
	u32 left = count;

	if (count > KBUS_MSG_SMALL || !IS_ALIGNED((uintptr_t)from, sizeof(*word)))
		return !copy_from_user(to, from, count);
	if (!user_read_access_begin(from, count))
		return false;
	for (; left >= 4 * sizeof(*word); left -= 4 * sizeof(*word)) {
		unsafe_get_user(word[0], words + 0, fault);
		unsafe_get_user(word[1], words + 1, fault);
		unsafe_get_user(word[2], words + 2, fault);
		unsafe_get_user(word[3], words + 3, fault);
		word += 4;
		words += 4;
	}
	for (; left >= sizeof(*word); left -= sizeof(*word))
		unsafe_get_user(*word++, words++, fault);
	if (left)
		unsafe_get_user(*(u32 *)word, (const u32 __user *)words, fault);
	user_read_access_end();
	return true;
fault:
	user_read_access_end();
	return false;
}

/* Copy a message out likewise, and then its flags as this reader sees them. */
static bool kbus_put_words(void __user *to, const void *from, u32 count, u32 flags)
{
	struct kbus_message_header __user *hdr = to;
	unsigned long __user *words = to;
	const unsigned long *word = from;
	u32 left = count;

	if (count > KBUS_MSG_SMALL || !IS_ALIGNED((uintptr_t)to, sizeof(*word)))
		return !copy_to_user(to, from, count) && !put_user(flags, &hdr->flags);
	if (!user_write_access_begin(to, count))
		return false;
	for (; left >= 4 * sizeof(*word); left -= 4 * sizeof(*word)) {
		unsafe_put_user(word[0], words + 0, fault);
		unsafe_put_user(word[1], words + 1, fault);
		unsafe_put_user(word[2], words + 2, fault);
		unsafe_put_user(word[3], words + 3, fault);
		word += 4;
		words += 4;
	}
	for (; left >= sizeof(*word); left -= sizeof(*word))
		unsafe_put_user(*word++, words++, fault);
	if (left)
		unsafe_put_user(*(const u32 *)word, (u32 __user *)words, fault);
	unsafe_put_user(flags, &hdr->flags, fault);
	user_write_access_end();
	return true;
fault:
	user_write_access_end();
	return false;
}

/**
 * kbus_msg_from_user() - copy a whole message from user memory, and check its form
 * @from: where it begins
 * @available: how many bytes there are; it may be followed by others
 * @writer: who is charged until the message is delivered
 *
 * Return: the message, or an ERR_PTR() of kbus_msg_new(), kbus_msg_fill() or
 * kbus_msg_check_header(); -EINVAL too if it is not whole.
 */
struct kbus_msg *kbus_msg_from_user(const void __user *from, u32 available,
				    struct kbus_ksock *writer)
{
	const u32 max_len = READ_ONCE(writer->dev->max_msg_size);
	struct kbus_message_header hdr __aligned(sizeof(long));
	struct iov_iter rest;
	struct kbus_msg *msg;
	u32 len;
	int err;

	if (available < sizeof(hdr))
		return ERR_PTR(-EINVAL);
	if (!kbus_get_words(&hdr, from, sizeof(hdr)))
		return ERR_PTR(-EFAULT);
	err = kbus_msg_check_header(&hdr, sizeof(hdr), max_len, &len);
	if (err)
		return ERR_PTR(err);
	if (len > available)
		return ERR_PTR(-EINVAL);
	msg = kbus_msg_new(len, writer);
	if (IS_ERR(msg))
		return msg;

	*kbus_msg_header(msg) = hdr;
	if (!kbus_get_words(msg->head + sizeof(hdr), from + sizeof(hdr),
			    msg->head_len - sizeof(hdr))) {
		err = -EFAULT;
	} else {
		msg->filled = msg->head_len;
		iov_iter_ubuf(&rest, WRITE, (void __user *)from + msg->filled,
			      len - msg->filled);
		err = msg->filled < len ? kbus_msg_fill(msg, &rest, writer->group) : 0;
	}
	if (!err)
		err = kbus_msg_check_filled(msg);
	if (err) {
		kbus_msg_put(msg);
		return ERR_PTR(err);
	}
	return msg;
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

/* kbus_msg_append(), with memory of this kind */
static int kbus_msg_append_gfp(struct kbus_msg *msg, const struct kbus_msg *piece, u32 from,
			       const struct kbus_group *group, gfp_t gfp)
{
	u32 count = min(piece->filled - from, msg->len - msg->filled);
	u32 pos, end = msg->filled + count;

	for (pos = max(msg->filled, msg->head_len); pos < end;
	     pos += kbus_msg_span(msg, pos, end - pos)) {
		if (kbus_msg_add_page(msg, pos, group, gfp))
			return -ENOMEM;
	}

	while (msg->filled < end) {
		u32 span = kbus_msg_span(msg, msg->filled, end - msg->filled);

		span = kbus_msg_span(piece, from, span);
		memcpy(kbus_msg_at(msg, msg->filled), kbus_msg_at(piece, from), span);
		msg->filled += span;
		from += span;
		cond_resched();
	}
	return 0;
}

/**
 * kbus_msg_append() - add what a message still lacks
 * @msg: the message
 * @piece: whose bytes are added
 * @from: the first of them
 * @group: whose memory @msg is
 *
 * Bytes of @piece beyond the end of @msg are left.
 *
 * Return: 0, or -ENOMEM with @msg as it was.
 */
int kbus_msg_append(struct kbus_msg *msg, const struct kbus_msg *piece, u32 from,
		    const struct kbus_group *group)
{
	return kbus_msg_append_gfp(msg, piece, from, group, KBUS_GFP);
}

/**
 * kbus_msg_clone() - copy a whole message into memory of another group
 * @msg: the message
 * @group: the group
 * @gfp: KBUS_GFP_OTHERS, KBUS_GFP_NO_WRITING or KBUS_GFP_NO_RECLAIM
 *
 * Return: the copy, or NULL if the group has no memory for it.
 */
struct kbus_msg *kbus_msg_clone(const struct kbus_msg *msg, const struct kbus_group *group,
				gfp_t gfp)
{
	struct kbus_msg *clone = kbus_msg_alloc(msg->len, kbus_msg_cost(msg->len), group, gfp);

	if (clone && kbus_msg_append_gfp(clone, msg, 0, group, gfp)) {
		kbus_msg_put(clone);
		return NULL;
	}
	return clone;
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
		u32 span;
		size_t n;

		if (pos < sizeof(hdr)) {
			span = min_t(u32, sizeof(hdr) - pos, count - done);
			n = copy_to_iter((u8 *)&hdr + pos, span, to);
		} else {
			span = kbus_msg_span(msg, pos, count - done);
			n = copy_to_iter(kbus_msg_at(msg, pos), span, to);
			cond_resched();
		}
		done += n;
		pos += n;
		if (n != span)
			break;
	}
	return done;
}

/**
 * kbus_msg_to_user() - copy a whole message to user memory
 * @msg: the message
 * @flags: the flags that this reader sees
 * @to: where to
 *
 * Return: whether it could be copied.
 */
bool kbus_msg_to_user(const struct kbus_msg *msg, u32 flags, void __user *to)
{
	struct iov_iter iter;

	if (msg->head_len < msg->len) {
		iov_iter_ubuf(&iter, READ, to, msg->len);
		return kbus_msg_to_iter(msg, 0, msg->len, flags, &iter) == msg->len;
	}
	return kbus_put_words(to, msg->head, msg->len, flags);
}

/* Charges for undelivered messages end here; see kbus_send_commit(). */
void kbus_msg_uncharge(struct kbus_msg *msg)
{
	if (!msg->payer)
		return;
	kbus_user_uncharge(msg->payer, msg->cost);
	msg->payer = NULL;
}

static void kbus_msg_free_pages(struct kbus_msg *msg)
{
	unsigned int i, count = msg->nr_pages;

	while (count && !msg->pages[count - 1])
		count--;
	for (i = kbus_spare_pages_keep(msg, count); i < count; i++) {
		kbus_page_free(msg->pages[i]);
		cond_resched();
	}
	kvfree(msg->pages);
}

void kbus_msg_put(struct kbus_msg *msg)
{
	if (!msg || !refcount_dec_and_test(&msg->refs))
		return;
	kbus_msg_uncharge(msg);
	if (msg->pages)
		kbus_msg_free_pages(msg);
	kbus_msg_free(msg);
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
	guard = (const u32 *)kbus_msg_at(msg, msg->len - sizeof(*guard));
	return *guard == KBUS_MSG_END_GUARD ? 0 : -EINVAL;
}

static struct kbus_msg *kbus_msg_synthetic_gfp(size_t max_name_len, size_t max_data_len,
					       const struct kbus_group *group, gfp_t gfp)
{
	u32 len = sizeof(struct kbus_message_header) + ALIGN(max_name_len, 4) +
		ALIGN(max_data_len, 4) + sizeof(u32);

	return kbus_msg_alloc(len, kbus_msg_cost(len), group, gfp);
}

/* An object for a message of KBUS itself, to be filled in later */
struct kbus_msg *kbus_msg_synthetic(size_t max_name_len, size_t max_data_len,
				    const struct kbus_group *group)
{
	return kbus_msg_synthetic_gfp(max_name_len, max_data_len, group, KBUS_GFP);
}

/* The same for whoever may not sleep, and can do without */
struct kbus_msg *kbus_msg_synthetic_now(size_t max_name_len, size_t max_data_len,
					const struct kbus_group *group)
{
	return kbus_msg_synthetic_gfp(max_name_len, max_data_len, group,
				      GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN);
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
