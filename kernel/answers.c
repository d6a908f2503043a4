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

static const char * const kbus_statuses[] = {
	KBUS_NAME_REPLIER_GONEAWAY, KBUS_NAME_REPLIER_IGNORED, KBUS_NAME_REPLIER_UNBOUND,
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
	return sizeof(*req) + kbus_msg_cost(sizeof(*req->status) + req->status->head_len);
}

/**
 * kbus_request_new() - have ready what a Request needs
 * @payer: who is charged until it is answered
 *
 * Return: what kbus_request_link() takes, ERR_PTR(-ENOBUFS) or ERR_PTR(-ENOMEM).
 */
struct kbus_request *kbus_request_new(struct kbus_user *payer)
{
	struct kbus_request *req;
	size_t len = 0;
	int i;

	req = kzalloc(sizeof(*req), KBUS_GFP);
	if (!req)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&req->by_sender);
	INIT_LIST_HEAD(&req->by_replier);

	for (i = 0; i < ARRAY_SIZE(kbus_statuses); i++)
		len = max(len, strlen(kbus_statuses[i]));
	req->status = kbus_msg_synthetic(len, 0);
	if (!req->status) {
		kbus_request_free(req);
		return ERR_PTR(-ENOMEM);
	}
	if (!kbus_user_charge(payer, kbus_request_cost(req))) {
		kbus_request_free(req);
		return ERR_PTR(-ENOBUFS);
	}
	req->payer = kbus_user_ref(payer);
	return req;
}

void kbus_request_free(struct kbus_request *req)
{
	if (!req)
		return;
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

	if (left)
		xa_store(&dev->ksocks, id, xa_mk_value(left), GFP_KERNEL);
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
	if (req->sender) {
		list_del(&req->by_sender);
		req->sender->nr_requests--;
	} else {
		kbus_request_release_id(dev, req->key.sender_id);
	}
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

int kbus_request_abandon(struct kbus_ksock *sender, const struct kbus_msg_id *id)
{
	struct kbus_dev *dev = sender->dev;
	struct kbus_request *req;

	mutex_lock(&dev->lock);
	req = kbus_request_look_up(dev, id, sender->id, NULL);
	if (req) {
		kbus_request_end(dev, req);
		kbus_queue_release_slot(&sender->q);
	}
	mutex_unlock(&dev->lock);
	if (!req)
		return -ENOENT;
	kbus_ksock_made_room(sender);
	return 0;
}

/* Answer a Request with a status; -ENOSPC if the pool needs filling first. */
static int kbus_request_fail(struct kbus_dev *dev, struct kbus_request *req,
			     const char *status, struct kbus_send *s,
			     struct kbus_pool *pool)
{
	struct kbus_message_header *hdr = kbus_msg_header(req->status);
	int err;

	kbus_msg_begin(req->status, status, req->key.sender_id, 0);
	kbus_msg_finish(req->status);
	hdr->in_reply_to = req->key.id;
	hdr->from = req->replier_id;
	kbus_send_init(s, dev, req->status, pool, KBUS_FULL_MISS);
	err = kbus_send_plan(s, kbus_name_match(dev, status, hdr->name_len), NULL, req);
	if (err) {
		kbus_send_forget(s);
		return err;
	}
	kbus_send_room(s);
	kbus_send_set_id(dev, req->status);
	kbus_send_commit(s);
	kbus_request_end(dev, req);
	return 0;
}

/**
 * kbus_requests_fail() - answer Requests that their replier will not answer
 * @dev: the device
 * @owed: the Requests, by_replier, under the device's lock; empty after
 * @status: the name of the status; NULL if the replier closes, which gives
 *	those that he has read another one than those that he has not
 */
void kbus_requests_fail(struct kbus_dev *dev, struct list_head *owed, const char *status)
{
	struct kbus_request *req;
	struct kbus_pool pool;
	struct kbus_send s;

	kbus_pool_init(&pool);
	mutex_lock(&dev->lock);
	while (!list_empty(owed)) {
		const char *name = status;

		req = list_first_entry(owed, struct kbus_request, by_replier);
		if (!name)
			name = kbus_request_is_unread(req) ? KBUS_NAME_REPLIER_GONEAWAY :
				KBUS_NAME_REPLIER_IGNORED;
		if (!req->sender) {
			kbus_request_end(dev, req);
		} else if (kbus_request_fail(dev, req, name, &s, &pool)) {
			mutex_unlock(&dev->lock);
			kbus_pool_fill(&pool, s.need);
			mutex_lock(&dev->lock);
			continue;
		}
		/* Others need not wait for all of them, nor the requesters much longer. */
		mutex_unlock(&dev->lock);
		cond_resched();
		mutex_lock(&dev->lock);
	}
	mutex_unlock(&dev->lock);
	kbus_pool_free(&pool);
}

/* The sender closes; nobody waits for the answers any more. */
void kbus_requests_orphan(struct kbus_ksock *sender)
{
	struct kbus_dev *dev = sender->dev;
	struct kbus_request *req, *next;

	lockdep_assert_held(&dev->lock);
	list_for_each_entry_safe(req, next, &sender->requests, by_sender) {
		list_del(&req->by_sender);
		req->sender = NULL;
	}
	atomic_dec(&dev->nr_ksocks);
	/* The entry is there, so that nothing is allocated. */
	if (sender->nr_requests)
		xa_store(&dev->ksocks, sender->id, xa_mk_value(sender->nr_requests),
			 GFP_KERNEL);
	else
		xa_erase(&dev->ksocks, sender->id);
}
