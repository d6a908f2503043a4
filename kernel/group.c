// SPDX-License-Identifier: GPL-2.0
/*
 * Control groups, and what belongs to them.
 *
 * The memory of a queued message belongs to the control group in whose queue it
 * lies, so that a sender never pays for readers that do not read. A KSock's group
 * is that of the process that opened it, as with sockets. Those of one device
 * that have the same group share a struct kbus_group, so that one look tells
 * whether two of them do.
 */
#include <linux/memcontrol.h>
#include <linux/slab.h>

#include "kbus.h"

#ifdef CONFIG_MEMCG
/* No other has it while there is a reference. */
static unsigned long kbus_memcg_key(const struct mem_cgroup *memcg)
{
	return memcg ? memcg->css.id : 0;
}

static u64 kbus_memcg_serial(const struct mem_cgroup *memcg)
{
	return memcg ? memcg->css.serial_nr : 0;
}
#else
static unsigned long kbus_memcg_key(const struct mem_cgroup *memcg)
{
	return 0;
}

static u64 kbus_memcg_serial(const struct mem_cgroup *memcg)
{
	return 0;
}
#endif

/**
 * kbus_group_of_current() - the group of the process that opens a KSock
 * @dev: the device
 *
 * Return: the group, with a reference, or NULL if there is no memory for it.
 */
struct kbus_group *kbus_group_of_current(struct kbus_dev *dev)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(current->mm);
	const unsigned long key = kbus_memcg_key(memcg);
	struct kbus_group *group, *spare;

	spare = kzalloc(sizeof(*spare), KBUS_GFP);
	if (!spare || xa_reserve(&dev->groups, key, KBUS_GFP)) {
		kfree(spare);
		mem_cgroup_put(memcg);
		return NULL;
	}
	xa_lock(&dev->groups);
	group = xa_load(&dev->groups, key);
	if (!group) {
		spare->memcg = memcg;
		spare->key = key;
		spare->serial = kbus_memcg_serial(memcg);
		/* The entry is reserved, unless the last reference to another has gone since. */
		if (!xa_is_err(__xa_store(&dev->groups, key, spare, GFP_ATOMIC))) {
			group = spare;
			spare = NULL;
			memcg = NULL;
		}
	}
	if (group)
		group->refs++;
	xa_unlock(&dev->groups);
	kfree(spare);
	mem_cgroup_put(memcg);
	return group;
}

void kbus_group_put(struct kbus_dev *dev, struct kbus_group *group)
{
	bool is_last;

	if (!group)
		return;
	xa_lock(&dev->groups);
	is_last = !--group->refs;
	if (is_last)
		__xa_erase(&dev->groups, group->key);
	xa_unlock(&dev->groups);
	if (!is_last)
		return;
	mem_cgroup_put(group->memcg);
	kfree(group);
}
