// SPDX-License-Identifier: GPL-2.0
/*
 * Senders whose message waits for room (KBUS_BIT_ALL_OR_WAIT).
 *
 * A message that waits is in the line of one KSock that has no room for it.
 * Whoever makes room there wakes the first in the line, who tries again, and
 * either is done, or joins the line of another KSock, or stays: in the first
 * two cases he wakes the next one, if there is room for him.
 *
 * A sender that was told EAGAIN may never come back, so he holds up nobody:
 * everyone of those in front of the first task that sleeps is woken, and leaves
 * the line. He keeps his place only in that his kbus_wait.since stays.
 */
#include <linux/poll.h>
#include <linux/workqueue.h>

#include "kbus.h"

/* So many are woken, which may take a while, before a lock is given to others. */
#define KBUS_WAIT_BATCH	16

static struct kbus_ksock *kbus_wait_ksock(struct kbus_wait *wait)
{
	return container_of(wait, struct kbus_ksock, wait);
}

static void kbus_wait_wake(struct kbus_wait *wait)
{
	WRITE_ONCE(wait->ready, true);
	wake_up_interruptible_poll(&kbus_wait_ksock(wait)->wq, EPOLLOUT | EPOLLWRNORM);
}

/**
 * kbus_wait_until() - sleep until something is true of a KSock
 * @ks: the KSock; whoever makes it true wakes @ks->wq
 * @holds: tells whether it is
 * @until: the last moment, on CLOCK_MONOTONIC; KTIME_MAX is never
 *
 * Return: 0, -EAGAIN when it is too late, or -ERESTARTSYS.
 */
int kbus_wait_until(struct kbus_ksock *ks, bool (*holds)(struct kbus_ksock *ks),
		    ktime_t until)
{
	int err;

	if (until == KTIME_MAX)
		return wait_event_interruptible(ks->wq, holds(ks));
	/* A timer takes what is less than 0 for an overflow, and so for no end. */
	err = wait_event_interruptible_hrtimeout(ks->wq, holds(ks),
						 max_t(ktime_t, 0, ktime_sub(until, ktime_get())));
	return err == -ETIME ? -EAGAIN : err;
}

/* Whoever is in front of the first task that sleeps, and that task, may try. */
void kbus_wait_wake_next(struct kbus_queue *q)
{
	struct kbus_wait *wait, *next;

	lockdep_assert_held(&q->lock);
	if (!kbus_queue_room(q, 1, 1, false))
		return;
	list_for_each_entry_safe(wait, next, &q->waiting, node) {
		kbus_wait_wake(wait);
		if (wait->sleepers)
			return;
		list_move(&wait->node, &q->woken);
	}
}

/* Leave the line, if @ks is in one, and let the next one have a look. */
static void kbus_wait_leave(struct kbus_ksock *ks)
{
	struct kbus_ksock *on = ks->wait.on;

	lockdep_assert_held(&ks->dev->lock);
	if (!on)
		return;
	spin_lock(&on->q.lock);
	list_del_init(&ks->wait.node);
	kbus_wait_wake_next(&on->q);
	spin_unlock(&on->q.lock);
	ks->wait.on = NULL;
}

/* Is there a task in the line that began to wait before @ks? */
static bool kbus_wait_is_behind(struct kbus_ksock *ks, struct kbus_queue *q)
{
	struct kbus_wait *wait;

	list_for_each_entry(wait, &q->waiting, node) {
		if (ks->wait.since && wait->since >= ks->wait.since)
			return false;
		if (wait->sleepers)
			return true;
	}
	return false;
}

/* The message that @ks has written waits, from now on unless it does already. */
static void kbus_wait_begin(struct kbus_ksock *ks, bool is_request)
{
	struct kbus_dev *dev = ks->dev;

	lockdep_assert_held(&dev->lock);
	if (ks->wait.since)
		return;
	WRITE_ONCE(ks->wait.since, ++dev->last_wait);
	ks->wait.is_request = is_request;
	list_add_tail(&ks->wait.by_device, &dev->waits);
	dev->nr_waits++;
}

static bool kbus_wait_has_room(struct kbus_ksock *ks, struct kbus_ksock *on,
			       u32 copies, u32 len)
{
	struct kbus_user *user = on->user;

	if (kbus_wait_is_behind(ks, &on->q))
		return false;
	if (kbus_queue_room(&on->q, copies, len, false) == copies)
		return true;
	if (kbus_user_bytes_left(user) / kbus_msg_cost(len) >= copies)
		return false;
	/* Another KSock of the user may make the room, so that must be told. */
	WRITE_ONCE(user->starved, true);
	/* Pairs with kbus_user_uncharge(). */
	smp_mb();
	return kbus_queue_room(&on->q, copies, len, false) == copies;
}

/**
 * kbus_wait_try() - is there room for the message of a sender who would wait
 * @ks: the sender
 * @on: the recipient
 * @msg: the message
 * @copies: how many copies of the message he is to get
 * @sleep: the sender is about to sleep in SEND
 *
 * If there is none, or another has been waiting for it longer, the sender is
 * put in the line for it in the same step, so that he cannot miss its coming.
 *
 * Return: whether there is room.
 */
bool kbus_wait_try(struct kbus_ksock *ks, struct kbus_ksock *on,
		   const struct kbus_msg *msg, u32 copies, bool sleep)
{
	struct kbus_wait *wait = &ks->wait, *other;
	struct list_head *before;
	bool has_room;

	lockdep_assert_held(&ks->dev->lock);
	spin_lock(&on->q.lock);
	has_room = kbus_wait_has_room(ks, on, copies, msg->len);
	spin_unlock(&on->q.lock);
	if (has_room)
		return true;

	kbus_wait_begin(ks, kbus_msg_is_request(kbus_msg_header(msg)));
	if (wait->on != on)
		kbus_wait_leave(ks);

	spin_lock(&on->q.lock);
	/* Two queues' locks are never held at once; so look again. */
	has_room = kbus_wait_has_room(ks, on, copies, msg->len);
	if (!has_room) {
		wait->on = on;
		list_del_init(&wait->node);
		before = &on->q.waiting;
		list_for_each_entry_reverse(other, &on->q.waiting, node) {
			if (other->since < wait->since)
				break;
			before = &other->node;
		}
		list_add_tail(&wait->node, before);
		WRITE_ONCE(wait->ready, false);
		if (sleep)
			wait->sleepers++;
	}
	spin_unlock(&on->q.lock);
	return has_room;
}

/* A task that slept in SEND is awake again, to try once more or to give up. */
void kbus_wait_woke(struct kbus_ksock *ks)
{
	struct kbus_ksock *on = ks->wait.on;

	lockdep_assert_held(&ks->dev->lock);
	if (!on) {
		ks->wait.sleepers--;
		return;
	}
	spin_lock(&on->q.lock);
	ks->wait.sleepers--;
	spin_unlock(&on->q.lock);
}

/* The message of @ks is kept, but unless a task sleeps for it, it holds up nobody. */
void kbus_wait_move_on(struct kbus_ksock *ks)
{
	struct kbus_ksock *on = ks->wait.on;

	lockdep_assert_held(&ks->dev->lock);
	if (!on)
		return;
	spin_lock(&on->q.lock);
	if (!ks->wait.sleepers && ks->wait.ready) {
		list_move(&ks->wait.node, &on->q.woken);
		kbus_wait_wake_next(&on->q);
	}
	spin_unlock(&on->q.lock);
}

/* The message of @ks has been sent, refused or dropped. */
void kbus_wait_end(struct kbus_ksock *ks)
{
	lockdep_assert_held(&ks->dev->lock);
	if (!ks->wait.since)
		return;
	kbus_wait_leave(ks);
	WRITE_ONCE(ks->wait.since, 0);
	list_del_init(&ks->wait.by_device);
	ks->dev->nr_waits--;
	kbus_wait_wake(&ks->wait);
}

/* Has @ks a message that waits, of a name that a binding to @bound brings? */
static bool kbus_wait_is_for(struct kbus_ksock *ks, const char *bound, size_t len)
{
	lockdep_assert_held(&ks->dev->lock);
	return kbus_name_matches(bound, len, kbus_msg_name(ks->out),
				 kbus_msg_header(ks->out)->name_len);
}

/*
 * Wake those on the device who wait for @on, who may be anybody, with messages of
 * the names that @bound has, which may be all, and Requests if only these matter.
 */
static void kbus_wait_wake_some(struct kbus_dev *dev, const struct kbus_ksock *on,
				const char *bound, size_t len, bool only_requests)
{
	struct kbus_wait *wait;
	unsigned int count;
	u64 last = 0;

	do {
		count = 0;
		mutex_lock(&dev->lock);
		list_for_each_entry(wait, &dev->waits, by_device) {
			if (wait->since <= last || (only_requests && !wait->is_request) ||
			    (on && wait->on != on) ||
			    (bound && !kbus_wait_is_for(kbus_wait_ksock(wait), bound, len)))
				continue;
			if (count++ == KBUS_WAIT_BATCH)
				break;
			last = wait->since;
			kbus_wait_wake(wait);
		}
		mutex_unlock(&dev->lock);
		cond_resched();
	} while (count > KBUS_WAIT_BATCH);
}

/*
 * A binding of @on has gone, so its room may not matter to those who wait for it.
 * Whoever joins the line from here on knows.
 */
void kbus_wait_wake_unbound(struct kbus_ksock *on, const char *bound, size_t len)
{
	kbus_wait_wake_some(on->dev, on, bound, len, false);
}

/*
 * Repliers have changed, that to @bound or several, so a Request may have another, or
 * none, to wait for.
 */
void kbus_wait_wake_requests(struct kbus_dev *dev, const char *bound, size_t len)
{
	kbus_wait_wake_some(dev, NULL, bound, len, true);
}

/* Something has changed for all who wait on the device, or may have. */
void kbus_wait_wake_device(struct kbus_dev *dev)
{
	kbus_wait_wake_some(dev, NULL, NULL, 0, false);
}

/* @on closes; whoever waits for it need not, and nobody begins to. */
void kbus_wait_on_gone(struct kbus_ksock *on)
{
	struct kbus_wait *wait;
	unsigned int count;

	do {
		mutex_lock(&on->dev->lock);
		spin_lock(&on->q.lock);
		list_splice_init(&on->q.woken, &on->q.waiting);
		for (count = 0; count < KBUS_WAIT_BATCH; count++) {
			wait = list_first_entry_or_null(&on->q.waiting, struct kbus_wait,
							node);
			if (!wait)
				break;
			list_del_init(&wait->node);
			wait->on = NULL;
			kbus_wait_wake(wait);
		}
		spin_unlock(&on->q.lock);
		mutex_unlock(&on->dev->lock);
		cond_resched();
	} while (count == KBUS_WAIT_BATCH);
}

static void kbus_wait_work_fn(struct work_struct *work)
{
	kbus_devs_wake_waits();
}

static DECLARE_WORK(kbus_wait_work, kbus_wait_work_fn);

/* Have all wake who wait on any device; for those who cannot sleep. */
void kbus_wait_kick(void)
{
	schedule_work(&kbus_wait_work);
}

void kbus_wait_exit(void)
{
	cancel_work_sync(&kbus_wait_work);
}
