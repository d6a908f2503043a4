// SPDX-License-Identifier: GPL-2.0
/*
 * The syntax of names: semantics, rules 1 to 3 and 5.
 */
#include <kunit/test.h>

#include "../kbus.h"

static void kbus_name_test_legal(struct kunit *test)
{
	static const char * const names[] = {
		"$.a", "$.A", "$.0", "$.*", "$.%", "$.Fred", "$.Fred.Jim.Bob", "$.Fred.*",
		"$.Fred.%", "$.1.2.3", "$.KBUS.Replier.GoneAway",
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		KUNIT_EXPECT_EQ_MSG(test, kbus_name_check(names[i], strlen(names[i])), 0,
				    "%s", names[i]);
}

static void kbus_name_test_illegal(struct kunit *test)
{
	static const char * const names[] = {
		"", "$", "$.", "a", "Fred", ".Fred", "$Fred", "$..", "$..Fred", "$.Fred.",
		"$.Fred..Jim", "$.Fred.*.Jim", "$.%.Jim", "$.Fred*", "$.*Fred", "$.**", "$.*.",
		"$.Fred Jim", "$.Fred_Jim", "$.Fred-Jim", "$.Fred/Jim", " $.Fred", "$.Fr\xe9",
		"$.$", "$.$.Fred", "$,Fred",
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		KUNIT_EXPECT_EQ_MSG(test, kbus_name_check(names[i], strlen(names[i])),
				    -EBADMSG, "%s", names[i]);
	KUNIT_EXPECT_EQ(test, kbus_name_check("$.a\0b", 5), -EBADMSG);
}

static void kbus_name_test_length(struct kunit *test)
{
	char *name = kunit_kzalloc(test, KBUS_MAX_NAME_LEN + 1, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, name);
	memset(name, 'x', KBUS_MAX_NAME_LEN + 1);
	memcpy(name, "$.", 2);
	KUNIT_EXPECT_EQ(test, kbus_name_check(name, KBUS_MAX_NAME_LEN), 0);
	KUNIT_EXPECT_EQ(test, kbus_name_check(name, KBUS_MAX_NAME_LEN + 1), -ENAMETOOLONG);
}

/* Is a string of the alphabet below a name? Said as the specification says it. */
static bool kbus_name_test_slow(const char *name, int len)
{
	int i = 2;

	if (len < 2 || name[0] != '$' || name[1] != '.')
		return false;
	for (;;) {
		int word = i;

		if (i == len - 1 && (name[i] == '*' || name[i] == '%'))
			return true;
		while (i < len && name[i] == 'a')
			i++;
		if (i == word)
			return false;
		if (i == len)
			return true;
		if (name[i++] != '.')
			return false;
	}
}

/* All strings of up to seven of six bytes */
static void kbus_name_test_all(struct kunit *test)
{
	static const char alphabet[] = "$.a*%-";
	int len, i, rest, count, legal = 0;
	char name[7];

	for (len = 0, count = 1; len <= 7; len++, count *= 6) {
		int n;

		for (n = 0; n < count; n++) {
			bool expected;

			for (i = 0, rest = n; i < len; i++, rest /= 6)
				name[i] = alphabet[rest % 6];
			expected = kbus_name_test_slow(name, len);
			legal += expected;
			if ((kbus_name_check(name, len) == 0) != expected)
				KUNIT_FAIL(test, "%.*s", len, name);
		}
	}
	KUNIT_EXPECT_GT(test, legal, 0);
}

static void kbus_name_test_wildcard(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kbus_name_wildcard("$.a", 3), 0);
	KUNIT_EXPECT_EQ(test, kbus_name_wildcard("$.*", 3), '*');
	KUNIT_EXPECT_EQ(test, kbus_name_wildcard("$.a.%", 5), '%');
}

static void kbus_name_test_kbus(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, kbus_name_is_kbus("$.KBUS.a", 8));
	KUNIT_EXPECT_FALSE(test, kbus_name_is_kbus("$.KBUS", 6));
	KUNIT_EXPECT_FALSE(test, kbus_name_is_kbus("$.KBUSa.b", 9));
	KUNIT_EXPECT_FALSE(test, kbus_name_is_kbus("$.kbus.a", 8));
}

static struct kunit_case kbus_name_test_cases[] = {
	KUNIT_CASE(kbus_name_test_legal),
	KUNIT_CASE(kbus_name_test_illegal),
	KUNIT_CASE(kbus_name_test_length),
	KUNIT_CASE(kbus_name_test_all),
	KUNIT_CASE(kbus_name_test_wildcard),
	KUNIT_CASE(kbus_name_test_kbus),
	{}
};

static struct kunit_suite kbus_name_test_suite = {
	.name = "kbus_name",
	.test_cases = kbus_name_test_cases,
};

kunit_test_suite(kbus_name_test_suite);
