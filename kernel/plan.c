// SPDX-License-Identifier: GPL-2.0
/*
 * Who gets which copies of a message.
 *
 * First comes a plan, made of free slots: who gets which copies. Then it is seen
 * whether all who must have one do. Only then is anything changed, and nothing can
 * fail any more. All that is one step for everybody else, because the device's lock
 * is held.
 */
#include "send.h"
#include "trace.h"

/* Unbind events that the full queues of one device may hold over their limit */
#define KBUS_MAX_EVENTS_ASIDE	1000

static struct kbus_ksock *kbus_plan_ksock(struct kbus_plan *plan)
{
	return container_of(plan, struct kbus_ksock, plan);
}

static struct kbus_plan *kbus_send_plan_for(struct kbus_send *s, struct kbus_ksock *ks,
					    bool is_answer)
{
	struct kbus_plan *plan = &ks->plan;
	struct kbus_queue *q = &ks->q;

	if (plan->is_used)
		return plan;
	plan->is_used = true;
	plan->next = NULL;
	*s->last_plan = plan;
	s->last_plan = &plan->next;
	plan->copies = 0;
	plan->taken = 0;
	plan->charged = 0;
	plan->is_flagged = false;
	plan->is_answer = is_answer;
	spin_lock(&q->lock);
	list_splice_init(&q->freed, &q->free);
	plan->room = kbus_queue_room(q, s->msg->len, is_answer);
	plan->takes_answer = is_answer && kbus_queue_takes_answer(q, s->msg->len);
	plan->has_line = !list_empty(&q->line);
	plan->only_once = READ_ONCE(q->only_once);
	s->wants_time |= READ_ONCE(q->wants_times);
	spin_unlock(&q->lock);
	return plan;
}

/* Put the message into a free slot. There is one for each copy with room, and for an answer. */
static struct kbus_slot *kbus_plan_add(struct kbus_plan *plan, struct kbus_msg *msg, u64 binding)
{
	struct kbus_slot *slot = list_first_entry(&kbus_plan_ksock(plan)->q.free,
						  struct kbus_slot, node);

	refcount_inc(&msg->refs);
	slot->msg = msg;
	slot->request = NULL;
	slot->is_flagged = false;
	slot->binding = binding;
	list_move_tail(&slot->node, &plan->slots);
	return slot;
}

/*
 * A close is never refused: if its event has no room, it is queued over the limit. When
 * there are too many of these, one message says so, and ends the list (rule 32). What
 * gets no slot for lack of memory is only counted.
 */
static void kbus_send_set_aside(struct kbus_send *s, struct kbus_plan *plan, u64 binding)
{
	struct kbus_ksock *ks = kbus_plan_ksock(plan);
	struct kbus_slot *slot;
	bool fits;

	/* What came after the end would be out of order. */
	if (!list_empty(&plan->slots) &&
	    list_last_entry(&plan->slots, struct kbus_slot, node)->ends_events)
		return;
	slot = kbus_slot_extra();
	fits = slot && kbus_user_count(&s->dev->events_aside, KBUS_MAX_EVENTS_ASIDE);
	if (!slot || (!fits && (!s->end || ks->q.events_ended ||
				!kbus_user_charge(ks->user, s->end->cost)))) {
		kfree(slot);
		return;
	}
	list_add(&slot->node, &ks->q.free);
	if (fits) {
		kbus_plan_add(plan, s->msg, binding);
		plan->taken++;
		return;
	}
	slot->ends_events = true;
	kbus_plan_add(plan, s->end, binding);
	spin_lock(&ks->q.lock);
	ks->q.events_ended = true;
	spin_unlock(&ks->q.lock);
	if (kbus_msg_header(s->end)->id.serial_num)
		return;
	kbus_send_set_id(s->dev, s->end);
	s->dev->sent++;
	trace_send(s->dev->index, kbus_msg_header(s->end), s->end->len);
}

static struct kbus_slot *kbus_send_add_copy(struct kbus_send *s, struct kbus_plan *plan,
					    const struct kbus_binding *b)
{
	if (likely(++plan->copies <= plan->room)) {
		plan->taken++;
		return kbus_plan_add(plan, s->msg, b->serial);
	}
	if (s->when_full == KBUS_FULL_ASIDE && b->kind != KBUS_BIND_OBSERVER)
		kbus_send_set_aside(s, plan, b->serial);
	return NULL;
}

static void kbus_send_add_listener(struct kbus_send *s, struct kbus_binding *b)
{
	struct kbus_plan *plan;

	if (b->ks->closing)
		return;
	plan = kbus_send_plan_for(s, b->ks, false);
	if (!plan->only_once) {
		kbus_send_add_copy(s, plan, b);
	} else if (!plan->is_flagged && !plan->is_answer) {
		if (!plan->copies) {
			kbus_send_add_copy(s, plan, b);
			plan->once = b->serial;
		} else if (b->serial > plan->once) {
			/* It came by the newest binding. */
			plan->once = b->serial;
			if (plan->taken)
				list_first_entry(&plan->slots, struct kbus_slot,
						 node)->binding = b->serial;
		}
	}
}

/**
 * kbus_send_plan() - find out who gets copies of a message
 * @s: the message; the device's lock is held
 * @match: the names that its name matches
 * @replier: who is to answer it, or NULL
 *
 * The plan ends with kbus_send_commit() or kbus_send_forget(), under the same lock.
 */
void kbus_send_plan(struct kbus_send *s, struct kbus_name *match, struct kbus_binding *replier)
{
	struct kbus_binding *b;
	struct kbus_plan *plan;
	struct kbus_slot *slot;

	lockdep_assert_held(&s->dev->lock);
	s->plans = NULL;
	s->last_plan = &s->plans;
	if (s->answered) {
		plan = kbus_send_plan_for(s, s->answered->sender, true);
		kbus_plan_add(plan, s->msg, 0);
	}
	if (replier) {
		plan = kbus_send_plan_for(s, replier->ks, false);
		plan->is_flagged = true;
		slot = kbus_send_add_copy(s, plan, replier);
		if (slot) {
			slot->request = s->request;
			slot->is_flagged = true;
		}
	}
	for (; match; match = match->next_match) {
		list_for_each_entry(b, &match->listeners, by_name)
			kbus_send_add_listener(s, b);
	}
}

/* The replier must have a Request, and an observer nothing else. */
static void kbus_plan_set_must(const struct kbus_send *s, struct kbus_plan *plan)
{
	plan->must = plan->is_flagged;
	if (!kbus_plan_ksock(plan)->observes && !plan->is_answer &&
	    (s->when_full == KBUS_FULL_FAIL || s->when_full == KBUS_FULL_WAIT))
		plan->must = plan->copies;
}

/* Take the last copy out of a plan; what ends a list of events stays. */
static void kbus_plan_drop_copy(struct kbus_plan *plan)
{
	struct kbus_slot *slot = list_last_entry(&plan->slots, struct kbus_slot, node);

	while (slot->ends_events)
		slot = list_prev_entry(slot, node);
	refcount_dec(&slot->msg->refs);
	kbus_slot_give_back(&kbus_plan_ksock(plan)->q, slot);
}

/*
 * Charge the recipient's user for what is planned. Copies that it need not have, and for
 * which that has no bytes, it misses. Return false if it must have more.
 */
static bool kbus_plan_charge(struct kbus_send *s, struct kbus_plan *plan)
{
	struct kbus_user *user = kbus_plan_ksock(plan)->user;
	size_t bytes = (size_t)(plan->taken + plan->is_answer) * s->msg->cost;

	/* One of those of the user that wrote the message has it for what that has paid. */
	if (bytes && s->msg->payer == user && !s->is_inherited) {
		s->is_inherited = true;
		bytes -= s->msg->cost;
	}
	while (bytes && !kbus_user_charge(user, bytes)) {
		if (plan->taken <= plan->must)
			return false;
		kbus_plan_drop_copy(plan);
		plan->taken--;
		bytes -= s->msg->cost;
	}
	plan->charged = bytes;
	return true;
}

static int kbus_plan_reserve(struct kbus_send *s, struct kbus_plan *plan)
{
	if (plan->is_answer && !plan->takes_answer && !s->is_status)
		return -ENOBUFS;
	if (s->when_full == KBUS_FULL_WAIT && plan->must &&
	    (plan->has_line || plan->taken < plan->must)) {
		int err = kbus_wait_try(s, plan);

		if (err)
			return err;
	} else if (plan->taken < plan->must) {
		return -EBUSY;
	}
	return kbus_plan_charge(s, plan) ? 0 : -ENOBUFS;
}

/**
 * kbus_send_reserve() - see whether everybody has room who must, and take it
 * @s: a message that is planned
 *
 * Return: 0, or -EBUSY; -ENOBUFS if a user has no bytes left for what a KSock of its
 * must have; -EAGAIN if the sender waits from now on.
 */
int kbus_send_reserve(struct kbus_send *s)
{
	bool others = false;
	struct kbus_plan *plan;
	int err = 0;

	for (plan = s->plans; plan; plan = plan->next) {
		kbus_plan_set_must(s, plan);
		if (!plan->must && !plan->is_answer)
			others = true;
		else if (!err)
			err = kbus_plan_reserve(s, plan);
	}
	/* Those who may do without come last, so that they take no bytes from the others. */
	if (others && !err) {
		for (plan = s->plans; plan; plan = plan->next) {
			if (!plan->must && !plan->is_answer)
				kbus_plan_charge(s, plan);
		}
	}
	if (err != -EAGAIN)
		return err;
	/* What can never fit is refused at once (rule 42). */
	for (plan = s->plans; plan; plan = plan->next) {
		if (kbus_wait_is_hopeless(s, plan))
			return -EBUSY;
	}
	return err;
}

/* Give the message its id, unless it brought one. */
void kbus_send_set_id(struct kbus_dev *dev, struct kbus_msg *msg)
{
	struct kbus_message_header *hdr = kbus_msg_header(msg);

	lockdep_assert_held(&dev->lock);
	if (hdr->id.network_id)
		return;
	dev->last_serial = dev->last_serial + 1 ?: 1;
	hdr->id.serial_num = dev->last_serial;
}

/**
 * kbus_send_commit() - queue all the copies
 * @s: a message that is planned, has an id, and whose plan has room
 */
void kbus_send_commit(struct kbus_send *s)
{
	const struct kbus_message_header *hdr = kbus_msg_header(s->msg);
	struct kbus_plan *plan;

	lockdep_assert_held(&s->dev->lock);
	s->dev->sent++;
	trace_send(s->dev->index, hdr, s->msg->len);
	if (s->wants_time)
		s->msg->queued_at = ktime_get_ns();
	if (s->is_inherited)
		s->msg->payer = NULL;
	else
		kbus_msg_uncharge(s->msg);
	for (plan = s->plans; plan; plan = plan->next) {
		struct kbus_ksock *ks = kbus_plan_ksock(plan);

		kbus_queue_push(&ks->q, &plan->slots, hdr->flags & KBUS_BIT_URGENT,
				plan->is_answer, s->wakes);
		plan->is_used = false;
		if (unlikely(plan->copies != plan->taken)) {
			kbus_queue_miss(&ks->q, plan->copies - plan->taken);
			trace_lost(s->dev->index, ks->id, hdr, plan->copies - plan->taken);
		}
		if (ks->lost_msg)
			kbus_send_report_lost(ks, s->wakes);
	}
}

/* Forget a plan; nothing has changed. */
void kbus_send_forget(struct kbus_send *s)
{
	struct kbus_plan *plan;

	lockdep_assert_held(&s->dev->lock);
	for (plan = s->plans; plan; plan = plan->next) {
		kbus_user_uncharge(kbus_plan_ksock(plan)->user, plan->charged);
		while (!list_empty(&plan->slots))
			kbus_plan_drop_copy(plan);
		plan->is_used = false;
	}
	s->is_inherited = false;
}

/* Tell a KSock what it has missed, if it wants to know and there is room. */
void kbus_send_report_lost(struct kbus_ksock *ks, struct kbus_wakes *wakes)
{
	struct kbus_dev *dev = ks->dev;
	struct kbus_msg *msg = ks->lost_msg;
	struct kbus_queue *q = &ks->q;
	u32 lost = 0;

	lockdep_assert_held(&dev->lock);
	if (!msg || ks->closing)
		return;
	spin_lock(&q->lock);
	list_splice_init(&q->freed, &q->free);
	if (q->report_lost && kbus_queue_room(q, msg->len, false))
		swap(lost, q->lost_unreported);
	spin_unlock(&q->lock);
	if (!lost)
		return;

	kbus_msg_begin(msg, KBUS_NAME_MESSAGES_LOST, ks->id, sizeof(lost));
	kbus_msg_append(msg, &lost, sizeof(lost));
	kbus_msg_finish(msg);
	kbus_send_set_id(dev, msg);
	dev->sent++;
	trace_send(dev->index, kbus_msg_header(msg), msg->len);
	msg->queued_at = READ_ONCE(q->wants_times) ? ktime_get_ns() : 0;
	/* It is charged to the same user already. Whoever reads makes another one. */
	msg->payer = NULL;
	ks->lost_msg = NULL;
	kbus_plan_add(&ks->plan, msg, 0);
	kbus_msg_put(msg);
	kbus_queue_push(q, &ks->plan.slots, false, false, wakes);
}

/* Have ready what the next report of lost messages needs. Return 0, -ENOBUFS or -ENOMEM. */
static int kbus_ksock_prepare_report(struct kbus_ksock *ks)
{
	struct kbus_msg *msg = kbus_msg_synthetic(strlen(KBUS_NAME_MESSAGES_LOST), sizeof(u32),
						  ks->user);

	if (IS_ERR(msg))
		return PTR_ERR(msg);
	spin_lock(&ks->dev->lock);
	if (!ks->lost_msg)
		swap(ks->lost_msg, msg);
	spin_unlock(&ks->dev->lock);
	kbus_msg_put(msg);
	return 0;
}

/* Switch REPORTLOST. Return 0, -ENOBUFS or -ENOMEM. */
int kbus_ksock_report_lost(struct kbus_ksock *ks, bool on)
{
	int err = on ? kbus_ksock_prepare_report(ks) : 0;

	if (err)
		return err;
	spin_lock(&ks->q.lock);
	ks->q.report_lost = on;
	if (!on)
		ks->q.lost_unreported = 0;
	spin_unlock(&ks->q.lock);
	return 0;
}

/* There may be room in this KSock's queue to tell it what it has missed. */
void kbus_ksock_report_losses(struct kbus_ksock *ks)
{
	struct kbus_wakes wakes = KBUS_WAKES();

	if (likely(!READ_ONCE(ks->q.report_lost)))
		return;
	/* Nothing to tell, and all is ready for when there is */
	if (READ_ONCE(ks->lost_msg) && !READ_ONCE(ks->q.lost_unreported))
		return;
	/* Whoever reads the next message tries again if there is no memory. */
	if (!READ_ONCE(ks->lost_msg) && kbus_ksock_prepare_report(ks))
		return;
	spin_lock(&ks->dev->lock);
	kbus_send_report_lost(ks, &wakes);
	spin_unlock(&ks->dev->lock);
	kbus_wakes_flush(&wakes);
}
