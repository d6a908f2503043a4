// SPDX-License-Identifier: GPL-2.0
/*
 * A KSock, which is one open file: open, release, write, read and poll.
 */
#include <linux/cred.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/slab.h>

#include "kbus.h"

static void kbus_ksock_free(struct kbus_ksock *ks)
{
	kbus_msg_put(ks->lost_msg);
	kbus_crowd_free(ks);
	put_pid(ks->pid);
	kbus_user_put(ks->user);
	kbus_group_put(ks->dev, ks->group);
	kfree(ks);
}

void kbus_ksock_put(struct kbus_ksock *ks)
{
	if (refcount_dec_and_test(&ks->refs))
		kbus_ksock_free(ks);
}

static struct kbus_ksock *kbus_ksock_new(struct kbus_dev *dev, fmode_t mode)
{
	struct kbus_ksock *ks;
	struct kbus_user *user;

	ks = kzalloc(sizeof(*ks), KBUS_GFP);
	if (!ks)
		return ERR_PTR(-ENOMEM);
	refcount_set(&ks->refs, 1);
	ks->dev = dev;
	ks->mode = mode;
	mutex_init(&ks->crowd_lock);
	INIT_LIST_HEAD(&ks->late);
	mutex_init(&ks->out_lock);
	mutex_init(&ks->in_lock);
	init_waitqueue_head(&ks->wq);
	kbus_queue_init(&ks->q);
	INIT_LIST_HEAD(&ks->bindings);
	INIT_LIST_HEAD(&ks->requests);
	INIT_LIST_HEAD(&ks->owed);
	INIT_LIST_HEAD(&ks->plan.node);
	INIT_LIST_HEAD(&ks->plan.items);
	kbus_wait_init(&ks->wait);
	ks->waits = RB_ROOT;
	ks->pid = get_pid(task_tgid(current));
	ks->uid = current_euid();
	ks->gid = current_egid();

	ks->group = kbus_group_of_current(dev);
	if (!ks->group) {
		kbus_ksock_free(ks);
		return ERR_PTR(-ENOMEM);
	}
	user = kbus_user_get(kbus_user_of_current());
	if (!user) {
		kbus_ksock_free(ks);
		return ERR_PTR(-ENOMEM);
	}
	if (!kbus_user_count(&user->ksocks, READ_ONCE(kbus_max_user_ksocks))) {
		kbus_user_put(user);
		kbus_ksock_free(ks);
		return ERR_PTR(-EMFILE);
	}
	ks->user = user;
	return ks;
}

static int kbus_ksock_open(struct inode *inode, struct file *file)
{
	struct kbus_dev *dev = kbus_dev_get(iminor(inode));
	struct kbus_ksock *ks;
	int err;

	if (!dev)
		return -ENOENT;
	ks = kbus_ksock_new(dev, file->f_mode);
	if (IS_ERR(ks))
		return PTR_ERR(ks);
	err = xa_alloc_cyclic(&dev->ksocks, &ks->id, ks, XA_LIMIT(1, U32_MAX),
			      &dev->next_ksock_id, KBUS_GFP);
	if (err < 0) {
		kbus_user_has_closed(ks->user);
		kbus_ksock_free(ks);
		return err == -EBUSY ? -EMFILE : err;
	}
	atomic_inc(&dev->nr_ksocks);
	kbus_spares_get();
	file->private_data = ks;
	kbus_verbose(dev, "KSock %u is opened\n", ks->id);
	return stream_open(inode, file);
}

/*
 * Nothing here can fail or be interrupted, and nobody else has to wait for the
 * whole of it. Once @closing is set, nothing new comes in; what is left goes in
 * the order that the others are to see: unbind events, then statuses.
 */
static int kbus_ksock_release(struct inode *inode, struct file *file)
{
	struct kbus_ksock *ks = file->private_data;
	struct kbus_dev *dev = ks->dev;
	struct kbus_wakes wakes __uninitialized;

	kbus_wakes_init(&wakes);
	spin_lock(&dev->lock);
	kbus_wait_end(ks, false, &wakes);
	kbus_requests_orphan(ks);
	spin_unlock(&dev->lock);
	kbus_wakes_end(&wakes);

	kbus_requests_disown(ks);
	kbus_wait_on_gone(ks);
	kbus_unbind_all(ks);
	kbus_requests_fail(dev, &ks->owed, NULL);
	kbus_queue_empty(&ks->q);
	kbus_msg_put(ks->out);
	kbus_copy_put(ks->user, ks->in);

	kbus_wake_never(ks);
	kbus_verbose(dev, "KSock %u is closed\n", ks->id);
	/* Not with the last reference, which may be a sender's. */
	kbus_user_has_closed(ks->user);
	/* Whoever is about to wake it keeps it for a moment. */
	kbus_ksock_put(ks);
	kbus_spares_put();
	return 0;
}

/* The message being written waits no more, as it is dropped. */
static void kbus_ksock_stop_waiting(struct kbus_ksock *ks)
{
	struct kbus_wakes wakes __uninitialized;

	kbus_wakes_init(&wakes);
	spin_lock(&ks->dev->lock);
	kbus_wait_end(ks, false, &wakes);
	spin_unlock(&ks->dev->lock);
	kbus_wakes_end(&wakes);
}

/* Drop the message being written, if there is one. */
void kbus_ksock_drop_out(struct kbus_ksock *ks)
{
	lockdep_assert_held(&ks->out_lock);
	/* A task that sleeps for the message is to see that it is gone. */
	WRITE_ONCE(ks->out_serial, ks->out_serial + 1);
	if (ks->wait.since)
		kbus_ksock_stop_waiting(ks);
	kbus_msg_put(ks->out);
	ks->out = NULL;
	ks->out_begin_len = 0;
}

/* Begin the message whose header is complete, for a message of @len bytes. */
static int kbus_ksock_begin_out(struct kbus_ksock *ks, u32 len)
{
	struct kbus_msg *msg = kbus_msg_new(len, ks);

	if (IS_ERR(msg))
		return PTR_ERR(msg);
	kbus_msg_append_bytes(msg, ks->out_begin, sizeof(ks->out_begin));
	ks->out = msg;
	return 0;
}

/*
 * Add a piece to the message being written. Return 0, an error for which the
 * message must be dropped, or -ENOMEM or -ENOBUFS with nothing changed.
 */
static int kbus_ksock_add_out(struct kbus_ksock *ks, struct kbus_msg *piece)
{
	const struct kbus_message_header *hdr = (void *)ks->out_begin;
	u32 had = ks->out_begin_len, from = 0, len, left;
	int err;

	if (!ks->out) {
		from = min_t(u32, sizeof(ks->out_begin) - had, piece->len);
		memcpy(ks->out_begin + had, piece->head, from);
		ks->out_begin_len += from;
		err = kbus_msg_check_header(hdr, ks->out_begin_len,
					    READ_ONCE(ks->dev->max_msg_size), &len);
		if (err || !len)
			return err;
		if (!had && piece->len == len) {
			/* The usual case: one write, one message, nothing to copy */
			refcount_inc(&piece->refs);
			ks->out = piece;
			return kbus_msg_check_filled(ks->out);
		}
		err = kbus_ksock_begin_out(ks, len);
		if (err) {
			ks->out_begin_len = had;
			return err;
		}
	}

	left = ks->out->len - ks->out->filled;
	err = kbus_msg_append(ks->out, piece, from, ks->group);
	if (err) {
		if (from) {
			kbus_msg_put(ks->out);
			ks->out = NULL;
			ks->out_begin_len = had;
		}
		return err;
	}
	err = kbus_msg_check_filled(ks->out);
	return !err && piece->len - from > left ? -EMSGSIZE : err;
}

/*
 * How many of @count bytes it takes to tell whether all can be right: no message
 * has more to come than the longest one, and one more is enough to be too many.
 */
static size_t kbus_ksock_write_count(struct kbus_ksock *ks, size_t count)
{
	size_t limit = READ_ONCE(ks->dev->max_msg_size);

	if (count <= limit)
		return count;
	/* The message may have begun when the limit was higher. */
	mutex_lock(&ks->out_lock);
	if (ks->out)
		limit = max_t(size_t, limit, ks->out->len);
	mutex_unlock(&ks->out_lock);
	return min(count, limit + 1);
}

static ssize_t kbus_ksock_write(struct kiocb *iocb, struct iov_iter *from)
{
	struct kbus_ksock *ks = iocb->ki_filp->private_data;
	size_t count = iov_iter_count(from);
	struct kbus_msg *piece;
	int err;

	if (!count)
		return 0;
	piece = kbus_msg_from_iter(from, kbus_ksock_write_count(ks, count), ks);
	if (IS_ERR(piece))
		return PTR_ERR(piece);

	mutex_lock(&ks->out_lock);
	if (ks->wait.since) {
		err = -EALREADY;
	} else {
		err = kbus_ksock_add_out(ks, piece);
		/* The limit may have been raised meanwhile. */
		if (!err && piece->len < count)
			err = -EMSGSIZE;
		if (err && err != -ENOMEM && err != -ENOBUFS)
			kbus_ksock_drop_out(ks);
	}
	mutex_unlock(&ks->out_lock);
	kbus_msg_put(piece);
	return err ?: count;
}

static ssize_t kbus_ksock_read(struct kiocb *iocb, struct iov_iter *to)
{
	struct kbus_ksock *ks = iocb->ki_filp->private_data;
	struct kbus_item *item, *whole = NULL;
	u32 len, pos, flags, count;
	size_t done;

	mutex_lock(&ks->in_lock);
	item = ks->in;
	if (!item) {
		mutex_unlock(&ks->in_lock);
		return 0;
	}
	/* It stays charged, whatever others do, as this may sleep for ever. */
	refcount_inc(&item->refs);
	len = item->msg->len;
	pos = ks->in_pos;
	flags = ks->in_flags;
	count = min_t(size_t, iov_iter_count(to), len - pos);
	ks->in_pos += count;
	mutex_unlock(&ks->in_lock);

	done = kbus_msg_to_iter(item->msg, pos, count, flags, to);
	if (done < count || pos + count == len) {
		mutex_lock(&ks->in_lock);
		if (ks->in == item && ks->in_pos == pos + count) {
			/* Not copied, not read, unless somebody else has read on. */
			ks->in_pos = pos + done;
			/* The reader may not be back for long. */
			if (ks->in_pos == len)
				swap(ks->in, whole);
		}
		mutex_unlock(&ks->in_lock);
	}
	kbus_copy_put(ks->user, whole);
	kbus_copy_put(ks->user, item);
	return done || !count ? done : -EFAULT;
}

static __poll_t kbus_ksock_poll(struct file *file, poll_table *table)
{
	struct kbus_ksock *ks = file->private_data;
	struct kbus_item *item;
	__poll_t events = 0;

	kbus_poll_wait(file, ks, table);
	spin_lock(&ks->q.lock);
	item = list_first_entry_or_null(&ks->q.items, struct kbus_item, node);
	if (item) {
		events |= EPOLLIN | EPOLLRDNORM;
		if (kbus_msg_header(item->msg)->flags & KBUS_BIT_URGENT)
			events |= EPOLLPRI;
	}
	spin_unlock(&ks->q.lock);
	if (ks->mode & FMODE_WRITE &&
	    (!READ_ONCE(ks->wait.since) || READ_ONCE(ks->wait.ready)))
		events |= EPOLLOUT | EPOLLWRNORM;
	return events;
}

/* Have ready what the next report of lost messages needs. */
static int kbus_ksock_prepare_report(struct kbus_ksock *ks)
{
	struct kbus_msg *msg = kbus_msg_synthetic(strlen(KBUS_NAME_MESSAGES_LOST),
						  sizeof(u32), ks->group);
	int err = msg ? 0 : -ENOMEM;

	spin_lock(&ks->dev->lock);
	if (!ks->lost_msg) {
		WRITE_ONCE(ks->lost_msg, msg);
		msg = NULL;
	}
	spin_unlock(&ks->dev->lock);
	kbus_msg_put(msg);
	return err;
}

/**
 * kbus_ksock_report_lost() - switch REPORTLOST
 * @ks: the KSock
 * @on: report from now on
 *
 * Return: 0 or -ENOMEM.
 */
int kbus_ksock_report_lost(struct kbus_ksock *ks, bool on)
{
	if (on && kbus_ksock_prepare_report(ks))
		return -ENOMEM;
	spin_lock(&ks->q.lock);
	ks->q.report_lost = on;
	if (!on)
		ks->q.lost_unreported = 0;
	spin_unlock(&ks->q.lock);
	return 0;
}

/* Let those go on who wait for room in this KSock's queue, if there is some. */
void kbus_ksock_settle(struct kbus_ksock *ks)
{
	struct kbus_wakes wakes __uninitialized;

	kbus_wakes_init(&wakes);
	spin_lock(&ks->q.lock);
	kbus_queue_unlock(&ks->q, &wakes);
	kbus_wakes_end(&wakes);
}

/* Is there something that the KSock is to be told, and the memory for it? */
bool kbus_ksock_can_report(struct kbus_ksock *ks)
{
	return READ_ONCE(ks->q.lost_unreported) &&
		(READ_ONCE(ks->lost_msg) || !kbus_ksock_prepare_report(ks));
}

/* There may be room in this KSock's queue to tell it what it has missed. */
void kbus_ksock_report_losses(struct kbus_ksock *ks)
{
	struct kbus_wakes wakes __uninitialized;

	if (!kbus_ksock_can_report(ks))
		return;
	kbus_wakes_init(&wakes);
	spin_lock(&ks->dev->lock);
	kbus_send_report_lost(ks, &wakes);
	spin_unlock(&ks->dev->lock);
	kbus_wakes_end(&wakes);
}

/* A limit of all KSocks has changed: there may be room for those who wait, and for reports. */
void kbus_dev_look_again(struct kbus_dev *dev)
{
	struct kbus_ksock *ks;
	unsigned long id = 0;
	void *entry;

	do {
		spin_lock(&dev->lock);
		entry = xa_find(&dev->ksocks, &id, U32_MAX, XA_PRESENT);
		/* Else it has closed, and its id stands for its Requests. */
		ks = xa_is_value(entry) ? NULL : entry;
		if (ks)
			kbus_ksock_get(ks);
		spin_unlock(&dev->lock);
		if (ks) {
			kbus_wait_wake_all(ks);
			kbus_ksock_report_losses(ks);
			kbus_ksock_put(ks);
		}
		cond_resched();
	} while (entry && id++ < U32_MAX);
}

const struct file_operations kbus_fops = {
	.owner = THIS_MODULE,
	.open = kbus_ksock_open,
	.release = kbus_ksock_release,
	.read_iter = kbus_ksock_read,
	.write_iter = kbus_ksock_write,
	.poll = kbus_ksock_poll,
	.unlocked_ioctl = kbus_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};
