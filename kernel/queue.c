// SPDX-License-Identifier: GPL-2.0
/*
 * One KSock's queue of messages to read, its limits, and the slots in it that
 * are set aside for answers.
 */
#include <linux/ktime.h>
#include <linux/poll.h>
#include <linux/slab.h>

#include "kbus.h"

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

static struct kbus_item *kbus_item_new(void)
{
	struct kbus_item *item = kmem_cache_alloc(kbus_item_cache, KBUS_GFP);

	if (item)
		kbus_item_init(item);
	return item;
}

/* Is the item a part of its message? */
static bool kbus_item_is_inside(const struct kbus_item *item)
{
	const struct kbus_msg *msg = item->msg;

	return msg && item >= msg->items && item < msg->items + KBUS_MSG_ITEMS;
}

void kbus_item_free(struct kbus_item *item)
{
	struct kbus_msg *msg;

	if (!item)
		return;
	msg = item->msg;
	if (!kbus_item_is_inside(item))
		kmem_cache_free(kbus_item_cache, item);
	kbus_msg_put(msg);
}

void kbus_items_free(struct list_head *items)
{
	struct kbus_item *item, *next;

	list_for_each_entry_safe(item, next, items, node) {
		list_del(&item->node);
		kbus_item_free(item);
		cond_resched();
	}
}

void kbus_pool_init(struct kbus_pool *pool)
{
	INIT_LIST_HEAD(&pool->items);
	pool->count = 0;
	pool->exhausted = false;
}

/* Have @count items in the pool, or as many as there is memory for. */
void kbus_pool_fill(struct kbus_pool *pool, u32 count)
{
	while (pool->count < count) {
		struct kbus_item *item = kbus_item_new();

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

void kbus_pool_free(struct kbus_pool *pool)
{
	kbus_items_free(&pool->items);
	pool->count = 0;
}

static struct kbus_ksock *kbus_queue_ksock(struct kbus_queue *q)
{
	return container_of(q, struct kbus_ksock, q);
}

void kbus_queue_init(struct kbus_queue *q)
{
	spin_lock_init(&q->lock);
	INIT_LIST_HEAD(&q->items);
	INIT_LIST_HEAD(&q->waiting);
	INIT_LIST_HEAD(&q->woken);
	q->limit = min(READ_ONCE(kbus_default_queue_length),
		       READ_ONCE(kbus_max_queue_length));
}

/**
 * kbus_queue_room() - how many copies of a message would find room
 * @q: the queue; its lock is held
 * @copies: how many are meant for it
 * @len: bytes of each
 * @after_answer: they come after the same message as an answer, which has room
 *	whatever else is queued
 *
 * Return: a number up to @copies. It does not get less while kbus_dev.lock is
 * held, unless the reader lowers the queue's limit himself.
 */
u32 kbus_queue_room(struct kbus_queue *q, u32 copies, u32 len, bool after_answer)
{
	struct kbus_ksock *ks = kbus_queue_ksock(q);
	size_t limit = READ_ONCE(kbus_max_queue_bytes);
	size_t used = q->bytes + (after_answer ? len : 0);
	size_t left = kbus_user_bytes_left(ks->user);
	u32 taken = q->count + q->set_aside;
	u32 cost = kbus_msg_cost(len);
	size_t by_bytes;

	lockdep_assert_held(&q->lock);
	if (taken >= q->limit)
		return 0;
	copies = min(copies, q->limit - taken);

	/* What an observer has not read must not use up what its user sends with. */
	if (READ_ONCE(ks->observes))
		limit = min(limit, READ_ONCE(kbus_max_user_bytes) / 4);
	limit = used < limit ? limit - used : 0;
	/* The usual case, without a division */
	if ((u64)copies * len <= limit && (u64)copies * cost <= left)
		return copies;
	by_bytes = min(limit / len, left / cost);
	/* Else a message longer than the limit could never be delivered. */
	if (!by_bytes && !q->count && !after_answer)
		by_bytes = 1;
	return min_t(size_t, copies, by_bytes);
}

static void kbus_queue_add_aside(struct kbus_queue *q, int slots)
{
	lockdep_assert_held(&q->lock);
	q->set_aside += slots;
}

/* Set a slot aside for an answer, if there is one. */
bool kbus_queue_set_slot_aside(struct kbus_queue *q)
{
	bool has_one;

	spin_lock(&q->lock);
	has_one = q->count + q->set_aside < q->limit;
	if (has_one)
		kbus_queue_add_aside(q, 1);
	spin_unlock(&q->lock);
	return has_one;
}

void kbus_queue_release_slot(struct kbus_queue *q)
{
	spin_lock(&q->lock);
	kbus_queue_add_aside(q, -1);
	spin_unlock(&q->lock);
}

/* Remember when this was queued. For all who ask that is the same time. */
static void kbus_queue_set_time(struct kbus_msg *msg)
{
	if (!atomic64_read(&msg->queued_at))
		atomic64_set(&msg->queued_at, ktime_get_ns());
}

/**
 * kbus_queue_push() - queue all the copies of one message for one KSock
 * @q: the queue; its device's lock is held
 * @items: the copies in the order in which they are to be read; empty after
 * @urgent: before everything that is queued, not after it
 * @is_answer: one of them goes into a slot that was set aside
 *
 * The bytes are the reader's from here on. He is not woken before
 * kbus_queue_wake_readers().
 */
void kbus_queue_push(struct kbus_queue *q, struct list_head *items, bool urgent,
		     bool is_answer)
{
	struct kbus_ksock *ks = kbus_queue_ksock(q);
	struct kbus_item *item;
	size_t bytes = 0, cost = 0;

	lockdep_assert_held(&ks->dev->lock);
	if (list_empty(items))
		return;

	spin_lock(&q->lock);
	list_for_each_entry(item, items, node) {
		if (item->binding)
			list_add_tail(&item->by_binding, &item->binding->items);
		if (READ_ONCE(q->wants_times))
			kbus_queue_set_time(item->msg);
		bytes += item->msg->len;
		cost += kbus_msg_cost(item->msg->len);
		WRITE_ONCE(q->count, q->count + 1);
	}
	if (urgent)
		list_splice_init(items, &q->items);
	else
		list_splice_tail_init(items, &q->items);
	if (is_answer)
		kbus_queue_add_aside(q, -1);
	q->bytes += bytes;
	q->count_max = max(q->count_max, q->count);
	q->bytes_max = max(q->bytes_max, q->bytes);
	kbus_user_charge_always(ks->user, cost);
	spin_unlock(&q->lock);

	if (list_empty(&ks->to_wake)) {
		list_add_tail(&ks->to_wake, &ks->dev->to_wake);
		ks->to_wake_for = EPOLLIN | EPOLLRDNORM;
	}
	if (urgent)
		ks->to_wake_for |= EPOLLPRI;
}

/*
 * Wake all who have got something and do not know: once for any number of
 * messages, whoever they are from.
 */
void kbus_queue_wake_readers(struct kbus_dev *dev)
{
	struct kbus_ksock *ks, *next;

	lockdep_assert_held(&dev->lock);
	list_for_each_entry_safe(ks, next, &dev->to_wake, to_wake) {
		list_del_init(&ks->to_wake);
		if (wq_has_sleeper(&ks->wq))
			wake_up_interruptible_poll(&ks->wq, ks->to_wake_for);
	}
}

static void kbus_queue_add_lost(struct kbus_queue *q, u32 copies)
{
	lockdep_assert_held(&q->lock);
	q->lost += copies;
	if (q->report_lost && check_add_overflow(q->lost_unreported, copies,
						 &q->lost_unreported))
		q->lost_unreported = U32_MAX;
}

void kbus_queue_miss(struct kbus_queue *q, u32 copies)
{
	if (!copies)
		return;
	spin_lock(&q->lock);
	kbus_queue_add_lost(q, copies);
	spin_unlock(&q->lock);
}

/* Take an unread copy out of the queue, for whatever reason. */
void kbus_queue_detach(struct kbus_queue *q, struct kbus_item *item)
{
	struct kbus_ksock *ks = kbus_queue_ksock(q);

	lockdep_assert_held(&q->lock);
	list_del_init(&item->node);
	list_del_init(&item->by_binding);
	item->binding = NULL;
	WRITE_ONCE(q->count, q->count - 1);
	q->bytes -= item->msg->len;
	kbus_user_uncharge(ks->user, kbus_msg_cost(item->msg->len));
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
	struct kbus_item *item;

	item = list_first_entry_or_null(&q->items, struct kbus_item, node);
	if (!item)
		return NULL;
	if (item->request)
		q->unreplied++;
	kbus_queue_detach(q, item);
	q->received++;
	return item;
}

/* The KSock closes; nobody adds to its queue or reads it any more. */
void kbus_queue_empty(struct kbus_queue *q)
{
	struct kbus_item *item;

	do {
		spin_lock(&q->lock);
		item = list_first_entry_or_null(&q->items, struct kbus_item, node);
		if (item)
			kbus_queue_detach(q, item);
		spin_unlock(&q->lock);
		kbus_item_free(item);
		cond_resched();
	} while (item);
}
