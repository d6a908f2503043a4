// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that messages had and that the next ones will want.
 *
 * Each processor keeps a little of it for as long as anybody has a KSock. That
 * saves most messages the allocators, and the clearing of what is about to be
 * overwritten; nobody can read of a message what has not been written. What is
 * kept stays charged to the control group that had it first, and only that may
 * have it again: else others could use up its memory.
 */
#include <linux/memcontrol.h>
#include <linux/percpu.h>
#include <linux/slab.h>

#include "kbus.h"

/* KASAN is to see whoever uses what he has freed. */
#define KBUS_SPARE_MSGS		(IS_ENABLED(CONFIG_KASAN) ? 0U : 32U)
#define KBUS_SPARE_PAGES	(IS_ENABLED(CONFIG_KASAN) ? 0U : 64U)

/* Of one processor; the lock is that of whoever was there when he looked for one. */
struct kbus_spares {
	spinlock_t lock;		/* protects: */
	const void *owner;		/* of all of them, see kbus_spares_owner() */
	unsigned int nr_msgs;
	unsigned int nr_pages;
	struct kbus_msg *msgs[32];
	void *pages[64];
};

static DEFINE_PER_CPU(struct kbus_spares, kbus_spares) = {
	.lock = __SPIN_LOCK_UNLOCKED(kbus_spares.lock),
};

static atomic_t kbus_spares_users = ATOMIC_INIT(0);

/* The control group that memory is charged to now; only to be compared */
const void *kbus_spares_owner(void)
{
	const void *owner;

	rcu_read_lock();
	owner = mem_cgroup_from_task(current);
	rcu_read_unlock();
	return owner;
}

static void kbus_spares_drop_of(struct kbus_spares *spares)
{
	struct kbus_msg *msg;
	void *page;

	do {
		msg = NULL;
		page = NULL;
		spin_lock(&spares->lock);
		if (spares->nr_msgs)
			msg = spares->msgs[--spares->nr_msgs];
		if (spares->nr_pages)
			page = spares->pages[--spares->nr_pages];
		spin_unlock(&spares->lock);
		if (msg)
			kbus_msg_free(msg);
		if (page)
			kbus_page_free(page);
	} while (msg || page);
}

/* Lock them to keep more of @owner's. Return whether they are; what others had goes. */
static bool kbus_spares_lock_for(struct kbus_spares *spares, const void *owner)
	__acquires(&spares->lock)
{
	if (READ_ONCE(spares->owner) != owner)
		kbus_spares_drop_of(spares);
	spin_lock(&spares->lock);
	if (!spares->nr_msgs && !spares->nr_pages)
		WRITE_ONCE(spares->owner, owner);
	return spares->owner == owner;
}

/* The memory of a small message that was @owner's, or NULL */
struct kbus_msg *kbus_spare_msg(const void *owner)
{
	struct kbus_spares *spares = raw_cpu_ptr(&kbus_spares);
	struct kbus_msg *msg = NULL;

	spin_lock(&spares->lock);
	if (spares->nr_msgs && spares->owner == owner)
		msg = spares->msgs[--spares->nr_msgs];
	spin_unlock(&spares->lock);
	return msg;
}

/* Keep the memory of a small message, unless there is enough. */
bool kbus_spare_msg_keep(struct kbus_msg *msg)
{
	struct kbus_spares *spares = raw_cpu_ptr(&kbus_spares);
	bool keep;

	keep = kbus_spares_lock_for(spares, msg->owner) && spares->nr_msgs < KBUS_SPARE_MSGS;
	if (keep)
		spares->msgs[spares->nr_msgs++] = msg;
	spin_unlock(&spares->lock);
	return keep;
}

/* Up to @count pages that were @owner's. Return how many. */
unsigned int kbus_spare_pages(const void *owner, void **pages, unsigned int count)
{
	struct kbus_spares *spares = raw_cpu_ptr(&kbus_spares);

	spin_lock(&spares->lock);
	count = spares->owner == owner ? min(count, spares->nr_pages) : 0;
	spares->nr_pages -= count;
	memcpy(pages, spares->pages + spares->nr_pages, count * sizeof(*pages));
	spin_unlock(&spares->lock);
	return count;
}

/* Keep the first ones of @owner's pages, until there are enough. Return how many. */
unsigned int kbus_spare_pages_keep(const void *owner, void **pages,
				   unsigned int count)
{
	struct kbus_spares *spares = raw_cpu_ptr(&kbus_spares);

	if (kbus_spares_lock_for(spares, owner))
		count = min(count, KBUS_SPARE_PAGES - spares->nr_pages);
	else
		count = 0;
	memcpy(spares->pages + spares->nr_pages, pages, count * sizeof(*pages));
	spares->nr_pages += count;
	spin_unlock(&spares->lock);
	return count;
}

void kbus_spares_drop_all(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kbus_spares_drop_of(per_cpu_ptr(&kbus_spares, cpu));
}

/* There is one more KSock. */
void kbus_spares_get(void)
{
	atomic_inc(&kbus_spares_users);
}

/* There is one less; with the last one the spares go. */
void kbus_spares_put(void)
{
	if (atomic_dec_and_test(&kbus_spares_users))
		kbus_spares_drop_all();
}
