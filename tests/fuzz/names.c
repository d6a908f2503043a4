// SPDX-License-Identifier: MIT
/*
 * Message names: few, so that senders, listeners and repliers meet, wildcards
 * over them, those of KBUS itself, and then all that is no name.
 */
#include <string.h>

#include "fuzz.h"

#define LONGEST	KBUS_MAX_NAME_LEN

static const char * const names[] = {
	/* NAMES_GOOD of them */
	"$.a", "$.a.b", "$.a.b.c", "$.a.b.d", "$.b.c",
	"$.a.%", "$.a.*", "$.a.b.*", "$.%", "$.*",
	KBUS_NAME_REPLIER_BIND_EVENT, "$.KBUS.*", "$.KBUS.Replier.%", KBUS_NAME_MESSAGES_LOST,
	/* and the others */
	"", "$", "$.", "a", "$a", "$..a", "$.a.", "$.a..b", "$.*.a", "$.a.%.b", "$.a.b*", "$.a-b",
	"$.a b", "$.\xc3\xa4", "$.**", "$.%%", "$.a\n", "*", "%", "$.KBUS", "$.KBUS.",
	KBUS_NAME_REPLIER_GONEAWAY, KBUS_NAME_REPLIER_IGNORED, KBUS_NAME_REPLIER_UNBOUND,
	KBUS_NAME_REPLIER_NOROOM, KBUS_NAME_UNBIND_EVENTS_LOST,
};

/* And three that are made: as long as can be, with a wildcard, and too long */
const unsigned int name_count = ARRAY_SIZE(names) + 3;

struct name name_get(uint32_t which)
{
	static _Thread_local char bytes[LONGEST + 1];

	which %= name_count;
	if (which < ARRAY_SIZE(names))
		return (struct name) { names[which], strlen(names[which]) };

	which -= ARRAY_SIZE(names);
	memset(bytes, 'x', sizeof(bytes));
	memcpy(bytes, "$.a.", 4);
	if (which == 1)
		memcpy(bytes + LONGEST - 2, ".*", 2);
	return (struct name) { bytes, which == 2 ? LONGEST + 1 : LONGEST };
}
