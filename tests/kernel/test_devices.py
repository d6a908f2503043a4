# SPDX-License-Identifier: MIT
"""Devices and what belongs to a whole device: rules 33, 34, 39 and 40, VERBOSE and RESET."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
from pathlib import Path

import pytest

from kbus import Announcement, Ksock, MessageId
from tests.kernel import raw
from tests.kernel.conftest import NewDevice, OpenKsock
from tests.kernel.helpers import bindings, device_stats, fails, fill, names, refused, stats_text, take
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY, become, in_child
from tests.kernel.room import told_to_try_again, waiting

U32_MAX = 0xFFFFFFFF
DEFAULT_SIZE, HIGHEST_SIZE = 1 << 20, 16 << 20


@pytest.mark.rule(33)
@pytest.mark.abi("NEWDEVICE")
def test_newdevice_makes_the_next_device(ksock: OpenKsock) -> None:
    one = ksock(mode="r")
    number = raw.number(one, "NEWDEVICE")
    assert Path(f"/sys/class/kbus/kbus{number}").exists()
    assert device_stats(number)["ksocks"] == 0
    with Ksock(number) as there:
        assert there.ksock_id() == 1
    assert raw.number(one, "NEWDEVICE") == number + 1


@pytest.mark.rule(33)
@pytest.mark.abi("NEWDEVICE")
def test_newdevice_needs_cap_sys_admin(ksock: OpenKsock) -> None:
    one = ksock()

    def try_it() -> None:
        become(NOBODY)
        with refused(errno.EPERM):
            raw.number(one, "NEWDEVICE")

    in_child(try_it)


@pytest.mark.rule(33)
def test_there_is_no_other_device() -> None:
    with fails(errno.ENOENT):
        Ksock(255)


@pytest.mark.rule(39)
@pytest.mark.abi("KSOCKID")
def test_ids_ascend_from_one(new_device: NewDevice) -> None:
    device = new_device()
    with Ksock(device) as first, Ksock(device, "r") as second:
        assert (raw.number(first, "KSOCKID"), raw.number(second, "KSOCKID")) == (1, 2)
    with Ksock(device) as third:
        assert raw.number(third, "KSOCKID") == 3


@pytest.mark.rule(33, 39)
def test_ids_wrap_to_one(new_device: NewDevice) -> None:
    device = new_device(first_ksock_id=U32_MAX - 1)
    ids = []
    for _ in range(4):
        with Ksock(device) as one:
            ids.append(raw.number(one, "KSOCKID"))
    assert ids == [U32_MAX - 1, U32_MAX, 1, 2]


@pytest.mark.rule(40)
def test_devices_share_nothing(ksock: OpenKsock, new_device: NewDevice) -> None:
    device = new_device()
    here, there = ksock(), ksock(device)
    for one in (here, there):
        one.bind("$.A", replier=True)
        one.bind("$.A")
    serial = device_stats()["last_serial"]
    here.send_msg(Announcement("$.A", b"here"))
    assert (here.num_messages(), there.num_messages()) == (1, 0)
    assert device_stats(device)["last_serial"] == 0
    assert there.send_msg(Announcement("$.A", b"there")) == MessageId(0, 1)
    assert take(there).data == b"there"
    assert take(here).data == b"here"
    assert device_stats()["last_serial"] == serial + 1
    assert there.find_replier("$.A") == there.ksock_id() == 1
    assert [binding.ksock_id for binding in bindings(device)] == [1, 1]


@pytest.mark.rule(40)
def test_queries_stay_on_their_device(ksock: OpenKsock, new_device: NewDevice) -> None:
    _, here, there = ksock(), ksock(), ksock(new_device())
    here.bind("$.A", replier=True)
    assert (there.find_replier("$.A"), there.resolve("$.A")) == (None, None)
    with refused(errno.ESRCH):
        there.peer(here.ksock_id())


@pytest.mark.rule(34)
@pytest.mark.abi("MAXMSGSIZE")
def test_the_message_size_can_be_asked(ksock: OpenKsock) -> None:
    one = ksock(mode="r")
    assert raw.number(one, "MAXMSGSIZE", 0) == DEFAULT_SIZE
    assert raw.number(one, "MAXMSGSIZE", 1) == HIGHEST_SIZE
    assert raw.number(one, "MAXMSGSIZE", 0) == device_stats()["max_message_size"] == DEFAULT_SIZE


@pytest.mark.rule(34)
@pytest.mark.abi("MAXMSGSIZE")
def test_the_message_size_belongs_to_the_device(ksock: OpenKsock, new_device: NewDevice) -> None:
    device = new_device()
    one, other = ksock(device), ksock(device, "r")
    for size in (100, 101, HIGHEST_SIZE, 5000):
        assert raw.number(one, "MAXMSGSIZE", size) == size
        assert raw.number(other, "MAXMSGSIZE", 0) == size
        assert device_stats(device)["max_message_size"] == size
    assert device_stats()["max_message_size"] == DEFAULT_SIZE


@pytest.mark.rule(34)
@pytest.mark.abi("MAXMSGSIZE")
@pytest.mark.parametrize("size", [2, 99, HIGHEST_SIZE + 1, U32_MAX])
def test_sizes_out_of_range(ksock: OpenKsock, size: int) -> None:
    one = ksock()
    with refused(errno.EINVAL):
        raw.number(one, "MAXMSGSIZE", size)


@pytest.mark.rule(34)
@pytest.mark.abi("MAXMSGSIZE")
def test_setting_the_size_needs_write_access(ksock: OpenKsock) -> None:
    reader = ksock(mode="r")
    with refused(errno.EBADF):
        raw.number(reader, "MAXMSGSIZE", DEFAULT_SIZE)


@pytest.mark.rule(13, 34)
@pytest.mark.abi("data_len")
def test_the_size_is_checked_on_write_only(ksock: OpenKsock, new_device: NewDevice) -> None:
    one = ksock(new_device())
    one.bind("$.A")
    raw.send(one, raw.message(b"$.A", bytes(200)))
    os.write(one.fileno(), raw.message(b"$.A", bytes(100)))
    one.set_max_message_size(100)
    one.send()
    assert [len(packet.data) for packet in raw.receive_all(one)] == [200, 100]
    fitting, over = raw.message(b"$.A", bytes(52)), raw.message(b"$.A", bytes(56))
    assert (len(fitting), len(over)) == (100, 104)
    raw.send(one, fitting)
    with fails(errno.EMSGSIZE):
        os.write(one.fileno(), over)
    with fails(errno.EMSGSIZE):
        os.write(one.fileno(), over[:40])
    raw.send(one, fitting)
    assert one.num_messages() == 2


@pytest.mark.rule(13, 34)
def test_a_lower_limit_does_not_cut_what_has_begun(ksock: OpenKsock, new_device: NewDevice) -> None:
    one = ksock(new_device())
    one.bind("$.A")
    packet = raw.message(b"$.A", bytes(200))
    os.write(one.fileno(), packet[:50])
    one.set_max_message_size(100)
    assert os.write(one.fileno(), packet[50:]) == len(packet) - 50
    one.send()
    assert len(raw.receive(one)) == len(packet)


@pytest.mark.rule(34)
@pytest.mark.abi("data")
def test_the_longest_message(ksock: OpenKsock, new_device: NewDevice) -> None:
    one = ksock(new_device())
    one.set_max_message_size(HIGHEST_SIZE)
    one.bind("$.A")
    data = os.urandom(1 << 16) * (HIGHEST_SIZE >> 16)
    packet = raw.message(b"$.A", data[: HIGHEST_SIZE - 48])
    assert len(packet) == HIGHEST_SIZE
    one.write_data(packet)
    one.send()
    received = raw.receive(one)
    assert received[32:] == packet[32:]


@pytest.mark.rule(33, 34)
def test_administrators_set_the_sizes(ksock: OpenKsock, new_device: NewDevice) -> None:
    one = ksock(new_device(default_message_size=2000))
    assert one.max_message_size() == 2000
    with parameter("max_message_size", 3000):
        assert one.set_max_message_size(1) == 3000
        with refused(errno.EINVAL):
            one.set_max_message_size(3001)
        one.set_max_message_size(3000)


@pytest.mark.abi("VERBOSE")
def test_verbose_is_a_switch_of_the_device(ksock: OpenKsock, new_device: NewDevice) -> None:
    device = new_device()
    one, reader = ksock(device), ksock(device, "r")
    for value, before in ((raw.ASK, 0), (raw.ON, 0), (raw.ASK, 1), (raw.OFF, 1), (raw.ASK, 0)):
        assert raw.number(one, "VERBOSE", value) == before
    raw.number(one, "VERBOSE", raw.ON)
    assert raw.number(reader, "VERBOSE", raw.ASK) == 1
    assert (device_stats(device)["verbose"], device_stats()["verbose"]) == (1, 0)
    with refused(errno.EINVAL):
        raw.number(one, "VERBOSE", 2)
    for value in (raw.ON, raw.OFF):
        with refused(errno.EBADF):
            raw.number(reader, "VERBOSE", value)


@pytest.mark.abi("VERBOSE")
def test_verbose_tells_the_kernel_log(ksock: OpenKsock, new_device: NewDevice) -> None:
    one = ksock(new_device())
    with open("/dev/kmsg", "rb", buffering=0) as log:
        os.set_blocking(log.fileno(), False)
        os.lseek(log.fileno(), 0, os.SEEK_END)
        one.bind("$.Quiet")
        one.kernel_module_verbose()
        one.bind("$.Loud")
        os.write(one.fileno(), raw.message(b"$.Asks", flags=raw.WANT_A_REPLY))
        with fails(errno.EADDRNOTAVAIL):
            one.send()
        lines = b""
        while record := _record(log.fileno()):
            lines += record
    assert b"$.Loud" in lines
    # A kernel without CONFIG_SYMBOLIC_ERRNAME has only the number.
    assert re.search(rb": SEND of \$\.Asks fails: -(EADDRNOTAVAIL|%d)\n" % errno.EADDRNOTAVAIL, lines)
    assert b"$.Quiet" not in lines


def _record(log: int) -> bytes:
    """The next record of /dev/kmsg, b"" if there is none."""
    try:
        return os.read(log, 8192)
    except BlockingIOError:
        return b""


@pytest.mark.abi("RESET")
def test_reset_has_no_effect(ksock: OpenKsock) -> None:
    one, sender = ksock(), ksock()
    one.bind("$.A")
    sender.send_msg(Announcement("$.A"))
    os.write(one.fileno(), raw.message(b"$.A")[:10])
    before = stats_text()
    assert raw.command(one, "RESET") == 0
    assert stats_text() == before
    os.write(one.fileno(), raw.message(b"$.A")[10:])
    one.send()
    assert names(one) == ["$.A", "$.A"]


@pytest.mark.abi("RESET")
@pytest.mark.parametrize(
    "request_number",
    [
        raw.IOCTLS["KSOCKID"] + 100,
        raw.IOCTLS["BIND"] & ~(0x3FFF << 16) | 12 << 16,
        raw.IOCTLS["NEXTMSG"] ^ 3 << 30,
        raw.IOCTLS["RESET"] - 1,
        0x5401,
    ],
    ids=["unknown number", "size of 32 bits", "wrong direction", "number 0", "of terminals"],
)
def test_unknown_ioctls_are_enotty(ksock: OpenKsock, request_number: int) -> None:
    one = ksock()
    with refused(errno.ENOTTY):
        fcntl.ioctl(one.fileno(), request_number, bytearray(64))


@pytest.mark.rule(40, 49)
@pytest.mark.axiom("isolation")
def test_work_on_a_device_wakes_nobody_of_another(ksock: OpenKsock, new_device: NewDevice) -> None:
    """Not even somebody of the same user, who waits for room."""
    full, sender = ksock(), ksock(nonblocking=True)
    fill(full, "$.A")
    told_to_try_again(sender, waiting())
    with select.epoll() as epoll, Ksock(new_device()) as other:
        epoll.register(sender.fileno(), select.EPOLLOUT | select.EPOLLET)
        epoll.poll(0)
        other.bind("$.A")
        raw.send(other, raw.message(b"$.A"))
        take(other)
        other.set_max_messages(10)
        other.unbind("$.A")
        other.close()
        assert epoll.poll(0) == []
        take(full)
        assert epoll.poll(0) == [(sender.fileno(), select.EPOLLOUT)]
