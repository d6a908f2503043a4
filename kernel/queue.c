// SPDX-License-Identifier: GPL-2.0
/*
 * One KSock's queue of messages to read, its limits, and the slots in it that
 * are set aside for answers.
 *
 * The slots are allocated when the KSock is opened and when its limit is raised, for
 * its user, so that nobody who sends needs memory for a queue. Only with the device's
 * lock are they taken from kbus_queue.free; what readers give back comes by way of
 * kbus_queue.freed.
 */
#include <linux/poll.h>
#include <linux/slab.h>

#include "kbus.h"
#include "trace.h"

/* Slots that were allocated together, and stay until the KSock is closed */
struct kbus_slots {
	struct kbus_slots *next;
	struct kbus_slot slot[];
};

/* A slot over the limit of whatever queue it goes to, or NULL; no sleep */
struct kbus_slot *kbus_slot_extra(void)
{
	struct kbus_slot *slot = kzalloc(sizeof(*slot), KBUS_GFP_NOW);

	if (slot)
		slot->is_extra = true;
	return slot;
}

/* The slot was not used after all. */
void kbus_slot_give_back(struct kbus_queue *q, struct kbus_slot *slot)
{
	lockdep_assert_held(&kbus_queue_ksock(q)->dev->lock);
	list_del(&slot->node);
	if (slot->is_extra) {
		atomic_dec(&kbus_queue_ksock(q)->dev->events_aside);
		kfree(slot);
	} else {
		list_add(&slot->node, &q->free);
	}
}

/* Have that many more slots. Return 0, -ENOBUFS or -ENOMEM. */
static int kbus_queue_add_slots(struct kbus_ksock *ks, u32 count)
{
	struct kbus_slots *slots;
	struct kbus_queue *q = &ks->q;
	const size_t size = struct_size(slots, slot, count);
	LIST_HEAD(free);

	slots = kbus_user_alloc(ks->user, size);
	if (IS_ERR(slots))
		return PTR_ERR(slots);
	slots->next = q->slots;
	q->slots = slots;
	q->nr_slots += count;
	q->slots_cost += kbus_memory_cost(size);
	while (count--)
		list_add(&slots->slot[count].node, &free);
	spin_lock(&ks->dev->lock);
	list_splice(&free, &q->free);
	spin_unlock(&ks->dev->lock);
	return 0;
}

/**
 * kbus_queue_resize() - set how many messages a queue takes
 * @ks: whose; its in_lock is held, or it is not open yet
 * @limit: so many; if there were ever more, the slots for them stay
 * @wakes: gets those who may go on
 *
 * Return: 0, -ENOBUFS or -ENOMEM.
 */
int kbus_queue_resize(struct kbus_ksock *ks, u32 limit, struct kbus_wakes *wakes)
{
	struct kbus_queue *q = &ks->q;
	int err = limit > q->nr_slots ? kbus_queue_add_slots(ks, limit - q->nr_slots) : 0;

	if (err)
		return err;
	spin_lock(&ks->dev->lock);
	spin_lock(&q->lock);
	q->limit = limit;
	kbus_queue_unlock(q, wakes);
	spin_unlock(&ks->dev->lock);
	return 0;
}

/* A queue of the default length; the errors are kbus_queue_resize()'s. */
int kbus_queue_init(struct kbus_ksock *ks)
{
	struct kbus_wakes none = KBUS_WAKES();
	struct kbus_queue *q = &ks->q;

	spin_lock_init(&q->lock);
	INIT_LIST_HEAD(&q->copies);
	INIT_LIST_HEAD(&q->freed);
	INIT_LIST_HEAD(&q->free);
	INIT_LIST_HEAD(&q->line);
	INIT_LIST_HEAD(&q->kept);
	return kbus_queue_resize(ks, min(READ_ONCE(kbus_default_queue_length),
					 READ_ONCE(kbus_max_queue_length)), &none);
}

/* The KSock closes; nobody adds to its queue or reads it any more. */
void kbus_queue_free(struct kbus_ksock *ks)
{
	struct kbus_queue *q = &ks->q;
	struct kbus_slots *slots;
	struct kbus_slot *slot;
	struct kbus_msg *msg;

	do {
		spin_lock(&q->lock);
		slot = kbus_queue_first(q);
		msg = slot ? kbus_queue_take(q, slot) : NULL;
		spin_unlock(&q->lock);
		kbus_copy_put(ks, msg);
		cond_resched();
	} while (msg);
	while (q->slots) {
		slots = q->slots;
		q->slots = slots->next;
		kvfree(slots);
	}
	kbus_user_uncharge(ks->user, q->slots_cost);
}

/* Bytes that are queued, or that statuses may come to take */
static size_t kbus_queue_bytes_taken(const struct kbus_queue *q)
{
	return q->bytes + q->set_aside * KBUS_STATUS_LEN;
}

/* Is there room for so many messages of so many bytes? */
bool kbus_queue_fits(const struct kbus_queue *q, u64 slots, u64 bytes)
{
	size_t used = kbus_queue_bytes_taken(q);

	lockdep_assert_held(&q->lock);
	if (q->count + q->set_aside + slots > q->limit)
		return false;
	return used + bytes <= READ_ONCE(kbus_max_queue_bytes) || (!used && slots <= 1);
}

/* Would they find room if nothing was queued? */
bool kbus_queue_can_ever_take(const struct kbus_queue *q, u32 slots, u64 bytes)
{
	lockdep_assert_held(&q->lock);
	return slots <= q->limit && (slots <= 1 || bytes <= READ_ONCE(kbus_max_queue_bytes));
}

/**
 * kbus_queue_room() - how many copies of a message would find room
 * @q: the queue; its lock is held
 * @len: bytes of the message
 * @after_answer: they come after the same message as an answer, for which a slot
 *	has been set aside
 *
 * Return: a number that does not get less while kbus_dev.lock is held.
 */
u32 kbus_queue_room(const struct kbus_queue *q, u32 len, bool after_answer)
{
	size_t used = kbus_queue_bytes_taken(q) + (after_answer ? len - KBUS_STATUS_LEN : 0);
	size_t limit = READ_ONCE(kbus_max_queue_bytes);
	u32 taken = q->count + q->set_aside;

	lockdep_assert_held(&q->lock);
	if (taken >= q->limit)
		return 0;
	limit = used < limit ? (limit - used) / len : 0;
	/* Else a message longer than the limit could never be delivered. */
	if (!limit && !used)
		limit = 1;
	return min_t(size_t, q->limit - taken, limit);
}

/* Is there room in bytes for an answer, in the slot that was set aside for it? */
bool kbus_queue_takes_answer(const struct kbus_queue *q, u32 len)
{
	size_t used = kbus_queue_bytes_taken(q) - KBUS_STATUS_LEN;

	lockdep_assert_held(&q->lock);
	return !used || len <= KBUS_STATUS_LEN ||
		used + len <= READ_ONCE(kbus_max_queue_bytes);
}

/* Set a slot aside for an answer, if there is one, with room for a status. */
bool kbus_queue_set_slot_aside(struct kbus_queue *q)
{
	bool fits;

	spin_lock(&q->lock);
	fits = kbus_queue_fits(q, 1, KBUS_STATUS_LEN);
	q->set_aside += fits;
	spin_unlock(&q->lock);
	return fits;
}

void kbus_queue_release_slot(struct kbus_queue *q, struct kbus_wakes *wakes)
{
	spin_lock(&q->lock);
	q->set_aside--;
	kbus_queue_unlock(q, wakes);
}

/**
 * kbus_queue_push() - queue all the copies of one message for one KSock
 * @q: the queue; its device's lock is held
 * @slots: the copies in the order in which they are to be read, charged to the
 *	reader's user; empty after
 * @urgent: before everything that is queued, not after it
 * @is_answer: one of them goes into a slot that was set aside
 * @wakes: the reader is added, if it waits
 */
void kbus_queue_push(struct kbus_queue *q, struct list_head *slots, bool urgent,
		     bool is_answer, struct kbus_wakes *wakes)
{
	struct kbus_ksock *ks = kbus_queue_ksock(q);
	struct kbus_slot *slot;
	size_t bytes = 0;
	u32 count = 0;

	lockdep_assert_held(&ks->dev->lock);
	if (list_empty(slots))
		return;

	spin_lock(&q->lock);
	list_for_each_entry(slot, slots, node) {
		bytes += slot->msg->len;
		count++;
		trace_queue(ks->dev->index, ks->id, kbus_msg_header(slot->msg), slot->request,
			    slot->msg->len, q->count + count);
	}
	if (urgent)
		list_splice_init(slots, &q->copies);
	else
		list_splice_tail_init(slots, &q->copies);
	q->set_aside -= is_answer;
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

/* Copies of a message have found no room. */
void kbus_queue_miss(struct kbus_queue *q, u32 copies)
{
	spin_lock(&q->lock);
	WRITE_ONCE(q->lost, q->lost + copies);
	if (q->report_lost && check_add_overflow(q->lost_unreported, copies,
						 &q->lost_unreported))
		q->lost_unreported = U32_MAX;
	spin_unlock(&q->lock);
}

struct kbus_slot *kbus_queue_first(struct kbus_queue *q)
{
	lockdep_assert_held(&q->lock);
	return list_first_entry_or_null(&q->copies, struct kbus_slot, node);
}

/*
 * Take an unread copy out of the queue, for whatever reason, and make its slot free. The
 * copy stays charged to the reader's user until kbus_copy_put().
 */
struct kbus_msg *kbus_queue_take(struct kbus_queue *q, struct kbus_slot *slot)
{
	struct kbus_msg *msg = slot->msg;

	lockdep_assert_held(&q->lock);
	WRITE_ONCE(q->count, q->count - 1);
	q->bytes -= msg->len;
	if (slot->request)
		WRITE_ONCE(slot->request->slot, NULL);
	if (!slot->is_extra) {
		list_move(&slot->node, &q->freed);
		return msg;
	}
	list_del(&slot->node);
	if (slot->ends_events)
		q->events_ended = false;
	else
		atomic_dec(&kbus_queue_ksock(q)->dev->events_aside);
	kfree(slot);
	return msg;
}

/* Take out the next copy to read, which is in @slot; the reader's in_lock is held, too. */
struct kbus_msg *kbus_queue_pop(struct kbus_queue *q, struct kbus_slot *slot)
{
	struct kbus_ksock *ks = kbus_queue_ksock(q);
	const bool is_flagged = slot->request;
	struct kbus_msg *msg;

	lockdep_assert_held(&ks->in_lock);
	msg = kbus_queue_take(q, slot);
	q->received++;
	q->unreplied += is_flagged;
	trace_receive(ks->dev->index, ks->id, kbus_msg_header(msg), is_flagged, msg->len,
		      q->count);
	return msg;
}

/* A copy that was queued for a KSock goes; it may be NULL. */
void kbus_copy_put(struct kbus_ksock *ks, struct kbus_msg *msg)
{
	if (!msg)
		return;
	kbus_user_uncharge(ks->user, msg->cost);
	kbus_msg_put(msg);
}
