/* SPDX-License-Identifier: MIT */
/* What the arguments of the operation `message` mean. */
#ifndef _KBUS_FUZZ_MESSAGE_H
#define _KBUS_FUZZ_MESSAGE_H

/* The third: what message it is */
enum message_type {
	TYPE_ANNOUNCEMENT,
	TYPE_REQUEST,
	TYPE_REQUEST_TO,		/* with a KSock id in `to` */
	TYPE_REPLY,			/* to the newest Request that was taken here */
	TYPE_REPLY_OLD,			/* to an older one */
	TYPE_REPLY_MADE_UP,		/* to what was not asked here */
	TYPE_FOREIGN,			/* with a network id of its own */
	TYPE_REQUEST_FOREIGN,
	TYPES,
};

#define KIND_URGENT		0x08
#define KIND_ALL_OR_WAIT	0x10
#define KIND_ALL_OR_FAIL	0x20
#define KIND_EXTENDED		0x40
#define KIND_OTHER_FLAGS	0x80	/* KBUS's own, and the users' */
#define KIND_PICK_SHIFT		8	/* which KSock or Request is meant */

/* The fifth: the one thing that is wrong */
enum message_flaw {
	FLAW_NONE,
	FLAW_START_GUARD,
	FLAW_END_GUARD,
	FLAW_NAME_LONGER,
	FLAW_NAME_SHORTER,
	FLAW_NAME_HUGE,
	FLAW_DATA_LONGER,
	FLAW_DATA_SHORTER,
	FLAW_DATA_HUGE,
	FLAW_DATA_OVERFLOWS,
	FLAW_RESERVED,
	FLAW_BOTH_FLAGS,
	FLAW_REQUEST_AND_REPLY,
	FLAW_PADDING,
	FLAW_TRUNCATED,
	FLAW_ONE_MORE_BYTE,
	FLAW_TWO_IN_ONE,
	FLAW_GARBAGE,
	FLAWS,
};

/* The sixth: how it is written */
enum message_manner {
	MANNER_WHOLE,
	MANNER_HEADER_FIRST,
	MANNER_BYTES,			/* the first ones one by one */
	MANNER_PIECES,
	MANNER_WRITEV,
	MANNER_WRITEV_BAD,		/* one of the pieces has a bad address */
	MANNER_HUGE_COUNT,
	MANNER_NOTHING_FIRST,
	MANNERS,
};

#define HOW_MANNER_MASK		0x07
#define HOW_MEMORY_SHIFT	3
#define HOW_MEMORY_MASK		0x0f
#define HOW_SEND		0x80	/* and SEND it */
#define HOW_PIECE_SHIFT		8	/* bytes of a piece */

#endif /* _KBUS_FUZZ_MESSAGE_H */
