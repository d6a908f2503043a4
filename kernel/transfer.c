// SPDX-License-Identifier: GPL-2.0
/*
 * TRANSFER: many messages in and out with one call.
 *
 * Messages are sent one by one, exactly as SEND does it. They are received in
 * batches: the first copies in the queue are copied to the user's buffer while
 * they stay queued and no lock is held, and then those are popped that are still
 * the first ones. So a bad address costs nobody a message.
 */
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "kbus.h"

/* How many copies are looked at before any is popped */
#define KBUS_TRANSFER_BATCH	16

struct kbus_transfer_copy {
	struct kbus_item *item;		/* not to be followed without the queue's lock */
	struct kbus_msg *msg;
	u32 flags;
};

static u32 kbus_transfer_flags(const struct kbus_item *item)
{
	return kbus_msg_header(item->msg)->flags |
		(item->request ? KBUS_BIT_WANT_YOU_TO_REPLY : 0);
}

/* How many bytes of the buffers go with a message of @len bytes */
static u64 kbus_transfer_step(u32 len)
{
	return ALIGN((u64)len, KBUS_TRANSFER_ALIGN);
}

/*
 * Copy in the message at the beginning of what there is to send. @taken is how
 * many bytes it has, once that is known.
 */
static struct kbus_msg *kbus_transfer_take(struct kbus_ksock *ks,
					   const struct kbus_transfer *t, u32 *taken)
{
	void __user *begin = u64_to_user_ptr(t->send);
	struct kbus_message_header hdr;
	struct iov_iter from;
	struct kbus_msg *msg;
	u32 len;
	int err;

	if (t->send_len < sizeof(hdr))
		return ERR_PTR(-EINVAL);
	if (copy_from_user(&hdr, begin, sizeof(hdr)))
		return ERR_PTR(-EFAULT);
	err = kbus_msg_check_header(&hdr, sizeof(hdr), READ_ONCE(ks->dev->max_msg_size), &len);
	if (err)
		return ERR_PTR(err);
	if (len > t->send_len)
		return ERR_PTR(-EINVAL);
	msg = kbus_msg_new(len, ks->user);
	if (IS_ERR(msg))
		return msg;
	kbus_msg_append_bytes(msg, &hdr, sizeof(hdr));
	iov_iter_ubuf(&from, WRITE, begin + sizeof(hdr), len - sizeof(hdr));
	err = kbus_msg_fill(msg, &from);
	if (!err)
		err = kbus_msg_check_filled(msg);
	if (err) {
		kbus_msg_put(msg);
		return ERR_PTR(err);
	}
	*taken = len;
	return msg;
}

/* What is at @t->send is gone as far as the user is concerned. */
static void kbus_transfer_advance(struct kbus_transfer *t, u32 len)
{
	u64 step = min_t(u64, kbus_transfer_step(len), t->send_len);

	t->send += step;
	t->send_len -= step;
}

static int kbus_transfer_send_one(struct kbus_ksock *ks, struct kbus_transfer *t,
				  ktime_t until)
{
	struct kbus_msg_id __user *ids = u64_to_user_ptr(t->ids);
	struct kbus_msg_id id;
	struct kbus_msg *msg;
	u32 len = 0;
	int err;

	if (t->kept) {
		err = kbus_send_waiting(ks, until, &id);
	} else {
		msg = kbus_transfer_take(ks, t, &len);
		if (IS_ERR(msg))
			return PTR_ERR(msg);
		err = kbus_send_msg(ks, msg, until, &id);
	}
	t->kept = err == -EAGAIN || err == -ERESTARTSYS;
	if (!err || t->kept)
		kbus_transfer_advance(t, len);
	if (err)
		return err;
	if (ids && copy_to_user(&ids[t->sent], &id, sizeof(id)))
		err = -EFAULT;
	t->sent++;
	return err;
}

static void kbus_transfer_send(struct kbus_ksock *ks, struct kbus_transfer *t, ktime_t until)
{
	int err = 0;

	while (!err && (t->kept || t->send_len)) {
		err = kbus_transfer_send_one(ks, t, until);
		cond_resched();
		if (!err && fatal_signal_pending(current))
			err = -EINTR;
	}
	t->error = err == -ERESTARTSYS ? EINTR : -err;
}

/* How many more messages may go into a batch */
static unsigned int kbus_transfer_most(const struct kbus_transfer *t)
{
	if (!t->receive_max)
		return KBUS_TRANSFER_BATCH;
	return min_t(u32, t->receive_max - t->received, KBUS_TRANSFER_BATCH);
}

/* Look at the first copies that fit into what is left; a reference is taken to each. */
static unsigned int kbus_transfer_peek(struct kbus_queue *q, const struct kbus_transfer *t,
				       struct kbus_transfer_copy *copies)
{
	unsigned int most = kbus_transfer_most(t);
	u32 space = t->receive_len - t->received_len;
	struct kbus_item *item;
	unsigned int count = 0;

	spin_lock(&q->lock);
	list_for_each_entry(item, &q->items, node) {
		if (count == most || item->msg->len > space)
			break;
		refcount_inc(&item->msg->refs);
		copies[count].item = item;
		copies[count].msg = item->msg;
		copies[count].flags = kbus_transfer_flags(item);
		count++;
		space -= min_t(u64, kbus_transfer_step(item->msg->len), space);
	}
	spin_unlock(&q->lock);
	return count;
}

/* Pop those of the copies that are still the first ones in the queue. */
static unsigned int kbus_transfer_pop(struct kbus_queue *q,
				      const struct kbus_transfer_copy *copies,
				      unsigned int count, struct list_head *popped)
{
	struct kbus_item *item;
	unsigned int i;

	spin_lock(&q->lock);
	for (i = 0; i < count; i++) {
		item = list_first_entry_or_null(&q->items, struct kbus_item, node);
		/* Another item at the same address has another message. */
		if (!item || item != copies[i].item || item->msg != copies[i].msg ||
		    kbus_transfer_flags(item) != copies[i].flags)
			break;
		kbus_queue_pop(q);
		list_add_tail(&item->node, popped);
	}
	spin_unlock(&q->lock);
	return i;
}

static bool kbus_transfer_copy_out(const struct kbus_transfer_copy *copy,
				   struct kbus_transfer *t, u32 pos)
{
	struct iov_iter to;

	iov_iter_ubuf(&to, READ, u64_to_user_ptr(t->receive) + pos, copy->msg->len);
	return kbus_msg_to_iter(copy->msg, 0, copy->msg->len, copy->flags, &to) ==
		copy->msg->len;
}

/* Receive a batch. Return how many, which may be 0 with more to come, or -EFAULT. */
static int kbus_transfer_batch(struct kbus_ksock *ks, struct kbus_transfer *t,
			       struct kbus_transfer_copy *copies, unsigned int count)
{
	u32 pos = t->received_len;
	unsigned int i, done, popped;
	LIST_HEAD(items);

	for (done = 0; done < count; done++) {
		if (!kbus_transfer_copy_out(&copies[done], t, pos))
			break;
		pos += kbus_transfer_step(copies[done].msg->len);
	}
	popped = kbus_transfer_pop(&ks->q, copies, done, &items);
	for (i = 0; i < popped; i++) {
		t->received_len += min_t(u64, kbus_transfer_step(copies[i].msg->len),
					 t->receive_len - t->received_len);
	}
	t->received += popped;
	kbus_items_free(&items);
	for (i = 0; i < count; i++)
		kbus_msg_put(copies[i].msg);
	return done < count && popped == done ? -EFAULT : popped;
}

/* Receive whatever is queued, fits and is wanted. */
static int kbus_transfer_receive(struct kbus_ksock *ks, struct kbus_transfer *t)
{
	struct kbus_transfer_copy copies[KBUS_TRANSFER_BATCH];
	struct kbus_queue *q = &ks->q;
	unsigned int count;
	int err = 0;
	bool more;

	do {
		count = kbus_transfer_peek(q, t, copies);
		if (count)
			err = kbus_transfer_batch(ks, t, copies, count);
		cond_resched();
	} while (count && err >= 0 && !fatal_signal_pending(current));

	spin_lock(&q->lock);
	more = !list_empty(&q->waiting) || q->lost_unreported;
	spin_unlock(&q->lock);
	/* Even with nothing popped: there may have been no memory for a report. */
	if (more)
		kbus_ksock_made_room(ks);
	return err < 0 && !t->received ? err : 0;
}

static bool kbus_transfer_has_mail(struct kbus_ksock *ks)
{
	bool has;

	spin_lock(&ks->q.lock);
	has = ks->q.count;
	spin_unlock(&ks->q.lock);
	return has;
}

/* What is left in the queue, and was never in it */
static void kbus_transfer_tell(struct kbus_queue *q, struct kbus_transfer *t)
{
	struct kbus_item *next;

	spin_lock(&q->lock);
	next = list_first_entry_or_null(&q->items, struct kbus_item, node);
	t->queued = q->count;
	t->next_len = next ? next->msg->len : 0;
	t->lost = q->lost;
	spin_unlock(&q->lock);
}

static int kbus_transfer_check(const struct kbus_ksock *ks, const struct kbus_transfer *t)
{
	if (t->kept > 1)
		return -EINVAL;
	if ((t->send_len || t->kept) && !(ks->mode & FMODE_WRITE))
		return -EBADF;
	if (t->receive_len && !(ks->mode & FMODE_READ))
		return -EBADF;
	return 0;
}

/**
 * kbus_transfer() - TRANSFER: send and receive many messages
 * @ks: the KSock
 * @nonblock: do not wait
 * @arg: what, and where to
 *
 * Return: 0, or a negative errno as listed at KBUS_IOC_TRANSFER.
 */
long kbus_transfer(struct kbus_ksock *ks, bool nonblock, struct kbus_transfer __user *arg)
{
	struct kbus_transfer t;
	ktime_t until;
	int err;

	if (copy_from_user(&t, arg, sizeof(t)))
		return -EFAULT;
	err = kbus_transfer_check(ks, &t);
	if (err)
		return err;
	/* A bad address is better known before anything has been sent. */
	if (copy_to_user(arg, &t, sizeof(t)))
		return -EFAULT;
	until = nonblock ? 0 : min_t(u64, t.deadline, KTIME_MAX);
	t.sent = 0;
	t.received = 0;
	t.received_len = 0;

	kbus_transfer_send(ks, &t, until);
	if (t.receive_len)
		err = kbus_transfer_receive(ks, &t);
	while (!err && t.receive_len && until && !t.error && !t.received &&
	       !kbus_transfer_has_mail(ks)) {
		err = kbus_wait_until(ks, kbus_transfer_has_mail, until);
		if (!err)
			err = kbus_transfer_receive(ks, &t);
	}
	if (err == -EAGAIN || (err && (t.sent || t.kept)))
		err = 0;
	if (err)
		return err;
	kbus_transfer_tell(&ks->q, &t);
	return copy_to_user(arg, &t, sizeof(t)) ? -EFAULT : 0;
}
