// SPDX-License-Identifier: GPL-2.0
/*
 * What one user has, counted over all devices, so that one user cannot use up
 * what the others need.
 */
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <linux/vmalloc.h>

#include "kbus.h"

static DEFINE_SPINLOCK(kbus_users_lock);
static DEFINE_HASHTABLE(kbus_users, 10);

/*
 * The user that the current task's quotas count for: its own, unless somebody else than
 * root has made a user namespace that it is in. Then that is who made the outermost one
 * of these, whatever users it has, or each user could have many (semantics, rule 48).
 */
static kuid_t kbus_user_of_current(void)
{
	const struct user_namespace *ns = current_user_ns();
	kuid_t uid = current_uid();

	for (; ns->parent; ns = ns->parent) {
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			uid = ns->owner;
	}
	return uid;
}

/* The user of the current task, with a reference, or NULL if there is no memory */
struct kbus_user *kbus_user_get_current(void)
{
	struct kbus_user *user, *spare = kzalloc(sizeof(*spare), KBUS_GFP);
	const kuid_t uid = kbus_user_of_current();

	if (!spare)
		return NULL;
	spare->uid = uid;
	refcount_set(&spare->refs, 1);
	spin_lock(&kbus_users_lock);
	hash_for_each_possible(kbus_users, user, node, __kuid_val(uid)) {
		if (uid_eq(user->uid, uid)) {
			/* The last reference goes under the lock, too. */
			refcount_inc(&user->refs);
			spin_unlock(&kbus_users_lock);
			kfree(spare);
			return user;
		}
	}
	hash_add(kbus_users, &spare->node, __kuid_val(uid));
	spin_unlock(&kbus_users_lock);
	return spare;
}

void kbus_user_put(struct kbus_user *user)
{
	if (!refcount_dec_and_lock(&user->refs, &kbus_users_lock))
		return;
	__acquire(&kbus_users_lock);	/* Sparse does not know that it is. */
	hash_del(&user->node);
	spin_unlock(&kbus_users_lock);
	WARN_ON_ONCE(atomic_read(&user->ksocks) || atomic_read(&user->bindings) ||
		     atomic_long_read(&user->bytes));
	kfree(user);
}

/* One more of something, unless there are @limit already. */
bool kbus_user_count(atomic_t *counter, unsigned int limit)
{
	int count = atomic_read(counter);

	do {
		if (count >= limit)
			return false;
	} while (!atomic_try_cmpxchg(counter, &count, count + 1));
	return true;
}

/* Check before adding: a brief overshoot would look like a full quota to others. */
bool kbus_user_charge(struct kbus_user *user, size_t bytes)
{
	unsigned long limit = READ_ONCE(kbus_max_user_bytes);
	unsigned long used = atomic_long_read(&user->bytes);

	do {
		/* The limit may have been lowered; nothing more is nothing more all the same. */
		if (bytes && (used > limit || bytes > limit - used))
			return false;
	} while (!atomic_long_try_cmpxchg(&user->bytes, (long *)&used, used + bytes));
	return true;
}

void kbus_user_uncharge(struct kbus_user *user, size_t bytes)
{
	atomic_long_sub(bytes, &user->bytes);
}

/* What is longer than this is not a slab object. */
#define KBUS_SLAB_MAX	4096

/* What so many bytes take: a whole slab object, or whole pages */
size_t kbus_memory_cost(size_t size)
{
	return size > KBUS_SLAB_MAX ? PAGE_ALIGN(size) : kmalloc_size_roundup(size);
}

/**
 * kbus_user_alloc() - allocate memory that a user is charged
 * @user: is charged kbus_memory_cost(@size)
 * @size: bytes
 *
 * Return: zeroes that kvfree() frees, ERR_PTR(-ENOBUFS) or ERR_PTR(-ENOMEM).
 */
void *kbus_user_alloc(struct kbus_user *user, size_t size)
{
	void *memory;

	if (!kbus_user_charge(user, kbus_memory_cost(size)))
		return ERR_PTR(-ENOBUFS);
	memory = size > KBUS_SLAB_MAX ? __vmalloc(size, KBUS_GFP | __GFP_ZERO) :
					kzalloc(size, KBUS_GFP);
	if (memory)
		return memory;
	kbus_user_uncharge(user, kbus_memory_cost(size));
	return ERR_PTR(-ENOMEM);
}
