/* SPDX-License-Identifier: MIT */
/* What the programs that use KBUS share: device 0, and messages as bytes. */
#ifndef BUS_H
#define BUS_H

#include <stdbool.h>
#include <linux/kbus.h>

/* Messages one after the other, as TRANSFER has them */
struct bus_messages {
	char *start;
	unsigned int count;
	__u32 len;			/* bytes of one */
	__u32 step;			/* from one to the next */
	__u32 data;			/* from the start of one to its data */
};

/* A KSock on which messages may be as long as the setup asks for */
int bus_open(void);
void bus_bind(int fd, const char *name, bool as_replier);
/* A KSock that listens, with a queue as the setup asks for */
int bus_listen(const char *name);
/* The name on the setup's channel */
const char *bus_name(void);

struct bus_messages bus_messages(const char *name, __u32 flags, unsigned int count);
/* Make @answer the answer to @question. */
void bus_answer(struct bus_messages *answer, const struct kbus_message_header *question);

static inline struct kbus_message_header *bus_message(const struct bus_messages *messages,
						      unsigned int number)
{
	return (void *)(messages->start + (size_t)number * messages->step);
}

static inline char *bus_data(const struct bus_messages *messages, unsigned int number)
{
	return messages->start + (size_t)number * messages->step + messages->data;
}

#endif
