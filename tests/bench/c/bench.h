/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the benchmark share.
 *
 * A transport brings messages from a sender to listeners, and questions to an
 * answerer; a case is something that is measured, in the same manner for every
 * transport. Whatever goes wrong ends the program with a message.
 */
#ifndef BENCH_H
#define BENCH_H

#include <err.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>

#define MAX_LISTENERS	128
#define MAX_SENDERS	16

/* What is asked of a transport; the same in all processes of a case. */
struct setup {
	size_t size;			/* bytes of data in a message */
	unsigned int listeners;
	unsigned int depth;		/* messages that may be under way to a listener */
	unsigned int channel;		/* with another number nobody hears of these */
	const char *address;		/* of the broker, for those that need one */
	unsigned int subscriptions;	/* that others have, to other things */
	bool stuck;			/* somebody gets the answers too, and does not read */
};

extern struct setup setup;

/*
 * The first byte of a message's data is 1 if it is its sender's last one; nothing
 * else of it is looked at. Each function is called in the process that it is for,
 * prepare() before there are any.
 */
struct transport {
	const char *name;
	unsigned int batch;		/* messages that go with one call */
	bool never_full;		/* nothing keeps a sender from being too fast */
	void (*prepare)(void);
	void (*open_sender)(void);
	void (*open_listener)(unsigned int number);
	/* Send a batch to all listeners; wait until there is room. */
	void (*send)(bool last);
	/* Wait for messages, a batch at most; how many, and add to @lasts. */
	unsigned int (*receive)(unsigned int number, unsigned int *lasts);
	void (*open_asker)(void);
	void (*open_answerer)(void);
	/* Send a question, and wait for its answer. */
	void (*ask)(void);
	/* Wait for a question. It is answered before, or as, the next one is waited for. */
	void (*answer)(void);
};

extern const struct transport by_kbus, by_transfer, by_transfer32, by_seqpacket, by_mmsg,
	by_pipe, by_mqueue, by_dbus_daemon, by_dbus_broker, by_zmq, by_nats, by_mqtt, by_sbus;
extern const struct transport *const transports[];

/* How a case is to be measured, and with what */
struct options {
	const struct transport *transport;
	double seconds;
	unsigned int cpu;
	unsigned int senders;
	unsigned int others;		/* bindings, or processes that flood, by the case */
	unsigned int others_cpu;
	unsigned int rounds;
	bool first;			/* who is measured comes before the others */
};

/* Each prints what it has measured as one line of JSON. */
void case_stream(const struct options *options);
void case_round_trip(const struct options *options);
void case_flood(const struct options *options);
void case_busy(const struct options *options);
void case_solo(const struct options *options);
void case_bindings(const struct options *options);

/* util.c */
__u64 now(void);			/* ns */
void pin(unsigned int cpu);
/* Nobody whom this process wakes, nor whom its children wake, takes the processor at once. */
void run_undisturbed(void);
/* This process and its children come before all others. */
void run_first(void);
void *allocate(size_t len);		/* zeroes */
void *allocate_shared(size_t len);	/* likewise, shared with children */
int start(void);			/* fork, and die with the parent; 0 in the child */
void stop(int pid);
void read_all(int fd, void *buffer, size_t len);
void write_all(int fd, const void *buffer, size_t len);
void open_pipe(int fds[2]);
__u64 quantile(__u64 *values, size_t count, double part);	/* sorts them */

static inline void look_at(const void *data, unsigned int *lasts)
{
	*lasts += *(const char *)data;
}

#endif
