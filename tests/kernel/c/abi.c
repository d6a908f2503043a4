// SPDX-License-Identifier: MIT
/*
 * Every ioctl of linux/kbus.h, read, write and poll, by nothing but that header and the C library. Speaks TAP.
 * Nobody else may be on /dev/kbus0. The device that NEWDEVICE makes stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/kbus.h>

#define PATTERN 0xA5A5A5A5U

static unsigned int checks, failures;

static void report(int passed, int line, const char *what)
{
	int number = errno;

	checks++;
	if (!passed)
		failures++;
	printf("%s %u - line %d: %s\n", passed ? "ok" : "not ok", checks, line, what);
	if (!passed)
		printf("# errno is %d, %s\n", number, strerror(number));
}

#define CHECK(condition) report(condition, __LINE__, #condition)
#define FAILS(number, call) \
	report((errno = 0, (call) == -1) && errno == (number), __LINE__, #call ": " #number)

/* A message named "$.C", with two words of data or with the extended header. */
struct plain {
	struct kbus_message_header hdr;
	char name[4];
	__u32 data[2];
	__u32 end_guard;
};

struct extended {
	struct kbus_message_header hdr;
	struct kbus_orig_from orig_from;
	struct kbus_orig_from final_to;
	char name[4];
	__u32 end_guard;
};

_Static_assert(sizeof(struct plain) == 56, "a message has no holes");
_Static_assert(sizeof(struct extended) == 64, "a message has no holes");

static struct plain plain_message(__u32 flags)
{
	return (struct plain){
		.hdr = {
			.start_guard = KBUS_MSG_START_GUARD,
			.flags = flags,
			.name_len = 3,
			.data_len = 2,
		},
		.name = "$.C",
		.data = { 0x01020304, 0xFFFFFFFF },
		.end_guard = KBUS_MSG_END_GUARD,
	};
}

static int bind_as(int fd, unsigned long request, const char *name, __u32 is_replier)
{
	struct kbus_bind_request bind = {
		.is_replier = is_replier,
		.name_len = strlen(name),
		.name = (uintptr_t)name,
	};

	return ioctl(fd, request, &bind);
}

static int ask_for_replier(int fd, unsigned long request, const char *name, __u32 *ksock_id)
{
	struct kbus_replier_query query = {
		.ksock_id = PATTERN,
		.name_len = strlen(name),
		.name = (uintptr_t)name,
	};
	int returned = ioctl(fd, request, &query);

	*ksock_id = query.ksock_id;
	return returned;
}

/* Calls an ioctl on a __u32 that is *value before; gives what it returned. */
static int on_u32(int fd, unsigned long request, __u32 *value)
{
	/* What lies around the argument must stay as it is. */
	__u32 around[3] = { PATTERN, *value, PATTERN };
	int returned = ioctl(fd, request, &around[1]);

	CHECK(around[0] == PATTERN && around[2] == PATTERN);
	*value = around[1];
	return returned;
}

static __u32 get(int fd, unsigned long request, __u32 value)
{
	CHECK(on_u32(fd, request, &value) == 0);
	return value;
}

static struct kbus_msg_id send_bytes(int fd, const void *bytes, size_t len)
{
	struct kbus_msg_id ids[2] = { { PATTERN, PATTERN }, { PATTERN, PATTERN } };

	CHECK(write(fd, bytes, len) == (ssize_t)len);
	CHECK(ioctl(fd, KBUS_IOC_SEND, &ids[0]) == 0);
	CHECK(ids[1].network_id == PATTERN && ids[1].serial_num == PATTERN);
	return ids[0];
}

static int same_id(struct kbus_msg_id one, struct kbus_msg_id other)
{
	return one.network_id == other.network_id && one.serial_num == other.serial_num;
}

/* Takes the next message, which must have this length. */
static void receive(int fd, void *bytes, __u32 len)
{
	__u32 announced = PATTERN;
	char more;

	CHECK(on_u32(fd, KBUS_IOC_NEXTMSG, &announced) == 1);
	CHECK(announced == len);
	CHECK(read(fd, bytes, len) == (ssize_t)len);
	CHECK(read(fd, &more, 1) == 0);
}

static short poll_now(int fd, short events)
{
	struct pollfd pollfd = { .fd = fd, .events = events };

	return poll(&pollfd, 1, 0) == 1 ? pollfd.revents : 0;
}

static void check_identity(int one, int other)
{
	struct kbus_peer_info peer = { .ksock_id = get(one, KBUS_IOC_KSOCKID, PATTERN) };
	__u32 id = get(other, KBUS_IOC_KSOCKID, PATTERN);

	CHECK(peer.ksock_id > 0);
	CHECK(id == peer.ksock_id + 1);
	CHECK(ioctl(other, KBUS_IOC_PEERINFO, &peer) == 0);
	CHECK(peer.ksock_id == id - 1);
	CHECK(peer.pid == (__u32)getpid());
	CHECK(peer.uid == geteuid() && peer.gid == getegid());
	peer.ksock_id = 0;
	FAILS(ESRCH, ioctl(other, KBUS_IOC_PEERINFO, &peer));
	CHECK(ioctl(one, KBUS_IOC_RESET) == 0);
	FAILS(ENOTTY, ioctl(one, _IO(KBUS_IOC_MAGIC, 255)));
}

static void check_binding(int one, int other)
{
	__u32 id = get(one, KBUS_IOC_KSOCKID, PATTERN), found;
	struct kbus_bind_request null = { .name_len = 3 };

	CHECK(bind_as(one, KBUS_IOC_BIND, "$.C.*", 1) == 0);
	FAILS(EADDRINUSE, bind_as(other, KBUS_IOC_BIND, "$.C.*", 1));
	FAILS(EINVAL, bind_as(other, KBUS_IOC_BIND, "$.C", 3));
	FAILS(EBADMSG, bind_as(other, KBUS_IOC_BIND, "$.C.", 0));
	FAILS(EFAULT, ioctl(other, KBUS_IOC_BIND, &null));
	CHECK(ask_for_replier(other, KBUS_IOC_REPLIER, "$.C.*", &found) == 1 && found == id);
	CHECK(ask_for_replier(other, KBUS_IOC_REPLIER, "$.C.D", &found) == 0 && found == 0);
	CHECK(ask_for_replier(other, KBUS_IOC_RESOLVE, "$.C.D", &found) == 1 && found == id);
	CHECK(ask_for_replier(other, KBUS_IOC_RESOLVE, "$.C", &found) == 0 && found == 0);
	CHECK(bind_as(one, KBUS_IOC_UNBIND, "$.C.*", 1) == 0);
	FAILS(EINVAL, bind_as(one, KBUS_IOC_UNBIND, "$.C.*", 1));
}

static void check_announcement(int sender, int listener)
{
	struct plain sent = plain_message(KBUS_BIT_SYNTHETIC | KBUS_BIT_URGENT | 1U << KBUS_DATA_PAD_SHIFT);
	struct plain received;
	struct kbus_msg_id id, last;
	__u32 none = PATTERN;

	CHECK(bind_as(listener, KBUS_IOC_BIND, "$.C", 0) == 0);
	CHECK(poll_now(listener, POLLIN | POLLPRI | POLLOUT) == POLLOUT);
	id = send_bytes(sender, &sent, sizeof(sent));
	CHECK(id.network_id == 0 && id.serial_num > 0);
	CHECK(ioctl(sender, KBUS_IOC_LASTSENT, &last) == 0 && same_id(last, id));
	CHECK(poll_now(listener, POLLIN | POLLPRI | POLLOUT) == (POLLIN | POLLPRI | POLLOUT));
	CHECK(get(listener, KBUS_IOC_NUMMSGS, PATTERN) == 1);
	receive(listener, &received, sizeof(received));
	sent.hdr.id = id;
	sent.hdr.from = get(sender, KBUS_IOC_KSOCKID, PATTERN);
	sent.hdr.flags &= ~KBUS_BIT_SYNTHETIC;
	CHECK(!memcmp(&sent, &received, sizeof(sent)));
	CHECK(get(listener, KBUS_IOC_LENLEFT, PATTERN) == 0);
	CHECK(on_u32(listener, KBUS_IOC_NEXTMSG, &none) == 0 && none == 0);
	CHECK(bind_as(listener, KBUS_IOC_UNBIND, "$.C", 0) == 0);
}

static void check_extended(int one)
{
	struct extended received, sent = {
		.hdr = {
			.start_guard = KBUS_MSG_START_GUARD,
			.id = { 5, 6 },
			.flags = KBUS_BIT_EXTENDED | KBUS_BITS_USER,
			.name_len = 3,
		},
		.orig_from = { 1, 2 },
		.final_to = { 3, 4 },
		.name = "$.C",
		.end_guard = KBUS_MSG_END_GUARD,
	};

	CHECK(bind_as(one, KBUS_IOC_BIND, "$.C", 0) == 0);
	CHECK(same_id(send_bytes(one, &sent, sizeof(sent)), sent.hdr.id));
	receive(one, &received, sizeof(received));
	sent.hdr.from = get(one, KBUS_IOC_KSOCKID, PATTERN);
	CHECK(!memcmp(&sent, &received, sizeof(sent)));
	CHECK(bind_as(one, KBUS_IOC_UNBIND, "$.C", 0) == 0);
}

static void check_refusals(int one)
{
	struct plain wrong = plain_message(1 << 4), half = plain_message(0);
	struct kbus_msg_id id;

	FAILS(EINVAL, write(one, &wrong, sizeof(wrong)));
	FAILS(ENOMSG, ioctl(one, KBUS_IOC_SEND, &id));
	CHECK(write(one, &half, 20) == 20);
	FAILS(EINVAL, ioctl(one, KBUS_IOC_SEND, &id));
	CHECK(write(one, &half, sizeof(half)) == sizeof(half));
	CHECK(ioctl(one, KBUS_IOC_DISCARD) == 0);
	FAILS(ENOMSG, ioctl(one, KBUS_IOC_SEND, &id));
}

static void check_request(int sender, int replier)
{
	struct plain request = plain_message(KBUS_BIT_WANT_A_REPLY), reply = plain_message(0), received;
	struct kbus_msg_id id;

	CHECK(bind_as(replier, KBUS_IOC_BIND, "$.C", 1) == 0);
	request.hdr.to = get(replier, KBUS_IOC_KSOCKID, PATTERN);
	id = send_bytes(sender, &request, sizeof(request));
	CHECK(get(replier, KBUS_IOC_UNREPLIEDTO, PATTERN) == 0);
	receive(replier, &received, sizeof(received));
	CHECK(get(replier, KBUS_IOC_UNREPLIEDTO, PATTERN) == 1);
	CHECK(received.hdr.flags == (KBUS_BIT_WANT_A_REPLY | KBUS_BIT_WANT_YOU_TO_REPLY));
	CHECK(same_id(received.hdr.id, id));
	reply.hdr.in_reply_to = received.hdr.id;
	reply.hdr.to = received.hdr.from;
	send_bytes(replier, &reply, sizeof(reply));
	receive(sender, &received, sizeof(received));
	CHECK(same_id(received.hdr.in_reply_to, id));
	CHECK(received.hdr.from == request.hdr.to);

	id = send_bytes(sender, &request, sizeof(request));
	CHECK(ioctl(sender, KBUS_IOC_ABANDON, &id) == 0);
	FAILS(ENOENT, ioctl(sender, KBUS_IOC_ABANDON, &id));
	CHECK(bind_as(replier, KBUS_IOC_UNBIND, "$.C", 1) == 0);
	CHECK(get(sender, KBUS_IOC_NUMMSGS, PATTERN) == 0);
}

static void check_transfer(int one)
{
	const struct plain messages[2] = { plain_message(0), plain_message(0) };
	struct kbus_msg_id ids[2];
	struct plain room[2];
	__u64 times[2] = { 0 };
	struct kbus_transfer transfer = {
		.send = (uintptr_t)messages, .send_len = sizeof(messages), .ids = (uintptr_t)ids,
		.receive = (uintptr_t)room, .receive_len = sizeof(room),
		.deadline = KBUS_TRANSFER_NEVER, .times = (uintptr_t)times,
	};

	CHECK(bind_as(one, KBUS_IOC_BIND, "$.C", 0) == 0);
	CHECK(ioctl(one, KBUS_IOC_TRANSFER, &transfer) == 0);
	CHECK(transfer.sent == 2 && transfer.error == 0 && transfer.kept == 0);
	CHECK(transfer.send == (uintptr_t)&messages[2] && transfer.send_len == 0);
	CHECK(transfer.received == 2 && transfer.received_len == sizeof(room));
	CHECK(transfer.queued == 0 && transfer.next_len == 0 && transfer.lost == 0);
	CHECK(same_id(room[0].hdr.id, ids[0]) && same_id(room[1].hdr.id, ids[1]));
	CHECK(ids[1].serial_num == ids[0].serial_num + 1);
	CHECK(times[0] > 0 && times[1] >= times[0]);
	transfer.deadline = KBUS_TRANSFER_NOW;
	CHECK(ioctl(one, KBUS_IOC_TRANSFER, &transfer) == 0);
	CHECK(transfer.sent == 0 && transfer.received == 0);
	CHECK(bind_as(one, KBUS_IOC_UNBIND, "$.C", 0) == 0);
	transfer.kept = 2;
	FAILS(EINVAL, ioctl(one, KBUS_IOC_TRANSFER, &transfer));
	transfer.kept = 0;
	transfer.flags = 1;
	FAILS(EINVAL, ioctl(one, KBUS_IOC_TRANSFER, &transfer));
	transfer.flags = 0;
	transfer.reserved[4] = 1;
	FAILS(EINVAL, ioctl(one, KBUS_IOC_TRANSFER, &transfer));
}

static void check_limits(int one)
{
	/* Two halves, so that a 32-bit long would show. */
	struct kbus_lost_msgs lost = { .count = (__u64)PATTERN << 32 | PATTERN };
	struct plain message = plain_message(0);

	CHECK(bind_as(one, KBUS_IOC_BIND, "$.C", 0) == 0);
	CHECK(get(one, KBUS_IOC_MAXMSGS, 0) == 100);
	CHECK(get(one, KBUS_IOC_MAXMSGS, 1) == 1);
	send_bytes(one, &message, sizeof(message));
	send_bytes(one, &message, sizeof(message));
	CHECK(ioctl(one, KBUS_IOC_LOSTMSGS, &lost) == 0 && lost.count == 1);
	CHECK(get(one, KBUS_IOC_MAXMSGSIZE, 0) == 1 << 20);
	CHECK(get(one, KBUS_IOC_MAXMSGSIZE, 1) == 16 << 20);
	CHECK(get(one, KBUS_IOC_MAXMSGSIZE, 1 << 20) == 1 << 20);
	CHECK(bind_as(one, KBUS_IOC_UNBIND, "$.C", 0) == 0);
}

static void check_switch(int one, unsigned long request)
{
	__u32 wrong = 2;

	CHECK(get(one, request, KBUS_SWITCH_ASK) == KBUS_SWITCH_OFF);
	CHECK(get(one, request, KBUS_SWITCH_ON) == KBUS_SWITCH_OFF);
	CHECK(get(one, request, KBUS_SWITCH_OFF) == KBUS_SWITCH_ON);
	FAILS(EINVAL, on_u32(one, request, &wrong));
	CHECK(get(one, request, KBUS_SWITCH_ASK) == KBUS_SWITCH_OFF);
}

int main(void)
{
	int one = open("/dev/kbus0", O_RDWR), other = open("/dev/kbus0", O_RDWR);

	if (one < 0 || other < 0) {
		printf("Bail out! /dev/kbus0: %s\n", strerror(errno));
		return 1;
	}
	check_identity(one, other);
	check_binding(one, other);
	check_announcement(one, other);
	check_extended(one);
	check_refusals(one);
	check_request(one, other);
	check_transfer(one);
	check_limits(one);
	check_switch(one, KBUS_IOC_MSGONLYONCE);
	check_switch(one, KBUS_IOC_REPORTLOST);
	check_switch(one, KBUS_IOC_VERBOSE);
	check_switch(one, KBUS_IOC_REPORTREPLIERBINDS);
	CHECK(get(one, KBUS_IOC_NEWDEVICE, 0) > 0);
	close(one);
	close(other);
	printf("1..%u\n", checks);
	return failures != 0;
}
