// SPDX-License-Identifier: MIT
/* Prints the numbers, sizes and offsets of linux/kbus.h as this program's user space sees them. */
#include <stddef.h>
#include <stdio.h>

#include <linux/kbus.h>

#define NUMBER(name) printf(#name " %llu\n", (unsigned long long)(name))
#define TEXT(name) printf(#name " %s\n", name)
#define SIZE(type) printf("sizeof(" #type ") %zu\n", sizeof(struct type))
#define MEMBER(type, member) printf(#type "." #member " %zu\n", offsetof(struct type, member))

int main(void)
{
	SIZE(kbus_msg_id);
	MEMBER(kbus_msg_id, network_id);
	MEMBER(kbus_msg_id, serial_num);
	SIZE(kbus_orig_from);
	MEMBER(kbus_orig_from, network_id);
	MEMBER(kbus_orig_from, local_id);
	SIZE(kbus_message_header);
	MEMBER(kbus_message_header, start_guard);
	MEMBER(kbus_message_header, id);
	MEMBER(kbus_message_header, in_reply_to);
	MEMBER(kbus_message_header, to);
	MEMBER(kbus_message_header, from);
	MEMBER(kbus_message_header, flags);
	MEMBER(kbus_message_header, name_len);
	MEMBER(kbus_message_header, data_len);
	SIZE(kbus_bind_event);
	MEMBER(kbus_bind_event, is_bind);
	MEMBER(kbus_bind_event, binder);
	MEMBER(kbus_bind_event, name_len);
	SIZE(kbus_bind_request);
	MEMBER(kbus_bind_request, is_replier);
	MEMBER(kbus_bind_request, name_len);
	MEMBER(kbus_bind_request, name);
	SIZE(kbus_replier_query);
	MEMBER(kbus_replier_query, ksock_id);
	MEMBER(kbus_replier_query, name_len);
	MEMBER(kbus_replier_query, name);
	SIZE(kbus_lost_msgs);
	MEMBER(kbus_lost_msgs, count);
	SIZE(kbus_transfer);
	MEMBER(kbus_transfer, send);
	MEMBER(kbus_transfer, ids);
	MEMBER(kbus_transfer, receive);
	MEMBER(kbus_transfer, deadline);
	MEMBER(kbus_transfer, lost);
	MEMBER(kbus_transfer, send_len);
	MEMBER(kbus_transfer, receive_len);
	MEMBER(kbus_transfer, sent);
	MEMBER(kbus_transfer, error);
	MEMBER(kbus_transfer, kept);
	MEMBER(kbus_transfer, received);
	MEMBER(kbus_transfer, received_len);
	MEMBER(kbus_transfer, queued);
	MEMBER(kbus_transfer, next_len);
	MEMBER(kbus_transfer, receive_max);
	MEMBER(kbus_transfer, times);
	MEMBER(kbus_transfer, flags);
	MEMBER(kbus_transfer, reserved);
	SIZE(kbus_peer_info);
	MEMBER(kbus_peer_info, ksock_id);
	MEMBER(kbus_peer_info, pid);
	MEMBER(kbus_peer_info, uid);
	MEMBER(kbus_peer_info, gid);

	NUMBER(KBUS_MSG_START_GUARD);
	NUMBER(KBUS_MSG_END_GUARD);
	NUMBER(KBUS_MIN_NAME_LEN);
	NUMBER(KBUS_MAX_NAME_LEN);
	NUMBER(KBUS_MIN_MAX_MSG_SIZE);
	NUMBER(KBUS_BIT_WANT_A_REPLY);
	NUMBER(KBUS_BIT_WANT_YOU_TO_REPLY);
	NUMBER(KBUS_BIT_SYNTHETIC);
	NUMBER(KBUS_BIT_URGENT);
	NUMBER(KBUS_BIT_ALL_OR_WAIT);
	NUMBER(KBUS_BIT_ALL_OR_FAIL);
	NUMBER(KBUS_BIT_EXTENDED);
	NUMBER(KBUS_BITS_RESERVED);
	NUMBER(KBUS_BITS_USER);
	NUMBER(KBUS_BITS_DATA_PAD);
	NUMBER(KBUS_DATA_PAD_SHIFT);
	TEXT(KBUS_NAME_REPLIER_GONEAWAY);
	TEXT(KBUS_NAME_REPLIER_IGNORED);
	TEXT(KBUS_NAME_REPLIER_UNBOUND);
	TEXT(KBUS_NAME_REPLIER_NOROOM);
	TEXT(KBUS_NAME_REPLIER_BIND_EVENT);
	TEXT(KBUS_NAME_UNBIND_EVENTS_LOST);
	TEXT(KBUS_NAME_MESSAGES_LOST);
	NUMBER(KBUS_TRANSFER_NOW);
	NUMBER(KBUS_TRANSFER_NEVER);
	NUMBER(KBUS_TRANSFER_ALIGN);
	NUMBER(KBUS_SWITCH_OFF);
	NUMBER(KBUS_SWITCH_ON);
	NUMBER(KBUS_SWITCH_ASK);

	NUMBER(KBUS_IOC_RESET);
	NUMBER(KBUS_BIND_LISTENER);
	NUMBER(KBUS_BIND_REPLIER);
	NUMBER(KBUS_BIND_OBSERVER);
	NUMBER(KBUS_IOC_BIND);
	NUMBER(KBUS_IOC_UNBIND);
	NUMBER(KBUS_IOC_KSOCKID);
	NUMBER(KBUS_IOC_REPLIER);
	NUMBER(KBUS_IOC_NEXTMSG);
	NUMBER(KBUS_IOC_LENLEFT);
	NUMBER(KBUS_IOC_SEND);
	NUMBER(KBUS_IOC_DISCARD);
	NUMBER(KBUS_IOC_LASTSENT);
	NUMBER(KBUS_IOC_MAXMSGS);
	NUMBER(KBUS_IOC_NUMMSGS);
	NUMBER(KBUS_IOC_UNREPLIEDTO);
	NUMBER(KBUS_IOC_MSGONLYONCE);
	NUMBER(KBUS_IOC_VERBOSE);
	NUMBER(KBUS_IOC_NEWDEVICE);
	NUMBER(KBUS_IOC_REPORTREPLIERBINDS);
	NUMBER(KBUS_IOC_MAXMSGSIZE);
	NUMBER(KBUS_IOC_TRANSFER);
	NUMBER(KBUS_IOC_LOSTMSGS);
	NUMBER(KBUS_IOC_REPORTLOST);
	NUMBER(KBUS_IOC_RESOLVE);
	NUMBER(KBUS_IOC_ABANDON);
	NUMBER(KBUS_IOC_PEERINFO);
	return 0;
}
