// SPDX-License-Identifier: GPL-2.0
/*
 * What one user has, counted over all devices, so that one user cannot use up
 * what the others need.
 */
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "kbus.h"

static DEFINE_SPINLOCK(kbus_users_lock);
static DEFINE_HASHTABLE(kbus_users, 4);

static struct kbus_user *kbus_user_find(kuid_t uid)
{
	struct kbus_user *user;

	lockdep_assert_held(&kbus_users_lock);
	hash_for_each_possible(kbus_users, user, node, __kuid_val(uid)) {
		if (uid_eq(user->uid, uid)) {
			user->refs++;
			return user;
		}
	}
	return NULL;
}

struct kbus_user *kbus_user_get(kuid_t uid)
{
	struct kbus_user *spare, *user;

	spare = kzalloc(sizeof(*spare), KBUS_GFP);
	if (!spare)
		return NULL;
	spare->uid = uid;
	spare->refs = 1;

	spin_lock(&kbus_users_lock);
	user = kbus_user_find(uid);
	if (!user) {
		hash_add(kbus_users, &spare->node, __kuid_val(uid));
		user = spare;
		spare = NULL;
	}
	spin_unlock(&kbus_users_lock);
	kfree(spare);
	return user;
}

struct kbus_user *kbus_user_ref(struct kbus_user *user)
{
	spin_lock(&kbus_users_lock);
	user->refs++;
	spin_unlock(&kbus_users_lock);
	return user;
}

void kbus_user_put(struct kbus_user *user)
{
	bool last;

	if (!user)
		return;
	spin_lock(&kbus_users_lock);
	last = !--user->refs;
	if (last)
		hash_del(&user->node);
	spin_unlock(&kbus_users_lock);
	if (!last)
		return;
	WARN_ON_ONCE(atomic_read(&user->ksocks) || atomic_read(&user->bindings) ||
		     atomic_long_read(&user->bytes) || atomic_read(&user->snapshots) ||
		     atomic_long_read(&user->snapshot_bytes));
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

/* What is refused is at no time counted: others would take it for want of room. */
bool kbus_user_charge(struct kbus_user *user, size_t bytes)
{
	unsigned long limit = READ_ONCE(kbus_max_user_bytes);
	long used = atomic_long_read(&user->bytes);

	do {
		if (used + bytes > limit)
			return false;
	} while (!atomic_long_try_cmpxchg(&user->bytes, &used, used + bytes));
	return true;
}

void kbus_user_uncharge(struct kbus_user *user, size_t bytes)
{
	atomic_long_sub(bytes, &user->bytes);
	/* Pairs with kbus_wait_has_room(): one of the two sees what the other did. */
	smp_mb__after_atomic();
	if (READ_ONCE(user->starved)) {
		WRITE_ONCE(user->starved, false);
		kbus_wait_kick();
	}
}

size_t kbus_user_bytes_left(struct kbus_user *user)
{
	unsigned long limit = READ_ONCE(kbus_max_user_bytes);
	unsigned long used = atomic_long_read(&user->bytes);

	return used < limit ? limit - used : 0;
}
