// SPDX-License-Identifier: MIT
/*
 * Addresses for the kernel to read from and write to: good ones, bad ones, and
 * some that become bad while it does.
 *
 * The shifting area is a file's pages that are mapped a second time where
 * nobody touches them, so that it can be filled although another thread unmaps
 * it at the same moment. It lies where no other mapping is made, in 32-bit
 * programs too.
 */
#include <err.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ops.h"

#define AREA		(64 << 10)	/* bytes that fit into each kind of memory */
#define PAGE		4096
#define SHIFTING	((unsigned char *)0x70000000)

#if __SIZEOF_POINTER__ == 8
#define KERNEL_ADDRESS	((void *)0xffff888000000000)
#else
#define KERNEL_ADDRESS	((void *)0xfffff000)
#endif

static int shifting_file;
static unsigned char *shifting_alias;

static void *map(void *at, int protection, int flags, int fd)
{
	void *area = mmap(at, AREA, protection, flags | (at ? MAP_FIXED : 0), fd, 0);

	if (area == MAP_FAILED)
		err(2, "mmap");
	return area;
}

static void *map_anonymous(size_t len)
{
	void *area = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		err(2, "mmap");
	return area;
}

static void shifting_restore(void)
{
	map(SHIFTING, PROT_READ | PROT_WRITE, MAP_SHARED, shifting_file);
}

void memory_init_worker(void)
{
	shifting_file = memfd_create("shifting", MFD_CLOEXEC);
	if (shifting_file < 0 || ftruncate(shifting_file, AREA))
		err(2, "memfd_create");
	shifting_alias = map(NULL, PROT_READ | PROT_WRITE, MAP_SHARED, shifting_file);
	shifting_restore();
}

void memory_init_task(struct memory *memory)
{
	unsigned char *area = map_anonymous(AREA + PAGE);
	int file = memfd_create("read-only", MFD_CLOEXEC);

	if (mprotect(area + AREA, PAGE, PROT_NONE))
		err(2, "mprotect");
	memory->edge = area + AREA;
	memory->odd = map_anonymous(AREA + PAGE);
	memory->late_source = map_anonymous(AREA);

	if (file < 0 || ftruncate(file, AREA))
		err(2, "memfd_create");
	memory->read_only = map(NULL, PROT_READ, MAP_SHARED, file);
	close(file);

	memory->late = map_anonymous(AREA);
	if (!late_register(memory->late, memory->late_source, AREA)) {
		munmap(memory->late, AREA);
		memory->late = NULL;
	}
}

/**
 * memory_place() - have something in memory of some kind
 * @memory: the task's
 * @kind: enum memory_kind
 * @content: what is there if it can be read, and plain memory for it
 * @len: bytes; too many for the kind, and it is MEMORY_PLAIN
 *
 * Return: where it is. memory_done() must follow.
 */
void *memory_place(struct memory *memory, uint32_t kind, void *content, size_t len)
{
	/* Across the border of two pages, if it is long enough for that */
	size_t middle = PAGE - (len / 2 < PAGE ? len / 2 : 0);
	unsigned char *place;

	if (len + PAGE > AREA)
		return content;
	switch (kind % MEMORY_KINDS) {
	case MEMORY_SHIFTING:
		memcpy(shifting_alias + middle, content, len);
		return SHIFTING + middle;
	case MEMORY_LATE:
		if (!memory->late)
			return content;
		memcpy(memory->late_source + middle, content, len);
		return memory->late + middle;
	case MEMORY_EDGE:
		place = memory->edge - len;
		return memcpy(place, content, len);
	case MEMORY_HALF:
		place = memory->edge - len / 2;
		memcpy(place, content, len / 2);
		return place;
	case MEMORY_READ_ONLY:
		return memory->read_only;
	case MEMORY_NULL:
		return NULL;
	case MEMORY_KERNEL:
		return KERNEL_ADDRESS;
	case MEMORY_ODD:
		place = memory->odd + 1;
		return memcpy(place, content, len);
	default:
		return content;
	}
}

/* The next time the pages are late again. */
void memory_done(struct memory *memory, uint32_t kind)
{
	if (kind % MEMORY_KINDS == MEMORY_LATE && memory->late)
		madvise(memory->late, AREA, MADV_DONTNEED);
}

/* Do something to the shifting area under whoever uses it. */
long memory_shift(uint32_t what, uint32_t where)
{
	size_t offset = where % AREA & ~(PAGE - 1);
	unsigned char *page = SHIFTING + offset;
	size_t i;

	switch (what % 8) {
	case 0:
		return result(munmap(page, PAGE));
	case 1:
		return result(munmap(SHIFTING, AREA));
	case 2:
		return result(mprotect(SHIFTING, AREA, PROT_NONE));
	case 3:
		return result(mprotect(page, PAGE, PROT_READ));
	case 4:
		return result(madvise(SHIFTING, AREA, MADV_DONTNEED));
	case 5:
		/* A hole in the file, so that all of it reads as zeros */
		return result(madvise(SHIFTING, AREA, MADV_REMOVE));
	case 6:
		for (i = 0; i < 2 * PAGE; i += 4)
			shifting_alias[i] ^= where;
		return 0;
	default:
		shifting_restore();
		return 0;
	}
}

long op_area(struct task *task, const uint32_t *arg)
{
	(void)task;
	return memory_shift(arg[0], arg[1]);
}
