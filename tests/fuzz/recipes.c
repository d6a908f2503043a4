// SPDX-License-Identifier: MIT
/*
 * Recipes: short pieces of programs that lead somewhere, so that generated
 * programs get deep sooner. Mutation makes the variations.
 *
 * Names are numbers in the list of names.c, kinds and manners bits of message.h:
 * 128 in the last place is a whole message with SEND.
 */
#include <err.h>

#include "fuzz.h"

#define RECIPE_OPS	14

static const char * const recipes[][RECIPE_OPS] = {
	{	/* a Request and its reply */
		"0 bind 0 1 1 0 0", "0 message 1 1 1 2 0 128", "0 take 0 0",
		"0 message 0 1 3 2 0 128", "0 take 1 0",
	}, {	/* Requests that find their replier by wildcards, with listeners */
		"0 bind 0 7 1 0 0", "0 bind 2 6 1 0 0", "0 bind 3 9 0 0 0",
		"0 message 1 2 1 0 0 128", "0 message 1 4 1 0 0 128", "0 take 0 0",
		"0 take 2 0", "0 message 0 3 11 0 0 128", "0 take 3 15", "0 take 1 15",
	}, {	/* statuses for one Request that was read and one that was not */
		"0 bind 3 12 0 0 0", "0 bind 0 1 1 0 0", "0 message 1 1 1 0 0 128",
		"0 message 1 1 9 0 0 128", "0 take 0 0", "0 close 0", "0 take 1 15",
	}, {	/* the replier unbinds */
		"0 bind 0 1 1 0 0", "0 message 1 1 1 0 0 128", "0 message 1 1 1 0 0 128",
		"0 take 0 0", "0 unbind 0 1 1 0 0", "0 message 0 1 3 0 0 128", "0 take 1 15",
	}, {	/* the sender abandons, or closes */
		"0 bind 0 1 1 0 0", "0 message 1 1 1 0 0 128", "0 message 1 1 1 0 0 128",
		"0 message 2 1 1 0 0 128", "0 message 2 1 1 0 0 128", "0 abandon 1 0 0",
		"0 take 0 0", "0 take 0 0", "0 message 0 1 3 0 0 128", "0 take 0 0",
		"0 close 2", "0 message 0 1 3 0 0 128", "0 take 0 0", "0 message 0 1 3 0 0 128",
	}, {	/* a sender waits for room that a reader makes */
		"0 maxmsgs 0 1 0", "0 bind 0 0 0 0 0", "0 message 1 0 0 0 0 128",
		"1 message 1 0 16 0 0 128", "2 message 2 0 16 0 0 128", "0 take 0 0",
		"0 take 0 0", "0 take 0 0",
	}, {	/* a Request waits for a replier who goes, and one comes who is better */
		"0 maxmsgs 0 1 0", "0 bind 0 9 1 0 0", "0 message 1 1 1 0 0 128",
		"1 message 1 1 17 0 0 128", "2 message 3 1 17 0 0 128", "0 bind 2 1 1 0 0",
		"0 close 0", "0 take 2 15",
	}, {	/* room by a higher limit, an unbind, DISCARD, and MSGONLYONCE */
		"0 maxmsgs 0 1 0", "0 bind 0 0 0 0 0", "0 bind 0 0 0 0 0",
		"1 message 1 0 16 0 0 128", "2 message 2 0 16 0 0 128", "0 maxmsgs 0 2 0",
		"0 unbind 0 0 0 0 0", "0 switch 0 0 1 0", "2 discard 1", "0 maxmsgs 0 10 0",
	}, {	/* EAGAIN, and SEND again, with nowhere for the id first */
		"0 nonblock 1 1", "0 maxmsgs 0 1 0", "0 bind 0 0 0 0 0",
		"0 message 1 0 0 0 0 128", "0 message 1 0 16 0 0 128",
		"0 message 1 0 0 0 0 128", "0 poll 1 1 4", "0 take 0 0", "0 poll 1 1 4",
		"0 send 1 6", "0 send 1 0",
	}, {	/* a waiter in front of others does not come back */
		"0 nonblock 1 1", "0 nonblock 2 1", "0 maxmsgs 0 1 0", "0 bind 0 0 0 0 0",
		"0 message 3 0 0 0 0 128", "0 message 1 0 16 0 0 128",
		"0 message 2 0 16 0 0 128", "1 message 3 0 16 0 0 128", "2 take 0 0",
		"0 send 2 0", "0 take 0 0", "0 close 1", "0 take 0 0",
	}, {	/* an observer is full: nobody waits, and no bind is refused */
		"0 maxmsgs 0 1 0", "0 bind 0 0 2 0 0", "0 bind 0 10 2 0 0",
		"0 message 1 0 0 0 0 128",
		"1 message 1 0 16 0 0 128", "2 message 1 0 32 0 0 128", "0 switch 1 2 1 0",
		"0 bind 3 1 1 0 0", "0 close 3", "0 bind 0 0 0 0 0", "0 unbind 0 0 2 0 0",
		"0 take 0 15",
	}, {	/* binds are told of, to one who is full */
		"0 switch 0 2 1 0", "0 bind 3 10 0 0 0", "0 maxmsgs 3 2 0", "0 bind 0 4 1 0 0",
		"0 bind 0 1 1 0 0", "0 bind 0 2 1 0 0", "0 unbind 0 1 1 0 0", "0 close 0",
		"0 take 3 15",
	}, {	/* messages are lost, and it is told */
		"0 switch 0 1 1 0", "0 maxmsgs 0 1 0", "0 bind 0 0 0 0 0",
		"0 message 1 0 0 0 0 128", "0 message 1 0 0 0 0 128", "0 message 1 0 8 0 0 128",
		"0 take 0 0", "0 take 0 0", "0 get 0 6 0",
	}, {	/* one copy only, flagged and not */
		"0 switch 0 0 1 0", "0 bind 0 1 0 0 0", "0 bind 0 1 1 0 0", "0 bind 0 6 0 0 0",
		"0 bind 0 9 0 0 0", "0 message 1 1 1 0 0 128", "0 message 1 2 0 0 0 128",
		"0 unbind 0 9 0 0 0", "0 take 0 15",
	}, {	/* a long message, and two Requests with the same id */
		"0 bind 0 1 1 0 0", "0 message 1 1 7 5000 0 129", "0 message 1 1 7 0 0 128",
		"0 next 0 0", "0 read 0 4096 0 2", "0 read 0 5000 4 2", "0 get 0 2 0", "0 take 0 0",
		"0 abandon 1 0 0", "0 message 0 1 3 1000 0 132",
	}, {	/* all of a sender's slots are set aside */
		"0 bind 0 1 1 0 0", "0 maxmsgs 1 2 0", "0 message 1 1 1 0 0 128",
		"0 message 1 1 1 0 0 128", "0 message 1 1 1 0 0 128", "0 take 0 0",
		"0 message 0 1 3 0 0 128", "0 message 1 1 1 0 0 128",
	}, {	/* what can never fit is refused, at once and to who sleeps */
		"0 maxmsgs 0 2 0", "0 bind 0 0 0 0 0", "0 bind 0 0 0 0 0",
		"0 message 1 0 0 0 0 128", "1 message 1 0 16 0 0 128",
		"2 message 2 0 16 0 0 128", "0 bind 0 6 0 0 0", "0 maxmsgs 0 1 0",
		"0 message 3 0 16 0 0 128", "0 take 0 15", "0 message 3 0 16 0 0 128",
	}, {	/* a kept message leaves the line, and those behind it go on */
		"0 nonblock 1 1", "0 maxmsgs 0 2 0", "0 bind 0 0 0 0 0", "0 bind 0 9 0 0 0",
		"0 message 3 0 0 0 0 128", "0 message 1 0 16 0 0 128", "1 message 2 1 16 0 0 128",
		"2 message 3 1 16 0 0 128", "0 take 0 0", "0 discard 1", "0 take 0 15",
	}, {	/* a Request that fails for want of a replier frees the slot that others wait for */
		"0 maxmsgs 0 1 0", "0 bind 0 0 0 0 0", "1 message 1 0 16 0 0 128",
		"2 message 2 0 16 0 0 128", "0 message 0 1 1 0 0 128", "0 take 0 0",
		"0 message 0 1 1 0 0 128", "0 take 0 0", "0 message 0 1 1 0 0 128", "0 take 0 0",
	}, {	/* a descriptor travels, and its KSock closes on the way */
		"0 bind 0 1 1 0 0", "0 message 1 1 1 0 0 128", "0 pass 0 4 0", "1 pass 1 5 3",
		"0 take 5 0", "0 pass 5 4 2",
	},
};

/* Those that cost much, or disturb others */
static const char * const rare_recipes[][RECIPE_OPS] = {
	{	/* more unbinds by a close than can be told of */
		"0 switch 3 2 0 0", "0 crowd 0 25 1", "0 crowd 1 25 1", "0 crowd 3 25 0",
		"0 bind 2 11 0 0 0", "0 maxmsgs 3 1 0", "0 switch 3 2 1 0", "0 close 0",
		"0 close 1", "0 switch 3 2 0 0", "0 take 3 15", "0 read 3 65536 0 0",
		"0 close 3",
	}, {	/* the user's bytes are used up, by a message that nobody reads */
		"0 bind 0 0 0 0 0", "0 message 1 0 0 3000 0 128", "1 message 2 0 16 3000 0 0",
		"1 limit 0 100", "1 send 2 0", "0 message 1 0 32 500 0 128", "2 take 0 0",
		"0 bind 3 0 1 0 0", "2 limit 0 1000000",
	}, {	/* answers find no room in the queue, by bytes */
		"0 limit 1 2", "0 bind 0 1 1 0 0", "0 message 1 1 1 0 0 128",
		"0 message 1 1 1 0 0 128", "0 message 1 1 1 0 0 128", "0 take 0 0",
		"0 message 0 1 3 300 0 128", "0 take 0 0", "0 message 0 1 3 300 0 128",
		"0 message 0 1 3 0 0 128", "0 take 0 0", "0 transfer 0 1 3 300 0 128",
		"0 take 1 15", "0 limit 1 1000000",
	}, {	/* answers find no room in what their user may have */
		"0 bind 0 1 1 0 0", "0 message 1 1 1 0 0 128", "0 message 1 1 1 0 0 128",
		"0 take 0 0", "0 take 0 0", "0 bind 3 0 0 0 0", "0 message 3 0 0 5000 0 128",
		"0 limit 0 40", "0 message 0 1 4 4000 0 128", "0 message 0 1 3 0 0 128",
		"1 take 3 15", "0 limit 0 1000000", "0 take 1 15",
	}, {	/* many wait, and then nobody is there to wait for */
		"0 maxmsgs 0 1 0", "0 bind 0 0 0 0 0", "0 message 1 0 0 0 0 128",
		"0 swarm 0 25 0 0", "0 swarm 0 25 0 1", "1 message 2 0 16 0 0 128",
		"0 swarm 0 25 0 2", "0 take 0 0", "0 take 0 0", "0 close 0",
	}, {	/* many wait, and room comes in large steps and for bytes */
		"0 maxmsgs 0 1 0", "0 bind 0 0 0 0 0", "0 message 1 0 0 0 0 128",
		"0 swarm 0 25 0 1", "0 swarm 0 25 0 0", "0 limit 1 1", "0 maxmsgs 0 100 0",
		"0 take 0 15", "0 limit 1 1000000", "0 take 0 15", "0 unbind 0 0 0 0 0",
	}, {	/* anybody who may write may set what all share */
		"0 limit 10 1", "0 switch 0 2 1 0", "0 switch 0 3 1 0", "0 switch 0 2 0 0",
		"0 switch 0 3 0 0", "0 limit 10 0", "0 switch 0 2 0 0", "0 maxmsgsize 0 1000 0",
	}, {	/* other limits are reached */
		"0 limit 4 5", "0 open 5 0 2", "0 open 6 1 1", "0 limit 4 1000", "0 limit 3 2",
		"0 bind 0 0 0 0 0", "0 bind 0 0 0 0 0", "0 bind 0 0 1 0 0", "0 limit 3 1000",
		"0 limit 1 2", "0 message 1 0 0 300 0 128", "0 message 1 0 0 300 0 128",
		"0 limit 1 1000000",
	}, {	/* a child sleeps in SEND, and is killed */
		"0 maxmsgs 0 1 0", "0 bind 0 0 0 0 0", "0 message 1 0 0 0 0 128", "1 fork 2 1",
		"1 message 2 0 16 0 0 128", "0 message 3 0 16 0 0 128", "0 take 0 0",
	},
};

/* Add one to a program, with other KSocks and threads each time. */
void recipe_add(struct random *random, struct program *program)
{
	const char * const *recipe = random_chance(random, 90) ?
		recipes[random_below(random, ARRAY_SIZE(recipes))] :
		rare_recipes[random_below(random, ARRAY_SIZE(rare_recipes))];
	uint32_t slots = random_below(random, 4), threads = random_below(random, THREADS);
	unsigned int i, j;

	for (i = 0; i < RECIPE_OPS && recipe[i]; i++) {
		char line[64];
		struct op op;

		snprintf(line, sizeof(line), "%s\n", recipe[i]);
		if (!op_parse(line, &op))
			errx(2, "not an operation: %s", line);
		op.thread = (op.thread + threads) % THREADS;
		for (j = 0; j < ARGS_MAX; j++) {
			if (op_types[op.code].args[j] == ARG_SLOT && op.arg[j] < 4)
				op.arg[j] = (op.arg[j] + slots) % 4;
		}
		program_add(program, &op);
	}
}
