# SPDX-License-Identifier: MIT
"""A bus in one process."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import select
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from queue import SimpleQueue

import pytest

from kbus import Announcement, Ksock, Message, Request, Service, inspect, reply_to
from kbus.aio import AsyncKsock
from kbus.cli import main
from kbus.testing import Bus
from kbus.testing.core import Core
from tests.kernel.helpers import PATIENCE, fails, wait_until


@pytest.fixture
def bus() -> Iterator[Bus]:
    with Bus(quiet=True) as one:
        yield one


def test_it_is_no_module(bus: Bus) -> None:
    with Ksock() as one:
        assert one.is_real is False
        assert one.name == "/dev/kbus0"


def test_it_says_what_it_is_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bus, "_is_told", False)
    for _ in range(2):
        with Bus():
            pass
    assert capsys.readouterr().err == "kbus.testing: this is no module, but a bus in a test\n"


def test_buses_are_apart() -> None:
    with Bus(quiet=True), Ksock() as outer:
        outer.bind("$.A", replier=True)
        with Bus(quiet=True), Ksock() as inner:
            assert inner.find_replier("$.A") is None
        with Ksock() as again:
            assert again.find_replier("$.A") == outer.ksock_id()


def test_it_can_be_in_place_again() -> None:
    bus = Bus(quiet=True)
    for _ in range(2):
        with bus, Ksock() as one:
            assert one.ksock_id() == 1
    with bus, pytest.raises(ValueError, match="in place already"):
        bus.__enter__()


def test_what_is_open_at_the_end_can_be_closed() -> None:
    with Bus(quiet=True):
        one = Ksock()
    with pytest.raises(ValueError, match="this bus is closed"):
        one.num_messages()
    one.close()


def test_what_waits_at_the_end_ends() -> None:
    ended: SimpleQueue[object] = SimpleQueue()

    def wait() -> None:
        try:
            ended.put(one.wait_for_msg())
        except ValueError as error:
            ended.put(error)

    with Bus(quiet=True) as bus:
        one = Ksock()
        threading.Thread(target=wait, daemon=True).start()
        wait_until(bus.core.is_waiting, "it waits")
    assert "this bus is closed" in str(ended.get(timeout=10))
    one.close()


def test_devices(bus: Bus) -> None:
    with Ksock() as one:
        assert one.new_device() == 1
        with Ksock(1) as other:
            other.bind("$.A")
            one.send_msg(Announcement("$.A"))
            assert other.num_messages() == 0
        assert [each.device for each in inspect.stats()] == [0, 1]
        while one.new_device() < 255:
            pass
        with fails(errno.ENOSPC):
            one.new_device()
    for number in (256, -1):
        with pytest.raises(OSError) as caught:
            Ksock(number)
        assert caught.value.errno == errno.ENOENT


def test_poll_tells_of_messages(bus: Bus) -> None:
    with Ksock() as reader, Ksock() as sender:
        reader.bind("$.A")
        poll = select.poll()
        poll.register(reader, select.POLLIN | select.POLLOUT)
        assert poll.poll(0) == [(reader.fileno(), select.POLLOUT)]
        sender.send_msg(Announcement("$.A"))
        assert poll.poll(0) == [(reader.fileno(), select.POLLIN | select.POLLOUT)]
        reader.read_next_msg()
        assert poll.poll(0) == [(reader.fileno(), select.POLLOUT)]


def test_a_descriptor_that_is_read(bus: Bus) -> None:
    """read(2) is right for a device; here it must not end the bus for others."""
    with Ksock() as reader, Ksock() as other:
        reader.bind("$.A")
        other.send_msg(Announcement("$.A", "x"))
        os.read(reader.fileno(), 1)
        assert data(reader) == b"x"
        other.send_msg(Announcement("$.A", "y"))
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        assert poll.poll(0) == [(reader.fileno(), select.POLLIN)]
        assert data(reader) == b"y"


def test_poll_tells_when_to_send_again(bus: Bus) -> None:
    waits = Announcement("$.A", flags=Message.ALL_OR_WAIT)
    with Ksock() as reader, Ksock(nonblocking=True) as sender:
        reader.bind("$.A")
        reader.set_max_messages(1)
        for _ in range(3):
            sender.send_msg(waits)
            with pytest.raises(BlockingIOError):
                sender.send_msg(waits)
            poll = select.poll()
            poll.register(sender, select.POLLOUT)
            assert poll.poll(0) == []
            reader.read_next_msg()
            assert poll.poll(0) == [(sender.fileno(), select.POLLOUT)]
            sender.send()
            reader.read_next_msg()


def test_a_sender_waits_for_room(bus: Bus) -> None:
    with Ksock() as reader, Ksock() as sender:
        reader.bind("$.A")
        reader.set_max_messages(1)
        waits = [Announcement("$.A", str(number), flags=Message.ALL_OR_WAIT) for number in range(20)]
        thread = threading.Thread(target=sender.send_many, args=[waits])
        thread.start()
        got = [reader.wait_for_msg(10) for _ in waits]
        thread.join()
    assert [each and each.data for each in got] == [each.data for each in waits]


def wait_with(bus: Bus, *messages: Message) -> list[Future[object]]:
    """Let somebody wait with each of these messages, in this order."""
    found: list[Future[object]] = []
    for message in messages:
        future: Future[object] = Future()

        def send(message: Message = message, future: Future[object] = future) -> None:
            try:
                with Ksock() as sender:
                    future.set_result(sender.send_msg(message))
            except (OSError, ValueError) as error:
                future.set_exception(error)

        before = len(core_of(bus)._waiting)
        threading.Thread(target=send, daemon=True).start()
        wait_until(lambda: len(core_of(bus)._waiting) == before + 1, f"{message.name} waits")  # noqa: B023
        found.append(future)
    return found


def test_who_waits_for_two_waits_at_one_of_them_at_a_time(bus: Bus) -> None:
    with Ksock() as one, Ksock() as other, Ksock() as first:
        for reader, names in ((one, ["$.Both", "$.One"]), (other, ["$.Both"])):
            for name in names:
                reader.bind(name)
            reader.set_max_messages(1)
        first.send_msg(Announcement("$.Both", "full"))
        wait_with(bus, *(Announcement(name, name, flags=Message.ALL_OR_WAIT) for name in ("$.Both", "$.One")))
        assert [data(one), data(one), data(other)] == [b"full", b"$.One", b"full"]
        assert [data(one), data(other)] == [b"$.Both", b"$.Both"]


def test_a_large_one_that_waits_holds_up_a_small_one_behind_it(bus: Bus) -> None:
    """Although there is room for that: else the large one might wait for ever."""
    with Ksock() as reader, Ksock() as first:
        reader.set_max_messages(2)
        for name in ("$.Large", "$.Large", "$.Small"):
            reader.bind(name)
        first.send_many([Announcement("$.Small", "full")] * 2)
        wait_with(
            bus, *(Announcement(name, name, flags=Message.ALL_OR_WAIT) for name in ("$.Large", "$.Small"))
        )
        assert [data(reader) for _ in range(5)] == [b"full", b"full", b"$.Large", b"$.Large", b"$.Small"]


def test_who_waits_at_one_holds_up_nobody_at_another(bus: Bus) -> None:
    """Whoever else gets both messages, and has room: listeners, and observers, who may miss them."""
    with Ksock() as stuck, Ksock() as reader, Ksock() as listener, Ksock() as observer, Ksock() as first:
        listener.bind("$.*")
        observer.bind("$.*", observer=True)
        for each, name in ((stuck, "$.Stuck"), (reader, "$.Read")):
            each.bind(name)
            each.set_max_messages(1)
            first.send_msg(Announcement(name))
        names = ("$.Stuck", "$.Read")
        waiting = wait_with(bus, *(Announcement(name, flags=Message.ALL_OR_WAIT) for name in names))
        assert reader.read_next_msg() is not None
        assert waiting[1].result(PATIENCE)
        assert not waiting[0].done()


def test_a_request_that_waits_behind_another_fails_when_its_replier_goes(bus: Bus) -> None:
    with Ksock() as listener, Ksock() as replier, Ksock() as first:
        listener.bind("$.*")
        listener.set_max_messages(1)
        replier.bind("$.Ask", replier=True)
        first.send_msg(Announcement("$.Other"))
        _, request = wait_with(
            bus,
            Announcement("$.Other", flags=Message.ALL_OR_WAIT),
            Request("$.Ask", flags=Message.ALL_OR_WAIT),
        )
        replier.close()
        with fails(errno.EADDRNOTAVAIL):
            request.result(PATIENCE)


@pytest.mark.parametrize("to", ["$.Full $.Early $.Full", "$.Early $.Early"], ids=["another", "itself"])
def test_a_sender_that_goes_on_by_a_part_wakes_who_waits_for_that(bus: Bus, to: str) -> None:
    """And who has read it makes room for the rest."""
    with Ksock() as early, Ksock() as full, Ksock() as sender, Ksock() as first:
        for each, name in ((early, "$.Early"), (full, "$.Full")):
            each.bind(name)
            each.set_max_messages(1)
        first.send_msg(Announcement("$.Full"))
        got: Future[object] = Future()
        threading.Thread(target=lambda: got.set_result(early.wait_for_msg(PATIENCE)), daemon=True).start()
        wait_until(core_of(bus).is_waiting, "a reader waits")
        messages = [Announcement(name, flags=Message.ALL_OR_WAIT) for name in to.split()]
        sending = threading.Thread(target=sender.send_many, args=[messages], daemon=True)
        sending.start()
        if "$.Full" in to:
            wait_until(lambda: len(core_of(bus)._waiting) == 2, "a sender waits")
            full.read_next_msg()
        assert got.result(PATIENCE / 2) is not None
        if "$.Full" in to:
            full.read_next_msg()
        sending.join(PATIENCE)
        assert not sending.is_alive()


def test_a_bus_that_ends_ends_what_waits_in_an_event_loop_that_goes_on() -> None:
    async def test() -> None:
        with Bus(quiet=True):
            ksock = AsyncKsock()
            waiting = asyncio.ensure_future(ksock.__anext__())
            await asyncio.sleep(0.05)
        with pytest.raises(ValueError, match="closed"):
            await asyncio.wait_for(waiting, PATIENCE)
        ksock.close()

    asyncio.run(test())


def test_what_goes_on_wakes_those_who_began_to_wait_before(bus: Bus) -> None:
    with Ksock() as early, Ksock() as full, Ksock() as first:
        early.bind("$.News")
        full.bind("$.News")
        full.set_max_messages(1)
        first.send_msg(Announcement("$.News", "old"))
        assert data(early) == b"old"
        got: Future[object] = Future()
        thread = threading.Thread(target=lambda: got.set_result(early.wait_for_msg(PATIENCE)))
        thread.start()
        wait_until(core_of(bus).is_waiting, "a reader waits")
        wait_with(bus, Announcement("$.News", "news", flags=Message.ALL_OR_WAIT))
        assert full.read_next_msg() is not None
        thread.join(PATIENCE)
        message = got.result(0)
        assert isinstance(message, Message)
        assert message.data == b"news"


def test_each_wait_ends_in_its_own_time(bus: Bus) -> None:
    with Ksock() as one, Ksock() as other:
        other.bind("$.End")
        patient = threading.Thread(target=other.wait_for_msg, args=[PATIENCE])
        patient.start()
        wait_until(core_of(bus).is_waiting, "it waits")
        began = time.monotonic()
        assert one.wait_for_msg(0.01) is None
        assert time.monotonic() - began < PATIENCE / 2
        one.send_msg(Announcement("$.End"))
        patient.join()


def core_of(bus: Bus) -> Core:
    assert bus._core is not None
    return bus._core


def data(ksock: Ksock) -> bytes | None:
    message = ksock.wait_for_msg(PATIENCE)
    return message.data if message else None


def test_one_that_is_forgotten_is_closed(bus: Bus) -> None:
    with Ksock() as other:
        one = Ksock()
        one.bind("$.A", replier=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            del one
            gc.collect()
        assert other.find_replier("$.A") is None


def test_asyncio_and_services(bus: Bus) -> None:
    async def ask() -> bytes | None:
        async with AsyncKsock() as asker:
            return (await asker.call("$.Door.Open", "x", timeout=10)).data

    with Ksock() as server:
        service = Service(server, "$.Door")
        service.replier("Open")(lambda request: (request.data or b"") * 2)
        with service.running():
            assert asyncio.run(ask()) == b"xx"


def test_the_command(bus: Bus, capsys: pytest.CaptureFixture[str]) -> None:
    with Ksock() as listener, Ksock() as replier:
        listener.bind("$.Sensors.*")
        assert main(["send", "$.Sensors.Kitchen", "21.5"]) == 0
        assert [message.data for message in listener] == [b"21.5"]
        replier.bind("$.Lamp", replier=True)
        assert main(["bindings"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "[0:1]"
    assert said[-1].split()[-2:] == ["replier", "$.Lamp"] or said[-1].split()[-1] == "$.Sensors.*"


def test_a_fork_does_not_hang(bus: Bus) -> None:
    with Ksock() as one:
        child = os.fork()
        if child == 0:
            try:
                one.num_messages()
            except ValueError:
                os._exit(3)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert one.num_messages() == 0


def test_one_that_closes_with_calls_under_way(bus: Bus) -> None:
    one = Ksock()
    ended: list[object] = []

    def wait() -> None:
        try:
            one.wait_for_msg()
        except (OSError, ValueError) as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not bus.core.is_waiting():
        thread.join(0.01)
    one.close()
    thread.join(10)
    assert not thread.is_alive()
    assert len(ended) == 1


def test_statuses(bus: Bus) -> None:
    with Ksock() as asker:
        with Ksock() as replier:
            replier.bind("$.A", replier=True)
            asker.send_msg(Request("$.A"))
            request = replier.read_next_msg()
            assert request is not None
            replier.send_msg(reply_to(request, "x"))
            asker.send_msg(Request("$.A"))
        assert [message.name for message in asker] == ["$.A", "$.KBUS.Replier.GoneAway"]
