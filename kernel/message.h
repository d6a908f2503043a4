/* SPDX-License-Identifier: GPL-2.0 */
/* One message, from user bytes to an object that queues share, and back (message.c) */
#ifndef _KBUS_MESSAGE_H
#define _KBUS_MESSAGE_H

#include <linux/refcount.h>
#include <linux/types.h>
#include <linux/uio.h>

#include "include/uapi/linux/kbus.h"

struct kbus_ksock;
struct kbus_user;

/*
 * A message, whole or still being written. Nothing changes once it is queued. The one
 * word that differs between copies, the flags, is made when a copy is read.
 */
struct kbus_msg {
	refcount_t refs;		/* the writer, and each queued copy */
	u32 len;			/* bytes of the whole message, */
	u32 filled;			/* and those that are there */
	u32 cost;			/* bytes of memory, of whole objects */
	u32 nr_chunks;
	struct kbus_user *payer;	/* is charged @cost until it is delivered, or NULL */
	u64 queued_at;			/* ns, or 0 where nobody has asked */
	struct kbus_msg *next_dead;	/* see kbus_msg_put_later() */
	void **chunks;			/* for what does not fit into @head, or NULL */
	u8 head[] __aligned(8);
};

int kbus_msgs_init(void);
void kbus_msgs_exit(void);
struct kbus_msg *kbus_msg_new(u32 len, struct kbus_user *payer);
struct kbus_msg *kbus_msg_from_user(const void __user *from, u32 available,
				    struct kbus_ksock *writer);
int kbus_msg_fill(struct kbus_msg *msg, struct iov_iter *from, u32 count);
bool kbus_msg_to_user(const struct kbus_msg *msg, u32 flags, void __user *to);
size_t kbus_msg_to_iter(const struct kbus_msg *msg, u32 pos, u32 count, u32 flags,
			struct iov_iter *to);
struct kbus_msg *kbus_msg_synthetic(size_t max_name_len, size_t max_data_len,
				    struct kbus_user *payer);
void kbus_msg_begin(struct kbus_msg *msg, const char *name, u32 to, u32 data_len);
void kbus_msg_append(struct kbus_msg *msg, const void *bytes, u32 count);
void kbus_msg_append_padding(struct kbus_msg *msg, u32 len);
void kbus_msg_finish(struct kbus_msg *msg);
void kbus_msg_uncharge(struct kbus_msg *msg);
void kbus_msg_put(struct kbus_msg *msg);
void kbus_msg_put_later(struct kbus_msg *msg, struct kbus_msg **dead);
void kbus_msgs_free(struct kbus_msg *dead);
int kbus_msg_check_header(const struct kbus_message_header *hdr, u32 have, u32 max_len,
			  u32 *len);
int kbus_msg_check_filled(const struct kbus_msg *msg);

static inline struct kbus_message_header *kbus_msg_header(const struct kbus_msg *msg)
{
	return (struct kbus_message_header *)msg->head;
}

static inline bool kbus_msg_is_reply(const struct kbus_message_header *hdr)
{
	return hdr->in_reply_to.network_id || hdr->in_reply_to.serial_num;
}

static inline bool kbus_msg_is_request(const struct kbus_message_header *hdr)
{
	return hdr->flags & KBUS_BIT_WANT_A_REPLY;
}

static inline size_t kbus_msg_name_offset(const struct kbus_message_header *hdr)
{
	return sizeof(*hdr) + (hdr->flags & KBUS_BIT_EXTENDED ?
			       2 * sizeof(struct kbus_orig_from) : 0);
}

static inline const char *kbus_msg_name(const struct kbus_msg *msg)
{
	return (const char *)msg->head + kbus_msg_name_offset(kbus_msg_header(msg));
}

#endif /* _KBUS_MESSAGE_H */
