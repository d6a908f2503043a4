// SPDX-License-Identifier: GPL-2.0
/*
 * Waking those who sleep or poll at a KSock, which stays until that is done.
 *
 * Whoever has changed something collects the KSocks to wake in a struct
 * kbus_wakes while it holds locks, and wakes them when it has dropped the last
 * one. The list goes through the KSocks themselves, as a wake_q goes through
 * tasks. A KSock that is in somebody's list already is woken by that one, after
 * the change too.
 */
#include <linux/hrtimer.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>

#include "kbus.h"

static void kbus_ksock_free(struct kbus_ksock *ks)
{
	kbus_msg_put(ks->lost_msg);
	put_pid(ks->pid);
	kbus_user_uncharge(ks->user, kbus_memory_cost(sizeof(*ks)));
	kbus_user_put(ks->user);
	kfree(ks);
}

/* The last reference may go under the device's lock. */
void kbus_ksock_put(struct kbus_ksock *ks)
{
	if (refcount_dec_and_test(&ks->refs))
		kbus_ksock_free(ks);
}

/* See kbus_wakes_add(); somebody waits there. */
void kbus_wakes_add_waited(struct kbus_wakes *wakes, struct kbus_ksock *ks, __poll_t events)
{
	atomic_or((__force int)events, &ks->wake_events);
	/* Pairs with kbus_wakes_flush(): either that sees the events, or this sees no list. */
	smp_mb__after_atomic();
	if (cmpxchg(&ks->wake_next, NULL, wakes->first))
		return;
	refcount_inc(&ks->refs);
	wakes->first = ks;
}

/* Wake all of them; no lock is held that others need. */
void kbus_wakes_flush(struct kbus_wakes *wakes)
{
	while (wakes->first != KBUS_WAKES_END) {
		struct kbus_ksock *ks = wakes->first;
		int events;

		wakes->first = READ_ONCE(ks->wake_next);
		WRITE_ONCE(ks->wake_next, NULL);
		/* Pairs with kbus_wakes_add_waited(). */
		smp_mb();
		events = atomic_xchg(&ks->wake_events, 0);
		if (events)
			wake_up_interruptible_poll(&ks->wq, (__force __poll_t)events);
		kbus_ksock_put(ks);
		cond_resched();
	}
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
	bool late = false;
	int err;

	add_wait_queue(&ks->wq, &waiter);
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
	remove_wait_queue(&ks->wq, &waiter);
	return err;
}
