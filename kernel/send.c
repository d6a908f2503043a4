// SPDX-License-Identifier: GPL-2.0
/*
 * One message to everybody that it concerns.
 *
 * First comes a plan, made of items from a pool: who gets which copies. Then it
 * is seen whether all of them have room. Only then is anything changed, and
 * nothing can fail any more. All that is one step for everybody else, because
 * the device's lock is held.
 */
#include <linux/sched/signal.h>

#include "kbus.h"

void kbus_send_init(struct kbus_send *s, struct kbus_dev *dev, struct kbus_msg *msg,
		    struct kbus_pool *pool, enum kbus_when_full when_full)
{
	*s = (struct kbus_send) {
		.dev = dev,
		.msg = msg,
		.pool = pool,
		.plan = LIST_HEAD_INIT(s->plan),
		.when_full = when_full,
	};
}

static struct kbus_ksock *kbus_plan_ksock(struct kbus_plan *plan)
{
	return container_of(plan, struct kbus_ksock, plan);
}

static struct kbus_plan *kbus_send_plan_for(struct kbus_send *s, struct kbus_ksock *ks,
					    bool is_answer)
{
	struct kbus_plan *plan = &ks->plan;

	if (!list_empty(&plan->node))
		return plan;
	list_add_tail(&plan->node, &s->plan);
	plan->copies = 0;
	plan->taken = 0;
	plan->has_first = is_answer;
	plan->is_answer = is_answer;
	plan->only_once = READ_ONCE(ks->q.only_once);
	plan->observes = ks->observes;
	spin_lock(&ks->q.lock);
	plan->room = kbus_queue_room(&ks->q, U32_MAX, s->msg->len, is_answer);
	plan->has_line = !list_empty(&ks->q.waiting);
	spin_unlock(&ks->q.lock);
	return plan;
}

/* The next of the items that a message has itself, or NULL */
static struct kbus_item *kbus_item_inside(struct kbus_msg *msg)
{
	struct kbus_item *item;

	if (msg->nr_items_used == KBUS_MSG_ITEMS)
		return NULL;
	item = &msg->items[msg->nr_items_used++];
	kbus_item_init(item);
	return item;
}

/* An item for a copy: one of the message itself, or one of the pool, or NULL */
static struct kbus_item *kbus_send_add_item(struct kbus_send *s, struct kbus_plan *plan)
{
	struct kbus_msg *msg = s->msg;
	struct kbus_item *item = NULL;

	/* What is set aside may come to stand for another message. */
	if (s->when_full != KBUS_FULL_ASIDE)
		item = kbus_item_inside(msg);
	if (!item) {
		s->need++;
		item = kbus_pool_take(s->pool);
		if (!item)
			return NULL;
		s->taken++;
	}
	refcount_inc(&msg->refs);
	item->msg = msg;
	list_add_tail(&item->node, &plan->items);
	return item;
}

/* One more copy, which needs room, if there still is an item for it */
static struct kbus_item *kbus_send_add_copy(struct kbus_send *s, struct kbus_plan *plan,
					    struct kbus_binding *binding)
{
	struct kbus_item *item;

	/* Nobody is to pay for the many copies that a full listener will miss. */
	if (++plan->copies > plan->room &&
	    (s->when_full == KBUS_FULL_MISS || binding->is_observer))
		return NULL;
	item = kbus_send_add_item(s, plan);
	if (item) {
		item->binding = binding;
		plan->taken++;
	}
	return item;
}

static void kbus_send_add_listener(struct kbus_send *s, struct kbus_binding *b)
{
	struct kbus_plan *plan;
	struct kbus_item *item;

	if (b->ks->closing)
		return;
	plan = kbus_send_plan_for(s, b->ks, false);
	if (!plan->only_once) {
		kbus_send_add_copy(s, plan, b);
		return;
	}

	if (plan->has_first)
		return;
	if (!plan->copies) {
		kbus_send_add_copy(s, plan, b);
		plan->once = b->serial;
	} else if (b->serial > plan->once) {
		item = list_first_entry_or_null(&plan->items, struct kbus_item, node);
		if (item)
			item->binding = b;
		plan->once = b->serial;
	}
}

/**
 * kbus_send_plan() - find out who gets copies of a message
 * @s: the message; the device's lock is held
 * @match: the names that its name matches
 * @replier: who is to answer it, or NULL
 * @answered: what it answers, or NULL
 *
 * Return: 0, or -ENOSPC if the pool has too few items and could have more, of
 * which @s->need are needed. Nothing has to be undone but the plan.
 */
int kbus_send_plan(struct kbus_send *s, struct kbus_name *match,
		   struct kbus_binding *replier, struct kbus_request *answered)
{
	struct kbus_binding *b;
	struct kbus_plan *plan;
	struct kbus_item *item;

	lockdep_assert_held(&s->dev->lock);
	s->need = 0;
	s->taken = 0;
	if (answered) {
		/* The first copy, so that the message has the item for it. */
		plan = kbus_send_plan_for(s, answered->sender, true);
		kbus_send_add_item(s, plan);
	}
	if (replier) {
		plan = kbus_send_plan_for(s, replier->ks, false);
		plan->has_first = true;
		item = kbus_send_add_copy(s, plan, replier);
		if (item)
			item->request = s->request;
	}
	for (; match; match = match->next_match) {
		list_for_each_entry(b, &match->listeners, by_name)
			kbus_send_add_listener(s, b);
	}

	return s->taken < s->need && !s->pool->exhausted ? -ENOSPC : 0;
}

/**
 * kbus_send_room() - see whether everybody has room who must have it
 * @s: a message that is planned
 *
 * Return: 0, -EBUSY, or -EAGAIN if the sender waits from now on.
 */
int kbus_send_room(struct kbus_send *s)
{
	struct kbus_plan *plan;

	list_for_each_entry(plan, &s->plan, node) {
		u32 copies = plan->copies;

		/* Of an observer's, only the Request that it must answer is of account. */
		if (plan->observes)
			copies = plan->has_first && !plan->is_answer;
		if (!copies)
			continue;
		if (s->when_full == KBUS_FULL_WAIT) {
			if (plan->room >= copies && !plan->has_line)
				continue;
			if (!kbus_wait_try(s->sender, kbus_plan_ksock(plan), s->msg,
					   copies, s->sleep))
				return -EAGAIN;
			continue;
		}
		if (plan->room >= copies)
			continue;
		if (s->when_full == KBUS_FULL_FAIL)
			return -EBUSY;
		/* A Request has its replier first, and he must get it. */
		if (plan->has_first && !plan->is_answer && !plan->room)
			return -EBUSY;
	}
	return 0;
}

static struct kbus_msg_id kbus_send_next_id(struct kbus_dev *dev)
{
	u32 serial = dev->last_serial + 1;

	return (struct kbus_msg_id) { .serial_num = serial ? serial : 1 };
}

/* Give the message its id, unless it brought one. */
void kbus_send_set_id(struct kbus_dev *dev, struct kbus_msg *msg)
{
	struct kbus_message_header *hdr = kbus_msg_header(msg);

	lockdep_assert_held(&dev->lock);
	if (hdr->id.network_id)
		return;
	hdr->id = kbus_send_next_id(dev);
	dev->last_serial = hdr->id.serial_num;
}

/**
 * kbus_send_commit() - queue all the copies
 * @s: a message that is planned, has an id, and whose plan has room
 */
void kbus_send_commit(struct kbus_send *s)
{
	bool urgent = kbus_msg_header(s->msg)->flags & KBUS_BIT_URGENT;
	struct kbus_plan *plan, *next;

	lockdep_assert_held(&s->dev->lock);
	s->dev->sent++;
	list_for_each_entry(plan, &s->plan, node) {
		struct kbus_ksock *ks = kbus_plan_ksock(plan);

		kbus_queue_push(&ks->q, &plan->items, urgent, plan->is_answer);
		kbus_queue_miss(&ks->q, plan->copies - plan->taken);
	}
	kbus_msg_uncharge(s->msg);
	list_for_each_entry_safe(plan, next, &s->plan, node) {
		list_del_init(&plan->node);
		if (kbus_plan_ksock(plan)->lost_msg)
			kbus_send_report_lost(kbus_plan_ksock(plan));
	}
	if (!s->more)
		kbus_queue_wake_readers(s->dev);
}

/* Forget a plan; items that have not been queued go back to the pool. */
void kbus_send_forget(struct kbus_send *s)
{
	struct kbus_plan *plan, *next;
	struct kbus_item *item, *n;

	list_for_each_entry_safe(plan, next, &s->plan, node) {
		list_for_each_entry_safe(item, n, &plan->items, node)
			kbus_pool_give(s->pool, item);
		list_del_init(&plan->node);
	}
}

/* Tell a KSock what it has missed, if it wants to know and there is room. */
void kbus_send_report_lost(struct kbus_ksock *ks)
{
	struct kbus_msg *msg = ks->lost_msg;
	struct kbus_item *item;
	LIST_HEAD(items);
	u32 lost;

	lockdep_assert_held(&ks->dev->lock);
	if (!msg || ks->closing)
		return;
	spin_lock(&ks->q.lock);
	lost = ks->q.lost_unreported;
	if (!ks->q.report_lost || !kbus_queue_room(&ks->q, 1, msg->len, false))
		lost = 0;
	if (lost)
		ks->q.lost_unreported = 0;
	spin_unlock(&ks->q.lock);
	if (!lost)
		return;

	kbus_msg_begin(msg, KBUS_NAME_MESSAGES_LOST, ks->id, sizeof(lost));
	kbus_msg_append_bytes(msg, &lost, sizeof(lost));
	kbus_msg_finish(msg);
	kbus_send_set_id(ks->dev, msg);
	ks->dev->sent++;
	item = kbus_item_inside(msg);
	item->msg = msg;
	list_add(&item->node, &items);
	/* If there is no memory now, whoever reads will try again. */
	ks->lost_msg = kbus_msg_synthetic_now(strlen(KBUS_NAME_MESSAGES_LOST), sizeof(u32));
	kbus_queue_push(&ks->q, &items, false, false);
}

/* What can be wrong with a whole message that write() does not look at */
static int kbus_send_check_form(const struct kbus_msg *msg, struct kbus_route *route,
				bool *by_route)
{
	const struct kbus_message_header *hdr = kbus_msg_header(msg);
	const char *name = kbus_msg_name(msg);

	*by_route = kbus_route_is_for(route, name, hdr->name_len);
	if (*by_route)
		return 0;
	if (kbus_name_check(name, hdr->name_len) ||
	    kbus_name_wildcard(name, hdr->name_len))
		return -EBADMSG;
	if (kbus_name_is_kbus(name, hdr->name_len))
		return kbus_msg_is_reply(hdr) ? 0 : -EACCES;
	*by_route = kbus_route_set(route, name, hdr->name_len);
	return 0;
}

/* Send the message if that is possible now; the errors are SEND's, in its order. */
static int kbus_send_try(struct kbus_send *s)
{
	struct kbus_message_header *hdr = kbus_msg_header(s->msg);
	struct kbus_ksock *ks = s->sender;
	struct kbus_request *answered = NULL;
	struct kbus_binding *replier = NULL;
	u32 last_serial = s->dev->last_serial;
	struct kbus_name *match;
	int err;

	match = s->by_route ? kbus_route_match(s->dev, &ks->route) :
		kbus_name_match(s->dev, kbus_msg_name(s->msg), hdr->name_len);
	if (s->request) {
		if (kbus_request_is_one_too_many(ks, &hdr->id) ||
		    !kbus_queue_set_slot_aside(&ks->q))
			return -ENOLCK;
		replier = kbus_match_replier(match);
		err = -EADDRNOTAVAIL;
		if (!replier)
			goto release_slot;
		err = -EPIPE;
		if (hdr->to && hdr->to != replier->ks->id)
			goto release_slot;
	} else if (kbus_msg_is_reply(hdr)) {
		answered = kbus_request_find(ks, hdr);
		if (!answered)
			return -ECONNREFUSED;
		if (!answered->sender) {
			kbus_request_end(s->dev, answered);
			return -EADDRNOTAVAIL;
		}
	}

	err = kbus_send_plan(s, match, replier, answered);
	if (!err && s->taken < s->need)
		err = -ENOMEM;
	if (!err)
		err = kbus_send_room(s);
	if (err)
		goto forget;

	kbus_send_set_id(s->dev, s->msg);
	if (s->request) {
		err = kbus_request_link(s->request, ks, replier->ks, &hdr->id);
		if (err) {
			s->dev->last_serial = last_serial;
			goto forget;
		}
		/* The first item planned is the flagged copy. */
		s->request->item = list_first_entry(&replier->ks->plan.items,
						    struct kbus_item, node);
		s->request = NULL;
	}
	kbus_send_commit(s);
	if (answered)
		kbus_request_end(s->dev, answered);
	return 0;
forget:
	kbus_send_forget(s);
release_slot:
	if (s->request)
		kbus_queue_release_slot(&ks->q);
	return err;
}

/* Did the message get as far as to use a serial number? */
static bool kbus_send_used_serial(int err)
{
	return !kbus_send_is_kept(err) && err != -ENOMEM && err != -ENOMSG;
}

static bool kbus_send_may_try(struct kbus_ksock *ks)
{
	return READ_ONCE(ks->wait.ready);
}

/* Sleep until another try makes sense; out_lock and the device's lock are held. */
static int kbus_send_sleep(struct kbus_ksock *ks, ktime_t until)
{
	u64 serial = ks->out_serial;
	int err;

	kbus_queue_wake_readers(ks->dev);
	mutex_unlock(&ks->dev->lock);
	mutex_unlock(&ks->out_lock);
	err = kbus_wait_until(ks, kbus_send_may_try, until);
	mutex_lock(&ks->out_lock);
	mutex_lock(&ks->dev->lock);
	kbus_wait_woke(ks);
	if (ks->out_serial != serial)
		return -ENOMSG;
	return err;
}

static int kbus_send_or_wait(struct kbus_send *s)
{
	struct kbus_ksock *ks = s->sender;
	int err;

	mutex_lock(&s->dev->lock);
	for (;;) {
		err = kbus_send_try(s);
		if (err == -ENOSPC) {
			mutex_unlock(&s->dev->lock);
			kbus_pool_fill(s->pool, s->need);
			mutex_lock(&s->dev->lock);
			continue;
		}
		if (err != -EAGAIN || !s->sleep)
			break;
		err = kbus_send_sleep(ks, s->until);
		/* After ENOMSG, the message may be no more. */
		if (err)
			break;
	}

	if (!err)
		ks->sent++;
	else if (kbus_send_used_serial(err))
		kbus_send_set_id(s->dev, s->msg);
	/* After ENOMSG too: if another message waits now, this task sleeps for it no more. */
	if (kbus_send_is_kept(err) || err == -ENOMSG)
		kbus_wait_move_on(ks);
	else
		kbus_wait_end(ks);
	mutex_unlock(&s->dev->lock);
	return err;
}

/* SEND of what is in @ks->out; out_lock is held. With @more, readers are not woken. */
static int kbus_send_out(struct kbus_ksock *ks, bool more, ktime_t until,
			 struct kbus_msg_id *id)
{
	struct kbus_msg *msg = ks->out;
	struct kbus_message_header *hdr;
	u64 serial = ks->out_serial;
	bool by_route = false;
	struct kbus_pool pool;
	struct kbus_send s __uninitialized;
	int err;

	lockdep_assert_held(&ks->out_lock);
	if (!msg || msg->filled < msg->len)
		err = -EINVAL;
	else
		err = kbus_send_check_form(msg, &ks->route, &by_route);
	if (err)
		goto drop;

	hdr = kbus_msg_header(msg);
	kbus_pool_init(&pool);
	kbus_send_init(&s, ks->dev, msg, &pool, KBUS_FULL_MISS);
	s.sender = ks;
	s.by_route = by_route;
	s.more = more;
	s.sleep = until > 0;
	s.until = until;
	/* Replies ignore both flags. */
	if (!kbus_msg_is_reply(hdr) && hdr->flags & KBUS_BIT_ALL_OR_WAIT)
		s.when_full = KBUS_FULL_WAIT;
	else if (!kbus_msg_is_reply(hdr) && hdr->flags & KBUS_BIT_ALL_OR_FAIL)
		s.when_full = KBUS_FULL_FAIL;
	hdr->from = ks->id;
	hdr->flags &= ~(KBUS_BIT_SYNTHETIC | KBUS_BIT_WANT_YOU_TO_REPLY);

	if (kbus_msg_is_request(hdr))
		s.request = kbus_request_new(ks->user);
	if (IS_ERR(s.request)) {
		err = PTR_ERR(s.request);
		s.request = NULL;
	} else {
		kbus_pool_fill(&pool, ks->last_need);
		err = kbus_send_or_wait(&s);
		ks->last_need = s.need;
		if (!err || kbus_send_used_serial(err)) {
			ks->last_sent = hdr->id;
			*id = hdr->id;
		}
	}
	kbus_request_free(s.request);
	kbus_pool_free(&pool);
	if (kbus_send_is_kept(err))
		return err;
	if (err)
		kbus_verbose(ks->dev, "KSock %u: SEND fails: %d\n", ks->id, err);
drop:
	if (ks->out_serial == serial)
		kbus_ksock_drop_out(ks);
	return err;
}

static void kbus_send_wake_readers(struct kbus_dev *dev)
{
	mutex_lock(&dev->lock);
	kbus_queue_wake_readers(dev);
	mutex_unlock(&dev->lock);
}

/**
 * kbus_send() - SEND: send the message that this KSock has written
 * @ks: the KSock
 * @until: when to stop waiting for room, see kbus_wait_until()
 * @id: out: the message's id
 *
 * Return: 0, or a negative errno as listed at KBUS_IOC_SEND.
 */
int kbus_send(struct kbus_ksock *ks, ktime_t until, struct kbus_msg_id *id)
{
	int err = -ENOMSG;

	mutex_lock(&ks->out_lock);
	if (ks->out || ks->out_begin_len)
		err = kbus_send_out(ks, false, until, id);
	mutex_unlock(&ks->out_lock);
	return err;
}

/**
 * kbus_send_waiting() - send the message of this KSock that waits for room
 * @ks: the KSock
 * @until: when to stop waiting for room
 * @id: out: the message's id
 *
 * Return: 0, -ENOMSG if none does, or a negative errno of SEND.
 */
int kbus_send_waiting(struct kbus_ksock *ks, ktime_t until, struct kbus_msg_id *id)
{
	int err = -ENOMSG;

	mutex_lock(&ks->out_lock);
	if (ks->wait.since)
		err = kbus_send_out(ks, false, until, id);
	mutex_unlock(&ks->out_lock);
	return err;
}

/**
 * kbus_send_msgs() - send messages that have been checked as far as write() does
 * @ks: the KSock
 * @msgs: the messages, whose references are taken over
 * @count: how many
 * @until: when to stop waiting for room
 * @ids: out: the ids of those that were sent
 * @sent: out: how many were
 *
 * Return: 0, -EALREADY if another message has been written, or a negative errno
 * of SEND of the first one that could not be sent.
 */
int kbus_send_msgs(struct kbus_ksock *ks, struct kbus_msg **msgs, unsigned int count,
		   ktime_t until, struct kbus_msg_id *ids, unsigned int *sent)
{
	unsigned int i;
	int err = 0;

	mutex_lock(&ks->out_lock);
	for (i = 0; i < count && !err; i++) {
		err = -EALREADY;
		if (ks->out || ks->out_begin_len)
			break;
		ks->out = msgs[i];
		err = kbus_send_out(ks, i < count - 1, until, &ids[i]);
	}
	mutex_unlock(&ks->out_lock);
	*sent = err && err != -EALREADY ? i - 1 : i;
	if (err && *sent)
		kbus_send_wake_readers(ks->dev);
	for (; i < count; i++)
		kbus_msg_put(msgs[i]);
	return err;
}
