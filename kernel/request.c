// SPDX-License-Identifier: GPL-2.0
/*
 * Requests that were accepted and have not been answered.
 *
 * Each is a struct kbus_request from SEND until a reply, a status, or ABANDON.
 * It has from the beginning whatever a status needs, so that the answer cannot
 * fail for want of memory. When the sender closes first, its Requests end.
 */
#include <linux/slab.h>

#include "send.h"
#include "trace.h"

/* Requests of one sender with the same id that may be unanswered */
#define KBUS_MAX_SAME_ID	16

static const struct rhashtable_params kbus_request_params = {
	.head_offset = offsetof(struct kbus_request, by_id),
	.key_offset = offsetof(struct kbus_request, key),
	.key_len = sizeof(struct kbus_request_key),
	.automatic_shrinking = true,
};

int kbus_requests_init(struct kbus_dev *dev)
{
	return rhltable_init(&dev->requests, &kbus_request_params);
}

/**
 * kbus_request_new() - have ready what a Request needs
 * @sender: who sends it, and whose user is charged until it is answered
 *
 * Return: what kbus_request_link() takes, ERR_PTR(-ENOBUFS) or ERR_PTR(-ENOMEM).
 */
struct kbus_request *kbus_request_new(struct kbus_ksock *sender)
{
	struct kbus_request *req = kbus_user_alloc(sender->user, sizeof(*req));
	struct kbus_msg *status;

	if (IS_ERR(req))
		return req;
	req->sender = sender;
	status = kbus_msg_new(KBUS_STATUS_LEN, sender->user);
	if (!IS_ERR(status)) {
		req->status = status;
		return req;
	}
	kbus_request_free(req);
	return ERR_CAST(status);
}

void kbus_request_free(struct kbus_request *req)
{
	kbus_msg_put(req->status);
	kbus_user_uncharge(req->sender->user, kbus_memory_cost(sizeof(*req)));
	kfree(req);
}

/*
 * Has the sender enough Requests with this id, which it has chosen? Whoever looks for one of
 * them goes over all.
 */
bool kbus_request_is_one_too_many(struct kbus_ksock *sender, const struct kbus_msg_id *id)
{
	const struct kbus_request_key key = { .id = *id, .sender_id = sender->id };
	struct rhlist_head *list, *pos;
	struct kbus_request *req;
	unsigned int count = 0;

	lockdep_assert_held(&sender->dev->lock);
	if (!id->network_id)
		return false;
	rcu_read_lock();
	list = rhltable_lookup(&sender->dev->requests, &key, kbus_request_params);
	rhl_for_each_entry_rcu(req, pos, list, by_id)
		count++;
	rcu_read_unlock();
	return count >= KBUS_MAX_SAME_ID;
}

/**
 * kbus_request_link() - from now on the sender expects an answer
 * @req: the Request, for which its sender has set a slot aside
 * @replier: who is to give it
 * @id: of the Request
 *
 * Return: 0 or -ENOMEM.
 */
int kbus_request_link(struct kbus_request *req, struct kbus_ksock *replier,
		      const struct kbus_msg_id *id)
{
	struct kbus_ksock *sender = req->sender;

	lockdep_assert_held(&sender->dev->lock);
	req->key.id = *id;
	req->key.sender_id = sender->id;
	if (rhltable_insert(&sender->dev->requests, &req->by_id, kbus_request_params))
		return -ENOMEM;
	list_add_tail(&req->by_sender, &sender->requests);
	sender->nr_requests++;
	req->replier = replier;
	req->replier_id = replier->id;
	list_add_tail(&req->by_replier, &replier->owed);
	replier->nr_owed++;
	return 0;
}

/* The Request has been answered, or need not be; free it. */
void kbus_request_end(struct kbus_dev *dev, struct kbus_request *req)
{
	struct kbus_ksock *replier = req->replier, *sender = req->sender;

	lockdep_assert_held(&dev->lock);
	rhltable_remove(&dev->requests, &req->by_id, kbus_request_params);
	list_del(&req->by_replier);
	if (replier) {
		replier->nr_owed--;
		spin_lock(&replier->q.lock);
		if (!req->slot) {
			replier->q.unreplied--;
		} else {
			req->slot->request = NULL;
			/* Whoever abandons it has it undone, if that is still possible. */
			req->slot->is_flagged = sender->closing;
		}
		spin_unlock(&replier->q.lock);
	}
	list_del(&req->by_sender);
	sender->nr_requests--;
	kbus_request_free(req);
}

/* The sender closes: nobody wants the answers any more. */
void kbus_requests_drop(struct kbus_ksock *sender)
{
	struct kbus_dev *dev = sender->dev;
	struct kbus_request *req;

	spin_lock(&dev->lock);
	while ((req = list_first_entry_or_null(&sender->requests, struct kbus_request,
					       by_sender))) {
		trace_answer(dev->index, sender->id, req->replier_id, &req->key.id, NULL);
		kbus_request_end(dev, req);
		/* One at a time, so that nobody has to wait for all of them. */
		spin_unlock(&dev->lock);
		cond_resched();
		spin_lock(&dev->lock);
	}
	spin_unlock(&dev->lock);
}

/*
 * The oldest outstanding Request with this id and sender, of those that @replier
 * has read if it is not NULL
 */
static struct kbus_request *kbus_request_look_up(struct kbus_dev *dev,
						 const struct kbus_msg_id *id,
						 u32 sender_id,
						 struct kbus_ksock *replier)
{
	const struct kbus_request_key key = { .id = *id, .sender_id = sender_id };
	struct kbus_request *req, *found = NULL;
	struct rhlist_head *list, *pos;

	lockdep_assert_held(&dev->lock);
	rcu_read_lock();
	list = rhltable_lookup(&dev->requests, &key, kbus_request_params);
	/* New ones are put in front. */
	rhl_for_each_entry_rcu(req, pos, list, by_id) {
		if (!replier || (req->replier == replier && !READ_ONCE(req->slot)))
			found = req;
	}
	rcu_read_unlock();
	return found;
}

/* The Request that this reply answers, if this KSock is to answer it, or NULL */
struct kbus_request *kbus_request_find(struct kbus_ksock *replier,
				       const struct kbus_message_header *reply)
{
	return kbus_request_look_up(replier->dev, &reply->in_reply_to, reply->to, replier);
}

/* The replier of a Request owes it no more: move it to @list, for kbus_requests_fail(). */
void kbus_request_disown(struct kbus_request *req, struct list_head *list)
{
	struct kbus_ksock *replier = req->replier;

	lockdep_assert_held(&replier->dev->lock);
	req->replier = NULL;
	replier->nr_owed--;
	list_move_tail(&req->by_replier, list);
}

int kbus_request_abandon(struct kbus_ksock *sender, const struct kbus_msg_id *id)
{
	struct kbus_dev *dev = sender->dev;
	struct kbus_wakes wakes = KBUS_WAKES();
	struct kbus_request *req;

	spin_lock(&dev->lock);
	req = kbus_request_look_up(dev, id, sender->id, NULL);
	if (req) {
		trace_answer(dev->index, sender->id, req->replier_id, id, NULL);
		kbus_request_end(dev, req);
		kbus_queue_release_slot(&sender->q, &wakes);
	}
	spin_unlock(&dev->lock);
	kbus_wakes_flush(&wakes);
	if (!req)
		return -ENOENT;
	kbus_ksock_report_losses(sender);
	return 0;
}

/* Answer a Request with a status. */
static void kbus_request_fail(struct kbus_dev *dev, struct kbus_request *req,
			      const char *status, struct kbus_wakes *wakes)
{
	struct kbus_send s = {
		.dev = dev, .msg = req->status, .answered = req, .is_status = true, .wakes = wakes,
	};
	struct kbus_message_header *hdr = kbus_msg_header(req->status);

	kbus_msg_begin(req->status, status, req->key.sender_id, 0);
	kbus_msg_finish(req->status);
	WARN_ON_ONCE(req->status->len > KBUS_STATUS_LEN);
	hdr->in_reply_to = req->key.id;
	hdr->from = req->replier_id;
	kbus_send_plan(&s, kbus_name_match(dev, status, hdr->name_len), NULL);
	/* There is a slot for it, and its memory is charged to its reader's user already. */
	WARN_ON_ONCE(kbus_send_reserve(&s));
	kbus_send_set_id(dev, req->status);
	kbus_send_commit(&s);
	trace_answer(dev->index, hdr->to, hdr->from, &hdr->in_reply_to, hdr);
}

/**
 * kbus_requests_fail() - answer Requests that their replier will not answer
 * @dev: the device
 * @owed: the Requests, by_replier, under the device's lock; empty after
 * @status: the name of the status; NULL if the replier closes, which gives
 *	those that it has read another one than those that it has not
 */
void kbus_requests_fail(struct kbus_dev *dev, struct list_head *owed, const char *status)
{
	struct kbus_wakes wakes = KBUS_WAKES();
	struct kbus_request *req;

	spin_lock(&dev->lock);
	while ((req = list_first_entry_or_null(owed, struct kbus_request, by_replier))) {
		const char *name = status;

		if (!name)
			name = READ_ONCE(req->slot) ? KBUS_NAME_REPLIER_GONEAWAY :
				KBUS_NAME_REPLIER_IGNORED;
		if (!req->sender->closing)
			kbus_request_fail(dev, req, name, &wakes);
		kbus_request_end(dev, req);
		/* One at a time, as in kbus_requests_drop(). */
		spin_unlock(&dev->lock);
		kbus_wakes_flush(&wakes);
		cond_resched();
		spin_lock(&dev->lock);
	}
	spin_unlock(&dev->lock);
}
