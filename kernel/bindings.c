// SPDX-License-Identifier: GPL-2.0
/*
 * Who is bound to what.
 *
 * Names that somebody is bound to are in a hash table, wildcards by the words
 * before the wildcard. So a message's name of n words is looked up n + 2 times,
 * however many bindings there are. The hashes of all the beginnings of a name
 * come from one pass over it, for which the device's lock is not held if it is long.
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

/* Hash one more word, or a wildcard, of a name whose beginning has @hash. */
static u32 kbus_name_hash_word(u32 hash, const char *word, size_t len)
{
	return jhash(word, len, hash);
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
u32 kbus_name_hash(struct kbus_dev *dev, const char *name, size_t len)
{
	const char *end = name + len, *word = name + 2;
	u32 hash = dev->hash_seed;

	while (word < end) {
		size_t word_len = kbus_name_word_len(word, end);

		hash = kbus_name_hash_word(hash, word, word_len);
		word += word_len + 1;
	}
	return hash;
}

/* The name itself, a wildcard standing for nothing but itself, or NULL */
struct kbus_name *kbus_name_find(struct kbus_dev *dev, const char *name, size_t len,
				 u32 hash)
{
	const char wildcard = kbus_name_wildcard(name, len);

	lockdep_assert_held(&dev->lock);
	return kbus_name_look_up(dev, &(struct kbus_name_key) {
		.start = name, .len = len - (wildcard ? 1 : 0),
		.wildcard = wildcard, .hash = hash,
	});
}

/* Take a name to pieces; @room is for as many as there are, and one more. */
static void kbus_words_set(struct kbus_words *words, struct kbus_word *room,
			   struct kbus_dev *dev, const char *name, size_t len)
{
	const char *end = name + len, *word = name + 2;
	u32 hash = dev->hash_seed;

	words->name = name;
	words->len = len;
	words->word = room;
	for (words->count = 0; word < end; words->count++) {
		size_t word_len = kbus_name_word_len(word, end);

		*room++ = (struct kbus_word) { .begin = word - name, .hash = hash };
		hash = kbus_name_hash_word(hash, word, word_len);
		word += word_len + 1;
	}
	room->hash = hash;
}

/**
 * kbus_words_new() - take a name to pieces, for kbus_words_match()
 * @words: what is filled in; ends with kbus_words_free(), whatever is returned
 * @dev: the device
 * @name: a legal name without a wildcard, which stays where it is
 * @len: its length
 *
 * Return: 0 or -ENOMEM.
 */
int kbus_words_new(struct kbus_words *words, struct kbus_dev *dev, const char *name,
		   size_t len)
{
	struct kbus_word *room = kmalloc_array(kbus_name_count_words(name, len) + 1,
					       sizeof(*room), KBUS_GFP);

	words->word = room;
	if (!room)
		return -ENOMEM;
	kbus_words_set(words, room, dev, name, len);
	return 0;
}

/* The bound name that is the first so many words and a wildcard, or NULL */
static struct kbus_name *kbus_words_look_up(struct kbus_dev *dev,
					    const struct kbus_words *words, u32 count,
					    char wildcard)
{
	const struct kbus_word *next = &words->word[count];

	return kbus_name_look_up(dev, &(struct kbus_name_key) {
		.start = words->name, .len = next->begin, .wildcard = wildcard,
		.hash = kbus_name_hash_word(next->hash, &wildcard, 1),
	});
}

/* Put a name, if there is one, before those that it is more specific than. */
static struct kbus_name *kbus_name_before(struct kbus_name *name, struct kbus_name *others)
{
	if (!name)
		return others;
	name->next_match = others;
	return name;
}

/**
 * kbus_words_match() - find all the bound names that a message's name matches
 * @dev: the device, whose lock is held until the list is no longer used
 * @words: the message's name
 *
 * Return: the first and most specific of them, with the others by next_match in
 * the order in which a Request looks for its replier.
 */
struct kbus_name *kbus_words_match(struct kbus_dev *dev, const struct kbus_words *words)
{
	struct kbus_name *first = NULL;
	u32 i;

	lockdep_assert_held(&dev->lock);
	for (i = 0; i < words->count; i++) {
		if (!dev->wildcards[i])
			continue;
		first = kbus_name_before(kbus_words_look_up(dev, words, i, '*'), first);
		if (i == words->count - 1)
			first = kbus_name_before(kbus_words_look_up(dev, words, i, '%'), first);
	}
	return kbus_name_before(kbus_name_look_up(dev, &(struct kbus_name_key) {
		.start = words->name, .len = words->len, .hash = words->word[i].hash,
	}), first);
}

/* The same for a name of at most KBUS_ROUTE_NAME bytes, which takes no memory */
struct kbus_name *kbus_name_match(struct kbus_dev *dev, const char *name, size_t len)
{
	struct kbus_word room[KBUS_ROUTE_NAME / 2];
	struct kbus_words words;

	kbus_words_set(&words, room, dev, name, len);
	return kbus_words_match(dev, &words);
}

static u32 kbus_route_words(u32 len)
{
	return DIV_ROUND_UP(len, sizeof(u32));
}

/* Does the route lead where a message goes whose name, its padding checked, is this? */
bool kbus_route_is_for(const struct kbus_route *route, const char *name, u32 len)
{
	const u32 *words = (const u32 *)name;
	u32 i;

	if (!len || len != route->len)
		return false;
	for (i = 0; i < kbus_route_words(len); i++) {
		if (words[i] != route->name[i])
			return false;
	}
	return true;
}

/* From now on the route is that of a name, unless that is too long for it. */
bool kbus_route_set(struct kbus_route *route, const char *name, u32 len)
{
	if (len > sizeof(route->name))
		return false;
	route->at = 0;
	route->len = len;
	memcpy(route->name, name, kbus_route_words(len) * sizeof(u32));
	return true;
}

/**
 * kbus_route_match() - kbus_name_match(), for the price of a comparison if nothing
 *	has changed since the last time
 * @dev: the device, whose lock is held
 * @route: the route
 *
 * The other names that a message's name matches follow from the first of them,
 * so that their next_match is still right.
 *
 * Return: what kbus_name_match() does.
 */
struct kbus_name *kbus_route_match(struct kbus_dev *dev, struct kbus_route *route)
{
	lockdep_assert_held(&dev->lock);
	if (route->at != dev->bindings_changed) {
		route->match = kbus_name_match(dev, (const char *)route->name, route->len);
		route->at = dev->bindings_changed;
	}
	return route->match;
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

void kbus_name_put(struct kbus_name *name)
{
	if (refcount_dec_and_test(&name->refs))
		kfree(name);
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

static size_t kbus_binding_cost(const struct kbus_binding *b)
{
	size_t cost = kmalloc_size_roundup(sizeof(*b)) +
		kmalloc_size_roundup(struct_size(b->name, name, b->name->len + 1));

	if (b->unbind_event)
		cost += b->unbind_event->cost;
	return cost;
}

/*
 * Is the binding one that messages of other names cost something? They all get a copy for
 * an L wildcard, and are looked up for each number of words that wildcards have.
 */
static bool kbus_binding_is_wide(const struct kbus_binding *b)
{
	return b->name->wildcard && (!b->is_replier ||
		kbus_name_count_words(b->name->name, b->name->len) > KBUS_USUAL_WORDS);
}

/**
 * kbus_binding_new() - make a binding that is not in force yet
 * @ks: who binds
 * @name: a legal name
 * @len: its length
 * @is_replier: R, not L
 *
 * Return: the binding, ERR_PTR(-ENOBUFS) or ERR_PTR(-ENOMEM).
 */
struct kbus_binding *kbus_binding_new(struct kbus_ksock *ks, const char *name,
				      size_t len, bool is_replier)
{
	struct kbus_binding *b = kzalloc(sizeof(*b), KBUS_GFP);

	if (!b)
		return ERR_PTR(-ENOMEM);
	b->ks = ks;
	b->is_replier = is_replier;
	INIT_LIST_HEAD(&b->by_name);
	INIT_LIST_HEAD(&b->items);
	b->name = kbus_name_new(ks->dev, name, len);
	if (!b->name)
		goto free;
	if (is_replier) {
		b->unbind_event = kbus_event_new(false, ks, name, len);
		if (!b->unbind_event)
			goto put_name;
	}
	if (kbus_user_charge(ks->user, kbus_binding_cost(b)))
		return b;

	kbus_msg_put(b->unbind_event);
	kbus_name_put(b->name);
	kfree(b);
	return ERR_PTR(-ENOBUFS);
put_name:
	kbus_name_put(b->name);
free:
	kfree(b);
	return ERR_PTR(-ENOMEM);
}

/* Free a binding that is not in force any more, or never was. */
void kbus_binding_free(struct kbus_binding *b)
{
	if (!b)
		return;
	if (b->is_counted)
		atomic_dec(&b->ks->user->bindings);
	if (b->is_counted && kbus_binding_is_wide(b))
		atomic_dec(&b->ks->user->wide);
	kbus_user_uncharge(b->ks->user, kbus_binding_cost(b));
	kbus_msg_put(b->unbind_event);
	kbus_name_put(b->name);
	kfree(b);
}

/*
 * May this binding be made, to @name if that is not new? All the L bindings of a
 * user that match a message get a copy of it, while everybody else on the device
 * waits. These are those to its name, and some of those that are wide.
 */
static bool kbus_binding_is_one_too_many(const struct kbus_binding *b,
					 const struct kbus_name *name)
{
	const unsigned int limit = READ_ONCE(kbus_max_name_bindings);
	const struct kbus_user *user = b->ks->user;
	const struct kbus_binding *other;
	unsigned int count = 0;

	if (kbus_binding_is_wide(b)) {
		count = atomic_read(&user->wide);
	} else if (name && !b->is_replier) {
		list_for_each_entry(other, &name->listeners, by_name) {
			count += other->ks->user == user;
			if (count >= limit)
				break;
		}
	}
	return count >= limit && !capable(CAP_SYS_RESOURCE);
}

/* Count the binding, which is to @name if that is not new, or return -ENOSPC. */
int kbus_binding_count(struct kbus_binding *b, const struct kbus_name *name)
{
	struct kbus_ksock *ks = b->ks;

	lockdep_assert_held(&ks->dev->lock);
	if (b->is_counted)
		return 0;
	if (kbus_binding_is_one_too_many(b, name))
		return -ENOSPC;
	if (ks->nr_bindings >= READ_ONCE(kbus_max_ksock_bindings) ||
	    !kbus_user_count(&ks->user->bindings, READ_ONCE(kbus_max_user_bindings)))
		return -ENOSPC;
	b->is_counted = true;
	if (kbus_binding_is_wide(b))
		atomic_inc(&ks->user->wide);
	return 0;
}

static u32 kbus_binding_kind(const struct kbus_binding *b)
{
	if (b->is_replier)
		return KBUS_BIND_REPLIER;
	return b->is_observer ? KBUS_BIND_OBSERVER : KBUS_BIND_LISTENER;
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

	lockdep_assert_held(&dev->lock);
	name = kbus_name_find(dev, b->name->name, b->name->len, b->name->hash);
	if (name) {
		refcount_inc(&name->refs);
		kbus_name_put(b->name);
		b->name = name;
	} else if (rhashtable_insert_fast(&dev->names, &b->name->by_hash,
					  kbus_name_params)) {
		return -ENOMEM;
	} else if (b->name->wildcard) {
		dev->wildcards[kbus_name_count_words(b->name->name, b->name->len) - 1]++;
	}

	if (b->is_replier) {
		b->name->replier = b;
	} else {
		list_add(&b->by_name, &b->name->listeners);
		ks->nr_listening++;
		WRITE_ONCE(ks->observes, b->is_observer);
	}
	b->serial = ++dev->last_binding;
	list_add(&b->by_ksock, &ks->bindings);
	ks->nr_bindings++;
	list_add(&b->by_device, &dev->bindings);
	dev->nr_bindings++;
	WRITE_ONCE(dev->bindings_changed, dev->bindings_changed + 1);
	trace_bind(dev->index, ks->id, true, kbus_binding_kind(b), 0, b->name->name,
		   b->name->len);
	return 0;
}

void kbus_binding_unlink(struct kbus_binding *b)
{
	struct kbus_dev *dev = b->ks->dev;

	lockdep_assert_held(&dev->lock);
	if (b->is_replier) {
		b->name->replier = NULL;
	} else {
		list_del_init(&b->by_name);
		b->ks->nr_listening--;
	}
	if (!b->name->replier && list_empty(&b->name->listeners)) {
		rhashtable_remove_fast(&dev->names, &b->name->by_hash, kbus_name_params);
		if (b->name->wildcard)
			dev->wildcards[kbus_name_count_words(b->name->name, b->name->len) - 1]--;
	}
	list_del(&b->by_ksock);
	b->ks->nr_bindings--;
	list_del(&b->by_device);
	dev->nr_bindings--;
	WRITE_ONCE(dev->bindings_changed, dev->bindings_changed + 1);
	trace_bind(dev->index, b->ks->id, false, kbus_binding_kind(b), 0, b->name->name,
		   b->name->len);
}

/* The newest binding that this KSock has made of this name and kind, or NULL */
struct kbus_binding *kbus_binding_find(struct kbus_ksock *ks, const char *start,
				       size_t len, u32 hash, bool is_replier)
{
	struct kbus_name *name = kbus_name_find(ks->dev, start, len, hash);
	struct list_head *by_name, *by_ksock;

	if (!name)
		return NULL;
	if (is_replier)
		return name->replier && name->replier->ks == ks ? name->replier : NULL;

	/* Both lists have the newest first; the shorter one decides what it costs. */
	by_name = name->listeners.next;
	by_ksock = ks->bindings.next;
	while (by_name != &name->listeners && by_ksock != &ks->bindings) {
		struct kbus_binding *b = list_entry(by_name, struct kbus_binding, by_name);

		if (b->ks == ks)
			return b;
		b = list_entry(by_ksock, struct kbus_binding, by_ksock);
		if (b->name == name && !b->is_replier)
			return b;
		by_name = by_name->next;
		by_ksock = by_ksock->next;
	}
	return NULL;
}
