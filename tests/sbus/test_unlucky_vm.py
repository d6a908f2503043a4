# SPDX-License-Identifier: MIT
"""What happens to the daemon itself. What comes of each is in the table of docs/sbus/hostile.rst."""

from __future__ import annotations

import errno
import resource
import select
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from kbus import Announcement
from tests.kernel import module
from tests.kernel.helpers import PATIENCE, fails, wait_until
from tests.sbus.bystander import Bystander
from tests.sbus.conftest import OpenKsock, StartDaemon
from tests.sbus.running import Daemon, nothing_more, receive, settle


def test_the_daemon_is_stopped_and_goes_on(daemon: StartDaemon, ksock: OpenKsock) -> None:
    running = daemon()
    with running.client() as client:
        client.subscribe("a")
        settle(client)
        running.signal(signal.SIGSTOP)
        for number in range(50):
            client.publish("a", b"%d" % number)
        sender = ksock()
        sender.send_msg(Announcement("$.a", b"ksock"))
        running.signal(signal.SIGCONT)
        came = receive(client, 51)
        assert sorted(came) == sorted([(b"a", b"ksock"), *((b"a", b"%d" % number) for number in range(50))])


def test_descriptors_exhausted(daemon: StartDaemon) -> None:
    """New clients are closed at once and counted, the others go on; when some leave, others can come."""
    running = daemon()
    bystander = Bystander(running)
    resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (40, 40))
    with bystander.client, ExitStack() as stack:
        many = [stack.enter_context(running.socket()) for _ in range(60)]
        bystander.is_served()
        wait_until(lambda: any(map(_is_at_end, many)), "some are closed")
        for each in many:
            each.close()

        def can_come() -> bool:
            try:
                with running.client() as client:
                    return bool(client.whoami(PATIENCE))
            except ConnectionError:
                return False

        wait_until(can_come, "there is room again")
        assert running.stats()[0]["refused"]["descriptors"] > 10


def test_who_has_left_makes_room_for_who_comes(daemon: StartDaemon) -> None:
    """Also if the daemon learns of both at the same moment."""
    running = daemon()
    resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (40, 40))
    with ExitStack() as stack:
        first = stack.enter_context(running.client())
        settle(first)
        with pytest.raises(ConnectionError):
            while True:
                settle(stack.enter_context(running.client()))
        # Who is refused sees that before the daemon is done with it.
        settle(first)
        running.signal(signal.SIGSTOP)
        # Until then it may be about to accept whoever comes.
        wait_until(lambda: ") T " in Path(f"/proc/{running.pid}/stat").read_text(), "it has stopped")
        first.close()
        with running.client() as late:
            running.signal(signal.SIGCONT)
            assert late.whoami(PATIENCE)


def _is_at_end(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def test_kbus_cannot_be_unloaded_under_it(daemon: StartDaemon) -> None:
    running = daemon()
    with fails(errno.EAGAIN):
        module.unload()
    with running.client() as client:
        client.subscribe("a")
        client.publish("a", b"1")
        assert receive(client, 1) == [(b"a", b"1")]


def test_the_queue_in_kbus_is_full(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """While the daemon is stopped others send more than its queue takes: that is counted, by KBUS."""
    with module.parameter("max_queue_length", 50):
        running = daemon()
        with running.client() as client:
            client.subscribe("a")
            settle(client)
            running.signal(signal.SIGSTOP)
            sender = ksock()
            for number in range(80):
                sender.send_msg(Announcement("$.a", b"%d" % number))
            running.signal(signal.SIGCONT)
            assert receive(client, 50) == [(b"a", b"%d" % number) for number in range(50)]
            nothing_more(client)
            assert running.stats()[0]["kbus_lost"] == 30


def test_two_daemons_on_one_path(daemon: StartDaemon) -> None:
    running = daemon()
    for options in ((), ("-r",)):
        with pytest.raises(AssertionError, match="another process listens there"):
            Daemon(running.log.parent, "-a", running.path, *options, name="second")
    with running.client() as client:
        assert client.whoami(PATIENCE)
