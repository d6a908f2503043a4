// SPDX-License-Identifier: GPL-2.0
/*
 * One message to everybody that it concerns.
 *
 * First comes a plan, made of items from a pool: who gets which copies. Then it
 * is seen whether all of them have room. Only then is anything changed, and
 * nothing can fail any more. All that is one step for everybody else, because
 * the device's lock is held.
 */
#include <linux/sched/signal.h>

#include "kbus.h"
#include "trace.h"

/**
 * kbus_send_init() - prepare to send a message
 * @s: what is initialised; ends with kbus_send_end()
 * @dev: the device
 * @group: whose memory the message is
 * @msg: the message
 * @pool: where the items for the group's recipients come from
 * @when_full: what becomes of a copy that has no room
 * @wakes: gets those who are to be woken
 */
void kbus_send_init(struct kbus_send *s, struct kbus_dev *dev, struct kbus_group *group,
		    struct kbus_msg *msg, struct kbus_pool *pool,
		    enum kbus_when_full when_full, struct kbus_wakes *wakes)
{
	s->dev = dev;
	s->home.group = group;
	s->home.first = NULL;
	s->home.msg = msg;
	s->home.pool = pool;
	INIT_LIST_HEAD(&s->shares);
	s->nr_shares = 0;
	s->most_shares = 0;
	s->nr_wanted = 0;
	s->wanted_due = 0;
	s->no_shares = false;
	INIT_LIST_HEAD(&s->plan);
	s->when_full = when_full;
	s->sender = NULL;
	s->by_route = false;
	s->sleep = false;
	s->slept = false;
	s->until = 0;
	s->request = NULL;
	s->status_for = NULL;
	s->answered = NULL;
	s->wakes = wakes;
}

/*
 * Others' memory is reclaimed by them, but a group at its limit may be full of what can be
 * dropped at once. So the sender does it if need be, but does not lose much time for any
 * user, unless it is ready to wait for who must have the message: after it has, it lets 20
 * times as long pass before anybody does it again,
 */
#define KBUS_TIRED	20
/* and longer still, in proportion, if it took longer than this: it was not dropped at once; */
#define KBUS_TIRED_SLOW	(10 * NSEC_PER_MSEC)
/* but no longer than this. */
#define KBUS_TIRED_MAX	(60ULL * NSEC_PER_SEC)

/* When a task began to reclaim memory, and how long it had waited for processors, in ns */
struct kbus_reclaim {
	u64 began;
	u64 delay;
	gfp_t gfp;	/* what it may do for that */
};

/* How long this task has waited for processors since it began, if the kernel counts that */
static u64 kbus_run_delay(void)
{
#ifdef CONFIG_SCHED_INFO
	return current->sched_info.run_delay;
#else
	return 0;
#endif
}

/* There is no memory for a group at once: may the sender reclaim some, from now on? */
static bool kbus_send_may_reclaim(const struct kbus_send *s, const struct kbus_share *share,
				  struct kbus_reclaim *reclaim)
{
	reclaim->began = ktime_get_ns();
	reclaim->delay = kbus_run_delay();
	if (s->when_full == KBUS_FULL_WAIT && s->until > (s64)reclaim->began && share->is_due) {
		reclaim->gfp = KBUS_GFP_OTHERS;
		return true;
	}
	reclaim->gfp = KBUS_GFP_NO_WRITING;
	return reclaim->began >= READ_ONCE(share->first->user->tired_until);
}

/* It has reclaimed memory of the group's until now. */
static void kbus_share_took(struct kbus_share *share, const struct kbus_reclaim *reclaim)
{
	u64 now = ktime_get_ns(), took = now - reclaim->began, rest;

	/* That it got no processor meanwhile is not the group's fault; that it slept may be. */
	took -= min(took, kbus_run_delay() - reclaim->delay);
	took = min_t(u64, took, NSEC_PER_SEC);
	rest = KBUS_TIRED * took;
	if (took > KBUS_TIRED_SLOW)
		rest *= (u32)took / (u32)KBUS_TIRED_SLOW;
	kbus_user_rests_until(share->first->user, now + min(rest, KBUS_TIRED_MAX));
}

static void kbus_share_fill(struct kbus_share *share, gfp_t gfp)
{
	struct mem_cgroup *before = kbus_group_enter(share->group);

	kbus_pool_fill(share->pool, share->need, gfp);
	kbus_group_leave(before);
}

static void kbus_share_fill_others(const struct kbus_send *s, struct kbus_share *share)
{
	struct kbus_reclaim reclaim;

	kbus_share_fill(share, KBUS_GFP_NO_RECLAIM);
	if (!share->pool->exhausted || !kbus_send_may_reclaim(s, share, &reclaim))
		return;
	share->pool->exhausted = false;
	kbus_share_fill(share, reclaim.gfp);
	kbus_share_took(share, &reclaim);
}

/* A copy of the message in the group's memory, or NULL if it has none */
static struct kbus_msg *kbus_send_clone(const struct kbus_send *s, struct kbus_share *share)
{
	struct kbus_reclaim reclaim;
	struct kbus_msg *clone;

	clone = kbus_msg_clone(s->home.msg, share->group, KBUS_GFP_NO_RECLAIM);
	if (clone || !kbus_send_may_reclaim(s, share, &reclaim))
		return clone;
	clone = kbus_msg_clone(s->home.msg, share->group, reclaim.gfp);
	kbus_share_took(share, &reclaim);
	return clone;
}

/*
 * A share for a group that has none: a copy of the message in the group's memory. There are
 * only so many, however often recipients leave and others come in other groups meanwhile.
 */
static void kbus_send_add_share(struct kbus_send *s, struct kbus_ksock *first, bool is_due)
{
	struct kbus_share *share = NULL;

	if (s->nr_shares < s->most_shares)
		share = kmalloc(sizeof(*share), KBUS_GFP);
	if (!share) {
		s->no_shares = true;
		kbus_ksock_put(first);
		return;
	}
	share->group = first->group;
	share->first = first;
	share->is_due = is_due;
	share->msg = kbus_send_clone(s, share);
	kbus_pool_init(&share->own_pool);
	share->pool = &share->own_pool;
	share->need = 0;
	list_add_tail(&share->node, &s->shares);
	s->nr_shares++;
}

/* Get what a plan lacks; no lock is held. */
void kbus_send_supply(struct kbus_send *s)
{
	struct kbus_share *share;
	u32 i;

	/* That may take a while, so nobody waits meanwhile who need not. */
	kbus_wakes_reserve(s->wakes, s->recipients);
	if (s->home.first)
		kbus_share_fill_others(s, &s->home);
	else
		kbus_share_fill(&s->home, KBUS_GFP);
	list_for_each_entry(share, &s->shares, node)
		kbus_share_fill_others(s, share);
	if (!s->most_shares)
		s->most_shares = s->recipients + KBUS_WANTED;
	for (i = 0; i < s->nr_wanted; i++)
		kbus_send_add_share(s, s->wanted[i], s->wanted_due & BIT(i));
	s->nr_wanted = 0;
	s->wanted_due = 0;
}

/* Give back what the groups of others have not needed, and forget what they would. */
static void kbus_send_drop_shares(struct kbus_send *s)
{
	struct kbus_share *share, *next;

	while (s->nr_wanted)
		kbus_ksock_put(s->wanted[--s->nr_wanted]);
	s->wanted_due = 0;
	s->no_shares = false;

	list_for_each_entry_safe(share, next, &s->shares, node) {
		list_del(&share->node);
		kbus_pool_free(share->pool);
		kbus_msg_put(share->msg);
		kbus_ksock_put(share->first);
		kfree(share);
	}
	s->nr_shares = 0;
	s->most_shares = 0;
}

/* Forget all about a message that has been sent, or not; no lock is held. */
void kbus_send_end(struct kbus_send *s)
{
	WARN_ON_ONCE(!list_empty(&s->plan));
	if (s->nr_wanted || !list_empty(&s->shares))
		kbus_send_drop_shares(s);
}

/* While a message is planned, a look at its group tells what share a recipient has. */
static void kbus_send_show_shares(struct kbus_send *s, bool show)
{
	struct kbus_share *share;

	list_for_each_entry(share, &s->shares, node)
		share->group->share = show ? share : NULL;
}

/* The share that a KSock has in the message; NULL if there is none so far. */
static struct kbus_share *kbus_send_share(struct kbus_send *s, struct kbus_ksock *ks)
{
	struct kbus_group *group = ks->group;
	u32 i;

	if (likely(group == s->home.group))
		return &s->home;
	if (group->share) {
		group->share->is_due |= !ks->observes;
		return group->share;
	}
	if (s->no_shares)
		return NULL;
	s->lacks = true;
	for (i = 0; i < s->nr_wanted; i++) {
		if (s->wanted[i]->group == group)
			break;
	}
	if (i == KBUS_WANTED)
		return NULL;
	if (i == s->nr_wanted) {
		kbus_ksock_get(ks);
		s->wanted[s->nr_wanted++] = ks;
	}
	if (!ks->observes)
		s->wanted_due |= BIT(i);
	return NULL;
}

/* Is it for an observer, who need not have it? */
static bool kbus_plan_is_an_observers(const struct kbus_plan *plan)
{
	return plan->observes && !plan->is_flagged && !plan->is_answer;
}

static struct kbus_plan *kbus_send_plan_for(struct kbus_send *s, struct kbus_ksock *ks,
					    bool is_answer)
{
	const struct kbus_msg *msg = s->home.msg;
	struct kbus_plan *plan = &ks->plan;

	if (!list_empty(&plan->node))
		return plan;
	list_add_tail(&plan->node, &s->plan);
	s->recipients++;
	plan->share = NULL;
	plan->bytes = 0;
	plan->copies = 0;
	plan->taken = 0;
	plan->paid = 0;
	plan->is_charged = false;
	plan->is_flagged = false;
	plan->is_answer = is_answer;
	plan->only_once = READ_ONCE(ks->q.only_once);
	plan->observes = ks->observes;
	/*
	 * One of those of the user that wrote the message has it for what that has paid,
	 * rather one that must have it.
	 */
	if (msg->payer == ks->user &&
	    (!s->heir || (kbus_plan_is_an_observers(s->heir) && !plan->observes))) {
		if (s->heir)
			s->heir->paid = 0;
		s->heir = plan;
		plan->paid = msg->cost;
	}
	spin_lock(&ks->q.lock);
	plan->room = kbus_queue_room(&ks->q, U32_MAX, msg, plan->paid, is_answer);
	plan->has_room_for_answer = is_answer && kbus_queue_takes_answer(&ks->q, msg->len);
	plan->has_line = kbus_queue_has_line(&ks->q);
	spin_unlock(&ks->q.lock);
	return plan;
}

/* The next of the items that a message has itself, or NULL */
static struct kbus_item *kbus_item_inside(struct kbus_msg *msg)
{
	struct kbus_item *item;

	if (msg->nr_items_used == KBUS_MSG_ITEMS)
		return NULL;
	item = &msg->items[msg->nr_items_used++];
	kbus_item_init(item);
	return item;
}

/* An item for a copy: one of the message itself, or one of the pool, or NULL */
static struct kbus_item *kbus_send_add_item(struct kbus_send *s, struct kbus_plan *plan)
{
	struct kbus_share *share = plan->share;
	struct kbus_item *item = NULL;

	if (!share) {
		share = kbus_send_share(s, kbus_plan_ksock(plan));
		/* What cannot be refused is rather in the sender's memory than nowhere. */
		if (s->when_full == KBUS_FULL_ASIDE && (share ? !share->msg : s->no_shares))
			share = &s->home;
		plan->share = share;
	}
	if (!share || !share->msg)
		return NULL;
	/* What is set aside may come to stand for another message. */
	if (s->when_full != KBUS_FULL_ASIDE)
		item = kbus_item_inside(share->msg);
	if (!item) {
		share->need++;
		item = kbus_pool_take(share->pool);
		if (!item) {
			s->lacks |= !share->pool->exhausted;
			s->lacks_at_home |= share == &s->home;
			return NULL;
		}
	}
	refcount_inc(&share->msg->refs);
	item->msg = share->msg;
	plan->bytes += share->msg->cost;
	list_add_tail(&item->node, &plan->items);
	return item;
}

/* One more copy, which has room, if there still is an item for it */
static struct kbus_item *kbus_plan_add_copy(struct kbus_send *s, struct kbus_plan *plan,
					    struct kbus_binding *binding)
{
	struct kbus_item *item = kbus_send_add_item(s, plan);

	if (item) {
		item->binding = binding;
		plan->taken++;
	}
	return item;
}

/* One more copy, for which there may be no room */
static struct kbus_item *kbus_plan_miss_copy(struct kbus_send *s, struct kbus_plan *plan,
					     struct kbus_binding *binding)
{
	const bool is_set_aside = s->when_full == KBUS_FULL_ASIDE && !binding->is_observer;

	if (plan->copies > plan->room && !is_set_aside) {
		if (!binding->is_observer &&
		    (s->when_full != KBUS_FULL_MISS || binding->is_replier))
			s->is_short = true;
		return NULL;
	}
	return s->is_short ? NULL : kbus_plan_add_copy(s, plan, binding);
}

static struct kbus_item *kbus_send_add_copy(struct kbus_send *s, struct kbus_plan *plan,
					    struct kbus_binding *binding)
{
	/* Nobody pays for copies that are missed or refused, or for which a sender will wait. */
	if (unlikely(++plan->copies > plan->room || s->is_short))
		return kbus_plan_miss_copy(s, plan, binding);
	return kbus_plan_add_copy(s, plan, binding);
}

static void kbus_send_add_listener(struct kbus_send *s, struct kbus_binding *b)
{
	struct kbus_plan *plan;
	struct kbus_item *item;

	if (b->ks->closing)
		return;
	plan = kbus_send_plan_for(s, b->ks, false);
	if (!plan->only_once) {
		kbus_send_add_copy(s, plan, b);
		return;
	}

	if (plan->is_flagged || plan->is_answer)
		return;
	if (!plan->copies) {
		kbus_send_add_copy(s, plan, b);
		plan->once = b->serial;
	} else if (b->serial > plan->once) {
		item = list_first_entry_or_null(&plan->items, struct kbus_item, node);
		if (item)
			item->binding = b;
		plan->once = b->serial;
	}
}

/* The replier must have a Request, and an observer nothing else. */
static void kbus_plan_set_must(const struct kbus_send *s, struct kbus_plan *plan)
{
	plan->must = plan->is_flagged;
	if (!plan->observes && !plan->is_answer &&
	    (s->when_full == KBUS_FULL_FAIL || s->when_full == KBUS_FULL_WAIT))
		plan->must = plan->copies;
}

/* What the copies that it must have take of the recipient's user */
u64 kbus_plan_must_bytes(const struct kbus_send *s, const struct kbus_plan *plan)
{
	return (u64)plan->must * s->home.msg->cost;
}

/* Somebody has no room who must have the message: it is refused, or its sender waits. */
static int kbus_send_lacks_room(struct kbus_send *s, struct kbus_plan *plan)
{
	if (s->when_full != KBUS_FULL_WAIT || kbus_wait_is_hopeless(s))
		return -EBUSY;
	/* If there is room again, the message is planned again: readers do not wait. */
	return kbus_wait_try(s, plan) ?: -ENOSPC;
}

/*
 * Before copies are made in others' memory: does everybody have room who must have one?
 * Return -ENOSPC if so, or what kbus_send_reserve() would; the plan is of no use any more.
 */
static int kbus_send_look_for_room(struct kbus_send *s)
{
	struct kbus_plan *plan;
	int err;

	list_for_each_entry(plan, &s->plan, node)
		kbus_plan_set_must(s, plan);
	list_for_each_entry(plan, &s->plan, node) {
		const u64 bytes = kbus_plan_must_bytes(s, plan) - plan->paid;

		if (!plan->must)
			continue;
		if (s->when_full == KBUS_FULL_WAIT && plan->has_line) {
			err = kbus_send_lacks_room(s, plan);
			if (err != -ENOSPC)
				return err;
		}
		if (!kbus_user_charge_copies(kbus_plan_ksock(plan)->user, bytes, plan->must))
			return kbus_send_lacks_room(s, plan);
		/* What kbus_send_forget() gives back */
		plan->bytes = bytes + plan->paid;
		plan->taken = plan->must;
		plan->is_charged = true;
	}
	return -ENOSPC;
}

/**
 * kbus_send_plan() - find out who gets copies of a message
 * @s: the message; the device's lock is held
 * @match: the names that its name matches
 * @replier: who is to answer it, or NULL
 *
 * The plan ends with kbus_send_commit() or kbus_send_forget(), under the same lock.
 *
 * Return: 0, -ENOSPC if it lacks something that kbus_send_supply() may get, or, of a
 * KSock's message, an error of kbus_send_reserve().
 */
int kbus_send_plan(struct kbus_send *s, struct kbus_name *match,
		   struct kbus_binding *replier)
{
	struct kbus_binding *b;
	struct kbus_share *share;
	struct kbus_plan *plan;
	struct kbus_item *item;

	lockdep_assert_held(&s->dev->lock);
	s->recipients = 0;
	s->heir = NULL;
	s->lacks = false;
	s->lacks_at_home = false;
	s->is_short = false;
	s->home.need = 0;
	list_for_each_entry(share, &s->shares, node)
		share->need = 0;
	kbus_send_show_shares(s, true);
	if (s->answered) {
		/* The first copy, so that the message has the item for it. */
		plan = kbus_send_plan_for(s, s->answered->sender, true);
		/* A status is charged with its Request. */
		if (s->status_for)
			plan->paid = s->home.msg->cost;
		kbus_send_add_item(s, plan);
	}
	if (replier) {
		plan = kbus_send_plan_for(s, replier->ks, false);
		plan->is_flagged = true;
		item = kbus_send_add_copy(s, plan, replier);
		if (item)
			item->request = s->request;
	}
	for (; match; match = match->next_match) {
		list_for_each_entry(b, &match->listeners, by_name)
			kbus_send_add_listener(s, b);
	}

	if (unlikely(s->is_short)) {
		/* It is refused, or its sender waits, whatever it lacks besides. */
		s->lacks_at_home = false;
		return 0;
	}
	if (s->recipients > s->wakes->room && !s->wakes->is_exhausted)
		s->lacks = true;
	if (likely(!s->lacks))
		return 0;
	if (s->sender && (s->when_full == KBUS_FULL_FAIL || s->when_full == KBUS_FULL_WAIT))
		return kbus_send_look_for_room(s);
	return -ENOSPC;
}

/* Take the last copy out of a plan; it is missed. */
void kbus_send_drop_copy(struct kbus_plan *plan, struct kbus_item *item)
{
	plan->bytes -= kbus_item_cost(item);
	kbus_pool_give(plan->share->pool, item);
	plan->taken--;
}

/*
 * Charge the recipient for what is planned; copies that it need not have, and whose
 * bytes its user has not, it misses. Return false if it must have more.
 */
static bool kbus_plan_charge(struct kbus_plan *plan)
{
	struct kbus_user *user = kbus_plan_ksock(plan)->user;
	u32 count = plan->taken + plan->is_answer;

	while (count && !kbus_user_charge_copies(user, plan->bytes - plan->paid, count)) {
		if (plan->taken <= plan->must)
			return false;
		kbus_send_drop_copy(plan, list_last_entry(&plan->items, struct kbus_item,
							  node));
		count--;
	}
	if (!count)
		plan->paid = 0;
	plan->is_charged = true;
	return true;
}

/* Charge for what is queued whatever limits there are. */
static void kbus_plan_charge_anyway(struct kbus_plan *plan)
{
	struct kbus_user *user = kbus_plan_ksock(plan)->user;
	struct kbus_item *item;

	list_for_each_entry(item, &plan->items, node) {
		atomic_long_add(kbus_item_cost(item), &user->bytes);
		atomic_inc(&user->held);
	}
	plan->is_charged = true;
}

static void kbus_plan_uncharge(struct kbus_plan *plan)
{
	kbus_user_uncharge_copies(kbus_plan_ksock(plan)->user,
				  plan->bytes - plan->paid,
				  plan->taken + plan->is_answer);
	plan->is_charged = false;
}

/*
 * Wait for the room that a plan lacks. Return 0 if it came meanwhile. If its user's bytes went
 * to another device then, the message is planned again.
 */
static int kbus_plan_wait(struct kbus_send *s, struct kbus_plan *plan)
{
	int err = kbus_wait_try(s, plan);

	if (!err && !kbus_plan_charge(plan))
		err = -ENOSPC;
	return err;
}

static int kbus_plan_reserve(struct kbus_send *s, struct kbus_plan *plan)
{
	const bool may_wait = s->when_full == KBUS_FULL_WAIT;

	if (plan->is_answer && !s->status_for &&
	    (!plan->has_room_for_answer || list_empty(&plan->items)))
		return -ENOBUFS;
	if (plan->taken >= plan->must &&
	    !(may_wait && plan->must && plan->has_line) && kbus_plan_charge(plan))
		return 0;
	if (plan->is_answer)
		return -ENOBUFS;
	return may_wait ? kbus_plan_wait(s, plan) : -EBUSY;
}

static bool kbus_plan_is_optional(const struct kbus_plan *plan)
{
	return !plan->must && !plan->is_answer;
}

static int kbus_send_reserve_for(struct kbus_send *s, bool optional)
{
	struct kbus_plan *plan;
	int err;

	list_for_each_entry(plan, &s->plan, node) {
		if (kbus_plan_is_optional(plan) != optional)
			continue;
		err = kbus_plan_reserve(s, plan);
		if (err)
			return err;
	}
	return 0;
}

/* Somebody has no room; who comes first? */
static int kbus_send_is_short(struct kbus_send *s)
{
	struct kbus_plan *plan;

	list_for_each_entry(plan, &s->plan, node) {
		if (plan->room < plan->must)
			return kbus_send_lacks_room(s, plan);
	}
	return -EBUSY;
}

/**
 * kbus_send_reserve() - see whether everybody has room who must, and take it
 * @s: a message that is planned
 *
 * Return: 0, or -EBUSY, -ENOMEM or, for an answer, -ENOBUFS; -EAGAIN if the sender
 * waits from now on, -ENOSPC if the message is to be planned again.
 */
int kbus_send_reserve(struct kbus_send *s)
{
	bool has_must = false, has_optional = false;
	struct kbus_plan *plan;
	int err = 0;

	list_for_each_entry(plan, &s->plan, node) {
		kbus_plan_set_must(s, plan);
		if (s->when_full == KBUS_FULL_WAIT && plan->taken < plan->must && !s->is_short)
			/* Nobody is told when a control group has memory again. */
			return -ENOMEM;
		if (kbus_plan_is_optional(plan))
			has_optional = true;
		else
			has_must = true;
	}
	if (unlikely(s->is_short))
		return kbus_send_is_short(s);
	if (has_must)
		err = kbus_send_reserve_for(s, false);
	/* Those who may do without come last, so that they take nothing from the others. */
	if (!err && has_optional)
		err = kbus_send_reserve_for(s, true);
	return err;
}

static struct kbus_msg_id kbus_send_next_id(struct kbus_dev *dev)
{
	u32 serial = dev->last_serial + 1;

	return (struct kbus_msg_id) { .serial_num = serial ? serial : 1 };
}

/* Give the message its id, unless it brought one. */
void kbus_send_set_id(struct kbus_dev *dev, struct kbus_msg *msg)
{
	struct kbus_message_header *hdr = kbus_msg_header(msg);

	lockdep_assert_held(&dev->lock);
	if (hdr->id.network_id)
		return;
	hdr->id = kbus_send_next_id(dev);
	dev->last_serial = hdr->id.serial_num;
}

/* Remember when the message was queued. For all who ask that is the same time. */
static void kbus_send_set_time(struct kbus_send *s)
{
	struct kbus_share *share;
	u64 now;

	if (atomic64_read(&s->home.msg->queued_at))
		return;
	now = ktime_get_ns();
	atomic64_set(&s->home.msg->queued_at, now);
	list_for_each_entry(share, &s->shares, node) {
		if (share->msg)
			atomic64_set(&share->msg->queued_at, now);
	}
}

/**
 * kbus_send_commit() - queue all the copies
 * @s: a message that is planned, has an id, and whose plan has room
 */
void kbus_send_commit(struct kbus_send *s)
{
	const struct kbus_message_header *hdr = kbus_msg_header(s->home.msg);
	struct kbus_plan *plan, *next;
	struct kbus_share *share;

	lockdep_assert_held(&s->dev->lock);
	s->dev->sent++;
	trace_send(s->dev->index, hdr, s->home.msg->len);
	list_for_each_entry(share, &s->shares, node) {
		if (share->msg)
			kbus_msg_header(share->msg)->id = hdr->id;
	}
	list_for_each_entry(plan, &s->plan, node) {
		struct kbus_ksock *ks = kbus_plan_ksock(plan);

		if (READ_ONCE(ks->q.wants_times))
			kbus_send_set_time(s);
		if (!plan->is_charged)
			kbus_plan_charge_anyway(plan);
		kbus_queue_push(&ks->q, &plan->items, hdr->flags & KBUS_BIT_URGENT,
				plan->is_answer, s->wakes);
		if (likely(plan->copies == plan->taken))
			continue;
		kbus_queue_miss(&ks->q, plan->copies - plan->taken);
		trace_lost(s->dev->index, ks->id, hdr, plan->copies - plan->taken);
	}
	if (s->heir && s->heir->paid)
		s->home.msg->payer = NULL;
	else
		kbus_msg_uncharge(s->home.msg);
	list_for_each_entry_safe(plan, next, &s->plan, node) {
		list_del_init(&plan->node);
		if (kbus_plan_ksock(plan)->lost_msg)
			kbus_send_report_lost(kbus_plan_ksock(plan), s->wakes);
	}
	kbus_send_show_shares(s, false);
}

/* Forget a plan; items that have not been queued go back to the pools. */
void kbus_send_forget(struct kbus_send *s)
{
	struct kbus_plan *plan, *next;
	struct kbus_item *item, *n;

	lockdep_assert_held(&s->dev->lock);
	list_for_each_entry_safe(plan, next, &s->plan, node) {
		if (plan->is_charged)
			kbus_plan_uncharge(plan);
		list_for_each_entry_safe(item, n, &plan->items, node)
			kbus_pool_give(plan->share->pool, item);
		list_del_init(&plan->node);
	}
	kbus_send_show_shares(s, false);
}

/* Is there something to tell the KSock of, and room for it? Then it is told. */
static u32 kbus_send_take_lost(struct kbus_ksock *ks, const struct kbus_msg *msg)
{
	const struct kbus_need need = {
		.copies = 1, .len = msg->len, .bytes = msg->cost, .is_only_one = true,
		.at = ks->dev->bindings_changed,
	};
	struct kbus_queue *q = &ks->q;
	u32 lost = 0;

	spin_lock(&q->lock);
	/* If its user's bytes lack, the user's worker comes back to it. */
	while (q->report_lost && q->lost_unreported && kbus_line_fits(q, &need)) {
		if (kbus_user_charge_copies(ks->user, msg->cost, 1))
			swap(lost, q->lost_unreported);
	}
	spin_unlock(&q->lock);
	return lost;
}

/* Tell a KSock what it has missed, if it wants to know and there is room. */
void kbus_send_report_lost(struct kbus_ksock *ks, struct kbus_wakes *wakes)
{
	struct kbus_msg *msg = ks->lost_msg;
	struct kbus_item *item;
	LIST_HEAD(items);
	u32 lost;

	lockdep_assert_held(&ks->dev->lock);
	if (!msg || ks->closing)
		return;
	lost = kbus_send_take_lost(ks, msg);
	if (!lost)
		return;

	kbus_msg_begin(msg, KBUS_NAME_MESSAGES_LOST, ks->id, sizeof(lost));
	kbus_msg_append_bytes(msg, &lost, sizeof(lost));
	kbus_msg_finish(msg);
	kbus_send_set_id(ks->dev, msg);
	ks->dev->sent++;
	trace_send(ks->dev->index, kbus_msg_header(msg), msg->len);
	item = kbus_item_inside(msg);
	item->msg = msg;
	list_add(&item->node, &items);
	/* If there is no memory now, whoever reads will try again. */
	WRITE_ONCE(ks->lost_msg,
		   kbus_msg_synthetic_now(strlen(KBUS_NAME_MESSAGES_LOST), sizeof(u32),
					  ks->group));
	if (READ_ONCE(ks->q.wants_times))
		atomic64_set(&msg->queued_at, ktime_get_ns());
	kbus_queue_push(&ks->q, &items, false, false, wakes);
}

/* What can be wrong with a whole message that write() does not look at */
static int kbus_send_check_form(const struct kbus_msg *msg, struct kbus_route *route,
				bool *by_route)
{
	const struct kbus_message_header *hdr = kbus_msg_header(msg);
	const char *name = kbus_msg_name(msg);

	*by_route = kbus_route_is_for(route, name, hdr->name_len);
	if (*by_route)
		return 0;
	if (kbus_name_check(name, hdr->name_len) ||
	    kbus_name_wildcard(name, hdr->name_len))
		return -EBADMSG;
	if (kbus_name_is_kbus(name, hdr->name_len))
		return kbus_msg_is_reply(hdr) ? 0 : -EACCES;
	*by_route = kbus_route_set(route, name, hdr->name_len);
	return 0;
}

/* Find the Request that a reply answers. */
static int kbus_send_find_answered(struct kbus_send *s)
{
	const struct kbus_message_header *hdr = kbus_msg_header(s->home.msg);
	struct kbus_request *answered = kbus_request_find(s->sender, hdr);

	if (!answered)
		return -ECONNREFUSED;
	if (!kbus_request_is_wanted(answered)) {
		trace_answer(s->dev->index, hdr->to, s->sender->id, &hdr->in_reply_to, NULL);
		kbus_request_end(s->dev, answered);
		return -EADDRNOTAVAIL;
	}
	s->answered = answered;
	return 0;
}

/* Send the message if that is possible now; the errors are SEND's, in its order. */
static int kbus_send_try(struct kbus_send *s)
{
	struct kbus_message_header *hdr = kbus_msg_header(s->home.msg);
	struct kbus_ksock *ks = s->sender;
	struct kbus_binding *replier = NULL;
	u32 last_serial = s->dev->last_serial;
	struct kbus_name *match;
	int err;

	s->answered = NULL;
	match = s->by_route ? kbus_route_match(s->dev, &ks->route) :
		kbus_words_match(s->dev, &s->words);
	if (s->request) {
		if (kbus_request_is_one_too_many(ks, &hdr->id) ||
		    !kbus_queue_set_slot_aside(&ks->q))
			return -ENOLCK;
		replier = kbus_match_replier(match);
		err = -EADDRNOTAVAIL;
		if (!replier)
			goto release_slot;
		err = -EPIPE;
		if (hdr->to && hdr->to != replier->ks->id)
			goto release_slot;
		ks->wait.replier_rank = kbus_name_rank(replier->name->name, replier->name->len);
	} else if (kbus_msg_is_reply(hdr)) {
		err = kbus_send_find_answered(s);
		if (err)
			return err;
	}

	err = kbus_send_plan(s, match, replier);
	if (!err && s->lacks_at_home)
		err = -ENOMEM;
	if (!err)
		err = kbus_send_reserve(s);
	if (err)
		goto forget;

	kbus_send_set_id(s->dev, s->home.msg);
	if (s->request) {
		err = kbus_request_link(s->request, ks, replier->ks, &hdr->id);
		if (err) {
			s->dev->last_serial = last_serial;
			goto forget;
		}
		/* The first item planned is the flagged copy. */
		s->request->item = list_first_entry(&replier->ks->plan.items,
						    struct kbus_item, node);
		s->request = NULL;
		trace_request(s->dev->index, hdr, replier->ks->id);
	}
	kbus_send_commit(s);
	if (s->answered) {
		trace_answer(s->dev->index, hdr->to, ks->id, &hdr->in_reply_to, hdr);
		kbus_request_end(s->dev, s->answered);
	}
	return 0;
forget:
	kbus_send_forget(s);
release_slot:
	if (s->request)
		kbus_queue_release_slot(&ks->q, s->wakes);
	return err;
}

/* Did the message get as far as to use a serial number? */
static bool kbus_send_used_serial(int err)
{
	return !kbus_send_is_kept(err) && err != -ENOMEM && err != -ENOMSG;
}

/* Is there a reason for SEND of the message with this serial to go on? */
static bool kbus_send_may_try(struct kbus_ksock *ks, u64 serial)
{
	return READ_ONCE(ks->wait.ready) || READ_ONCE(ks->out_serial) != serial;
}

/* Sleep until another try makes sense; out_lock and the device's lock are held. */
static int kbus_send_sleep(struct kbus_send *s)
	__must_hold(&s->dev->lock)
{
	struct kbus_ksock *ks = s->sender;
	u64 serial = ks->out_serial;
	int err;

	/* Whatever keeps it from being sent, a signal ends it. */
	if (signal_pending(current))
		return -ERESTARTSYS;
	spin_unlock(&s->dev->lock);
	kbus_wakes_flush(s->wakes);
	kbus_send_drop_shares(s);
	mutex_unlock(&ks->out_lock);
	err = kbus_sleep_until(ks, kbus_send_may_try, serial, s->until);
	mutex_lock(&ks->out_lock);
	spin_lock(&s->dev->lock);
	if (ks->out_serial != serial)
		return -ENOMSG;
	return err;
}

static int kbus_send_or_wait(struct kbus_send *s)
{
	struct kbus_ksock *ks = s->sender;
	struct kbus_dev *dev = s->dev;
	LIST_HEAD(no_room);
	int err;

	spin_lock(&dev->lock);
	for (;;) {
		err = kbus_send_try(s);
		if (err == -ENOSPC) {
			spin_unlock(&dev->lock);
			kbus_send_supply(s);
			spin_lock(&dev->lock);
			continue;
		}
		if (err != -EAGAIN || !s->sleep)
			break;
		err = kbus_send_sleep(s);
		/* After ENOMSG, the message may be no more. */
		if (err)
			break;
	}

	if (!err)
		ks->sent++;
	else if (kbus_send_used_serial(err))
		kbus_send_set_id(dev, s->home.msg);
	if (err == -ENOBUFS)
		kbus_request_take(s->answered, &no_room);
	/* After ENOMSG too: if another message waits now, this task sleeps for it no more. */
	if (kbus_send_is_kept(err) || err == -ENOMSG)
		kbus_wait_keep(ks, s->slept, s->wakes);
	else if (unlikely(ks->wait.since || s->slept))
		kbus_wait_end(ks, s->slept, s->wakes);
	spin_unlock(&dev->lock);
	if (err == -ENOBUFS)
		kbus_requests_fail(dev, &no_room, KBUS_NAME_REPLIER_NOROOM);
	return err;
}

/* SEND of what is in @ks->out; out_lock is held. */
static int kbus_send_out(struct kbus_ksock *ks, ktime_t until, struct kbus_msg_id *id,
			 struct kbus_wakes *wakes)
{
	struct kbus_msg *msg = ks->out;
	struct kbus_message_header *hdr;
	u64 serial = ks->out_serial;
	bool by_route = false;
	struct kbus_pool pool;
	struct kbus_send s __uninitialized;
	int err;

	lockdep_assert_held(&ks->out_lock);
	if (!msg || msg->filled < msg->len)
		err = -EINVAL;
	else
		err = kbus_send_check_form(msg, &ks->route, &by_route);
	if (err) {
		trace_refuse(ks->dev->index, ks->id, err,
			     err == -EINVAL ? NULL : kbus_msg_header(msg));
		goto drop;
	}

	hdr = kbus_msg_header(msg);
	kbus_pool_init(&pool);
	kbus_send_init(&s, ks->dev, ks->group, msg, &pool, KBUS_FULL_MISS, wakes);
	s.sender = ks;
	s.by_route = by_route;
	s.sleep = until > 0;
	s.until = until;
	/* Replies ignore both flags. */
	if (!kbus_msg_is_reply(hdr) && hdr->flags & KBUS_BIT_ALL_OR_WAIT)
		s.when_full = KBUS_FULL_WAIT;
	else if (!kbus_msg_is_reply(hdr) && hdr->flags & KBUS_BIT_ALL_OR_FAIL)
		s.when_full = KBUS_FULL_FAIL;
	/* Of one that waits already others read the name. */
	if (!ks->wait.since) {
		hdr->from = ks->id;
		hdr->flags &= ~(KBUS_BIT_SYNTHETIC | KBUS_BIT_WANT_YOU_TO_REPLY);
	}

	s.home.need = ks->last_need;
	if (kbus_msg_is_request(hdr) || ks->last_need) {
		/* What was sent before must not wait for memory that this one needs. */
		kbus_wakes_flush(wakes);
		kbus_share_fill(&s.home, KBUS_GFP);
	}
	if (!by_route)
		err = kbus_words_new(&s.words, ks->dev, kbus_msg_name(msg), hdr->name_len);
	if (!err && kbus_msg_is_request(hdr)) {
		s.request = kbus_request_new(ks);
		err = PTR_ERR_OR_ZERO(s.request);
	}
	if (err) {
		s.request = NULL;
	} else {
		err = kbus_send_or_wait(&s);
		/* Whoever may send from now on does not wait until what this one had is freed. */
		if (wakes->has_senders)
			kbus_wakes_flush(wakes);
		ks->last_need = s.home.need;
		if (!err || kbus_send_used_serial(err)) {
			ks->last_sent = hdr->id;
			*id = hdr->id;
		}
	}
	if (s.request)
		kbus_request_free(s.request);
	if (unlikely(!by_route))
		kbus_words_free(&s.words);
	kbus_send_end(&s);
	kbus_pool_free(&pool);
	if (kbus_send_is_kept(err))
		return err;
	if (err) {
		/* After ENOMSG, the message may be no more. */
		if (err == -ENOMSG)
			hdr = NULL;
		trace_refuse(ks->dev->index, ks->id, err, hdr);
		kbus_verbose(ks->dev, "KSock %u: SEND of %.*s fails: %pe\n", ks->id,
			     hdr ? (int)hdr->name_len : 0, hdr ? kbus_msg_name(msg) : "",
			     ERR_PTR(err));
	}
drop:
	if (ks->out_serial == serial)
		kbus_ksock_drop_out(ks);
	return err;
}

/**
 * kbus_send() - SEND: send the message that this KSock has written
 * @ks: the KSock
 * @until: when to stop waiting for room, see kbus_sleep_until()
 * @id: out: the message's id
 *
 * Return: 0, or a negative errno as listed at KBUS_IOC_SEND.
 */
int kbus_send(struct kbus_ksock *ks, ktime_t until, struct kbus_msg_id *id)
{
	struct kbus_wakes wakes __uninitialized;
	int err = -ENOMSG;

	kbus_wakes_init(&wakes);
	mutex_lock(&ks->out_lock);
	if (ks->out || ks->out_begin_len)
		err = kbus_send_out(ks, until, id, &wakes);
	mutex_unlock(&ks->out_lock);
	kbus_wakes_end(&wakes);
	return err;
}

/**
 * kbus_send_waiting() - send the message of this KSock that waits for room
 * @ks: the KSock
 * @until: when to stop waiting for room
 * @id: out: the message's id
 *
 * Return: 0, -ENOMSG if none does, or a negative errno of SEND.
 */
int kbus_send_waiting(struct kbus_ksock *ks, ktime_t until, struct kbus_msg_id *id)
{
	struct kbus_wakes wakes __uninitialized;
	int err = -ENOMSG;

	kbus_wakes_init(&wakes);
	mutex_lock(&ks->out_lock);
	if (ks->wait.since)
		err = kbus_send_out(ks, until, id, &wakes);
	mutex_unlock(&ks->out_lock);
	kbus_wakes_end(&wakes);
	return err;
}

/**
 * kbus_send_msgs() - send messages that have been checked as far as write() does
 * @ks: the KSock
 * @msgs: the messages, whose references are taken over
 * @count: how many
 * @until: when to stop waiting for room
 * @ids: out: the ids of those that were sent
 * @sent: out: how many were
 *
 * Readers are woken after the last one, not after each.
 *
 * Return: 0, -EALREADY if another message has been written, or a negative errno
 * of SEND of the first one that could not be sent.
 */
int kbus_send_msgs(struct kbus_ksock *ks, struct kbus_msg **msgs, unsigned int count,
		   ktime_t until, struct kbus_msg_id *ids, unsigned int *sent)
{
	struct kbus_wakes wakes __uninitialized;
	unsigned int i;
	int err = 0;

	kbus_wakes_init(&wakes);
	mutex_lock(&ks->out_lock);
	for (i = 0; i < count && !err; i++) {
		err = -EALREADY;
		if (ks->out || ks->out_begin_len)
			break;
		ks->out = msgs[i];
		err = kbus_send_out(ks, until, &ids[i], &wakes);
		if (need_resched())
			kbus_wakes_flush(&wakes);
	}
	mutex_unlock(&ks->out_lock);
	kbus_wakes_end(&wakes);
	*sent = err && err != -EALREADY ? i - 1 : i;
	for (; i < count; i++)
		kbus_msg_put(msgs[i]);
	return err;
}
