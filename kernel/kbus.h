/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KBUS, what its files share.
 *
 * Lock order, outermost first:
 *
 *	kbus_devs_lock			the table of devices
 *	kbus_ksock.in_lock, .out_lock	the message being read, and being written
 *	    kbus_dev.bind_lock		who is bound: binds, and /proc/kbus/bindings
 *	        kbus_dev.lock		matching, Requests, and the order of sends
 *	            kbus_queue.lock	one KSock's queue, and who waits for room
 *	            kbus_users_lock	the table of users
 *
 * The first four are mutexes. Only in_lock and out_lock may be held across access
 * to user memory, as those of a pipe are.
 *
 * kbus_dev.lock makes the order of messages: an id is given, and all the copies
 * are queued, while it is held. Only its holder adds to a queue, so room that it
 * has seen cannot vanish before it uses it. Everybody on the device spins for it:
 * its holder allocates nothing that may sleep, and what it does is bounded by
 * limits that an administrator sets.
 *
 * Whoever changes what a queue can take ends with kbus_queue_unlock(), which
 * alone decides who of those that wait for room may go on (wait.c). Nobody is
 * woken under any of the spinlocks: who is to be woken is collected in a struct
 * kbus_wakes, and woken when the last lock has been dropped (wake.c).
 */
#ifndef _KBUS_H
#define _KBUS_H

#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <linux/uidgid.h>
#include <linux/xarray.h>

#include "message.h"

#define KBUS_MAX_DEVICES	256

/*
 * For memory that a user's call takes. If there is none, in its cgroup or at all,
 * the call fails; nobody is killed for it.
 */
#define KBUS_GFP		(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)
#define KBUS_GFP_NOW		(GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN)

/* Module parameters (module.c); writable ones are read with READ_ONCE() */
extern unsigned int kbus_num_devices, kbus_first_serial, kbus_first_ksock_id;
extern unsigned int kbus_default_queue_length, kbus_max_queue_length;
extern unsigned int kbus_default_message_size, kbus_max_message_size;
extern unsigned int kbus_max_ksock_bindings, kbus_max_user_bindings, kbus_max_name_bindings;
extern unsigned int kbus_max_user_ksocks;
extern unsigned long kbus_max_queue_bytes, kbus_max_user_bytes;
extern unsigned short kbus_device_mode;
extern unsigned int kbus_proc_gid;
extern bool kbus_writers_configure;

struct kbus_ksock;
struct kbus_request;

/* ---- user.c: what one user has, over all devices ---- */

struct kbus_user {
	struct hlist_node node;		/* kbus_users_lock */
	refcount_t refs;
	kuid_t uid;
	atomic_t ksocks;
	atomic_t bindings;
	atomic_long_t bytes;
};

struct kbus_user *kbus_user_get_current(void);
void kbus_user_put(struct kbus_user *user);
bool kbus_user_count(atomic_t *counter, unsigned int limit);
bool kbus_user_charge(struct kbus_user *user, size_t bytes);
void kbus_user_uncharge(struct kbus_user *user, size_t bytes);
size_t kbus_memory_cost(size_t size);
void *kbus_user_alloc(struct kbus_user *user, size_t size);

/* ---- name.c: the syntax of names ---- */

int kbus_name_check(const char *name, size_t len);
char kbus_name_wildcard(const char *name, size_t len);
bool kbus_name_matches(const char *bound, size_t bound_len, const char *name, size_t len);
bool kbus_name_is_kbus(const char *name, size_t len);

/* ---- wake.c: those who sleep or poll at a KSock ---- */

/* KSocks to wake once no lock is held that others need, with a reference to each */
struct kbus_wakes {
	struct kbus_ksock *first;	/* the others by kbus_ksock.wake_next */
};

#define KBUS_WAKES_END	((struct kbus_ksock *)1UL)
#define KBUS_WAKES()	{ .first = KBUS_WAKES_END }

void kbus_wakes_add_waited(struct kbus_wakes *wakes, struct kbus_ksock *ks, __poll_t events);
void kbus_wakes_flush(struct kbus_wakes *wakes);
void kbus_ksock_put(struct kbus_ksock *ks);
int kbus_sleep_until(struct kbus_ksock *ks, bool (*holds)(struct kbus_ksock *ks, u64 arg),
		     u64 arg, ktime_t until);

/* ---- queue.c: what one KSock has to read ---- */

/* A place in a queue, and the copy of a message that is in it */
struct kbus_slot {
	struct list_head node;		/* in a list of the queue, or in kbus_plan.slots */
	struct kbus_msg *msg;
	struct kbus_request *request;	/* that whoever reads this copy must answer, or NULL */
	u64 binding : 61;		/* serial of the binding by which it came, or 0 */
	u64 is_flagged : 1;		/* it has one, or had until its sender closed */
	u64 is_extra : 1;		/* over the queue's limit, for an unbind event; */
	u64 ends_events : 1;		/* of these, a KBUS_NAME_UNBIND_EVENTS_LOST */
};

struct kbus_queue {
	/* Protects all of it down to @kept */
	spinlock_t lock;
	struct list_head copies;	/* slots in the order of reading */
	struct list_head freed;		/* those that readers have given back */
	u32 count;			/* READ_ONCE() without the lock */
	u32 set_aside;			/* slots for answers to come */
	u32 limit;			/* on count + set_aside */
	size_t bytes;
	u32 count_max;
	size_t bytes_max;
	u64 received;
	u64 lost;			/* READ_ONCE() without the lock */
	u32 lost_unreported;
	u32 unreplied;			/* Requests popped and not answered */
	bool report_lost;
	bool only_once;			/* READ_ONCE(), and so is: */
	bool wants_times;		/* a TRANSFER has asked when */
	bool events_ended;		/* a slot with ends_events is queued */
	/* Messages that wait for room here, the oldest first (wait.c): */
	struct list_head line;		/* those for which a task sleeps, */
	u64 line_slots;			/* what these need together, */
	u64 line_bytes;
	struct list_head kept;		/* and those kept after EAGAIN or EINTR */
	/* kbus_dev.lock: */
	struct list_head free;		/* slots that may be used */
	/* kbus_ksock.in_lock: */
	struct kbus_slots *slots;	/* all but those that are extra, */
	u32 nr_slots;			/* so many, */
	size_t slots_cost;		/* and what they take of the user's bytes */
};

/* Bytes for which there is room with each slot that is set aside: the longest status */
#define KBUS_STATUS_LEN							\
	(sizeof(struct kbus_message_header) +				\
	 ALIGN(sizeof(KBUS_NAME_REPLIER_GONEAWAY) - 1, 4) + sizeof(u32))

int kbus_queue_init(struct kbus_ksock *ks);
int kbus_queue_resize(struct kbus_ksock *ks, u32 limit, struct kbus_wakes *wakes);
void kbus_queue_free(struct kbus_ksock *ks);
bool kbus_queue_fits(const struct kbus_queue *q, u64 slots, u64 bytes);
bool kbus_queue_can_ever_take(const struct kbus_queue *q, u32 slots, u64 bytes);
u32 kbus_queue_room(const struct kbus_queue *q, u32 len, bool after_answer);
bool kbus_queue_takes_answer(const struct kbus_queue *q, u32 len);
bool kbus_queue_set_slot_aside(struct kbus_queue *q);
void kbus_queue_release_slot(struct kbus_queue *q, struct kbus_wakes *wakes);
struct kbus_slot *kbus_slot_extra(void);
void kbus_slot_give_back(struct kbus_queue *q, struct kbus_slot *slot);
void kbus_queue_push(struct kbus_queue *q, struct list_head *slots, bool urgent,
		     bool is_answer, struct kbus_wakes *wakes);
void kbus_queue_miss(struct kbus_queue *q, u32 copies);
struct kbus_slot *kbus_queue_first(struct kbus_queue *q);
struct kbus_msg *kbus_queue_take(struct kbus_queue *q, struct kbus_slot *slot);
struct kbus_msg *kbus_queue_pop(struct kbus_queue *q, struct kbus_slot *slot);
void kbus_copy_put(struct kbus_ksock *ks, struct kbus_msg *msg);

/* The flags that whoever reads this copy sees */
static inline u32 kbus_slot_flags(const struct kbus_slot *slot)
{
	return kbus_msg_header(slot->msg)->flags |
		(slot->is_flagged ? KBUS_BIT_WANT_YOU_TO_REPLY : 0);
}

/* ---- wait.c: senders that wait for room ---- */

/* The message of a KSock that waits for room on another */
struct kbus_wait {
	/* kbus_dev.lock: */
	struct list_head by_dev;	/* kbus_dev.waits */
	struct kbus_ksock *on;		/* the KSock that is full, NULL once it is gone */
	u64 since;			/* ascends; 0 if no message waits; out_lock too */
	u32 sleepers;			/* tasks inside SEND that sleep for it, or have until now */
	bool is_request;
	/* The lock of @on's queue: */
	struct list_head node;		/* in kbus_queue.line or .kept, or in neither */
	bool in_line;
	u32 slots;			/* what it needs there, */
	u64 bytes;			/* of messages */
	bool ready;			/* SEND is worth another try; READ_ONCE() */
};

void kbus_wait_end(struct kbus_ksock *ks, struct kbus_wakes *wakes);
void kbus_wait_wakes_up(struct kbus_ksock *ks, struct kbus_wakes *wakes);
void kbus_waits_retry(struct kbus_ksock *on, bool requests, const char *bound, size_t len);
void kbus_waits_end(struct kbus_ksock *on, struct kbus_wakes *wakes);
void kbus_line_settle(struct kbus_queue *q, struct kbus_wakes *wakes);

/*
 * End a change of the queue: let those in its line go on who may. Whoever has only
 * looked, or has only added to the queue, may use spin_unlock().
 */
static inline void kbus_queue_unlock(struct kbus_queue *q, struct kbus_wakes *wakes)
	__releases(&q->lock)
{
	if (unlikely(!list_empty(&q->line) || !list_empty(&q->kept)))
		kbus_line_settle(q, wakes);
	spin_unlock(&q->lock);
}

/* ---- device.c ---- */

struct kbus_dev {
	unsigned int index;
	u32 hash_seed;
	struct xarray ksocks;		/* KSocks by id; an id is in use while it is here */
	atomic_t nr_ksocks;		/* of them, those that are open */
	u32 next_ksock_id;		/* the xarray's lock */
	u32 max_msg_size;		/* READ_ONCE(), so is: */
	bool verbose;

	struct mutex bind_lock;		/* protects: */
	bool report_binds;		/* READ_ONCE() without it; with @lock, whoever changes: */
	struct list_head bindings;	/* kbus_binding.by_device, newest first */
	u32 nr_bindings;

	spinlock_t lock;		/* protects the rest */
	struct rhashtable names;	/* kbus_name.by_hash */
	/* How many names are a wildcard after so many words: a look-up each, if any */
	u32 wildcards[KBUS_MAX_NAME_LEN / 2];
	u64 bindings_changed;		/* how often */
	struct rhltable requests;	/* kbus_request.by_id */
	u64 last_binding;
	u32 last_serial;
	u64 sent;
	atomic_t events_aside;
	struct list_head waits;		/* kbus_wait.by_dev */
	u32 nr_waits;
	u64 last_wait;
};

struct kbus_dev *kbus_dev_get(unsigned int index);
int kbus_dev_new(unsigned int *index);
void kbus_devs_settle(void);
int kbus_devs_init(void);
void kbus_devs_exit(void);

__printf(2, 3)
void kbus_verbose(struct kbus_dev *dev, const char *fmt, ...);

/* ---- bind.c: who is bound to what ---- */

/* A name that somebody is bound to */
struct kbus_name {
	struct rhash_head by_hash;	/* kbus_dev.names */
	u32 hash;
	refcount_t refs;		/* its bindings */
	struct kbus_binding *replier;
	struct list_head listeners;	/* kbus_binding.by_name, newest first */
	struct kbus_name *next_match;	/* less specific for the message that is being sent */
	char wildcard;			/* '*', '%', or 0 */
	u16 len;
	char name[];			/* with a NUL after it */
};

struct kbus_binding {
	struct kbus_ksock *ks;
	struct kbus_name *name;
	struct list_head by_name;
	struct list_head by_ksock;	/* kbus_ksock.bindings, newest first */
	struct list_head by_device;
	u64 serial;			/* ascends from bind to bind, from 1 */
	struct kbus_msg *unbind_event;	/* R: so that a close lacks neither it, */
	struct kbus_msg *events_lost;	/* nor what comes in its place if there are too many */
	u32 kind;			/* KBUS_BIND_* */
	bool is_counted;		/* in kbus_user.bindings */
};

/* As many bytes of a name as most names have */
#define KBUS_ROUTE_NAME	64

/* Where messages of a name go, for whoever sends many of them */
struct kbus_route {
	u32 len;			/* of the name, which is legal to send to; 0 for none */
	char name[KBUS_ROUTE_NAME];
	u64 at;				/* kbus_dev.bindings_changed when this was found: */
	struct kbus_name *match;
};

int kbus_bindings_init(struct kbus_dev *dev);
void kbus_bindings_destroy(struct kbus_dev *dev);
struct kbus_binding *kbus_binding_new(struct kbus_ksock *ks, const char *name, size_t len,
				      u32 kind);
int kbus_binding_count(struct kbus_binding *b, const struct kbus_name *name);
int kbus_binding_link(struct kbus_binding *b);
void kbus_binding_unlink(struct kbus_binding *b);
void kbus_binding_free(struct kbus_binding *b);
struct kbus_binding *kbus_binding_find(struct kbus_ksock *ks, const char *name, size_t len,
				       u32 kind);
struct kbus_name *kbus_name_find(struct kbus_dev *dev, const char *name, size_t len);
struct kbus_name *kbus_name_match(struct kbus_dev *dev, const char *name, size_t len);
struct kbus_binding *kbus_match_replier(struct kbus_name *match);

/* ---- send.c: one message to everybody that it concerns ---- */

/* What one send has in store for one KSock; kbus_dev.lock */
struct kbus_plan {
	struct kbus_plan *next;		/* in kbus_send.plans */
	struct list_head slots;		/* for copies that have room */
	u32 copies;			/* meant for the KSock, without an answer */
	u32 taken;			/* of them in @slots */
	u32 must;			/* that it must have, or nobody gets any */
	u32 room;			/* for so many, when the plan was begun */
	size_t charged;			/* bytes, to the KSock's user */
	bool is_used;			/* it is in kbus_send.plans */
	bool is_flagged;		/* one of the copies is the flagged one */
	bool is_answer;			/* the first slot is the answer's */
	bool takes_answer;		/* which has room in bytes */
	bool has_line;			/* others wait for room there */
	bool only_once;
	u64 once;			/* kbus_binding.serial of the one plain copy */
};

/* Is the message still to be sent, whatever else has come of SEND? */
static inline bool kbus_send_is_kept(int err)
{
	return err == -EAGAIN || err == -ERESTARTSYS;
}

int kbus_send(struct kbus_ksock *ks, bool waiting, ktime_t until, struct kbus_msg_id *id);
int kbus_send_msgs(struct kbus_ksock *ks, struct kbus_msg **msgs, unsigned int count,
		   ktime_t until, struct kbus_msg_id *ids, unsigned int *sent);
void kbus_send_report_lost(struct kbus_ksock *ks, struct kbus_wakes *wakes);
void kbus_ksock_report_losses(struct kbus_ksock *ks);
int kbus_ksock_report_lost(struct kbus_ksock *ks, bool on);

/* ---- request.c: Requests that wait for their answer ---- */

/* A Request that was accepted and has not been answered */
struct kbus_request {
	struct rhlist_head by_id;	/* kbus_dev.requests */
	struct kbus_request_key {
		struct kbus_msg_id id;
		u32 sender_id;
	} key;				/* how a reply names it */
	struct kbus_ksock *sender;
	struct kbus_ksock *replier;	/* NULL once it has unbound before reading */
	u32 replier_id;			/* whether it still owes the answer or not */
	struct list_head by_sender;	/* kbus_ksock.requests */
	struct list_head by_replier;	/* kbus_ksock.owed, or a list of those to be failed */
	struct kbus_slot *slot;		/* of the unread flagged copy; replier's queue lock */
	struct kbus_msg *status;	/* what KBUS answers if nobody else does */
};

int kbus_requests_init(struct kbus_dev *dev);
struct kbus_request *kbus_request_new(struct kbus_ksock *sender);
void kbus_request_free(struct kbus_request *req);
bool kbus_request_is_one_too_many(struct kbus_ksock *sender, const struct kbus_msg_id *id);
int kbus_request_link(struct kbus_request *req, struct kbus_ksock *replier,
		      const struct kbus_msg_id *id);
void kbus_request_end(struct kbus_dev *dev, struct kbus_request *req);
struct kbus_request *kbus_request_find(struct kbus_ksock *replier,
				       const struct kbus_message_header *reply);
void kbus_request_disown(struct kbus_request *req, struct list_head *list);
int kbus_request_abandon(struct kbus_ksock *sender, const struct kbus_msg_id *id);
void kbus_requests_fail(struct kbus_dev *dev, struct list_head *owed, const char *status);
void kbus_requests_drop(struct kbus_ksock *sender);

/* ---- event.c: binds and unbinds, and the telling of them ---- */

int kbus_bind(struct kbus_ksock *ks, const char *name, size_t len, u32 kind);
int kbus_unbind(struct kbus_ksock *ks, const char *name, size_t len, u32 kind);
void kbus_unbind_all(struct kbus_ksock *ks);

/* ---- ksock.c: one open file ---- */

struct kbus_ksock {
	refcount_t refs;		/* the open file, its Requests, and who will wake it */
	struct kbus_dev *dev;
	u32 id;
	fmode_t mode;
	struct pid *pid;		/* whoever opened it, as are: */
	kuid_t uid;
	kgid_t gid;
	struct kbus_user *user;

	wait_queue_head_t wq;		/* tasks that sleep or poll here */
	struct kbus_ksock *wake_next;	/* in a struct kbus_wakes, NULL when it is in none */
	atomic_t wake_events;		/* EPOLL* */

	struct mutex out_lock;		/* protects: */
	struct kbus_msg *out;		/* the message being written, or NULL */
	u8 out_begin[sizeof(struct kbus_message_header)];
	u32 out_begin_len;		/* bytes of it, while @out is NULL */
	u64 out_serial;			/* ascends whenever @out goes; READ_ONCE() */
	struct kbus_msg_id last_sent;
	struct kbus_route route;	/* of the message sent last */

	struct mutex in_lock;		/* nothing is popped or unbound without it; protects: */
	struct kbus_msg *in;		/* the copy being read, or NULL */
	u32 in_pos;
	u32 in_flags;

	struct kbus_queue q;

	/* Under dev->lock: */
	struct list_head bindings;	/* kbus_binding.by_ksock */
	u32 nr_bindings;
	u32 nr_listening;		/* of them, those that are L, which are all */
	bool observes;			/* as an observer, or none does */
	struct list_head requests;	/* kbus_request.by_sender */
	u32 nr_requests;
	struct list_head owed;		/* kbus_request.by_replier, oldest first */
	u32 nr_owed;
	u64 sent;
	bool closing;			/* gets nothing any more */
	struct kbus_plan plan;
	struct kbus_msg *lost_msg;	/* for the next KBUS_NAME_MESSAGES_LOST */
	struct kbus_wait wait;
};

extern const struct file_operations kbus_fops;
static inline struct kbus_ksock *kbus_queue_ksock(const struct kbus_queue *q)
{
	return container_of(q, struct kbus_ksock, q);
}

/* Remember that @ks is to be woken, if anybody waits there; a lock keeps it. */
static inline void kbus_wakes_add(struct kbus_wakes *wakes, struct kbus_ksock *ks,
				  __poll_t events)
{
	/* Its barrier pairs with those of kbus_sleep_until() and poll_wait(). */
	if (wq_has_sleeper(&ks->wq))
		kbus_wakes_add_waited(wakes, ks, events);
}

void kbus_ksock_drop_out(struct kbus_ksock *ks);
/* ---- ioctl.c, transfer.c, procfs.c ---- */
long kbus_ioctl(struct file *file, unsigned int cmd, unsigned long arg);
long kbus_transfer(struct kbus_ksock *ks, bool nonblock, struct kbus_transfer __user *arg);
int kbus_procfs_init(void);
void kbus_procfs_exit(void);

#endif /* _KBUS_H */
