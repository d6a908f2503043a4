// SPDX-License-Identifier: MIT
/*
 * Memory whose pages come late: a thread serves them by userfaultfd, after a
 * while, from other memory. Where userfaultfd cannot be had there is none.
 */
#include <err.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>

#include "ops.h"

#define PAGE		4096
#define DELAY		1000000		/* ns */

static int faults = -1;

static struct {
	uintptr_t area, source;
	size_t len;
} ranges[THREADS];

static unsigned int range_count;

static void serve(uintptr_t address)
{
	unsigned int i;

	for (i = 0; i < range_count; i++) {
		uintptr_t offset = (address - ranges[i].area) & ~(uintptr_t)(PAGE - 1);
		struct uffdio_copy copy = {
			.dst = ranges[i].area + offset,
			.src = ranges[i].source + offset,
			.len = PAGE,
		};

		if (address < ranges[i].area || offset >= ranges[i].len)
			continue;
		/* If it fails the page is there already, or the fault is no more. */
		if (ioctl(faults, UFFDIO_COPY, &copy)) {
			struct uffdio_range range = { .start = copy.dst, .len = PAGE };

			ioctl(faults, UFFDIO_WAKE, &range);
		}
	}
}

static void *server(void *unused)
{
	const struct timespec delay = { .tv_nsec = DELAY };
	struct uffd_msg msg;

	while (read(faults, &msg, sizeof(msg)) == sizeof(msg)) {
		if (msg.event != UFFD_EVENT_PAGEFAULT)
			continue;
		nanosleep(&delay, NULL);
		serve(msg.arg.pagefault.address);
	}
	return unused;
}

void late_init(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	pthread_t thread;

	faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (faults < 0)
		return;
	if (ioctl(faults, UFFDIO_API, &api))
		err(2, "userfaultfd");
	if (pthread_create(&thread, NULL, server, NULL))
		errx(2, "no thread to serve pages");
}

/* Return false if there is no userfaultfd. */
bool late_register(void *area, void *source, size_t len)
{
	struct uffdio_register registration = {
		.range = { .start = (uintptr_t)area, .len = len },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (faults < 0)
		return false;
	ranges[range_count].area = registration.range.start;
	ranges[range_count].source = (uintptr_t)source;
	ranges[range_count].len = len;
	range_count++;
	if (ioctl(faults, UFFDIO_REGISTER, &registration))
		err(2, "UFFDIO_REGISTER");
	return true;
}
