// SPDX-License-Identifier: GPL-2.0
/*
 * The line of those who wait for room at a KSock.
 *
 * If a task sleeps in SEND for a message, that is in the line of the queue for which it
 * waits, in the order in which the messages began to wait; nobody behind it takes room that
 * it needs. A message that was kept after EAGAIN or EINTR holds up nobody, as its sender may
 * never come back. Nor does one whose task may go on, but does not get a processor: what
 * its user is late by is summed up, and when that is too much the user is tardy for a while,
 * and its messages are in a line of their own, with those of other such users.
 *
 * kbus_line_settle() decides who may go on. It is called at the end of whatever
 * changes what a queue can take, or changes its line: see kbus_queue_unlock().
 */
#include <linux/poll.h>

#include "kbus.h"
#include "trace.h"

/*
 * After so long, in ns, whoever may go on and has not is woken again, by a worker: whoever was
 * to wake it may not have got as far.
 */
#define KBUS_NUDGE	(10 * NSEC_PER_MSEC)
/* So long each turn may take, in ns: ten times and more what it takes to wake a task. */
#define KBUS_TURN	NSEC_PER_MSEC
/* A user may be late by so much with what takes longer, in ns, */
#define KBUS_PATIENCE	(100 * NSEC_PER_MSEC)
/* before it is tardy, by so much before it loses its turns among those who are, */
#define KBUS_LOST	(2 * KBUS_PATIENCE)
/* and so long, after which all of it is forgotten. */
#define KBUS_LATE	(2 * NSEC_PER_SEC)

/* Of messages that are kept so many are told by whoever makes room. */
#define KBUS_KEPT	2

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

static struct kbus_wait *kbus_line_first(const struct kbus_line *line)
{
	struct rb_node *first = rb_first_cached(&line->waits);

	return first ? rb_entry(first, struct kbus_wait, in_line) : NULL;
}

static bool kbus_line_is_before(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct kbus_wait, in_line)->since <
		rb_entry(b, struct kbus_wait, in_line)->since;
}

static void kbus_line_add(struct kbus_line *line, struct kbus_wait *wait)
{
	struct kbus_wait *first = kbus_line_first(line);

	/* Now another one waits for this, which may be gone soon: the turn is the same then. */
	if (rb_add_cached(&wait->in_line, &line->waits, kbus_line_is_before) && first &&
	    first->has_turn) {
		first->has_turn = false;
		first->had_turn = ktime_get_mono_fast_ns() - first->ready_since;
	}
	kbus_sum_add(&line->needs, &wait->need, 1);
	wait->line = line;
}

/* The message is in no line any more, if it was. */
static void kbus_line_remove(struct kbus_wait *wait)
{
	if (!wait->line)
		return;
	rb_erase_cached(&wait->in_line, &wait->line->waits);
	kbus_sum_add(&wait->line->needs, &wait->need, -1);
	wait->line = NULL;
	wait->has_turn = false;
	wait->had_turn = 0;
}

static bool kbus_line_may_forgive(const struct kbus_queue *q)
{
	return ktime_get_mono_fast_ns() >= q->late_until;
}

/* By how much is this user late? It is not forgotten before those in its line are settled. */
static u32 kbus_line_late_by(const struct kbus_queue *q, const struct kbus_user *user)
{
	u32 i;

	if (q->nr_late && RB_EMPTY_ROOT(&q->tardy.waits.rb_root) && kbus_line_may_forgive(q))
		return 0;
	for (i = 0; i < q->nr_late; i++) {
		if (uid_eq(q->late[i].uid, user->uid))
			return q->late[i].by;
	}
	return 0;
}

bool kbus_line_is_tardy(const struct kbus_queue *q, const struct kbus_user *user)
{
	lockdep_assert_held(&q->lock);
	return kbus_line_late_by(q, user) >= KBUS_PATIENCE;
}

/*
 * A user is late by so much more. If too many are, it is in the place of the one that is least
 * so, and has what that was late by, but in nobody's who is tardy. Of these it is known up to
 * where they lose their turns.
 */
static void kbus_line_add_late(struct kbus_queue *q, const struct kbus_user *user, u32 by)
{
	struct kbus_late *least = NULL;
	u32 i;

	if (RB_EMPTY_ROOT(&q->tardy.waits.rb_root)) {
		if (kbus_line_may_forgive(q))
			q->nr_late = 0;
	} else if (!q->nr_late) {
		/* Those who are to come back do so first. */
		return;
	}
	if (!q->nr_late)
		q->late_until = ktime_get_mono_fast_ns() + KBUS_LATE;
	for (i = 0; i < q->nr_late && !uid_eq(q->late[i].uid, user->uid); i++) {
		if (!least || q->late[i].by < least->by)
			least = &q->late[i];
	}
	if (i == q->nr_late && i < KBUS_LATE_USERS) {
		q->late[q->nr_late++] = (struct kbus_late) { .uid = user->uid };
	} else if (i == KBUS_LATE_USERS) {
		if (least->by >= KBUS_PATIENCE)
			return;
		i = least - q->late;
		least->uid = user->uid;
	}
	q->late[i].by = min_t(u32, q->late[i].by + by, KBUS_LOST);
}

/*
 * Does anybody of another user wait in the same line, or not sleep? If that is not seen soon, it
 * may be so.
 */
static bool kbus_line_holds_up_another(const struct kbus_queue *q, struct kbus_wait *wait)
{
	const struct kbus_user *user = kbus_wait_ksock(wait)->user;
	struct rb_node *node = &wait->in_line;
	u32 count = 0;

	if (!list_empty(&q->kept))
		return true;
	while ((node = rb_next(node))) {
		if (count++ == KBUS_STEP ||
		    kbus_wait_ksock(rb_entry(node, struct kbus_wait, in_line))->user != user)
			return true;
	}
	return false;
}

/* By how much has the turn made its user late, in ns? */
static u32 kbus_wait_late_by(const struct kbus_wait *wait)
{
	u64 took = ktime_get_mono_fast_ns() - wait->ready_since;

	if (likely((s64)took <= KBUS_TURN))
		return 0;
	return min_t(u64, took - KBUS_TURN, wait->is_nudged ? KBUS_PATIENCE : KBUS_NUDGE);
}

/*
 * If a message has its turn, that is used, or taken away. Return whether the user is tardy, so
 * that it is to be settled.
 */
static bool kbus_line_end_turn(struct kbus_queue *q, struct kbus_wait *wait)
{
	struct kbus_user *user = kbus_wait_ksock(wait)->user;
	u32 by;

	if (!wait->has_turn)
		return false;
	by = kbus_wait_late_by(wait);
	if (likely(!by))
		return false;
	/* Its own user may be held up for a while at a time, however often that is. */
	if (by < KBUS_PATIENCE && !kbus_line_holds_up_another(q, wait))
		return false;
	wait->ready_since = ktime_get_mono_fast_ns();
	kbus_line_add_late(q, user, by);
	return kbus_line_is_tardy(q, user);
}

/*
 * A message is to wait at a queue for what it needs; it may wait there already. Return
 * whether the lines are to be settled: it has left one for the other one, or its user is
 * tardy.
 */
bool kbus_line_join(struct kbus_queue *q, struct kbus_wait *wait, const struct kbus_need *need)
{
	struct kbus_line *before = wait->line;
	bool is_late;

	lockdep_assert_held(&q->lock);
	is_late = kbus_line_end_turn(q, wait);
	kbus_line_remove(wait);
	list_del_init(&wait->node);
	wait->need = *need;
	wait->seen = q->changes;
	wait->is_nudged = false;
	WRITE_ONCE(wait->ready, false);
	if (wait->sleepers)
		kbus_line_add(wait->is_tardy ? &q->tardy : &q->line, wait);
	else
		list_add_tail(&wait->node, &q->kept);
	return is_late || (before && before != wait->line);
}

/* It does so no more. */
void kbus_line_leave(struct kbus_queue *q, struct kbus_wait *wait)
{
	lockdep_assert_held(&q->lock);
	kbus_line_end_turn(q, wait);
	kbus_line_remove(wait);
	list_del_init(&wait->node);
}

/* Look in a while whether those who may go on do. */
static void kbus_line_be_patient(struct kbus_queue *q)
{
	struct kbus_user *user = kbus_line_ksock(q)->user;

	lockdep_assert_held(&q->lock);
	if (q->is_patient)
		return;
	q->is_patient = true;
	spin_lock(&user->lock);
	list_add_tail(&q->patient, &user->patient);
	kbus_user_work_in(user, &user->nudge, KBUS_NUDGE / TICK_NSEC + 1);
	spin_unlock(&user->lock);
}

/* A message that may go on is in no line, or no more. */
static void kbus_line_add_ready(struct kbus_queue *q, struct kbus_wait *wait)
{
	if (wait->is_nudged) {
		list_del_init(&wait->node);
		return;
	}
	list_move_tail(&wait->node, &q->ready);
	kbus_line_be_patient(q);
}

/* No task sleeps for a message any more, but it is kept. */
void kbus_line_keep(struct kbus_queue *q, struct kbus_wait *wait)
{
	lockdep_assert_held(&q->lock);
	kbus_line_end_turn(q, wait);
	kbus_line_remove(wait);
	wait->is_tardy = false;
	if (wait->ready)
		kbus_line_add_ready(q, wait);
	else
		list_move_tail(&wait->node, &q->kept);
}

/* From now on SEND is worth another try. */
void kbus_line_make_ready(struct kbus_queue *q, struct kbus_wait *wait,
			  struct kbus_wakes *wakes)
{
	lockdep_assert_held(&q->lock);
	trace_wait(kbus_line_ksock(q)->dev->index, kbus_wait_ksock(wait)->id,
		   kbus_line_ksock(q)->id, KBUS_TRACE_WAIT_WAKE, NULL);
	WRITE_ONCE(wait->ready, true);
	wait->ready_since = ktime_get_mono_fast_ns();
	wait->had_turn = 0;
	if (wait->line)
		kbus_line_be_patient(q);
	else
		kbus_line_add_ready(q, wait);
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

static bool kbus_line_begins_before(const struct kbus_line *line, const struct kbus_wait *wait)
{
	const struct kbus_wait *first = kbus_line_first(line);

	return first && first->since < wait->since;
}

/* Does somebody sleep in the line that began to wait before @wait, and may hold it up? */
bool kbus_line_has_older(const struct kbus_queue *q, const struct kbus_wait *wait)
{
	return kbus_line_begins_before(&q->line, wait) ||
		(wait->is_tardy && kbus_line_begins_before(&q->tardy, wait));
}

/* What all those need who may hold it up */
struct kbus_sum kbus_line_needs(const struct kbus_queue *q, const struct kbus_wait *wait)
{
	struct kbus_sum sum = q->line.needs;

	if (wait->is_tardy) {
		sum.slots += q->tardy.needs.slots;
		sum.queue_bytes += q->tardy.needs.queue_bytes;
		sum.user_bytes += q->tardy.needs.user_bytes;
	}
	return sum;
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

/* There are more of those who wait than are to be looked at now. */
static void kbus_line_settle_later(struct kbus_queue *q)
{
	struct kbus_user *user = kbus_line_ksock(q)->user;

	lockdep_assert_held(&q->lock);
	spin_lock(&user->lock);
	if (list_empty(&q->unsettled))
		list_add_tail(&q->unsettled, &user->unsettled);
	spin_unlock(&user->lock);
	kbus_user_work_in(user, &user->settle, 0);
}

/*
 * Look at kept messages that have not been looked at since the queue changed, which are
 * the first ones. If there are more than @most, a worker goes on with them.
 */
static void kbus_line_settle_kept(struct kbus_queue *q, u32 most, struct kbus_wakes *wakes)
{
	struct kbus_wait *wait;
	u32 count = 0;

	while ((wait = list_first_entry_or_null(&q->kept, struct kbus_wait, node)) &&
	       wait->seen != q->changes) {
		if (count++ == most) {
			kbus_line_settle_later(q);
			return;
		}
		wait->seen = q->changes;
		if (kbus_line_may_go_on(q, wait))
			kbus_line_make_ready(q, wait, wakes);
		else
			list_move_tail(&wait->node, &q->kept);
	}
}

/*
 * Forget who was late, if that is long ago. Those of them that wait come back to the line, in
 * which they are as old as they were. Return whether there may be more of these.
 */
static bool kbus_line_forgive(struct kbus_queue *q)
{
	struct kbus_wait *wait;
	u32 count = 0;

	if (q->nr_late && !kbus_line_may_forgive(q))
		return false;
	q->nr_late = 0;
	while ((wait = kbus_line_first(&q->tardy))) {
		if (count++ == KBUS_STEP)
			return true;
		kbus_line_remove(wait);
		wait->is_tardy = false;
		kbus_line_add(&q->line, wait);
	}
	return false;
}

/*
 * Those of users who are tardy since they joined the line hold up others no more, once
 * they are first. Return whether there may be more of them.
 */
static bool kbus_line_move_tardy(struct kbus_queue *q)
{
	struct kbus_wait *wait;
	u32 count = 0;

	while ((wait = kbus_line_first(&q->line)) &&
	       kbus_line_is_tardy(q, kbus_wait_ksock(wait)->user)) {
		if (count++ == KBUS_STEP)
			return true;
		kbus_line_remove(wait);
		wait->is_tardy = true;
		kbus_line_add(&q->tardy, wait);
		/* Messages that are kept may have been behind it. */
		q->changes++;
	}
	return false;
}

static void kbus_line_settle_first(struct kbus_queue *q, struct kbus_line *line,
				   struct kbus_wakes *wakes)
{
	struct kbus_wait *wait = kbus_line_first(line);

	if (!wait)
		return;
	if (!wait->ready && kbus_line_may_go_on(q, wait))
		kbus_line_make_ready(q, wait, wakes);
	if (!wait->ready)
		return;
	if (!wait->has_turn) {
		wait->has_turn = true;
		wait->ready_since = ktime_get_mono_fast_ns() - wait->had_turn;
	}
	kbus_line_be_patient(q);
}

static void kbus_line_settle_lines(struct kbus_queue *q, struct kbus_wakes *wakes)
{
	if (kbus_line_forgive(q) || kbus_line_move_tardy(q))
		kbus_line_settle_later(q);
	else
		kbus_line_settle_first(q, &q->line, wakes);
	kbus_line_settle_first(q, &q->tardy, wakes);
}

/**
 * kbus_line_settle() - let those who wait for room at a queue go on who may
 * @q: the queue; its lock is held
 * @wakes: gets those who are to be woken
 *
 * That is the first one in each line, and every message that is kept, if there is room for
 * what it needs. One that did not need what it lacks here would take and give back
 * what it needs elsewhere, and so wake others for nothing.
 */
void kbus_line_settle(struct kbus_queue *q, struct kbus_wakes *wakes)
{
	lockdep_assert_held(&q->lock);
	kbus_line_settle_lines(q, wakes);
	q->changes++;
	kbus_line_settle_kept(q, KBUS_KEPT, wakes);
}

/* For a worker: look at more of them. Return how long it takes, in ns. */
u64 kbus_line_go_on(struct kbus_queue *q)
{
	struct kbus_wakes wakes __uninitialized;
	u64 began;

	kbus_wakes_init_late(&wakes);
	began = kbus_stopwatch_start();
	spin_lock(&q->lock);
	kbus_line_settle_lines(q, &wakes);
	kbus_line_settle_kept(q, KBUS_STEP, &wakes);
	spin_unlock(&q->lock);
	return kbus_stopwatch_stop(began);
}

/*
 * Whoever is first among the messages of tardy users has not used its turn. Some others of the
 * same user lose theirs too, so that these do not take as long one after the other. They keep
 * their age.
 */
static void kbus_line_lose_turns(struct kbus_queue *q, struct kbus_wakes *wakes)
{
	struct kbus_user *user = kbus_wait_ksock(kbus_line_first(&q->tardy))->user;
	struct rb_node *node, *next;
	u32 count = 0;

	for (node = rb_first_cached(&q->tardy.waits); node && count++ < KBUS_STEP; node = next) {
		struct kbus_wait *wait = rb_entry(node, struct kbus_wait, in_line);

		next = rb_next(node);
		if (kbus_wait_ksock(wait)->user != user)
			continue;
		kbus_line_remove(wait);
		if (wait->ready)
			kbus_line_add_ready(q, wait);
		else
			kbus_line_make_ready(q, wait, wakes);
	}
}

/* Wake again who may go on, if it has not done so for some time. Return whether that is so. */
static bool kbus_line_nudge_one(struct kbus_queue *q, struct kbus_wait *wait,
				struct kbus_wakes *wakes)
{
	u64 now = ktime_get_mono_fast_ns();

	if ((s64)(now - wait->ready_since) < KBUS_NUDGE)
		return false;
	kbus_line_end_turn(q, wait);
	wait->is_nudged = true;
	wait->ready_since = now;
	kbus_wakes_add(wakes, kbus_wait_ksock(wait), EPOLLOUT | EPOLLWRNORM);
	return true;
}

/* See whether whoever is first in a line uses its turn, or how late it is. */
static void kbus_line_look_at_first(struct kbus_queue *q, struct kbus_line *line,
				    struct kbus_wakes *wakes)
{
	struct kbus_wait *wait = kbus_line_first(line);

	if (!wait || !wait->has_turn)
		return;
	kbus_line_be_patient(q);
	if (!wait->is_nudged && !kbus_line_nudge_one(q, wait, wakes))
		return;
	kbus_line_end_turn(q, wait);
	if (line == &q->tardy && kbus_line_late_by(q, kbus_wait_ksock(wait)->user) >= KBUS_LOST)
		kbus_line_lose_turns(q, wakes);
}

/* See whether those who are in no line have tried again. They are told so only once more. */
static void kbus_line_nudge_ready(struct kbus_queue *q, struct kbus_wakes *wakes)
{
	struct kbus_wait *wait;
	u32 count = 0;

	while ((wait = list_first_entry_or_null(&q->ready, struct kbus_wait, node))) {
		if (count++ == KBUS_STEP || !kbus_line_nudge_one(q, wait, wakes)) {
			kbus_line_be_patient(q);
			return;
		}
		list_del_init(&wait->node);
	}
}

/*
 * For a worker: see whether those who may go on do; they may get no processor, or nobody may
 * have told them, for want of one. Return how long it takes, in ns.
 */
u64 kbus_line_nudge(struct kbus_queue *q)
{
	struct kbus_wakes wakes __uninitialized;
	u64 began;

	kbus_wakes_init_late(&wakes);
	began = kbus_stopwatch_start();
	spin_lock(&q->lock);
	q->is_patient = false;
	/* Who comes back from there holds up others again before anybody is late. */
	if (!kbus_line_forgive(q)) {
		kbus_line_look_at_first(q, &q->line, &wakes);
		kbus_line_look_at_first(q, &q->tardy, &wakes);
	}
	kbus_line_nudge_ready(q, &wakes);
	kbus_queue_unlock(q, &wakes);
	return kbus_stopwatch_stop(began);
}

/* The queue's KSock closes; nobody waits for it any more. */
void kbus_line_end(struct kbus_queue *q)
{
	struct kbus_user *user = kbus_line_ksock(q)->user;

	WARN_ON_ONCE(q->line.needs.slots || q->line.needs.queue_bytes ||
		     q->line.needs.user_bytes);
	WARN_ON_ONCE(q->tardy.needs.slots || q->tardy.needs.queue_bytes ||
		     q->tardy.needs.user_bytes);
	spin_lock(&user->lock);
	list_del_init(&q->starving);
	list_del_init(&q->unsettled);
	list_del_init(&q->patient);
	/* What still ran later would be there when the workqueue goes. */
	if (list_empty(&user->patient))
		kbus_user_work_cancel(user, &user->nudge);
	spin_unlock(&user->lock);
}
