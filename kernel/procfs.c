// SPDX-License-Identifier: GPL-2.0
/*
 * /proc/kbus/bindings and /proc/kbus/stats.
 *
 * Opening one of them takes a snapshot of each device in one step, as an array
 * of rows; reading shows that, so that no device is held up by a slow reader.
 * Where there is much to see, readers of a device take turns, and rest after the
 * step: so reading in a loop does not keep others from binding or sending.
 */
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>

#include "kbus.h"

/* So many KSocks or bindings do not take long to look at. */
#define KBUS_SNAPSHOT_FEW	64
/* How many times as long as a step the rest after it is, and microseconds at most */
#define KBUS_SNAPSHOT_REST	200
#define KBUS_SNAPSHOT_REST_MAX	(10 * USEC_PER_SEC)

struct kbus_dev_row {
	u64 sent;
	u32 ksocks;
	u32 bindings;
	u32 last_serial;
	u32 max_msg_size;
	u32 waits;
	u32 events_aside;
	bool report_binds;
	bool verbose;
};

struct kbus_ksock_row {
	u32 id;
	struct pid *pid;
	kuid_t uid;
	kgid_t gid;
	u32 queued;
	u32 limit;
	u32 queued_max;
	size_t bytes;
	size_t bytes_limit;
	size_t bytes_max;
	u64 sent;
	u64 received;
	u64 lost;
	u32 bindings;
	u32 awaiting;
	u32 owed;
	u32 unreplied;
	bool only_once;
	bool waiting;
};

struct kbus_binding_row {
	u32 ksock_id;
	struct pid *pid;
	struct kbus_name *name;
	bool is_replier;
};

enum kbus_row_kind { KBUS_ROW_DEV, KBUS_ROW_KSOCK, KBUS_ROW_BINDING };

struct kbus_row {
	enum kbus_row_kind kind;
	unsigned int dev;
	union {
		struct kbus_dev_row device;
		struct kbus_ksock_row ksock;
		struct kbus_binding_row binding;
	};
};

/* All the rows of a file; @capacity is for allocation only, @user is charged */
struct kbus_snapshot {
	struct kbus_row *rows;
	size_t count;
	size_t capacity;
	struct kbus_user *user;
};

/* A user may have one snapshot open, whatever its size, and others within the limit. */
static bool kbus_snapshot_is_too_much(const struct kbus_snapshot *snap)
{
	const struct kbus_user *user = snap->user;

	return atomic_long_read(&user->snapshot_bytes) > READ_ONCE(kbus_max_user_bytes) &&
		atomic_read(&user->snapshots) > 1;
}

static bool kbus_snapshot_charge(struct kbus_snapshot *snap, size_t rows)
{
	long bytes = rows * sizeof(*snap->rows);

	atomic_long_add(bytes, &snap->user->snapshot_bytes);
	if (!kbus_snapshot_is_too_much(snap))
		return true;
	atomic_long_sub(bytes, &snap->user->snapshot_bytes);
	return false;
}

/* Have room for @more rows. */
static int kbus_snapshot_reserve(struct kbus_snapshot *snap, size_t more)
{
	size_t capacity = snap->count + more;
	struct kbus_row *rows;

	if (capacity <= snap->capacity)
		return 0;
	/* Some more, for those who come while no lock is held */
	capacity += 16 + more / 8;
	if (!kbus_snapshot_charge(snap, capacity - snap->capacity))
		return -ENOBUFS;
	rows = kvmalloc_array(capacity, sizeof(*rows), KBUS_GFP);
	if (!rows) {
		atomic_long_sub((capacity - snap->capacity) * sizeof(*rows),
				&snap->user->snapshot_bytes);
		return -ENOMEM;
	}
	memcpy(rows, snap->rows, snap->count * sizeof(*rows));
	kvfree(snap->rows);
	snap->rows = rows;
	snap->capacity = capacity;
	return 0;
}

static struct kbus_row *kbus_snapshot_add(struct kbus_snapshot *snap, struct kbus_dev *dev,
					  enum kbus_row_kind kind)
{
	struct kbus_row *row = &snap->rows[snap->count++];

	row->kind = kind;
	row->dev = dev->index;
	return row;
}

/* What a name takes that is not bound any more, but in the snapshot */
static long kbus_snapshot_name_cost(const struct kbus_name *name)
{
	return kmalloc_size_roundup(struct_size(name, name, name->len + 1));
}

/* Forget the rows from the one with this index on. */
static void kbus_snapshot_cut(struct kbus_snapshot *snap, size_t count)
{
	while (snap->count > count) {
		struct kbus_row *row = &snap->rows[--snap->count];

		if (row->kind == KBUS_ROW_BINDING && row->binding.name) {
			atomic_long_sub(kbus_snapshot_name_cost(row->binding.name),
					&snap->user->snapshot_bytes);
			kbus_name_put(row->binding.name);
			put_pid(row->binding.pid);
		} else if (row->kind == KBUS_ROW_KSOCK) {
			put_pid(row->ksock.pid);
		}
		cond_resched();
	}
}

static void kbus_snapshot_free(struct kbus_snapshot *snap)
{
	kbus_snapshot_cut(snap, 0);
	kvfree(snap->rows);
	atomic_long_sub(snap->capacity * sizeof(*snap->rows), &snap->user->snapshot_bytes);
	atomic_dec(&snap->user->snapshots);
	kbus_user_put(snap->user);
	kfree(snap);
}

static void kbus_snapshot_ksock(struct kbus_ksock *ks, struct kbus_ksock_row *row)
{
	row->id = ks->id;
	row->pid = get_pid(ks->pid);
	row->uid = ks->uid;
	row->gid = ks->gid;
	row->sent = ks->sent;
	row->bindings = ks->nr_bindings;
	row->awaiting = ks->nr_requests;
	row->owed = ks->nr_owed;
	row->waiting = ks->wait.since;
	spin_lock(&ks->q.lock);
	row->queued = ks->q.count;
	row->limit = ks->q.limit;
	row->queued_max = ks->q.count_max;
	row->bytes = ks->q.bytes;
	row->bytes_limit = kbus_queue_byte_limit(&ks->q);
	row->bytes_max = ks->q.bytes_max;
	row->received = ks->q.received;
	row->lost = ks->q.lost;
	row->unreplied = ks->q.unreplied;
	row->only_once = ks->q.only_once;
	spin_unlock(&ks->q.lock);
}

/* Add the device and its KSocks; false if there is no room for all of them. */
static bool kbus_snapshot_ksocks(struct kbus_snapshot *snap, struct kbus_dev *dev)
{
	struct kbus_row *row = kbus_snapshot_add(snap, dev, KBUS_ROW_DEV);
	XA_STATE(xas, &dev->ksocks, 0);
	struct kbus_ksock *ks;
	bool fits = true;

	lockdep_assert_held(&dev->lock);
	row->device = (struct kbus_dev_row) {
		.sent = dev->sent,
		.bindings = dev->nr_bindings,
		.last_serial = dev->last_serial,
		.max_msg_size = READ_ONCE(dev->max_msg_size),
		.waits = dev->nr_waits,
		.events_aside = atomic_read(&dev->events_aside),
		.report_binds = dev->report_binds,
		.verbose = READ_ONCE(dev->verbose),
	};
	/* KSocks may be added meanwhile, but none goes. */
	rcu_read_lock();
	xas_for_each(&xas, ks, ULONG_MAX) {
		if (xas_retry(&xas, ks) || xa_is_value(ks))
			continue;
		fits = snap->count < snap->capacity;
		if (!fits)
			break;
		kbus_snapshot_ksock(ks, &kbus_snapshot_add(snap, dev, KBUS_ROW_KSOCK)->ksock);
		row->device.ksocks++;
	}
	rcu_read_unlock();
	return fits;
}

/* Add all of them; they are frozen. */
static void kbus_snapshot_bindings(struct kbus_snapshot *snap, struct kbus_dev *dev)
{
	struct kbus_binding *b;
	long names = 0;

	/* A row without a name is the header. */
	kbus_snapshot_add(snap, dev, KBUS_ROW_BINDING)->binding.name = NULL;
	list_for_each_entry(b, &dev->bindings, by_device) {
		struct kbus_binding_row *row;

		row = &kbus_snapshot_add(snap, dev, KBUS_ROW_BINDING)->binding;
		refcount_inc(&b->name->refs);
		row->name = b->name;
		row->pid = get_pid(b->ks->pid);
		row->ksock_id = b->ks->id;
		row->is_replier = b->is_replier;
		names += kbus_snapshot_name_cost(b->name);
		cond_resched();
	}
	atomic_long_add(names, &snap->user->snapshot_bytes);
}

/**
 * struct kbus_step - how a file takes its snapshot of a device
 * @rows: how many rows there are now, about
 * @take: add them all in one step; false, with any number of them added, if there
 *	is no room for all. @took is how long others had to wait
 */
struct kbus_step {
	size_t (*rows)(struct kbus_dev *dev);
	bool (*take)(struct kbus_snapshot *snap, struct kbus_dev *dev, ktime_t *took);
};

static size_t kbus_stats_rows(struct kbus_dev *dev)
{
	return 1 + atomic_read(&dev->nr_ksocks);
}

static bool kbus_stats_take(struct kbus_snapshot *snap, struct kbus_dev *dev, ktime_t *took)
{
	ktime_t began;
	bool fits;

	spin_lock(&dev->lock);
	began = ktime_get();
	fits = kbus_snapshot_ksocks(snap, dev);
	*took = ktime_sub(ktime_get(), began);
	spin_unlock(&dev->lock);
	return fits;
}

static size_t kbus_bindings_rows(struct kbus_dev *dev)
{
	/* Only a guess: kbus_bindings_take() freezes them first. */
	return 1 + data_race(dev->nr_bindings);
}

static bool kbus_bindings_take(struct kbus_snapshot *snap, struct kbus_dev *dev,
			       ktime_t *took)
{
	ktime_t began = ktime_get();
	bool fits;

	spin_lock(&dev->lock);
	fits = snap->count + 1 + dev->nr_bindings <= snap->capacity;
	WRITE_ONCE(dev->is_frozen, fits);
	spin_unlock(&dev->lock);
	if (fits) {
		kbus_snapshot_bindings(snap, dev);
		spin_lock(&dev->lock);
		WRITE_ONCE(dev->is_frozen, false);
		spin_unlock(&dev->lock);
		wake_up_all(&dev->thaw);
	}
	*took = ktime_sub(ktime_get(), began);
	return fits;
}

static const struct kbus_step kbus_stats_step = {
	.rows = kbus_stats_rows, .take = kbus_stats_take,
};

static const struct kbus_step kbus_bindings_step = {
	.rows = kbus_bindings_rows, .take = kbus_bindings_take,
};

/* A step that a worker takes, as it is in nobody's control group and is not throttled */
struct kbus_step_work {
	struct work_struct work;
	const struct kbus_step *step;
	struct kbus_snapshot *snap;
	struct kbus_dev *dev;
	ktime_t took;
	bool done;
};

static void kbus_step_work_fn(struct work_struct *work)
{
	struct kbus_step_work *w = container_of(work, struct kbus_step_work, work);

	w->done = w->step->take(w->snap, w->dev, &w->took);
}

/*
 * Take a step, for which others on the device wait. Where there is much to see, none
 * takes one again before the others have had KBUS_SNAPSHOT_REST times as long.
 */
static bool kbus_snapshot_rest_and_take(struct kbus_snapshot *snap, struct kbus_dev *dev,
					const struct kbus_step *step)
{
	struct kbus_step_work w = { .step = step, .snap = snap, .dev = dev };
	const size_t begin = snap->count;
	s64 rest;

	lockdep_assert_held(&dev->snapshot_lock);
	rest = ktime_us_delta(dev->snapshot_after, ktime_get());
	if (rest > 0)
		schedule_timeout_killable(usecs_to_jiffies(rest));
	INIT_WORK_ONSTACK(&w.work, kbus_step_work_fn);
	queue_work(system_unbound_wq, &w.work);
	flush_work(&w.work);
	destroy_work_on_stack(&w.work);
	if (snap->count - begin > KBUS_SNAPSHOT_FEW)
		dev->snapshot_after = ktime_add_us(ktime_get(),
						   min_t(s64, KBUS_SNAPSHOT_REST *
							 ktime_to_us(w.took),
							 KBUS_SNAPSHOT_REST_MAX));
	return w.done;
}

/* Add what the file shows of one device to the snapshot. */
static int kbus_snapshot_dev(struct kbus_snapshot *snap, struct kbus_dev *dev,
			     const struct kbus_step *step)
{
	const size_t begin = snap->count;
	bool done = false;
	int err;

	err = mutex_lock_killable(&dev->snapshot_lock);
	if (err)
		return err;
	do {
		kbus_snapshot_cut(snap, begin);
		err = kbus_snapshot_reserve(snap, step->rows(dev));
		if (err)
			break;
		done = kbus_snapshot_rest_and_take(snap, dev, step);
	} while (!done && !fatal_signal_pending(current));
	mutex_unlock(&dev->snapshot_lock);
	/* The names too, which may be bound no longer than until now */
	if (done && kbus_snapshot_is_too_much(snap))
		return -ENOBUFS;
	return done ? 0 : err ?: -EINTR;
}

static void kbus_show_dev(struct seq_file *m, unsigned int dev, const struct kbus_dev_row *row)
{
	seq_printf(m, "device %u ksocks=%u bindings=%u sent=%llu last_serial=%u", dev,
		   row->ksocks, row->bindings, row->sent, row->last_serial);
	seq_printf(m, " max_message_size=%u report_replier_binds=%d verbose=%d",
		   row->max_msg_size, row->report_binds, row->verbose);
	seq_printf(m, " waiting=%u events_aside=%u\n", row->waits, row->events_aside);
}

static void kbus_show_ksock(struct seq_file *m, unsigned int dev,
			    const struct kbus_ksock_row *row)
{
	seq_printf(m, "ksock %u %u pid=%d uid=%u gid=%u", dev, row->id, pid_vnr(row->pid),
		   from_kuid_munged(current_user_ns(), row->uid),
		   from_kgid_munged(current_user_ns(), row->gid));
	seq_printf(m, " queued=%u queue_limit=%u bytes=%zu bytes_limit=%zu",
		   row->queued, row->limit, row->bytes, row->bytes_limit);
	seq_printf(m, " queued_max=%u bytes_max=%zu sent=%llu received=%llu lost=%llu",
		   row->queued_max, row->bytes_max, row->sent, row->received, row->lost);
	seq_printf(m, " bindings=%u awaiting=%u owed=%u unreplied=%u", row->bindings,
		   row->awaiting, row->owed, row->unreplied);
	seq_printf(m, " only_once=%d waiting=%d\n", row->only_once, row->waiting);
}

static void kbus_show_binding(struct seq_file *m, unsigned int dev,
			      const struct kbus_binding_row *row)
{
	if (!row->name) {
		seq_puts(m, "# <device> is bound to <Ksock-ID> in <process-PID> as <Replier|Listener> for <message-name>\n");
		return;
	}
	seq_printf(m, "%3u: %8u %8lu  %c  %s\n", dev, row->ksock_id,
		   (unsigned long)pid_vnr(row->pid), row->is_replier ? 'R' : 'L',
		   row->name->name);
}

static void *kbus_seq_start(struct seq_file *m, loff_t *pos)
{
	struct kbus_snapshot *snap = m->private;

	return *pos < snap->count ? &snap->rows[*pos] : NULL;
}

static void *kbus_seq_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return kbus_seq_start(m, pos);
}

static void kbus_seq_stop(struct seq_file *m, void *v)
{
}

static int kbus_seq_show(struct seq_file *m, void *v)
{
	const struct kbus_row *row = v;

	switch (row->kind) {
	case KBUS_ROW_DEV:
		kbus_show_dev(m, row->dev, &row->device);
		break;
	case KBUS_ROW_KSOCK:
		kbus_show_ksock(m, row->dev, &row->ksock);
		break;
	case KBUS_ROW_BINDING:
		kbus_show_binding(m, row->dev, &row->binding);
		break;
	}
	return 0;
}

static const struct seq_operations kbus_seq_ops = {
	.start = kbus_seq_start,
	.next = kbus_seq_next,
	.stop = kbus_seq_stop,
	.show = kbus_seq_show,
};

static int kbus_proc_open(struct file *file, const struct kbus_step *step)
{
	struct kbus_snapshot *snap;
	struct kbus_dev *dev;
	unsigned int i;
	int err = 0;

	snap = kzalloc(sizeof(*snap), KBUS_GFP);
	if (!snap)
		return -ENOMEM;
	snap->user = kbus_user_get(kbus_user_of_current());
	if (!snap->user) {
		kfree(snap);
		return -ENOMEM;
	}
	atomic_inc(&snap->user->snapshots);
	for (i = 0; !err && (dev = kbus_dev_get(i)); i++)
		err = kbus_snapshot_dev(snap, dev, step);
	if (!err)
		err = seq_open(file, &kbus_seq_ops);
	if (err)
		kbus_snapshot_free(snap);
	else
		((struct seq_file *)file->private_data)->private = snap;
	return err;
}

static int kbus_bindings_open(struct inode *inode, struct file *file)
{
	return kbus_proc_open(file, &kbus_bindings_step);
}

static int kbus_stats_open(struct inode *inode, struct file *file)
{
	return kbus_proc_open(file, &kbus_stats_step);
}

static int kbus_proc_release(struct inode *inode, struct file *file)
{
	kbus_snapshot_free(((struct seq_file *)file->private_data)->private);
	return seq_release(inode, file);
}

static const struct proc_ops kbus_bindings_ops = {
	.proc_open = kbus_bindings_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = kbus_proc_release,
};

static const struct proc_ops kbus_stats_ops = {
	.proc_open = kbus_stats_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = kbus_proc_release,
};

/* Make a file that root and the group may read. */
static bool kbus_proc_add(const char *name, struct proc_dir_entry *dir,
			  const struct proc_ops *ops, kgid_t gid)
{
	struct proc_dir_entry *file = proc_create(name, 0440, dir, ops);

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
	if (kbus_proc_add("bindings", dir, &kbus_bindings_ops, gid) &&
	    kbus_proc_add("stats", dir, &kbus_stats_ops, gid))
		return 0;
	kbus_procfs_exit();
	return -ENOMEM;
}

void kbus_procfs_exit(void)
{
	remove_proc_subtree("kbus", NULL);
}
