/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints, for perf, ftrace and bpftrace: kbus:send and the like.
 *
 * All of them may be called with any lock held. What costs anything is done in
 * the assignments, so that a tracepoint that is off is a no-op: callers pass what
 * they have, which for a message is its header, with the name behind it.
 *
 * docs/howto/trace.rst tells what each means; programs read the fields.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kbus

#if !defined(_KBUS_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _KBUS_TRACE_H

#include <linux/tracepoint.h>

#include "kbus.h"

#ifndef KBUS_TRACE_ONCE
#define KBUS_TRACE_ONCE

/* What has become of a message that waits for room */
enum kbus_trace_wait {
	KBUS_TRACE_WAIT_BEGIN,		/* it has joined the line of a KSock */
	KBUS_TRACE_WAIT_WAKE,		/* SEND is worth another try */
	KBUS_TRACE_WAIT_END,		/* it was sent, refused or dropped */
};

#endif

TRACE_DEFINE_ENUM(KBUS_TRACE_WAIT_BEGIN);
TRACE_DEFINE_ENUM(KBUS_TRACE_WAIT_WAKE);
TRACE_DEFINE_ENUM(KBUS_TRACE_WAIT_END);

/* Field and assignment of a name, which has no NUL and may be any bytes (trace.c) */
#define KBUS_TRACE_NAME(len) __dynamic_array(char, name, (len) + 1)
#define KBUS_TRACE_SET_NAME(from, len) kbus_trace_copy_name(__get_str(name), from, len)
/* Of a message, or of no message if there is no header */
#define KBUS_TRACE_MSG_NAME(hdr) KBUS_TRACE_NAME(kbus_trace_name_len(hdr))
#define KBUS_TRACE_SET_MSG_NAME(hdr) kbus_trace_copy_msg_name(__get_str(name), hdr)

/* A message is about to be queued for everybody that it concerns. */
TRACE_EVENT(send,
	    TP_PROTO(u32 dev, const struct kbus_message_header *hdr, u32 len),
	    TP_ARGS(dev, hdr, len),
	    TP_STRUCT__entry(__field(u32, dev)
		    __field(u32, from)
		    __field(u32, to)
		    __field(u32, network_id)
		    __field(u32, serial_num)
		    __field(u32, reply_network_id)
		    __field(u32, reply_serial_num)
		    __field(u32, flags)
		    __field(u32, len)
		    KBUS_TRACE_MSG_NAME(hdr)
	    ),
	    TP_fast_assign(__entry->dev = dev;
		    __entry->from = hdr->from;
		    __entry->to = hdr->to;
		    __entry->network_id = hdr->id.network_id;
		    __entry->serial_num = hdr->id.serial_num;
		    __entry->reply_network_id = hdr->in_reply_to.network_id;
		    __entry->reply_serial_num = hdr->in_reply_to.serial_num;
		    __entry->flags = hdr->flags;
		    __entry->len = len;
		    KBUS_TRACE_SET_MSG_NAME(hdr);
	    ),
	    TP_printk("dev=%u from=%u to=%u id=%u:%u in_reply_to=%u:%u flags=%#x len=%u name=%s",
		      __entry->dev, __entry->from, __entry->to, __entry->network_id,
		      __entry->serial_num, __entry->reply_network_id,
		      __entry->reply_serial_num, __entry->flags, __entry->len, __get_str(name)));

DECLARE_EVENT_CLASS(kbus_copy,
		    TP_PROTO(u32 dev, u32 ksock, const struct kbus_message_header *hdr, bool asks,
			     u32 len, u32 queued),
		    TP_ARGS(dev, ksock, hdr, asks, len, queued),
		    TP_STRUCT__entry(__field(u32, dev)
			    __field(u32, ksock)
			    __field(u32, from)
			    __field(u32, network_id)
			    __field(u32, serial_num)
			    __field(u32, flags)
			    __field(u32, len)
			    __field(u32, queued)
			    KBUS_TRACE_MSG_NAME(hdr)
		    ),
		    TP_fast_assign(__entry->dev = dev;
			    __entry->ksock = ksock;
			    __entry->from = hdr->from;
			    __entry->network_id = hdr->id.network_id;
			    __entry->serial_num = hdr->id.serial_num;
			    __entry->flags = hdr->flags | (asks ? KBUS_BIT_WANT_YOU_TO_REPLY : 0);
			    __entry->len = len;
			    __entry->queued = queued;
			    KBUS_TRACE_SET_MSG_NAME(hdr);
		    ),
		    TP_printk("dev=%u ksock=%u from=%u id=%u:%u flags=%#x len=%u queued=%u name=%s",
			      __entry->dev, __entry->ksock, __entry->from, __entry->network_id,
			      __entry->serial_num, __entry->flags, __entry->len, __entry->queued,
			      __get_str(name)));

/* A copy has been queued on a KSock, which has @queued of them now. */
DEFINE_EVENT(kbus_copy, queue,
	     TP_PROTO(u32 dev, u32 ksock, const struct kbus_message_header *hdr, bool asks,
		      u32 len, u32 queued),
	     TP_ARGS(dev, ksock, hdr, asks, len, queued));

/* A KSock has taken a copy from its queue, which has @queued of them left. */
DEFINE_EVENT(kbus_copy, receive,
	     TP_PROTO(u32 dev, u32 ksock, const struct kbus_message_header *hdr, bool asks,
		      u32 len, u32 queued),
	     TP_ARGS(dev, ksock, hdr, asks, len, queued));

/* A KSock misses @copies of a message; there is no event for none. */
TRACE_EVENT_CONDITION(lost,
		      TP_PROTO(u32 dev, u32 ksock, const struct kbus_message_header *hdr,
			       u32 copies),
		      TP_ARGS(dev, ksock, hdr, copies),
		      TP_CONDITION(copies),
		      TP_STRUCT__entry(__field(u32, dev)
			      __field(u32, ksock)
			      __field(u32, from)
			      __field(u32, network_id)
			      __field(u32, serial_num)
			      __field(u32, copies)
			      KBUS_TRACE_MSG_NAME(hdr)
		      ),
		      TP_fast_assign(__entry->dev = dev;
			      __entry->ksock = ksock;
			      __entry->from = hdr->from;
			      __entry->network_id = hdr->id.network_id;
			      __entry->serial_num = hdr->id.serial_num;
			      __entry->copies = copies;
			      KBUS_TRACE_SET_MSG_NAME(hdr);
		      ),
		      TP_printk("dev=%u ksock=%u from=%u id=%u:%u copies=%u name=%s",
				__entry->dev, __entry->ksock, __entry->from,
				__entry->network_id, __entry->serial_num,
				__entry->copies, __get_str(name)));

/* The message that @ksock has written waits for room on @on, or does so no more. */
TRACE_EVENT(wait,
	    TP_PROTO(u32 dev, u32 ksock, u32 on, enum kbus_trace_wait what,
		     const struct kbus_message_header *hdr),
	    TP_ARGS(dev, ksock, on, what, hdr),
	    TP_STRUCT__entry(__field(u32, dev)
		    __field(u32, ksock)
		    __field(u32, on)
		    __field(u32, what)
		    KBUS_TRACE_MSG_NAME(hdr)
	    ),
	    TP_fast_assign(__entry->dev = dev;
		    __entry->ksock = ksock;
		    __entry->on = on;
		    __entry->what = what;
		    KBUS_TRACE_SET_MSG_NAME(hdr);
	    ),
	    TP_printk("dev=%u ksock=%u on=%u what=%s name=%s", __entry->dev, __entry->ksock,
		      __entry->on,
		      __print_symbolic(__entry->what, { KBUS_TRACE_WAIT_BEGIN, "begin" },
				       { KBUS_TRACE_WAIT_WAKE, "wake" },
				       { KBUS_TRACE_WAIT_END, "end" }),
		      __get_str(name)));

/* A binding has come or gone; or, with @err, has not. @kind is one of KBUS_BIND_*. */
TRACE_EVENT(bind,
	    TP_PROTO(u32 dev, u32 ksock, bool bound, u32 kind, int err, const char *name,
		     u32 name_len),
	    TP_ARGS(dev, ksock, bound, kind, err, name, name_len),
	    TP_STRUCT__entry(__field(u32, dev)
		    __field(u32, ksock)
		    __field(u32, bound)
		    __field(u32, kind)
		    __field(int, err)
		    KBUS_TRACE_NAME(name_len)
	    ),
	    TP_fast_assign(__entry->dev = dev;
		    __entry->ksock = ksock;
		    __entry->bound = bound;
		    __entry->kind = kind;
		    __entry->err = err;
		    KBUS_TRACE_SET_NAME(name, name_len);
	    ),
	    TP_printk("dev=%u ksock=%u bound=%u kind=%s err=%d name=%s", __entry->dev,
		      __entry->ksock, __entry->bound,
		      __print_symbolic(__entry->kind, { KBUS_BIND_LISTENER, "listener" },
				       { KBUS_BIND_REPLIER, "replier" },
				       { KBUS_BIND_OBSERVER, "observer" }),
		      __entry->err, __get_str(name)));

/* From now on the sender of a Request has a right to an answer from @replier. */
TRACE_EVENT(request,
	    TP_PROTO(u32 dev, const struct kbus_message_header *hdr, u32 replier),
	    TP_ARGS(dev, hdr, replier),
	    TP_STRUCT__entry(__field(u32, dev)
		    __field(u32, ksock)
		    __field(u32, replier)
		    __field(u32, network_id)
		    __field(u32, serial_num)
		    KBUS_TRACE_MSG_NAME(hdr)
	    ),
	    TP_fast_assign(__entry->dev = dev;
		    __entry->ksock = hdr->from;
		    __entry->replier = replier;
		    __entry->network_id = hdr->id.network_id;
		    __entry->serial_num = hdr->id.serial_num;
		    KBUS_TRACE_SET_MSG_NAME(hdr);
	    ),
	    TP_printk("dev=%u ksock=%u replier=%u id=%u:%u name=%s", __entry->dev,
		      __entry->ksock, __entry->replier, __entry->network_id,
		      __entry->serial_num, __get_str(name)));

/*
 * The Request of @ksock with the id @id is over: @answer is the Reply or Status,
 * or NULL if there is none, because it has been abandoned or nobody waits for it.
 */
TRACE_EVENT(answer,
	    TP_PROTO(u32 dev, u32 ksock, u32 replier, const struct kbus_msg_id *id,
		     const struct kbus_message_header *answer),
	    TP_ARGS(dev, ksock, replier, id, answer),
	    TP_STRUCT__entry(__field(u32, dev)
		    __field(u32, ksock)
		    __field(u32, replier)
		    __field(u32, network_id)
		    __field(u32, serial_num)
		    __field(u32, answer_network_id)
		    __field(u32, answer_serial_num)
		    __field(u32, flags)
		    KBUS_TRACE_MSG_NAME(answer)
	    ),
	    TP_fast_assign(__entry->dev = dev;
		    __entry->ksock = ksock;
		    __entry->replier = replier;
		    __entry->network_id = id->network_id;
		    __entry->serial_num = id->serial_num;
		    __entry->answer_network_id = answer ? answer->id.network_id : 0;
		    __entry->answer_serial_num = answer ? answer->id.serial_num : 0;
		    __entry->flags = answer ? answer->flags : 0;
		    KBUS_TRACE_SET_MSG_NAME(answer);
	    ),
	    TP_printk("dev=%u ksock=%u replier=%u id=%u:%u answer=%u:%u flags=%#x name=%s",
		      __entry->dev, __entry->ksock, __entry->replier, __entry->network_id,
		      __entry->serial_num, __entry->answer_network_id,
		      __entry->answer_serial_num, __entry->flags, __get_str(name)));

/*
 * SEND has failed with @err, and the message is gone; @hdr is NULL if not even its
 * form was right. Its id is that which LASTSENT tells, if a serial number was used.
 */
TRACE_EVENT(refuse,
	    TP_PROTO(u32 dev, u32 ksock, int err, const struct kbus_message_header *hdr),
	    TP_ARGS(dev, ksock, err, hdr),
	    TP_STRUCT__entry(__field(u32, dev)
		    __field(u32, ksock)
		    __field(int, err)
		    __field(u32, to)
		    __field(u32, network_id)
		    __field(u32, serial_num)
		    __field(u32, flags)
		    KBUS_TRACE_MSG_NAME(hdr)
	    ),
	    TP_fast_assign(__entry->dev = dev;
		    __entry->ksock = ksock;
		    __entry->err = err;
		    __entry->to = hdr ? hdr->to : 0;
		    __entry->network_id = hdr ? hdr->id.network_id : 0;
		    __entry->serial_num = hdr ? hdr->id.serial_num : 0;
		    __entry->flags = hdr ? hdr->flags : 0;
		    KBUS_TRACE_SET_MSG_NAME(hdr);
	    ),
	    TP_printk("dev=%u ksock=%u err=%d to=%u id=%u:%u flags=%#x name=%s", __entry->dev,
		      __entry->ksock, __entry->err, __entry->to, __entry->network_id,
		      __entry->serial_num, __entry->flags, __get_str(name)));

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
