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
 *	kbus_dev.stats_lock		who looks at all KSocks at once
 *	    kbus_dev.lock
 *	kbus_dev.bind_lock		that there are no new bindings and none go
 *	    kbus_dev.lock
 *	kbus_ksock.out_lock		the message being written
 *	    kbus_dev.lock		bindings, requests, and the order of sends
 *	        kbus_queue.lock		one KSock's queue, and who waits for room
 *	            kbus_ksock.wq	(the wait queue's own lock)
 *	kbus_ksock.in_lock		the message being read
 *	    kbus_queue.lock
 *	kbus_spares.lock		(nothing is taken inside, but it is inside others)
 *
 * kbus_dev.lock makes the order of messages: an id is given, and all the copies
 * are queued, while it is held. Only its holder adds to a queue, so that room
 * which he has seen cannot vanish before he uses it. Readers never take it,
 * and whatever they need to change is under the queue's lock. Memory is
 * allocated before it is taken. Everybody on the device waits for it, so nobody
 * holds it for longer than a message takes: what goes over all bindings has
 * kbus_dev.bind_lock, and what goes over all waits is done in steps. Only the
 * numbers of all KSocks are taken at once, but that is done seldom (procfs.c).
 */
#ifndef _KBUS_H
#define _KBUS_H

#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/rhashtable.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "include/uapi/linux/kbus.h"

#define KBUS_MAX_DEVICES	256
/* Unbind events that the full queues of one device may hold over their limit */
#define KBUS_MAX_EVENTS_ASIDE	1000
/* Requests of one sender with the same id that may be unanswered */
#define KBUS_MAX_SAME_ID	16

/*
 * For memory that a call of a user's takes. If there is none, in his cgroup or at
 * all, he is told so. That is no reason to kill him or somebody else.
 */
#define KBUS_GFP		(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

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

/* ---- user.c: what one user may have, over all devices ---- */

struct kbus_user {
	struct hlist_node node;		/* kbus_users_lock */
	unsigned int refs;		/* kbus_users_lock */
	kuid_t uid;
	atomic_t ksocks;
	atomic_t bindings;
	atomic_t wildcards;		/* of them, those that are L and wildcards */
	atomic_long_t bytes;
	atomic_t snapshots;		/* files of /proc/kbus that are open, */
	atomic_long_t snapshot_bytes;	/* and what they take */
	bool starved;			/* for lack of bytes, somebody waits for room */
};

struct kbus_user *kbus_user_get(kuid_t uid);
struct kbus_user *kbus_user_ref(struct kbus_user *user);
void kbus_user_put(struct kbus_user *user);
bool kbus_user_count(atomic_t *counter, unsigned int limit);
bool kbus_user_charge(struct kbus_user *user, size_t bytes);
void kbus_user_uncharge(struct kbus_user *user, size_t bytes);
size_t kbus_user_bytes_left(struct kbus_user *user);

static inline void kbus_user_charge_always(struct kbus_user *user, size_t bytes)
{
	atomic_long_add(bytes, &user->bytes);
}

/* ---- name.c: the syntax of names ---- */

int kbus_name_check(const char *name, size_t len);
char kbus_name_wildcard(const char *name, size_t len);
bool kbus_name_matches(const char *bound, size_t bound_len, const char *name, size_t len);
bool kbus_name_is_kbus(const char *name, size_t len);

/* ---- message.c: one message ---- */

/* For one who was meant, and one who records all */
#define KBUS_MSG_ITEMS	2

/* What the shortest message takes */
#define KBUS_MSG_LEAST	384U

/* What a copy of a message with @len bytes counts for its user */
static inline u32 kbus_msg_cost(u32 len)
{
	return max(len, KBUS_MSG_LEAST);
}

struct kbus_dev;
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
 * @is_aside: an unbind event over the queue's limit
 * @ends_events: a KBUS_NAME_UNBIND_EVENTS_LOST
 */
struct kbus_item {
	struct list_head node;
	struct list_head by_binding;
	struct kbus_msg *msg;
	struct kbus_binding *binding;
	struct kbus_request *request;
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
	item->is_aside = false;
	item->ends_events = false;
}

/**
 * struct kbus_msg - a message, whole or still being written
 * @refs: the writer, and each queued copy
 * @len: bytes of the whole message
 * @filled: bytes that are there; only a message being written has fewer than @len
 * @payer: who is charged for a message that has not been delivered, or NULL
 * @charged: bytes charged to @payer
 * @owner: the control group that the memory is charged to, only to be compared
 * @pages: the bytes from @head_len on
 * @nr_pages: length of @pages, of which the last ones may still be NULL
 * @items: for its first copies, so that most messages are one object
 * @nr_items_used: so many of @items are planned or were queued; kbus_dev.lock
 * @queued_at: when it was queued for the first KSock that asks, in ns, or 0
 * @head_len: bytes in @head: all, or as many as hold the longest header and name
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
	struct kbus_user *payer;
	size_t charged;
	const void *owner;
	void **pages;
	unsigned int nr_pages;
	u8 nr_items_used;
	atomic64_t queued_at;
	struct kbus_item items[KBUS_MSG_ITEMS];
	u8 head[] __aligned(8);
};

int kbus_msg_cache_init(void);
void kbus_msg_cache_exit(void);
struct kbus_msg *kbus_msg_new(u32 len, struct kbus_user *payer);
bool kbus_get_few_bytes(void *to, const void __user *from, u32 count);
bool kbus_put_few_bytes(void __user *to, const void *from, u32 count);
struct kbus_msg *kbus_msg_from_user(const void __user *from, u32 available, u32 max_len,
				    struct kbus_user *payer);
bool kbus_msg_to_user(const struct kbus_msg *msg, u32 flags, void __user *to);
struct kbus_msg *kbus_msg_from_iter(struct iov_iter *from, u32 len,
				    struct kbus_user *payer);
struct kbus_msg *kbus_msg_synthetic(size_t max_name_len, size_t max_data_len);
struct kbus_msg *kbus_msg_synthetic_now(size_t max_name_len, size_t max_data_len);
void kbus_msg_begin(struct kbus_msg *msg, const char *name, u32 to, u32 data_len);
void kbus_msg_append_bytes(struct kbus_msg *msg, const void *bytes, u32 count);
void kbus_msg_append_padding(struct kbus_msg *msg, u32 len);
void kbus_msg_finish(struct kbus_msg *msg);
int kbus_msg_append(struct kbus_msg *msg, const struct kbus_msg *piece, u32 from);
size_t kbus_msg_to_iter(const struct kbus_msg *msg, u32 pos, u32 count, u32 flags,
			struct iov_iter *to);
void kbus_msg_uncharge(struct kbus_msg *msg);
void kbus_msg_put(struct kbus_msg *msg);
void kbus_msg_free(struct kbus_msg *msg);
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

void kbus_spares_get(void);
void kbus_spares_put(void);
void kbus_spares_drop_all(void);
const void *kbus_spares_owner(void);
struct kbus_msg *kbus_spare_msg(const void *owner);
bool kbus_spare_msg_keep(struct kbus_msg *msg);
unsigned int kbus_spare_pages(const void *owner, void **pages, unsigned int count);
unsigned int kbus_spare_pages_keep(const void *owner, void **pages,
				   unsigned int count);

/* ---- queue.c: what one KSock has to read ---- */

/* Items allocated beforehand, for use where nothing may be allocated */
struct kbus_pool {
	struct list_head items;
	u32 count;
	bool exhausted;			/* there will be no more */
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
	struct list_head waiting;	/* kbus_wait.node, in the order of .since */
	struct list_head woken;		/* those of them who may come or not */
};

/* Does anything wait for room there? The queue's lock is held. */
static inline bool kbus_queue_wants_room(const struct kbus_queue *q)
{
	return !list_empty(&q->waiting) || q->lost_unreported;
}

void kbus_queue_init(struct kbus_queue *q);
u32 kbus_queue_room(struct kbus_queue *q, u32 copies, u32 len, bool after_answer);
bool kbus_queue_set_slot_aside(struct kbus_queue *q);
void kbus_queue_release_slot(struct kbus_queue *q);
void kbus_queue_push(struct kbus_queue *q, struct list_head *items, bool urgent,
		     bool is_answer);
void kbus_queue_wake_readers(struct kbus_dev *dev);
void kbus_queue_miss(struct kbus_queue *q, u32 copies);
struct kbus_item *kbus_queue_pop(struct kbus_queue *q);
void kbus_queue_detach(struct kbus_queue *q, struct kbus_item *item);
void kbus_queue_empty(struct kbus_queue *q);
void kbus_items_free(struct list_head *items);
void kbus_item_free(struct kbus_item *item);
void kbus_pool_init(struct kbus_pool *pool);
void kbus_pool_fill(struct kbus_pool *pool, u32 count);
struct kbus_item *kbus_pool_take(struct kbus_pool *pool);
void kbus_pool_give(struct kbus_pool *pool, struct kbus_item *item);
void kbus_pool_free(struct kbus_pool *pool);
int kbus_queue_cache_init(void);
void kbus_queue_cache_exit(void);

/* ---- wait.c: senders that wait for room ---- */

/**
 * struct kbus_wait - a message of a KSock that waits for room on another
 * @node: in kbus_queue.waiting or .woken of @on; that queue's lock
 * @by_device: in kbus_dev.waits
 * @on: the KSock that is full, NULL once it is gone; kbus_dev.lock
 * @since: place in the line, 0 if no message waits; kbus_dev.lock, and written
 *	with the sender's out_lock held too
 * @sleepers: tasks inside SEND; only they hold up others. The lock of @on's queue
 * @is_request: the message is a Request
 * @ready: SEND is worth another try; cleared in the step that joins a line
 */
struct kbus_wait {
	struct list_head node;
	struct list_head by_device;
	struct kbus_ksock *on;
	u64 since;
	unsigned int sleepers;
	bool is_request;
	bool ready;
};

int kbus_wait_until(struct kbus_ksock *ks, bool (*holds)(struct kbus_ksock *ks),
		    ktime_t until);
bool kbus_wait_try(struct kbus_ksock *ks, struct kbus_ksock *on,
		   const struct kbus_msg *msg, u32 copies, bool sleep);
void kbus_wait_woke(struct kbus_ksock *ks);
void kbus_wait_move_on(struct kbus_ksock *ks);
void kbus_wait_end(struct kbus_ksock *ks);
void kbus_wait_wake_next(struct kbus_queue *q);
void kbus_wait_wake_unbound(struct kbus_ksock *on, const char *bound, size_t len);
void kbus_wait_wake_requests(struct kbus_dev *dev, const char *bound, size_t len);
void kbus_wait_wake_device(struct kbus_dev *dev);
void kbus_wait_on_gone(struct kbus_ksock *on);
void kbus_wait_kick(void);
void kbus_wait_exit(void);

/* ---- device.c ---- */

struct kbus_dev {
	unsigned int index;
	u32 hash_seed;
	struct xarray ksocks;		/* id to KSock, or a count: see answers.c */
	atomic_t nr_ksocks;
	u32 next_ksock_id;		/* the xarray's lock */
	u32 max_msg_size;		/* READ_ONCE(), so is: */
	bool verbose;
	atomic_t events_aside;

	struct mutex stats_lock;		/* protects nothing: one at a time */

	/* Whoever changes these holds both locks; either one will do to read them. */
	struct mutex bind_lock;
	struct list_head bindings;	/* kbus_binding.by_device, newest first */
	u32 nr_bindings;

	struct mutex lock;		/* protects the rest */
	struct rhashtable names;	/* kbus_name.by_hash */
	/* How many names are a wildcard after so many words: a look-up each, if any */
	u32 wildcards[KBUS_MAX_NAME_LEN / 2];
	u64 bindings_changed;		/* how often; a struct kbus_route is of one of them */
	struct rhltable requests;	/* kbus_request.by_id */
	u64 last_binding;
	u32 last_serial;
	u64 sent;
	bool report_binds;
	struct list_head to_wake;	/* kbus_ksock.to_wake */
	struct list_head waits;		/* kbus_wait.by_device */
	u32 nr_waits;
	u64 last_wait;
};

struct kbus_dev *kbus_dev_get(unsigned int index);
int kbus_dev_new(unsigned int *index);
void kbus_devs_wake_waits(void);
void kbus_devs_limits_raised(void);
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
				       size_t len, bool is_replier);
struct kbus_name *kbus_name_find(struct kbus_dev *dev, const char *name, size_t len);
struct kbus_name *kbus_name_match(struct kbus_dev *dev, const char *name, size_t len);
struct kbus_binding *kbus_match_replier(struct kbus_name *match);
void kbus_name_put(struct kbus_name *name);

/* As many bytes of a name as most names have */
#define KBUS_ROUTE_NAME	64

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
	u32 copies;			/* meant for the KSock, without an answer */
	u32 taken;			/* of them in @items */
	u32 room;			/* for so many, when the plan was begun */
	bool has_line;			/* others wait for room there */
	bool observes;			/* plain copies may be missed, whoever sends */
	bool has_first;			/* one of the items is the flagged copy or the answer */
	bool is_answer;
	bool only_once;
	u64 once;			/* kbus_binding.serial of the one plain copy */
};

struct kbus_ksock {
	struct kbus_dev *dev;
	u32 id;
	fmode_t mode;
	struct pid *pid;		/* whoever opened it, as are: */
	kuid_t uid;
	kgid_t gid;
	struct kbus_user *user;
	wait_queue_head_t wq;		/* for poll, and for SEND while it waits */

	struct mutex out_lock;		/* protects: */
	struct kbus_msg *out;		/* the message being written, or NULL */
	u8 out_begin[sizeof(struct kbus_message_header)];
	u32 out_begin_len;		/* bytes of it, while @out is NULL */
	u64 out_serial;			/* ascends whenever @out goes */
	struct kbus_msg_id last_sent;
	u32 last_need;			/* kbus_send.need, which the next send may have too */
	struct kbus_route route;	/* of the message sent last */

	struct mutex in_lock;		/* protects: */
	struct kbus_msg *in;		/* the message being read, or NULL */
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
	struct list_head to_wake;	/* in kbus_dev.to_wake: has something new to read, */
	__poll_t to_wake_for;		/* of this kind */
	struct kbus_plan plan;
	struct kbus_msg *lost_msg;	/* for the next KBUS_NAME_MESSAGES_LOST */
	struct kbus_wait wait;
};

extern const struct file_operations kbus_fops;

void kbus_ksock_drop_out(struct kbus_ksock *ks);
void kbus_ksock_drop_in(struct kbus_ksock *ks, struct kbus_msg *msg);
void kbus_ksock_made_room(struct kbus_ksock *ks);
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
 * struct kbus_send - a message on its way
 * @dev: the device
 * @msg: the message
 * @pool: where the queue items come from
 * @plan: kbus_plan.node of each KSock that gets a copy
 * @need: how many items from the pool it takes, besides the message's own
 * @taken: and how many the pool had
 * @when_full: what becomes of a copy that has no room
 * @sender: who waits, if @when_full is KBUS_FULL_WAIT
 * @by_route: his route is that of @msg
 * @more: he has more to send at once, so that readers are woken later
 * @sleep: and whether it does so inside SEND
 * @until: and when it gives up
 * @request: made from @msg, or NULL
 */
struct kbus_send {
	struct kbus_dev *dev;
	struct kbus_msg *msg;
	struct kbus_pool *pool;
	struct list_head plan;
	u32 need;
	u32 taken;
	enum kbus_when_full when_full;
	struct kbus_ksock *sender;
	bool by_route;
	bool more;
	bool sleep;
	ktime_t until;
	struct kbus_request *request;
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
void kbus_send_init(struct kbus_send *s, struct kbus_dev *dev, struct kbus_msg *msg,
		    struct kbus_pool *pool, enum kbus_when_full when_full);
int kbus_send_plan(struct kbus_send *s, struct kbus_name *match,
		   struct kbus_binding *replier, struct kbus_request *answered);
int kbus_send_room(struct kbus_send *s);
void kbus_send_commit(struct kbus_send *s);
void kbus_send_forget(struct kbus_send *s);
void kbus_send_set_id(struct kbus_dev *dev, struct kbus_msg *msg);
void kbus_send_report_lost(struct kbus_ksock *ks);

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
 * @status: what KBUS answers if nobody else does
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
struct kbus_request *kbus_request_new(struct kbus_user *payer);
void kbus_request_free(struct kbus_request *req);
bool kbus_request_is_one_too_many(struct kbus_ksock *sender, const struct kbus_msg_id *id);
int kbus_request_link(struct kbus_request *req, struct kbus_ksock *sender,
		      struct kbus_ksock *replier, const struct kbus_msg_id *id);
void kbus_request_end(struct kbus_dev *dev, struct kbus_request *req);
struct kbus_request *kbus_request_find(struct kbus_ksock *replier,
				       const struct kbus_message_header *reply);
int kbus_request_abandon(struct kbus_ksock *sender, const struct kbus_msg_id *id);
void kbus_requests_fail(struct kbus_dev *dev, struct list_head *owed,
			const char *status);
void kbus_requests_orphan(struct kbus_ksock *sender);

/* ---- events.c: binds and unbinds, and the telling of them ---- */

struct kbus_msg *kbus_event_new(bool is_bind, u32 binder, const char *name, size_t len);
int kbus_bind(struct kbus_ksock *ks, const char *name, size_t len, u32 kind);
int kbus_unbind(struct kbus_ksock *ks, const char *name, size_t len, u32 kind);
void kbus_unbind_all(struct kbus_ksock *ks);

/* ---- procfs.c ---- */

int kbus_procfs_init(void);
void kbus_procfs_exit(void);

#endif /* _KBUS_H */
