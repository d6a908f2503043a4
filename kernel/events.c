// SPDX-License-Identifier: GPL-2.0
/*
 * Binding and unbinding, and the events that tell of repliers that come and go.
 *
 * An event that finds a listener full stops a BIND or UNBIND. It cannot stop a
 * close, so it is queued over the listener's limit then, in its place in the
 * order; there is a limit on how many a device may have of these.
 */
#include <linux/slab.h>

#include "kbus.h"
#include "trace.h"

/* A KBUS_NAME_REPLIER_BIND_EVENT, without an id so far, or NULL */
struct kbus_msg *kbus_event_new(bool is_bind, struct kbus_ksock *binder, const char *name,
				size_t len)
{
	const struct kbus_bind_event event = {
		.is_bind = is_bind, .binder = binder->id, .name_len = len,
	};
	const size_t data_len = sizeof(event) + ALIGN(len, 4);
	struct kbus_msg *msg;

	msg = kbus_msg_synthetic(strlen(KBUS_NAME_REPLIER_BIND_EVENT), data_len,
				 binder->group);
	if (!msg)
		return NULL;
	kbus_msg_begin(msg, KBUS_NAME_REPLIER_BIND_EVENT, 0, data_len);
	kbus_msg_append_bytes(msg, &event, sizeof(event));
	kbus_msg_append_bytes(msg, name, len);
	kbus_msg_append_padding(msg, len);
	kbus_msg_finish(msg);
	return msg;
}

/* Plan an event; the errors are kbus_send_plan()'s. */
static int kbus_event_plan(struct kbus_send *s)
{
	static const char name[] = KBUS_NAME_REPLIER_BIND_EVENT;

	return kbus_send_plan(s, kbus_name_match(s->dev, name, sizeof(name) - 1), NULL);
}

/* Take the device's lock to bind or to unbind. */
static void kbus_event_lock(struct kbus_dev *dev)
	__acquires(&dev->lock)
{
	spin_lock(&dev->lock);
	while (dev->is_frozen) {
		spin_unlock(&dev->lock);
		wait_event(dev->thaw, !READ_ONCE(dev->is_frozen));
		spin_lock(&dev->lock);
	}
}

/*
 * Plan the event of a bind or unbind that has not happened yet. Return 0,
 * -EAGAIN if a listener is full, -ENOMEM, or -ENOSPC if the locks were dropped
 * to get what it lacks, so that all must be looked at again.
 */
static int kbus_event_prepare(struct kbus_send *s)
	__must_hold(&s->dev->lock)
{
	struct kbus_dev *dev = s->dev;
	int err = kbus_event_plan(s);

	if (err) {
		kbus_send_forget(s);
		spin_unlock(&dev->lock);
		kbus_send_supply(s);
		kbus_event_lock(dev);
		return err;
	}
	if (s->lacks_at_home)
		err = -ENOMEM;
	else if (kbus_send_reserve(s))
		err = -EAGAIN;
	if (err)
		kbus_send_forget(s);
	return err;
}

static void kbus_event_commit(struct kbus_send *s)
{
	kbus_send_set_id(s->dev, s->home.msg);
	kbus_send_commit(s);
}

static int kbus_bind_locked(struct kbus_binding *b, struct kbus_send *s)
{
	struct kbus_dev *dev = b->ks->dev;
	struct kbus_name *name;
	bool told;
	int err;

	do {
		name = kbus_name_find(dev, b->name->name, b->name->len, b->name->hash);
		if (b->is_replier && name && name->replier)
			return -EADDRINUSE;
		/* All that a KSock listens to it does as an observer, or nothing. */
		if (!b->is_replier && b->ks->nr_listening &&
		    b->ks->observes != b->is_observer)
			return -EINVAL;
		err = kbus_binding_count(b, name);
		told = b->is_replier && dev->report_binds;
		if (!err && told)
			err = kbus_event_prepare(s);
	} while (told && err == -ENOSPC && b->is_counted);
	if (err)
		return err;

	err = kbus_binding_link(b);
	if (!told)
		return err;
	if (err)
		kbus_send_forget(s);
	else
		kbus_event_commit(s);
	return err;
}

/**
 * kbus_bind() - BIND, as far as it does not concern user memory
 * @ks: who binds
 * @name: a legal name
 * @len: its length
 * @kind: KBUS_BIND_*
 *
 * Return: 0, or a negative errno as listed at KBUS_IOC_BIND.
 */
int kbus_bind(struct kbus_ksock *ks, const char *name, size_t len, u32 kind)
{
	const bool is_replier = kind == KBUS_BIND_REPLIER;
	struct kbus_dev *dev = ks->dev;
	struct kbus_msg *event = NULL;
	struct kbus_wakes wakes __uninitialized;
	struct kbus_binding *b;
	struct kbus_pool pool;
	struct kbus_send s;
	int err = -ENOMEM;

	b = kbus_binding_new(ks, name, len, is_replier);
	if (IS_ERR(b)) {
		trace_bind(dev->index, ks->id, true, kind, PTR_ERR(b), name, len);
		return PTR_ERR(b);
	}
	b->is_observer = kind == KBUS_BIND_OBSERVER;
	kbus_pool_init(&pool);
	kbus_wakes_init(&wakes);
	if (is_replier) {
		event = kbus_event_new(true, ks, name, len);
		if (!event)
			goto free;
	}
	kbus_send_init(&s, dev, ks->group, event, &pool, KBUS_FULL_FAIL, &wakes);

	kbus_event_lock(dev);
	err = kbus_bind_locked(b, &s);
	spin_unlock(&dev->lock);
	kbus_send_end(&s);
	kbus_wakes_end(&wakes);
	if (!err && is_replier) {
		kbus_wait_wake_requests(dev, name, len);
	} else if (!err) {
		/* Its limits may be those of an observer no more. */
		kbus_ksock_settle(ks);
		kbus_wait_wake_bound(ks, name, len);
	}
	if (!err)
		kbus_verbose(dev, "KSock %u is bound as %s for %.*s\n", ks->id,
			     is_replier ? "replier" : "listener", (int)len, name);
free:
	if (err)
		trace_bind(dev->index, ks->id, true, kind, err, name, len);
	kbus_msg_put(event);
	kbus_pool_free(&pool);
	if (err)
		kbus_binding_free(b);
	return err;
}

/*
 * Take unread copies that came by a binding, which brings no more of them, out of
 * the queue. Return whether there may be others.
 */
static bool kbus_binding_take_unread(struct kbus_binding *b, struct list_head *items,
				     struct list_head *requests, struct kbus_wakes *wakes)
{
	struct kbus_queue *q = &b->ks->q;
	struct kbus_item *item, *next;
	unsigned int count = 0;

	lockdep_assert_held(&b->ks->dev->lock);
	spin_lock(&q->lock);
	list_for_each_entry_safe(item, next, &b->items, by_binding) {
		struct kbus_request *req = item->request;

		if (count++ == KBUS_STEP)
			break;
		kbus_queue_detach(q, item);
		list_add_tail(&item->node, items);
		if (!req)
			continue;
		item->request = NULL;
		req->replier = NULL;
		b->ks->nr_owed--;
		list_move_tail(&req->by_replier, requests);
	}
	kbus_queue_unlock(q, wakes);
	return count > KBUS_STEP;
}

/* Take all of them, in steps, and free them. */
static void kbus_binding_drop_unread(struct kbus_binding *b, struct list_head *requests)
{
	struct kbus_dev *dev = b->ks->dev;
	struct kbus_item *item, *next;
	struct kbus_wakes wakes __uninitialized;
	bool more;

	kbus_wakes_init(&wakes);
	do {
		LIST_HEAD(items);

		spin_lock(&dev->lock);
		more = kbus_binding_take_unread(b, &items, requests, &wakes);
		spin_unlock(&dev->lock);
		kbus_wakes_flush(&wakes);
		list_for_each_entry_safe(item, next, &items, node) {
			list_del(&item->node);
			kbus_copy_put(b->ks->user, item);
		}
		cond_resched();
	} while (more);
	kbus_wakes_end(&wakes);
}

/**
 * kbus_unbind() - UNBIND, as far as it does not concern user memory
 * @ks: who unbinds
 * @name: a legal name
 * @len: its length
 * @kind: KBUS_BIND_*
 *
 * Return: 0, or a negative errno as listed at KBUS_IOC_UNBIND.
 */
int kbus_unbind(struct kbus_ksock *ks, const char *name, size_t len, u32 kind)
{
	const bool is_replier = kind == KBUS_BIND_REPLIER;
	struct kbus_dev *dev = ks->dev;
	const u32 hash = kbus_name_hash(dev, name, len);
	LIST_HEAD(requests);
	struct kbus_wakes wakes __uninitialized;
	struct kbus_binding *b;
	struct kbus_pool pool;
	struct kbus_send s;
	struct kbus_msg *event;
	bool told;
	int err;

again:
	event = NULL;
	kbus_pool_init(&pool);
	kbus_wakes_init(&wakes);
	kbus_send_init(&s, dev, ks->group, NULL, &pool, KBUS_FULL_FAIL, &wakes);
	kbus_event_lock(dev);
	do {
		b = kbus_binding_find(ks, name, len, hash, is_replier);
		err = b && (is_replier || b->is_observer == (kind == KBUS_BIND_OBSERVER)) ?
			0 : -EINVAL;
		told = !err && is_replier && dev->report_binds;
		if (!told)
			break;
		if (!event) {
			event = b->unbind_event;
			refcount_inc(&event->refs);
			s.home.msg = event;
		}
		/* While the locks were dropped, another may have come in its place. */
		err = event == b->unbind_event ? kbus_event_prepare(&s) : -ESTALE;
	} while (err == -ENOSPC);
	if (!err) {
		kbus_binding_unlink(b);
		if (told)
			kbus_event_commit(&s);
	}
	spin_unlock(&dev->lock);
	kbus_send_end(&s);
	kbus_pool_free(&pool);
	kbus_wakes_end(&wakes);
	kbus_msg_put(event);
	if (err == -ESTALE)
		goto again;
	if (err) {
		trace_bind(dev->index, ks->id, false, kind, err, name, len);
		return err;
	}

	kbus_binding_drop_unread(b, &requests);
	kbus_wait_wake_unbound(ks, name, len);
	if (is_replier)
		kbus_wait_wake_requests(dev, name, len);
	kbus_requests_fail(dev, &requests, KBUS_NAME_REPLIER_UNBOUND);
	kbus_binding_free(b);
	kbus_ksock_report_losses(ks);
	kbus_verbose(dev, "KSock %u is unbound as %s for %.*s\n", ks->id,
		     is_replier ? "replier" : "listener", (int)len, name);
	return 0;
}

/* Make an item that stands for an event too many say so instead, once a queue. */
static bool kbus_event_end_list(struct kbus_plan *plan, struct kbus_item *item,
				struct kbus_msg *end)
{
	struct kbus_queue *q = &kbus_plan_ksock(plan)->q;
	bool first;

	if (!end)
		return false;
	spin_lock(&q->lock);
	first = !q->events_ended;
	q->events_ended = true;
	spin_unlock(&q->lock);
	if (!first)
		return false;

	plan->bytes -= kbus_item_cost(item);
	kbus_msg_put(item->msg);
	refcount_inc(&end->refs);
	item->msg = end;
	plan->bytes += kbus_item_cost(item);
	item->ends_events = true;
	return true;
}

/*
 * Make room in the plan of a close's event for the listeners that have none.
 * Return whether @end is in it.
 */
static bool kbus_event_set_aside(struct kbus_send *s, struct kbus_msg *end)
{
	struct kbus_plan *plan;
	bool ended = false;

	list_for_each_entry(plan, &s->plan, node) {
		struct kbus_item *item, *next;
		u32 i = 0;

		list_for_each_entry_safe(item, next, &plan->items, node) {
			if (i++ < plan->room)
				continue;
			if (kbus_user_count(&s->dev->events_aside, KBUS_MAX_EVENTS_ASIDE)) {
				item->is_aside = true;
			} else if (kbus_event_end_list(plan, item, end)) {
				/* It is queued, but not the event. */
				plan->taken--;
				ended = true;
			} else {
				kbus_send_drop_copy(plan, item);
			}
		}
	}
	return ended;
}

/*
 * Tell of an unbind by a close, and that there are more of them if @end has to
 * say so. Return 0, or -ENOSPC if @s lacks something.
 */
static int kbus_event_close(struct kbus_send *s, struct kbus_msg *end)
{
	int err = kbus_event_plan(s);

	if (err) {
		kbus_send_forget(s);
		return err;
	}
	kbus_send_set_id(s->dev, s->home.msg);
	if (kbus_event_set_aside(s, end)) {
		kbus_send_set_id(s->dev, end);
		s->dev->sent++;
		trace_send(s->dev->index, kbus_msg_header(end), end->len);
	}
	kbus_send_commit(s);
	return 0;
}

/* The copies that came by a binding stay, but it goes. */
static void kbus_binding_disown_items(struct kbus_binding *b)
{
	struct kbus_item *item;
	unsigned int count = 0;

	spin_lock(&b->ks->q.lock);
	while ((item = list_first_entry_or_null(&b->items, struct kbus_item, by_binding))) {
		list_del_init(&item->by_binding);
		item->binding = NULL;
		if (++count % KBUS_STEP)
			continue;
		spin_unlock(&b->ks->q.lock);
		cond_resched();
		spin_lock(&b->ks->q.lock);
	}
	spin_unlock(&b->ks->q.lock);
}

static struct kbus_msg *kbus_events_lost_new(const struct kbus_group *group)
{
	struct kbus_msg *msg = kbus_msg_synthetic(strlen(KBUS_NAME_UNBIND_EVENTS_LOST), 0,
						  group);

	if (!msg)
		return NULL;
	kbus_msg_begin(msg, KBUS_NAME_UNBIND_EVENTS_LOST, 0, 0);
	kbus_msg_finish(msg);
	return msg;
}

/*
 * Tell of the unbinding of a KSock's oldest binding, if that is to be told. The
 * locks may be dropped before it is told, but not after. Return whether @s has been
 * used, and must be ended.
 */
static bool kbus_event_close_oldest(struct kbus_ksock *ks, struct kbus_send *s,
				    struct kbus_pool *pool, struct kbus_msg **end,
				    struct kbus_wakes *wakes)
	__must_hold(&ks->dev->lock)
{
	struct kbus_dev *dev = ks->dev;
	bool is_ready = false;

	for (;;) {
		struct kbus_binding *b = list_last_entry(&ks->bindings, struct kbus_binding,
							 by_ksock);

		if (!b->is_replier || !dev->report_binds ||
		    (is_ready && !kbus_event_close(s, *end)))
			return is_ready;
		spin_unlock(&dev->lock);
		if (is_ready) {
			kbus_send_supply(s);
		} else {
			*end = kbus_events_lost_new(ks->group);
			kbus_send_init(s, dev, ks->group, b->unbind_event, pool,
				       KBUS_FULL_ASIDE, wakes);
			is_ready = true;
		}
		kbus_event_lock(dev);
	}
}

/* The KSock closes: undo its bindings, the oldest first, whatever happens. */
void kbus_unbind_all(struct kbus_ksock *ks)
{
	struct kbus_dev *dev = ks->dev;
	struct kbus_wakes wakes __uninitialized;
	struct kbus_pool pool;

	kbus_pool_init(&pool);
	kbus_wakes_init(&wakes);
	kbus_event_lock(dev);
	while (!list_empty(&ks->bindings)) {
		struct kbus_msg *end = NULL;
		struct kbus_binding *b;
		struct kbus_send s;
		bool told;

		told = kbus_event_close_oldest(ks, &s, &pool, &end, &wakes);
		b = list_last_entry(&ks->bindings, struct kbus_binding, by_ksock);
		kbus_binding_unlink(b);
		/* One at a time, so that nobody has to wait for all of them. */
		spin_unlock(&dev->lock);
		if (told)
			kbus_send_end(&s);
		kbus_msg_put(end);
		kbus_wakes_flush(&wakes);
		if (b->is_replier)
			kbus_wait_wake_requests(dev, b->name->name, b->name->len);
		kbus_binding_disown_items(b);
		kbus_binding_free(b);
		cond_resched();
		kbus_event_lock(dev);
	}
	spin_unlock(&dev->lock);
	kbus_pool_free(&pool);
	kbus_wakes_end(&wakes);
	kbus_wait_need_less(ks);
}
