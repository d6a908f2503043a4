// SPDX-License-Identifier: GPL-2.0
/*
 * /proc/kbus/bindings and /proc/kbus/stats.
 *
 * Reading bindings takes a snapshot of each device, as text; a slow reader holds up
 * nobody. In stats, each line is consistent in itself.
 */
#include <linux/cred.h>
#include <linux/pid.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/user_namespace.h>

#include "kbus.h"

static int kbus_bindings_show(struct seq_file *m, void *v)
{
	struct kbus_binding *b;
	struct kbus_dev *dev;
	unsigned int i;

	for (i = 0; (dev = kbus_dev_get(i)); i++) {
		if (mutex_lock_killable(&dev->bind_lock))
			return -EINTR;
		seq_puts(m, "# <device> is bound to <Ksock-ID> in <process-PID> as <Replier|Listener> for <message-name>\n");
		list_for_each_entry(b, &dev->bindings, by_device) {
			seq_printf(m, "%3u: %8u %8lu  %c  %s\n", i, b->ks->id,
				   (unsigned long)pid_vnr(b->ks->pid),
				   b->kind == KBUS_BIND_REPLIER ? 'R' : 'L', b->name->name);
			cond_resched();
		}
		mutex_unlock(&dev->bind_lock);
	}
	return 0;
}

/* Where a line of stats is: those of a device follow each other, its own one first. */
static loff_t kbus_stats_pos(unsigned int index, u32 id)
{
	return (loff_t)index << 32 | id;
}

static void *kbus_stats_start(struct seq_file *m, loff_t *pos)
{
	return kbus_dev_get(*pos >> 32) ? pos : NULL;
}

/* Go to the KSock with the next id, or to the next device. */
static void *kbus_stats_next(struct seq_file *m, void *v, loff_t *pos)
{
	unsigned long id = (u32)*pos;
	unsigned int index = *pos >> 32;
	struct kbus_dev *dev = kbus_dev_get(index);

	if (id++ < U32_MAX && xa_find(&dev->ksocks, &id, U32_MAX, XA_PRESENT))
		*pos = kbus_stats_pos(index, id);
	else
		*pos = kbus_stats_pos(index + 1, 0);
	return kbus_stats_start(m, pos);
}

static void kbus_stats_stop(struct seq_file *m, void *v)
{
}

static void kbus_show_dev(struct seq_file *m, struct kbus_dev *dev)
{
	spin_lock(&dev->lock);
	seq_printf(m, "device %u ksocks=%u bindings=%u sent=%llu last_serial=%u", dev->index,
		   atomic_read(&dev->nr_ksocks), dev->nr_bindings, dev->sent,
		   dev->last_serial);
	seq_printf(m, " max_message_size=%u report_replier_binds=%d verbose=%d",
		   READ_ONCE(dev->max_msg_size), READ_ONCE(dev->report_binds),
		   READ_ONCE(dev->verbose));
	seq_printf(m, " waiting=%u events_aside=%u\n", dev->nr_waits,
		   atomic_read(&dev->events_aside));
	spin_unlock(&dev->lock);
}

static void kbus_show_ksock(struct seq_file *m, struct kbus_dev *dev, u32 id)
{
	struct kbus_ksock *ks;

	spin_lock(&dev->lock);
	ks = xa_load(&dev->ksocks, id);
	if (!ks) {
		spin_unlock(&dev->lock);
		return;
	}
	spin_lock(&ks->q.lock);
	seq_printf(m, "ksock %u %u pid=%d uid=%u gid=%u", dev->index, id, pid_vnr(ks->pid),
		   from_kuid_munged(current_user_ns(), ks->uid),
		   from_kgid_munged(current_user_ns(), ks->gid));
	seq_printf(m, " queued=%u queue_limit=%u bytes=%zu bytes_limit=%lu",
		   ks->q.count, ks->q.limit, ks->q.bytes, READ_ONCE(kbus_max_queue_bytes));
	seq_printf(m, " queued_max=%u bytes_max=%zu sent=%llu received=%llu lost=%llu",
		   ks->q.count_max, ks->q.bytes_max, ks->sent, ks->q.received, ks->q.lost);
	seq_printf(m, " bindings=%u awaiting=%u owed=%u unreplied=%u", ks->nr_bindings,
		   ks->nr_requests, ks->nr_owed, ks->q.unreplied);
	seq_printf(m, " only_once=%d waiting=%d\n", READ_ONCE(ks->q.only_once),
		   ks->wait.since > 0);
	spin_unlock(&ks->q.lock);
	spin_unlock(&dev->lock);
}

static int kbus_stats_show(struct seq_file *m, void *v)
{
	const loff_t *pos = v;
	struct kbus_dev *dev = kbus_dev_get(*pos >> 32);

	if ((u32)*pos)
		kbus_show_ksock(m, dev, *pos);
	else
		kbus_show_dev(m, dev);
	return 0;
}

static const struct seq_operations kbus_stats_seq_ops = {
	.start = kbus_stats_start,
	.next = kbus_stats_next,
	.stop = kbus_stats_stop,
	.show = kbus_stats_show,
};

/* Let root and the group read a file, if it could be made. */
static bool kbus_proc_share(struct proc_dir_entry *file, kgid_t gid)
{
	if (file)
		proc_set_user(file, GLOBAL_ROOT_UID, gid);
	return file;
}

int kbus_procfs_init(void)
{
	kgid_t gid = make_kgid(&init_user_ns, kbus_proc_gid);
	struct proc_dir_entry *dir;

	if (!gid_valid(gid))
		return -EINVAL;
	dir = proc_mkdir_mode("kbus", 0550, NULL);
	if (!dir)
		return -ENOMEM;
	proc_set_user(dir, GLOBAL_ROOT_UID, gid);
	if (kbus_proc_share(proc_create_single("bindings", 0440, dir, kbus_bindings_show), gid) &&
	    kbus_proc_share(proc_create_seq("stats", 0440, dir, &kbus_stats_seq_ops), gid))
		return 0;
	kbus_procfs_exit();
	return -ENOMEM;
}

void kbus_procfs_exit(void)
{
	remove_proc_subtree("kbus", NULL);
}
