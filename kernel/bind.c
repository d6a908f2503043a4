// SPDX-License-Identifier: GPL-2.0
/*
 * Who is bound to what.
 *
 * Names that somebody is bound to are in a hash table, wildcards by the words
 * before the wildcard. So a message's name of n words is looked up n + 2 times at
 * most, however many bindings there are. The hashes of all the beginnings of a name
 * come from one pass over it.
 */
#include <linux/capability.h>
#include <linux/jhash.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "kbus.h"
#include "trace.h"

/* The part of a name before its wildcard, if it has one, and which one that is */
struct kbus_name_key {
	const char *start;
	size_t len;
	char wildcard;
	u32 hash;
};

static u32 kbus_name_key_hash(const void *data, u32 len, u32 seed)
{
	const struct kbus_name_key *key = data;

	return key->hash ^ seed;
}

static u32 kbus_name_obj_hash(const void *data, u32 len, u32 seed)
{
	const struct kbus_name *name = data;

	return name->hash ^ seed;
}

static int kbus_name_cmp(struct rhashtable_compare_arg *arg, const void *obj)
{
	const struct kbus_name_key *key = arg->key;
	const struct kbus_name *name = obj;
	size_t len = name->len - (name->wildcard ? 1 : 0);

	return key->wildcard != name->wildcard || key->len != len ||
		memcmp(key->start, name->name, len);
}

static const struct rhashtable_params kbus_name_params = {
	.head_offset = offsetof(struct kbus_name, by_hash),
	.hashfn = kbus_name_key_hash,
	.obj_hashfn = kbus_name_obj_hash,
	.obj_cmpfn = kbus_name_cmp,
	.automatic_shrinking = true,
};

int kbus_bindings_init(struct kbus_dev *dev)
{
	mutex_init(&dev->bind_lock);
	INIT_LIST_HEAD(&dev->bindings);
	dev->bindings_changed = 1;
	dev->hash_seed = get_random_u32();
	return rhashtable_init(&dev->names, &kbus_name_params);
}

void kbus_bindings_destroy(struct kbus_dev *dev)
{
	WARN_ON_ONCE(dev->nr_bindings);
	rhashtable_destroy(&dev->names);
}

static size_t kbus_name_word_len(const char *word, const char *end)
{
	const char *dot = memchr(word, '.', end - word);

	return (dot ? dot : end) - word;
}

static unsigned int kbus_name_count_words(const char *name, size_t len)
{
	unsigned int words = 0;

	while (len--)
		words += name[len] == '.';
	return words;
}

static struct kbus_name *kbus_name_look_up(struct kbus_dev *dev,
					   const struct kbus_name_key *key)
{
	return rhashtable_lookup_fast(&dev->names, key, kbus_name_params);
}

/* The hash by which a name, or a wildcard standing for nothing but itself, is found */
static u32 kbus_name_hash(struct kbus_dev *dev, const char *name, size_t len)
{
	const char *end = name + len, *word = name + 2;
	u32 hash = dev->hash_seed;

	while (word < end) {
		size_t word_len = kbus_name_word_len(word, end);

		hash = jhash(word, word_len, hash);
		word += word_len + 1;
	}
	return hash;
}

/* The name itself, a wildcard standing for nothing but itself, or NULL */
struct kbus_name *kbus_name_find(struct kbus_dev *dev, const char *name, size_t len)
{
	const char wildcard = kbus_name_wildcard(name, len);

	return kbus_name_look_up(dev, &(struct kbus_name_key) {
		.start = name, .len = len - (wildcard ? 1 : 0), .wildcard = wildcard,
		.hash = kbus_name_hash(dev, name, len),
	});
}

/*
 * Put a name before those that it is more specific than, if there is one that is so many
 * bytes of this one, whose hash is given, and a wildcard.
 */
static struct kbus_name *kbus_name_before(struct kbus_dev *dev, const char *start, size_t len,
					  u32 hash, char wildcard, struct kbus_name *others)
{
	struct kbus_name *name = kbus_name_look_up(dev, &(struct kbus_name_key) {
		.start = start, .len = len, .wildcard = wildcard,
		.hash = wildcard ? jhash(&wildcard, 1, hash) : hash,
	});

	if (!name)
		return others;
	name->next_match = others;
	return name;
}

/**
 * kbus_name_match() - find all the bound names that a message's name matches
 * @dev: the device, whose lock is held until the list is no longer used
 * @name: a legal name without a wildcard
 * @len: its length
 *
 * Return: the first and most specific of them, with the others by next_match in
 * the order in which a Request looks for its replier.
 */
struct kbus_name *kbus_name_match(struct kbus_dev *dev, const char *name, size_t len)
{
	const char *end = name + len, *word, *next;
	struct kbus_name *first = NULL;
	u32 hash = dev->hash_seed, i = 0;

	lockdep_assert_held(&dev->lock);
	for (word = name + 2; word < end; word = next, i++) {
		size_t word_len = kbus_name_word_len(word, end);

		next = word + word_len + 1;
		if (dev->wildcards[i]) {
			first = kbus_name_before(dev, name, word - name, hash, '*', first);
			if (next > end)
				first = kbus_name_before(dev, name, word - name, hash, '%',
							 first);
		}
		hash = jhash(word, word_len, hash);
	}
	return kbus_name_before(dev, name, len, hash, 0, first);
}

/* The R binding that gets a Request whose name has these matches, or NULL */
struct kbus_binding *kbus_match_replier(struct kbus_name *match)
{
	for (; match; match = match->next_match) {
		if (match->replier && !match->replier->ks->closing)
			return match->replier;
	}
	return NULL;
}

static struct kbus_name *kbus_name_new(struct kbus_dev *dev, const char *start, size_t len)
{
	struct kbus_name *name;

	name = kzalloc(struct_size(name, name, len + 1), KBUS_GFP);
	if (!name)
		return NULL;
	refcount_set(&name->refs, 1);
	INIT_LIST_HEAD(&name->listeners);
	memcpy(name->name, start, len);
	name->len = len;
	name->wildcard = kbus_name_wildcard(start, len);
	name->hash = kbus_name_hash(dev, start, len);
	return name;
}

static void kbus_name_put(struct kbus_name *name)
{
	if (refcount_dec_and_test(&name->refs))
		kfree(name);
}

static size_t kbus_binding_cost(const struct kbus_binding *b)
{
	return kbus_memory_cost(sizeof(*b)) +
		kbus_memory_cost(struct_size(b->name, name, b->name->len + 1));
}

/**
 * kbus_binding_new() - make a binding that is not in force yet
 * @ks: who binds
 * @name: a legal name
 * @len: its length
 * @kind: KBUS_BIND_*
 *
 * Return: the binding, ERR_PTR(-ENOBUFS) or ERR_PTR(-ENOMEM).
 */
struct kbus_binding *kbus_binding_new(struct kbus_ksock *ks, const char *name, size_t len,
				      u32 kind)
{
	struct kbus_binding *b = kzalloc(sizeof(*b), KBUS_GFP);
	int err = -ENOMEM;

	if (!b)
		return ERR_PTR(err);
	b->ks = ks;
	b->kind = kind;
	b->name = kbus_name_new(ks->dev, name, len);
	if (b->name)
		err = kbus_user_charge(ks->user, kbus_binding_cost(b)) ? 0 : -ENOBUFS;
	if (!err)
		return b;
	kfree(b->name);
	kfree(b);
	return ERR_PTR(err);
}

/* Free a binding that is not in force any more, or never was. */
void kbus_binding_free(struct kbus_binding *b)
{
	if (b->is_counted)
		atomic_dec(&b->ks->user->bindings);
	kbus_user_uncharge(b->ks->user, kbus_binding_cost(b));
	kbus_msg_put(b->unbind_event);
	kbus_msg_put(b->events_lost);
	kbus_name_put(b->name);
	kfree(b);
}

/*
 * Has the user as many L bindings to this name as one may have? Each brings a copy of a
 * message, while everybody else on the device waits.
 */
static bool kbus_name_has_enough(const struct kbus_name *name, const struct kbus_user *user)
{
	const unsigned int limit = READ_ONCE(kbus_max_name_bindings);
	const struct kbus_binding *b;
	unsigned int count = 0;

	list_for_each_entry(b, &name->listeners, by_name) {
		count += b->ks->user == user;
		if (count >= limit)
			return !capable(CAP_SYS_RESOURCE);
	}
	return false;
}

/* Count the binding, which is to @name if that is not new, or return -ENOSPC. */
int kbus_binding_count(struct kbus_binding *b, const struct kbus_name *name)
{
	struct kbus_ksock *ks = b->ks;

	lockdep_assert_held(&ks->dev->bind_lock);
	if (name && b->kind != KBUS_BIND_REPLIER && kbus_name_has_enough(name, ks->user))
		return -ENOSPC;
	if (ks->nr_bindings >= READ_ONCE(kbus_max_ksock_bindings) ||
	    !kbus_user_count(&ks->user->bindings, READ_ONCE(kbus_max_user_bindings)))
		return -ENOSPC;
	b->is_counted = true;
	return 0;
}

/* How many names are a wildcard after as many words as this one */
static u32 *kbus_name_wildcards(struct kbus_dev *dev, const struct kbus_name *name)
{
	return &dev->wildcards[kbus_name_count_words(name->name, name->len) - 1];
}

/**
 * kbus_binding_link() - put a binding in force
 * @b: which is counted, and whose name, if it is R, has no replier
 *
 * Return: 0 or -ENOMEM.
 */
int kbus_binding_link(struct kbus_binding *b)
{
	struct kbus_ksock *ks = b->ks;
	struct kbus_dev *dev = ks->dev;
	struct kbus_name *name;

	lockdep_assert_held(&dev->bind_lock);
	lockdep_assert_held(&dev->lock);
	name = kbus_name_find(dev, b->name->name, b->name->len);
	if (name) {
		refcount_inc(&name->refs);
		kbus_name_put(b->name);
		b->name = name;
	} else if (rhashtable_insert_fast(&dev->names, &b->name->by_hash,
					  kbus_name_params)) {
		return -ENOMEM;
	} else if (b->name->wildcard) {
		++*kbus_name_wildcards(dev, b->name);
	}

	if (b->kind == KBUS_BIND_REPLIER) {
		b->name->replier = b;
	} else {
		list_add(&b->by_name, &b->name->listeners);
		ks->nr_listening++;
		ks->observes = b->kind == KBUS_BIND_OBSERVER;
	}
	b->serial = ++dev->last_binding;
	list_add(&b->by_ksock, &ks->bindings);
	ks->nr_bindings++;
	list_add(&b->by_device, &dev->bindings);
	dev->nr_bindings++;
	dev->bindings_changed++;
	trace_bind(dev->index, ks->id, true, b->kind, 0, b->name->name, b->name->len);
	return 0;
}

void kbus_binding_unlink(struct kbus_binding *b)
{
	struct kbus_ksock *ks = b->ks;
	struct kbus_dev *dev = ks->dev;

	lockdep_assert_held(&dev->bind_lock);
	lockdep_assert_held(&dev->lock);
	if (b->kind == KBUS_BIND_REPLIER) {
		b->name->replier = NULL;
	} else {
		list_del(&b->by_name);
		ks->nr_listening--;
	}
	if (!b->name->replier && list_empty(&b->name->listeners)) {
		rhashtable_remove_fast(&dev->names, &b->name->by_hash, kbus_name_params);
		if (b->name->wildcard)
			--*kbus_name_wildcards(dev, b->name);
	}
	list_del(&b->by_ksock);
	ks->nr_bindings--;
	list_del(&b->by_device);
	dev->nr_bindings--;
	dev->bindings_changed++;
	trace_bind(dev->index, ks->id, false, b->kind, 0, b->name->name, b->name->len);
}

/* The newest binding that this KSock has made of this name and kind, or NULL */
struct kbus_binding *kbus_binding_find(struct kbus_ksock *ks, const char *start, size_t len,
				       u32 kind)
{
	struct kbus_name *name = kbus_name_find(ks->dev, start, len);
	struct kbus_binding *b;

	lockdep_assert_held(&ks->dev->bind_lock);
	if (!name)
		return NULL;
	if (kind == KBUS_BIND_REPLIER)
		return name->replier && name->replier->ks == ks ? name->replier : NULL;
	list_for_each_entry(b, &name->listeners, by_name) {
		if (b->ks == ks)
			return b->kind == kind ? b : NULL;
	}
	return NULL;
}
