// SPDX-License-Identifier: GPL-2.0
/*
 * The table of bindings against a slow and obvious search: semantics, rules 3,
 * 6, 7 and 9.
 */
#include <kunit/test.h>
#include <linux/random.h>

#include "../kbus.h"

#define KBUS_TEST_KSOCKS	3
#define KBUS_TEST_BINDINGS	40
#define KBUS_TEST_ROUNDS	2000

struct kbus_bindings_test {
	struct kbus_dev dev;
	struct kbus_ksock ks[KBUS_TEST_KSOCKS];
	unsigned long max_user_bytes;
};

static const char * const kbus_test_patterns[] = {
	"$.*", "$.%", "$.a", "$.a.*", "$.a.%", "$.a.b", "$.a.b.*", "$.a.b.%", "$.a.b.c",
	"$.aa", "$.aa.*", "$.b.*", "$.b.a.%", "$.a.bb.*",
};

static const char * const kbus_test_names[] = {
	"$.a", "$.b", "$.aa", "$.a.b", "$.a.bb", "$.a.b.c", "$.a.b.c.d", "$.b.a", "$.b.a.c",
	"$.c", "$.aa.b", "$.a.bb.a",
};

/* Does a message of this name reach that binding? */
static bool kbus_test_matches(const char *pattern, const char *name)
{
	size_t prefix = strlen(pattern) - 1;

	if (pattern[prefix] != '*' && pattern[prefix] != '%')
		return !strcmp(pattern, name);
	if (strncmp(pattern, name, prefix) || !name[prefix])
		return false;
	return pattern[prefix] == '*' || !strchr(name + prefix, '.');
}

static void kbus_bindings_test_pairs(struct kunit *test)
{
	int i, j;

	for (i = 0; i < ARRAY_SIZE(kbus_test_patterns); i++) {
		const char *pattern = kbus_test_patterns[i];

		for (j = 0; j < ARRAY_SIZE(kbus_test_names); j++) {
			const char *name = kbus_test_names[j];

			KUNIT_EXPECT_EQ_MSG(test, kbus_name_matches(pattern, strlen(pattern),
								    name, strlen(name)),
					    kbus_test_matches(pattern, name), "%s %s",
					    pattern, name);
		}
	}
}

/* Which of two patterns that match is the more specific one? */
static bool kbus_test_is_more_specific(const char *a, const char *b)
{
	char last_a = a[strlen(a) - 1], last_b = b[strlen(b) - 1];

	if (last_a == '*' && last_b == '*')
		return strlen(a) > strlen(b);
	if (last_a == '*' || last_b == '*')
		return last_b == '*';
	return last_b == '%';
}

static int kbus_bindings_test_init(struct kunit *test)
{
	struct kbus_bindings_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->max_user_bytes = kbus_max_user_bytes;
	kbus_max_user_bytes = ULONG_MAX;
	spin_lock_init(&t->dev.lock);
	KUNIT_ASSERT_EQ(test, kbus_bindings_init(&t->dev), 0);
	for (i = 0; i < KBUS_TEST_KSOCKS; i++) {
		t->ks[i].dev = &t->dev;
		t->ks[i].id = i + 1;
		t->ks[i].user = kbus_user_get_current();
		KUNIT_ASSERT_NOT_NULL(test, t->ks[i].user);
		INIT_LIST_HEAD(&t->ks[i].bindings);
	}
	test->priv = t;
	return 0;
}

static void kbus_test_unbind(struct kbus_binding *b)
{
	struct kbus_dev *dev = b->ks->dev;

	mutex_lock(&dev->bind_lock);
	spin_lock(&dev->lock);
	kbus_binding_unlink(b);
	spin_unlock(&dev->lock);
	mutex_unlock(&dev->bind_lock);
	kbus_binding_free(b);
}

static void kbus_bindings_test_exit(struct kunit *test)
{
	struct kbus_bindings_test *t = test->priv;
	struct kbus_binding *b, *next;
	int i;

	list_for_each_entry_safe(b, next, &t->dev.bindings, by_device)
		kbus_test_unbind(b);
	for (i = 0; i < KBUS_TEST_KSOCKS; i++)
		kbus_user_put(t->ks[i].user);
	kbus_bindings_destroy(&t->dev);
	kbus_max_user_bytes = t->max_user_bytes;
}

/* Bind, as BIND does; return NULL if the name has a replier. */
static struct kbus_binding *kbus_test_bind(struct kunit *test, struct kbus_ksock *ks,
					   const char *pattern, u32 kind)
{
	size_t len = strlen(pattern);
	struct kbus_binding *b;
	struct kbus_name *name;
	int err;

	b = kbus_binding_new(ks, pattern, len, kind);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, b);
	mutex_lock(&ks->dev->bind_lock);
	name = kbus_name_find(ks->dev, pattern, len);
	err = kind == KBUS_BIND_REPLIER && name && name->replier ? -EADDRINUSE : 0;
	spin_lock(&ks->dev->lock);
	if (!err)
		err = kbus_binding_count(b, name) ?: kbus_binding_link(b);
	spin_unlock(&ks->dev->lock);
	mutex_unlock(&ks->dev->bind_lock);
	if (!err)
		return b;
	kbus_binding_free(b);
	KUNIT_ASSERT_EQ(test, err, -EADDRINUSE);
	return NULL;
}

/* Compare what the table finds for a name with what going through all finds. */
static void kbus_test_compare(struct kunit *test, struct kbus_dev *dev, const char *name)
{
	struct kbus_binding *b, *slow_replier = NULL, *replier;
	int listeners = 0, slow_listeners = 0;
	struct kbus_name *match, *last = NULL;

	spin_lock(&dev->lock);
	match = kbus_name_match(dev, name, strlen(name));
	replier = kbus_match_replier(match);
	for (; match; last = match, match = match->next_match) {
		KUNIT_EXPECT_TRUE(test, kbus_test_matches(match->name, name));
		if (last)
			KUNIT_EXPECT_TRUE(test, kbus_test_is_more_specific(last->name,
									   match->name));
		list_for_each_entry(b, &match->listeners, by_name)
			listeners++;
	}
	list_for_each_entry(b, &dev->bindings, by_device) {
		if (!kbus_test_matches(b->name->name, name))
			continue;
		if (b->kind != KBUS_BIND_REPLIER)
			slow_listeners++;
		else if (!slow_replier || kbus_test_is_more_specific(b->name->name,
								     slow_replier->name->name))
			slow_replier = b;
	}
	spin_unlock(&dev->lock);
	KUNIT_EXPECT_EQ(test, listeners, slow_listeners);
	KUNIT_EXPECT_PTR_EQ(test, replier, slow_replier);
}

/* The newest binding of a kind, found by going through all, as they are in order */
static struct kbus_binding *kbus_test_find(struct kbus_ksock *ks, const char *pattern,
					   u32 kind)
{
	struct kbus_binding *b;

	list_for_each_entry(b, &ks->dev->bindings, by_device) {
		if (b->ks == ks && b->kind == kind &&
		    !strcmp(b->name->name, pattern))
			return b;
	}
	return NULL;
}

static u32 kbus_test_count_listening(struct kbus_ksock *ks)
{
	struct kbus_binding *b;
	u32 count = 0;

	list_for_each_entry(b, &ks->bindings, by_ksock)
		count += b->kind != KBUS_BIND_REPLIER;
	return count;
}

static void kbus_bindings_test_random(struct kunit *test)
{
	struct kbus_bindings_test *t = test->priv;
	struct rnd_state random;
	int round, i;

	prandom_seed_state(&random, 2026);
	for (round = 0; round < KBUS_TEST_ROUNDS; round++) {
		u32 r = prandom_u32_state(&random);
		struct kbus_ksock *ks = &t->ks[r % KBUS_TEST_KSOCKS];
		u32 kind = (r >> 8) % 3 ? KBUS_BIND_LISTENER : KBUS_BIND_REPLIER;
		const char *pattern;
		struct kbus_binding *b;

		pattern = kbus_test_patterns[(r >> 16) % ARRAY_SIZE(kbus_test_patterns)];
		mutex_lock(&t->dev.bind_lock);
		b = kbus_binding_find(ks, pattern, strlen(pattern), kind);
		mutex_unlock(&t->dev.bind_lock);
		KUNIT_EXPECT_PTR_EQ(test, b, kbus_test_find(ks, pattern, kind));
		if (t->dev.nr_bindings < KBUS_TEST_BINDINGS && r & BIT(12))
			kbus_test_bind(test, ks, pattern, kind);
		else if (b)
			kbus_test_unbind(b);
		KUNIT_EXPECT_EQ(test, ks->nr_listening, kbus_test_count_listening(ks));
		for (i = 0; i < ARRAY_SIZE(kbus_test_names); i++)
			kbus_test_compare(test, &t->dev, kbus_test_names[i]);
	}
	KUNIT_EXPECT_GT(test, t->dev.nr_bindings, 0);
}

static void kbus_bindings_test_observers(struct kunit *test)
{
	static const char pattern[] = "$.*";
	struct kbus_bindings_test *t = test->priv;
	struct kbus_ksock *ks = &t->ks[0];
	struct kbus_binding *b;
	int i;

	/* What a KSock is, the binding says that it makes when it has none. */
	for (i = 0; i < 4; i++) {
		b = kbus_test_bind(test, ks, pattern,
				   i % 2 ? KBUS_BIND_OBSERVER : KBUS_BIND_LISTENER);
		KUNIT_EXPECT_EQ(test, ks->nr_listening, 1);
		KUNIT_EXPECT_EQ(test, ks->observes, i % 2);
		kbus_test_unbind(b);
		KUNIT_EXPECT_EQ(test, ks->nr_listening, 0);
	}
}

static void kbus_bindings_test_longest_name(struct kunit *test)
{
	struct kbus_bindings_test *t = test->priv;
	char *name = kunit_kzalloc(test, KBUS_MAX_NAME_LEN + 1, GFP_KERNEL);
	struct kbus_name *match;
	int i, matches = 0;

	/* As many words as a name can have, and a binding for each beginning */
	KUNIT_ASSERT_NOT_NULL(test, name);
	name[0] = '$';
	for (i = 1; i < KBUS_MAX_NAME_LEN - 1; i += 2) {
		memcpy(name + i, ".*", 3);
		kbus_test_bind(test, &t->ks[0], name, KBUS_BIND_LISTENER);
		name[i + 1] = 'x';
	}
	spin_lock(&t->dev.lock);
	match = kbus_name_match(&t->dev, name, strlen(name));
	for (; match; match = match->next_match)
		matches++;
	spin_unlock(&t->dev.lock);
	KUNIT_EXPECT_EQ(test, matches, (KBUS_MAX_NAME_LEN - 1) / 2);
}

static struct kunit_case kbus_bindings_test_cases[] = {
	KUNIT_CASE(kbus_bindings_test_pairs),
	KUNIT_CASE(kbus_bindings_test_random),
	KUNIT_CASE(kbus_bindings_test_observers),
	KUNIT_CASE(kbus_bindings_test_longest_name),
	{}
};

static struct kunit_suite kbus_bindings_test_suite = {
	.name = "kbus_bindings",
	.init = kbus_bindings_test_init,
	.exit = kbus_bindings_test_exit,
	.test_cases = kbus_bindings_test_cases,
};

kunit_test_suite(kbus_bindings_test_suite);
