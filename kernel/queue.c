// SPDX-License-Identifier: GPL-2.0
/*
 * One KSock's queue of messages to read, its limits, and the slots in it that
 * are set aside for answers.
 */
#include <linux/poll.h>
#include <linux/slab.h>

#include "kbus.h"
#include "trace.h"

static struct kmem_cache *kbus_item_cache;

int kbus_queue_cache_init(void)
{
	kbus_item_cache = KMEM_CACHE(kbus_item, SLAB_ACCOUNT);
	return kbus_item_cache ? 0 : -ENOMEM;
}

void kbus_queue_cache_exit(void)
{
	kmem_cache_destroy(kbus_item_cache);
}

static struct kbus_item *kbus_item_new(gfp_t gfp)
{
	struct kbus_item *item = kmem_cache_alloc(kbus_item_cache, gfp);

	if (item)
		kbus_item_init(item);
	return item;
}

void kbus_item_free(struct kbus_item *item)
{
	struct kbus_msg *msg = item->msg;

	if (!kbus_item_is_inside(item))
		kmem_cache_free(kbus_item_cache, item);
	kbus_msg_put(msg);
}

/* One reference less to a copy that was queued and charged to @holder; it may be NULL. */
void kbus_copy_put(struct kbus_user *holder, struct kbus_item *item)
{
	if (!item || !refcount_dec_and_test(&item->refs))
		return;
	kbus_user_uncharge_copies(holder, kbus_item_cost(item), 1);
	kbus_item_free(item);
}

/* Have @count items in the pool, or as many as there is memory for. */
void kbus_pool_fill(struct kbus_pool *pool, u32 count, gfp_t gfp)
{
	while (pool->count < count) {
		struct kbus_item *item = kbus_item_new(gfp);

		if (!item) {
			pool->exhausted = true;
			return;
		}
		list_add(&item->node, &pool->items);
		pool->count++;
		cond_resched();
	}
}

struct kbus_item *kbus_pool_take(struct kbus_pool *pool)
{
	struct kbus_item *item;

	item = list_first_entry_or_null(&pool->items, struct kbus_item, node);
	if (item) {
		list_del_init(&item->node);
		pool->count--;
	}
	return item;
}

/* Take back an item that has not been queued after all. */
void kbus_pool_give(struct kbus_pool *pool, struct kbus_item *item)
{
	struct kbus_msg *msg = item->msg;
	bool is_inside = kbus_item_is_inside(item);

	list_del(&item->node);
	kbus_item_init(item);
	/* None of them is taken until all have been given back. */
	if (is_inside) {
		msg->nr_items_used--;
	} else {
		list_add(&item->node, &pool->items);
		pool->count++;
	}
	kbus_msg_put(msg);
}

/* Free the items that are left. */
void kbus_pool_drain(struct kbus_pool *pool)
{
	struct kbus_item *item;

	while ((item = kbus_pool_take(pool))) {
		kbus_item_free(item);
		cond_resched();
	}
}

static struct kbus_ksock *kbus_queue_ksock(struct kbus_queue *q)
{
	return container_of(q, struct kbus_ksock, q);
}

void kbus_queue_init(struct kbus_queue *q)
{
	spin_lock_init(&q->lock);
	INIT_LIST_HEAD(&q->items);
	q->line.waits = RB_ROOT_CACHED;
	q->tardy.waits = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&q->kept);
	INIT_LIST_HEAD(&q->ready);
	INIT_LIST_HEAD(&q->starving);
	INIT_LIST_HEAD(&q->patient);
	INIT_LIST_HEAD(&q->unsettled);
	q->limit = min(READ_ONCE(kbus_default_queue_length),
		       READ_ONCE(kbus_max_queue_length));
}

/* How many bytes the queue takes, apart from what an empty one does. */
size_t kbus_queue_byte_limit(struct kbus_queue *q)
{
	size_t limit = READ_ONCE(kbus_max_queue_bytes);

	/* What an observer has not read must not use up what its user sends with. */
	if (READ_ONCE(kbus_queue_ksock(q)->observes))
		limit = min(limit, READ_ONCE(kbus_max_user_bytes) / 4);
	return limit;
}

/* Bytes that are queued, or that statuses may come to take */
static size_t kbus_queue_bytes_taken(const struct kbus_queue *q)
{
	return q->bytes + q->set_aside * KBUS_STATUS_LEN;
}

/**
 * kbus_queue_room() - how many copies of a message would find room
 * @q: the queue; its lock is held
 * @copies: how many are meant for it
 * @msg: the message
 * @paid: bytes of memory that its user is charged for anyway
 * @after_answer: they come after the same message as an answer, for which a slot
 *	has been set aside
 *
 * Return: a number up to @copies. It does not get less while kbus_dev.lock is
 * held, unless the reader lowers the queue's limit, or its user's bytes are used
 * up elsewhere.
 */
u32 kbus_queue_room(struct kbus_queue *q, u32 copies, const struct kbus_msg *msg,
		    u32 paid, bool after_answer)
{
	const u32 len = msg->len, cost = msg->cost;
	struct kbus_user *user = kbus_queue_ksock(q)->user;
	size_t limit = kbus_queue_byte_limit(q);
	size_t used = kbus_queue_bytes_taken(q) + (after_answer ? len - KBUS_STATUS_LEN : 0);
	u64 left = (u64)kbus_user_bytes_left(user) + paid;
	u32 taken = q->count + q->set_aside;

	lockdep_assert_held(&q->lock);
	if (taken >= q->limit)
		return 0;
	copies = min(copies, q->limit - taken);

	limit = used < limit ? limit - used : 0;
	/* The usual case, without a division */
	if ((u64)copies * len <= limit && (u64)copies * cost <= left)
		return copies;
	limit /= len;
	/* Else a message longer than the limit could never be delivered, */
	if (!limit && !used)
		limit = 1;
	left = div_u64(left, cost);
	/* or one that takes more than its reader's user may have. */
	if (!left && !after_answer && !atomic_read(&user->held))
		left = 1;
	return min3((u64)copies, (u64)limit, left);
}

/* Is there room in bytes for an answer, in the slot that was set aside for it? */
bool kbus_queue_takes_answer(struct kbus_queue *q, u32 len)
{
	size_t used = kbus_queue_bytes_taken(q) - KBUS_STATUS_LEN;

	lockdep_assert_held(&q->lock);
	return !used || len <= KBUS_STATUS_LEN || used + len <= kbus_queue_byte_limit(q);
}

/* Has the queue itself room for what a message needs? */
bool kbus_queue_has_room_for(struct kbus_queue *q, const struct kbus_need *need)
{
	size_t used = kbus_queue_bytes_taken(q) + need->own_slots * KBUS_STATUS_LEN;

	lockdep_assert_held(&q->lock);
	if ((u64)q->count + q->set_aside + need->own_slots + need->copies > q->limit)
		return false;
	return used + (u64)need->copies * need->len <= kbus_queue_byte_limit(q) ||
		(!used && need->copies <= 1);
}

/* Has the reader's user the bytes? See kbus_user_charge_copies(). */
bool kbus_queue_has_bytes_for(struct kbus_queue *q, const struct kbus_need *need)
{
	struct kbus_user *user = kbus_queue_ksock(q)->user;

	return need->bytes <= kbus_user_bytes_left(user) ||
		(need->is_only_one && !atomic_read(&user->held));
}

/* Has the queue, and its reader's user, room for all of these messages? */
bool kbus_queue_has_room_for_all(struct kbus_queue *q, const struct kbus_sum *sum)
{
	lockdep_assert_held(&q->lock);
	return q->count + q->set_aside + sum->slots <= q->limit &&
		kbus_queue_bytes_taken(q) + sum->queue_bytes <= kbus_queue_byte_limit(q) &&
		sum->user_bytes <= kbus_user_bytes_left(kbus_queue_ksock(q)->user);
}

/* Would the message find room if nothing was queued, and nothing else charged? */
bool kbus_queue_can_ever_take(struct kbus_queue *q, const struct kbus_need *need)
{
	lockdep_assert_held(&q->lock);
	if ((u64)need->copies + need->own_slots > q->limit)
		return false;
	if ((need->copies > 1 || need->own_slots) &&
	    (u64)need->copies * need->len + need->own_slots * KBUS_STATUS_LEN >
	    kbus_queue_byte_limit(q))
		return false;
	return need->is_only_one ||
		need->bytes + need->paid <= READ_ONCE(kbus_max_user_bytes);
}

static void kbus_queue_add_aside(struct kbus_queue *q, int slots)
{
	lockdep_assert_held(&q->lock);
	q->set_aside += slots;
}

/* Set a slot aside for an answer, if there is one, with room for a status. */
bool kbus_queue_set_slot_aside(struct kbus_queue *q)
{
	size_t used;
	bool has_one;

	spin_lock(&q->lock);
	used = kbus_queue_bytes_taken(q);
	has_one = q->count + q->set_aside < q->limit &&
		(!used || used + KBUS_STATUS_LEN <= kbus_queue_byte_limit(q));
	if (has_one)
		kbus_queue_add_aside(q, 1);
	spin_unlock(&q->lock);
	return has_one;
}

void kbus_queue_release_slot(struct kbus_queue *q, struct kbus_wakes *wakes)
{
	spin_lock(&q->lock);
	kbus_queue_add_aside(q, -1);
	kbus_queue_unlock(q, wakes);
}

/**
 * kbus_queue_push() - queue all the copies of one message for one KSock
 * @q: the queue; its device's lock is held
 * @items: the copies in the order in which they are to be read, charged to the
 *	reader's user; empty after
 * @urgent: before everything that is queued, not after it
 * @is_answer: one of them goes into a slot that was set aside
 * @wakes: the reader is added, if it waits
 */
void kbus_queue_push(struct kbus_queue *q, struct list_head *items, bool urgent,
		     bool is_answer, struct kbus_wakes *wakes)
{
	struct kbus_ksock *ks = kbus_queue_ksock(q);
	struct kbus_item *item;
	size_t bytes = 0;
	u32 count = 0;

	lockdep_assert_held(&ks->dev->lock);
	if (list_empty(items))
		return;

	spin_lock(&q->lock);
	list_for_each_entry(item, items, node) {
		if (item->binding)
			list_add_tail(&item->by_binding, &item->binding->items);
		bytes += item->msg->len;
		count++;
		trace_queue(ks->dev->index, ks->id, kbus_msg_header(item->msg), item->request,
			    item->msg->len, q->count + count);
	}
	if (urgent)
		list_splice_init(items, &q->items);
	else
		list_splice_tail_init(items, &q->items);
	if (is_answer)
		kbus_queue_add_aside(q, -1);
	WRITE_ONCE(q->count, q->count + count);
	q->bytes += bytes;
	q->count_max = max(q->count_max, q->count);
	q->bytes_max = max(q->bytes_max, q->bytes);
	/* An answer may be shorter than the status for which there was room. Else there is less. */
	if (is_answer)
		kbus_queue_unlock(q, wakes);
	else
		spin_unlock(&q->lock);
	kbus_wakes_add(wakes, ks, EPOLLIN | EPOLLRDNORM | (urgent ? EPOLLPRI : 0));
}

static void kbus_queue_add_lost(struct kbus_queue *q, u32 copies)
{
	lockdep_assert_held(&q->lock);
	WRITE_ONCE(q->lost, q->lost + copies);
	if (q->report_lost && check_add_overflow(q->lost_unreported, copies,
						 &q->lost_unreported))
		q->lost_unreported = U32_MAX;
}

void kbus_queue_miss(struct kbus_queue *q, u32 copies)
{
	spin_lock(&q->lock);
	kbus_queue_add_lost(q, copies);
	spin_unlock(&q->lock);
}

/*
 * Take an unread copy out of the queue, for whatever reason. It stays charged to
 * the reader's user until kbus_copy_put(), or what does the same.
 */
void kbus_queue_detach(struct kbus_queue *q, struct kbus_item *item)
{
	struct kbus_ksock *ks = kbus_queue_ksock(q);

	lockdep_assert_held(&q->lock);
	list_del_init(&item->node);
	list_del_init(&item->by_binding);
	item->binding = NULL;
	WRITE_ONCE(q->count, q->count - 1);
	q->bytes -= item->msg->len;
	if (item->request)
		item->request->item = NULL;
	if (item->is_aside)
		atomic_dec(&ks->dev->events_aside);
	if (item->ends_events)
		q->events_ended = false;
}

/* Take out the next copy to read; the queue's lock is held. */
struct kbus_item *kbus_queue_pop(struct kbus_queue *q)
{
	struct kbus_ksock *ks = kbus_queue_ksock(q);
	struct kbus_item *item;
	bool is_flagged;

	item = list_first_entry_or_null(&q->items, struct kbus_item, node);
	if (!item)
		return NULL;
	if (item->request)
		q->unreplied++;
	is_flagged = item->request;
	kbus_queue_detach(q, item);
	q->received++;
	trace_receive(ks->dev->index, ks->id, kbus_msg_header(item->msg), is_flagged,
		      item->msg->len, q->count);
	return item;
}

/* The KSock closes; nobody adds to its queue or reads it any more. */
void kbus_queue_empty(struct kbus_queue *q)
{
	struct kbus_item *item;

	for (;;) {
		spin_lock(&q->lock);
		item = list_first_entry_or_null(&q->items, struct kbus_item, node);
		if (item)
			kbus_queue_detach(q, item);
		/* Nobody waits for a KSock that has gone. */
		spin_unlock(&q->lock);
		if (!item)
			return;
		kbus_copy_put(kbus_queue_ksock(q)->user, item);
		cond_resched();
	}
}
