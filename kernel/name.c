// SPDX-License-Identifier: GPL-2.0
/*
 * The syntax of message names: "$." and words of ASCII letters and digits,
 * joined by dots, of which the last may be '*' or '%' instead.
 */
#include <linux/errno.h>
#include <linux/string.h>

#include "kbus.h"

/* Not isalnum(), which takes letters beyond ASCII too */
static bool kbus_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int kbus_name_check(const char *name, size_t len)
{
	bool in_word = false;
	size_t i;

	if (len > KBUS_MAX_NAME_LEN)
		return -ENAMETOOLONG;
	if (len < KBUS_MIN_NAME_LEN || name[0] != '$' || name[1] != '.')
		return -EBADMSG;

	for (i = 2; i < len; i++) {
		if (kbus_name_char(name[i])) {
			in_word = true;
		} else if (name[i] == '.' && in_word) {
			in_word = false;
		} else {
			if ((name[i] == '*' || name[i] == '%') && !in_word && i == len - 1)
				return 0;
			return -EBADMSG;
		}
	}
	return in_word ? 0 : -EBADMSG;
}

/* What a legal name ends with, if that is a wildcard, else 0 */
char kbus_name_wildcard(const char *name, size_t len)
{
	char last = name[len - 1];

	return last == '*' || last == '%' ? last : 0;
}

/* Does a binding to one name bring messages of the other? */
bool kbus_name_matches(const char *bound, size_t bound_len, const char *name, size_t len)
{
	const char wildcard = kbus_name_wildcard(bound, bound_len);

	if (!wildcard)
		return len == bound_len && !memcmp(name, bound, len);
	/* A wildcard stands for one character at least. */
	if (len < bound_len || memcmp(name, bound, bound_len - 1))
		return false;
	return wildcard == '*' || !memchr(name + bound_len - 1, '.', len - bound_len + 1);
}

/* Is the name one of those that only KBUS may send to? */
bool kbus_name_is_kbus(const char *name, size_t len)
{
	static const char prefix[] = "$.KBUS.";

	return len >= sizeof(prefix) - 1 && !memcmp(name, prefix, sizeof(prefix) - 1);
}
