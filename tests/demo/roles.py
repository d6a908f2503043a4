# SPDX-License-Identifier: MIT
"""Those who play in the demo: each is a process with a KSock of its own and a pipe to the narrator."""

from __future__ import annotations

import logging
import multiprocessing
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from kbus import Announcement, Ksock, Message, Service, reply_to
from kbus.sbus import daemon
from tests.demo.machine import readings

#: Seconds after which something that has not happened is taken not to happen; emulated machines are slow.
PATIENCE = 60.0


class DidNotHappen(Exception):
    """The scene went another way than it should; the text says how."""


class Actor:
    """A process that plays a role: a function which is given a KSock and its end of the pipe.

    Use it with `with`: at the end the process is told to go, by closing the pipe.
    """

    def __init__(self, role: Callable[[Ksock, Connection], None]) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("fork").Process(
            target=_play, args=(role, self._pipe, theirs), daemon=True
        )
        self._process.start()
        theirs.close()
        self.ksock_id: int = self.hears("its KSock id")

    def __enter__(self) -> Actor:
        return self

    def __exit__(self, *details: object) -> None:
        self._pipe.close()
        self._process.join(PATIENCE)
        if self._process.is_alive():
            self.kill()
            raise DidNotHappen(f"process {self.pid} did not go when it was told to")

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process.pid is not None
        return self._process.pid

    def hears(self, what: str) -> Any:
        """What the actor has to tell next: `what` names it if nothing comes."""
        if not self._pipe.poll(PATIENCE):
            raise DidNotHappen(f"process {self.pid} did not tell {what} within {PATIENCE:g} s")
        try:
            return self._pipe.recv()
        except EOFError:
            raise DidNotHappen(f"process {self.pid} ended before it told {what}") from None

    def tell(self, what: object) -> None:
        """Give the actor something."""
        self._pipe.send(what)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.join()


def _play(role: Callable[[Ksock, Connection], None], narrators: Connection, pipe: Connection) -> None:
    # Of the narrator's end there must be no other copy, or nobody would see that he closes it.
    narrators.close()
    with Ksock() as ksock:
        pipe.send(ksock.ksock_id())
        role(ksock, pipe)


def publisher(ksock: Ksock, pipe: Connection) -> None:
    """Publishes all readings once a second, as many rounds as it is told, and tells what it sent in each."""
    rounds: int = pipe.recv()
    begin = time.monotonic()
    for number in range(rounds):
        time.sleep(max(0.0, begin + number - time.monotonic()))
        pipe.send(
            [(ksock.send_msg(Announcement(name, text)), name, text) for name, text in readings().items()]
        )
    _stay(pipe)


def listener(ksock: Ksock, pipe: Connection) -> None:
    """Listens to everything that the machine says, and tells each message that comes."""
    ksock.bind("$.Machine.*")
    pipe.send("listening")
    for message in _messages(ksock, pipe):
        pipe.send((message.id, message.name, _text(message)))


def archivist(ksock: Ksock, pipe: Connection) -> None:
    """Remembers what the machine says, and answers Requests about it."""
    heard: dict[str, list[str]] = {}
    ksock.bind("$.Machine.*")
    ksock.bind("$.Archive.*", replier=True)
    pipe.send("bound")
    for message in _messages(ksock, pipe):
        if message.wants_us_to_reply():
            asked_about = message.name.replace("$.Archive.", "$.Machine.")
            ksock.send_msg(reply_to(message, " | ".join(heard.get(asked_about, ["never heard of it"]))))
        else:
            heard.setdefault(message.name, []).append(_text(message))


def converter(ksock: Ksock, pipe: Connection) -> None:
    """Is a service that converts temperatures, and survives what is none."""
    service = Service(ksock, "$.Convert")

    @service.replier("Fahrenheit")
    def fahrenheit(request: Message) -> str:
        return f"{float(_text(request)) * 9 / 5 + 32:.1f}"

    # The traceback is for whoever runs the service, and is no part of the story.
    logging.disable()
    with service.running():
        pipe.send("bound")
        _stay(pipe)


def oracle(ksock: Ksock, pipe: Connection) -> None:
    """Reads a Request, and thinks about it for ever."""
    ksock.bind("$.Oracle.Ask", replier=True)
    pipe.send("bound")
    request = ksock.wait_for_msg(PATIENCE)
    pipe.send(request and request.id)
    _stay(pipe)


def sleeper(ksock: Ksock, pipe: Connection) -> None:
    """Lets its queue grow until it is woken, and then tells what it finds there."""
    ksock.bind("$.Mail")
    pipe.send("asleep")
    pipe.recv()
    pipe.send([_text(message) for message in ksock])


def bridge(ksock: Ksock, pipe: Connection) -> None:
    """Lets clients of the sbus protocol use the bus, until the last of them has left."""
    # The daemon has a KSock of its own.
    ksock.close()
    address: str = pipe.recv()
    status = daemon.main(["-f", "-c", "-p", "/dev/null", "-a", address])
    pipe.send(status)


def _messages(ksock: Ksock, pipe: Connection) -> Iterator[Message]:
    """The messages that come, until the narrator closes the pipe."""
    poll = select.poll()
    poll.register(ksock, select.POLLIN)
    poll.register(pipe, select.POLLIN)
    while pipe.fileno() not in dict(poll.poll()):
        yield from ksock


def _stay(pipe: Connection) -> None:
    """Wait until the narrator closes the pipe."""
    pipe.poll(None)


def _text(message: Message) -> str:
    return (message.data or b"").decode()
