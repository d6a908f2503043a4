# SPDX-License-Identifier: MIT
"""What the processes do. Each note is of one call on a KSock of its own."""

from __future__ import annotations

import errno
import select
from collections.abc import Callable
from functools import partial

from kbus import _abi as abi
from kbus.testing.model.wire import MsgId, WireMessage, parse
from tests.model.driver import Ksock

from .crowd import Bell, Worker
from .notes import ABANDONED, MISSED, READ, SENT, Note, Notebook, now

HEARD_BY_ALL, NOT_BY_THE_STUCK = b"$.Load.All", b"$.Load.Most"
SERVED = (b"$.Serve.A", b"$.Serve.B")
CHURNED = (b"$.Churn.A", b"$.Churn.B")
CHURN_BOUND = (*CHURNED, b"$.Churn.%", b"$.Churn.*", *SERVED, b"$.KBUS.*")


def send(ksock: Ksock, notebook: Notebook, message: WireMessage) -> MsgId:
    """Write and SEND, and note it if it succeeds."""
    ksock.write(message.to_bytes())
    begin = now()
    number = ksock.send()
    notebook.add(Note(SENT, begin, now(), number, flags=message.flags))
    return number


def read(ksock: Ksock, notebook: Notebook) -> WireMessage | None:
    """NEXTMSG and `read`, and note it; None if nothing is queued."""
    begin = now()
    length = ksock.next_msg()
    end = now()
    if not length:
        return None
    message = parse(ksock.read(length))
    notebook.add(Note(READ, begin, end, message.id, message.in_reply_to, message.flags))
    return message


def wait(ksock: Ksock, stop: Bell, seconds: float = 1.0) -> None:
    """Until something is queued, or the bell rings, or so long."""
    select.select([ksock.fileno(), stop.fileno()], [], [], seconds)


def sender(worker: Worker) -> None:
    """Announces until the bell rings, now and then urgently, now and then waiting for room."""
    ksock = Ksock("rw", nonblocking=False)
    worker.ready()
    while not worker.stop.has_rung():
        flags = abi.BIT_URGENT if worker.random.random() < 0.1 else 0
        waits = worker.random.random() < 0.5
        name = NOT_BY_THE_STUCK if waits else HEARD_BY_ALL
        send(ksock, worker.notebook, WireMessage(name, flags | (abi.BIT_ALL_OR_WAIT if waits else 0)))


def reader(worker: Worker) -> None:
    """Reads all that comes until the bell rings and nothing is queued any more."""
    ksock = Ksock("r")
    ksock.max_msgs(20)
    ksock.bind(b"$.Load.*", 0)
    worker.ready()
    while True:
        is_last = worker.stop.has_rung()
        if read(ksock, worker.notebook) is None:
            if is_last:
                break
            wait(ksock, worker.stop)
    missed = ksock.lost_msgs()
    worker.notebook.add(Note(MISSED, now(), now(), MsgId(0, 0), missed=missed))


def stuck(worker: Worker) -> None:
    """Listens, and never reads."""
    ksock = Ksock("r")
    ksock.max_msgs(1)
    ksock.bind(HEARD_BY_ALL, 0)
    worker.ready()
    select.select([worker.stop], [], [])


def replier(worker: Worker) -> None:
    """Answers most Requests; now and then leaves one, unbinds, or begins anew."""
    ksock = Ksock("rw")
    ksock.max_msgs(3)
    bind_to_serve(ksock)
    worker.ready()
    while not worker.stop.has_rung():
        message = read(ksock, worker.notebook)
        chance = worker.random.random()
        if message is None:
            wait(ksock, worker.stop)
        elif chance < 0.8:
            answer(ksock, message)
        elif chance < 0.9:
            for name in SERVED:
                tolerate(partial(ksock.unbind, name, 1), errno.EINVAL)
            bind_to_serve(ksock)
        else:
            ksock.close()
            ksock = Ksock("rw")
            bind_to_serve(ksock)


def bind_to_serve(ksock: Ksock) -> None:
    """Be the replier for those of the served names that have none."""
    for name in SERVED:
        tolerate(partial(ksock.bind, name, 1), errno.EADDRINUSE)


def answer(ksock: Ksock, request: WireMessage) -> None:
    """Reply, if this copy is to be replied to; the sender may have closed or abandoned it."""
    if request.flags & abi.BIT_WANT_YOU_TO_REPLY:
        reply = WireMessage(request.name, in_reply_to=request.id, to=request.sender)
        ksock.write(reply.to_bytes())
        tolerate(ksock.send, errno.EADDRNOTAVAIL, errno.ECONNREFUSED)


def asker(worker: Worker) -> None:
    """Sends Requests until the bell rings, and reads until all are answered, but for a few it abandons."""
    ksock = Ksock("rw", nonblocking=False)
    ksock.max_msgs(6)
    waiting_for: list[MsgId] = []
    worker.ready()
    while True:
        is_last = worker.stop.has_rung()
        if not is_last:
            ask(ksock, worker, waiting_for)
        if waiting_for and worker.random.random() < 0.03:
            abandon(ksock, worker, waiting_for)
        message = read(ksock, worker.notebook)
        if message is not None:
            waiting_for.remove(message.in_reply_to)
        elif is_last and not waiting_for:
            break
        else:
            select.select([ksock], [], [], 0.02)


def ask(ksock: Ksock, worker: Worker, waiting_for: list[MsgId]) -> None:
    """Send a Request, now and then one that waits for room; it may find no replier, or no room."""
    flags = worker.random.choice((0, 0, 0, abi.BIT_ALL_OR_WAIT, abi.BIT_URGENT)) | abi.BIT_WANT_A_REPLY
    message = WireMessage(worker.random.choice(SERVED), flags)
    no_luck = (errno.EADDRNOTAVAIL, errno.EBUSY, errno.ENOLCK)
    tolerate(lambda: waiting_for.append(send(ksock, worker.notebook, message)), *no_luck)


def abandon(ksock: Ksock, worker: Worker, waiting_for: list[MsgId]) -> None:
    """ABANDON one of the Requests; its answer may be queued by now."""
    number = worker.random.choice(waiting_for)
    begin = now()
    if tolerate(lambda: ksock.abandon(number), errno.ENOENT):
        worker.notebook.add(Note(ABANDONED, begin, now(), number))
        waiting_for.remove(number)


def churner(worker: Worker) -> None:
    """Does whatever can be done with a few KSocks until it is killed; some of its SENDs block for good."""
    random = worker.random
    ksocks: list[Ksock] = []
    worker.ready()
    while True:
        if len(ksocks) < 2 or (len(ksocks) < 4 and random.random() < 0.1):
            ksocks.append(Ksock("rw", nonblocking=random.random() < 0.8))
            ksocks[-1].max_msgs(random.randint(1, 5))
        place = random.randrange(len(ksocks))
        ksock, name, kind = ksocks[place], random.choice(CHURN_BOUND), random.randrange(2)
        chance = random.random()
        if chance < 0.05:
            ksocks.pop(place).close()
        elif chance < 0.25:
            tolerate(partial(ksock.bind, name, kind), errno.EADDRINUSE)
        elif chance < 0.35:
            tolerate(partial(ksock.unbind, name, kind), errno.EINVAL)
        elif chance < 0.7:
            churn_send(ksock, worker)
        else:
            message = read(ksock, worker.notebook)
            if message is not None and random.random() < 0.8:
                answer(ksock, message)


def churn_send(ksock: Ksock, worker: Worker) -> None:
    """Send something of some size to somebody, or fail in one of the ways that are to be expected."""
    random = worker.random
    flags = random.choice((0, 0, 0, abi.BIT_ALL_OR_WAIT, abi.BIT_ALL_OR_FAIL))
    flags |= random.choice((0, abi.BIT_URGENT)) | random.choice((0, abi.BIT_WANT_A_REPLY))
    message = WireMessage(random.choice(CHURNED), flags, data=bytes(4 * random.choice((0, 9, 900, 20000))))
    no_luck = (errno.EAGAIN, errno.EBUSY, errno.ENOLCK, errno.EADDRNOTAVAIL)
    if not tolerate(lambda: send(ksock, worker.notebook, message), *no_luck):
        ksock.discard()


def tolerate(call: Callable[[], object], *numbers: int) -> bool:
    """Whether the call succeeded; it may fail with these errnos."""
    try:
        call()
    except OSError as error:
        if error.errno not in numbers:
            raise
        return False
    return True
