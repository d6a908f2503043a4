// SPDX-License-Identifier: GPL-2.0
/*
 * Senders whose message waits for room (KBUS_BIT_ALL_OR_WAIT).
 *
 * A message waits for one KSock at a time that has no room for it. If a task
 * sleeps in SEND for it, it is in the line of that KSock's queue, in the order
 * in which the messages began to wait; nobody behind it takes room that it needs. A
 * message that was kept after EAGAIN or EINTR holds up nobody, as its sender may
 * never come back. Nor does one whose task may go on, but does not get a processor: it
 * has lost its turn after a while.
 *
 * kbus_line_settle() decides who may go on. It is called at the end of whatever
 * changes what a queue can take, or changes its line: see kbus_queue_unlock().
 * Whoever may go on tries again, from the beginning: the message is sent, or
 * refused, or joins the line of another KSock, or stays where it was. In all but the last
 * case it leaves the line, so that this is settled again.
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
static void kbus_sum_add(struct kbus_sum *sum, const struct kbus_need *need, s64 sign)
{
	sum->slots += sign * ((u64)need->copies + need->own_slots);
	sum->queue_bytes += sign * ((u64)need->copies * need->len +
				    need->own_slots * KBUS_STATUS_LEN);
	sum->user_bytes += sign * need->bytes;
}

/* The message is in the line no more; whoever calls moves it, or removes it. */
static void kbus_line_leave(struct kbus_queue *q, struct kbus_wait *wait)
{
	lockdep_assert_held(&q->lock);
	if (!wait->is_in_line)
		return;
	wait->is_in_line = false;
	kbus_sum_add(&q->line_needs, &wait->need, -1);
}

/* What a message needs is known, or has changed. */
static void kbus_wait_set_need(struct kbus_queue *q, struct kbus_wait *wait,
			       const struct kbus_need *need)
{
	lockdep_assert_held(&q->lock);
	if (wait->is_in_line)
		kbus_sum_add(&q->line_needs, &wait->need, -1);
	wait->need = *need;
	if (wait->is_in_line)
		kbus_sum_add(&q->line_needs, &wait->need, 1);
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

/* From now on SEND is worth another try; the lock of the queue waited for is held. */
static void kbus_wait_make_ready(struct kbus_wait *wait, struct kbus_queue *q,
				 struct kbus_wakes *wakes)
{
	lockdep_assert_held(&q->lock);
	trace_wait(kbus_line_ksock(q)->dev->index, kbus_wait_ksock(wait)->id,
		   kbus_line_ksock(q)->id, KBUS_TRACE_WAIT_WAKE, NULL);
	WRITE_ONCE(wait->ready, true);
	wait->ready_since = jiffies;
	if (wait->sleepers)
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
static bool kbus_wait_is_behind(const struct kbus_wait *wait, struct kbus_queue *q)
{
	struct kbus_wait *first = list_first_entry_or_null(&q->line, struct kbus_wait, node);

	return first && (!wait->since || first->since < wait->since);
}

/*
 * Is another try worth while? What will never have room is to be refused. What is behind
 * the line is looked at again when the first one leaves that.
 */
static bool kbus_wait_may_go_on(const struct kbus_wait *wait, struct kbus_queue *q)
{
	return !kbus_queue_can_ever_take(q, &wait->need) ||
		(!kbus_wait_is_behind(wait, q) && kbus_line_fits(q, &wait->need));
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
		if (kbus_wait_may_go_on(wait, q))
			kbus_wait_make_ready(wait, q, wakes);
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
	wait = list_first_entry_or_null(&q->line, struct kbus_wait, node);
	if (wait && !wait->ready && kbus_wait_may_go_on(wait, q))
		kbus_wait_make_ready(wait, q, wakes);
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
	struct kbus_wait *wait, *next;
	struct kbus_user *user = NULL;
	u32 count = 0;

	lockdep_assert_held(&q->lock);
	list_for_each_entry_safe(wait, next, &q->line, node) {
		if (count++ == KBUS_STEP)
			return;
		if (!user)
			user = kbus_wait_ksock(wait)->user;
		if (kbus_wait_ksock(wait)->user != user)
			continue;
		if (!wait->ready)
			kbus_wait_make_ready(wait, q, wakes);
		kbus_line_leave(q, wait);
		list_move_tail(&wait->node, &q->ready);
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
	wait = list_first_entry_or_null(&q->line, struct kbus_wait, node);
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

/* Wait for nobody; the task that calls is one of the sleepers if it has @slept. */
static void kbus_wait_leave(struct kbus_ksock *ks, bool slept, struct kbus_wakes *wakes)
{
	struct kbus_ksock *on = ks->wait.on;

	lockdep_assert_held(&ks->dev->lock);
	if (!on) {
		ks->wait.sleepers -= slept;
		return;
	}
	spin_lock(&on->q.lock);
	ks->wait.sleepers -= slept;
	list_del_init(&ks->wait.node);
	kbus_line_leave(&on->q, &ks->wait);
	kbus_queue_unlock(&on->q, wakes);
	ks->wait.on = NULL;
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

/* Put @wait where it belongs in the queue: in the line, if a task sleeps for it. */
static void kbus_wait_join(struct kbus_wait *wait, struct kbus_queue *q)
{
	struct list_head *before = &q->kept;
	struct kbus_wait *other;

	lockdep_assert_held(&q->lock);
	list_del_init(&wait->node);
	wait->seen = q->changes;
	wait->is_in_line = wait->sleepers;
	if (wait->is_in_line) {
		before = &q->line;
		list_for_each_entry_reverse(other, &q->line, node) {
			if (other->since < wait->since)
				break;
			before = &other->node;
		}
		kbus_sum_add(&q->line_needs, &wait->need, 1);
	}
	list_add_tail(&wait->node, before);
}

/* What a message must have of the KSock that a plan is for, and of no other */
static struct kbus_need kbus_plan_need(const struct kbus_send *s, struct kbus_plan *plan)
{
	return (struct kbus_need) {
		.copies = plan->must,
		.len = s->home.msg->len,
		.own_slots = s->request && kbus_plan_ksock(plan) == s->sender,
		.is_only_one = plan->must == 1,
		.bytes = kbus_plan_must_bytes(s, plan) - plan->paid,
		.paid = plan->paid,
		.at = s->dev->bindings_changed,
	};
}

/* Other KSocks of the same user must have bytes for the message too. */
static void kbus_need_add_others(struct kbus_need *need, const struct kbus_send *s,
				 struct kbus_plan *plan)
{
	const struct kbus_user *user = kbus_plan_ksock(plan)->user;
	struct kbus_plan *other;

	list_for_each_entry(other, &s->plan, node) {
		if (other == plan || !other->must || kbus_plan_ksock(other)->user != user)
			continue;
		need->bytes += kbus_plan_must_bytes(s, other) - other->paid;
		need->paid += other->paid;
		need->is_only_one = false;
	}
}

static bool kbus_need_is_hopeless(const struct kbus_need *need, struct kbus_queue *q)
{
	bool can_ever;

	spin_lock(&q->lock);
	can_ever = kbus_queue_can_ever_take(q, need);
	spin_unlock(&q->lock);
	return !can_ever;
}

/* Is there a KSock that will never have room for what it must have of a message? */
bool kbus_wait_is_hopeless(struct kbus_send *s)
{
	struct kbus_plan *plan;

	list_for_each_entry(plan, &s->plan, node) {
		struct kbus_need need;

		if (!plan->must)
			continue;
		need = kbus_plan_need(s, plan);
		if (kbus_need_is_hopeless(&need, &kbus_plan_ksock(plan)->q))
			return true;
	}
	return false;
}

/*
 * May a message that waits, or would, have what it needs of @on? A message that
 * does not wait for @on yet need not join its line if there is room for all in the line
 * and for itself. Otherwise each message would cost a wake-up for as long as anybody is
 * in the line.
 */
static bool kbus_wait_has_room(const struct kbus_wait *wait, struct kbus_ksock *on,
			       const struct kbus_need *need)
{
	struct kbus_sum all;

	lockdep_assert_held(&on->q.lock);
	if (!kbus_wait_is_behind(wait, &on->q))
		return kbus_line_fits(&on->q, need);
	if (wait->on == on)
		return false;
	all = on->q.line_needs;
	kbus_sum_add(&all, need, 1);
	return kbus_queue_has_room_for_all(&on->q, &all);
}

/*
 * Wait for @on until it has room for what is needed @later, unless it has for what is
 * needed @now. Return whether it waits.
 */
static bool kbus_wait_join_or_go(struct kbus_send *s, struct kbus_ksock *on,
				 const struct kbus_need *now, const struct kbus_need *later)
{
	struct kbus_wait *wait = &s->sender->wait;
	struct kbus_queue *q = &on->q;
	bool waits;

	spin_lock(&q->lock);
	waits = !kbus_wait_has_room(wait, on, now);
	if (waits) {
		kbus_wait_set_need(q, wait, later);
		wait->on = on;
		WRITE_ONCE(wait->ready, false);
		if (s->sleep && !s->slept) {
			wait->sleepers++;
			s->slept = true;
		}
		if (!wait->is_in_line)
			kbus_wait_join(wait, q);
		trace_wait(s->dev->index, s->sender->id, on->id, KBUS_TRACE_WAIT_BEGIN,
			   kbus_msg_header(s->home.msg));
	}
	/* Not kbus_queue_unlock(): what waits here now was in nobody's way before. */
	spin_unlock(&q->lock);
	return waits;
}

/**
 * kbus_wait_try() - is there room for a message whose sender would wait
 * @s: the message
 * @plan: what it has for the recipient
 *
 * If there is none, or another has been waiting for it longer, the sender is put
 * in the line for it in the same step, so that it cannot miss its coming.
 *
 * Return: 0 if there is room, -EAGAIN if the sender waits from now on, or -EBUSY if
 * there will never be.
 */
int kbus_wait_try(struct kbus_send *s, struct kbus_plan *plan)
{
	struct kbus_ksock *on = kbus_plan_ksock(plan);
	struct kbus_wait *wait = &s->sender->wait;
	struct kbus_need now = kbus_plan_need(s, plan), later = now;
	bool has_room;

	lockdep_assert_held(&s->dev->lock);
	kbus_wait_begin(s->sender, s->request);
	/* Two queues' locks are never held at once. */
	if (wait->on != on)
		kbus_wait_leave(s->sender, false, s->wakes);

	/*
	 * What other KSocks of the same user must have is charged now, if they come before
	 * this one, and the slot for a Request to oneself is set aside; not so later.
	 */
	now.own_slots = 0;
	spin_lock(&on->q.lock);
	has_room = kbus_wait_has_room(wait, on, &now);
	spin_unlock(&on->q.lock);
	if (has_room)
		return 0;
	kbus_need_add_others(&later, s, plan);
	if (kbus_need_is_hopeless(&later, &on->q))
		return -EBUSY;
	return kbus_wait_join_or_go(s, on, &now, &later) ? -EAGAIN : 0;
}

/**
 * kbus_wait_end() - a message waits no more: it was sent, refused or dropped
 * @ks: the sender; its device's lock is held
 * @slept: the task that calls is counted in kbus_wait.sleepers
 * @wakes: gets those who may go on now
 */
void kbus_wait_end(struct kbus_ksock *ks, bool slept, struct kbus_wakes *wakes)
{
	lockdep_assert_held(&ks->dev->lock);
	if (!ks->wait.since && !slept)
		return;
	if (ks->wait.since)
		trace_wait(ks->dev->index, ks->id, ks->wait.on ? ks->wait.on->id : 0,
			   KBUS_TRACE_WAIT_END, NULL);
	kbus_wait_leave(ks, slept, wakes);
	if (!ks->wait.since)
		return;
	WRITE_ONCE(ks->wait.since, 0);
	WRITE_ONCE(ks->wait.ready, true);
	list_del_init(&ks->wait.by_device);
	ks->dev->nr_waits--;
	kbus_wakes_add(wakes, ks, EPOLLOUT | EPOLLWRNORM);
}

/**
 * kbus_wait_keep() - a task leaves SEND, and the message is kept
 * @ks: the sender; its device's lock is held
 * @slept: the task is counted in kbus_wait.sleepers
 * @wakes: gets those who may go on now
 *
 * If no other task sleeps for the message, it holds up nobody from here on.
 */
void kbus_wait_keep(struct kbus_ksock *ks, bool slept, struct kbus_wakes *wakes)
{
	struct kbus_wait *wait = &ks->wait;
	struct kbus_queue *q;

	lockdep_assert_held(&ks->dev->lock);
	if (!slept)
		return;
	if (!wait->on) {
		wait->sleepers--;
		return;
	}
	q = &wait->on->q;
	spin_lock(&q->lock);
	wait->sleepers--;
	if (!wait->sleepers) {
		kbus_line_leave(q, wait);
		list_move_tail(&wait->node, wait->ready ? &q->ready : &q->kept);
	}
	kbus_queue_unlock(q, wakes);
}

/* Let @ks try again, whatever it waits for. */
static void kbus_wait_retry(struct kbus_ksock *ks, struct kbus_wakes *wakes)
{
	struct kbus_ksock *on = ks->wait.on;

	lockdep_assert_held(&ks->dev->lock);
	if (!on || READ_ONCE(ks->wait.ready))
		return;
	spin_lock(&on->q.lock);
	if (!ks->wait.ready)
		kbus_wait_make_ready(&ks->wait, &on->q, wakes);
	spin_unlock(&on->q.lock);
}

/* Messages may need less of @ks: those who lack bytes of its user's are to look again. */
void kbus_wait_need_less(struct kbus_ksock *ks)
{
	/* Orders it after the change of kbus_dev.bindings_changed. */
	smp_mb();
	kbus_user_look_again(ks->user);
}

/* Which of those who wait on a device are to try again */
struct kbus_wait_filter {
	struct kbus_ksock *on;		/* those who wait for this one; NULL for all */
	const char *bound;		/* with a message of a name that this brings, or NULL */
	size_t len;
	bool only_requests;
};

static bool kbus_wait_filter_has(const struct kbus_wait_filter *filter, struct kbus_ksock *ks)
{
	if ((filter->only_requests && !ks->wait.is_request) ||
	    (filter->on && ks->wait.on != filter->on))
		return false;
	return !filter->bound ||
		kbus_name_matches(filter->bound, filter->len, kbus_msg_name(ks->out),
				  kbus_msg_header(ks->out)->name_len);
}

/*
 * Of those behind @place in the list of waits, which moves on, and up to the one that waits
 * since @last, let a few try again. Return whether there are more.
 */
static bool kbus_wait_wake_some(struct kbus_dev *dev, const struct kbus_wait_filter *filter,
				struct kbus_wait *place, u64 last, struct kbus_wakes *wakes)
{
	u32 count;

	lockdep_assert_held(&dev->lock);
	for (count = 0; count < KBUS_STEP && wakes->count < wakes->room; count++) {
		struct kbus_wait *wait = list_next_entry(place, by_device);

		if (list_entry_is_head(wait, &dev->waits, by_device) || wait->since > last)
			return false;
		list_move(&place->by_device, &wait->by_device);
		/* Else it is the place of somebody else who goes through the list. */
		if (wait->since && kbus_wait_filter_has(filter, kbus_wait_ksock(wait)))
			kbus_wait_retry(kbus_wait_ksock(wait), wakes);
	}
	return true;
}

/* Does nobody wait for @on? Whoever begins to from here on knows why this is asked. */
static bool kbus_wait_has_nobody(struct kbus_ksock *on)
{
	bool has_nobody;

	spin_lock(&on->q.lock);
	has_nobody = list_empty(&on->q.line) && list_empty(&on->q.kept);
	spin_unlock(&on->q.lock);
	return has_nobody;
}

/* Let those who wait on a device try again, in steps. */
static void kbus_wait_wake(struct kbus_dev *dev, const struct kbus_wait_filter *filter)
{
	struct kbus_wakes wakes __uninitialized;
	struct kbus_wait place = {};
	bool more;
	u64 last;

	if (filter->on && kbus_wait_has_nobody(filter->on))
		return;
	kbus_wakes_init(&wakes);
	spin_lock(&dev->lock);
	last = dev->last_wait;
	list_add(&place.by_device, &dev->waits);
	do {
		more = kbus_wait_wake_some(dev, filter, &place, last, &wakes);
		if (!more)
			list_del(&place.by_device);
		spin_unlock(&dev->lock);
		kbus_wakes_flush(&wakes);
		cond_resched();
		if (more)
			spin_lock(&dev->lock);
	} while (more);
	kbus_wakes_end(&wakes);
}

/*
 * @on has one more binding, so a message that waits for it may need more copies than it
 * ever takes, and is to be refused.
 */
void kbus_wait_wake_bound(struct kbus_ksock *on, const char *bound, size_t len)
{
	kbus_wait_wake(on->dev, &(struct kbus_wait_filter) {
		.on = on, .bound = bound, .len = len,
	});
}

/*
 * A binding of @on has gone, so its room may not matter to those who wait for it, nor
 * its user's bytes to those who need them for other KSocks too. Whoever joins the line
 * from here on knows.
 */
void kbus_wait_wake_unbound(struct kbus_ksock *on, const char *bound, size_t len)
{
	kbus_wait_need_less(on);
	kbus_wait_wake_bound(on, bound, len);
}

/*
 * Repliers to @bound have changed, so a Request may have another, or none, to wait for.
 */
void kbus_wait_wake_requests(struct kbus_dev *dev, const char *bound, size_t len)
{
	kbus_wait_wake(dev, &(struct kbus_wait_filter) {
		.bound = bound, .len = len, .only_requests = true,
	});
}

/* What @on takes, or how many copies of a message, has changed for all who wait for it. */
void kbus_wait_wake_all(struct kbus_ksock *on)
{
	spin_lock(&on->dev->lock);
	WRITE_ONCE(on->dev->bindings_changed, on->dev->bindings_changed + 1);
	spin_unlock(&on->dev->lock);
	kbus_wait_need_less(on);
	kbus_wait_wake(on->dev, &(struct kbus_wait_filter) { .on = on });
}

/* A limit of all queues has changed. */
void kbus_wait_wake_device(struct kbus_dev *dev)
{
	kbus_wait_wake(dev, &(struct kbus_wait_filter) { });
}

/* @on closes; whoever waits for it need not, and nobody begins to. */
void kbus_wait_on_gone(struct kbus_ksock *on)
{
	struct kbus_queue *q = &on->q;
	struct kbus_wakes wakes __uninitialized;
	struct kbus_wait *wait;
	bool more;
	u32 count;

	kbus_wakes_init(&wakes);
	do {
		spin_lock(&on->dev->lock);
		spin_lock(&q->lock);
		list_splice_init(&q->ready, &q->kept);
		list_splice_init(&q->kept, &q->line);
		count = 0;
		while ((wait = list_first_entry_or_null(&q->line, struct kbus_wait, node)) &&
		       count++ < KBUS_STEP && wakes.count < wakes.room) {
			list_del_init(&wait->node);
			kbus_line_leave(q, wait);
			wait->on = NULL;
			trace_wait(on->dev->index, kbus_wait_ksock(wait)->id, on->id,
				   KBUS_TRACE_WAIT_WAKE, NULL);
			WRITE_ONCE(wait->ready, true);
			kbus_wakes_add(&wakes, kbus_wait_ksock(wait), EPOLLOUT | EPOLLWRNORM);
		}
		more = wait;
		spin_unlock(&q->lock);
		spin_unlock(&on->dev->lock);
		kbus_wakes_flush(&wakes);
		cond_resched();
	} while (more);
	kbus_wakes_end(&wakes);

	/* Nobody is in line any more, nor will be. */
	WARN_ON_ONCE(q->line_needs.slots || q->line_needs.queue_bytes ||
		     q->line_needs.user_bytes);
	if (cancel_delayed_work_sync(&q->patience))
		kbus_ksock_put(on);
	spin_lock(&on->user->lock);
	list_del_init(&q->starving);
	spin_unlock(&on->user->lock);
}
