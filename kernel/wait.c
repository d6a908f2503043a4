// SPDX-License-Identifier: GPL-2.0
/*
 * Senders whose message waits for room (KBUS_BIT_ALL_OR_WAIT).
 *
 * A message waits for one KSock at a time that has no room for it. If a task sleeps
 * in SEND for it, it is in that KSock's line, and nobody behind it takes room that it
 * needs. A message that was kept after EAGAIN or EINTR holds up nobody, as its sender
 * may never come back.
 *
 * kbus_line_settle() decides who may go on. It is called at the end of whatever changes
 * what a queue can take, or changes its line: see kbus_queue_unlock(). Whoever may go on
 * tries again, from the beginning: the message is sent, or refused, or waits for another
 * KSock, or for the same one.
 */
#include <linux/poll.h>

#include "send.h"
#include "trace.h"

static struct kbus_ksock *kbus_wait_ksock(struct kbus_wait *wait)
{
	return container_of(wait, struct kbus_ksock, wait);
}

/* Does somebody sleep in the line who began to wait before? Whoever waits not yet is last. */
static bool kbus_wait_is_held_up(struct kbus_queue *q, const struct kbus_wait *wait)
{
	const struct kbus_wait *first;

	lockdep_assert_held(&q->lock);
	first = list_first_entry_or_null(&q->line, struct kbus_wait, node);
	return first && (!wait->since || first->since < wait->since);
}

/*
 * Would a message find so much? Whoever is held up needs room for all others in the line
 * as well; else each message would cost a wake-up for as long as anybody is there.
 */
static bool kbus_wait_fits(struct kbus_queue *q, const struct kbus_wait *wait,
			   u64 slots, u64 bytes)
{
	if (kbus_wait_is_held_up(q, wait)) {
		const bool is_here = wait->in_line && wait->on == kbus_queue_ksock(q);

		slots += q->line_slots - (is_here ? wait->slots : 0);
		bytes += q->line_bytes - (is_here ? wait->bytes : 0);
	}
	return kbus_queue_fits(q, slots, bytes);
}

/* What will never have room is to be refused (rule 42). */
static bool kbus_wait_is_in_vain(const struct kbus_queue *q, const struct kbus_wait *wait)
{
	return !kbus_queue_can_ever_take(q, wait->slots, wait->bytes);
}

/* Is another try worth while? */
static bool kbus_wait_may_go_on(struct kbus_queue *q, const struct kbus_wait *wait)
{
	return kbus_wait_fits(q, wait, wait->slots, wait->bytes) ||
		kbus_wait_is_in_vain(q, wait);
}

/* The message is in no list of the queue any more, if it was. */
static void kbus_wait_unlist(struct kbus_queue *q, struct kbus_wait *wait)
{
	lockdep_assert_held(&q->lock);
	list_del_init(&wait->node);
	if (!wait->in_line)
		return;
	wait->in_line = false;
	q->line_slots -= wait->slots;
	q->line_bytes -= wait->bytes;
}

/* Put the message where it belongs by its age. */
static void kbus_wait_list(struct kbus_queue *q, struct kbus_wait *wait)
{
	struct list_head *list = wait->sleepers ? &q->line : &q->kept;
	struct kbus_wait *other;

	lockdep_assert_held(&q->lock);
	list_for_each_entry_reverse(other, list, node) {
		if (other->since < wait->since)
			break;
	}
	list_add(&wait->node, &other->node);
	wait->in_line = wait->sleepers;
	if (!wait->in_line)
		return;
	q->line_slots += wait->slots;
	q->line_bytes += wait->bytes;
}

/* SEND is worth another try. In the line the message keeps its place until then. */
static void kbus_wait_make_ready(struct kbus_queue *q, struct kbus_wait *wait,
				 struct kbus_wakes *wakes)
{
	struct kbus_ksock *ks = kbus_wait_ksock(wait);

	lockdep_assert_held(&q->lock);
	trace_wait(ks->dev->index, ks->id, kbus_queue_ksock(q)->id, KBUS_TRACE_WAIT_WAKE, NULL);
	if (!wait->in_line)
		kbus_wait_unlist(q, wait);
	WRITE_ONCE(wait->ready, true);
	kbus_wakes_add(wakes, ks, EPOLLOUT | EPOLLWRNORM);
}

/**
 * kbus_line_settle() - let those who wait for room at a queue go on who may
 * @q: the queue; its lock is held
 * @wakes: gets those who are to be woken
 *
 * That is the first one in the line, and every message that is kept, if there is room
 * for what it needs; and whoever needs what there will never be room for.
 */
void kbus_line_settle(struct kbus_queue *q, struct kbus_wakes *wakes)
{
	struct kbus_wait *wait, *next;

	lockdep_assert_held(&q->lock);
	list_for_each_entry(wait, &q->line, node) {
		if (!wait->ready &&
		    (list_is_first(&wait->node, &q->line) ? kbus_wait_may_go_on(q, wait) :
		     kbus_wait_is_in_vain(q, wait)))
			kbus_wait_make_ready(q, wait, wakes);
	}
	list_for_each_entry_safe(wait, next, &q->kept, node) {
		if (kbus_wait_may_go_on(q, wait))
			kbus_wait_make_ready(q, wait, wakes);
	}
}

/* Wait for nobody. */
static void kbus_wait_leave(struct kbus_wait *wait, struct kbus_wakes *wakes)
{
	struct kbus_ksock *on = wait->on;

	if (!on)
		return;
	wait->on = NULL;
	spin_lock(&on->q.lock);
	kbus_wait_unlist(&on->q, wait);
	kbus_queue_unlock(&on->q, wakes);
}

/* The message waits for @on from now on, unless it does already. */
static void kbus_wait_begin(struct kbus_send *s, struct kbus_ksock *on)
{
	struct kbus_wait *wait = &s->sender->wait;

	if (wait->on != on)
		kbus_wait_leave(wait, s->wakes);
	wait->on = on;
	if (s->sleeps && !s->is_sleeper) {
		s->is_sleeper = true;
		wait->sleepers++;
	}
	if (wait->since)
		return;
	WRITE_ONCE(wait->since, ++s->dev->last_wait);
	wait->is_request = s->request;
	list_add_tail(&wait->by_dev, &s->dev->waits);
	s->dev->nr_waits++;
}

/*
 * What a message would wait for: a Request to oneself needs the slot for its answer too,
 * which is given back meanwhile.
 */
static void kbus_plan_needs(const struct kbus_send *s, struct kbus_plan *plan, u32 *slots,
			    u64 *bytes)
{
	const u32 own = s->request && &s->sender->plan == plan;

	*slots = plan->must + own;
	*bytes = (u64)plan->must * s->msg->len + own * KBUS_STATUS_LEN;
}

/* Will there never be room for what a recipient must have of a message? */
bool kbus_wait_is_hopeless(const struct kbus_send *s, struct kbus_plan *plan)
{
	struct kbus_queue *q = &container_of(plan, struct kbus_ksock, plan)->q;
	bool can_ever;
	u64 bytes;
	u32 slots;

	kbus_plan_needs(s, plan, &slots, &bytes);
	spin_lock(&q->lock);
	can_ever = !plan->must || kbus_queue_can_ever_take(q, slots, bytes);
	spin_unlock(&q->lock);
	return !can_ever;
}

/**
 * kbus_wait_try() - is there room for a message whose sender would wait
 * @s: the message
 * @plan: what it has for a recipient, who must have it
 *
 * If there is none, or others have been waiting for it longer, the message waits from
 * now on. Room that comes meanwhile is seen when it joins the line.
 *
 * Return: 0 if there is room, -EAGAIN if it waits.
 */
int kbus_wait_try(struct kbus_send *s, struct kbus_plan *plan)
{
	struct kbus_ksock *on = container_of(plan, struct kbus_ksock, plan);
	struct kbus_wait *wait = &s->sender->wait;
	struct kbus_queue *q = &on->q;
	bool fits;

	lockdep_assert_held(&s->dev->lock);
	spin_lock(&q->lock);
	fits = plan->taken >= plan->must &&
		kbus_wait_fits(q, wait, plan->must, (u64)plan->must * s->msg->len);
	spin_unlock(&q->lock);
	if (fits)
		return 0;

	kbus_wait_begin(s, on);
	spin_lock(&q->lock);
	kbus_wait_unlist(q, wait);
	kbus_plan_needs(s, plan, &wait->slots, &wait->bytes);
	WRITE_ONCE(wait->ready, false);
	kbus_wait_list(q, wait);
	trace_wait(s->dev->index, s->sender->id, on->id, KBUS_TRACE_WAIT_BEGIN,
		   kbus_msg_header(s->msg));
	kbus_queue_unlock(q, s->wakes);
	return -EAGAIN;
}

/* A message waits no more: it was sent, refused or dropped. */
void kbus_wait_end(struct kbus_ksock *ks, struct kbus_wakes *wakes)
{
	struct kbus_wait *wait = &ks->wait;

	lockdep_assert_held(&ks->dev->lock);
	if (!wait->since)
		return;
	trace_wait(ks->dev->index, ks->id, wait->on ? wait->on->id : 0, KBUS_TRACE_WAIT_END,
		   NULL);
	kbus_wait_leave(wait, wakes);
	WRITE_ONCE(wait->since, 0);
	WRITE_ONCE(wait->ready, true);
	list_del_init(&wait->by_dev);
	ks->dev->nr_waits--;
	kbus_wakes_add(wakes, ks, EPOLLOUT | EPOLLWRNORM);
}

/*
 * A task that slept for a message leaves SEND. If no other one sleeps for it, it holds
 * up nobody from here on.
 */
void kbus_wait_wakes_up(struct kbus_ksock *ks, struct kbus_wakes *wakes)
{
	struct kbus_wait *wait = &ks->wait;
	struct kbus_queue *q;

	lockdep_assert_held(&ks->dev->lock);
	if (--wait->sleepers || !wait->on)
		return;
	q = &wait->on->q;
	spin_lock(&q->lock);
	if (wait->in_line) {
		kbus_wait_unlist(q, wait);
		if (!wait->ready)
			kbus_wait_list(q, wait);
	}
	kbus_queue_unlock(q, wakes);
}

/**
 * kbus_waits_retry() - a binding has come or gone: let those try again whom it concerns
 * @on: whose; whoever waits for it needs more copies now, or fewer
 * @requests: Requests may have another replier, or none
 * @bound: only those whose messages match this name, if it is not NULL
 * @len: the length of @bound
 */
void kbus_waits_retry(struct kbus_ksock *on, bool requests, const char *bound, size_t len)
{
	struct kbus_dev *dev = on->dev;
	struct kbus_wakes wakes = KBUS_WAKES();
	struct kbus_wait *wait;

	spin_lock(&dev->lock);
	list_for_each_entry(wait, &dev->waits, by_dev) {
		const struct kbus_msg *msg = kbus_wait_ksock(wait)->out;

		if (!wait->on || (wait->on != on && !(requests && wait->is_request)))
			continue;
		if (bound && !kbus_name_matches(bound, len, kbus_msg_name(msg),
						kbus_msg_header(msg)->name_len))
			continue;
		spin_lock(&wait->on->q.lock);
		if (!wait->ready)
			kbus_wait_make_ready(&wait->on->q, wait, &wakes);
		spin_unlock(&wait->on->q.lock);
	}
	spin_unlock(&dev->lock);
	kbus_wakes_flush(&wakes);
}

/* @on closes; whoever waits for it need not, and nobody begins to. */
void kbus_waits_end(struct kbus_ksock *on, struct kbus_wakes *wakes)
{
	struct kbus_wait *wait;

	lockdep_assert_held(&on->dev->lock);
	list_for_each_entry(wait, &on->dev->waits, by_dev) {
		if (wait->on != on)
			continue;
		spin_lock(&on->q.lock);
		kbus_wait_unlist(&on->q, wait);
		kbus_wait_make_ready(&on->q, wait, wakes);
		spin_unlock(&on->q.lock);
		wait->on = NULL;
	}
}
