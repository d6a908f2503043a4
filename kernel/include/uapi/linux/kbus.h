/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * KBUS: lightweight messaging through the kernel.
 *
 * A program opens /dev/kbusN, which makes it a KSock, binds to message names
 * and exchanges messages with the other KSocks of the same device. This header
 * is all that user space may rely on. From here on struct sizes and numbers do not
 * change; there may be more of them.
 */
#ifndef _UAPI_LINUX_KBUS_H
#define _UAPI_LINUX_KBUS_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * struct kbus_msg_id - what tells one message from another
 * @network_id: 0 for a message of this device, to which KBUS gives the next
 *	serial number; another value is the sender's, and KBUS leaves the whole
 *	id alone
 * @serial_num: ascends from message to message; after 2^32-1 comes 1
 *
 * {0, 0} is the id of no message.
 */
struct kbus_msg_id {
	__u32 network_id;
	__u32 serial_num;
};

/**
 * struct kbus_orig_from - an end point on another network
 * @network_id: the network
 * @local_id: the KSock id there
 *
 * KBUS passes these on untouched.
 */
struct kbus_orig_from {
	__u32 network_id;
	__u32 local_id;
};

/**
 * struct kbus_message_header - how a message begins, written or read
 * @start_guard: KBUS_MSG_START_GUARD
 * @id: the message's id; written with network_id 0, KBUS replaces it
 * @in_reply_to: {0, 0}, or the id of the Request that this message answers
 * @to: 0; in a Request, the only KSock that may be its replier; in a reply, the
 *	KSock that sent the Request
 * @from: the KSock that sent this; set by KBUS, 0 for KBUS itself
 * @flags: KBUS_BIT_*
 * @name_len: length of the name in bytes, without padding, at most
 *	KBUS_MAX_NAME_LEN
 * @data_len: length of the data in 32-bit words
 *
 * If @flags has KBUS_BIT_EXTENDED, two struct kbus_orig_from follow: where the
 * message came from first, and where it is to go in the end. Then come the
 * name, padded with zero bytes to a multiple of four, the data, and
 * KBUS_MSG_END_GUARD as the last word. All words are in the machine's byte
 * order. Bits 30 and 31 of @flags tell how many bytes of the last word of data
 * are padding; they are user space's business, like all of the upper 16 bits.
 */
struct kbus_message_header {
	__u32 start_guard;
	struct kbus_msg_id id;
	struct kbus_msg_id in_reply_to;
	__u32 to;
	__u32 from;
	__u32 flags;
	__u32 name_len;
	__u32 data_len;
};

#define KBUS_MSG_START_GUARD	0x7375626B
#define KBUS_MSG_END_GUARD	0x6B627573

/* Limits on a message name, in bytes. */
#define KBUS_MIN_NAME_LEN	3
#define KBUS_MAX_NAME_LEN	1000

/* The least value to which KBUS_IOC_MAXMSGSIZE can be set, in bytes. */
#define KBUS_MIN_MAX_MSG_SIZE	100

/* Set by the sender: this is a Request, and somebody must answer it. */
#define KBUS_BIT_WANT_A_REPLY		0x00000001U
/* Set by KBUS on the one copy whose reader must answer, cleared on all others. */
#define KBUS_BIT_WANT_YOU_TO_REPLY	0x00000002U
/* Set by KBUS on messages that it makes itself, cleared on all others. */
#define KBUS_BIT_SYNTHETIC		0x00000004U
/* Set by the sender: to be read before everything that is queued. */
#define KBUS_BIT_URGENT			0x00000008U
/* Set by the sender: SEND waits until every recipient has room. */
#define KBUS_BIT_ALL_OR_WAIT		0x00000100U
/* Set by the sender: SEND fails if any recipient has no room. */
#define KBUS_BIT_ALL_OR_FAIL		0x00000200U
/* Set by the sender: the header has the two struct kbus_orig_from. */
#define KBUS_BIT_EXTENDED		0x00000400U
/* Bits that mean nothing yet; a message that has one of them is refused. */
#define KBUS_BITS_RESERVED		0x0000F8F0U
/* Bits that are the users', passed on untouched. */
#define KBUS_BITS_USER			0x3FFF0000U
/* How many bytes, 0 to 3, of the last data word are padding. */
#define KBUS_BITS_DATA_PAD		0xC0000000U
#define KBUS_DATA_PAD_SHIFT		30

/*
 * The names of the messages that KBUS itself sends. They carry
 * KBUS_BIT_SYNTHETIC. The first four stand in for the answer to a Request, and
 * have its id as in_reply_to and no data.
 */

/* The replier closed its KSock, or died, before it read the Request. */
#define KBUS_NAME_REPLIER_GONEAWAY	"$.KBUS.Replier.GoneAway"
/* The replier read the Request, and closed its KSock without an answer. */
#define KBUS_NAME_REPLIER_IGNORED	"$.KBUS.Replier.Ignored"
/* The replier unbound before it read the Request. */
#define KBUS_NAME_REPLIER_UNBOUND	"$.KBUS.Replier.Unbound"
/*
 * The replier answered, but there was no room for the answer: the requester's
 * queue was full by bytes, or its user had as much memory as it may have.
 */
#define KBUS_NAME_REPLIER_NOROOM	"$.KBUS.Replier.NoRoom"
/* A replier has been bound or unbound; data: struct kbus_bind_event, name. */
#define KBUS_NAME_REPLIER_BIND_EVENT	"$.KBUS.ReplierBindEvent"
/* More repliers were unbound by a close than could be told of. No data. */
#define KBUS_NAME_UNBIND_EVENTS_LOST	"$.KBUS.UnbindEventsLost"
/* This KSock missed messages; data: how many since it was last told, __u32. */
#define KBUS_NAME_MESSAGES_LOST		"$.KBUS.MessagesLost"

/**
 * struct kbus_bind_event - the data of KBUS_NAME_REPLIER_BIND_EVENT
 * @is_bind: 1 for a bind, 0 for an unbind
 * @binder: id of the KSock that bound or unbound
 * @name_len: length in bytes of the name that follows, which is padded with
 *	zero bytes to a multiple of four
 */
struct kbus_bind_event {
	__u32 is_bind;
	__u32 binder;
	__u32 name_len;
};

/* Values of @is_replier in struct kbus_bind_request. */
#define KBUS_BIND_LISTENER	0U
#define KBUS_BIND_REPLIER	1U
/*
 * A listener that no sender waits for, and because of whom nothing is refused: what
 * finds no room in its queue it misses, also with ALL_OR_WAIT and ALL_OR_FAIL.
 */
#define KBUS_BIND_OBSERVER	2U

/**
 * struct kbus_bind_request - what to bind to, or to unbind from
 * @is_replier: KBUS_BIND_REPLIER to be the replier for the name,
 *	KBUS_BIND_LISTENER or KBUS_BIND_OBSERVER to listen to it
 * @name_len: length of the name in bytes
 * @name: user address of the name, which needs no NUL at its end
 */
struct kbus_bind_request {
	__u32 is_replier;
	__u32 name_len;
	__u64 name;
};

/**
 * struct kbus_replier_query - who answers to a name
 * @ksock_id: out: the replier's id, or 0 for none; ignored on input
 * @name_len: length of the name in bytes
 * @name: user address of the name, which needs no NUL at its end
 */
struct kbus_replier_query {
	__u32 ksock_id;
	__u32 name_len;
	__u64 name;
};

/**
 * struct kbus_lost_msgs - what a KSock has missed
 * @count: out: copies of messages that were meant for this KSock and found no
 *	room in its queue, since it was opened
 */
struct kbus_lost_msgs {
	__u64 count;
};

/**
 * struct kbus_peer_info - who opened a KSock
 * @ksock_id: in: the KSock asked about
 * @pid: out: process id as the asker's pid namespace has it, 0 if it has none
 * @uid: out: effective user id as the asker's user namespace has it, or the
 *	overflow id if it has none
 * @gid: out: effective group id, likewise
 */
struct kbus_peer_info {
	__u32 ksock_id;
	__u32 pid;
	__u32 uid;
	__u32 gid;
};

/* Values of @deadline in struct kbus_transfer: not at all, and without an end. */
#define KBUS_TRANSFER_NOW	0ULL
#define KBUS_TRANSFER_NEVER	0xFFFFFFFFFFFFFFFFULL

/* Where a message begins in the buffers of TRANSFER: at multiples of so many bytes. */
#define KBUS_TRANSFER_ALIGN	8

/**
 * struct kbus_transfer - messages to send, and room for messages to receive
 * @send: user address of messages, one after the other, each padded with bytes
 *	of any value to a multiple of KBUS_TRANSFER_ALIGN; out: of what is left
 * @ids: user address of an array of struct kbus_msg_id, one for each message to
 *	send, or 0: where the ids of those sent are stored
 * @receive: user address of a buffer, to be filled in the same manner
 * @deadline: how long to wait, for room and then for a message: until that many
 *	ns of CLOCK_MONOTONIC, KBUS_TRANSFER_NOW, or KBUS_TRANSFER_NEVER
 * @lost: out: copies that this KSock has missed, as LOSTMSGS tells
 * @send_len: bytes at @send, with or without the padding of the last message;
 *	out: what is left of them
 * @receive_len: bytes that the buffer has room for
 * @sent: out: how many messages were sent
 * @error: out: 0, or the errno with which SEND of the next one failed
 * @kept: out: 1 if that one waits for room in the kernel, as after SEND with
 *	EAGAIN or EINTR, and is no more at @send; in: 1 to send that one first
 * @received: out: how many messages are in the buffer
 * @received_len: out: bytes of them, with padding
 * @queued: out: how many messages are left in the queue
 * @next_len: out: bytes of the first of them
 * @receive_max: receive no more messages than that, 0 for as many as fit
 * @times: user address of an array of __u64, one for each message that may come, or
 *	0: when those received were queued, in ns of CLOCK_MONOTONIC, or 0 where that
 *	is not known, as it may be from before this KSock first asked
 * @flags: must be 0
 * @reserved: must be 0
 *
 * A call that is repeated with what came back goes on where it ended. Ids begin
 * at @ids anew. If @kept was 1, and @sent is 0, @error is about the message that
 * was kept, and not about the first one at @send.
 */
struct kbus_transfer {
	__u64 send;
	__u64 ids;
	__u64 receive;
	__u64 deadline;
	__u64 lost;
	__u32 send_len;
	__u32 receive_len;
	__u32 sent;
	__u32 error;
	__u32 kept;
	__u32 received;
	__u32 received_len;
	__u32 queued;
	__u32 next_len;
	__u32 receive_max;
	__u64 times;
	__u32 flags;
	__u32 reserved[5];
};

/*
 * Values of the switches MSGONLYONCE, VERBOSE, REPORTREPLIERBINDS and
 * REPORTLOST. The value before the call is returned through the argument.
 */
#define KBUS_SWITCH_OFF		0U
#define KBUS_SWITCH_ON		1U
#define KBUS_SWITCH_ASK		0xFFFFFFFFU

#define KBUS_IOC_MAGIC	'k'

/*
 * Every ioctl returns -1 and EFAULT for an argument that is no readable and,
 * where something comes back, writable address, and ENOTTY for a number that is
 * not listed here. Those that allocate memory, which are MAXMSGS, BIND, UNBIND, REPLIER,
 * RESOLVE, SEND, REPORTLOST and NEWDEVICE, return ENOMEM if there is none. EBADF
 * means that the descriptor was not opened for what is asked. Errors beyond
 * these are listed with each.
 */

/* The KSock itself. */

/* RESET: has no effect. */
#define KBUS_IOC_RESET		_IO(KBUS_IOC_MAGIC, 1)
/* KSOCKID: the id of this KSock, from 1. */
#define KBUS_IOC_KSOCKID	_IOR(KBUS_IOC_MAGIC, 4, __u32)
/*
 * MAXMSGS: set the length of this KSock's queue, in messages. 0 asks; any other
 * value is clamped to what the administrator allows. The value in force comes
 * back. Lowering it keeps what is queued.
 * ENOBUFS: such a queue takes more memory than the user may have.
 */
#define KBUS_IOC_MAXMSGS	_IOWR(KBUS_IOC_MAGIC, 11, __u32)
/*
 * MSGONLYONCE: a switch: with it on, a message that several bindings of this
 * KSock match is queued once. Off by default.
 * EINVAL: not a value of a switch.
 */
#define KBUS_IOC_MSGONLYONCE	_IOWR(KBUS_IOC_MAGIC, 14, __u32)

/* Binding. */

/*
 * BIND: listen to a name, or become its replier, which needs a descriptor open
 * for writing too.
 * EBADF: not open for reading, or as replier not for writing.
 * EINVAL: is_replier is none of KBUS_BIND_*, or it is that of an observer and this
 * KSock listens as another, or the other way round. EFAULT: no name, or not readable.
 * EBADMSG: not a legal name, or one that has no replier but KBUS.
 * ENAMETOOLONG: name_len is over KBUS_MAX_NAME_LEN.
 * EADDRINUSE: the name has a replier. ENOSPC: too many bindings, of this KSock,
 * of its user, or of its user to this name. ENOBUFS: the user's memory is used
 * up.
 * EAGAIN: repliers' binds are reported, and a listener to the reports is full;
 * nothing has changed.
 */
#define KBUS_IOC_BIND		_IOW(KBUS_IOC_MAGIC, 2, struct kbus_bind_request)
/*
 * UNBIND: take back one BIND of this KSock, the newest that has the same name
 * and kind. Unread copies that came by it go with it; the sender of an unread
 * Request to a replier gets KBUS_NAME_REPLIER_UNBOUND.
 * EINVAL: there is no such binding, or is_replier is none of KBUS_BIND_*.
 * EBADF, EFAULT, EBADMSG, ENAMETOOLONG, EAGAIN: as for BIND.
 */
#define KBUS_IOC_UNBIND		_IOW(KBUS_IOC_MAGIC, 3, struct kbus_bind_request)
/*
 * REPLIER: who is bound as replier to exactly this name, wildcards being names
 * of their own. Returns 1, or 0 if there is none.
 * EFAULT, EBADMSG, ENAMETOOLONG: as for BIND.
 */
#define KBUS_IOC_REPLIER	_IOWR(KBUS_IOC_MAGIC, 5, struct kbus_replier_query)
/*
 * RESOLVE: who would be given a Request of this name now. Returns 1, or 0 if
 * there is none.
 * EFAULT, ENAMETOOLONG: as for BIND. EBADMSG: not a legal name, or a wildcard.
 */
#define KBUS_IOC_RESOLVE	_IOWR(KBUS_IOC_MAGIC, 35, struct kbus_replier_query)

/* Sending. */

/*
 * SEND: send the message that has been written. Its id comes back. When SEND
 * fails, the message is gone, except after EAGAIN and EINTR.
 * EBADF: not open for writing. ENOMSG: nothing has been written.
 * EINVAL: the message is not complete.
 * EBADMSG: the name is not legal, or a wildcard.
 * EACCES: the name is KBUS's own, and this is not a reply.
 * ENOLCK: no room in the sender's own queue for the answer to this Request, or 16
 * of its Requests with this id have no answer.
 * EADDRNOTAVAIL: a Request to a name without a replier, or a reply to a KSock
 * that is gone. ECONNREFUSED: a reply that nobody expects from this KSock.
 * EPIPE: a Request to a particular KSock that is not the replier for the name.
 * EBUSY: the replier's queue is full or, with KBUS_BIT_ALL_OR_FAIL, a
 * listener's. With KBUS_BIT_ALL_OR_WAIT: a queue could not take all of its
 * copies even if it were empty, whether that is so at the call or is found when
 * SEND tries again, as after a limit has been lowered.
 * EAGAIN: with KBUS_BIT_ALL_OR_WAIT, on an O_NONBLOCK descriptor: a queue is
 * full; poll for POLLOUT, then SEND again. EINTR: a signal came while SEND
 * waited; SEND again.
 * ENOBUFS: a Request, and the sender's user has as much memory as it may have; or
 * the user of somebody has who must have the message, as with EBUSY; or a reply, and
 * the requester's user has, or its queue has no room in bytes: the requester gets
 * KBUS_NAME_REPLIER_NOROOM, and the Request is over.
 * EFAULT: the id could not be stored. Nothing has been sent, unless the address
 * was good when the call began: then LASTSENT tells the id.
 */
#define KBUS_IOC_SEND		_IOR(KBUS_IOC_MAGIC, 8, struct kbus_msg_id)
/* DISCARD: drop what has been written since the last SEND, if anything. */
#define KBUS_IOC_DISCARD	_IO(KBUS_IOC_MAGIC, 9)
/* LASTSENT: the id of the last message that was sent here, {0, 0} if none. */
#define KBUS_IOC_LASTSENT	_IOR(KBUS_IOC_MAGIC, 10, struct kbus_msg_id)
/*
 * ABANDON: the answer to the Request with this id, sent here, is not wanted any
 * more. Its place in the queue is free, and a later reply is refused.
 * ENOENT: no Request with this id, sent here, is waiting for its answer.
 */
#define KBUS_IOC_ABANDON	_IOW(KBUS_IOC_MAGIC, 36, struct kbus_msg_id)

/* Receiving. */

/*
 * NEXTMSG: drop the rest of the message being read, and make the next one in
 * the queue the one that read() reads. Its length in bytes comes back, 0 if
 * there is none. Returns 1, or 0 if there is none. Never waits; poll() does.
 * EBADF: not open for reading.
 */
#define KBUS_IOC_NEXTMSG	_IOR(KBUS_IOC_MAGIC, 6, __u32)
/* LENLEFT: how many bytes of the message being read have not been read. */
#define KBUS_IOC_LENLEFT	_IOR(KBUS_IOC_MAGIC, 7, __u32)
/* NUMMSGS: how many messages are queued here, without the one being read. */
#define KBUS_IOC_NUMMSGS	_IOR(KBUS_IOC_MAGIC, 12, __u32)
/*
 * UNREPLIEDTO: how many Requests NEXTMSG has brought here for an answer that
 * have not been answered yet.
 */
#define KBUS_IOC_UNREPLIEDTO	_IOR(KBUS_IOC_MAGIC, 13, __u32)
/* LOSTMSGS: how many copies this KSock has missed because it was full. */
#define KBUS_IOC_LOSTMSGS	_IOR(KBUS_IOC_MAGIC, 33, struct kbus_lost_msgs)
/*
 * REPORTLOST: a switch: with it on, a KSock that has missed messages gets one
 * KBUS_NAME_MESSAGES_LOST as soon as there is room. Off by default. Misses from
 * before it was switched on are not reported.
 * EINVAL: not a value of a switch. ENOBUFS: the user's memory is used up.
 */
#define KBUS_IOC_REPORTLOST	_IOWR(KBUS_IOC_MAGIC, 34, __u32)

/* Both ways. */

/*
 * TRANSFER: send any number of messages, then receive as many as are there, fit
 * and are wanted, and wait until at least one has come. What is sent is sent as by write()
 * and SEND, what is received as by NEXTMSG and read(), each message whole; what
 * others have written or begun to read with those calls stays as it is.
 * After a message that could not be sent, the others are left, and what is
 * queued is received without waiting. Nor does it wait if the first message
 * queued does not fit, or if the descriptor is O_NONBLOCK.
 * EBADF: something to send, and not open for writing, or room to receive, and
 * not open for reading. EINVAL: @kept is neither 0 nor 1, or @flags or @reserved
 * is not 0.
 * EFAULT: nothing was received because the buffer, or @times, is not writable.
 * EINTR: a signal came before anything was sent or received.
 * In @error: the errnos of write() and SEND; EALREADY: a message that was written
 * has not been sent; EINVAL, too: the message is not complete; EFAULT: it is not
 * readable, or there is no place for its id; EAGAIN: with
 * KBUS_BIT_ALL_OR_WAIT, no room in time; EINTR: a signal came while it waited;
 * ENOMSG: @kept is 1, and no message waits.
 */
#define KBUS_IOC_TRANSFER	_IOWR(KBUS_IOC_MAGIC, 32, struct kbus_transfer)

/*
 * The device, and the others on it.
 *
 * What concerns all of a device is set by its administrator: a process with
 * CAP_SYS_ADMIN, or a KSock that was opened by the user who owns the device node.
 * With the module's parameter writers_configure, everybody who has the device
 * open for writing is one.
 */

/*
 * PEERINFO: who opened the KSock with this id.
 * ESRCH: there is no such KSock now.
 */
#define KBUS_IOC_PEERINFO	_IOWR(KBUS_IOC_MAGIC, 37, struct kbus_peer_info)
/*
 * VERBOSE: a switch of the whole device: with it on, the kernel log tells of
 * binds, of well-formed messages that SEND refused, and of KSocks that come and
 * go.
 * Setting it needs a descriptor open for writing, and is for the administrator.
 * EINVAL: not a value of a switch. EBADF: not open for writing. EPERM: not the
 * administrator.
 */
#define KBUS_IOC_VERBOSE	_IOWR(KBUS_IOC_MAGIC, 15, __u32)
/*
 * NEWDEVICE: make one more /dev/kbusN, and tell its N.
 * EPERM: needs CAP_SYS_ADMIN. ENOSPC: there are 256 of them.
 */
#define KBUS_IOC_NEWDEVICE	_IOR(KBUS_IOC_MAGIC, 16, __u32)
/*
 * REPORTREPLIERBINDS: a switch of the whole device: with it on, each bind and
 * unbind of a replier makes a KBUS_NAME_REPLIER_BIND_EVENT. Off by default.
 * Setting it needs a descriptor open for writing, and is for the administrator.
 * EINVAL: not a value of a switch. EBADF: not open for writing. EPERM: not the
 * administrator.
 */
#define KBUS_IOC_REPORTREPLIERBINDS	_IOWR(KBUS_IOC_MAGIC, 17, __u32)
/*
 * MAXMSGSIZE: set the length in bytes of the longest message that may be
 * written to this device. 0 asks for the limit in force, 1 for the highest to
 * which it can be set. The value asked for or set comes back. Setting it needs
 * a descriptor open for writing, and is for the administrator.
 * EINVAL: under KBUS_MIN_MAX_MSG_SIZE, or over the module's max_message_size.
 * EBADF: not open for writing. EPERM: not the administrator.
 */
#define KBUS_IOC_MAXMSGSIZE	_IOWR(KBUS_IOC_MAGIC, 18, __u32)

#endif /* _UAPI_LINUX_KBUS_H */
