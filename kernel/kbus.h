/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KBUS, what its files share.
 *
 * A message goes from user bytes to a struct kbus_msg (message.c), meets the
 * bindings of its name (bindings.c) and is queued on each KSock that it concerns
 * (queue.c); send.c is where these three meet. A Request leaves a struct
 * kbus_request behind (answers.c) until it has been answered.
 *
 * Lock order, outermost first; none is held across access to user memory:
 *
 *	kbus_devs_lock			the table of devices
 *	kbus_dev.snapshot_lock		who looks at all KSocks or bindings at once
 *	    kbus_dev.lock
 *	kbus_ksock.out_lock		the message being written
 *	    kbus_dev.lock		bindings, requests, and the order of sends
 *	        kbus_queue.lock		one KSock's queue, and who waits for room
 *	            kbus_user.lock	whose queues a worker is to look at, and why
 *	            kbus_dev.groups	(the xarray's own lock)
 *	kbus_ksock.in_lock		the message being read
 *	    kbus_queue.lock
 *	kbus_ksock.crowd_lock		who hangs on the KSock beyond its first waiters
 *	kbus_spares.lock		(nothing is taken inside, but it is inside others)
 *
 * kbus_dev.lock makes the order of messages: an id is given, and all the copies
 * are queued, while it is held. Only its holder adds to a queue, so room that it
 * has seen cannot vanish before it uses it. Readers never take it: whatever they
 * change is under the queue's lock. Everybody on the device spins for it, so its
 * holder does not sleep, allocates nothing that may sleep, and does what takes
 * long in steps: what goes over all bindings freezes them first. Only the
 * numbers of all KSocks are taken at once, but that is done seldom (procfs.c).
 *
 * Whoever changes what a queue can take ends with kbus_queue_unlock(), which
 * alone decides who of those that wait for room may go on (wait.c). Nobody is
 * woken under any of these locks: who is to be woken is collected in a struct
 * kbus_wakes, and woken when the last lock has been dropped (wake.c).
 */
#ifndef _KBUS_H
#define _KBUS_H

#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/rhashtable.h>
#include <linux/sched/clock.h>
#include <linux/sched/mm.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "include/uapi/linux/kbus.h"

#define KBUS_MAX_DEVICES	256
/* Unbind events that the full queues of one device may hold over their limit */
#define KBUS_MAX_EVENTS_ASIDE	1000
/* So much is done before a lock is given to others. */
#define KBUS_STEP		64
/* Requests of one sender with the same id that may be unanswered */
#define KBUS_MAX_SAME_ID	16

/*
 * For memory that a user's call takes. If there is none, in its cgroup or at all,
 * the call fails; nobody is killed for it.
 */
#define KBUS_GFP		(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)
/* For memory of another cgroup's: the caller reclaims little for that one, */
#define KBUS_GFP_OTHERS		(GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN)
/* or only what can be dropped at once, as nothing has to be written before, */
#define KBUS_GFP_NO_WRITING	(KBUS_GFP_OTHERS & ~(__GFP_IO | __GFP_FS))
/* or nothing. */
#define KBUS_GFP_NO_RECLAIM	(KBUS_GFP_OTHERS & ~__GFP_DIRECT_RECLAIM)

/* Module parameters (module.c); writable ones are read with READ_ONCE() */
extern unsigned int kbus_num_devices;
extern unsigned int kbus_default_queue_length;
extern unsigned int kbus_max_queue_length;
extern unsigned int kbus_default_message_size;
extern unsigned int kbus_max_message_size;
extern unsigned long kbus_max_queue_bytes;
extern unsigned int kbus_max_ksock_bindings;
extern unsigned int kbus_max_user_bindings;
extern unsigned int kbus_max_name_bindings;
extern unsigned int kbus_max_user_ksocks;
extern unsigned long kbus_max_user_bytes;
extern unsigned int kbus_first_serial;
extern unsigned int kbus_first_ksock_id;
extern unsigned short kbus_device_mode;
extern unsigned int kbus_proc_gid;
extern bool kbus_writers_configure;

/* ---- user.c: what one user may have, over all devices ---- */

/**
 * struct kbus_worker - what does things for a user in nobody's time
 * @work: runs in kbus_workqueue, perhaps some time later, with a reference to the user
 * @rests_until: until then its time is used up, in ns; @work alone has it
 */
struct kbus_worker {
	struct delayed_work work;
	u64 rests_until;
};

/* A user has so many accounts with other users, who wake its KSocks. */
#define KBUS_WAKERS	64

struct kbus_user {
	struct hlist_node node;		/* kbus_users_lock */
	refcount_t refs;
	kuid_t uid;
	struct list_head former;	/* in kbus_former_users, until */
	unsigned long forget_at;	/* this, in jiffies */
	atomic_t ksocks;
	atomic_t bindings;
	atomic_t wide;			/* of them, those that others pay for */
	atomic_long_t bytes;
	atomic_t held;			/* copies queued on its KSocks, or being read */
	atomic_t snapshots;		/* files of /proc/kbus that are open, */
	atomic_long_t snapshot_bytes;	/* and what they take */
	/* READ_ONCE(), as are: */
	struct kbus_slow {
		u64 over;		/* ns by which it woke slowly */
		u64 until;		/* until then a worker does it, in ns */
	} slow[KBUS_WAKERS];
	u64 slow_until;			/* the last of these, or later than all of them */
	u64 tired_until;		/* until then nobody reclaims for it */
	spinlock_t lock;		/* protects: */
	struct list_head starving;	/* kbus_queue.starving */
	struct list_head late;		/* kbus_ksock.late */
	struct list_head patient;	/* kbus_queue.patient */
	struct list_head unsettled;	/* kbus_queue.unsettled */
	struct kbus_worker feed;	/* looks at the first ones, */
	struct kbus_worker wake;	/* this at the second ones, */
	struct kbus_worker nudge;	/* this at the third ones, */
	struct kbus_worker settle;	/* and this at the others */
};

kuid_t kbus_user_of_current(void);
struct kbus_user *kbus_user_get(kuid_t uid);
struct kbus_user *kbus_user_ref(struct kbus_user *user);
void kbus_user_put(struct kbus_user *user);
void kbus_user_has_closed(struct kbus_user *user);
void kbus_users_exit(void);
bool kbus_user_count(atomic_t *counter, unsigned int limit);
bool kbus_user_charge(struct kbus_user *user, size_t bytes);
bool kbus_user_charge_copies(struct kbus_user *user, size_t bytes, u32 copies);
void kbus_user_uncharge(struct kbus_user *user, size_t bytes);
void kbus_user_uncharge_copies(struct kbus_user *user, size_t bytes, u32 copies);
void kbus_user_work_in(struct kbus_user *user, struct kbus_worker *worker, unsigned long delay);
void kbus_user_work_cancel(struct kbus_user *user, struct kbus_worker *worker);
void kbus_worker_rest(struct kbus_worker *worker, u64 took);
void kbus_user_rests_until(struct kbus_user *user, u64 until);

/*
 * There may be bytes for those who wait for some, or they may need less. The caller
 * has changed what they look at, with a full barrier after it.
 */
static inline void kbus_user_look_again(struct kbus_user *user)
{
	/* Pairs with kbus_queue_starves(): one of the two sees what the other did. */
	if (unlikely(!list_empty(&user->starving)))
		kbus_user_work_in(user, &user->feed, 0);
}

static inline size_t kbus_user_bytes_left(struct kbus_user *user)
{
	unsigned long limit = READ_ONCE(kbus_max_user_bytes);
	unsigned long used = atomic_long_read(&user->bytes);

	return used < limit ? limit - used : 0;
}

/* ---- group.c: KSocks whose memory one control group has ---- */

struct kbus_dev;
struct kbus_share;

/**
 * struct kbus_group - the KSocks of a device that one control group opened
 * @memcg: the control group, or NULL where there are none
 * @key: its index in kbus_dev.groups
 * @serial: no other control group has it, ever
 * @refs: under the lock of kbus_dev.groups
 * @share: what this group gets of the message that is being sent; kbus_dev.lock
 */
struct kbus_group {
	struct mem_cgroup *memcg;
	unsigned long key;
	u64 serial;
	unsigned int refs;
	struct kbus_share *share;
};

struct kbus_group *kbus_group_of_current(struct kbus_dev *dev);
void kbus_group_put(struct kbus_dev *dev, struct kbus_group *group);

/* What is allocated from here to kbus_group_leave() is charged to the group. */
static inline struct mem_cgroup *kbus_group_enter(const struct kbus_group *group)
{
	return set_active_memcg(group->memcg);
}

static inline void kbus_group_leave(struct mem_cgroup *before)
{
	set_active_memcg(before);
}

/* ---- name.c: the syntax of names ---- */

int kbus_name_check(const char *name, size_t len);
char kbus_name_wildcard(const char *name, size_t len);
bool kbus_name_matches(const char *bound, size_t bound_len, const char *name, size_t len);

/* The length of what all names that are bound by this begin with */
static inline size_t kbus_name_fixed_len(const char *bound, size_t len)
{
	return len - (kbus_name_wildcard(bound, len) ? 1 : 0);
}

/* Of the bindings that match a name, the replier's is the one with the highest of these. */
static inline u32 kbus_name_rank(const char *bound, size_t len)
{
	return 2 * kbus_name_fixed_len(bound, len) + (kbus_name_wildcard(bound, len) != '*');
}

bool kbus_name_is_kbus(const char *name, size_t len);

/* ---- message.c: one message ---- */

/* For one who was meant, and one who records all */
#define KBUS_MSG_ITEMS	2

/* What the shortest message takes */
#define KBUS_MSG_LEAST	384U

/* The longest status, for which there is room with each slot that is set aside */
#define KBUS_STATUS_LEN							\
	(sizeof(struct kbus_message_header) +				\
	 ALIGN(sizeof(KBUS_NAME_REPLIER_GONEAWAY) - 1, 4) + sizeof(u32))

struct kbus_ksock;
struct kbus_binding;
struct kbus_request;
struct kbus_msg;

/**
 * struct kbus_item - one copy of a message in a queue
 * @node: in kbus_queue.items, or in a list of spare items
 * @by_binding: in kbus_binding.items
 * @msg: the message
 * @binding: by which it came; NULL for a reply to its requester, and the like
 * @request: the Request that whoever reads this copy must answer, or NULL
 * @refs: the queue, or the KSock that has taken it out, and each call that copies it to a
 *	user; the reader's user is charged until the last one goes
 * @is_aside: an unbind event over the queue's limit
 * @ends_events: a KBUS_NAME_UNBIND_EVENTS_LOST
 */
struct kbus_item {
	struct list_head node;
	struct list_head by_binding;
	struct kbus_msg *msg;
	struct kbus_binding *binding;
	struct kbus_request *request;
	refcount_t refs;
	bool is_aside;
	bool ends_events;
};

static inline void kbus_item_init(struct kbus_item *item)
{
	INIT_LIST_HEAD(&item->node);
	INIT_LIST_HEAD(&item->by_binding);
	item->msg = NULL;
	item->binding = NULL;
	item->request = NULL;
	refcount_set(&item->refs, 1);
	item->is_aside = false;
	item->ends_events = false;
}

/**
 * struct kbus_msg - a message, whole or still being written
 * @refs: the writer, and each queued copy
 * @len: bytes of the whole message
 * @filled: bytes that are there; only a message being written has fewer than @len
 * @head_len: bytes in @head: all, or as many as hold the longest header and name
 * @cost: bytes of memory that it takes, whole objects and pages
 * @nr_pages: length of @pages, of which the last ones may still be NULL
 * @nr_items_used: so many of @items are planned or were queued; kbus_dev.lock
 * @cpu: the processor that made it, which may want its memory again
 * @payer: who is charged @cost for a message that has not been delivered, or NULL
 * @owner: kbus_group.serial of whose memory it is
 * @pages: the bytes from @head_len on
 * @queued_at: when it was queued for the first KSock that asks, in ns, or 0
 * @items: for its first copies, so that most messages are one object
 * @head: how the message begins
 *
 * Nothing but @items, @nr_items_used and @queued_at changes once it is queued. The one
 * word that differs between copies, the flags, is made when a copy is read.
 */
struct kbus_msg {
	refcount_t refs;
	u32 len;
	u32 filled;
	u32 head_len;
	u32 cost;
	u32 nr_pages;
	u32 cpu;
	struct kbus_user *payer;
	u64 owner;
	void **pages;
	atomic64_t queued_at;
	u8 nr_items_used;
	struct kbus_item items[KBUS_MSG_ITEMS];
	u8 head[] __aligned(8);
};

/* Is the item a part of its message? */
static inline bool kbus_item_is_inside(const struct kbus_item *item)
{
	const struct kbus_msg *msg = item->msg;

	return msg && item >= msg->items && item < msg->items + KBUS_MSG_ITEMS;
}

/*
 * Bytes of memory that a copy takes of its reader's: as much as any other of the message, so
 * that what one user needs does not depend on others. Of several in a group only one takes
 * the message itself, and the others far less than they count.
 */
static inline u32 kbus_item_cost(const struct kbus_item *item)
{
	return item->msg->cost;
}

int kbus_msg_cache_init(void);
void kbus_msg_cache_exit(void);
struct kbus_msg *kbus_msg_new(u32 len, struct kbus_ksock *writer);
struct kbus_msg *kbus_msg_clone(const struct kbus_msg *msg, const struct kbus_group *group,
				gfp_t gfp);
struct kbus_msg *kbus_msg_from_user(const void __user *from, u32 available,
				    struct kbus_ksock *writer);
bool kbus_msg_to_user(const struct kbus_msg *msg, u32 flags, void __user *to);
struct kbus_msg *kbus_msg_from_iter(struct iov_iter *from, u32 len,
				    struct kbus_ksock *writer);
struct kbus_msg *kbus_msg_synthetic(size_t max_name_len, size_t max_data_len,
				    const struct kbus_group *group);
struct kbus_msg *kbus_msg_synthetic_now(size_t max_name_len, size_t max_data_len,
					const struct kbus_group *group);
void kbus_msg_begin(struct kbus_msg *msg, const char *name, u32 to, u32 data_len);
void kbus_msg_append_bytes(struct kbus_msg *msg, const void *bytes, u32 count);
void kbus_msg_append_padding(struct kbus_msg *msg, u32 len);
void kbus_msg_finish(struct kbus_msg *msg);
int kbus_msg_append(struct kbus_msg *msg, const struct kbus_msg *piece, u32 from,
		    const struct kbus_group *group);
size_t kbus_msg_to_iter(const struct kbus_msg *msg, u32 pos, u32 count, u32 flags,
			struct iov_iter *to);
void kbus_msg_uncharge(struct kbus_msg *msg);
void kbus_msg_put(struct kbus_msg *msg);
void kbus_msg_free_small(struct kbus_msg *msg);
void kbus_page_free(void *page);
int kbus_msg_check_header(const struct kbus_message_header *hdr, u32 have, u32 max_len,
			  u32 *len);
int kbus_msg_check_filled(const struct kbus_msg *msg);

static inline struct kbus_message_header *kbus_msg_header(const struct kbus_msg *msg)
{
	return (struct kbus_message_header *)msg->head;
}

/* The flags that whoever reads this copy sees */
static inline u32 kbus_item_flags(const struct kbus_item *item)
{
	return kbus_msg_header(item->msg)->flags |
		(item->request ? KBUS_BIT_WANT_YOU_TO_REPLY : 0);
}

static inline bool kbus_id_is_set(const struct kbus_msg_id *id)
{
	return id->network_id || id->serial_num;
}

static inline bool kbus_msg_is_reply(const struct kbus_message_header *hdr)
{
	return kbus_id_is_set(&hdr->in_reply_to);
}

static inline bool kbus_msg_is_request(const struct kbus_message_header *hdr)
{
	return hdr->flags & KBUS_BIT_WANT_A_REPLY;
}

static inline size_t kbus_msg_name_offset(const struct kbus_message_header *hdr)
{
	return sizeof(*hdr) + (hdr->flags & KBUS_BIT_EXTENDED ?
			       2 * sizeof(struct kbus_orig_from) : 0);
}

static inline const char *kbus_msg_name(const struct kbus_msg *msg)
{
	return (const char *)msg->head + kbus_msg_name_offset(kbus_msg_header(msg));
}

/* ---- spares.c: memory that the next messages will want ---- */

int kbus_spares_init(void);
void kbus_spares_exit(void);
void kbus_spares_get(void);
void kbus_spares_put(void);
struct kbus_msg *kbus_spare_msg(const struct kbus_group *group);
bool kbus_spare_msg_keep(struct kbus_msg *msg);
unsigned int kbus_spare_pages(const struct kbus_group *group, void **pages,
			      unsigned int count);
unsigned int kbus_spare_pages_keep(const struct kbus_msg *msg, unsigned int count);

/* ---- wake.c: those who sleep or poll at a KSock ---- */

/* So many KSocks are woken without memory for a list of them. */
#define KBUS_WAKES	16

/* More who wait at a KSock */
struct kbus_crowd {
	struct kbus_crowd *next;
	wait_queue_head_t wq;
};

struct kbus_wake {
	struct kbus_ksock *ks;
	__poll_t events;
};

/**
 * struct kbus_wakes - KSocks to wake once no lock is held that others need
 * @count: how many
 * @room: how many fit
 * @is_exhausted: there is no memory for more
 * @has_senders: some of them may send now
 * @list: the KSocks, with a reference to each
 * @few: what @list is unless there are many
 */
struct kbus_wakes {
	u32 count;
	u32 room;
	bool is_exhausted;
	bool has_senders;
	struct kbus_wake *list;
	struct kbus_wake few[KBUS_WAKES];
};

static inline void kbus_wakes_init(struct kbus_wakes *wakes)
{
	wakes->count = 0;
	wakes->room = KBUS_WAKES;
	wakes->is_exhausted = false;
	wakes->has_senders = false;
	wakes->list = wakes->few;
}

/* For workers: they leave all of it to those of the users that are to be woken. */
static inline void kbus_wakes_init_late(struct kbus_wakes *wakes)
{
	kbus_wakes_init(wakes);
	wakes->room = 0;
}

void kbus_wakes_wake(struct kbus_wakes *wakes);

#ifdef CONFIG_PREEMPT_RT
/* The task's own time, in ns, without the last tick: a lock lets others run. */
static inline u64 kbus_stopwatch_start(void)
{
	return current->se.sum_exec_runtime;
}

static inline u64 kbus_stopwatch_stop(u64 began)
{
	return current->se.sum_exec_runtime - began;
}
#else
/*
 * Measure how long something takes, in ns. Nobody else gets the processor before
 * kbus_stopwatch_stop(): whoever is woken, and is more important, would be counted.
 */
static inline u64 kbus_stopwatch_start(void)
{
	preempt_disable();
	return local_clock();
}

static inline u64 kbus_stopwatch_stop(u64 began)
{
	u64 took = local_clock() - began;

	preempt_enable();
	return took;
}
#endif

/* Wake all of them; no lock is held. */
static inline void kbus_wakes_flush(struct kbus_wakes *wakes)
{
	if (wakes->count)
		kbus_wakes_wake(wakes);
}

/* The same, for the last time */
static inline void kbus_wakes_end(struct kbus_wakes *wakes)
{
	kbus_wakes_flush(wakes);
	if (unlikely(wakes->list != wakes->few))
		kvfree(wakes->list);
}

void kbus_wakes_reserve(struct kbus_wakes *wakes, u32 count);
void kbus_wakes_add_waited(struct kbus_wakes *wakes, struct kbus_ksock *ks, __poll_t events);
void kbus_wake_later(struct kbus_ksock *ks, __poll_t events);
void kbus_wake_late(struct work_struct *work);
void kbus_wake_never(struct kbus_ksock *ks);
int kbus_sleep_until(struct kbus_ksock *ks, bool (*holds)(struct kbus_ksock *ks, u64 arg),
		     u64 arg, ktime_t until);
void kbus_poll_wait(struct file *file, struct kbus_ksock *ks, poll_table *table);
void kbus_crowd_free(struct kbus_ksock *ks);
int kbus_wake_init(void);
void kbus_wake_exit(void);

extern struct workqueue_struct *kbus_workqueue;

/* ---- queue.c: what one KSock has to read ---- */

/* Items allocated beforehand, for use where nothing may be allocated */
struct kbus_pool {
	struct list_head items;
	u32 count;
	bool exhausted;			/* there will be no more */
};

/* What several messages must have of one KSock, see struct kbus_need */
struct kbus_sum {
	u64 slots;
	u64 queue_bytes;
	u64 user_bytes;
};

/* Of so many users it is known by how much they were late. */
#define KBUS_LATE_USERS		20

/* By so much a user was late, in ns */
struct kbus_late {
	kuid_t uid;
	u32 by;
};

/* Messages for which tasks sleep */
struct kbus_line {
	struct rb_root_cached waits;	/* kbus_wait.in_line, by kbus_wait.since */
	struct kbus_sum needs;		/* what all of them need */
};

struct kbus_queue {
	/* Protects all of it; items are only added with kbus_dev.lock held too */
	spinlock_t lock;
	struct list_head items;		/* in the order of reading */
	u32 count;			/* READ_ONCE() without the lock */
	u32 set_aside;			/* slots for answers to come */
	u32 limit;			/* on count + set_aside */
	size_t bytes;
	u32 count_max;
	size_t bytes_max;
	u64 received;
	u64 lost;
	u32 lost_unreported;
	u32 unreplied;			/* Requests popped and not answered */
	bool report_lost;
	bool only_once;
	bool wants_times;		/* READ_ONCE(); a TRANSFER has asked when */
	bool events_ended;		/* an item with ends_events is queued */
	/* Those who wait for room here: */
	struct kbus_line line;		/* those for whom a task sleeps, */
	struct kbus_line tardy;		/* and of these, those of users who are tardy; */
	struct list_head kept;		/* messages kept after EAGAIN or EINTR, */
	u64 changes;			/* for each of which all of them are looked at once */
	struct list_head ready;		/* and those who may go on, but are in no line, and are */
					/* to be woken again */
	struct list_head starving;	/* in kbus_user.starving; kbus_user.lock, as are: */
	struct list_head unsettled;	/* in kbus_user.unsettled, */
	struct list_head patient;	/* and in kbus_user.patient, if: */
	bool is_patient;		/* a worker is going to look at those who may go on */
	struct kbus_late late[KBUS_LATE_USERS];
	u32 nr_late;
	u64 late_until;			/* in ns, if there are any */
};

/* Does somebody sleep until there is room? The queue's lock is held. */
static inline bool kbus_queue_has_line(const struct kbus_queue *q)
{
	return !RB_EMPTY_ROOT(&q->line.waits.rb_root) || !RB_EMPTY_ROOT(&q->tardy.waits.rb_root);
}

/* Is anything to be done when there is room? The queue's lock is held. */
static inline bool kbus_queue_is_waited_for(const struct kbus_queue *q)
{
	return kbus_queue_has_line(q) || !list_empty(&q->kept);
}

/**
 * struct kbus_need - what a message must have of one KSock, or nobody gets it
 * @copies: so many of it
 * @len: the length of each, in bytes
 * @own_slots: slots in the same queue for the answer: 1 for a Request to oneself
 * @is_only_one: no other KSock of the user's must have a copy
 * @bytes: of memory that all KSocks of the KSock's user must have for the message,
 *	and for which the user is not charged yet
 * @paid: those for which it is, as it has written the message
 * @at: kbus_dev.bindings_changed when all this was found out
 */
struct kbus_need {
	u32 copies;
	u32 len;
	u32 own_slots;
	bool is_only_one;
	u64 bytes;
	u64 paid;
	u64 at;
};

void kbus_queue_init(struct kbus_queue *q);
size_t kbus_queue_byte_limit(struct kbus_queue *q);
u32 kbus_queue_room(struct kbus_queue *q, u32 copies, const struct kbus_msg *msg,
		    u32 paid, bool after_answer);
bool kbus_queue_takes_answer(struct kbus_queue *q, u32 len);
bool kbus_queue_has_room_for(struct kbus_queue *q, const struct kbus_need *need);
bool kbus_queue_has_bytes_for(struct kbus_queue *q, const struct kbus_need *need);
bool kbus_queue_has_room_for_all(struct kbus_queue *q, const struct kbus_sum *sum);
bool kbus_queue_can_ever_take(struct kbus_queue *q, const struct kbus_need *need);
bool kbus_queue_set_slot_aside(struct kbus_queue *q);
void kbus_queue_release_slot(struct kbus_queue *q, struct kbus_wakes *wakes);
void kbus_queue_push(struct kbus_queue *q, struct list_head *items, bool urgent,
		     bool is_answer, struct kbus_wakes *wakes);
void kbus_queue_miss(struct kbus_queue *q, u32 copies);
struct kbus_item *kbus_queue_pop(struct kbus_queue *q);
void kbus_queue_detach(struct kbus_queue *q, struct kbus_item *item);
void kbus_queue_empty(struct kbus_queue *q);
void kbus_item_free(struct kbus_item *item);
void kbus_copy_put(struct kbus_user *holder, struct kbus_item *item);
void kbus_pool_fill(struct kbus_pool *pool, u32 count, gfp_t gfp);
struct kbus_item *kbus_pool_take(struct kbus_pool *pool);
void kbus_pool_give(struct kbus_pool *pool, struct kbus_item *item);
void kbus_pool_drain(struct kbus_pool *pool);

static inline void kbus_pool_init(struct kbus_pool *pool)
{
	INIT_LIST_HEAD(&pool->items);
	pool->count = 0;
	pool->exhausted = false;
}

static inline void kbus_pool_free(struct kbus_pool *pool)
{
	if (unlikely(pool->count))
		kbus_pool_drain(pool);
}

int kbus_queue_cache_init(void);
void kbus_queue_cache_exit(void);

/* ---- wait.c: senders that wait for room ---- */

/**
 * struct kbus_wait - a message of a KSock that waits for room on another
 * @by_ksock: in kbus_ksock.waits of @on; kbus_dev.lock
 * @by_name: in kbus_dev.asking, if the message is a Request; kbus_dev.lock, as is:
 * @replier_rank: kbus_name_rank() of the replier's binding; none that is lower matters to it
 * @on: the KSock that is full, NULL once it is gone; kbus_dev.lock
 * @since: when it began to wait, 0 if no message waits; kbus_dev.lock, and written
 *	with the sender's out_lock held too
 * @in_line: in @line, if a task sleeps for it; the lock of @on's queue, as are:
 * @line: a line of that queue's, or NULL
 * @is_tardy: others hold it up that are in kbus_queue.tardy
 * @node: else in kbus_queue.kept, or .ready, or in neither
 * @need: what it waits for
 * @sleepers: tasks inside SEND that sleep for it, or have until now
 * @ready: SEND is worth another try,
 * @ready_since: since then, in ns, or it has been woken again then
 * @is_nudged: it has
 * @has_turn: it has been ready since then, and first in its line: whoever is behind waits for it
 * @had_turn: for so long it had, in ns, when another one came before it
 * @seen: kbus_queue.changes when it was last looked at whether it may go on
 */
struct kbus_wait {
	struct rb_node by_ksock;
	struct rb_node by_name;
	u32 replier_rank;
	struct kbus_ksock *on;
	u64 since;
	struct rb_node in_line;
	struct kbus_line *line;
	bool is_tardy;
	struct list_head node;
	struct kbus_need need;
	u32 sleepers;
	bool ready;
	bool is_nudged;
	bool has_turn;
	u64 ready_since;
	u64 had_turn;
	u64 seen;
};

struct kbus_send;
struct kbus_plan;

bool kbus_wait_is_hopeless(struct kbus_send *s);
int kbus_wait_try(struct kbus_send *s, struct kbus_plan *plan);
void kbus_wait_end(struct kbus_ksock *ks, bool slept, struct kbus_wakes *wakes);
void kbus_wait_keep(struct kbus_ksock *ks, bool slept, struct kbus_wakes *wakes);
void kbus_wait_wake_bound(struct kbus_ksock *on, const char *bound, size_t len);
void kbus_wait_wake_unbound(struct kbus_ksock *on, const char *bound, size_t len);
void kbus_wait_wake_requests(struct kbus_dev *dev, const char *bound, size_t len);
void kbus_wait_wake_all(struct kbus_ksock *on);
void kbus_wait_need_less(struct kbus_ksock *ks);
void kbus_wait_wake_changed(struct kbus_ksock *on);
void kbus_wait_on_gone(struct kbus_ksock *on);

/* ---- line.c: who of them may go on ---- */

static inline void kbus_wait_init(struct kbus_wait *wait)
{
	RB_CLEAR_NODE(&wait->by_name);
	INIT_LIST_HEAD(&wait->node);
}

void kbus_sum_add(struct kbus_sum *sum, const struct kbus_need *need, s64 sign);
bool kbus_line_is_tardy(const struct kbus_queue *q, const struct kbus_user *user);
bool kbus_line_join(struct kbus_queue *q, struct kbus_wait *wait, const struct kbus_need *need);
void kbus_line_leave(struct kbus_queue *q, struct kbus_wait *wait);
void kbus_line_keep(struct kbus_queue *q, struct kbus_wait *wait);
void kbus_line_make_ready(struct kbus_queue *q, struct kbus_wait *wait,
			  struct kbus_wakes *wakes);
bool kbus_line_has_older(const struct kbus_queue *q, const struct kbus_wait *wait);
struct kbus_sum kbus_line_needs(const struct kbus_queue *q, const struct kbus_wait *wait);
bool kbus_line_fits(struct kbus_queue *q, const struct kbus_need *need);
void kbus_line_settle(struct kbus_queue *q, struct kbus_wakes *wakes);
u64 kbus_line_go_on(struct kbus_queue *q);
u64 kbus_line_nudge(struct kbus_queue *q);
void kbus_line_end(struct kbus_queue *q);

/*
 * End a change of the queue: let those in its line go on who may. Whoever has only
 * looked, or has only added to the queue, may use spin_unlock().
 */
static inline void kbus_queue_unlock(struct kbus_queue *q, struct kbus_wakes *wakes)
	__releases(&q->lock)
{
	if (unlikely(kbus_queue_is_waited_for(q)))
		kbus_line_settle(q, wakes);
	spin_unlock(&q->lock);
}

/* ---- device.c ---- */

struct kbus_dev {
	unsigned int index;
	u32 hash_seed;
	struct xarray ksocks;		/* id to KSock, or a count: see answers.c */
	struct xarray groups;		/* struct kbus_group */
	atomic_t nr_ksocks;
	u32 next_ksock_id;		/* the xarray's lock */
	u32 max_msg_size;		/* READ_ONCE(), so is: */
	bool verbose;
	atomic_t events_aside;

	struct mutex snapshot_lock;	/* one at a time; protects: */
	ktime_t snapshot_after;		/* when the next one may begin */

	spinlock_t lock;		/* protects the rest */
	/* These two are looked at without the lock, too, while they are frozen. */
	struct list_head bindings;	/* kbus_binding.by_device, newest first */
	u32 nr_bindings;
	bool is_frozen;			/* nobody binds or unbinds; READ_ONCE() */
	wait_queue_head_t thaw;		/* who would */
	struct rhashtable names;	/* kbus_name.by_hash */
	/* How many names are a wildcard after so many words: a look-up each, if any */
	u32 wildcards[KBUS_MAX_NAME_LEN / 2];
	u64 bindings_changed;		/* how often, or what they bring; READ_ONCE() */
	struct rhltable requests;	/* kbus_request.by_id */
	u64 last_binding;
	u32 last_serial;
	u64 sent;
	bool report_binds;
	struct rb_root asking;		/* kbus_wait.by_name */
	u32 nr_waits;
	u64 last_wait;
};

struct kbus_dev *kbus_dev_get(unsigned int index);
int kbus_dev_new(unsigned int *index);
void kbus_devs_limits_changed(void);
int kbus_devs_init(void);
void kbus_devs_exit(void);

__printf(2, 3)
void kbus_verbose(struct kbus_dev *dev, const char *fmt, ...);

/* ---- bindings.c: who is bound to what ---- */

/**
 * struct kbus_name - a name that somebody is bound to
 * @by_hash: in kbus_dev.names
 * @hash: of the name
 * @refs: one while anybody is bound, and one for each reader of /proc
 * @replier: the R binding, or NULL
 * @listeners: kbus_binding.by_name of the L bindings, newest first
 * @next_match: the next less specific name of the message that is being sent
 * @wildcard: '*', '%', or 0
 * @len: length of @name
 * @name: with a NUL after it
 *
 * Under kbus_dev.lock but for @refs.
 */
struct kbus_name {
	struct rhash_head by_hash;
	u32 hash;
	refcount_t refs;
	struct kbus_binding *replier;
	struct list_head listeners;
	struct kbus_name *next_match;
	char wildcard;
	u16 len;
	char name[];
};

struct kbus_binding {
	struct kbus_ksock *ks;
	struct kbus_name *name;
	struct list_head by_name;
	struct list_head by_ksock;	/* kbus_ksock.bindings, newest first */
	struct list_head by_device;
	struct list_head items;		/* unread copies; ks->q.lock */
	u64 serial;			/* ascends from bind to bind */
	struct kbus_msg *unbind_event;	/* R: so that a close cannot lack it */
	bool is_replier;
	bool is_observer;		/* L: no sender waits for it, or fails */
	bool is_counted;		/* in kbus_user.bindings */
};

int kbus_bindings_init(struct kbus_dev *dev);
void kbus_bindings_destroy(struct kbus_dev *dev);
struct kbus_binding *kbus_binding_new(struct kbus_ksock *ks, const char *name,
				      size_t len, bool is_replier);
int kbus_binding_count(struct kbus_binding *b, const struct kbus_name *name);
int kbus_binding_link(struct kbus_binding *b);
void kbus_binding_unlink(struct kbus_binding *b);
void kbus_binding_free(struct kbus_binding *b);
struct kbus_binding *kbus_binding_find(struct kbus_ksock *ks, const char *name,
				       size_t len, u32 hash, bool is_replier);
u32 kbus_name_hash(struct kbus_dev *dev, const char *name, size_t len);
struct kbus_name *kbus_name_find(struct kbus_dev *dev, const char *name, size_t len,
				 u32 hash);
struct kbus_name *kbus_name_match(struct kbus_dev *dev, const char *name, size_t len);

/**
 * struct kbus_words - a name taken to pieces, which takes long if it is a long one
 * @name: the name
 * @len: its length
 * @count: of words after the '$'
 * @word: where each of them begins, and the hash of those before it; and after the last
 *	one, the hash of all
 */
struct kbus_words {
	const char *name;
	u32 len;
	u32 count;
	struct kbus_word {
		u32 hash;
		u16 begin;
	} *word;
};

int kbus_words_new(struct kbus_words *words, struct kbus_dev *dev, const char *name,
		   size_t len);
struct kbus_name *kbus_words_match(struct kbus_dev *dev, const struct kbus_words *words);

static inline void kbus_words_free(struct kbus_words *words)
{
	kfree(words->word);
}

struct kbus_binding *kbus_match_replier(struct kbus_name *match);
void kbus_name_put(struct kbus_name *name);

/* As many bytes of a name as most names have, */
#define KBUS_ROUTE_NAME	64
/* and as many words */
#define KBUS_USUAL_WORDS	16

/**
 * struct kbus_route - where messages of a name go, for whoever sends many of them
 * @len: of the name, 0 for none; not a name of KBUS itself, and legal to send to
 * @name: padded with zeros to whole words
 * @at: kbus_dev.bindings_changed when @match was found; 0 if it was not
 * @match: as kbus_name_match() returned it
 */
struct kbus_route {
	u32 len;
	u32 name[KBUS_ROUTE_NAME / sizeof(u32)];
	u64 at;
	struct kbus_name *match;
};

bool kbus_route_is_for(const struct kbus_route *route, const char *name, u32 len);
bool kbus_route_set(struct kbus_route *route, const char *name, u32 len);
struct kbus_name *kbus_route_match(struct kbus_dev *dev, struct kbus_route *route);

/* ---- ksock.c: one open file ---- */

/* What one send has in store for one KSock; kbus_dev.lock */
struct kbus_plan {
	struct list_head node;		/* in kbus_send.plan; empty when unused */
	struct list_head items;
	struct kbus_share *share;	/* where they come from; NULL before the first */
	u32 copies;			/* meant for the KSock, without an answer */
	u32 taken;			/* of them in @items */
	u32 must;			/* that it must have, or nobody gets any */
	u32 room;			/* for so many, when the plan was begun */
	size_t bytes;			/* of memory that @items take, */
	u32 paid;			/* and those for which the user is charged anyway */
	bool is_charged;		/* and it is charged for the rest */
	bool is_flagged;		/* one of the items is the flagged copy */
	bool has_line;			/* others wait for room there */
	bool observes;			/* plain copies may be missed, whoever sends */
	bool is_answer;			/* the first item is the answer */
	bool has_room_for_answer;
	bool only_once;
	u64 once;			/* kbus_binding.serial of the one plain copy */
};

struct kbus_ksock {
	refcount_t refs;		/* the open file, and whoever will wake it */
	struct kbus_dev *dev;
	u32 id;
	fmode_t mode;
	struct pid *pid;		/* whoever opened it, as are: */
	kuid_t uid;
	kgid_t gid;
	struct kbus_user *user;
	struct kbus_group *group;

	wait_queue_head_t wq;		/* tasks that sleep or poll here: the first ones, */
	bool is_polled;			/* and some of them, perhaps, poll; READ_ONCE(); then: */
	atomic_t is_waking;		/* somebody is waking those, which may take long */
	struct kbus_crowd *crowd;	/* the others; never gets shorter, ends with: */
	struct kbus_crowd crowd_first;
	struct mutex crowd_lock;	/* makes it longer, one at a time; protects: */
	struct kbus_crowd *crowd_last;	/* the one that had a place last */
	atomic_t late_events;		/* EPOLL*: of what the user's worker is to tell them, */
	struct list_head late;		/* if this is in kbus_user.late; kbus_user.lock, as is: */
	bool is_gone;			/* it has closed */

	struct mutex out_lock;		/* protects: */
	struct kbus_msg *out;		/* the message being written, or NULL */
	u8 out_begin[sizeof(struct kbus_message_header)];
	u32 out_begin_len;		/* bytes of it, while @out is NULL */
	u64 out_serial;			/* ascends whenever @out goes; READ_ONCE() */
	struct kbus_msg_id last_sent;
	u32 last_need;			/* kbus_send.need, which the next send may have too */
	struct kbus_route route;	/* of the message sent last */

	struct mutex in_lock;		/* protects: */
	struct kbus_item *in;		/* the copy being read, or NULL */
	u32 in_pos;
	u32 in_flags;

	struct kbus_queue q;

	/* Under dev->lock: */
	struct list_head bindings;	/* kbus_binding.by_ksock */
	u32 nr_bindings;
	u32 nr_listening;		/* of them, those that are L, which are all */
	bool observes;			/* kbus_binding.is_observer, or none is; READ_ONCE() */
	struct list_head requests;	/* kbus_request.by_sender */
	u32 nr_requests;
	struct list_head owed;		/* kbus_request.by_replier, oldest first */
	u32 nr_owed;
	u64 sent;
	bool closing;			/* gets nothing any more */
	struct kbus_plan plan;
	struct kbus_msg *lost_msg;	/* for the next KBUS_NAME_MESSAGES_LOST */
	struct kbus_wait wait;
	struct rb_root waits;		/* kbus_wait.by_ksock of those who wait for it */
};

extern const struct file_operations kbus_fops;

static inline struct kbus_ksock *kbus_wait_ksock(struct kbus_wait *wait)
{
	return container_of(wait, struct kbus_ksock, wait);
}

/*
 * Remember that @ks is to be woken, if anybody waits there. It stays for as long
 * as a lock is held, which is long enough to take a reference.
 */
static inline void kbus_wakes_add(struct kbus_wakes *wakes, struct kbus_ksock *ks,
				  __poll_t events)
{
	/* Its barrier pairs with those of kbus_sleep_until() and kbus_poll_wait(). */
	if (wq_has_sleeper(&ks->wq) || READ_ONCE(ks->crowd))
		kbus_wakes_add_waited(wakes, ks, events);
}

static inline void kbus_ksock_get(struct kbus_ksock *ks)
{
	refcount_inc(&ks->refs);
}

void kbus_ksock_put(struct kbus_ksock *ks);
void kbus_ksock_drop_out(struct kbus_ksock *ks);
void kbus_ksock_settle(struct kbus_ksock *ks);
bool kbus_ksock_can_report(struct kbus_ksock *ks);
void kbus_ksock_report_losses(struct kbus_ksock *ks);
void kbus_dev_look_again(struct kbus_dev *dev);
int kbus_ksock_report_lost(struct kbus_ksock *ks, bool on);

/* ---- ioctl.c ---- */

long kbus_ioctl(struct file *file, unsigned int cmd, unsigned long arg);

/* ---- transfer.c: many messages in and out with one call ---- */

long kbus_transfer(struct kbus_ksock *ks, bool nonblock,
		   struct kbus_transfer __user *arg);

/* ---- send.c: one message to everybody that it concerns ---- */

enum kbus_when_full {
	KBUS_FULL_MISS,			/* a listener misses the message */
	KBUS_FULL_FAIL,			/* nobody gets it */
	KBUS_FULL_WAIT,
	KBUS_FULL_ASIDE,		/* it is queued all the same */
};

/**
 * struct kbus_share - what the recipients of one control group get of a message
 * @node: in kbus_send.shares
 * @group: the group, which the sender keeps, or @first
 * @first: a recipient there who is not the sender, with a reference; NULL for the sender's
 * @is_due: somebody there must have the message
 * @msg: the message in the group's memory: the sender's own, or a clone; NULL if
 *	the group has no memory for it
 * @pool: where the queue items come from that are not part of @msg
 * @own_pool: what that is, but for the sender's
 * @need: how many the plan takes
 */
struct kbus_share {
	struct list_head node;
	struct kbus_group *group;
	struct kbus_ksock *first;
	bool is_due;
	struct kbus_msg *msg;
	struct kbus_pool *pool;
	struct kbus_pool own_pool;
	u32 need;
};

/* So many groups for which there is no share yet are found with one plan. */
#define KBUS_WANTED	8

/**
 * struct kbus_send - a message on its way
 * @dev: the device
 * @home: the share of the sender's group
 * @shares: those of others,
 * @nr_shares: how many these are,
 * @most_shares: and may be; 0 before the first
 * @wanted: KSocks whose groups need a share, with references
 * @wanted_due: a bit for each of them in whose group somebody must have the message
 * @nr_wanted: how many
 * @lacks: the plan lacks items or shares that there may be memory for
 * @lacks_at_home: it lacks items for the sender's group
 * @is_short: somebody who must have the message has no room, so no more copies are made
 * @no_shares: there is no memory for more of them
 * @plan: kbus_plan.node of each KSock that gets a copy
 * @recipients: how many these are
 * @when_full: what becomes of a copy that has no room
 * @sender: who waits, if @when_full is KBUS_FULL_WAIT
 * @by_route: its route is that of the message,
 * @words: whose name is else in pieces here
 * @sleep: it sleeps inside SEND if it has to wait
 * @slept: it is counted in kbus_wait.sleepers
 * @until: when it gives up
 * @request: made from the message, or NULL
 * @status_for: the Request that the message is the status of, or NULL
 * @heir: the plan of a KSock whose user wrote the message and stays charged for it
 * @answered: the Request that the message answers, or NULL
 * @wakes: who is to be woken
 */
struct kbus_send {
	struct kbus_dev *dev;
	struct kbus_share home;
	struct list_head shares;
	u32 nr_shares;
	u32 most_shares;
	struct kbus_ksock *wanted[KBUS_WANTED];
	u32 wanted_due;
	u32 nr_wanted;
	bool lacks;
	bool lacks_at_home;
	bool is_short;
	bool no_shares;
	struct list_head plan;
	u32 recipients;
	enum kbus_when_full when_full;
	struct kbus_ksock *sender;
	bool by_route;
	struct kbus_words words;
	bool sleep;
	bool slept;
	ktime_t until;
	struct kbus_request *request;
	struct kbus_request *status_for;
	struct kbus_request *answered;
	struct kbus_plan *heir;
	struct kbus_wakes *wakes;
};

/* Is the message still to be sent, whatever else has come of SEND? */
static inline bool kbus_send_is_kept(int err)
{
	return err == -EAGAIN || err == -ERESTARTSYS;
}

int kbus_send(struct kbus_ksock *ks, ktime_t until, struct kbus_msg_id *id);
int kbus_send_waiting(struct kbus_ksock *ks, ktime_t until, struct kbus_msg_id *id);
int kbus_send_msgs(struct kbus_ksock *ks, struct kbus_msg **msgs, unsigned int count,
		   ktime_t until, struct kbus_msg_id *ids, unsigned int *sent);
void kbus_send_init(struct kbus_send *s, struct kbus_dev *dev, struct kbus_group *group,
		    struct kbus_msg *msg, struct kbus_pool *pool,
		    enum kbus_when_full when_full, struct kbus_wakes *wakes);
int kbus_send_plan(struct kbus_send *s, struct kbus_name *match,
		   struct kbus_binding *replier);
int kbus_send_reserve(struct kbus_send *s);
u64 kbus_plan_must_bytes(const struct kbus_send *s, const struct kbus_plan *plan);
void kbus_send_commit(struct kbus_send *s);
void kbus_send_forget(struct kbus_send *s);
void kbus_send_supply(struct kbus_send *s);
void kbus_send_end(struct kbus_send *s);
void kbus_send_drop_copy(struct kbus_plan *plan, struct kbus_item *item);
void kbus_send_set_id(struct kbus_dev *dev, struct kbus_msg *msg);
void kbus_send_report_lost(struct kbus_ksock *ks, struct kbus_wakes *wakes);

static inline struct kbus_ksock *kbus_plan_ksock(struct kbus_plan *plan)
{
	return container_of(plan, struct kbus_ksock, plan);
}

/* ---- answers.c: Requests that wait for their answer ---- */

struct kbus_request_key {
	struct kbus_msg_id id;
	u32 sender_id;
};

/**
 * struct kbus_request - a Request that was accepted and has not been answered
 * @by_id: in kbus_dev.requests
 * @key: how a reply names it
 * @sender: who waits for the answer; NULL once it has closed
 * @replier: who owes it, NULL once it has unbound before reading it
 * @replier_id: his id, whether he still owes it or not
 * @by_sender: in kbus_ksock.requests
 * @by_replier: in kbus_ksock.owed, or in a list of those to be failed
 * @item: the flagged copy while it is unread, else NULL; replier's queue lock
 * @status: what KBUS answers if nobody else does; NULL once it has
 * @payer: who is charged for all this
 *
 * Under kbus_dev.lock but for @item.
 */
struct kbus_request {
	struct rhlist_head by_id;
	struct kbus_request_key key;
	struct kbus_ksock *sender;
	struct kbus_ksock *replier;
	u32 replier_id;
	struct list_head by_sender;
	struct list_head by_replier;
	struct kbus_item *item;
	struct kbus_msg *status;
	struct kbus_user *payer;
};

int kbus_answers_init(struct kbus_dev *dev);
void kbus_answers_destroy(struct kbus_dev *dev);
struct kbus_request *kbus_request_new(struct kbus_ksock *sender);
void kbus_request_free(struct kbus_request *req);
bool kbus_request_is_one_too_many(struct kbus_ksock *sender, const struct kbus_msg_id *id);
int kbus_request_link(struct kbus_request *req, struct kbus_ksock *sender,
		      struct kbus_ksock *replier, const struct kbus_msg_id *id);
void kbus_request_end(struct kbus_dev *dev, struct kbus_request *req);
struct kbus_request *kbus_request_find(struct kbus_ksock *replier,
				       const struct kbus_message_header *reply);
void kbus_request_take(struct kbus_request *req, struct list_head *list);
int kbus_request_abandon(struct kbus_ksock *sender, const struct kbus_msg_id *id);
void kbus_requests_fail(struct kbus_dev *dev, struct list_head *owed,
			const char *status);
void kbus_requests_orphan(struct kbus_ksock *sender);
void kbus_requests_disown(struct kbus_ksock *sender);
bool kbus_request_is_wanted(const struct kbus_request *req);

/* ---- events.c: binds and unbinds, and the telling of them ---- */

struct kbus_msg *kbus_event_new(bool is_bind, struct kbus_ksock *binder, const char *name,
				size_t len);
int kbus_bind(struct kbus_ksock *ks, const char *name, size_t len, u32 kind);
int kbus_unbind(struct kbus_ksock *ks, const char *name, size_t len, u32 kind);
void kbus_unbind_all(struct kbus_ksock *ks);

/* ---- procfs.c ---- */

int kbus_procfs_init(void);
void kbus_procfs_exit(void);

#endif /* _KBUS_H */
