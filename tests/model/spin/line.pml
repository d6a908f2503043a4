/* SPDX-License-Identifier: MIT */
/*
 * Senders that wait for room in a queue (KBUS_BIT_ALL_OR_WAIT), for Spin.
 *
 * The model follows kernel/wait.c. A message waits for one queue at a time. It is in that
 * queue's line while a task sleeps for it in SEND, and kept after EAGAIN or EINTR. settle()
 * decides who may go on; whoever it makes ready runs some time later.
 *
 * 'dev' is the device's lock, which all but readers need. A reader takes only the queue's
 * lock: it pops between any two of the critical sections of a try, each of which is one step
 * here. The bytes of a queue are counted with its slots, under the same lock, and left out.
 *
 * A scenario is chosen with -D:
 *
 *   LINE     one queue; messages of one or two copies; a sender in the default mode, which
 *            ignores the line
 *   LIMITS   one queue, whose MAXMSGS is lowered and raised
 *   UNBIND   one queue; an UNBIND removes copies from it, and messages need one copy less
 *   TWO      two queues; messages for either or both; queue 0 closes
 *   REQUEST  sender 0 owns queue 0 and sends Requests, also to itself; each has a slot set
 *            aside in queue 0, until it fails, is answered, or is abandoned
 *   TASKS    two tasks share KSock 0: one sleeps in SEND; the other discards, writes, sends
 *   WAKES    the list of KSocks to wake (kernel/wake.c) instead of the line
 *
 * In all but WAKES, signals come, and a program sends a message that is kept again, discards
 * it, or forgets it. Spin checks:
 *
 *   stuck    no sender sleeps for ever (else the end state is invalid)
 *   settled  whenever a queue's lock is released: the oldest sleeper of the queue is ready,
 *            or it lacks room; the same holds for each message that is kept. Both are
 *            ready if they can never fit
 *   order    a message takes no room in a queue where an older sleeper waits, or any if the
 *            message has not waited, unless everything that sleeps there still fits
 *   refused  no message waits that can never fit
 *   reason   no sender is woken unless something has changed since its last try
 *   own      no task sleeps for a message that is gone
 *
 * A macro OMIT_... takes one rule out of the model; the test expects Spin to find an error.
 */

#if defined(TWO) || defined(TASKS)
#define LIMIT	1
#else
#define LIMIT	2
#endif
#define SENDERS	3
#define QUEUES	2
#define NONE	3	/* no sender, no queue */

#ifdef WAKES

bit done;		/* waker 2 has done what the sleeper waits for */
byte next;		/* kbus_wake.next: the waker whose list has the KSock, or 0 */
byte events;		/* kbus_wake.events: 1 and 2, of these wakers; the sleeper polls for 2 */
bit queued;		/* the sleeper is in the KSock's wait queue */
bit runs;		/* the sleeper's task state */

proctype waker(byte me)
{
	byte seen;
	bit mine;

	done = done || me == 2;
	if
	:: queued ->				/* kbus_wakes_add() */
		events = events | me;
		atomic {
			if
			:: next == 0 -> next = me; mine = 1
			:: else
			fi
		}
	:: else
	fi;
	if
	:: mine ->				/* kbus_wakes_flush() */
#ifndef OMIT_NEXT_FIRST
		next = 0;
#endif
		atomic { seen = events; events = 0 };
#ifdef OMIT_NEXT_FIRST
		next = 0;
#endif
		if
		:: (seen & 2) && queued -> runs = 1
		:: else
		fi
	:: else
	fi
}

active proctype sleeper()
{
	bit holds;

#ifndef OMIT_QUEUE_FIRST
	queued = 1;
#endif
	do
	:: true ->
#ifdef OMIT_STATE_FIRST
		holds = done;
		runs = 0;
#else
		runs = 0;
		holds = done;
#endif
		if
		:: holds -> break
		:: else -> queued = 1; runs
		fi
	od
}

init { atomic { run waker(1); run waker(2) } }

#else

/* Queues */
byte count[QUEUES];	/* copies that are queued */
byte aside[QUEUES];	/* slots set aside for answers */
byte limit[QUEUES];
bit closing[QUEUES];

/* Messages, one for each KSock that sends */
byte copies[6];		/* that the message needs: [sender * QUEUES + queue] */
bit asks[SENDERS];	/* it is a Request */
byte owed;		/* Requests that were accepted and have no answer */
bit dev;		/* the device's lock */

/* struct kbus_wait */
mtype = { NOWHERE, IN_LINE, IS_KEPT };
mtype list[SENDERS];
byte on[SENDERS];
byte since[SENDERS];	/* place among all that wait, 1 is the oldest, 0 does not wait */
byte asked[SENDERS];	/* kbus_wait.slots */
byte sleepers[SENDERS];
bit ready[SENDERS];

/* Only for the checks */
bit changed[SENDERS];	/* something has, since the last try */
bit unbinding;		/* between an UNBIND and its kbus_waits_retry() */
hidden byte i, first;	/* inside of steps */

#ifdef TASKS
byte serial;		/* kbus_ksock.out_serial of KSock 0; its out_lock is part of 'dev' */
byte asleep_for = NONE;	/* the serial for which the first of its tasks sleeps */
bit written = 1;	/* there is a message */
#define IS_GONE(w)	(w == 0 && serial != mine)
#define IS_THERE(w)	(w != 0 || written)
#define NO_COPIES(w)	skip
#define HAS_REASON(w)	true	/* the other task may have tried */
#else
#define IS_GONE(w)	false
#define IS_THERE(w)	true
#define NO_COPIES(w)	d_step { COPIES(w, 0) = 0; COPIES(w, 1) = 0; asks[w] = 0 }
#define HAS_REASON(w)	changed[w]
#endif
#ifdef OMIT_SERIAL
#define IS_WOKEN(w)	ready[w]
#else
#define IS_WOKEN(w)	(ready[w] || IS_GONE(w))
#endif

#define COPIES(w, q)	copies[(w) * QUEUES + (q)]
#define IS_FOR(w, q)	(COPIES(w, q) > 0 && MAY_GET(q))
#ifdef OMIT_CLOSING
#define MAY_GET(q)	true
#else
#define MAY_GET(q)	!closing[q]
#endif
#define ROOM(q)		(count[q] + aside[q] < limit[q] -> limit[q] - count[q] - aside[q] : 0)

/* kbus_plan_needs(): a Request to oneself needs the slot for its answer, too. */
#define NEEDS(w, q)	(COPIES(w, q) + (IS_FOR(w, q) && (q) == 0 && asks[w]))
#ifdef OMIT_OWN_SLOT
#define ASKS_FOR(w, q)	COPIES(w, q)
#else
#define ASKS_FOR(w, q)	NEEDS(w, q)
#endif

/* kbus_wait_is_held_up() */
#define LINED(v, q)	(list[v] == IN_LINE && on[v] == (q))
#define HAS_LINE(q)	(LINED(0, q) || LINED(1, q) || LINED(2, q))
#define OLDER(v, w)	((v) != (w) && since[v] && (!since[w] || since[v] < since[w]))
#ifdef OMIT_LINE
#define BLOCKS(v, w, q)	false
#else
#define BLOCKS(v, w, q)	(LINED(v, q) && OLDER(v, w))
#endif
#define IS_BLOCKED(w, q) (BLOCKS(0, w, q) || BLOCKS(1, w, q) || BLOCKS(2, w, q))

/* kbus_wait_fits(), kbus_wait_may_go_on() */
#define OF_LINE(v, w, q) ((v) != (w) && LINED(v, q) -> asked[v] : 0)
#ifdef OMIT_ALL_FIT
#define LINE_SLOTS(w, q) 0
#else
#define LINE_SLOTS(w, q) (OF_LINE(0, w, q) + OF_LINE(1, w, q) + OF_LINE(2, w, q))
#endif
#define FITS(w, q, slots) ((slots) + (IS_BLOCKED(w, q) -> LINE_SLOTS(w, q) : 0) <= ROOM(q))
#ifdef OMIT_REFUSAL
#define NEVER(slots, q)	false
#else
#define NEVER(slots, q)	((slots) > limit[q])
#endif
#define MAY_GO_ON(w, q)	(FITS(w, q, asked[w]) || NEVER(asked[w], q))
#define IS_FIRST(w, q)	(LINED(w, q) && !(LINED(0, q) && OLDER(0, w)) && \
			 !(LINED(1, q) && OLDER(1, w)) && !(LINED(2, q) && OLDER(2, w)))
#define FIRST(q)	(IS_FIRST(0, q) -> 0 : (IS_FIRST(1, q) -> 1 : (IS_FIRST(2, q) -> 2 : NONE)))

/*
 * The checks say the same in other words: they look at whether a task sleeps, not at the
 * list that the message is in.
 */
#define SLEEPS(v, q)	(since[v] && on[v] == (q) && sleepers[v])
#define IN_FRONT(v, w, q) (SLEEPS(v, q) && OLDER(v, w))
#define FOLLOWS(w, q)	(IN_FRONT(0, w, q) || IN_FRONT(1, w, q) || IN_FRONT(2, w, q))
#define SLEEPING(v, w, q) (v != w && SLEEPS(v, q) -> asked[v] : 0)
#define ALL_SLEEPING(w, q) (SLEEPING(0, w, q) + SLEEPING(1, w, q) + SLEEPING(2, w, q))
#define CAN_GO_ON(w, q)	(NEEDS(w, q) <= ROOM(q) || NEEDS(w, q) > limit[q])
#define COULD_PASS(w, q) (NEEDS(w, q) + ALL_SLEEPING(w, q) <= ROOM(q) || NEEDS(w, q) > limit[q])
#define IS_SETTLED(w, q) (!since[w] || on[w] != (q) || ready[w] || (unbinding && w == 0) || \
			  (FOLLOWS(w, q) -> (sleepers[w] && NEEDS(w, q) <= limit[q]) || !COULD_PASS(w, q) : \
			   !CAN_GO_ON(w, q)))

/* kbus_line_settle() */
inline settle(q) {
	d_step {
		first = FIRST(q);
		if
		:: first != NONE && MAY_GO_ON(first, q) -> ready[first] = 1
		:: else
		fi;
		i = 0;
		do
		:: i == SENDERS -> break
		:: else ->
			if
			:: LINED(i, q) && !ready[i] && NEVER(asked[i], q) -> ready[i] = 1
			:: list[i] == IS_KEPT && on[i] == q && MAY_GO_ON(i, q) ->
				list[i] = NOWHERE;
				ready[i] = 1;
#ifdef OMIT_ALL_KEPT
				break
#endif
			:: else
			fi;
			i++
		od
	}
}

inline unlock(q) {
	assert(IS_SETTLED(0, q) && IS_SETTLED(1, q) && IS_SETTLED(2, q)) /* settled */
}

inline change() {
	d_step { changed[0] = 1; changed[1] = 1; changed[2] = 1 }
}

/* kbus_wait_leave() */
inline leave(w) {
	from = on[w];
	on[w] = NONE;
	list[w] = NOWHERE;
	change();
#ifndef OMIT_LEAVE
	settle(from);
#endif
	unlock(from);
	from = 0
}

/* kbus_wait_end() */
inline end_wait(w) {
	if
	:: since[w] ->
		if
		:: on[w] != NONE -> leave(w)
		:: else
		fi;
		since[0] = since[0] - (since[0] > since[w]);
		since[1] = since[1] - (since[1] > since[w]);
		since[2] = since[2] - (since[2] > since[w]);
		since[w] = 0;
		asked[w] = 0;
		ready[w] = 1
	:: else
	fi
}

/* kbus_wait_wakes_up() */
inline wake_up(w) {
	sleepers[w]--;
	if
	:: sleepers[w] == 0 && on[w] != NONE ->
#ifdef OMIT_READY_LEAVES
		list[w] = (!ready[w] -> IS_KEPT : list[w]);
#else
		list[w] = (!ready[w] -> IS_KEPT : NOWHERE);
#endif
		change();
#ifndef OMIT_WAKE_UP
		settle(on[w]);
#endif
		unlock(on[w])
	:: else
	fi
}

mtype = { OK, AGAIN, REFUSED, NO_MESSAGE };

/* kbus_wait_begin(), and the second time that kbus_wait_try() takes the queue's lock */
inline join(w, q) {
	assert(!closing[q]);
	on[w] = q;
	if
	:: sleep && !is_sleeper -> is_sleeper = 1; sleepers[w]++
	:: else
	fi;
	if
	:: !since[w] -> since[w] = (since[0] > 0) + (since[1] > 0) + (since[2] > 0) + 1
	:: else
	fi;
	asked[w] = ASKS_FOR(w, q);
#ifndef OMIT_NOT_READY
	ready[w] = 0;
#endif
#ifdef OMIT_KEPT
	list[w] = IN_LINE;
#else
	list[w] = (sleepers[w] -> IN_LINE : IS_KEPT);
#endif
#ifndef OMIT_JOIN
	settle(q);
#endif
	unlock(q)
}

#define MIN(a, b)	((a) < (b) -> (a) : (b))
#define IS_HOPELESS(w, q) (IS_FOR(w, q) && NEVER(ASKS_FOR(w, q), q))

/* kbus_send_try(), once the device's lock is there; nobody else can tell one step from two. */
inline plan(w) {
	result = OK;
	changed[w] = 0;
#ifdef REQUEST
	if
	:: asks[w] && ROOM(0) > 0 -> aside[0]++; slot = 1
	:: asks[w] && ROOM(0) > 0 -> aside[0]++; slot = 1; result = REFUSED	/* no replier */
	:: asks[w] && ROOM(0) == 0 -> result = REFUSED
	:: else
	fi;
#endif
	taken[0] = MIN(ROOM(0), COPIES(w, 0));
	taken[1] = MIN(ROOM(1), COPIES(w, 1))
}

/* The first time that kbus_wait_try() takes the queue's lock */
inline look(w, q) {
	if
	:: !IS_FOR(w, q) || (!HAS_LINE(q) && taken[q] == COPIES(w, q))
	:: else ->
		if
		:: taken[q] == COPIES(w, q) && FITS(w, q, COPIES(w, q))
		:: else -> result = AGAIN
		fi
	fi
}

/* kbus_queue_push() */
inline push(w, q) {
	if
	:: IS_FOR(w, q) ->
		assert(COPIES(w, q) <= ROOM(q));
		assert(!FOLLOWS(w, q) || COPIES(w, q) + ALL_SLEEPING(w, q) <= ROOM(q)); /* order */
		count[q] = count[q] + COPIES(w, q);
		unlock(q)
	:: else
	fi
}

/* The rest of kbus_send_try() */
inline try(w) {
	do
	:: result == OK && q < QUEUES ->
		atomic {
			look(w, q);
			if
			:: result == OK -> q++
			:: else
			fi
		}
	:: else -> break
	od;
	if
	:: result == AGAIN ->
		if
		:: on[w] != NONE && on[w] != q -> atomic { leave(w) }
		:: else
		fi;
		atomic {
			join(w, q);
			if
			:: IS_HOPELESS(w, 0) || IS_HOPELESS(w, 1) -> result = REFUSED
			:: else -> assert(NEEDS(w, 0) <= limit[0] && NEEDS(w, 1) <= limit[1]) /* refused */
			fi
		}
	:: result == OK ->
		atomic { push(w, 0) };
		atomic { push(w, 1) }
	:: else
	fi;
	atomic {
		q = 0;
		taken[0] = 0;
		taken[1] = 0;
		if
		:: slot && result == OK -> owed++
		:: slot && result != OK ->	/* kbus_queue_release_slot() */
			aside[0]--;
#ifndef OMIT_RELEASE
			settle(0);
#endif
			unlock(0)
		:: else
		fi;
		slot = 0
	}
}

/* What follows the last try of SEND, or DISCARD, or a close; the device's lock is held. */
inline finish(w, dropped) {
	atomic {
		if
		:: dropped ->
			end_wait(w);
#ifdef TASKS
			if
			:: w == 0 -> serial++; written = 0
			:: else
			fi;
#endif
			changed[w] = 1
		:: else
		fi
	}
	atomic {
		if
#ifdef OMIT_GONE
		:: is_sleeper && result != NO_MESSAGE -> wake_up(w)
#else
		:: is_sleeper -> wake_up(w)
#endif
		:: else
		fi;
		is_sleeper = 0;
		sleep = 0;
		signals = 0;
		signalled = 0;
		dev = 0
	}
}

/* SEND; the device's lock is held. */
inline send(w) {
	do
	:: try(w);
		atomic {
			if
			:: result != AGAIN || !sleep -> break
			:: else
			fi;
#ifdef TASKS
			mine = serial;
			asleep_for = (w == 0 -> serial : asleep_for);
#endif
			dev = 0
		}
		/* kbus_send_sleep() */
		atomic {
			if
			:: !dev && IS_WOKEN(w) -> assert(HAS_REASON(w)) /* reason */
			:: !dev && signals -> signalled = 1
			fi;
			dev = 1;
#ifdef TASKS
			asleep_for = (w == 0 -> NONE : asleep_for);
#endif
			if
			:: IS_GONE(w) -> result = NO_MESSAGE; break
			:: !IS_GONE(w) && signalled -> break
			:: else -> plan(w)
			fi
		}
	od;
	finish(w, result == OK || result == REFUSED)
}

inline choose(w) {
	if
#if defined(LINE) || defined(LIMITS) || defined(UNBIND) || defined(TASKS)
	:: w == 1 -> COPIES(w, 0) = LIMIT
	:: w != 1 -> COPIES(w, 0) = 1
#endif
#if defined(UNBIND)
	:: w == 0 -> COPIES(w, 0) = 2
#endif
#if defined(TWO)
	:: COPIES(w, w == 1) = 1
	:: w < 2 -> COPIES(w, 0) = 1; COPIES(w, 1) = 1
#endif
#if defined(REQUEST)
	:: w == 0 -> asks[w] = 1; COPIES(w, 0) = 1
	:: w == 0 -> asks[w] = 1; COPIES(w, 1) = 1
	:: w != 0 -> COPIES(w, 0) = w
#endif
	fi
}

/* A task that sends one message */
proctype sender(byte w)
{
	byte q, from, mine, taken[QUEUES];
	mtype result;
	bit slot, sleep, is_sleeper, signals, signalled;

	result = AGAIN;
end:	/* A message that is kept: the program may do all this at any time, or nothing. */
	do
	:: result != AGAIN -> break
	:: atomic { !dev && result == AGAIN ->
		dev = 1;
		assert(!since[w] || !ready[w] || HAS_REASON(w)); /* reason */
		if
		:: sleep = 1
		:: w < 2 -> sleep = 1; signals = 1
		:: true		/* O_NONBLOCK */
		fi;
		if
		:: !IS_THERE(w) -> result = NO_MESSAGE
		:: IS_THERE(w) -> plan(w)
		:: since[w] -> result = REFUSED	/* DISCARD, or a close */
		fi };
		send(w)
	od;
	result = 0;
	NO_COPIES(w)
}


proctype reader(byte q)
{
end:	do
	:: atomic { count[q] > 0 && !closing[q] ->
		count[q]--;
		change();
#ifndef OMIT_POP
		settle(q);
#endif
		unlock(q) }
	od
}

/* Each of these steps is one for whoever needs the device's lock. */
#if defined(LINE) || defined(REQUEST)
/* Sends one copy in the default mode. */
proctype newcomer(byte q)
{
	atomic {
		!dev;
		if
		:: ROOM(q) > 0 -> count[q]++
		:: else
		fi;
		unlock(q)
	}
}
#endif

#ifdef LIMITS
/* kbus_queue_resize() */
inline resize(to) {
	atomic {
		!dev;
		limit[0] = to;
		change();
#ifndef OMIT_RESIZE
		settle(0);
#endif
		unlock(0)
	}
}

proctype resizer()
{
	resize(1);
	resize(2)
}
#endif

#ifdef UNBIND
/* kbus_unbind() */
proctype unbinder()
{
	atomic {
		!dev;
		copies[0] = copies[0] - (copies[0] > 0);	/* no other message matches the name */
		unbinding = 1;
		if
		:: count[0] > 0 -> count[0]--
		:: count[0] > 1 -> count[0] = count[0] - 2
		:: true
		fi;
		change();
#ifndef OMIT_UNBIND
		settle(0);
#endif
		unlock(0)
	};
	atomic {
		!dev;
#ifndef OMIT_RETRY
		if
		:: on[0] == 0 && !ready[0] ->
			ready[0] = 1;
			list[0] = (list[0] == IN_LINE -> IN_LINE : NOWHERE)
		:: else
		fi;
#endif
		change();
		unbinding = 0;
		unlock(0)
	}
}
#endif

#ifdef TWO
/* Queue 0 closes: kbus_waits_end(). Nobody reads it any more. */
proctype closer()
{
	atomic {
		!dev;
		closing[0] = 1;
		i = 0;
		do
		:: i == SENDERS -> break
		:: else ->
			if
#ifndef OMIT_CLOSE
			:: since[i] && on[i] == 0 ->
				list[i] = NOWHERE;
				ready[i] = 1;
				on[i] = NONE
#endif
			:: else
			fi;
			i++
		od;
		change()
	}
}
#endif

#ifdef REQUEST
/* A Request is answered in the slot that was set aside for it, or abandoned. */
proctype answerer()
{
end:	do
	:: atomic { owed > 0 && !dev ->
		owed--;
		aside[0]--;
		change();
		if
		:: count[0]++	/* kbus_queue_push() */
		:: true		/* kbus_queue_release_slot() */
		fi;
#ifndef OMIT_ANSWER
		settle(0);
#endif
		unlock(0) }
	od
}
#endif

#ifdef TASKS
/* Another task with KSock 0, which does not sleep */
proctype other(byte w)
{
	byte q, from, mine, taken[QUEUES], left = 3;
	mtype result;
	bit slot, sleep, is_sleeper, signals, signalled;

	do
	:: left == 0 -> break
	:: atomic { !dev && left ->
		dev = 1;
		left--;
		if
		:: result = REFUSED	/* DISCARD */
		:: !written -> written = 1; result = NO_MESSAGE
		:: written -> plan(w)
		fi };
		send(w);
		assert(asleep_for == NONE || asleep_for == serial || IS_WOKEN(0)) /* own */
	od
}
#endif

init {
	d_step {
		change();
		on[0] = NONE; on[1] = NONE; on[2] = NONE;
		list[0] = NOWHERE; list[1] = NOWHERE; list[2] = NOWHERE;
		limit[0] = LIMIT;
		limit[1] = 1;
#ifndef REQUEST
		count[0] = LIMIT
#endif
	}
	atomic {
		choose(0);
		choose(1);
#if defined(TASKS)
		run other(0);
#elif !defined(UNBIND)
		choose(2);
		run sender(2);
#endif
		run sender(0);
		run sender(1);
		run reader(0);
#if defined(TWO) || defined(REQUEST)
		run reader(1);
#endif
#if defined(LINE)
		run newcomer(0);
#endif
#ifdef REQUEST
		run newcomer(1);
		run answerer();
#endif
#ifdef LIMITS
		run resizer();
#endif
#ifdef UNBIND
		run unbinder();
#endif
#ifdef TWO
		run closer();
#endif
	}
}
#endif
