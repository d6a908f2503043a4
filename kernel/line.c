// SPDX-License-Identifier: GPL-2.0
/*
 * The line of those who wait for room at a KSock.
 *
 * If a task sleeps in SEND for a message, that is in the line of the queue for which it
 * waits, in the order in which the messages began to wait; nobody behind it takes room that
 * it needs. A message that was kept after EAGAIN or EINTR holds up nobody, as its sender may
 * never come back. Nor does one whose task may go on, but does not get a processor: it
 * has lost its turn after a while.
 *
 * kbus_line_settle() decides who may go on. It is called at the end of whatever
 * changes what a queue can take, or changes its line: see kbus_queue_unlock().
 */
#include <linux/poll.h>

#include "kbus.h"
#include "trace.h"

/* So long, in jiffies, others wait for whoever is first in line to use its turn. */
#define KBUS_PATIENCE	(HZ / 10)

static struct kbus_ksock *kbus_wait_ksock(struct kbus_wait *wait)
{
	return container_of(wait, struct kbus_ksock, wait);
}

static struct kbus_ksock *kbus_line_ksock(struct kbus_queue *q)
{
	return container_of(q, struct kbus_ksock, q);
}

/* One message more, or one less, needs what is summed up. */
void kbus_sum_add(struct kbus_sum *sum, const struct kbus_need *need, s64 sign)
{
	sum->slots += sign * ((u64)need->copies + need->own_slots);
	sum->queue_bytes += sign * ((u64)need->copies * need->len +
				    need->own_slots * KBUS_STATUS_LEN);
	sum->user_bytes += sign * need->bytes;
}

static struct kbus_wait *kbus_line_first(const struct kbus_queue *q)
{
	struct rb_node *first = rb_first_cached(&q->line);

	return first ? rb_entry(first, struct kbus_wait, in_line) : NULL;
}

static bool kbus_line_is_before(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct kbus_wait, in_line)->since <
		rb_entry(b, struct kbus_wait, in_line)->since;
}

/* From now on a task sleeps for the message, which is in the line for that. */
static void kbus_line_add(struct kbus_queue *q, struct kbus_wait *wait)
{
	rb_add_cached(&wait->in_line, &q->line, kbus_line_is_before);
	kbus_sum_add(&q->line_needs, &wait->need, 1);
}

static bool kbus_wait_is_in_line(const struct kbus_wait *wait)
{
	return !RB_EMPTY_NODE(&wait->in_line);
}

/* The message is in the line no more, if it was. */
static void kbus_line_remove(struct kbus_queue *q, struct kbus_wait *wait)
{
	if (!kbus_wait_is_in_line(wait))
		return;
	rb_erase_cached(&wait->in_line, &q->line);
	RB_CLEAR_NODE(&wait->in_line);
	kbus_sum_add(&q->line_needs, &wait->need, -1);
}

/* A message is to wait at a queue for what it needs; it may wait there already. */
void kbus_line_join(struct kbus_queue *q, struct kbus_wait *wait, const struct kbus_need *need)
{
	lockdep_assert_held(&q->lock);
	kbus_line_remove(q, wait);
	list_del_init(&wait->node);
	wait->need = *need;
	wait->seen = q->changes;
	WRITE_ONCE(wait->ready, false);
	if (wait->sleepers)
		kbus_line_add(q, wait);
	else
		list_add_tail(&wait->node, &q->kept);
}

/* It does so no more. */
void kbus_line_leave(struct kbus_queue *q, struct kbus_wait *wait)
{
	lockdep_assert_held(&q->lock);
	kbus_line_remove(q, wait);
	list_del_init(&wait->node);
}

/* No task sleeps for a message any more, but it is kept. */
void kbus_line_keep(struct kbus_queue *q, struct kbus_wait *wait)
{
	lockdep_assert_held(&q->lock);
	kbus_line_remove(q, wait);
	list_move_tail(&wait->node, wait->ready ? &q->ready : &q->kept);
}

/* Look in a while whether whoever is first in line has used its turn. */
static void kbus_line_be_patient(struct kbus_queue *q)
{
	if (delayed_work_pending(&q->patience))
		return;
	kbus_ksock_get(kbus_line_ksock(q));
	if (!queue_delayed_work(kbus_workqueue, &q->patience, KBUS_PATIENCE))
		/* Not the last one: it is a place to wait at. */
		kbus_ksock_put(kbus_line_ksock(q));
}

/* From now on SEND is worth another try. */
void kbus_line_make_ready(struct kbus_queue *q, struct kbus_wait *wait,
			  struct kbus_wakes *wakes)
{
	lockdep_assert_held(&q->lock);
	trace_wait(kbus_line_ksock(q)->dev->index, kbus_wait_ksock(wait)->id,
		   kbus_line_ksock(q)->id, KBUS_TRACE_WAIT_WAKE, NULL);
	WRITE_ONCE(wait->ready, true);
	wait->ready_since = jiffies;
	if (kbus_wait_is_in_line(wait))
		kbus_line_be_patient(q);
	else
		list_move_tail(&wait->node, &q->ready);
	kbus_wakes_add(wakes, kbus_wait_ksock(wait), EPOLLOUT | EPOLLWRNORM);
}

/*
 * The queue lacks bytes of its user's: be told when there are more. Return false if
 * that has only begun now, so that it must be seen whether there are meanwhile.
 */
static bool kbus_queue_starves(struct kbus_queue *q)
{
	struct kbus_user *user = kbus_line_ksock(q)->user;
	bool did;

	lockdep_assert_held(&q->lock);
	spin_lock(&user->lock);
	did = !list_empty(&q->starving);
	if (!did)
		list_add_tail(&q->starving, &user->starving);
	spin_unlock(&user->lock);
	/* Pairs with kbus_user_uncharge(): one of the two sees what the other did. */
	smp_mb();
	return did;
}

/*
 * Is there room for what a message needs, or may it need less by now, because a binding
 * of another KSock has gone? If the user's bytes lack, the queue will be told.
 */
bool kbus_line_fits(struct kbus_queue *q, const struct kbus_need *need)
{
	if (!kbus_queue_has_room_for(q, need))
		return false;
	while (!kbus_queue_has_bytes_for(q, need)) {
		if (need->at != READ_ONCE(kbus_line_ksock(q)->dev->bindings_changed))
			return true;
		if (kbus_queue_starves(q))
			return false;
	}
	return true;
}

/* Does somebody sleep in the line that began to wait before @wait? */
bool kbus_line_has_older(const struct kbus_queue *q, const struct kbus_wait *wait)
{
	const struct kbus_wait *first = kbus_line_first(q);

	return first && (!wait->since || first->since < wait->since);
}

/*
 * Is another try worth while? What will never have room is to be refused. What is behind
 * the line is looked at again when the first one leaves that.
 */
static bool kbus_line_may_go_on(struct kbus_queue *q, const struct kbus_wait *wait)
{
	return !kbus_queue_can_ever_take(q, &wait->need) ||
		(!kbus_line_has_older(q, wait) && kbus_line_fits(q, &wait->need));
}

/*
 * Look at kept messages that have not been looked at since the queue changed, which are
 * the first ones. If there are many, a worker goes on with them.
 */
static void kbus_line_settle_kept(struct kbus_queue *q, struct kbus_wakes *wakes)
{
	struct kbus_wait *wait;
	u32 count = 0;

	while ((wait = list_first_entry_or_null(&q->kept, struct kbus_wait, node)) &&
	       wait->seen != q->changes) {
		if (count++ == KBUS_WAKES) {
			kbus_wake_later(kbus_line_ksock(q), 0);
			return;
		}
		wait->seen = q->changes;
		if (kbus_line_may_go_on(q, wait))
			kbus_line_make_ready(q, wait, wakes);
		else
			list_move_tail(&wait->node, &q->kept);
	}
}

/**
 * kbus_line_settle() - let those who wait for room at a queue go on who may
 * @q: the queue; its lock is held
 * @wakes: gets those who are to be woken
 *
 * That is the first one in the line, and every message that is kept, if there is room for
 * what it needs. One that did not need what it lacks here would take and give back
 * what it needs elsewhere, and so wake others for nothing.
 */
void kbus_line_settle(struct kbus_queue *q, struct kbus_wakes *wakes)
{
	struct kbus_wait *wait;

	lockdep_assert_held(&q->lock);
	wait = kbus_line_first(q);
	if (wait && !wait->ready && kbus_line_may_go_on(q, wait))
		kbus_line_make_ready(q, wait, wakes);
	else if (wait && wait->ready)
		kbus_line_be_patient(q);
	q->changes++;
	kbus_line_settle_kept(q, wakes);
}

/* For a worker: look at more of the kept messages. Return how long it takes, in ns. */
u64 kbus_line_go_on(struct kbus_queue *q)
{
	struct kbus_wakes wakes __uninitialized;
	u64 began;

	kbus_wakes_init_late(&wakes);
	began = kbus_stopwatch_start();
	spin_lock(&q->lock);
	kbus_line_settle_kept(q, &wakes);
	spin_unlock(&q->lock);
	return kbus_stopwatch_stop(began);
}

/*
 * Whoever is first in line has been ready for too long: its task is throttled, say. It loses
 * its turn, and with it some others of the same user, so that these do not take as long one
 * after the other. They keep their age, and come first again if they have to wait once more.
 */
static void kbus_line_lose_turn(struct kbus_queue *q, struct kbus_wakes *wakes)
{
	struct kbus_user *user = kbus_wait_ksock(kbus_line_first(q))->user;
	struct rb_node *node, *next;
	u32 count = 0;

	lockdep_assert_held(&q->lock);
	for (node = rb_first_cached(&q->line); node && count++ < KBUS_STEP; node = next) {
		struct kbus_wait *wait = rb_entry(node, struct kbus_wait, in_line);

		next = rb_next(node);
		if (kbus_wait_ksock(wait)->user != user)
			continue;
		kbus_line_remove(q, wait);
		if (wait->ready)
			list_add_tail(&wait->node, &q->ready);
		else
			kbus_line_make_ready(q, wait, wakes);
	}
}

/* Whoever is first in line may have been ready for too long. */
void kbus_line_patience_ends(struct work_struct *work)
{
	struct kbus_queue *q = container_of(to_delayed_work(work), struct kbus_queue, patience);
	struct kbus_wakes wakes __uninitialized;
	struct kbus_wait *wait;

	kbus_wakes_init(&wakes);
	spin_lock(&q->lock);
	wait = kbus_line_first(q);
	if (wait && wait->ready) {
		if (time_before(jiffies, wait->ready_since + KBUS_PATIENCE))
			kbus_line_be_patient(q);
		else
			kbus_line_lose_turn(q, &wakes);
	}
	kbus_queue_unlock(q, &wakes);
	kbus_wakes_end(&wakes);
	kbus_ksock_put(kbus_line_ksock(q));
}

/* The queue's KSock closes; nobody waits for it any more. */
void kbus_line_end(struct kbus_queue *q)
{
	struct kbus_ksock *ks = kbus_line_ksock(q);

	WARN_ON_ONCE(q->line_needs.slots || q->line_needs.queue_bytes ||
		     q->line_needs.user_bytes);
	if (cancel_delayed_work_sync(&q->patience))
		kbus_ksock_put(ks);
	spin_lock(&ks->user->lock);
	list_del_init(&q->starving);
	spin_unlock(&ks->user->lock);
}
