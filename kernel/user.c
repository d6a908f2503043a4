// SPDX-License-Identifier: GPL-2.0
/*
 * What one user has, counted over all devices, so that one user cannot use up
 * what the others need.
 *
 * A queue whose line waits for bytes of its user is in a list of that user's,
 * as any KSock of the user's, on any device, may make them free. A worker looks at
 * these, another one wakes those waiters of the user's that take long to wake. Two more tell those
 * who may send to the user's KSocks, if they are many, and look whether they do. It is
 * nobody's own time, so each user has but a part of a processor's for each of them.
 */
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "kbus.h"

static DEFINE_SPINLOCK(kbus_users_lock);
static DEFINE_HASHTABLE(kbus_users, 10);
/* Those without a KSock that are remembered, each with a reference; kbus_users_lock */
static LIST_HEAD(kbus_former_users);

/*
 * In jiffies, as long as the longest of its accounts is kept: whoever closes its last KSock is
 * remembered for so long, or up to twice that. Else it could forget what it has cost others.
 */
#define KBUS_USER_REMEMBERED	(60 * HZ)

/* One part in so many of a processor's time is for each worker of a user, */
#define KBUS_USER_SHARE		5
/* but so much at a time, in ns. */
#define KBUS_USER_BURST		NSEC_PER_MSEC

static void kbus_user_feed(struct work_struct *work);
static void kbus_user_nudge(struct work_struct *work);
static void kbus_user_settle(struct work_struct *work);
static void kbus_users_forget(struct work_struct *work);

static DECLARE_DEFERRABLE_WORK(kbus_forgetting, kbus_users_forget);

/*
 * The user that the current task's quotas count for, one of the initial user namespace.
 * In a child namespace that is who owns the outermost one, whatever users it has,
 * or each user could have many.
 */
kuid_t kbus_user_of_current(void)
{
	const struct user_namespace *ns = current_user_ns();
	kuid_t uid = current_uid();

	for (; ns->parent; ns = ns->parent)
		uid = ns->owner;
	return uid;
}

/* Look a user up, with a reference, which is @spare if it was not there. */
static struct kbus_user *kbus_user_find(kuid_t uid, struct kbus_user *spare)
{
	struct kbus_user *user;

	lockdep_assert_held(&kbus_users_lock);
	hash_for_each_possible(kbus_users, user, node, __kuid_val(uid)) {
		if (uid_eq(user->uid, uid)) {
			/* The last reference goes under the lock, too. */
			refcount_inc(&user->refs);
			return user;
		}
	}
	hash_add(kbus_users, &spare->node, __kuid_val(uid));
	return spare;
}

struct kbus_user *kbus_user_get(kuid_t uid)
{
	struct kbus_user *spare, *user;

	spare = kzalloc(sizeof(*spare), KBUS_GFP);
	if (!spare)
		return NULL;
	spare->uid = uid;
	refcount_set(&spare->refs, 1);
	spin_lock_init(&spare->lock);
	INIT_LIST_HEAD(&spare->former);
	INIT_LIST_HEAD(&spare->starving);
	INIT_LIST_HEAD(&spare->late);
	INIT_LIST_HEAD(&spare->patient);
	INIT_LIST_HEAD(&spare->unsettled);
	INIT_DELAYED_WORK(&spare->feed.work, kbus_user_feed);
	INIT_DELAYED_WORK(&spare->wake.work, kbus_wake_late);
	INIT_DELAYED_WORK(&spare->nudge.work, kbus_user_nudge);
	INIT_DELAYED_WORK(&spare->settle.work, kbus_user_settle);

	spin_lock(&kbus_users_lock);
	user = kbus_user_find(uid, spare);
	spin_unlock(&kbus_users_lock);
	if (user != spare)
		kfree(spare);
	return user;
}

struct kbus_user *kbus_user_ref(struct kbus_user *user)
{
	refcount_inc(&user->refs);
	return user;
}

void kbus_user_put(struct kbus_user *user)
{
	if (!user || !refcount_dec_and_lock(&user->refs, &kbus_users_lock))
		return;
	__acquire(&kbus_users_lock);	/* Sparse does not know that it is. */
	hash_del(&user->node);
	spin_unlock(&kbus_users_lock);
	WARN_ON_ONCE(atomic_read(&user->ksocks) || atomic_read(&user->bindings) ||
		     atomic_long_read(&user->bytes) || atomic_read(&user->held) ||
		     atomic_read(&user->snapshots) ||
		     atomic_long_read(&user->snapshot_bytes));
	kfree(user);
}

/* The user has a KSock less. */
void kbus_user_has_closed(struct kbus_user *user)
{
	if (!atomic_dec_and_test(&user->ksocks))
		return;
	spin_lock(&kbus_users_lock);
	if (list_empty(&user->former))
		kbus_user_ref(user);
	list_move_tail(&user->former, &kbus_former_users);
	user->forget_at = jiffies + KBUS_USER_REMEMBERED;
	spin_unlock(&kbus_users_lock);
	schedule_delayed_work(&kbus_forgetting, KBUS_USER_REMEMBERED);
}

/* Forget those whose time comes before @now, unless they have a KSock again. */
static void kbus_users_forget_until(unsigned long now)
{
	struct kbus_user *user;

	spin_lock(&kbus_users_lock);
	while ((user = list_first_entry_or_null(&kbus_former_users, struct kbus_user, former)) &&
	       time_before_eq(user->forget_at, now)) {
		list_del_init(&user->former);
		spin_unlock(&kbus_users_lock);
		kbus_user_put(user);
		cond_resched();
		spin_lock(&kbus_users_lock);
	}
	spin_unlock(&kbus_users_lock);
}

static void kbus_users_forget(struct work_struct *work)
{
	kbus_users_forget_until(jiffies);
	/* Whoever comes later sees to it itself. */
	if (!list_empty(&kbus_former_users))
		schedule_delayed_work(&kbus_forgetting, KBUS_USER_REMEMBERED);
}

/* Nobody has a KSock any more, nor can get one. */
void kbus_users_exit(void)
{
	cancel_delayed_work_sync(&kbus_forgetting);
	kbus_users_forget_until(jiffies + KBUS_USER_REMEMBERED);
}

/* One more of something, unless there are @limit already. */
bool kbus_user_count(atomic_t *counter, unsigned int limit)
{
	int count = atomic_read(counter);

	do {
		if (count >= limit)
			return false;
	} while (!atomic_try_cmpxchg(counter, &count, count + 1));
	return true;
}

/* For the worker, which has worked for @took ns: sleep, if that is too long. */
void kbus_worker_rest(struct kbus_worker *worker, u64 took)
{
	u64 now = ktime_get_ns();

	/* The machine itself may have been stopped for a while. */
	took = min_t(u64, took, NSEC_PER_SEC);
	worker->rests_until = max(worker->rests_until, now) + KBUS_USER_SHARE * took;
	if (worker->rests_until > now + KBUS_USER_SHARE * KBUS_USER_BURST)
		schedule_timeout_idle(nsecs_to_jiffies(worker->rests_until - now) + 1);
	else
		cond_resched();
}

/**
 * kbus_user_rests_until() - have nobody reclaim memory for a user for some time
 * @user: the user
 * @until: this time, in ns, or a later one that was said before
 */
void kbus_user_rests_until(struct kbus_user *user, u64 until)
{
	/* Whoever may write reclaims quickly where others have tried in vain for long. */
	spin_lock(&user->lock);
	WRITE_ONCE(user->tired_until, max(user->tired_until, until));
	spin_unlock(&user->lock);
}

/*
 * Its user may have bytes: let those go on who wait for a KSock, and tell it what it has
 * missed. Return how long it takes, in ns.
 */
static u64 kbus_user_feed_ksock(struct kbus_ksock *ks)
{
	const bool reports = kbus_ksock_can_report(ks);
	struct kbus_wakes wakes __uninitialized;
	u64 began;

	kbus_wakes_init_late(&wakes);
	began = kbus_stopwatch_start();
	spin_lock(&ks->q.lock);
	/* Puts it back if it still lacks bytes; so does the report. */
	kbus_queue_unlock(&ks->q, &wakes);
	if (reports) {
		spin_lock(&ks->dev->lock);
		kbus_send_report_lost(ks, &wakes);
		spin_unlock(&ks->dev->lock);
	}
	return kbus_stopwatch_stop(began);
}

/*
 * For a worker: do something for the queues in a list of the user's, which have @node there.
 * What it does returns how long that takes, in ns.
 */
static void kbus_user_work(struct kbus_user *user, struct kbus_worker *worker,
			   struct list_head *queues, size_t node,
			   u64 (*work)(struct kbus_ksock *ks))
{
	struct kbus_ksock *ks;
	LIST_HEAD(found);

	spin_lock(&user->lock);
	list_splice_init(queues, &found);
	while (!list_empty(&found)) {
		ks = container_of((void *)found.next - node, struct kbus_ksock, q);
		list_del_init(found.next);
		kbus_ksock_get(ks);
		spin_unlock(&user->lock);
		kbus_worker_rest(worker, work(ks));
		kbus_ksock_put(ks);
		spin_lock(&user->lock);
	}
	spin_unlock(&user->lock);
	kbus_user_put(user);
}

/* Bytes became free: whoever waits for room at a queue of this user's may go on. */
static void kbus_user_feed(struct work_struct *work)
{
	struct kbus_user *user = container_of(work, struct kbus_user, feed.work.work);

	kbus_user_work(user, &user->feed, &user->starving,
		       offsetof(struct kbus_queue, starving), kbus_user_feed_ksock);
}

static u64 kbus_user_nudge_ksock(struct kbus_ksock *ks)
{
	/* It is never that long, but the machine itself may have been stopped. */
	return min_t(u64, kbus_line_nudge(&ks->q), KBUS_USER_BURST);
}

/* Some time ago there were some who might go on: see whether they have. */
static void kbus_user_nudge(struct work_struct *work)
{
	struct kbus_user *user = container_of(work, struct kbus_user, nudge.work.work);

	kbus_user_work(user, &user->nudge, &user->patient,
		       offsetof(struct kbus_queue, patient), kbus_user_nudge_ksock);
}

static u64 kbus_user_settle_ksock(struct kbus_ksock *ks)
{
	return kbus_line_go_on(&ks->q);
}

/* There are more of those who wait than whoever changed something has looked at. */
static void kbus_user_settle(struct work_struct *work)
{
	struct kbus_user *user = container_of(work, struct kbus_user, settle.work.work);

	kbus_user_work(user, &user->settle, &user->unsettled,
		       offsetof(struct kbus_queue, unsettled), kbus_user_settle_ksock);
}

/* Check before adding: a brief overshoot would look like a full quota to others. */
bool kbus_user_charge(struct kbus_user *user, size_t bytes)
{
	unsigned long limit = READ_ONCE(kbus_max_user_bytes);
	long used = atomic_long_read(&user->bytes);

	do {
		if (used + bytes > limit)
			return false;
	} while (!atomic_long_try_cmpxchg(&user->bytes, &used, used + bytes));
	return true;
}

/**
 * kbus_user_charge_copies() - charge a reader for copies that are queued
 * @user: the reader's
 * @bytes: what they take
 * @copies: how many they are
 *
 * A single one is let in whatever it takes, if no KSock of the user's holds any, so
 * that no message is too long to be delivered.
 *
 * Return: whether the limit allows it.
 */
bool kbus_user_charge_copies(struct kbus_user *user, size_t bytes, u32 copies)
{
	if (!bytes || kbus_user_charge(user, bytes)) {
		atomic_add(copies, &user->held);
		return true;
	}
	if (copies != 1 || atomic_cmpxchg(&user->held, 0, 1))
		return false;
	atomic_long_add(bytes, &user->bytes);
	return true;
}

/*
 * Have a worker look at what there is, in so many jiffies or less if it was to do so anyway.
 * The caller may hold the lock of a queue.
 */
void kbus_user_work_in(struct kbus_user *user, struct kbus_worker *worker, unsigned long delay)
{
	kbus_user_ref(user);
	if (!queue_delayed_work(kbus_workqueue, &worker->work, delay))
		/* Not the last one: the caller has a KSock of the user's, or the like. */
		refcount_dec(&user->refs);
}

/* There is nothing to be looked at any more. */
void kbus_user_work_cancel(struct kbus_user *user, struct kbus_worker *worker)
{
	if (cancel_delayed_work(&worker->work))
		/* Not the last one here either */
		refcount_dec(&user->refs);
}

void kbus_user_uncharge(struct kbus_user *user, size_t bytes)
{
	atomic_long_sub(bytes, &user->bytes);
	/* See kbus_user_look_again(). */
	smp_mb__after_atomic();
	kbus_user_look_again(user);
}

void kbus_user_uncharge_copies(struct kbus_user *user, size_t bytes, u32 copies)
{
	atomic_sub(copies, &user->held);
	kbus_user_uncharge(user, bytes);
}
