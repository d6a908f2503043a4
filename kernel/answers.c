// SPDX-License-Identifier: GPL-2.0
/*
 * Requests that were accepted and have not been answered.
 *
 * Each is a struct kbus_request from SEND until a reply, a status, or ABANDON.
 * It has from the beginning whatever a status needs, so that the answer cannot
 * fail for want of memory. When the sender closes first, the Request stays for
 * as long as the replier may still answer it, and keeps the sender's id from
 * being given to another KSock: kbus_dev.ksocks then has, in place of the KSock,
 * the number of such Requests.
 */
#include <linux/slab.h>

#include "kbus.h"
#include "trace.h"

static const char * const kbus_statuses[] = {
	KBUS_NAME_REPLIER_GONEAWAY, KBUS_NAME_REPLIER_IGNORED, KBUS_NAME_REPLIER_UNBOUND,
	KBUS_NAME_REPLIER_NOROOM,
};

static const struct rhashtable_params kbus_request_params = {
	.head_offset = offsetof(struct kbus_request, by_id),
	.key_offset = offsetof(struct kbus_request, key),
	.key_len = sizeof(struct kbus_request_key),
	.automatic_shrinking = true,
};

int kbus_answers_init(struct kbus_dev *dev)
{
	return rhltable_init(&dev->requests, &kbus_request_params);
}

void kbus_answers_destroy(struct kbus_dev *dev)
{
	rhltable_destroy(&dev->requests);
}

static size_t kbus_request_cost(const struct kbus_request *req)
{
	/* Once the status is queued, it is its reader's. */
	return kmalloc_size_roundup(sizeof(*req)) + (req->status ? req->status->cost : 0);
}

/**
 * kbus_request_new() - have ready what a Request needs
 * @sender: who sends it, and is charged until it is answered
 *
 * Return: what kbus_request_link() takes, ERR_PTR(-ENOBUFS) or ERR_PTR(-ENOMEM).
 */
struct kbus_request *kbus_request_new(struct kbus_ksock *sender)
{
	struct mem_cgroup *before;
	struct kbus_request *req;
	size_t len = 0;
	int i;

	before = kbus_group_enter(sender->group);
	req = kzalloc(sizeof(*req), KBUS_GFP);
	kbus_group_leave(before);
	if (!req)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&req->by_sender);
	INIT_LIST_HEAD(&req->by_replier);

	for (i = 0; i < ARRAY_SIZE(kbus_statuses); i++)
		len = max(len, strlen(kbus_statuses[i]));
	req->status = kbus_msg_synthetic(len, 0, sender->group);
	if (!req->status) {
		kbus_request_free(req);
		return ERR_PTR(-ENOMEM);
	}
	WARN_ON_ONCE(req->status->len > KBUS_STATUS_LEN);
	if (!kbus_user_charge(sender->user, kbus_request_cost(req))) {
		kbus_request_free(req);
		return ERR_PTR(-ENOBUFS);
	}
	req->payer = kbus_user_ref(sender->user);
	return req;
}

void kbus_request_free(struct kbus_request *req)
{
	if (req->payer) {
		kbus_user_uncharge(req->payer, kbus_request_cost(req));
		kbus_user_put(req->payer);
	}
	kbus_msg_put(req->status);
	kfree(req);
}

/**
 * kbus_request_is_one_too_many() - has the sender enough Requests with this id
 * @sender: who wants to send one more
 * @id: of its choice; with an id of KBUS's own there is no other
 *
 * Whoever looks for one of them goes over all, while everybody else waits.
 *
 * Return: whether there are as many as may be.
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
 * @req: the Request
 * @sender: who has set a slot aside for it
 * @replier: who is to give it
 * @id: of the Request
 *
 * Return: 0 or -ENOMEM.
 */
int kbus_request_link(struct kbus_request *req, struct kbus_ksock *sender,
		      struct kbus_ksock *replier, const struct kbus_msg_id *id)
{
	lockdep_assert_held(&sender->dev->lock);
	req->key.id = *id;
	req->key.sender_id = sender->id;
	if (rhltable_insert(&sender->dev->requests, &req->by_id, kbus_request_params))
		return -ENOMEM;
	req->sender = sender;
	list_add_tail(&req->by_sender, &sender->requests);
	sender->nr_requests++;
	req->replier = replier;
	req->replier_id = replier->id;
	list_add_tail(&req->by_replier, &replier->owed);
	replier->nr_owed++;
	return 0;
}

/* One Request less names the closed KSock with this id. */
static void kbus_request_release_id(struct kbus_dev *dev, u32 id)
{
	unsigned long left = xa_to_value(xa_load(&dev->ksocks, id)) - 1;

	/* The entry is there, so that nothing is allocated. */
	if (left)
		xa_store(&dev->ksocks, id, xa_mk_value(left), GFP_ATOMIC);
	else
		xa_erase(&dev->ksocks, id);
}

/* The Request has been answered, or need not be; free it. */
void kbus_request_end(struct kbus_dev *dev, struct kbus_request *req)
{
	struct kbus_ksock *replier = req->replier;

	lockdep_assert_held(&dev->lock);
	rhltable_remove(&dev->requests, &req->by_id, kbus_request_params);
	list_del(&req->by_replier);
	if (replier) {
		replier->nr_owed--;
		spin_lock(&replier->q.lock);
		if (req->item)
			req->item->request = NULL;
		else
			replier->q.unreplied--;
		spin_unlock(&replier->q.lock);
	}
	if (req->sender)
		list_del(&req->by_sender);
	if (kbus_request_is_wanted(req))
		req->sender->nr_requests--;
	else
		kbus_request_release_id(dev, req->key.sender_id);
	kbus_request_free(req);
}

static bool kbus_request_is_unread(struct kbus_request *req)
{
	struct kbus_queue *q = &req->replier->q;
	bool unread;

	spin_lock(&q->lock);
	unread = req->item;
	spin_unlock(&q->lock);
	return unread;
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
		if (!replier || (req->replier == replier && !kbus_request_is_unread(req)))
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

/* The replier of a Request that it has read owes it no more: move it to @list. */
void kbus_request_take(struct kbus_request *req, struct list_head *list)
{
	struct kbus_ksock *replier = req->replier;

	lockdep_assert_held(&replier->dev->lock);
	spin_lock(&replier->q.lock);
	replier->q.unreplied--;
	spin_unlock(&replier->q.lock);
	req->replier = NULL;
	replier->nr_owed--;
	list_move_tail(&req->by_replier, list);
}

int kbus_request_abandon(struct kbus_ksock *sender, const struct kbus_msg_id *id)
{
	struct kbus_dev *dev = sender->dev;
	struct kbus_wakes wakes __uninitialized;
	struct kbus_request *req;

	kbus_wakes_init(&wakes);
	spin_lock(&dev->lock);
	req = kbus_request_look_up(dev, id, sender->id, NULL);
	if (req) {
		trace_answer(dev->index, sender->id, req->replier_id, id, NULL);
		kbus_request_end(dev, req);
		kbus_queue_release_slot(&sender->q, &wakes);
	}
	spin_unlock(&dev->lock);
	kbus_wakes_end(&wakes);
	if (!req)
		return -ENOENT;
	kbus_ksock_report_losses(sender);
	return 0;
}

/* Answer a Request with a status, which @s is for; -ENOSPC if it lacks something first. */
static int kbus_request_fail(struct kbus_request *req, const char *status, struct kbus_send *s)
{
	struct kbus_message_header *hdr = kbus_msg_header(req->status);
	int err;

	kbus_msg_begin(req->status, status, req->key.sender_id, 0);
	kbus_msg_finish(req->status);
	hdr->in_reply_to = req->key.id;
	hdr->from = req->replier_id;
	s->answered = req;
	s->status_for = req;
	err = kbus_send_plan(s, kbus_name_match(s->dev, status, hdr->name_len), NULL);
	if (err) {
		kbus_send_forget(s);
		return err;
	}
	kbus_send_reserve(s);
	kbus_send_set_id(s->dev, req->status);
	kbus_send_commit(s);
	trace_answer(s->dev->index, hdr->to, hdr->from, &hdr->in_reply_to, hdr);
	/* It is charged to its reader from here on, who is the same user. */
	kbus_msg_put(req->status);
	req->status = NULL;
	kbus_request_end(s->dev, req);
	return 0;
}

/* Is there somebody who waits for the answer? */
bool kbus_request_is_wanted(const struct kbus_request *req)
{
	return req->sender && !req->sender->closing;
}

static void kbus_request_end_fail(struct kbus_send *s)
{
	kbus_send_end(s);
	kbus_msg_put(s->home.msg);
	/* What is left in it is the group's, as is its want of memory. */
	kbus_pool_free(s->home.pool);
	kbus_ksock_put(s->home.first);
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
	struct kbus_msg *msg = NULL;
	struct kbus_request *req;
	struct kbus_wakes wakes __uninitialized;
	struct kbus_pool pool;
	struct kbus_send s;
	int err;

	kbus_wakes_init(&wakes);
	spin_lock(&dev->lock);
	while (!list_empty(owed)) {
		const char *name = status;

		req = list_first_entry(owed, struct kbus_request, by_replier);
		if (!name)
			name = kbus_request_is_unread(req) ? KBUS_NAME_REPLIER_GONEAWAY :
				KBUS_NAME_REPLIER_IGNORED;
		err = 0;
		if (!kbus_request_is_wanted(req)) {
			trace_answer(dev->index, req->key.sender_id, req->replier_id,
				     &req->key.id, NULL);
			kbus_request_end(dev, req);
		} else if (!msg) {
			/* The Request and its sender may go while the lock is dropped. */
			msg = req->status;
			refcount_inc(&msg->refs);
			kbus_ksock_get(req->sender);
			kbus_pool_init(&pool);
			kbus_send_init(&s, dev, req->sender->group, msg, &pool,
				       KBUS_FULL_MISS, &wakes);
			s.home.first = req->sender;
			err = kbus_request_fail(req, name, &s);
		} else if (req->status == msg) {
			err = kbus_request_fail(req, name, &s);
		}
		/* Others need not wait for all of them, nor the requesters much longer. */
		spin_unlock(&dev->lock);
		if (err) {
			kbus_send_supply(&s);
		} else if (msg) {
			kbus_request_end_fail(&s);
			msg = NULL;
		}
		kbus_wakes_flush(&wakes);
		cond_resched();
		spin_lock(&dev->lock);
	}
	spin_unlock(&dev->lock);
	if (msg)
		kbus_request_end_fail(&s);
	kbus_wakes_end(&wakes);
}

/**
 * kbus_requests_disown() - a sender closes; nobody waits for the answers any more
 * @sender: which nobody finds any more
 *
 * Its id stays in use until the last of its Requests has ended.
 */
void kbus_requests_disown(struct kbus_ksock *sender)
{
	struct kbus_dev *dev = sender->dev;
	struct kbus_request *req;
	unsigned int count = 0;

	spin_lock(&dev->lock);
	while (!list_empty(&sender->requests)) {
		req = list_first_entry(&sender->requests, struct kbus_request, by_sender);
		list_del_init(&req->by_sender);
		req->sender = NULL;
		/* Nobody wants the status; what is left is small. */
		kbus_user_uncharge(req->payer, req->status->cost);
		kbus_msg_put(req->status);
		req->status = NULL;
		if (++count % KBUS_STEP)
			continue;
		spin_unlock(&dev->lock);
		cond_resched();
		spin_lock(&dev->lock);
	}
	spin_unlock(&dev->lock);
}

/* The sender closes: from now on its id stands for its Requests only. */
void kbus_requests_orphan(struct kbus_ksock *sender)
{
	struct kbus_dev *dev = sender->dev;

	lockdep_assert_held(&dev->lock);
	sender->closing = true;
	atomic_dec(&dev->nr_ksocks);
	/* The entry is there, so that nothing is allocated. */
	if (sender->nr_requests)
		xa_store(&dev->ksocks, sender->id, xa_mk_value(sender->nr_requests),
			 GFP_ATOMIC);
	else
		xa_erase(&dev->ksocks, sender->id);
}
