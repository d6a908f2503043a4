// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints, and how the names of messages get into them.
 */
#include <linux/ctype.h>

#include "kbus.h"

/* Names of messages that were refused may be any bytes, which are not for terminals. */
static void kbus_trace_copy_name(char *to, const char *name, u32 len)
{
	while (len--) {
		*to++ = isascii(*name) && isgraph(*name) ? *name : '?';
		name++;
	}
	*to = '\0';
}

static u32 kbus_trace_name_len(const struct kbus_message_header *hdr)
{
	return hdr ? hdr->name_len : 0;
}

static void kbus_trace_copy_msg_name(char *to, const struct kbus_message_header *hdr)
{
	const char *name = hdr ? (const char *)hdr + kbus_msg_name_offset(hdr) : NULL;

	kbus_trace_copy_name(to, name, kbus_trace_name_len(hdr));
}

#define CREATE_TRACE_POINTS
#include "trace.h"
