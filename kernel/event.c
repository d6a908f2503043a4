// SPDX-License-Identifier: GPL-2.0
/*
 * Binding and unbinding, and the events that tell of repliers that come and go.
 *
 * An event that finds a listener full stops a BIND or UNBIND. It cannot stop a
 * close, so it is queued over the listener's limit then, in its place in the
 * order; there is a limit on how many a device may have of these.
 */
#include <linux/slab.h>

#include "send.h"
#include "trace.h"

/* A KBUS_NAME_REPLIER_BIND_EVENT, without an id so far. Return 0, -ENOBUFS or -ENOMEM. */
static int kbus_event_new(struct kbus_msg **made, bool is_bind, const struct kbus_binding *b)
{
	const struct kbus_bind_event event = {
		.is_bind = is_bind, .binder = b->ks->id, .name_len = b->name->len,
	};
	const size_t data_len = sizeof(event) + ALIGN(event.name_len, 4);
	struct kbus_msg *msg;

	msg = kbus_msg_synthetic(strlen(KBUS_NAME_REPLIER_BIND_EVENT), data_len, b->ks->user);
	if (IS_ERR(msg))
		return PTR_ERR(msg);
	kbus_msg_begin(msg, KBUS_NAME_REPLIER_BIND_EVENT, 0, data_len);
	kbus_msg_append(msg, &event, sizeof(event));
	kbus_msg_append(msg, b->name->name, event.name_len);
	kbus_msg_append_padding(msg, event.name_len);
	kbus_msg_finish(msg);
	*made = msg;
	return 0;
}

/* Likewise, a KBUS_NAME_UNBIND_EVENTS_LOST */
static int kbus_events_lost_new(struct kbus_msg **made, struct kbus_user *payer)
{
	struct kbus_msg *msg = kbus_msg_synthetic(strlen(KBUS_NAME_UNBIND_EVENTS_LOST), 0,
						  payer);

	if (IS_ERR(msg))
		return PTR_ERR(msg);
	kbus_msg_begin(msg, KBUS_NAME_UNBIND_EVENTS_LOST, 0, 0);
	kbus_msg_finish(msg);
	*made = msg;
	return 0;
}

/* Plan an event. Return 0, or -EAGAIN if a listener is full, with nothing planned. */
static int kbus_event_plan(struct kbus_send *s)
{
	static const char name[] = KBUS_NAME_REPLIER_BIND_EVENT;

	kbus_send_plan(s, kbus_name_match(s->dev, name, sizeof(name) - 1), NULL);
	if (!kbus_send_reserve(s))
		return 0;
	kbus_send_forget(s);
	return -EAGAIN;
}

static void kbus_event_commit(struct kbus_send *s)
{
	kbus_send_set_id(s->dev, s->msg);
	kbus_send_commit(s);
}

/* Put a binding in force, and tell of it. */
static int kbus_bind_and_tell(struct kbus_binding *b, struct kbus_send *s)
{
	const bool told = b->kind == KBUS_BIND_REPLIER && s->dev->report_binds;
	int err = 0;

	spin_lock(&s->dev->lock);
	if (told)
		err = kbus_event_plan(s);
	if (!err) {
		err = kbus_binding_link(b);
		if (told && err)
			kbus_send_forget(s);
		else if (told)
			kbus_event_commit(s);
	}
	spin_unlock(&s->dev->lock);
	return err;
}

static int kbus_bind_locked(struct kbus_binding *b, struct kbus_send *s)
{
	struct kbus_name *name;
	int err;

	lockdep_assert_held(&s->dev->bind_lock);
	name = kbus_name_find(s->dev, b->name->name, b->name->len);
	if (b->kind == KBUS_BIND_REPLIER) {
		if (name && name->replier)
			return -EADDRINUSE;
	} else if (b->ks->nr_listening && b->ks->observes != (b->kind == KBUS_BIND_OBSERVER)) {
		/* All that a KSock listens to it does as an observer, or nothing. */
		return -EINVAL;
	}
	err = kbus_binding_count(b, name);
	return err ?: kbus_bind_and_tell(b, s);
}

/* BIND of a legal name, as @kind says: KBUS_BIND_*. The errors are those of KBUS_IOC_BIND. */
int kbus_bind(struct kbus_ksock *ks, const char *name, size_t len, u32 kind)
{
	const bool is_replier = kind == KBUS_BIND_REPLIER;
	struct kbus_wakes wakes = KBUS_WAKES();
	struct kbus_send s = { .dev = ks->dev, .when_full = KBUS_FULL_FAIL, .wakes = &wakes };
	struct kbus_binding *b = kbus_binding_new(ks, name, len, kind);
	int err = PTR_ERR_OR_ZERO(b);

	if (!err && is_replier)
		err = kbus_event_new(&s.msg, true, b) ?:
		      kbus_event_new(&b->unbind_event, false, b) ?:
		      kbus_events_lost_new(&b->events_lost, ks->user);
	if (!err) {
		mutex_lock(&ks->dev->bind_lock);
		err = kbus_bind_locked(b, &s);
		mutex_unlock(&ks->dev->bind_lock);
		kbus_wakes_flush(&wakes);
	}
	kbus_msg_put(s.msg);
	if (err) {
		if (!IS_ERR(b))
			kbus_binding_free(b);
		trace_bind(ks->dev->index, ks->id, true, kind, err, name, len);
		return err;
	}
	kbus_waits_retry(ks, is_replier, name, len);
	kbus_verbose(ks->dev, "KSock %u is bound as %s for %.*s\n", ks->id,
		     is_replier ? "replier" : "listener", (int)len, name);
	return 0;
}

/* Drop unread copies that came by a binding, and take the Requests among them. */
static void kbus_binding_drop_unread(struct kbus_binding *b, struct kbus_msg **dead,
				     struct list_head *requests, struct kbus_wakes *wakes)
{
	struct kbus_queue *q = &b->ks->q;
	struct kbus_slot *slot, *next;
	struct kbus_msg *msg;

	lockdep_assert_held(&b->ks->dev->lock);
	spin_lock(&q->lock);
	list_for_each_entry_safe(slot, next, &q->copies, node) {
		if (slot->binding != b->serial)
			continue;
		if (slot->request)
			kbus_request_disown(slot->request, requests);
		msg = kbus_queue_take(q, slot);
		kbus_user_uncharge(b->ks->user, msg->cost);
		kbus_msg_put_later(msg, dead);
	}
	kbus_queue_unlock(q, wakes);
}

/* Find the binding, and undo it. Return it, or an ERR_PTR() with nothing changed. */
static struct kbus_binding *kbus_unbind_locked(struct kbus_ksock *ks, const char *name,
					       size_t len, u32 kind, struct kbus_msg **dead,
					       struct list_head *requests,
					       struct kbus_wakes *wakes)
{
	struct kbus_dev *dev = ks->dev;
	struct kbus_send s = { .dev = dev, .when_full = KBUS_FULL_FAIL, .wakes = wakes };
	struct kbus_binding *b = kbus_binding_find(ks, name, len, kind);
	int err = 0;
	bool told;

	if (!b)
		return ERR_PTR(-EINVAL);
	s.msg = b->unbind_event;
	told = s.msg && dev->report_binds;
	spin_lock(&dev->lock);
	if (told)
		err = kbus_event_plan(&s);
	if (!err) {
		kbus_binding_unlink(b);
		if (told)
			kbus_event_commit(&s);
		kbus_binding_drop_unread(b, dead, requests, wakes);
	}
	spin_unlock(&dev->lock);
	return err ? ERR_PTR(err) : b;
}

/* UNBIND of a legal name, as @kind says: KBUS_BIND_*. The errors are those of KBUS_IOC_UNBIND. */
int kbus_unbind(struct kbus_ksock *ks, const char *name, size_t len, u32 kind)
{
	const bool is_replier = kind == KBUS_BIND_REPLIER;
	struct kbus_wakes wakes = KBUS_WAKES();
	struct kbus_dev *dev = ks->dev;
	struct kbus_msg *dead = NULL;
	LIST_HEAD(requests);
	struct kbus_binding *b;

	mutex_lock(&ks->in_lock);
	mutex_lock(&dev->bind_lock);
	b = kbus_unbind_locked(ks, name, len, kind, &dead, &requests, &wakes);
	mutex_unlock(&dev->bind_lock);
	mutex_unlock(&ks->in_lock);
	kbus_wakes_flush(&wakes);
	if (IS_ERR(b)) {
		trace_bind(dev->index, ks->id, false, kind, PTR_ERR(b), name, len);
		return PTR_ERR(b);
	}
	kbus_msgs_free(dead);
	kbus_waits_retry(ks, is_replier, name, len);
	kbus_requests_fail(dev, &requests, KBUS_NAME_REPLIER_UNBOUND);
	kbus_binding_free(b);
	kbus_ksock_report_losses(ks);
	kbus_verbose(dev, "KSock %u is unbound as %s for %.*s\n", ks->id,
		     is_replier ? "replier" : "listener", (int)len, name);
	return 0;
}

/* Undo a binding of a KSock that closes, whatever happens. */
static void kbus_unbind_closing(struct kbus_binding *b, struct kbus_wakes *wakes)
{
	struct kbus_dev *dev = b->ks->dev;
	struct kbus_send s = {
		.dev = dev, .msg = b->unbind_event, .end = b->events_lost,
		.when_full = KBUS_FULL_ASIDE, .wakes = wakes,
	};
	const bool told = s.msg && dev->report_binds;

	lockdep_assert_held(&dev->bind_lock);
	spin_lock(&dev->lock);
	if (told) {
		kbus_send_set_id(dev, s.msg);
		WARN_ON_ONCE(kbus_event_plan(&s));
		kbus_send_commit(&s);
	}
	kbus_binding_unlink(b);
	spin_unlock(&dev->lock);
	/* If somebody has it, that one's user pays. */
	if (s.end)
		kbus_msg_uncharge(s.end);
}

/* The KSock closes: undo its bindings, the oldest first, whatever happens. */
void kbus_unbind_all(struct kbus_ksock *ks)
{
	struct kbus_wakes wakes = KBUS_WAKES();

	/* Nobody else changes them any more. */
	while (!list_empty(&ks->bindings)) {
		struct kbus_binding *b = list_last_entry(&ks->bindings, struct kbus_binding,
							 by_ksock);

		mutex_lock(&ks->dev->bind_lock);
		kbus_unbind_closing(b, &wakes);
		mutex_unlock(&ks->dev->bind_lock);
		kbus_wakes_flush(&wakes);
		if (b->kind == KBUS_BIND_REPLIER)
			kbus_waits_retry(ks, true, b->name->name, b->name->len);
		kbus_binding_free(b);
		cond_resched();
	}
}
