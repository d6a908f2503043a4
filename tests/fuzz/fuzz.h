/* SPDX-License-Identifier: MIT */
/*
 * What the files of the fuzzer share.
 *
 * A program is a list of operations; each belongs to one thread of a worker,
 * which is a process. The numbers in an operation mean something whatever they
 * are, because they are taken modulo what there is: so programs can be mutated,
 * cut and written by hand. What the kernel made up, such as message ids, is
 * named by where it was seen, and never stands in a program.
 */
#ifndef _KBUS_FUZZ_H
#define _KBUS_FUZZ_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <linux/kbus.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#define THREADS		3	/* of a worker, unless it is the only one */
#define WORKERS_MAX	64
#define SLOTS		8	/* for KSocks */
#define OPS_MAX		200	/* in a program */
#define ARGS_MAX	6	/* of an operation */
#define DEVICES		3	/* that are hammered */
#define ERRNOS		134	/* 0 stands for success */
#define BUFFER		((1 << 20) + (64 << 10))	/* bytes: a longest message and more */

/* ---- random.c ---- */

struct random {
	uint64_t state;
};

uint64_t random_next(struct random *random);
uint32_t random_below(struct random *random, uint32_t limit);
bool random_chance(struct random *random, unsigned int percent);

/* ---- program.c: operations, and programs as text ---- */

struct op {
	uint8_t code;			/* index in op_types */
	uint8_t thread;
	uint32_t arg[ARGS_MAX];
};

struct program {
	unsigned int count;
	struct op ops[OPS_MAX];
};

/* What an argument is about; generate.c has the values */
enum arg_kind {
	ARG_NONE, ARG_SLOT, ARG_DEVICE, ARG_MODE, ARG_NAME, ARG_ROLE, ARG_MEMORY,
	ARG_KIND, ARG_WORDS, ARG_FLAW, ARG_HOW, ARG_PICK, ARG_LENGTH, ARG_VALUE,
	ARG_COMMAND, ARG_THREAD, ARG_MANY,
};

struct task;

/**
 * struct op_type - a kind of operation
 * @name: in a program's text
 * @run: does it; the result is the last system call's, or -errno
 * @weight: how often it is generated, against the others'
 * @args: what its arguments are about
 */
struct op_type {
	const char *name;
	long (*run)(struct task *task, const uint32_t *arg);
	unsigned int weight;
	enum arg_kind args[ARGS_MAX];
};

extern const struct op_type op_types[];
extern const unsigned int op_type_count;

#define OP_TYPES_MAX	48

int op_code(const char *name);
size_t program_print(const struct program *program, char *text, size_t size);
bool op_parse(const char *line, struct op *op);

/* ---- generate.c, recipes.c: where programs come from ---- */

void program_generate(struct random *random, struct program *program);
void program_mutate(struct random *random, struct program *program,
		    const struct program *other);
void program_add(struct program *program, const struct op *op);
struct op op_random(struct random *random);
uint32_t arg_random(struct random *random, enum arg_kind kind);
void recipe_add(struct random *random, struct program *program);

/* ---- names.c: message names, good and bad ---- */

struct name {
	const char *bytes;
	uint32_t len;
};

#define NAMES_GOOD	14	/* the first ones are legal */

struct name name_get(uint32_t which);
extern const unsigned int name_count;

/* ---- memory.c: addresses that are good, bad, or become so ---- */

enum memory_kind {
	MEMORY_PLAIN,
	MEMORY_SHIFTING,		/* other threads unmap and change it */
	MEMORY_LATE,			/* its pages come late, by userfaultfd */
	MEMORY_EDGE,			/* right before an unmapped page */
	MEMORY_HALF,			/* half of it is in that page */
	MEMORY_READ_ONLY,
	MEMORY_NULL,
	MEMORY_KERNEL,
	MEMORY_ODD,			/* not aligned */
	MEMORY_KINDS,
};

struct memory {
	unsigned char *edge;		/* where the unmapped page begins */
	unsigned char *read_only;
	unsigned char *late;		/* NULL without userfaultfd */
	unsigned char *late_source;
	unsigned char *odd;
};

void memory_init_worker(void);
void memory_init_task(struct memory *memory);
void *memory_place(struct memory *memory, uint32_t kind, void *content, size_t len);
void memory_done(struct memory *memory, uint32_t kind);
long memory_shift(uint32_t what, uint32_t where);

/* ---- late.c: pages that are served late ---- */

void late_init(void);
bool late_register(void *area, void *source, size_t len);

/* ---- cover.c: what the kernel says that was reached ---- */

struct cover {
	uint64_t *area;			/* NULL without KCOV */
};

bool cover_init(void);
void cover_init_task(struct cover *cover);
void cover_reset(struct cover *cover);
bool cover_collect(struct cover *cover);
unsigned int cover_count(void);
void cover_print(FILE *file);

/* ---- corpus.c: programs that have reached something new, of all workers ---- */

void corpus_init(void);
void corpus_add(const struct program *program, struct random *random);
bool corpus_pick(struct program *program, struct random *random);
unsigned int corpus_count(void);

/* ---- worker.c: a process that runs programs ---- */

/* A Request by its id, and the KSock at the other end */
struct request {
	_Atomic uint32_t network_id;
	_Atomic uint32_t serial_num;
	_Atomic uint32_t peer;
};

#define REMEMBERED	4

struct slot {
	_Atomic int fd;			/* or -1 */
	_Atomic uint32_t id;		/* of the KSock */
	struct request owed[REMEMBERED];	/* read here, to be answered */
	_Atomic uint32_t owed_count;
	struct request sent[REMEMBERED];	/* sent here */
	_Atomic uint32_t sent_count;
};

#define CHILDREN	4
#define SWARM		64	/* of each kind, in a program */

struct worker;

struct task {
	struct worker *worker;
	unsigned int thread;
	pid_t tid;
	unsigned int at;		/* index of the operation that is run */
	bool is_child;			/* after fork */
	unsigned char *buffer;		/* BUFFER bytes */
	timer_t alarm;			/* may be 0 */
	bool has_alarm;
	struct memory memory;
	struct cover cover;
};

struct worker {
	unsigned int number;
	unsigned int threads;
	struct random random;
	struct program program;
	uint64_t programs;
	struct slot slots[SLOTS];
	int sockets[2];
	_Atomic pid_t children[CHILDREN];
	_Atomic pid_t sleepers[SWARM];	/* each waits for room */
	_Atomic int swarm[SWARM];	/* descriptors, or 0 */
	bool is_nobody;
	_Atomic bool limits_changed;
	struct task tasks[THREADS];
	pthread_barrier_t begin, end;
};

/* One after another; false when there is no more */
typedef bool (*program_source)(struct worker *worker);

int worker_run(unsigned int number, unsigned int threads, program_source next);
void task_run_op(struct task *task, const struct op *op);
void task_make_alarm(struct task *task);
void task_alarm(struct task *task, bool on);
struct slot *task_slot(struct task *task, uint32_t which);
int slot_fd(struct slot *slot);
void slot_put(struct slot *slot, int fd);
void swarm_end(struct worker *worker);

/* ---- log.c: what is about to run, on files that outlive the machine ---- */

void log_open(unsigned int worker, unsigned int threads);
void log_program(const struct program *program, uint64_t number);
void log_end(bool fine);

/* ---- replay.c ---- */

unsigned int replay_read(const char *path);
unsigned int replay_threads(unsigned int worker);
bool replay_next(struct worker *worker);

/* ---- checks.c: what must hold ---- */

bool check_nothing_left(void);
bool check_none_of(pid_t pid);

/* ---- limits.c: the module's parameters ---- */

void limits_save(void);
void limits_restore(void);
long limits_set(uint32_t which, uint32_t value);
long parameter_set(const char *name, const char *value);

/* ---- devices.c: the devices, as they were and as they are to be ---- */

void devices_prepare(void);
void devices_restore_sizes(void);
void devices_restore(void);

/* ---- witness.c: a KSock that must get its answers whatever the others do ---- */

int witness_run(uint64_t seed);

/* ---- main.c ---- */

struct options {
	uint64_t seed;
	unsigned int workers;
	unsigned int seconds;
	uint64_t operations;		/* 0: no limit */
	unsigned int repeat;
	const char *results;		/* directory, or NULL */
	bool steered;
};

/* What the processes share */
struct shared {
	_Atomic bool stop;
	_Atomic uint64_t operations;
	_Atomic uint64_t programs[WORKERS_MAX];
	_Atomic uint32_t devices_made;
	_Atomic uint64_t witnessed;
	_Atomic uint64_t results[OP_TYPES_MAX][ERRNOS];
};

extern struct options options;
extern struct shared *shared;

void *share(size_t size);
__attribute__((format(printf, 1, 2)))
void say(const char *format, ...);

#endif /* _KBUS_FUZZ_H */
