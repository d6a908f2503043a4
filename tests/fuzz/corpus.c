// SPDX-License-Identifier: MIT
/* The corpus: programs that have reached something new, from all workers. */
#include "fuzz.h"

#define CORPUS	1024

static struct {
	pthread_mutex_t lock;
	_Atomic uint32_t count;
	struct program programs[CORPUS];
} *corpus;

void corpus_init(void)
{
	pthread_mutexattr_t attributes;

	corpus = share(sizeof(*corpus));
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&corpus->lock, &attributes);
}

/* When the corpus is full, another program goes for this one. */
void corpus_add(const struct program *program, struct random *random)
{
	pthread_mutex_lock(&corpus->lock);
	if (corpus->count < CORPUS)
		corpus->programs[corpus->count++] = *program;
	else
		corpus->programs[random_below(random, CORPUS)] = *program;
	pthread_mutex_unlock(&corpus->lock);
}

/* Return false if there is none. */
bool corpus_pick(struct program *program, struct random *random)
{
	uint32_t count;

	pthread_mutex_lock(&corpus->lock);
	count = corpus->count;
	if (count)
		*program = corpus->programs[random_below(random, count)];
	pthread_mutex_unlock(&corpus->lock);
	return count;
}

unsigned int corpus_count(void)
{
	return corpus->count;
}
