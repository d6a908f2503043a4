// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that messages had and that the next ones will want.
 *
 * Each processor keeps a little of it for as long as anybody has a KSock. That
 * saves most messages the allocators, and the clearing of what is about to be
 * overwritten; nobody can read of a message what has not been written. What is
 * kept stays charged to the control group that had it first: it is so little
 * that this does not matter.
 */
#include <linux/percpu.h>
#include <linux/slab.h>

#include "kbus.h"

/* KASAN is to see whoever uses what he has freed. */
#define KBUS_SPARE_MSGS		(IS_ENABLED(CONFIG_KASAN) ? 0U : 32U)
#define KBUS_SPARE_PAGES	(IS_ENABLED(CONFIG_KASAN) ? 0U : 64U)

/* Of one processor; the lock is that of whoever was there when he looked for one. */
struct kbus_spares {
	spinlock_t lock;		/* protects: */
	unsigned int nr_msgs;
	unsigned int nr_pages;
	struct kbus_msg *msgs[32];
	struct page *pages[64];
};

static DEFINE_PER_CPU(struct kbus_spares, kbus_spares) = {
	.lock = __SPIN_LOCK_UNLOCKED(kbus_spares.lock),
};

static atomic_t kbus_spares_users = ATOMIC_INIT(0);

/* The memory of a small message, or NULL */
struct kbus_msg *kbus_spare_msg(void)
{
	struct kbus_spares *spares = raw_cpu_ptr(&kbus_spares);
	struct kbus_msg *msg = NULL;

	spin_lock(&spares->lock);
	if (spares->nr_msgs)
		msg = spares->msgs[--spares->nr_msgs];
	spin_unlock(&spares->lock);
	return msg;
}

/* Keep the memory of a small message, unless there is enough. */
bool kbus_spare_msg_keep(struct kbus_msg *msg)
{
	struct kbus_spares *spares = raw_cpu_ptr(&kbus_spares);
	bool keep;

	spin_lock(&spares->lock);
	keep = spares->nr_msgs < KBUS_SPARE_MSGS;
	if (keep)
		spares->msgs[spares->nr_msgs++] = msg;
	spin_unlock(&spares->lock);
	return keep;
}

/* Up to @count pages. Return how many. */
unsigned int kbus_spare_pages(struct page **pages, unsigned int count)
{
	struct kbus_spares *spares = raw_cpu_ptr(&kbus_spares);

	spin_lock(&spares->lock);
	count = min(count, spares->nr_pages);
	spares->nr_pages -= count;
	memcpy(pages, spares->pages + spares->nr_pages, count * sizeof(*pages));
	spin_unlock(&spares->lock);
	return count;
}

/* Keep the first ones of these pages, until there are enough. Return how many. */
unsigned int kbus_spare_pages_keep(struct page **pages, unsigned int count)
{
	struct kbus_spares *spares = raw_cpu_ptr(&kbus_spares);

	spin_lock(&spares->lock);
	count = min(count, KBUS_SPARE_PAGES - spares->nr_pages);
	memcpy(spares->pages + spares->nr_pages, pages, count * sizeof(*pages));
	spares->nr_pages += count;
	spin_unlock(&spares->lock);
	return count;
}

static void kbus_spares_drop_of(struct kbus_spares *spares)
{
	struct kbus_msg *msg;
	struct page *page;

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
			__free_page(page);
	} while (msg || page);
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
