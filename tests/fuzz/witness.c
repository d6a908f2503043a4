// SPDX-License-Identifier: MIT
/*
 * The witness: a KSock that sends Requests to the names that the workers bind,
 * and must get exactly one answer to each, whatever becomes of who owes it.
 */
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "ops.h"

#define OPEN_MAX	32	/* Requests at a time */
#define PATIENCE	60	/* seconds; a program is over long before */
#define NAMES		5	/* of names.c, without a wildcard */

static struct {
	uint32_t serial;		/* 0: free */
	time_t since;
} asked[OPEN_MAX];

/* How an answer begins. The name of no status is longer. */
struct answer {
	struct kbus_message_header hdr;
	char name[32];
};

static time_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

/* All of it is less than the least MAXMSGSIZE. */
static long ask(int fd, struct random *random, struct kbus_msg_id *id)
{
	const struct name name = name_get(random_below(random, NAMES));
	struct {
		struct kbus_message_header header;
		char name[8];
		uint32_t end_guard;
	} message = {
		{
			.start_guard = KBUS_MSG_START_GUARD,
			.flags = KBUS_BIT_WANT_A_REPLY,
			.name_len = name.len,
		}, "", KBUS_MSG_END_GUARD,
	};
	size_t padded = (name.len + 3) / 4 * 4;

	memcpy(message.name, name.bytes, name.len);
	memmove(message.name + padded, &message.end_guard, sizeof(message.end_guard));
	if (write(fd, &message, sizeof(message.header) + padded + sizeof(message.end_guard)) < 0)
		return -errno;
	return result(ioctl(fd, KBUS_IOC_SEND, id));
}

/* With a byte limit that has been lowered there is no room for as many answers. */
static bool is_fine(long got)
{
	return !got || got == -EADDRNOTAVAIL || got == -EBUSY || got == -ENOBUFS ||
		got == -ENOLCK;
}

static bool ask_more(int fd, struct random *random)
{
	unsigned int i;

	for (i = 0; i < OPEN_MAX; i++) {
		struct kbus_msg_id id;
		long got;

		if (asked[i].serial)
			continue;
		got = ask(fd, random, &id);
		if (!is_fine(got)) {
			say("witness: a Request cannot be sent: %s", strerror(-got));
			return false;
		}
		if (got)
			continue;
		asked[i].serial = id.serial_num;
		asked[i].since = now();
	}
	return true;
}

/* A Reply, or one of the Statuses that stand in for it; the name is padded with zero bytes */
static bool is_known(const struct answer *answer)
{
	static const char * const statuses[] = {
		KBUS_NAME_REPLIER_GONEAWAY, KBUS_NAME_REPLIER_IGNORED, KBUS_NAME_REPLIER_UNBOUND,
		KBUS_NAME_REPLIER_NOROOM,
	};
	unsigned int i;

	if (!(answer->hdr.flags & KBUS_BIT_SYNTHETIC))
		return true;
	for (i = 0; i < ARRAY_SIZE(statuses); i++) {
		if (answer->hdr.name_len == strlen(statuses[i]) &&
		    !memcmp(answer->name, statuses[i], answer->hdr.name_len))
			return !answer->hdr.data_len;
	}
	return false;
}

static bool is_answer(const struct answer *answer)
{
	const struct kbus_message_header *hdr = &answer->hdr;
	unsigned int i;

	if (!is_known(answer)) {
		say("witness: an unknown status, of %u bytes of name", hdr->name_len);
		return false;
	}
	for (i = 0; i < OPEN_MAX; i++) {
		if (asked[i].serial && !hdr->in_reply_to.network_id &&
		    asked[i].serial == hdr->in_reply_to.serial_num) {
			asked[i].serial = 0;
			shared->witnessed++;
			return true;
		}
	}
	say("witness: not an answer, or a second one, to Request %u:%u",
	    hdr->in_reply_to.network_id, hdr->in_reply_to.serial_num);
	return false;
}

static bool take_answers(int fd)
{
	struct answer answer;
	__u32 len;

	while (ioctl(fd, KBUS_IOC_NEXTMSG, &len) == 1) {
		memset(&answer, 0, sizeof(answer));
		if (read(fd, &answer, sizeof(answer)) < (ssize_t)sizeof(answer.hdr)) {
			say("witness: a message of %u bytes cannot be read", len);
			return false;
		}
		if (!is_answer(&answer))
			return false;
	}
	return true;
}

/* The oldest Request without an answer; gives how many there are. */
static unsigned int count_open(time_t *oldest)
{
	unsigned int i, count = 0;

	*oldest = now();
	for (i = 0; i < OPEN_MAX; i++) {
		if (!asked[i].serial)
			continue;
		count++;
		if (asked[i].since < *oldest)
			*oldest = asked[i].since;
	}
	return count;
}

/* The exit status of the witness process. It ends when all has been answered. */
int witness_run(uint64_t seed)
{
	struct random random = { seed };
	struct pollfd pollfd = { .events = POLLIN };
	time_t oldest;

	pollfd.fd = open("/dev/kbus0", O_RDWR | O_CLOEXEC);
	if (pollfd.fd < 0)
		err(2, "/dev/kbus0");
	while (!shared->stop || count_open(&oldest)) {
		if (!shared->stop && !ask_more(pollfd.fd, &random))
			return 1;
		poll(&pollfd, 1, 20);
		if (!take_answers(pollfd.fd))
			return 1;
		if (count_open(&oldest) && now() - oldest > PATIENCE) {
			say("witness: a Request has no answer after %d seconds", PATIENCE);
			return 1;
		}
	}
	return 0;
}
