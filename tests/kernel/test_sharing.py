# SPDX-License-Identifier: MIT
"""One KSock with several threads or processes on it: rule 31."""

from __future__ import annotations

import errno
import os
import struct
import threading
from collections.abc import Callable

import pytest

from kbus import Announcement, Request
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import bindings, ksock_stats, names, take
from tests.kernel.processes import in_child

pytestmark = pytest.mark.rule(31)

THREADS = 4


def at_once(body: Callable[[int], object]) -> None:
    """Run `body(0)` to `body(THREADS - 1)` in threads that begin together."""
    barrier = threading.Barrier(THREADS)
    failures: list[BaseException] = []

    def run(index: int) -> None:
        barrier.wait()
        try:
            body(index)
        except BaseException as failure:  # raised again below
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.abi("KSOCKID")
def test_a_forked_descriptor_is_the_same_ksock(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A")

    def use() -> tuple[int, int]:
        id = raw.number(one, "KSOCKID")
        one.bind("$.B")
        one.send_msg(Announcement("$.B"))
        os.write(one.fileno(), raw.message(b"$.A")[:20])
        return id, os.getpid()

    id, pid = in_child(use)
    assert id == one.ksock_id()
    assert pid != os.getpid()
    assert {binding.pid for binding in bindings()} == {os.getpid()}
    os.write(one.fileno(), raw.message(b"$.A")[20:])
    one.send()
    assert names(one) == ["$.B", "$.A"]


@pytest.mark.axiom("lifetime")
def test_a_ksock_lives_until_its_last_descriptor_is_closed(ksock: OpenKsock, child: StartChild) -> None:
    one, sender = ksock(), ksock()
    one.bind("$.A", replier=True)
    id = one.ksock_id()
    process = child(lambda: one)
    one.close()
    sender.send_msg(Request("$.A"))
    assert sender.find_replier("$.A") == id
    assert names(sender) == []
    process.kill()
    assert sender.find_replier("$.A") is None
    assert names(sender) == ["$.KBUS.Replier.GoneAway"]


def test_a_duplicate_is_the_same_ksock(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A")
    duplicate = raw.Descriptor(os.dup(one.fileno()))
    one.close()
    raw.send(duplicate, raw.message(b"$.A", b"data"))
    received = raw.parse(raw.receive(duplicate))
    os.close(duplicate.fd)
    assert received.data == b"data"
    assert bindings() == []


@pytest.mark.rule(26)
def test_what_one_process_reads_another_may_answer(ksock: OpenKsock) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    id = sender.send_msg(Request("$.A"))
    request = in_child(lambda: take(replier).to_bytes())
    packet = raw.parse(request)
    raw.send(replier, raw.message(b"$.A", to=packet.from_, in_reply_to=packet.id))
    assert take(sender).in_reply_to == id


@pytest.mark.abi("NEXTMSG")
def test_each_message_is_popped_once(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A")
    for _ in range(100):
        raw.send(one, raw.message(b"$.A"))
    popped: list[int] = []

    def pop(_: int) -> None:
        while raw.returned_and_number(one, "NEXTMSG")[0]:
            popped.append(1)

    at_once(pop)
    assert len(popped) == 100
    assert ksock_stats(one)["received"] == 100


def test_each_byte_is_read_once(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A")
    words = struct.pack("=4000I", *range(4000))
    raw.send(one, raw.message(b"$.A", words))
    one.next_msg()
    head = os.read(one.fileno(), 44)
    pieces: list[bytes] = []

    def read(index: int) -> None:
        while piece := os.read(one.fileno(), 4 * (index + 13)):
            pieces.append(piece)

    at_once(read)
    # The end guard, should it be a piece of its own, is greater than the words.
    pieces.sort(key=lambda piece: struct.unpack_from("=I", piece))
    assert raw.parse(head + b"".join(pieces)).data == words


def test_no_write_is_torn(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A")
    each, size = 50, 24
    packet = raw.message(b"$.A", bytes(THREADS * each * size))
    os.write(one.fileno(), packet[:44])
    blocks = [[struct.pack("=2I", index, n) * (size // 8) for n in range(each)] for index in range(THREADS)]

    def write(index: int) -> None:
        for block in blocks[index]:
            assert os.write(one.fileno(), block) == size

    at_once(write)
    os.write(one.fileno(), packet[-4:])
    one.send()
    data = raw.parse(raw.receive(one)).data
    arrived = [data[start : start + size] for start in range(0, len(data), size)]
    assert sorted(arrived) == sorted(block for group in blocks for block in group)
    for group in blocks:
        assert [block for block in arrived if block in group] == group


@pytest.mark.abi("SEND")
def test_a_message_is_sent_once(ksock: OpenKsock) -> None:
    one, listener = ksock(), ksock()
    listener.bind("$.A")
    outcomes: list[object] = []

    def send(_: int) -> None:
        try:
            outcomes.append(raw.msg_id(one, "SEND"))
        except OSError as error:
            assert error.errno == errno.ENOMSG

    for count in range(1, 11):
        os.write(one.fileno(), raw.message(b"$.A"))
        at_once(send)
        assert len(outcomes) == count
    assert len(names(listener)) == 10


@pytest.mark.rule(16)
@pytest.mark.axiom("order")
def test_order_with_several_senders_at_once(ksock: OpenKsock) -> None:
    listeners, senders = [ksock(), ksock()], [ksock() for _ in range(THREADS)]
    for listener in listeners:
        listener.set_max_messages(1000)
        listener.bind("$.A")
    sent: list[list[raw.Pair]] = [[] for _ in senders]

    def send(index: int) -> None:
        for _ in range(50):
            sent[index].append(raw.send(senders[index], raw.message(b"$.A")))

    at_once(send)
    queues = [[packet.id for packet in raw.receive_all(listener)] for listener in listeners]
    assert queues[0] == queues[1] == sorted(id for ids in sent for id in ids)
    assert all(ids == sorted(ids) for ids in sent)
