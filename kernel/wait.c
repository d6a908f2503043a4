// SPDX-License-Identifier: GPL-2.0
/*
 * Senders whose message waits for room (KBUS_BIT_ALL_OR_WAIT).
 *
 * A message waits for one KSock at a time that has no room for it. Who may go on
 * is decided at that KSock's queue (line.c). Whoever may go on tries again,
 * from the beginning: the message is sent, or refused, or waits for another
 * KSock, or for the same one. In all but the last case it leaves the line, so that this is
 * settled again.
 *
 * Those who wait for a KSock are found by the KSock, and Requests by their name, so that
 * whoever changes something looks only at those whom it may concern.
 */
#include <linux/poll.h>

#include "kbus.h"
#include "trace.h"

/* In both trees whoever began to wait earlier comes first, in one of them for each name. */
static bool kbus_wait_is_older(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct kbus_wait, by_ksock)->since <
		rb_entry(b, struct kbus_wait, by_ksock)->since;
}

/* The order of names, in which those with the same beginning come one after the other */
static int kbus_wait_name_order(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int order = memcmp(a, b, min(a_len, b_len));

	if (order)
		return order;
	return a_len < b_len ? -1 : a_len > b_len;
}

static const char *kbus_wait_name(const struct kbus_wait *wait, size_t *len)
{
	const struct kbus_msg *msg = container_of(wait, struct kbus_ksock, wait)->out;

	*len = kbus_msg_header(msg)->name_len;
	return kbus_msg_name(msg);
}

/* Does a Request come after those of this name that have waited since @since? */
static bool kbus_wait_is_after(const struct kbus_wait *wait, const char *name, size_t len,
			       u64 since)
{
	size_t its_len;
	const char *its = kbus_wait_name(wait, &its_len);
	int order = kbus_wait_name_order(its, its_len, name, len);

	return order > 0 || (!order && wait->since > since);
}

static bool kbus_wait_is_before(struct rb_node *a, const struct rb_node *b)
{
	const struct kbus_wait *one = rb_entry(a, struct kbus_wait, by_name);
	size_t len;
	const char *name = kbus_wait_name(one, &len);

	return kbus_wait_is_after(rb_entry(b, struct kbus_wait, by_name), name, len, one->since);
}

/* Wait for nobody; the task that calls is one of the sleepers if it has @slept. */
static void kbus_wait_leave(struct kbus_ksock *ks, bool slept, struct kbus_wakes *wakes)
{
	struct kbus_wait *wait = &ks->wait;
	struct kbus_ksock *on = wait->on;

	lockdep_assert_held(&ks->dev->lock);
	if (!on) {
		wait->sleepers -= slept;
		return;
	}
	rb_erase(&wait->by_ksock, &on->waits);
	wait->on = NULL;
	spin_lock(&on->q.lock);
	wait->sleepers -= slept;
	kbus_line_leave(&on->q, wait);
	kbus_queue_unlock(&on->q, wakes);
}

/* The message that @ks has written waits, from now on unless it does already. */
static void kbus_wait_begin(struct kbus_ksock *ks, bool is_request)
{
	struct kbus_dev *dev = ks->dev;

	lockdep_assert_held(&dev->lock);
	if (ks->wait.since)
		return;
	WRITE_ONCE(ks->wait.since, ++dev->last_wait);
	if (is_request)
		rb_add(&ks->wait.by_name, &dev->asking, kbus_wait_is_before);
	dev->nr_waits++;
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
static bool kbus_wait_has_room(const struct kbus_send *s, struct kbus_ksock *on,
			       const struct kbus_need *need)
{
	struct kbus_wait *wait = &s->sender->wait;
	struct kbus_sum all;

	lockdep_assert_held(&on->q.lock);
	/* Who does not sleep holds up nobody anyway. */
	wait->is_tardy = s->sleep && kbus_line_is_tardy(&on->q, s->sender->user);
	if (!kbus_line_has_older(&on->q, wait))
		return kbus_line_fits(&on->q, need);
	if (wait->on == on)
		return false;
	all = kbus_line_needs(&on->q, wait);
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
	bool waits, moves = false;

	spin_lock(&q->lock);
	waits = !kbus_wait_has_room(s, on, now);
	if (waits) {
		if (s->sleep && !s->slept) {
			wait->sleepers++;
			s->slept = true;
		}
		moves = kbus_line_join(q, wait, later);
		trace_wait(s->dev->index, s->sender->id, on->id, KBUS_TRACE_WAIT_BEGIN,
			   kbus_msg_header(s->home.msg));
	}
	/* What was in no line was in nobody's way. */
	if (moves)
		kbus_queue_unlock(q, s->wakes);
	else
		spin_unlock(&q->lock);
	if (waits && wait->on != on) {
		wait->on = on;
		rb_add(&wait->by_ksock, &on->waits, kbus_wait_is_older);
	}
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
	has_room = kbus_wait_has_room(s, on, &now);
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
	if (!RB_EMPTY_NODE(&ks->wait.by_name)) {
		rb_erase(&ks->wait.by_name, &ks->dev->asking);
		RB_CLEAR_NODE(&ks->wait.by_name);
	}
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
	if (!wait->sleepers)
		kbus_line_keep(q, wait);
	kbus_queue_unlock(q, wakes);
}

/* Let a message try again, whatever it waits for. */
static void kbus_wait_retry(struct kbus_wait *wait, struct kbus_wakes *wakes)
{
	struct kbus_ksock *on = wait->on;

	if (!on || READ_ONCE(wait->ready))
		return;
	spin_lock(&on->q.lock);
	if (!wait->ready)
		kbus_line_make_ready(&on->q, wait, wakes);
	spin_unlock(&on->q.lock);
}

/* Messages may need less of @ks: those who lack bytes of its user's are to look again. */
void kbus_wait_need_less(struct kbus_ksock *ks)
{
	/* Orders it after the change of kbus_dev.bindings_changed. */
	smp_mb();
	kbus_user_look_again(ks->user);
}

/**
 * struct kbus_wait_walk - going over those who wait, and what they wait with
 * @dev: the device
 * @on: those who wait for this KSock; NULL for all Requests
 * @bound: with a message of a name that this brings; NULL for any name
 * @len: the length of @bound
 * @last: and no longer than since this
 * @since: the one that was looked at last waits since this; those after it are left,
 * @at: by their name, if they are Requests, for which this is that one's message
 * @payer: who pays for that, and may have no KSock any more
 */
struct kbus_wait_walk {
	struct kbus_dev *dev;
	struct kbus_ksock *on;
	const char *bound;
	size_t len;
	u64 last;
	u64 since;
	struct kbus_msg *at;
	struct kbus_user *payer;
};

/* Is this one among those that are left? */
static bool kbus_walk_is_ahead(const struct kbus_wait_walk *walk, const struct kbus_wait *wait)
{
	if (walk->on)
		return wait->since > walk->since;
	if (walk->at)
		return kbus_wait_is_after(wait, kbus_msg_name(walk->at),
					  kbus_msg_header(walk->at)->name_len, walk->since);
	return kbus_wait_is_after(wait, walk->bound, kbus_name_fixed_len(walk->bound, walk->len),
				  0);
}

static struct kbus_wait *kbus_walk_entry(const struct kbus_wait_walk *walk,
					 struct rb_node *node)
{
	if (!node)
		return NULL;
	return walk->on ? rb_entry(node, struct kbus_wait, by_ksock) :
		rb_entry(node, struct kbus_wait, by_name);
}

/* The first one of those that are left, or NULL */
static struct kbus_wait *kbus_walk_first(const struct kbus_wait_walk *walk)
{
	struct rb_node *node = walk->on ? walk->on->waits.rb_node : walk->dev->asking.rb_node;
	struct kbus_wait *first = NULL;

	while (node) {
		struct kbus_wait *wait = kbus_walk_entry(walk, node);

		if (kbus_walk_is_ahead(walk, wait)) {
			first = wait;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return first;
}

static struct kbus_wait *kbus_walk_next(const struct kbus_wait_walk *walk,
					struct kbus_wait *wait)
{
	return kbus_walk_entry(walk, rb_next(walk->on ? &wait->by_ksock : &wait->by_name));
}

/* Does none of those from @wait on concern the walk? */
static bool kbus_walk_is_over(const struct kbus_wait_walk *walk, const struct kbus_wait *wait)
{
	size_t len, fixed_len;
	const char *name;

	if (!wait)
		return true;
	if (walk->on)
		return wait->since > walk->last;
	name = kbus_wait_name(wait, &len);
	fixed_len = kbus_name_fixed_len(walk->bound, walk->len);
	if (len < fixed_len || memcmp(name, walk->bound, fixed_len))
		return true;
	/* Longer names come after the name itself. */
	return len > fixed_len && fixed_len == walk->len;
}

static bool kbus_walk_has(const struct kbus_wait_walk *walk, const struct kbus_wait *wait)
{
	const char *name;
	size_t len;

	if (wait->since > walk->last)
		return false;
	if (!walk->bound)
		return true;
	/* It has a better replier, before and after. */
	if (!walk->on && kbus_name_rank(walk->bound, walk->len) < wait->replier_rank)
		return false;
	name = kbus_wait_name(wait, &len);
	return kbus_name_matches(walk->bound, walk->len, name, len);
}

/* Remember how far the walk has come. */
static void kbus_walk_stay(struct kbus_wait_walk *walk, struct kbus_wait *wait)
{
	walk->since = wait->since;
	if (walk->on)
		return;
	walk->at = kbus_wait_ksock(wait)->out;
	refcount_inc(&walk->at->refs);
	walk->payer = kbus_user_ref(kbus_wait_ksock(wait)->user);
}

/* It has gone on from there, or ends. The message may be the last that its payer has. */
static void kbus_walk_leave(const struct kbus_wait_walk *walk)
{
	kbus_msg_put(walk->at);
	kbus_user_put(walk->payer);
}

/* Let some of them try again. Return whether there are more. */
static bool kbus_walk_some(struct kbus_wait_walk *walk, struct kbus_wakes *wakes)
{
	const struct kbus_wait_walk before = *walk;
	struct kbus_wait *wait, *last = NULL;
	bool more = false;
	u32 count = 0;

	spin_lock(&walk->dev->lock);
	for (wait = kbus_walk_first(walk); !kbus_walk_is_over(walk, wait);
	     wait = kbus_walk_next(walk, wait)) {
		more = count++ == KBUS_STEP;
		if (more)
			break;
		if (kbus_walk_has(walk, wait))
			kbus_wait_retry(wait, wakes);
		last = wait;
	}
	if (more)
		kbus_walk_stay(walk, last);
	spin_unlock(&walk->dev->lock);
	if (more)
		kbus_walk_leave(&before);
	return more;
}

/*
 * Let those try again whom a walk is for, in steps. It is left to workers to tell them: no line
 * does it again before they are first in it, whatever becomes of this task.
 */
static void kbus_walk(struct kbus_wait_walk *walk)
{
	struct kbus_wakes wakes __uninitialized;
	bool more;

	kbus_wakes_init_late(&wakes);
	spin_lock(&walk->dev->lock);
	walk->last = walk->dev->last_wait;
	spin_unlock(&walk->dev->lock);
	do {
		more = kbus_walk_some(walk, &wakes);
		cond_resched();
	} while (more);
	kbus_walk_leave(walk);
}

/*
 * @on has one more binding, so a message that waits for it may need more copies than it
 * ever takes, and is to be refused.
 */
void kbus_wait_wake_bound(struct kbus_ksock *on, const char *bound, size_t len)
{
	kbus_walk(&(struct kbus_wait_walk) {
		.dev = on->dev, .on = on, .bound = bound, .len = len,
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
	kbus_walk(&(struct kbus_wait_walk) { .dev = dev, .bound = bound, .len = len });
}

/* A limit of @on has changed. */
void kbus_wait_wake_all(struct kbus_ksock *on)
{
	kbus_walk(&(struct kbus_wait_walk) { .dev = on->dev, .on = on });
}

/* So has how many copies of a message it takes. */
void kbus_wait_wake_changed(struct kbus_ksock *on)
{
	spin_lock(&on->dev->lock);
	WRITE_ONCE(on->dev->bindings_changed, on->dev->bindings_changed + 1);
	spin_unlock(&on->dev->lock);
	kbus_wait_need_less(on);
	kbus_wait_wake_all(on);
}

/*
 * @on closes; whoever waits for it need not, and nobody begins to. No line tells them again,
 * so it is left to their users' workers, whatever becomes of this task.
 */
void kbus_wait_on_gone(struct kbus_ksock *on)
{
	struct kbus_wakes wakes __uninitialized;
	struct rb_node *node;
	u32 count;

	kbus_wakes_init_late(&wakes);
	do {
		spin_lock(&on->dev->lock);
		spin_lock(&on->q.lock);
		count = 0;
		while ((node = on->waits.rb_node) && count++ < KBUS_STEP) {
			struct kbus_wait *wait = rb_entry(node, struct kbus_wait, by_ksock);
			struct kbus_ksock *ks = kbus_wait_ksock(wait);

			rb_erase(node, &on->waits);
			kbus_line_leave(&on->q, wait);
			wait->on = NULL;
			trace_wait(on->dev->index, ks->id, on->id, KBUS_TRACE_WAIT_WAKE, NULL);
			WRITE_ONCE(wait->ready, true);
			kbus_wakes_add(&wakes, ks, EPOLLOUT | EPOLLWRNORM);
		}
		spin_unlock(&on->q.lock);
		spin_unlock(&on->dev->lock);
		cond_resched();
	} while (node);
	kbus_line_end(&on->q);
}
