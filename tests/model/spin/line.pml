/* SPDX-License-Identifier: MIT */
/*
 * The line of senders that wait for room in a queue (KBUS_BIT_ALL_OR_WAIT), for Spin.
 *
 * The model has what decides who is woken: two queues with their limits, their
 * slots set aside for answers and their lines; three KSocks that send; and
 * settle(), which is called with the queue's lock held after each change of
 * anything that it looks at. A lock is dropped between the steps of a try, as in
 * the kernel: dev is the device's lock, which a try holds from its begin to its
 * end; readers and limits take only the lock of their queue. Whoever is made
 * ready runs some time later: anything can happen in between.
 *
 * A scenario is chosen with -D, as all of them at once have too many states:
 *
 *   LINE     one queue, messages of one or two copies; signals; kept messages
 *            that are sent again, dropped or forgotten; a sender in the default
 *            mode, which heeds no line
 *   LIMITS   the same without that sender; the queue's limit is lowered and raised
 *   REFILL   a try that lets go of the device to find memory, and begins again
 *   TWO      messages for one queue, for the other, or for both
 *   REQUEST  a KSock sends Requests, to others and to itself; each has a slot
 *            set aside in its own queue, to which others send too
 *   CLOSE    a queue closes, with more in its line than are woken in one go
 *   BYTES    two queues of one user, who has less memory than they could hold
 *   TURN     a sender whose turn it is gets no processor for a while, or never, and loses
 *            its turn: its user is tardy until that is forgotten. Two of the senders
 *            are of one user. The queue is full at the beginning. With -DSIGNALS
 *            messages are kept, too, which has ten times as many states
 *   TASKS    two tasks with one KSock: one sleeps in SEND, the other drops its
 *            message and sends another
 *
 * What is checked, besides that nobody is left asleep for ever (an invalid end
 * state; readers read for ever, whatever else stops, also whoever has its turn):
 *
 *   settled  at each release of a queue's lock: whoever is first of those asleep
 *            in its line, or in front of it with a message that was kept, is
 *            ready if what it needs fits, or can never fit. In the second line, of
 *            tardy users, so is the first one if nobody asleep in the other line
 *            is in front of it
 *   order    nobody takes room in a queue in whose line somebody is asleep who
 *            began to wait earlier, unless it leaves room for all of these; but for
 *            the LIMITS, where whoever lowers the limit may take that room. Whoever
 *            is asleep and of a user that was tardy when room was looked for may be
 *            overtaken, but by no other of those
 *   reason   nobody is woken if nothing has changed since it tried last: it
 *            would try for ever
 *   own      whoever sleeps in SEND sleeps for the message that is kept now
 *
 * A macro OMIT_... takes one rule out. The test sees that Spin then finds an
 * error, for each of them.
 */

#define SENDERS	3
#define QUEUES	2
#define NONE	3	/* no sender, no queue */

#ifdef LINE
#define FILLER
#define SIGNALS
#endif
#ifdef LIMITS
#define SIGNALS
#endif
#ifdef TWO
#define SIGNALS
#endif
#ifdef CLOSE
#define SIGNALS
#endif
#ifdef REQUEST
#define FILLER
#endif
#ifdef BYTES
#define BUDGET	3	/* bytes of memory that the user of both queues may have */
#endif

/* Queues */
byte count[QUEUES];	/* copies that are queued */
byte aside[QUEUES];	/* slots for answers */
byte limit[QUEUES];
bit gone[QUEUES];

/* The message of each KSock that sends, and how it waits */
byte need[6];		/* copies at each queue: need[sender * QUEUES + queue] */
bit asks[SENDERS];	/* it is a Request; only that of sender 0, whose queue is queue 0 */
bit may_wait[SENDERS];	/* ALL_OR_WAIT */
byte since[SENDERS];	/* place among all that wait, 1 is the earliest; 0 if it does not wait */
byte on[SENDERS];	/* the queue in whose line it is or was last, or NONE; dev */
bit lined[SENDERS];	/* it is in that line; the queue's lock */
bit sleeps[SENDERS];	/* a task is in SEND for it */
bit ready[SENDERS];
bit dev;

/* Only for what is checked */
bit changed[SENDERS];	/* something has, since the last try */
#ifdef TASKS			/* not of this task, maybe */
#define HAS_REASON(w)	true
#else
#define HAS_REASON(w)	changed[w]
#endif
byte waits_for[SENDERS];/* the queue in whose line it was last, until the message is gone */

#ifdef TURN
#define USER(w)		((w) == 2)	/* 0 and 1 are of the same user */
bit tardy_user[2];	/* it has lost a turn; the lock of queue 0, as for: */
bit is_tardy[SENDERS];	/* its user was tardy when it looked for room: it heeds both lines */
bit second[SENDERS];	/* if it is in a line, that is the second one, of tardy users */
byte looks = NONE;	/* it has looked for room, and its try goes on; dev */
bit was_tardy[2];	/* the users that were tardy then; only for what is checked */
#define SECOND(w)	second[w]
#define TRIES(w)	(looks == w)
#else
#define SECOND(w)	false
#define TRIES(w)	false
#endif

byte owed;		/* Requests that have been sent and have no answer */

#ifdef TASKS
byte serial;		/* of the message of sender 0 */
byte asleep_for = NONE;	/* the serial that its first task sleeps for */
#ifdef OMIT_SERIAL
#define WOKEN(w)	ready[w]
#else
#define WOKEN(w)	(ready[w] || (w == 0 && serial != asleep_for))
#endif
#else
#define WOKEN(w)	ready[w]
#endif

#ifdef BYTES
byte used;		/* of the user's memory */
byte size[QUEUES];	/* of the one copy that is queued */
byte bytes[SENDERS];	/* of the message */
bit starving[QUEUES];	/* the user's list of queues whose line waits for its memory */
bit work;		/* the work item is scheduled */
bit working[QUEUES];	/* it is about to settle this queue */
bit held[QUEUES];
#define HAS_BYTES(w, q)	(used + COPIES(w, q) * bytes[w] <= BUDGET)
/* Other queues' readers change what is looked at here, so each step is one. */
#define CRITICAL	{
#define LOCK(q)		atomic { !held[q] -> held[q] = 1 }
#define BRIEF(q)	atomic { !held[q];
#define STEP		{
#else
#define CRITICAL	atomic {
#define LOCK(q)		skip
#define BRIEF(q)	atomic {
#define HAS_BYTES(w, q)	true
#define STEP		d_step {
#endif

#define COPIES(w, q)	need[(w) * QUEUES + (q)]
#define ROOM(q)		(count[q] + aside[q] < limit[q] -> limit[q] - count[q] - aside[q] : 0)
/* A Request's own slot, where it is in the queue that is asked for */
#ifdef OMIT_OWN_SLOT
#define NEEDS(w, q)	COPIES(w, q)
#else
#define NEEDS(w, q)	(COPIES(w, q) + ((q) == 0 && asks[w]))
#endif
#ifdef OMIT_REFUSAL
#define NEVER(w, q)	false
#else
#define NEVER(w, q)	(NEEDS(w, q) > limit[q])
#endif
#define FITS(w, q)	(NEEDS(w, q) <= ROOM(q) && HAS_BYTES(w, q))
#ifdef OMIT_FIT		/* whoever was told EAGAIN is told of any room */
#define FITS_KEPT(w, q)	(ROOM(q) > 0)
#else
#define FITS_KEPT(w, q)	FITS(w, q)
#endif
#define MAY_TRY(w, q)	(NEVER(w, q) || (sleeps[w] && FITS(w, q)) || (!sleeps[w] && FITS_KEPT(w, q)))
#define IN_PLACE(n)	(since[0] == (n) -> 0 : (since[1] == (n) -> 1 : (since[2] == (n) -> 2 : NONE)))
#define IN_LINE(w, q)	(on[w] == q && lined[w])
#define HAS(n, q)	(IN_PLACE(n) != NONE && IN_LINE(IN_PLACE(n), q))
/* The next place in the line after that one, or one more than there are */
#define NEXT_IN_LINE(n, q) ((n) < 1 && HAS(1, q) -> 1 : ((n) < 2 && HAS(2, q) -> 2 : ((n) < 3 && HAS(3, q) -> 3 : 4)))
#define IN_FRONT(v, w)	(v != w && since[v] && (!since[w] || since[v] < since[w]))
#ifdef TURN
#define HEEDS(w, v)	(!second[v] || is_tardy[w])
#else
#define HEEDS(w, v)	true
#endif
#define HOLDS_UP(v, w, q) (IN_FRONT(v, w) && IN_LINE(v, q) && sleeps[v] && HEEDS(w, v))
#define IS_BEHIND(w, q)	(HOLDS_UP(0, w, q) || HOLDS_UP(1, w, q) || HOLDS_UP(2, w, q))

/* Whoever does not wait for the queue yet goes past its line if there is room for all. */
#define LINED(v, w, q, needs) (v != w && IN_LINE(v, q) && sleeps[v] && HEEDS(w, v) -> needs : 0)
#define LINE_NEEDS(w, q) (LINED(0, w, q, NEEDS(0, q)) + LINED(1, w, q, NEEDS(1, q)) + \
			  LINED(2, w, q, NEEDS(2, q)))
#ifdef BYTES
#define BYTES_OF(v, q)	(COPIES(v, q) * bytes[v])
#define LINE_BYTES(w, q) (LINED(0, w, q, BYTES_OF(0, q)) + LINED(1, w, q, BYTES_OF(1, q)) + \
			  LINED(2, w, q, BYTES_OF(2, q)))
#define HAS_BYTES_FOR_ALL(w, q) (used + BYTES_OF(w, q) + LINE_BYTES(w, q) <= BUDGET)
#else
#define HAS_BYTES_FOR_ALL(w, q)	true
#endif
#define MAY_PASS(w, q)	(on[w] != q && COPIES(w, q) + LINE_NEEDS(w, q) <= ROOM(q) && HAS_BYTES_FOR_ALL(w, q))

#if defined(LIMITS)
#define OVERTAKEN(v, w, q) 0
#elif defined(TURN)
#define MAY_OVERTAKE(w, v) (was_tardy[USER(v)] && !(sleep && was_tardy[USER(w)]))
#define OVERTAKEN(v, w, q) (IN_FRONT(v, w) && waits_for[v] == q && lined[v] && sleeps[v] && \
			    !MAY_OVERTAKE(w, v) -> NEEDS(v, q) : 0)
#else
#define OVERTAKEN(v, w, q) (IN_FRONT(v, w) && waits_for[v] == q && sleeps[v] -> NEEDS(v, q) : 0)
#endif

#if defined(OMIT_STARVING_KEPT)
#define MAY_STARVE(w)	sleeps[w]
#elif defined(OMIT_STARVING_LATER)
#define MAY_STARVE(w)	joins
#else
#define MAY_STARVE(w)	true
#endif

/*
 * May w try again? If that fails for want of the user's memory, put the queue on
 * the user's list first, and look once more after that.
 */
#ifdef BYTES
inline look_in_line(w, q) {
#ifdef OMIT_LOOK_ONCE
	if
	:: MAY_TRY(w, q) -> fits = 1; wants_bytes = 0
	:: else -> wants_bytes = !HAS_BYTES(w, q)
	fi;
#else
	d_step { fits = MAY_TRY(w, q); wants_bytes = !HAS_BYTES(w, q) };
#endif
	if
	:: !fits && wants_bytes && MAY_STARVE(w) ->
		starving[q] = 1;
#ifndef OMIT_RECHECK
		fits = MAY_TRY(w, q)
#endif
	:: else
	fi;
	wants_bytes = 0
}
#else
inline look_in_line(w, q) {
	fits = MAY_TRY(w, q)
}
#endif

#ifdef TURN
/* Whoever is first in the line goes to the second one if its user is tardy. */
inline move_tardy(q) {
	place = NEXT_IN_LINE(0, q);
	do
	:: place > SENDERS -> break
	:: else ->
		who = IN_PLACE(place);
		if
		:: sleeps[who] && !second[who] && !tardy_user[USER(who)] -> break
		:: sleeps[who] && !second[who] && tardy_user[USER(who)] ->
			second[who] = 1;
			is_tardy[who] = 1
		:: else
		fi;
		place = NEXT_IN_LINE(place, q)
	od
}
#endif

/* Somebody asleep in the second line is in front of w, which is in that too, or heeds it. */
#define BEHIND_SECOND(w) (later && (sleeps[w] -> second[w] : is_tardy[w]))

/* The one place that decides; the queue's lock is held. */
inline settle(q) {
	STEP
#if defined(TURN) && !defined(OMIT_TARDY_MOVE)
		move_tardy(q);
#endif
		place = NEXT_IN_LINE(0, q);
		do
		:: place > SENDERS -> break
		:: else ->
			who = IN_PLACE(place);
			look_in_line(who, q);
#ifdef TURN
#ifdef OMIT_SECOND
			fits = fits && !(sleeps[who] && second[who]);
#else
			fits = fits && !BEHIND_SECOND(who);
#endif
			later = later || (sleeps[who] && second[who]);
#endif
			if
			:: fits -> ready[who] = 1
			:: else
			fi;
#ifndef OMIT_KEPT_PASS
			if
			:: sleeps[who] && !SECOND(who) -> break
			:: else
			fi;
			if
			:: fits && !sleeps[who] -> lined[who] = 0
			:: else
			fi;
			place = NEXT_IN_LINE(place, q)
#else
			break
#endif
		od;
		place = 0; who = 0; fits = 0
#ifdef TURN
		; later = 0
#endif
	}
}

/* Without 'settle' a line may only be left as it is if the work item comes to it. */
#ifdef BYTES
#define IS_COMING(q)	(starving[q] || working[q] || work)
#else
#define IS_COMING(q)	false
#endif
#ifdef TURN
#define NOT_IN_TURN(w) BEHIND_SECOND(w)
#else
#define NOT_IN_TURN(w) false
#endif
#define CAN_GO_ON(w, q)	((NEEDS(w, q) <= ROOM(q) && HAS_BYTES(w, q)) || NEEDS(w, q) > limit[q])

/* Let go of the queue's lock. Something may have changed for all but 'me'. */
inline unlock(q, me) {
	d_step {
		place = NEXT_IN_LINE(0, q);
		do
		:: place > SENDERS -> break
		:: else ->
			who = IN_PLACE(place);
			assert(ready[who] || !CAN_GO_ON(who, q) || NOT_IN_TURN(who) || TRIES(who) ||
			       gone[q] || IS_COMING(q)); /* settled */
			if
			:: sleeps[who] && !SECOND(who) -> break
			:: else
			fi;
#ifdef TURN
			later = later || sleeps[who];
#endif
			place = NEXT_IN_LINE(place, q)
		od;
		changed[0] = (changed[0] || me != 0);
		changed[1] = (changed[1] || me != 1);
		changed[2] = (changed[2] || me != 2);
		place = 0; who = 0;
#ifdef TURN
		later = 0;
#endif
#ifdef BYTES
		held[q] = 0
#endif
	}
}

#define PLACES_TAKEN	((since[0] > 0) + (since[1] > 0) + (since[2] > 0))

inline begin(w) {
	if
	:: since[w] == 0 -> since[w] = PLACES_TAKEN + 1
	:: else
	fi
}

/* Leave a line for another one. */
inline leave(w) {
	CRITICAL
		from = on[w];
		LOCK(from);
		lined[w] = 0;
#ifndef OMIT_MOVE
		settle(from);
#endif
		unlock(from, w);
		on[w] = NONE;
		from = 0
	}
}

#ifdef TURN
/* Is w to heed the second line? Decided at each look for room, with the queue's lock held. */
inline look_at_user(w) {
#ifndef OMIT_TARDY_LOOK
	is_tardy[w] = sleep && tardy_user[USER(w)];
#endif
	looks = w;
	was_tardy[0] = tardy_user[0];
	was_tardy[1] = tardy_user[1]
}

inline end_look() {
	looks = NONE;
	was_tardy[0] = 0;
	was_tardy[1] = 0
}
#endif

#define FOLLOWS(v, w)	(since[w] && since[v] > since[w])

/* The wait of w is over. */
inline forget(w) {
	d_step {
#ifndef BYTES	/* where each sends but once, and lines are gone through meanwhile */
		since[0] = since[0] - FOLLOWS(0, w);
		since[1] = since[1] - FOLLOWS(1, w);
		since[2] = since[2] - FOLLOWS(2, w);
		since[w] = 0;
#endif
		waits_for[w] = NONE;
#ifdef TURN
		is_tardy[w] = 0;
		second[w] = 0;
		end_look();
#endif
		/* Whoever polls, or sleeps for the message that is gone */
		ready[w] = 1;
#ifdef TASKS
		serial = serial + (w == 0)
#endif
	}
}

#if defined(OMIT_DROP)
#define NOT_OMITTED(dropped)	!dropped
#elif defined(OMIT_END)
#define NOT_OMITTED(dropped)	dropped
#else
#define NOT_OMITTED(dropped)	true
#endif

#ifdef OMIT_NO_SLEEPERS
#define AWAKE(w)	skip
#else
#define AWAKE(w)	sleeps[w] = 0
#endif

/* The message of w has been sent, refused or dropped. */
inline finish(w, dropped) {
	CRITICAL
		from = on[w];
		if
		:: from == NONE -> AWAKE(w)
		:: else ->
			atomic {
				LOCK(from);
				lined[w] = 0;
				AWAKE(w)
			};
			if
#ifdef OMIT_DROP
			:: dropped
#endif
#ifdef OMIT_END
			:: !dropped
#endif
			:: NOT_OMITTED(dropped) -> settle(from)
			fi;
			unlock(from, w);
			on[w] = NONE
		fi;
		from = 0;
		forget(w)
	}
}

mtype = { OK, AGAIN, REFUSED };

/* Is there room in q for the message of w, and nobody in front? Its own slot is set aside already. */
inline look(w, q) {
	if
	:: NEVER(w, q) -> result = REFUSED
	:: else ->
		if
#ifdef OMIT_LINE
		:: COPIES(w, q) <= ROOM(q) && HAS_BYTES(w, q) -> result = OK
#else
		:: COPIES(w, q) <= ROOM(q) && HAS_BYTES(w, q) && (!IS_BEHIND(w, q) || MAY_PASS(w, q)) -> result = OK
#endif
		:: else -> result = (may_wait[w] -> AGAIN : REFUSED)
		fi
	fi
}

#define IS_FOR(w, q)	(COPIES(w, q) > 0 && !gone[q])
#define FIRST_QUEUE(w)	(IS_FOR(w, 0) -> 0 : (IS_FOR(w, 1) -> 1 : QUEUES))
#define NEXT_QUEUE(w, q) (q == 0 && IS_FOR(w, 1) -> 1 : QUEUES)

/*
 * SEND's try: one step for all who need the device's lock, which is held. What is
 * seen by nobody else goes with the step before.
 */
inline try(w) {
	atomic {
		result = OK;
		slot = 0;
		changed[w] = 0;
		q = FIRST_QUEUE(w)
	}
#ifdef REQUEST
	if
	:: asks[w] ->
		CRITICAL
			LOCK(0);
			if
			:: ROOM(0) > 0 -> aside[0]++; slot = 1
			:: else -> result = REFUSED
			fi;
			unlock(0, w)
		};
		if
		:: result = REFUSED	/* there is no replier, or no memory */
		:: true
		fi
	:: else
	fi;
#endif
	do
	:: q == QUEUES || result != OK -> break
	:: else ->
		BRIEF(q)
#ifdef TURN
			look_at_user(w);
#endif
			look(w, q);
			unlock(q, w);
			if
			:: result == OK -> q = NEXT_QUEUE(w, q)
			:: result == AGAIN -> begin(w)
			:: else
			fi
		};
		if
		:: result == AGAIN ->
			if
			:: on[w] != NONE && on[w] != q -> leave(w)
			:: else
			fi;
			CRITICAL
				atomic {
				LOCK(q);
#if defined(TURN) && !defined(OMIT_TARDY_AGAIN)
				look_at_user(w);
#endif
#ifndef OMIT_LOOK_AGAIN
				look(w, q);
#endif
				if
				:: result == AGAIN ->
#ifdef TURN
					moves = lined[w] && sleeps[w] && second[w] != is_tardy[w];
					second[w] = is_tardy[w];
					end_look();
#endif
					on[w] = q;
					lined[w] = 1;
					waits_for[w] = q;
#ifndef OMIT_NOT_READY
					ready[w] = 0;
#endif
					sleeps[w] = (sleeps[w] || sleep)
				:: else
				fi
				};
#ifndef OMIT_LOOK_AGAIN
				if
#ifdef TURN
				:: result == AGAIN && moves ->
					moves = 0;
					settle(q)
#else
				:: result == AGAIN ->
					joins = 1;
					settle(q);
					joins = 0
#endif
				:: else
				fi;
#endif
				unlock(q, w);
				if
				:: result == OK -> q = NEXT_QUEUE(w, q)
				:: else
				fi
			}
		:: else
		fi
	od;
	q = FIRST_QUEUE(w);
	do
	:: q == QUEUES || result != OK -> break
	:: else ->
		BRIEF(q)
			count[q] = count[q] + COPIES(w, q);
			assert(OVERTAKEN(0, w, q) + OVERTAKEN(1, w, q) + OVERTAKEN(2, w, q) <= ROOM(q)); /* order */
#ifdef BYTES
			used = used + bytes[w];
			size[q] = bytes[w];
#endif
			unlock(q, w);
			q = NEXT_QUEUE(w, q)
		}
	od;
	q = 0;
#ifdef REQUEST
	if
	:: slot && result == OK -> owed++
	:: slot && result != OK ->
		CRITICAL
			LOCK(0);
			aside[0]--;
#ifndef OMIT_RELEASE
			settle(0);
#endif
			unlock(0, w)
		}
	:: else
	fi;
	slot = 0;
#endif
	if
	:: result != AGAIN -> finish(w, false)
	:: else
	fi
}

inline choose(w) {
#ifndef TASKS
	d_step {
		COPIES(w, 0) = 0;
		COPIES(w, 1) = 0;
		asks[w] = 0;
		may_wait[w] = 1
	};
#endif
	if
#if defined(LINE) || defined(LIMITS) || defined(REFILL) || defined(CLOSE) || defined(TURN) || defined(TASKS)
	:: COPIES(w, 0) = 1
#endif
#if defined(LINE) || defined(LIMITS) || defined(TURN)
	:: COPIES(w, 0) = 2
#endif
#if defined(BYTES)
	:: w < 2 -> COPIES(w, 0) = 1
	:: w > 0 -> COPIES(w, 1) = 1
#endif
#if defined(TWO)
	:: COPIES(w, 0) = 1
	:: COPIES(w, 1) = 1
	:: d_step { COPIES(w, 0) = 1; COPIES(w, 1) = 1 }
#endif
#if defined(REQUEST)
	:: w == 0 -> d_step { asks[w] = 1; COPIES(w, 0) = 1 }
	:: w == 0 -> d_step { asks[w] = 1; COPIES(w, 1) = 1 }
	:: w == 0 -> d_step { asks[w] = 1; COPIES(w, 1) = 1; may_wait[w] = 0 }
	:: w != 0 -> COPIES(w, 0) = 1
	:: w != 0 -> COPIES(w, 0) = 2
#endif
#if defined(CLOSE)
	:: d_step { COPIES(w, 0) = 1; COPIES(w, 1) = 1 }
#endif
	fi;
#ifdef BYTES
	bytes[w] = (w == 1 -> 1 : 2)
#endif
}

#define ENTER	atomic { !dev -> dev = 1 }
#define EXIT	dev = 0

/* SEND by the one task of a KSock. */
proctype sender(byte w)
{
	byte q, place, who, from, left = MESSAGES;
	mtype result;
	bit slot, sleep, fits, wants_bytes, joins, later, moves;

	do
	:: left == 0 -> break
	:: else ->
		left--;
		choose(w);
		sleep = 1;
#ifdef BYTES
		if
		:: w == 0 -> sleep = 0	/* O_NONBLOCK */
		:: true
		fi;
#endif
again:
		ENTER;
#ifdef TASKS
		if
		:: w == 0 && asleep_for != NONE && serial != asleep_for -> /* ENOMSG */
			asleep_for = NONE;
			EXIT;
			goto done
		:: else
		fi;
#endif
#ifdef REFILL
		if
		:: sleep -> EXIT; ENTER		/* more items are needed than there are */
		:: true
		fi;
#endif
		try(w);
#ifdef TASKS
		if
		:: w == 0 -> asleep_for = (result == AGAIN -> serial : NONE)
		:: else
		fi;
#endif
		EXIT;
		if
		:: result != AGAIN -> goto done
		:: result == AGAIN && !sleep -> goto kept
		:: result == AGAIN && sleep
		fi;
		if
		:: atomic { WOKEN(w) ->
			assert(HAS_REASON(w)); /* reason */
#ifdef OMIT_STAY
			sleeps[w] = 0;
#endif
			goto again }
#ifdef TURN
		:: ready[w] -> goto stop	/* never gets a processor */
#endif
#ifdef SIGNALS
		:: !ready[w]
#endif
		fi;
		ENTER;
		CRITICAL
			from = on[w];
			if
			:: from == NONE -> sleeps[w] = 0
			:: else ->
				LOCK(from);
				sleeps[w] = 0;
#ifdef TURN
				is_tardy[w] = 0;
#endif
#ifndef OMIT_KEPT
				settle(from);
#endif
				unlock(from, NONE)
			fi;
			from = 0
		}
		EXIT;
kept:
		sleep = 0;
		if
#ifndef BYTES
		:: sleep = 1; goto again	/* SEND is called again, as after SA_RESTART */
		:: ENTER; finish(w, true); EXIT	/* DISCARD */
#endif
		:: goto stop			/* never comes back */
		:: goto polls
		fi;
		goto done;
polls:
		atomic { ready[w] -> assert(HAS_REASON(w)) };	/* POLLOUT */
		goto again;
done:
		skip
	od;
stop:
	skip
}

proctype reader(byte q)
{
	byte place, who;
	bit fits, wants_bytes, joins, later;

end:	do
	:: CRITICAL
		count[q] > 0;
		atomic {
			LOCK(q);
			count[q]--;
#ifdef BYTES
			used = used - size[q];
			size[q] = 0;
			changed[0] = 1;
			changed[1] = 1;
			changed[2] = 1
#endif
		};
#ifdef BYTES
#ifndef OMIT_KICK
		if
		:: starving[0] || starving[1] -> work = 1
		:: else
		fi;
#endif
#endif
#ifndef OMIT_READ
		settle(q);
#endif
		unlock(q, NONE)
	}
	od
}

#ifdef BYTES
/* The work item: settles the queues on the user's list. */
proctype worker()
{
	byte q, place, who;
	bit fits, wants_bytes, joins;

end:	do
	:: work ->
		work = 0;
		q = 0;
		do
		:: q == QUEUES -> break
		:: else ->
			if
			:: atomic { starving[q] ->
				working[q] = 1;
#ifndef OMIT_CLEAR_FIRST
				starving[q] = 0
#endif
				};
				LOCK(q);
				working[q] = 0;
				settle(q);
#ifdef OMIT_CLEAR_FIRST
				starving[q] = 0;
#endif
				unlock(q, NONE)
			:: else
			fi;
			q++
		od;
		q = 0
	od
}
#endif

#ifdef FILLER
/* Sends in the default mode, which heeds no line. */
proctype filler(byte q)
{
	byte place, who, left = FILLS;

	do
	:: left == 0 -> break
	:: else ->
		ENTER;
		CRITICAL
			if
			:: ROOM(q) > 0 -> count[q]++
			:: else
			fi;
			unlock(q, NONE)
		}
		EXIT;
		left--
	od
}
#endif

#ifdef LIMITS
/* MAXMSGS of queue 0 */
proctype limiter()
{
	byte place, who;
	bit fits, wants_bytes, joins;

	CRITICAL
		limit[0] = 1;
#ifndef OMIT_LOWER
		settle(0);
#endif
		unlock(0, NONE)
	}
	CRITICAL
		limit[0] = 2;
#ifndef OMIT_RAISE
		settle(0);
#endif
		unlock(0, NONE)
	}
}
#endif

#ifdef REQUEST
/* The answer to a Request comes in its slot, or is not wanted any more. */
proctype answerer()
{
	byte place, who;
	bit fits, wants_bytes, joins;

end:	do
	:: owed > 0 ->
		ENTER;
		owed--;
		if
		:: CRITICAL
			aside[0]--;
			count[0]++;
			unlock(0, NONE)
		}
		:: CRITICAL
			aside[0]--;
#ifndef OMIT_ABANDON
			settle(0);
#endif
			unlock(0, NONE)
		}
		fi;
		EXIT
	od
}
#endif

#ifdef CLOSE
/* Queue 0 closes: whoever is in its line is woken, one in each go. */
proctype closer()
{
	byte place, who;
	bit all;

	ENTER;
	gone[0] = 1;
	EXIT;
	do
	:: ENTER;
		atomic {
			place = 1;
			do
			:: place > SENDERS -> break
			:: else ->
				who = IN_PLACE(place);
				if
				:: who != NONE && on[who] == 0 ->
					on[who] = NONE;
					lined[who] = 0;
					ready[who] = 1;
					break
				:: else
				fi;
				place++
			od;
			all = place > SENDERS;
			unlock(0, NONE)
		}
		EXIT;
		if
		:: all -> break
		:: else
		fi;
#ifdef OMIT_BATCHES
		break
#endif
	od
}
#endif

#ifdef TURN
#define IS_LATE(w, q, n) (IN_LINE(w, q) && sleeps[w] && second[w] == n && ready[w] && \
			  !IS_AFTER(w, 0, q, n) && !IS_AFTER(w, 1, q, n) && !IS_AFTER(w, 2, q, n))
#define IS_AFTER(w, v, q, n) (IN_FRONT(v, w) && IN_LINE(v, q) && sleeps[v] && second[v] == n)
#define LATE(q, n)	(IS_LATE(0, q, n) -> 0 : (IS_LATE(1, q, n) -> 1 : (IS_LATE(2, q, n) -> 2 : NONE)))

/* w loses its turn in the second line, and all others of its user do with it. */
inline lose_too(v, w, q) {
	if
	:: IN_LINE(v, q) && sleeps[v] && second[v] && USER(v) == USER(w) ->
		lined[v] = 0;
		ready[v] = 1
	:: else
	fi
}

/* Nobody is tardy any more: v goes back to its place. */
inline forgive(v) {
	if
	:: sleeps[v] && second[v] ->
		second[v] = 0;
		is_tardy[v] = 0
	:: else
	fi
}

/* The worker that sees who has not used its turn, in either line, and later forgets it. */
proctype patience(byte q)
{
	byte place, who, late;
	bit fits, later;

end:	do
	:: atomic { LATE(q, 0) != NONE && !tardy_user[USER(LATE(q, 0))] ->
		tardy_user[USER(LATE(q, 0))] = 1;
#ifndef OMIT_TURN_SETTLE
		settle(q);
#endif
		unlock(q, NONE) }
#ifndef OMIT_TURNS
	:: atomic { LATE(q, 1) != NONE ->
		d_step {
			late = LATE(q, 1);
			lose_too(0, late, q);
			lose_too(1, late, q);
			lose_too(2, late, q);
			late = 0
		};
#ifndef OMIT_TURNS_SETTLE
		settle(q);
#endif
		unlock(q, NONE) }
#endif
	/* Only while anything else can happen: a turn lost for ever would hide who is stuck. */
	:: atomic { (dev || count[q]) && (tardy_user[0] || tardy_user[1]) ->
		d_step {
			tardy_user[0] = 0;
			tardy_user[1] = 0;
#ifndef OMIT_FORGIVE
			forgive(0);
			forgive(1);
			forgive(2)
#endif
		};
		settle(q);
		unlock(q, NONE) }
	od
}
#endif

#ifdef TASKS
/* Another task with the KSock of sender 0: it drops the message that waits, and sends another. */
proctype other()
{
	byte q, place, who, from;
	mtype result;
	bit slot, sleep, fits, wants_bytes, joins;

	ENTER;
	finish(0, true);
	choose(0);
	EXIT;
	ENTER;
	try(0);
	/* own */
	assert(!sleeps[0] || asleep_for == serial);
	assert(asleep_for == NONE || asleep_for == serial || WOKEN(0));
	EXIT;
	if
	:: result == AGAIN ->
		if
		:: ready[0] -> ENTER; try(0); EXIT
		:: ENTER; finish(0, true); EXIT
		:: true
		fi
	:: else
	fi
}
#endif

init {
	byte n;

	d_step {
		do
		:: n == SENDERS -> break
		:: else ->
			on[n] = NONE;
			may_wait[n] = 1;
			waits_for[n] = NONE;
			n++
		od;
		n = 0;
		limit[0] = LIMIT;
		limit[1] = LIMIT;
#ifdef TURN
		count[0] = LIMIT	/* as they have all sent before */
#endif
	}
	atomic {
		run sender(0);
		run sender(1);
		run sender(2);
		run reader(0);
#if defined(TWO) || defined(REQUEST) || defined(CLOSE) || defined(BYTES)
		run reader(1);
#endif
#ifdef BYTES
		run worker();
#endif
#ifdef LINE
		run filler(0);
#endif
#ifdef REQUEST
		run filler(1);
#endif
#ifdef LIMITS
		run limiter();
#endif
#ifdef REQUEST
		run answerer();
#endif
#ifdef CLOSE
		run closer();
#endif
#ifdef TURN
		run patience(0);
#endif
#ifdef TASKS
		run other();
#endif
	}
}
