// SPDX-License-Identifier: GPL-2.0
/*
 * The front door: what comes from user space is copied once, checked, and given
 * to whoever does the work; what comes of it is copied back.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>

#include "kbus.h"

/* Copy in a name of @len bytes at user address @address, with a NUL put after it. */
static char *kbus_copy_name(u64 address, u32 len)
{
	char *name;
	int err;

	if (!address)
		return ERR_PTR(-EFAULT);
	if (!len)
		return ERR_PTR(-EBADMSG);
	if (len > KBUS_MAX_NAME_LEN)
		return ERR_PTR(-ENAMETOOLONG);
	name = memdup_user_nul(u64_to_user_ptr(address), len);
	if (IS_ERR(name))
		return name;
	err = kbus_name_check(name, len);
	if (err) {
		kfree(name);
		return ERR_PTR(err);
	}
	return name;
}

static long kbus_ioctl_bind(struct kbus_ksock *ks, void __user *arg, bool unbind)
{
	struct kbus_bind_request req;
	bool is_replier;
	char *name;
	int err;

	if (copy_from_user(&req, arg, sizeof(req)))
		return -EFAULT;
	if (req.is_replier > KBUS_BIND_OBSERVER)
		return -EINVAL;
	is_replier = req.is_replier == KBUS_BIND_REPLIER;
	if (!(ks->mode & FMODE_READ) || (is_replier && !(ks->mode & FMODE_WRITE)))
		return -EBADF;
	name = kbus_copy_name(req.name, req.name_len);
	if (IS_ERR(name))
		return PTR_ERR(name);

	if (is_replier && !strcmp(name, KBUS_NAME_REPLIER_BIND_EVENT))
		err = -EBADMSG;
	else if (unbind)
		err = kbus_unbind(ks, name, req.name_len, req.is_replier);
	else
		err = kbus_bind(ks, name, req.name_len, req.is_replier);
	kfree(name);
	return err;
}

/* REPLIER, and RESOLVE, for which a wildcard is no name but a lot of names */
static long kbus_ioctl_replier(struct kbus_ksock *ks, struct kbus_replier_query __user *arg,
			       bool resolve)
{
	struct kbus_dev *dev = ks->dev;
	struct kbus_replier_query query;
	struct kbus_binding *replier;
	struct kbus_words words = {};
	struct kbus_name *bound;
	u32 hash = 0;
	char *name;
	int err = 0;

	if (copy_from_user(&query, arg, sizeof(query)))
		return -EFAULT;
	name = kbus_copy_name(query.name, query.name_len);
	if (IS_ERR(name))
		return PTR_ERR(name);
	if (resolve && kbus_name_wildcard(name, query.name_len))
		err = -EBADMSG;
	else if (resolve)
		err = kbus_words_new(&words, dev, name, query.name_len);
	else
		hash = kbus_name_hash(dev, name, query.name_len);
	if (err) {
		kfree(name);
		return err;
	}

	spin_lock(&dev->lock);
	if (resolve) {
		replier = kbus_match_replier(kbus_words_match(dev, &words));
	} else {
		bound = kbus_name_find(dev, name, query.name_len, hash);
		replier = bound ? bound->replier : NULL;
	}
	query.ksock_id = replier ? replier->ks->id : 0;
	spin_unlock(&dev->lock);
	kbus_words_free(&words);
	kfree(name);
	if (put_user(query.ksock_id, &arg->ksock_id))
		return -EFAULT;
	return query.ksock_id ? 1 : 0;
}

/*
 * The length is stored first, while no lock is held, and the message is popped
 * if it is still the next one then. So a bad address costs nobody a message.
 */
static long kbus_ioctl_nextmsg(struct kbus_ksock *ks, u32 __user *arg)
{
	struct kbus_queue *q = &ks->q;
	struct kbus_item *next, *item, *old;
	struct kbus_wakes wakes __uninitialized;
	bool is_next;
	u32 len;

	if (!(ks->mode & FMODE_READ))
		return -EBADF;
	kbus_wakes_init(&wakes);
	do {
		spin_lock(&q->lock);
		next = list_first_entry_or_null(&q->items, struct kbus_item, node);
		len = next ? next->msg->len : 0;
		spin_unlock(&q->lock);
		if (put_user(len, arg))
			return -EFAULT;

		mutex_lock(&ks->in_lock);
		spin_lock(&q->lock);
		item = list_first_entry_or_null(&q->items, struct kbus_item, node);
		/* Another item at the same address will do if it is as long. */
		is_next = item == next && (!item || item->msg->len == len);
		if (!is_next) {
			spin_unlock(&q->lock);
			mutex_unlock(&ks->in_lock);
			continue;
		}
		old = ks->in;
		ks->in_pos = 0;
		if (item)
			ks->in_flags = kbus_item_flags(item);
		ks->in = kbus_queue_pop(q);
		kbus_queue_unlock(q, &wakes);
		mutex_unlock(&ks->in_lock);
	} while (!is_next);

	kbus_wakes_end(&wakes);
	kbus_copy_put(ks->user, old);
	/* Even with nothing popped: there may have been no memory for a report. */
	kbus_ksock_report_losses(ks);
	return item ? 1 : 0;
}

static long kbus_ioctl_lenleft(struct kbus_ksock *ks, u32 __user *arg)
{
	u32 left;

	mutex_lock(&ks->in_lock);
	left = ks->in ? ks->in->msg->len - ks->in_pos : 0;
	mutex_unlock(&ks->in_lock);
	return put_user(left, arg);
}

static long kbus_ioctl_discard(struct kbus_ksock *ks)
{
	mutex_lock(&ks->out_lock);
	kbus_ksock_drop_out(ks);
	mutex_unlock(&ks->out_lock);
	return 0;
}

static long kbus_ioctl_send(struct kbus_ksock *ks, bool nonblock,
			    struct kbus_msg_id __user *arg)
{
	struct kbus_msg_id id;
	long err;

	if (!(ks->mode & FMODE_WRITE))
		return -EBADF;
	/* A bad address is better known before the message has been sent. */
	if (clear_user(arg, sizeof(*arg))) {
		kbus_ioctl_discard(ks);
		return -EFAULT;
	}
	err = kbus_send(ks, nonblock ? 0 : KTIME_MAX, &id);
	if (err)
		return err;
	return copy_to_user(arg, &id, sizeof(id)) ? -EFAULT : 0;
}

static long kbus_ioctl_lastsent(struct kbus_ksock *ks, struct kbus_msg_id __user *arg)
{
	struct kbus_msg_id id;

	mutex_lock(&ks->out_lock);
	id = ks->last_sent;
	mutex_unlock(&ks->out_lock);
	return copy_to_user(arg, &id, sizeof(id)) ? -EFAULT : 0;
}

static long kbus_ioctl_abandon(struct kbus_ksock *ks, struct kbus_msg_id __user *arg)
{
	struct kbus_msg_id id;

	if (copy_from_user(&id, arg, sizeof(id)))
		return -EFAULT;
	return kbus_request_abandon(ks, &id);
}

/* Any of the numbers that the queue's lock protects */
static long kbus_ioctl_count(struct kbus_ksock *ks, const u32 *count, u32 __user *arg)
{
	u32 value;

	spin_lock(&ks->q.lock);
	value = *count;
	spin_unlock(&ks->q.lock);
	return put_user(value, arg);
}

static long kbus_ioctl_maxmsgs(struct kbus_ksock *ks, u32 __user *arg)
{
	struct kbus_queue *q = &ks->q;
	struct kbus_wakes wakes __uninitialized;
	bool is_other;
	u32 limit;

	if (get_user(limit, arg))
		return -EFAULT;
	if (!limit)
		return kbus_ioctl_count(ks, &q->limit, arg);
	limit = min(limit, READ_ONCE(kbus_max_queue_length));
	if (put_user(limit, arg))
		return -EFAULT;

	kbus_wakes_init(&wakes);
	spin_lock(&q->lock);
	is_other = limit != q->limit;
	q->limit = limit;
	kbus_queue_unlock(q, &wakes);
	kbus_wakes_end(&wakes);
	/* What does not even fit an empty queue now is refused. */
	if (is_other)
		kbus_wait_wake_changed(ks);
	kbus_ksock_report_losses(ks);
	return 0;
}

static long kbus_ioctl_lostmsgs(struct kbus_ksock *ks, struct kbus_lost_msgs __user *arg)
{
	struct kbus_lost_msgs lost;

	spin_lock(&ks->q.lock);
	lost.count = ks->q.lost;
	spin_unlock(&ks->q.lock);
	return copy_to_user(arg, &lost, sizeof(lost)) ? -EFAULT : 0;
}

/*
 * May this descriptor set what concerns the whole device? It must be open for
 * writing, and its opener own the node, or the caller have CAP_SYS_ADMIN.
 */
static int kbus_ioctl_may_configure(const struct file *file)
{
	const struct kbus_ksock *ks = file->private_data;

	if (!(ks->mode & FMODE_WRITE))
		return -EBADF;
	if (READ_ONCE(kbus_writers_configure) || uid_eq(file_inode(file)->i_uid, ks->uid) ||
	    capable(CAP_SYS_ADMIN))
		return 0;
	return -EPERM;
}

/*
 * What all the switches have in common. The value before is stored before
 * anything changes; false in @set afterwards says that nothing is to. With @device,
 * it is a switch of the device that this file is.
 */
static long kbus_ioctl_switch(u32 __user *arg, bool before, const struct file *device,
			      bool *set, bool *on)
{
	int err = 0;
	u32 value;

	if (get_user(value, arg))
		return -EFAULT;
	if (value != KBUS_SWITCH_ON && value != KBUS_SWITCH_OFF && value != KBUS_SWITCH_ASK)
		return -EINVAL;
	*set = value != KBUS_SWITCH_ASK;
	*on = value == KBUS_SWITCH_ON;
	if (*set && device)
		err = kbus_ioctl_may_configure(device);
	return err ?: put_user(before ? KBUS_SWITCH_ON : KBUS_SWITCH_OFF, arg);
}

static long kbus_ioctl_msgonlyonce(struct kbus_ksock *ks, u32 __user *arg)
{
	bool set, on;
	long err;

	err = kbus_ioctl_switch(arg, READ_ONCE(ks->q.only_once), NULL, &set, &on);
	if (err || !set || on == READ_ONCE(ks->q.only_once))
		return err;
	WRITE_ONCE(ks->q.only_once, on);
	/* A message of which fewer copies are needed may fit now. */
	kbus_wait_wake_changed(ks);
	return 0;
}

static long kbus_ioctl_reportlost(struct kbus_ksock *ks, u32 __user *arg)
{
	bool set, on;
	long err;

	err = kbus_ioctl_switch(arg, READ_ONCE(ks->q.report_lost), NULL, &set, &on);
	if (err || !set)
		return err;
	return kbus_ksock_report_lost(ks, on);
}

static long kbus_ioctl_verbose(struct file *file, struct kbus_dev *dev, u32 __user *arg)
{
	bool set, on;
	long err;

	err = kbus_ioctl_switch(arg, READ_ONCE(dev->verbose), file, &set, &on);
	if (!err && set)
		WRITE_ONCE(dev->verbose, on);
	return err;
}

static long kbus_ioctl_reportbinds(struct file *file, struct kbus_dev *dev, u32 __user *arg)
{
	bool set, on;
	long err;

	err = kbus_ioctl_switch(arg, READ_ONCE(dev->report_binds), file, &set, &on);
	if (err || !set)
		return err;
	spin_lock(&dev->lock);
	WRITE_ONCE(dev->report_binds, on);
	spin_unlock(&dev->lock);
	return 0;
}

static long kbus_ioctl_newdevice(u32 __user *arg)
{
	unsigned int index;
	int err;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (clear_user(arg, sizeof(*arg)))
		return -EFAULT;
	err = kbus_dev_new(&index);
	return err ?: put_user(index, arg);
}

static long kbus_ioctl_maxmsgsize(struct file *file, struct kbus_dev *dev, u32 __user *arg)
{
	u32 highest = READ_ONCE(kbus_max_message_size);
	u32 size;
	int err;

	if (get_user(size, arg))
		return -EFAULT;
	if (size == 0)
		return put_user(READ_ONCE(dev->max_msg_size), arg);
	if (size == 1)
		return put_user(highest, arg);
	if (size < KBUS_MIN_MAX_MSG_SIZE || size > highest)
		return -EINVAL;
	err = kbus_ioctl_may_configure(file);
	if (!err)
		WRITE_ONCE(dev->max_msg_size, size);
	return err;
}

static long kbus_ioctl_peerinfo(struct kbus_ksock *ks, struct kbus_peer_info __user *arg)
{
	struct kbus_dev *dev = ks->dev;
	struct kbus_peer_info info;
	struct kbus_ksock *peer;

	if (copy_from_user(&info, arg, sizeof(info)))
		return -EFAULT;
	spin_lock(&dev->lock);
	peer = xa_load(&dev->ksocks, info.ksock_id);
	if (!peer || xa_is_value(peer)) {
		spin_unlock(&dev->lock);
		return -ESRCH;
	}
	info.pid = pid_vnr(peer->pid);
	info.uid = from_kuid_munged(current_user_ns(), peer->uid);
	info.gid = from_kgid_munged(current_user_ns(), peer->gid);
	spin_unlock(&dev->lock);
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

long kbus_ioctl(struct file *file, unsigned int cmd, unsigned long user_arg)
{
	struct kbus_ksock *ks = file->private_data;
	void __user *arg = (void __user *)user_arg;

	switch (cmd) {
	case KBUS_IOC_RESET:
		return 0;
	case KBUS_IOC_BIND:
		return kbus_ioctl_bind(ks, arg, false);
	case KBUS_IOC_UNBIND:
		return kbus_ioctl_bind(ks, arg, true);
	case KBUS_IOC_KSOCKID:
		return put_user(ks->id, (u32 __user *)arg);
	case KBUS_IOC_REPLIER:
		return kbus_ioctl_replier(ks, arg, false);
	case KBUS_IOC_RESOLVE:
		return kbus_ioctl_replier(ks, arg, true);
	case KBUS_IOC_NEXTMSG:
		return kbus_ioctl_nextmsg(ks, arg);
	case KBUS_IOC_LENLEFT:
		return kbus_ioctl_lenleft(ks, arg);
	case KBUS_IOC_SEND:
		return kbus_ioctl_send(ks, READ_ONCE(file->f_flags) & O_NONBLOCK, arg);
	case KBUS_IOC_TRANSFER:
		return kbus_transfer(ks, READ_ONCE(file->f_flags) & O_NONBLOCK, arg);
	case KBUS_IOC_DISCARD:
		return kbus_ioctl_discard(ks);
	case KBUS_IOC_LASTSENT:
		return kbus_ioctl_lastsent(ks, arg);
	case KBUS_IOC_ABANDON:
		return kbus_ioctl_abandon(ks, arg);
	case KBUS_IOC_MAXMSGS:
		return kbus_ioctl_maxmsgs(ks, arg);
	case KBUS_IOC_NUMMSGS:
		return kbus_ioctl_count(ks, &ks->q.count, arg);
	case KBUS_IOC_UNREPLIEDTO:
		return kbus_ioctl_count(ks, &ks->q.unreplied, arg);
	case KBUS_IOC_LOSTMSGS:
		return kbus_ioctl_lostmsgs(ks, arg);
	case KBUS_IOC_MSGONLYONCE:
		return kbus_ioctl_msgonlyonce(ks, arg);
	case KBUS_IOC_REPORTLOST:
		return kbus_ioctl_reportlost(ks, arg);
	case KBUS_IOC_VERBOSE:
		return kbus_ioctl_verbose(file, ks->dev, arg);
	case KBUS_IOC_REPORTREPLIERBINDS:
		return kbus_ioctl_reportbinds(file, ks->dev, arg);
	case KBUS_IOC_NEWDEVICE:
		return kbus_ioctl_newdevice(arg);
	case KBUS_IOC_MAXMSGSIZE:
		return kbus_ioctl_maxmsgsize(file, ks->dev, arg);
	case KBUS_IOC_PEERINFO:
		return kbus_ioctl_peerinfo(ks, arg);
	default:
		return -ENOTTY;
	}
}
