// SPDX-License-Identifier: GPL-2.0
/*
 * SEND: one message to everybody that it concerns, or an error that says why not.
 */
#include <linux/sched/signal.h>

#include "send.h"
#include "trace.h"

/*
 * What can be wrong with a whole message that write() does not look at. If its name is not
 * the one of the message before, the route begins anew.
 */
static int kbus_send_check_form(const struct kbus_msg *msg, struct kbus_route *route)
{
	const struct kbus_message_header *hdr = kbus_msg_header(msg);
	const char *name = kbus_msg_name(msg);

	if (route->len && hdr->name_len == route->len && !memcmp(name, route->name, route->len))
		return 0;
	route->len = 0;
	route->at = 0;
	if (kbus_name_check(name, hdr->name_len) ||
	    kbus_name_wildcard(name, hdr->name_len))
		return -EBADMSG;
	/* The names of KBUS's own may be sent to in replies only. */
	if (kbus_name_is_kbus(name, hdr->name_len))
		return kbus_msg_is_reply(hdr) ? 0 : -EACCES;
	if (hdr->name_len <= sizeof(route->name)) {
		route->len = hdr->name_len;
		memcpy(route->name, name, route->len);
	}
	return 0;
}

/*
 * The names that the message's name matches, known from the message before if that had the
 * same one and no binding has changed. The others follow from the first of them, so that
 * their next_match is still right.
 */
static struct kbus_name *kbus_send_match(const struct kbus_send *s)
{
	struct kbus_route *route = &s->sender->route;
	struct kbus_dev *dev = s->dev;

	if (route->at != dev->bindings_changed) {
		route->match = kbus_name_match(dev, kbus_msg_name(s->msg),
					       kbus_msg_header(s->msg)->name_len);
		route->at = dev->bindings_changed;
	}
	return route->match;
}

/* Find the Request that a reply answers. */
static int kbus_send_find_answered(struct kbus_send *s)
{
	const struct kbus_message_header *hdr = kbus_msg_header(s->msg);

	if (hdr->to && !xa_load(&s->dev->ksocks, hdr->to))
		return -EADDRNOTAVAIL;
	s->answered = kbus_request_find(s->sender, hdr);
	return s->answered ? 0 : -ECONNREFUSED;
}

/* Set a slot aside for the answer to a Request, and find its replier. */
static int kbus_send_find_replier(struct kbus_send *s, struct kbus_name *match,
				  struct kbus_binding **replier)
{
	const struct kbus_message_header *hdr = kbus_msg_header(s->msg);
	int err = 0;

	if (kbus_request_is_one_too_many(s->sender, &hdr->id) ||
	    !kbus_queue_set_slot_aside(&s->sender->q))
		return -ENOLCK;
	*replier = kbus_match_replier(match);
	if (!*replier)
		err = -EADDRNOTAVAIL;
	else if (hdr->to && hdr->to != (*replier)->ks->id)
		err = -EPIPE;
	if (err)
		kbus_queue_release_slot(&s->sender->q, s->wakes);
	return err;
}

/* Send the message if that is possible now; the errors are SEND's, in its order. */
static int kbus_send_try(struct kbus_send *s)
{
	struct kbus_message_header *hdr = kbus_msg_header(s->msg);
	struct kbus_ksock *ks = s->sender;
	struct kbus_binding *replier = NULL;
	u32 last_serial = s->dev->last_serial;
	struct kbus_name *match;
	int err = 0;

	s->answered = NULL;
	match = kbus_send_match(s);
	if (s->request)
		err = kbus_send_find_replier(s, match, &replier);
	else if (kbus_msg_is_reply(hdr))
		err = kbus_send_find_answered(s);
	if (err)
		return err;

	kbus_send_plan(s, match, replier);
	err = kbus_send_reserve(s);
	if (err)
		goto forget;
	kbus_send_set_id(s->dev, s->msg);
	if (s->request) {
		err = kbus_request_link(s->request, replier->ks, &hdr->id);
		if (err) {
			s->dev->last_serial = last_serial;
			goto forget;
		}
		/* The first slot planned has the flagged copy. */
		s->request->slot = list_first_entry(&replier->ks->plan.slots, struct kbus_slot,
						    node);
		s->request = NULL;
		trace_request(s->dev->index, hdr, replier->ks->id);
	}
	kbus_send_commit(s);
	if (s->answered) {
		trace_answer(s->dev->index, hdr->to, ks->id, &hdr->in_reply_to, hdr);
		kbus_request_end(s->dev, s->answered);
	}
	return 0;
forget:
	kbus_send_forget(s);
	if (s->request)
		kbus_queue_release_slot(&ks->q, s->wakes);
	return err;
}

/* Did the message get as far as to use a serial number? */
static bool kbus_send_used_serial(int err)
{
	return !kbus_send_is_kept(err) && err != -ENOMEM && err != -ENOMSG;
}

/* Is there a reason for SEND of the message with this serial to go on? */
static bool kbus_send_may_try(struct kbus_ksock *ks, u64 serial)
{
	return READ_ONCE(ks->wait.ready) || READ_ONCE(ks->out_serial) != serial;
}

/* Sleep until another try makes sense; out_lock and the device's lock are held. */
static int kbus_send_sleep(struct kbus_send *s, ktime_t until)
	__must_hold(&s->dev->lock)
{
	struct kbus_ksock *ks = s->sender;
	u64 serial = ks->out_serial;
	int err;

	/* Whatever keeps it from being sent, a signal ends it. */
	if (signal_pending(current))
		return -ERESTARTSYS;
	spin_unlock(&s->dev->lock);
	kbus_wakes_flush(s->wakes);
	mutex_unlock(&ks->out_lock);
	err = kbus_sleep_until(ks, kbus_send_may_try, serial, until);
	mutex_lock(&ks->out_lock);
	spin_lock(&s->dev->lock);
	/* Another thread has sent or dropped the message. */
	return ks->out_serial == serial ? err : -ENOMSG;
}

static int kbus_send_or_wait(struct kbus_send *s, ktime_t until)
{
	struct kbus_ksock *ks = s->sender;
	struct kbus_dev *dev = s->dev;
	LIST_HEAD(no_room);
	int err;

	spin_lock(&dev->lock);
	for (;;) {
		err = kbus_send_try(s);
		if (err != -EAGAIN || !s->sleeps)
			break;
		err = kbus_send_sleep(s, until);
		if (err)
			break;
	}

	if (!err)
		ks->sent++;
	else if (kbus_send_used_serial(err))
		kbus_send_set_id(dev, s->msg);
	if (err == -ENOBUFS && s->answered) {
		spin_lock(&ks->q.lock);
		ks->q.unreplied--;
		spin_unlock(&ks->q.lock);
		kbus_request_disown(s->answered, &no_room);
	}
	/* After ENOMSG it is another message that may wait. */
	if (!kbus_send_is_kept(err) && err != -ENOMSG)
		kbus_wait_end(ks, s->wakes);
	if (s->is_sleeper)
		kbus_wait_wakes_up(ks, s->wakes);
	spin_unlock(&dev->lock);
	if (!list_empty(&no_room))
		kbus_requests_fail(dev, &no_room, KBUS_NAME_REPLIER_NOROOM);
	return err;
}

/* SEND of what is in @ks->out; out_lock is held. */
static int kbus_send_out(struct kbus_ksock *ks, ktime_t until, struct kbus_msg_id *id,
			 struct kbus_wakes *wakes)
{
	struct kbus_msg *msg = ks->out;
	struct kbus_message_header *hdr = NULL;
	u64 serial = ks->out_serial;
	struct kbus_send s = {
		.dev = ks->dev, .msg = msg, .sender = ks, .sleeps = until > 0, .wakes = wakes,
	};
	int err;

	lockdep_assert_held(&ks->out_lock);
	err = -EINVAL;
	if (!msg || msg->filled < msg->len)
		goto drop;
	hdr = kbus_msg_header(msg);
	err = kbus_send_check_form(msg, &ks->route);
	if (err)
		goto drop;

	/* Replies ignore both flags. */
	if (!kbus_msg_is_reply(hdr) && hdr->flags & KBUS_BIT_ALL_OR_WAIT)
		s.when_full = KBUS_FULL_WAIT;
	else if (!kbus_msg_is_reply(hdr) && hdr->flags & KBUS_BIT_ALL_OR_FAIL)
		s.when_full = KBUS_FULL_FAIL;
	/* Of one that waits already others read the name. */
	if (!ks->wait.since) {
		hdr->from = ks->id;
		hdr->flags &= ~(KBUS_BIT_SYNTHETIC | KBUS_BIT_WANT_YOU_TO_REPLY);
	}
	if (kbus_msg_is_request(hdr)) {
		/* What was sent before must not wait for memory that this one needs. */
		kbus_wakes_flush(wakes);
		s.request = kbus_request_new(ks);
		err = PTR_ERR_OR_ZERO(s.request);
		if (err) {
			s.request = NULL;
			goto drop;
		}
	}
	err = kbus_send_or_wait(&s, until);
	if (s.request)
		kbus_request_free(s.request);
	if (err == -ENOMSG)
		hdr = NULL;
	if (!err || (hdr && kbus_send_used_serial(err))) {
		ks->last_sent = hdr->id;
		*id = hdr->id;
	}
	if (kbus_send_is_kept(err))
		return err;
drop:
	if (err) {
		trace_refuse(ks->dev->index, ks->id, err, hdr);
		if (hdr && err != -EBADMSG && err != -EACCES)
			kbus_verbose(ks->dev, "KSock %u: SEND of %.*s fails: %pe\n", ks->id,
				     (int)hdr->name_len, kbus_msg_name(msg), ERR_PTR(err));
	}
	if (ks->out_serial == serial)
		kbus_ksock_drop_out(ks);
	return err;
}

/*
 * SEND, of the message that this KSock has written, or with @waiting only if it waits for
 * room already. The errors are those of KBUS_IOC_SEND.
 */
int kbus_send(struct kbus_ksock *ks, bool waiting, ktime_t until, struct kbus_msg_id *id)
{
	struct kbus_wakes wakes = KBUS_WAKES();
	int err = -ENOMSG;

	mutex_lock(&ks->out_lock);
	if (waiting ? ks->wait.since : ks->out || ks->out_begin_len)
		err = kbus_send_out(ks, until, id, &wakes);
	mutex_unlock(&ks->out_lock);
	kbus_wakes_flush(&wakes);
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
 * Readers are woken after the last one, not after each.
 *
 * Return: 0, -EALREADY if another message has been written, or a negative errno
 * of SEND of the first one that could not be sent.
 */
int kbus_send_msgs(struct kbus_ksock *ks, struct kbus_msg **msgs, unsigned int count,
		   ktime_t until, struct kbus_msg_id *ids, unsigned int *sent)
{
	struct kbus_wakes wakes = KBUS_WAKES();
	unsigned int i;
	int err = 0;

	mutex_lock(&ks->out_lock);
	for (i = 0; i < count && !err; i++) {
		err = -EALREADY;
		if (ks->out || ks->out_begin_len)
			break;
		ks->out = msgs[i];
		err = kbus_send_out(ks, until, &ids[i], &wakes);
		if (need_resched())
			kbus_wakes_flush(&wakes);
	}
	mutex_unlock(&ks->out_lock);
	kbus_wakes_flush(&wakes);
	*sent = err && err != -EALREADY ? i - 1 : i;
	for (; i < count; i++)
		kbus_msg_put(msgs[i]);
	return err;
}
