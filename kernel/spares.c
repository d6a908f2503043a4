// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that messages had and that the next ones will want.
 *
 * Each processor keeps a little of it for as long as anybody has a KSock: of messages
 * that were made on it, wherever they are read. That saves messages the allocators, and
 * the clearing of what is about to be overwritten; nobody can read of a message what has
 * not been written. What is
 * kept stays charged to the control group that had it, and only that may have it
 * again. None is kept where the kernel is to clear memory as it is freed, and a
 * shrinker takes it when memory is short.
 */
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/shrinker.h>

#include "kbus.h"

/* Each processor keeps no more than this, */
#define KBUS_SPARE_MSGS		32U
#define KBUS_SPARE_PAGES	64U
/*
 * and all of them no more than this, which is less than a MiB. It may all be one control
 * group's, whose own reclaim does not find it.
 */
#define KBUS_ALL_SPARE_MSGS	1024U
#define KBUS_ALL_SPARE_PAGES	128U
/* So many of another group's go for each that is not kept. */
#define KBUS_SPARES_DROPPED	2

/* Of one processor; whoever is on another may use them, too. */
struct kbus_spares {
	spinlock_t lock;		/* protects: */
	u64 owner;			/* of all of them: kbus_group.serial */
	unsigned int nr_msgs;		/* READ_ONCE(), so is: */
	unsigned int nr_pages;
	struct kbus_msg *msgs[KBUS_SPARE_MSGS];	/* small ones */
	void *pages[KBUS_SPARE_PAGES];
};

static DEFINE_PER_CPU(struct kbus_spares, kbus_spares) = {
	.lock = __SPIN_LOCK_UNLOCKED(kbus_spares.lock),
};

static atomic_t kbus_spares_users = ATOMIC_INIT(0);

/* So many does one processor keep. */
static unsigned int kbus_spare_msgs_most __ro_after_init;
static unsigned int kbus_spare_pages_most __ro_after_init;

static void kbus_spares_set_limits(void)
{
	/* None under KASAN, so that it catches use after free. */
	if (IS_ENABLED(CONFIG_KASAN) || want_init_on_free())
		return;
	kbus_spare_msgs_most = min(KBUS_SPARE_MSGS, KBUS_ALL_SPARE_MSGS / num_possible_cpus());
	kbus_spare_pages_most = min(KBUS_SPARE_PAGES,
				    KBUS_ALL_SPARE_PAGES / num_possible_cpus());
}

/* Free up to @most of them. Return how many. */
static unsigned long kbus_spares_drop(struct kbus_spares *spares, unsigned long most)
{
	unsigned long dropped = 0;
	struct kbus_msg *msg;
	void *page;

	while (dropped < most) {
		msg = NULL;
		page = NULL;
		spin_lock(&spares->lock);
		if (spares->nr_pages) {
			WRITE_ONCE(spares->nr_pages, spares->nr_pages - 1);
			page = spares->pages[spares->nr_pages];
		} else if (spares->nr_msgs) {
			WRITE_ONCE(spares->nr_msgs, spares->nr_msgs - 1);
			msg = spares->msgs[spares->nr_msgs];
		}
		spin_unlock(&spares->lock);
		if (page)
			kbus_page_free(page);
		else if (msg)
			kbus_msg_free_small(msg);
		else
			break;
		dropped++;
	}
	return dropped;
}

/*
 * Lock them to keep more of @owner's. Return whether they are. What others had goes, little by
 * little, so that no message pays for many when two groups take turns.
 */
static bool kbus_spares_lock_for(struct kbus_spares *spares, u64 owner)
	__acquires(&spares->lock)
{
	spin_lock(&spares->lock);
	if (likely(spares->owner == owner))
		return true;
	spin_unlock(&spares->lock);
	kbus_spares_drop(spares, KBUS_SPARES_DROPPED);
	spin_lock(&spares->lock);
	if (!spares->nr_msgs && !spares->nr_pages)
		spares->owner = owner;
	return spares->owner == owner;
}

/* The memory of a small message that was this group's, or NULL */
struct kbus_msg *kbus_spare_msg(const struct kbus_group *group)
{
	struct kbus_spares *spares = raw_cpu_ptr(&kbus_spares);
	struct kbus_msg *msg = NULL;

	spin_lock(&spares->lock);
	if (spares->nr_msgs && spares->owner == group->serial) {
		WRITE_ONCE(spares->nr_msgs, spares->nr_msgs - 1);
		msg = spares->msgs[spares->nr_msgs];
	}
	spin_unlock(&spares->lock);
	return msg;
}

/* Keep the memory of a small message, unless there is enough. Return whether it is kept. */
bool kbus_spare_msg_keep(struct kbus_msg *msg)
{
	struct kbus_spares *spares = per_cpu_ptr(&kbus_spares, msg->cpu);
	bool keep;

	if (!kbus_spare_msgs_most)
		return false;
	keep = kbus_spares_lock_for(spares, msg->owner) &&
		spares->nr_msgs < kbus_spare_msgs_most;
	if (keep) {
		spares->msgs[spares->nr_msgs] = msg;
		WRITE_ONCE(spares->nr_msgs, spares->nr_msgs + 1);
	}
	spin_unlock(&spares->lock);
	return keep;
}

/* Up to @count pages that were this group's. Return how many. */
unsigned int kbus_spare_pages(const struct kbus_group *group, void **pages,
			      unsigned int count)
{
	struct kbus_spares *spares = raw_cpu_ptr(&kbus_spares);

	spin_lock(&spares->lock);
	count = spares->owner == group->serial ? min(count, spares->nr_pages) : 0;
	WRITE_ONCE(spares->nr_pages, spares->nr_pages - count);
	memcpy(pages, spares->pages + spares->nr_pages, count * sizeof(*pages));
	spin_unlock(&spares->lock);
	return count;
}

/* Keep the first @count pages of a message, until there are enough. Return how many. */
unsigned int kbus_spare_pages_keep(const struct kbus_msg *msg, unsigned int count)
{
	struct kbus_spares *spares = per_cpu_ptr(&kbus_spares, msg->cpu);

	if (!kbus_spare_pages_most)
		return 0;
	if (kbus_spares_lock_for(spares, msg->owner))
		count = min(count, kbus_spare_pages_most - spares->nr_pages);
	else
		count = 0;
	memcpy(spares->pages + spares->nr_pages, msg->pages, count * sizeof(*msg->pages));
	WRITE_ONCE(spares->nr_pages, spares->nr_pages + count);
	spin_unlock(&spares->lock);
	return count;
}

static void kbus_spares_drop_all(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kbus_spares_drop(per_cpu_ptr(&kbus_spares, cpu), ULONG_MAX);
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

static unsigned long kbus_spares_of(const struct kbus_spares *spares)
{
	return READ_ONCE(spares->nr_msgs) + READ_ONCE(spares->nr_pages);
}

static unsigned long kbus_spares_count(struct shrinker *shrinker, struct shrink_control *sc)
{
	unsigned long count = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		count += kbus_spares_of(per_cpu_ptr(&kbus_spares, cpu));
	return count ?: SHRINK_EMPTY;
}

static unsigned long kbus_spares_scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	unsigned long dropped = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		dropped += kbus_spares_drop(per_cpu_ptr(&kbus_spares, cpu),
					    sc->nr_to_scan - dropped);
	return dropped ?: SHRINK_STOP;
}

#if KBUS_SHRINKER_ALLOC
static struct shrinker *kbus_shrinker;

int kbus_spares_init(void)
{
	kbus_spares_set_limits();
	kbus_shrinker = shrinker_alloc(0, "kbus");
	if (!kbus_shrinker)
		return -ENOMEM;
	kbus_shrinker->count_objects = kbus_spares_count;
	kbus_shrinker->scan_objects = kbus_spares_scan;
	shrinker_register(kbus_shrinker);
	return 0;
}

void kbus_spares_exit(void)
{
	shrinker_free(kbus_shrinker);
	kbus_spares_drop_all();
}
#else
static struct shrinker kbus_shrinker = {
	.count_objects = kbus_spares_count,
	.scan_objects = kbus_spares_scan,
	.seeks = DEFAULT_SEEKS,
};

int kbus_spares_init(void)
{
	kbus_spares_set_limits();
	return register_shrinker(&kbus_shrinker, "kbus");
}

void kbus_spares_exit(void)
{
	unregister_shrinker(&kbus_shrinker);
	kbus_spares_drop_all();
}
#endif
