// SPDX-License-Identifier: GPL-2.0
/*
 * A KSock, which is one open file: open, release, write, read and poll.
 */
#include <linux/cred.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/slab.h>

#include "kbus.h"

/* A KSock with a queue, which counts for the current user */
static struct kbus_ksock *kbus_ksock_new(struct kbus_dev *dev, fmode_t mode)
{
	struct kbus_ksock *ks;
	int err;

	ks = kzalloc(sizeof(*ks), KBUS_GFP);
	if (!ks)
		return ERR_PTR(-ENOMEM);
	refcount_set(&ks->refs, 1);
	ks->dev = dev;
	ks->mode = mode;
	mutex_init(&ks->out_lock);
	mutex_init(&ks->in_lock);
	init_waitqueue_head(&ks->wq);
	INIT_LIST_HEAD(&ks->bindings);
	INIT_LIST_HEAD(&ks->requests);
	INIT_LIST_HEAD(&ks->owed);
	INIT_LIST_HEAD(&ks->plan.slots);
	INIT_LIST_HEAD(&ks->wait.by_dev);
	INIT_LIST_HEAD(&ks->wait.node);
	ks->uid = current_euid();
	ks->gid = current_egid();
	ks->user = kbus_user_get_current();
	if (!ks->user) {
		kfree(ks);
		return ERR_PTR(-ENOMEM);
	}
	err = -EMFILE;
	if (!kbus_user_count(&ks->user->ksocks, READ_ONCE(kbus_max_user_ksocks)))
		goto put_user;
	err = -ENOBUFS;
	if (!kbus_user_charge(ks->user, kbus_memory_cost(sizeof(*ks))))
		goto uncount;
	ks->pid = get_pid(task_tgid(current));
	err = kbus_queue_init(ks);
	if (!err)
		return ks;
	put_pid(ks->pid);
	kbus_user_uncharge(ks->user, kbus_memory_cost(sizeof(*ks)));
uncount:
	atomic_dec(&ks->user->ksocks);
put_user:
	kbus_user_put(ks->user);
	kfree(ks);
	return ERR_PTR(err);
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
		kbus_queue_free(ks);
		atomic_dec(&ks->user->ksocks);
		kbus_ksock_put(ks);
		return err == -EBUSY ? -EMFILE : err;
	}
	atomic_inc(&dev->nr_ksocks);
	file->private_data = ks;
	kbus_verbose(dev, "KSock %u is opened\n", ks->id);
	return stream_open(inode, file);
}

/*
 * Nothing here can fail or be interrupted. Once @closing is set, nothing new comes in;
 * what is left goes in the order that the others are to see: unbind events, then statuses.
 */
static int kbus_ksock_release(struct inode *inode, struct file *file)
{
	struct kbus_ksock *ks = file->private_data;
	struct kbus_dev *dev = ks->dev;
	struct kbus_wakes wakes = KBUS_WAKES();

	spin_lock(&dev->lock);
	kbus_wait_end(ks, &wakes);
	ks->closing = true;
	xa_erase(&dev->ksocks, ks->id);
	kbus_waits_end(ks, &wakes);
	spin_unlock(&dev->lock);
	kbus_wakes_flush(&wakes);

	kbus_requests_drop(ks);
	kbus_unbind_all(ks);
	kbus_requests_fail(dev, &ks->owed, NULL);
	kbus_queue_free(ks);
	kbus_msg_put(ks->out);
	kbus_copy_put(ks, ks->in);
	kbus_verbose(dev, "KSock %u is closed\n", ks->id);
	atomic_dec(&dev->nr_ksocks);
	atomic_dec(&ks->user->ksocks);
	/* Whoever is about to wake it may keep it. */
	kbus_ksock_put(ks);
	return 0;
}

/* Drop the message being written, if there is one. */
void kbus_ksock_drop_out(struct kbus_ksock *ks)
{
	struct kbus_wakes wakes = KBUS_WAKES();

	lockdep_assert_held(&ks->out_lock);
	/* A task that sleeps for the message is to see that it is gone. */
	WRITE_ONCE(ks->out_serial, ks->out_serial + 1);
	if (ks->wait.since) {
		spin_lock(&ks->dev->lock);
		kbus_wait_end(ks, &wakes);
		spin_unlock(&ks->dev->lock);
		kbus_wakes_flush(&wakes);
	}
	kbus_msg_put(ks->out);
	ks->out = NULL;
	ks->out_begin_len = 0;
}

/*
 * Add to the header of the message being written, and begin the message once that is
 * whole. Return 0, an error for which the message must be dropped, or -EFAULT, -ENOMEM
 * or -ENOBUFS with nothing changed.
 */
static int kbus_ksock_write_header(struct kbus_ksock *ks, struct iov_iter *from)
{
	const u32 had = ks->out_begin_len;
	u32 count = min_t(size_t, sizeof(ks->out_begin) - had, iov_iter_count(from)), len;
	struct kbus_msg *msg;
	int err;

	if (copy_from_iter(ks->out_begin + had, count, from) != count)
		return -EFAULT;
	err = kbus_msg_check_header((void *)ks->out_begin, had + count,
				    READ_ONCE(ks->dev->max_msg_size), &len);
	if (!err && len) {
		msg = kbus_msg_new(len, ks->user);
		if (IS_ERR(msg))
			return PTR_ERR(msg);
		kbus_msg_append(msg, ks->out_begin, sizeof(ks->out_begin));
		ks->out = msg;
	}
	ks->out_begin_len += count;
	return err;
}

/* Likewise, add to the message. */
static int kbus_ksock_write_out(struct kbus_ksock *ks, struct iov_iter *from)
{
	const u32 had = ks->out_begin_len;
	const bool is_new = !ks->out;
	u32 filled;
	u8 beyond;
	int err;

	err = is_new ? kbus_ksock_write_header(ks, from) : 0;
	if (err || !ks->out)
		return err;
	filled = ks->out->filled;
	err = kbus_msg_fill(ks->out, from, min_t(size_t, iov_iter_count(from),
						 ks->out->len - filled));
	if (!err)
		err = kbus_msg_check_filled(ks->out);
	if (!err && iov_iter_count(from))
		err = copy_from_iter(&beyond, 1, from) ? -EMSGSIZE : -EFAULT;
	if (err != -EFAULT)
		return err;
	ks->out->filled = filled;
	if (is_new) {
		kbus_msg_put(ks->out);
		ks->out = NULL;
		ks->out_begin_len = had;
	}
	return err;
}

static ssize_t kbus_ksock_write(struct kiocb *iocb, struct iov_iter *from)
{
	struct kbus_ksock *ks = iocb->ki_filp->private_data;
	size_t count = iov_iter_count(from);
	int err;

	if (!count)
		return 0;
	mutex_lock(&ks->out_lock);
	if (ks->wait.since) {
		err = -EALREADY;
	} else {
		err = kbus_ksock_write_out(ks, from);
		if (err && err != -EFAULT && err != -ENOMEM && err != -ENOBUFS)
			kbus_ksock_drop_out(ks);
	}
	mutex_unlock(&ks->out_lock);
	return err ?: count;
}

static ssize_t kbus_ksock_read(struct kiocb *iocb, struct iov_iter *to)
{
	struct kbus_ksock *ks = iocb->ki_filp->private_data;
	size_t done = 0;
	u32 count = 0;

	mutex_lock(&ks->in_lock);
	if (ks->in) {
		count = min_t(size_t, iov_iter_count(to), ks->in->len - ks->in_pos);
		done = kbus_msg_to_iter(ks->in, ks->in_pos, count, ks->in_flags, to);
		ks->in_pos += done;
		/* The reader may not be back for long. */
		if (ks->in_pos == ks->in->len) {
			kbus_copy_put(ks, ks->in);
			ks->in = NULL;
		}
	}
	mutex_unlock(&ks->in_lock);
	return done || !count ? done : -EFAULT;
}

static __poll_t kbus_ksock_poll(struct file *file, poll_table *table)
{
	struct kbus_ksock *ks = file->private_data;
	struct kbus_slot *slot;
	__poll_t events = 0;

	poll_wait(file, &ks->wq, table);
	/* Pairs with kbus_wakes_add(): what has not been told will be seen. */
	smp_mb();
	spin_lock(&ks->q.lock);
	slot = kbus_queue_first(&ks->q);
	if (slot) {
		events |= EPOLLIN | EPOLLRDNORM;
		if (kbus_msg_header(slot->msg)->flags & KBUS_BIT_URGENT)
			events |= EPOLLPRI;
	}
	spin_unlock(&ks->q.lock);
	if (ks->mode & FMODE_WRITE &&
	    (!READ_ONCE(ks->wait.since) || READ_ONCE(ks->wait.ready)))
		events |= EPOLLOUT | EPOLLWRNORM;
	return events;
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
