// SPDX-License-Identifier: GPL-2.0
/*
 * TRANSFER: many messages in and out with one call.
 *
 * Messages are sent one by one, exactly as SEND does it. They are received in
 * batches: the first copies in the queue are copied to the user's buffer while
 * they stay queued, and then those are popped that are still the first ones. So a bad
 * address costs nobody a message.
 */
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "kbus.h"

/* How many messages are copied in before any is sent, and out before any is popped */
#define KBUS_TRANSFER_BATCH	32
/* After so many bytes, no more of them are copied in. */
#define KBUS_TRANSFER_BATCH_BYTES	65536

struct kbus_transfer_copy {
	struct kbus_slot *slot;
	struct kbus_msg *msg;
	u32 flags;
};

/* How many bytes of the buffers go with a message of @len bytes */
static u64 kbus_transfer_step(u32 len)
{
	return ALIGN((u64)len, KBUS_TRANSFER_ALIGN);
}

/* Messages that have been copied in and are sent together */
struct kbus_transfer_out {
	unsigned int count;
	struct kbus_msg *msgs[KBUS_TRANSFER_BATCH];
	u32 lens[KBUS_TRANSFER_BATCH];
	struct kbus_msg_id ids[KBUS_TRANSFER_BATCH];
};

/*
 * Copy in messages from the beginning of what there is to send: as many as one
 * batch takes, up to the first one that is wrong, whose error is returned.
 */
static int kbus_transfer_take(struct kbus_ksock *ks, const struct kbus_transfer *t,
			      struct kbus_transfer_out *out)
{
	u64 pos = 0;

	for (out->count = 0; out->count < KBUS_TRANSFER_BATCH && pos < t->send_len &&
	     pos < KBUS_TRANSFER_BATCH_BYTES; out->count++) {
		struct kbus_msg *msg = kbus_msg_from_user(u64_to_user_ptr(t->send + pos),
							  t->send_len - pos, ks);

		if (IS_ERR(msg))
			return PTR_ERR(msg);
		out->msgs[out->count] = msg;
		out->lens[out->count] = msg->len;
		pos += kbus_transfer_step(msg->len);
	}
	return 0;
}

/* These messages are gone as far as the user is concerned. */
static void kbus_transfer_advance(struct kbus_transfer *t, const u32 *lens,
				  unsigned int count)
{
	u64 len = 0;

	while (count--)
		len += kbus_transfer_step(*lens++);
	len = min_t(u64, len, t->send_len);
	t->send += len;
	t->send_len -= len;
}

static int kbus_transfer_store_ids(struct kbus_transfer *t, const struct kbus_msg_id *ids,
				   unsigned int count)
{
	struct kbus_msg_id __user *to = u64_to_user_ptr(t->ids);

	if (to && copy_to_user(to + t->sent, ids, count * sizeof(*ids)))
		return -EFAULT;
	return 0;
}

/* Is there a place for this many ids more? That is better known beforehand. */
static bool kbus_transfer_can_store(const struct kbus_transfer *t, unsigned int count)
{
	struct kbus_msg_id __user *to = u64_to_user_ptr(t->ids);

	return !to || !clear_user(to + t->sent, count * sizeof(*to));
}

/* Send the message that waits for room in the kernel. */
static int kbus_transfer_send_kept(struct kbus_ksock *ks, struct kbus_transfer *t,
				   ktime_t until)
{
	struct kbus_msg_id id;
	int err;

	if (!kbus_transfer_can_store(t, 1))
		return -EFAULT;
	err = kbus_send(ks, true, until, &id);
	t->kept = kbus_send_is_kept(err);
	if (err)
		return err;
	err = kbus_transfer_store_ids(t, &id, 1);
	t->sent++;
	return err;
}

static int kbus_transfer_send_batch(struct kbus_ksock *ks, struct kbus_transfer *t,
				    ktime_t until)
{
	/* To clear what is about to be filled would cost as much as all the rest. */
	struct kbus_transfer_out out __uninitialized;
	unsigned int sent = 0;
	int wrong, err;

	wrong = kbus_transfer_take(ks, t, &out);
	if (!out.count)
		return wrong;
	if (!kbus_transfer_can_store(t, out.count)) {
		while (out.count--)
			kbus_msg_put(out.msgs[out.count]);
		return -EFAULT;
	}
	err = kbus_send_msgs(ks, out.msgs, out.count, until, out.ids, &sent);
	t->kept = kbus_send_is_kept(err);
	/* With ENOMSG another thread has seen to the message while this one slept. */
	kbus_transfer_advance(t, out.lens, sent + (t->kept || err == -ENOMSG));
	if (sent && kbus_transfer_store_ids(t, out.ids, sent) && !err)
		err = -EFAULT;
	t->sent += sent;
	/* What could not be copied in for lack of memory may do without the others. */
	return err || wrong == -ENOMEM || wrong == -ENOBUFS ? err : wrong;
}

static void kbus_transfer_send(struct kbus_ksock *ks, struct kbus_transfer *t, ktime_t until)
{
	int err = t->kept ? kbus_transfer_send_kept(ks, t, until) : 0;

	while (!err && t->send_len) {
		/* There may be gigabytes. */
		if (t->sent && signal_pending(current))
			err = -EINTR;
		else
			err = kbus_transfer_send_batch(ks, t, until);
		cond_resched();
	}
	t->error = err == -ERESTARTSYS ? EINTR : -err;
}

/* Look at the first copies that fit into what is left. Nobody else pops them. */
static unsigned int kbus_transfer_peek(struct kbus_queue *q, const struct kbus_transfer *t,
				       struct kbus_transfer_copy *copies)
{
	unsigned int most = t->receive_max ? t->receive_max - t->received : U32_MAX;
	u32 space = t->receive_len - t->received_len;
	struct kbus_slot *slot;
	unsigned int count = 0;

	spin_lock(&q->lock);
	list_for_each_entry(slot, &q->copies, node) {
		if (count == min_t(u32, most, KBUS_TRANSFER_BATCH) || slot->msg->len > space)
			break;
		copies[count].slot = slot;
		copies[count].msg = slot->msg;
		copies[count].flags = kbus_slot_flags(slot);
		count++;
		space -= min_t(u64, kbus_transfer_step(slot->msg->len), space);
	}
	spin_unlock(&q->lock);
	return count;
}

/* Pop those of the copies that are still the first ones in the queue. Return how many. */
static unsigned int kbus_transfer_pop(struct kbus_queue *q,
				      const struct kbus_transfer_copy *copies,
				      unsigned int count)
{
	struct kbus_wakes wakes = KBUS_WAKES();
	unsigned int i;

	spin_lock(&q->lock);
	for (i = 0; i < count; i++) {
		if (kbus_queue_first(q) != copies[i].slot ||
		    kbus_slot_flags(copies[i].slot) != copies[i].flags)
			break;
		kbus_queue_pop(q, copies[i].slot);
	}
	kbus_queue_unlock(q, &wakes);
	kbus_wakes_flush(&wakes);
	return i;
}

/* Tell when a copy was queued that is the next but @index to be received. */
static bool kbus_transfer_put_time(const struct kbus_transfer *t, unsigned int index,
				   const struct kbus_msg *msg)
{
	u64 __user *to = u64_to_user_ptr(t->times);

	return !to || !put_user(msg->queued_at, to + t->received + index);
}

/* Receive a batch. Return how many, which may be 0 with more to come, or -EFAULT. */
static int kbus_transfer_batch(struct kbus_ksock *ks, struct kbus_transfer *t,
			       const struct kbus_transfer_copy *copies, unsigned int count)
{
	u32 pos = t->received_len;
	unsigned int i, done, popped;
	u64 len = 0;

	lockdep_assert_held(&ks->in_lock);
	for (done = 0; done < count; done++) {
		if (!kbus_msg_to_user(copies[done].msg, copies[done].flags,
				      u64_to_user_ptr(t->receive + pos)) ||
		    !kbus_transfer_put_time(t, done, copies[done].msg))
			break;
		pos += kbus_transfer_step(copies[done].msg->len);
	}
	popped = kbus_transfer_pop(&ks->q, copies, done);
	for (i = 0; i < popped; i++) {
		len += kbus_transfer_step(copies[i].msg->len);
		kbus_copy_put(ks, copies[i].msg);
	}
	t->received_len = min_t(u64, t->received_len + len, t->receive_len);
	t->received += popped;
	return done < count && popped == done ? -EFAULT : popped;
}

static bool kbus_transfer_has_mail(struct kbus_ksock *ks, u64 unused)
{
	return READ_ONCE(ks->q.count);
}

/* Receive whatever is queued, fits and is wanted. */
static int kbus_transfer_receive(struct kbus_ksock *ks, struct kbus_transfer *t)
{
	struct kbus_transfer_copy copies[KBUS_TRANSFER_BATCH] __uninitialized;
	unsigned int count;
	int done;

	if (!kbus_transfer_has_mail(ks, 0))
		return 0;
	do {
		mutex_lock(&ks->in_lock);
		count = kbus_transfer_peek(&ks->q, t, copies);
		done = count ? kbus_transfer_batch(ks, t, copies, count) : 0;
		mutex_unlock(&ks->in_lock);
		if (!count)
			return 0;
		if (done < 0)
			return t->received ? 0 : done;
		cond_resched();
		/* Whatever ended a batch early will end the next one before it begins. */
	} while ((count == KBUS_TRANSFER_BATCH || done < count) && !signal_pending(current));
	return 0;
}

/* How things are in the queue; and what has been lost is told, if there is room. */
static void kbus_transfer_settle(struct kbus_ksock *ks, struct kbus_transfer *t)
{
	struct kbus_queue *q = &ks->q;
	struct kbus_slot *next;

	t->queued = 0;
	t->next_len = 0;
	if (kbus_transfer_has_mail(ks, 0)) {
		spin_lock(&q->lock);
		next = kbus_queue_first(q);
		t->queued = q->count;
		t->next_len = next ? next->msg->len : 0;
		spin_unlock(&q->lock);
	}
	t->lost = READ_ONCE(q->lost);
	/* Even with nothing popped: there may have been no memory for a report. */
	if (t->receive_len)
		kbus_ksock_report_losses(ks);
}

/* Receive, and unless the next message does not fit, wait until there is one. */
static int kbus_transfer_receive_or_wait(struct kbus_ksock *ks, struct kbus_transfer *t,
					 ktime_t until)
{
	int err;

	for (;;) {
		err = kbus_transfer_receive(ks, t);
		if (err || t->received || t->error || !until)
			return err;
		if (kbus_transfer_has_mail(ks, 0) || READ_ONCE(ks->q.lost_unreported)) {
			kbus_transfer_settle(ks, t);
			if (t->next_len > t->receive_len)
				return 0;
		}
		err = kbus_sleep_until(ks, kbus_transfer_has_mail, 0, until);
		if (err)
			return err;
	}
}

static int kbus_transfer_check(const struct kbus_ksock *ks, const struct kbus_transfer *t)
{
	u32 unknown = t->flags;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(t->reserved); i++)
		unknown |= t->reserved[i];
	if (t->kept > 1 || unknown)
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
	bool had_kept;
	int err;

	if (copy_from_user(&t, arg, sizeof(t)))
		return -EFAULT;
	err = kbus_transfer_check(ks, &t);
	if (err)
		return err;
	/*
	 * A bad address is better known before anything has been sent. The argument is
	 * in two pages at most.
	 */
	if (put_user(t.send, &arg->send) ||
	    put_user(0, &arg->reserved[ARRAY_SIZE(arg->reserved) - 1]))
		return -EFAULT;
	if (t.times)
		WRITE_ONCE(ks->q.wants_times, true);
	had_kept = t.kept;
	until = nonblock ? 0 : min_t(u64, t.deadline, KTIME_MAX);
	t.sent = 0;
	t.error = 0;
	t.received = 0;
	t.received_len = 0;

	if (t.send_len || t.kept)
		kbus_transfer_send(ks, &t, until);
	if (t.receive_len)
		err = kbus_transfer_receive_or_wait(ks, &t, until);
	/* What has become of a message is told, or it would never be. */
	if (err == -EAGAIN || (err && (t.sent || t.kept || had_kept)))
		err = 0;
	if (err)
		return err;
	kbus_transfer_settle(ks, &t);
	return copy_to_user(arg, &t, sizeof(t)) ? -EFAULT : 0;
}
