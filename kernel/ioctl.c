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
	struct kbus_name *bound;
	char *name;

	if (copy_from_user(&query, arg, sizeof(query)))
		return -EFAULT;
	name = kbus_copy_name(query.name, query.name_len);
	if (IS_ERR(name))
		return PTR_ERR(name);
	if (resolve && kbus_name_wildcard(name, query.name_len)) {
		kfree(name);
		return -EBADMSG;
	}

	spin_lock(&dev->lock);
	if (resolve) {
		replier = kbus_match_replier(kbus_name_match(dev, name, query.name_len));
	} else {
		bound = kbus_name_find(dev, name, query.name_len);
		replier = bound ? bound->replier : NULL;
	}
	query.ksock_id = replier ? replier->ks->id : 0;
	spin_unlock(&dev->lock);
	kfree(name);
	if (put_user(query.ksock_id, &arg->ksock_id))
		return -EFAULT;
	return query.ksock_id ? 1 : 0;
}

/*
 * The length is stored first, while no spinlock is held, and the message is popped
 * if it is still the next one then: an urgent one may have come. So a bad address costs
 * nobody a message.
 */
static long kbus_ioctl_nextmsg(struct kbus_ksock *ks, u32 __user *arg)
{
	struct kbus_wakes wakes = KBUS_WAKES();
	struct kbus_queue *q = &ks->q;
	struct kbus_msg *old = NULL;
	struct kbus_slot *next;
	bool is_next;
	u32 len;

	if (!(ks->mode & FMODE_READ))
		return -EBADF;
	mutex_lock(&ks->in_lock);
	do {
		spin_lock(&q->lock);
		next = kbus_queue_first(q);
		len = next ? next->msg->len : 0;
		spin_unlock(&q->lock);
		if (put_user(len, arg)) {
			mutex_unlock(&ks->in_lock);
			return -EFAULT;
		}

		spin_lock(&q->lock);
		is_next = kbus_queue_first(q) == next;
		if (is_next) {
			old = ks->in;
			ks->in_pos = 0;
			ks->in_flags = next ? kbus_slot_flags(next) : 0;
			ks->in = next ? kbus_queue_pop(q, next) : NULL;
		}
		/* Only this makes room; what is collected must be woken before put_user(). */
		if (is_next)
			kbus_queue_unlock(q, &wakes);
		else
			spin_unlock(&q->lock);
	} while (!is_next);
	mutex_unlock(&ks->in_lock);

	kbus_wakes_flush(&wakes);
	kbus_copy_put(ks, old);
	/* Even with nothing popped: there may have been no memory for a report. */
	kbus_ksock_report_losses(ks);
	return next ? 1 : 0;
}

static long kbus_ioctl_lenleft(struct kbus_ksock *ks, u32 __user *arg)
{
	u32 left;

	mutex_lock(&ks->in_lock);
	left = ks->in ? ks->in->len - ks->in_pos : 0;
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
	err = kbus_send(ks, false, nonblock ? 0 : KTIME_MAX, &id);
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
	struct kbus_wakes wakes = KBUS_WAKES();
	u32 limit;
	int err;

	if (get_user(limit, arg))
		return -EFAULT;
	if (!limit)
		return kbus_ioctl_count(ks, &ks->q.limit, arg);
	limit = min(limit, READ_ONCE(kbus_max_queue_length));
	if (put_user(limit, arg))
		return -EFAULT;
	mutex_lock(&ks->in_lock);
	err = kbus_queue_resize(ks, limit, &wakes);
	mutex_unlock(&ks->in_lock);
	kbus_wakes_flush(&wakes);
	if (!err)
		kbus_ksock_report_losses(ks);
	return err;
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
 * MSGONLYONCE, REPORTLOST, VERBOSE and REPORTREPLIERBINDS, of which the last two are the
 * device's. The value before is stored before anything changes.
 */
static long kbus_ioctl_switch(struct file *file, unsigned int cmd, u32 __user *arg)
{
	struct kbus_ksock *ks = file->private_data;
	struct kbus_dev *dev = ks->dev;
	const bool is_devices = cmd == KBUS_IOC_VERBOSE || cmd == KBUS_IOC_REPORTREPLIERBINDS;
	bool *flag, on;
	u32 value;
	long err = 0;

	if (is_devices)
		flag = cmd == KBUS_IOC_VERBOSE ? &dev->verbose : &dev->report_binds;
	else
		flag = cmd == KBUS_IOC_MSGONLYONCE ? &ks->q.only_once : &ks->q.report_lost;
	if (get_user(value, arg))
		return -EFAULT;
	if (value != KBUS_SWITCH_ON && value != KBUS_SWITCH_OFF && value != KBUS_SWITCH_ASK)
		return -EINVAL;
	on = value == KBUS_SWITCH_ON;
	if (value != KBUS_SWITCH_ASK && is_devices)
		err = kbus_ioctl_may_configure(file);
	if (!err)
		err = put_user(READ_ONCE(*flag) ? KBUS_SWITCH_ON : KBUS_SWITCH_OFF, arg);
	if (err || value == KBUS_SWITCH_ASK)
		return err;
	if (cmd == KBUS_IOC_REPORTLOST)
		return kbus_ksock_report_lost(ks, on);

	/* Whoever tells of binds does not expect this to change in between. */
	mutex_lock(&dev->bind_lock);
	WRITE_ONCE(*flag, on);
	mutex_unlock(&dev->bind_lock);
	/* A message of which fewer copies are needed may fit now. */
	if (cmd == KBUS_IOC_MSGONLYONCE)
		kbus_waits_retry(ks, false, NULL, 0);
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
	if (!peer) {
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
	case KBUS_IOC_REPORTLOST:
	case KBUS_IOC_VERBOSE:
	case KBUS_IOC_REPORTREPLIERBINDS:
		return kbus_ioctl_switch(file, cmd, arg);
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
