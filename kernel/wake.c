// SPDX-License-Identifier: GPL-2.0
/*
 * Waking those who sleep or poll at a KSock.
 *
 * Whoever has changed something collects the KSocks to wake in a struct
 * kbus_wakes while it holds locks, and wakes them when it has dropped the last
 * one. What that costs is bounded: the first waiters of a KSock, a few, are on
 * its own wait queue, and further ones, of which an epoll can have hundreds of
 * thousands, in its crowd. A worker wakes these, some at a time, so that they
 * delay nobody but others of the same user. It also wakes the few, for a while, if
 * that has taken others too long: each may be an epoll with many waiters of its own.
 */
#include <linux/hrtimer.h>
#include <linux/jhash.h>
#include <linux/poll.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "kbus.h"

/* So many waiters of one KSock are woken by whoever has something for it. */
#define KBUS_FIRST_WAITERS	3
/* So many of its crowd are woken in one step. */
#define KBUS_CROWD_WAITERS	64
/* So long may waking a KSock of a user's take others on average, in ns, */
#define KBUS_USUAL_WAKE		(50 * NSEC_PER_USEC)
/*
 * and so much more than that at times: an interrupt may have come, or the machine itself
 * have been stopped, at the wrong time.
 */
#define KBUS_SLOW_BURST		(50 * NSEC_PER_MSEC)
/* So one that takes long counts for no more than this: it takes several to be too much. */
#define KBUS_SLOW_ONE		(10 * NSEC_PER_MSEC)
/* What is more is one part in so many of others' time: a worker does it for the rest of that, */
#define KBUS_SLOW_PARTS		100
/* but for so long at most, in ns. */
#define KBUS_SLOW_MAX		(10ULL * NSEC_PER_SEC)
/* In so many parts of a crowd somebody is looked for. */
#define KBUS_CROWD_PARTS	4

struct workqueue_struct *kbus_workqueue;
static u32 kbus_wakers_seed __ro_after_init;

int kbus_wake_init(void)
{
	kbus_wakers_seed = get_random_u32();
	/* As many as there may be: most of them rest. */
	kbus_workqueue = alloc_workqueue("kbus", WQ_UNBOUND, WQ_MAX_ACTIVE);
	return kbus_workqueue ? 0 : -ENOMEM;
}

void kbus_wake_exit(void)
{
	destroy_workqueue(kbus_workqueue);
}

/* Wake the KSock from a worker; for those who hold locks, too. */
void kbus_wake_later(struct kbus_ksock *ks, __poll_t events)
{
	struct kbus_user *user = ks->user;

	atomic_or((__force int)events, &ks->late_events);
	spin_lock(&user->lock);
	if (list_empty(&ks->late) && !ks->is_gone) {
		kbus_ksock_get(ks);
		list_add_tail(&ks->late, &user->late);
	}
	spin_unlock(&user->lock);
	kbus_user_work_in(user, &user->wake, 0);
}

/*
 * The KSock closes, and nobody waits at it any more. It does not stay until the worker comes to
 * it: its user could have that take as long as it likes.
 */
void kbus_wake_never(struct kbus_ksock *ks)
{
	struct kbus_user *user = ks->user;
	bool was_late;

	spin_lock(&user->lock);
	ks->is_gone = true;
	was_late = !list_empty(&ks->late);
	list_del_init(&ks->late);
	spin_unlock(&user->lock);
	if (was_late)
		kbus_ksock_put(ks);
}

/* Waking a KSock of a user's has taken somebody else so long; @slow is what it took before. */
static void kbus_user_took(struct kbus_user *user, struct kbus_slow *slow, u64 took)
{
	u64 over = READ_ONCE(slow->over) + min_t(u64, took, KBUS_SLOW_ONE);

	/* Others may do the same meanwhile. Whatever they forget, they cannot go on forgetting. */
	over -= min_t(u64, over, KBUS_USUAL_WAKE);
	if (over > KBUS_SLOW_BURST) {
		/* Those that have counted for less than they took may have been as long as this. */
		took = max_t(u64, over, KBUS_SLOW_BURST / KBUS_SLOW_ONE * took);
		took = min(KBUS_SLOW_PARTS * took, KBUS_SLOW_MAX);
		WRITE_ONCE(slow->until, ktime_get_mono_fast_ns() + took);
		WRITE_ONCE(user->slow_until, ktime_get_mono_fast_ns() + KBUS_SLOW_MAX);
		over = 0;
	}
	WRITE_ONCE(slow->over, over);
}

/* Is whoever wakes one of the user's KSocks of that user, too? What it takes is nobody else's. */
static bool kbus_user_is_current(const struct kbus_user *user)
{
	return uid_eq(user->uid, kbus_user_of_current());
}

/*
 * What waking the user's KSocks has taken this task's user. Each has an account of its own, or
 * one that nobody knows with whom it is shared: what is quick for one is no credit with others.
 */
static struct kbus_slow *kbus_user_slow(struct kbus_user *user)
{
	return &user->slow[jhash_1word(__kuid_val(kbus_user_of_current()), kbus_wakers_seed) %
			   KBUS_WAKERS];
}

/* Is what wakes the user's KSocks left to a worker, if this task's user does it? */
static bool kbus_user_is_slow(struct kbus_user *user)
{
	u64 now, until = READ_ONCE(user->slow_until);

	if (likely(!until))
		return false;
	now = ktime_get_mono_fast_ns();
	return now < until && now < READ_ONCE(kbus_user_slow(user)->until);
}

/* Wake some waiters, and find out how long that takes, in ns. */
static u64 kbus_wake_part(wait_queue_head_t *wq, __poll_t events)
{
	u64 began = kbus_stopwatch_start();

	wake_up_interruptible_poll(wq, events);
	return kbus_stopwatch_stop(began);
}

/*
 * The lock of a wait queue is held for as long as it takes to wake those who poll, so nobody
 * else is to spin for it. Return whether nobody has it; then kbus_waking_end() follows, and
 * until then nothing takes the processor from this task. On PREEMPT_RT whoever wants the
 * lock sleeps.
 */
static bool kbus_waking_begin(struct kbus_ksock *ks)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return true;
	preempt_disable();
	if (!atomic_xchg_acquire(&ks->is_waking, 1))
		return true;
	preempt_enable();
	return false;
}

static void kbus_waking_end(struct kbus_ksock *ks)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return;
	atomic_set_release(&ks->is_waking, 0);
	preempt_enable();
}

/* Wake others' first waiters, and count what it takes. */
static void kbus_wake_others(struct kbus_ksock *ks, __poll_t events)
{
	struct kbus_slow *slow = kbus_user_slow(ks->user);
	u64 took = kbus_wake_part(&ks->wq, events);

	if (unlikely(took > KBUS_USUAL_WAKE || READ_ONCE(slow->over)))
		kbus_user_took(ks->user, slow, took);
}

/* Wake the first waiters of a KSock. Only what polls may be more than a task each. */
static void kbus_wake_few(struct kbus_ksock *ks, __poll_t events)
{
	if (likely(!READ_ONCE(ks->is_polled))) {
		wake_up_interruptible_poll(&ks->wq, events);
		return;
	}
	if (!kbus_waking_begin(ks)) {
		kbus_wake_later(ks, events);
		return;
	}
	if (kbus_user_is_current(ks->user))
		wake_up_interruptible_poll(&ks->wq, events);
	else
		kbus_wake_others(ks, events);
	kbus_waking_end(ks);
}

/* Is somebody in the crowd of a KSock, or are there so many parts that this takes long? */
static bool kbus_crowd_waits(struct kbus_ksock *ks)
{
	struct kbus_crowd *crowd;
	unsigned int count = 0;

	/* Pairs with kbus_crowd_more(). */
	for (crowd = smp_load_acquire(&ks->crowd); crowd; crowd = READ_ONCE(crowd->next)) {
		if (count++ == KBUS_CROWD_PARTS)
			return true;
		/* After the barrier of kbus_wakes_add() */
		if (waitqueue_active(&crowd->wq))
			return true;
	}
	return false;
}

/* Wake who waits at a KSock. No lock is held that others need. */
static void kbus_wake(struct kbus_ksock *ks, __poll_t events)
{
	if (unlikely(kbus_crowd_waits(ks)) ||
	    (kbus_user_is_slow(ks->user) && !kbus_user_is_current(ks->user)))
		kbus_wake_later(ks, events);
	else
		kbus_wake_few(ks, events);
}

static void kbus_wake_all(struct kbus_ksock *ks, __poll_t events)
{
	struct kbus_worker *worker = &ks->user->wake;
	struct kbus_crowd *crowd;
	u64 took;

	/* Whoever wakes them at the moment may have begun before there was something new. */
	while (!kbus_waking_begin(ks))
		schedule_timeout_idle(1);
	took = kbus_wake_part(&ks->wq, events);
	kbus_waking_end(ks);
	kbus_worker_rest(worker, took);
	/* Pairs with kbus_crowd_more(). */
	for (crowd = smp_load_acquire(&ks->crowd); crowd; crowd = READ_ONCE(crowd->next))
		kbus_worker_rest(worker, kbus_wake_part(&crowd->wq, events));
}

/* Wake those of the user's that were left to the worker. */
void kbus_wake_late(struct work_struct *work)
{
	struct kbus_user *user = container_of(work, struct kbus_user, wake.work.work);
	struct kbus_ksock *ks;
	__poll_t events;

	spin_lock(&user->lock);
	while ((ks = list_first_entry_or_null(&user->late, struct kbus_ksock, late))) {
		list_del_init(&ks->late);
		spin_unlock(&user->lock);
		events = (__force __poll_t)atomic_xchg(&ks->late_events, 0);
		if (events)
			kbus_wake_all(ks, events);
		kbus_ksock_put(ks);
		spin_lock(&user->lock);
	}
	spin_unlock(&user->lock);
	kbus_user_put(user);
}

/* Make room for @count more, or for as many as there is memory for. No lock is held. */
void kbus_wakes_reserve(struct kbus_wakes *wakes, u32 count)
{
	struct kbus_wake *list;

	kbus_wakes_flush(wakes);
	if (count <= wakes->room)
		return;
	list = kvmalloc_array(count, sizeof(*list), KBUS_GFP);
	if (!list) {
		wakes->is_exhausted = true;
		return;
	}
	if (wakes->list != wakes->few)
		kvfree(wakes->list);
	wakes->list = list;
	wakes->room = count;
}

/* See kbus_wakes_add(); somebody waits there. */
void kbus_wakes_add_waited(struct kbus_wakes *wakes, struct kbus_ksock *ks, __poll_t events)
{
	u32 i;

	if (events & EPOLLOUT)
		wakes->has_senders = true;
	for (i = 0; i < min_t(u32, wakes->count, KBUS_WAKES); i++) {
		if (wakes->list[i].ks == ks) {
			wakes->list[i].events |= events;
			return;
		}
	}
	if (wakes->count == wakes->room) {
		kbus_wake_later(ks, events);
		return;
	}
	kbus_ksock_get(ks);
	wakes->list[wakes->count++] = (struct kbus_wake) { .ks = ks, .events = events };
}

/* Those who may send come first, those of the task's own user last. */
enum kbus_turn { KBUS_TURN_SENDERS, KBUS_TURN_OTHERS, KBUS_TURN_OWN, KBUS_TURNS };

static bool kbus_wake_has_turn(const struct kbus_wake *wake, enum kbus_turn turn)
{
	if (turn == KBUS_TURN_SENDERS && !(wake->events & EPOLLOUT))
		return false;
	return turn == KBUS_TURN_OWN || !kbus_user_is_current(wake->ks->user);
}

/*
 * Wake all of them; no lock is held. What others wait for does not wait for what the task's
 * own user has made slow, nor do those who may send wait for this task to be scheduled.
 */
void kbus_wakes_wake(struct kbus_wakes *wakes)
{
	u32 turn, i;

	for (turn = wakes->count > 1 ? 0 : KBUS_TURN_OWN; turn < KBUS_TURNS; turn++) {
		for (i = 0; i < wakes->count; i++) {
			struct kbus_wake *wake = &wakes->list[i];

			if (!wake->ks || !kbus_wake_has_turn(wake, turn))
				continue;
			kbus_wake(wake->ks, wake->events);
			kbus_ksock_put(wake->ks);
			wake->ks = NULL;
			if (turn != KBUS_TURN_SENDERS)
				cond_resched();
		}
	}
	wakes->count = 0;
	wakes->has_senders = false;
}

/* Are there fewer who wait than @most? The queue's lock is held. */
static bool kbus_waiters_are_few(wait_queue_head_t *wq, unsigned int most)
{
	wait_queue_entry_t *entry;
	unsigned int count = 0;

	lockdep_assert_held(&wq->lock);
	list_for_each_entry(entry, &wq->head, entry) {
		if (++count >= most)
			return false;
	}
	return true;
}

static bool kbus_waiters_have_place(wait_queue_head_t *wq, unsigned int most)
{
	bool has_place;

	spin_lock_irq(&wq->lock);
	has_place = kbus_waiters_are_few(wq, most);
	spin_unlock_irq(&wq->lock);
	return has_place;
}

static bool kbus_crowd_has_place(struct kbus_crowd *crowd)
{
	return kbus_waiters_have_place(&crowd->wq, KBUS_CROWD_WAITERS);
}

/* A part of a crowd, which counts for the user; NULL if there can be none. */
static struct kbus_crowd *kbus_crowd_new(struct kbus_user *user)
{
	struct kbus_crowd *crowd;

	if (!kbus_user_charge(user, sizeof(*crowd)))
		return NULL;
	crowd = kzalloc(sizeof(*crowd), KBUS_GFP);
	if (!crowd)
		kbus_user_uncharge(user, sizeof(*crowd));
	return crowd;
}

/* One more part of the crowd, the first of which is there; or the last one gets larger. */
static struct kbus_crowd *kbus_crowd_more(struct kbus_ksock *ks)
{
	struct kbus_crowd *crowd = ks->crowd ? kbus_crowd_new(ks->user) : &ks->crowd_first;

	if (!crowd)
		return ks->crowd_last;
	init_waitqueue_head(&crowd->wq);
	crowd->next = ks->crowd;
	/* The worker that sees it sees all of it. */
	smp_store_release(&ks->crowd, crowd);
	return crowd;
}

/* Where one more has a place in a KSock's crowd */
static wait_queue_head_t *kbus_crowd_queue(struct kbus_ksock *ks)
{
	struct kbus_crowd *crowd;
	unsigned int count;

	lockdep_assert_held(&ks->crowd_lock);
	/* Those who went may have left places: look at a few parts, others each time. */
	crowd = ks->crowd_last;
	for (count = 0; crowd && count < KBUS_CROWD_PARTS; count++) {
		if (kbus_crowd_has_place(crowd))
			break;
		crowd = crowd->next ?: ks->crowd;
	}
	if (!crowd || !kbus_crowd_has_place(crowd))
		crowd = kbus_crowd_more(ks);
	ks->crowd_last = crowd;
	return &crowd->wq;
}

void kbus_crowd_free(struct kbus_ksock *ks)
{
	while (ks->crowd && ks->crowd != &ks->crowd_first) {
		struct kbus_crowd *crowd = ks->crowd;

		ks->crowd = crowd->next;
		kfree(crowd);
		kbus_user_uncharge(ks->user, sizeof(*crowd));
		cond_resched();
	}
}

void kbus_poll_wait(struct file *file, struct kbus_ksock *ks, poll_table *table)
{
	if (poll_does_not_wait(table))
		return;
	WRITE_ONCE(ks->is_polled, true);
	mutex_lock(&ks->crowd_lock);
	if (likely(kbus_waiters_have_place(&ks->wq, KBUS_FIRST_WAITERS)))
		poll_wait(file, &ks->wq, table);
	else
		poll_wait(file, kbus_crowd_queue(ks), table);
	mutex_unlock(&ks->crowd_lock);
	/* Pairs with kbus_wakes_add(): what has not been told will be seen. */
	smp_mb();
}

/* Let a task that is about to sleep be woken. Return where it waits. */
static wait_queue_head_t *kbus_wait_queue_add(struct kbus_ksock *ks, wait_queue_entry_t *waiter)
{
	wait_queue_head_t *wq = &ks->wq;
	bool is_first;

	spin_lock_irq(&wq->lock);
	is_first = kbus_waiters_are_few(wq, KBUS_FIRST_WAITERS);
	if (likely(is_first))
		__add_wait_queue(wq, waiter);
	spin_unlock_irq(&wq->lock);
	if (likely(is_first))
		return wq;
	mutex_lock(&ks->crowd_lock);
	wq = kbus_crowd_queue(ks);
	add_wait_queue(wq, waiter);
	mutex_unlock(&ks->crowd_lock);
	return wq;
}

/**
 * kbus_sleep_until() - sleep until something is true of a KSock
 * @ks: the KSock; whoever makes it true wakes it
 * @holds: tells whether it is, and gets @arg
 * @arg: what @holds knows what to do with
 * @until: the last moment, on CLOCK_MONOTONIC; KTIME_MAX is never
 *
 * Return: 0, -EAGAIN when it is too late, or -ERESTARTSYS.
 */
int kbus_sleep_until(struct kbus_ksock *ks, bool (*holds)(struct kbus_ksock *ks, u64 arg),
		     u64 arg, ktime_t until)
{
	DECLARE_WAITQUEUE(waiter, current);
	wait_queue_head_t *wq;
	bool late = false;
	int err;

	wq = kbus_wait_queue_add(ks, &waiter);
	for (;;) {
		/* Pairs with kbus_wakes_add(): one of the two sees what the other did. */
		set_current_state(TASK_INTERRUPTIBLE);
		err = 0;
		if (holds(ks, arg))
			break;
		err = -EAGAIN;
		if (late)
			break;
		err = -ERESTARTSYS;
		if (signal_pending(current))
			break;
		late = !schedule_hrtimeout(until == KTIME_MAX ? NULL : &until, HRTIMER_MODE_ABS);
	}
	__set_current_state(TASK_RUNNING);
	remove_wait_queue(wq, &waiter);
	return err;
}
