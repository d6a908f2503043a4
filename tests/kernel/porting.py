# SPDX-License-Identifier: MIT
"""Every method of the original package, called as programs for it call it: docs/howto/porting.rst.

`OLD` has them all. test_porting.py calls them, and the docs make a table of what is different.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, NamedTuple

from kbus import ksock, messages
from kbus.ksock import Ksock
from kbus.messages import Announcement, Message, MessageId, OrigFrom, Reply, Request, Status


class Old(NamedTuple):
    """A way to call the original package."""

    what: str
    """How its documentation has it."""
    check: Callable[[], None]
    """Calls it, and asserts what it did."""
    differs: str
    """What is different here; nothing if that is empty."""


OLD: list[Old] = []


def old(what: str, differs: str = "") -> Callable[[Callable[[], None]], Callable[[], None]]:
    """The function calls `what`."""

    def add(check: Callable[[], None]) -> Callable[[], None]:
        OLD.append(Old(what, check, differs))
        return check

    return add


def _fails(number: int, call: Callable[..., object], *arguments: object) -> None:
    try:
        call(*arguments)
    except OSError as error:
        assert error.errno == number
    else:
        raise AssertionError(f"{call} did not fail")


# kbus.ksock


@old("Ksock(which=0, mode='rw')")
def _opening() -> None:
    with Ksock(0, "rw") as one, Ksock(which=0, mode="r") as other:
        assert [each.mode for each in (one, other)] == ["read/write", "read"]
        assert one.name == "/dev/kbus0"
        assert one.which == 0


@old("Ksock.close()")
def _closing() -> None:
    one = Ksock()
    assert one.fd is not None
    one.close()
    assert one.fd is None


@old("Ksock.bind(name, replier=False)", "as replier needs mode ``rw``, else EBADF")
def _binding() -> None:
    with Ksock() as one, Ksock(0, "r") as other:
        one.bind("$.A")
        one.bind("$.A", True)
        one.bind("$.B", replier=True)
        other.bind("$.A")
        _fails(errno.EBADF, other.bind, "$.C", True)


@old("Ksock.unbind(name, replier=False)")
def _unbinding() -> None:
    with Ksock() as one:
        one.bind("$.A", True)
        one.unbind("$.A", True)
        _fails(errno.EINVAL, one.unbind, "$.A")


@old("Ksock.ksock_id()")
def _id() -> None:
    with Ksock() as one, Ksock() as other:
        assert 0 < one.ksock_id() < other.ksock_id()


@old("Ksock.next_msg(), len_left(), read_data(count), read_msg(length)")
def _reading_in_pieces() -> None:
    with Ksock() as one:
        one.bind("$.A")
        for _ in range(2):
            one.send_msg(Announcement("$.A", b"1234"))
        length = one.next_msg()
        assert one.len_left() == length
        read = one.read_data(4)
        assert one.len_left() == length - 4
        assert Message.from_bytes(read + one.read_data(1000)).data == b"1234"
        message = one.read_msg(one.next_msg())
        assert message is not None
        assert message.name == "$.A"
        assert one.next_msg() == 0


@old("Ksock.write_data(data), send(), last_msg_id()")
def _writing_in_pieces() -> None:
    with Ksock() as one:
        one.bind("$.A")
        data = Announcement("$.A", b"1234").to_bytes()
        assert one.write_data(data[:8]) == 8
        assert one.write_data(data[8:]) == len(data) - 8
        sent = one.send()
        assert one.last_msg_id() == sent
        assert sent.network_id == 0


@old("Ksock.write_msg(message), discard()")
def _discarding() -> None:
    with Ksock() as one:
        one.write_msg(Announcement("$.A"))
        one.discard()
        _fails(errno.ENOMSG, one.send)


@old(
    "Ksock.send_msg(message)",
    "with ALL_OR_WAIT it waits for room, unless the Ksock is ``nonblocking``, or its descriptor has"
    " O_NONBLOCK: then it is EAGAIN as before",
)
def _sending() -> None:
    with Ksock(nonblocking=True) as one:
        one.bind("$.A")
        one.set_max_messages(1)
        message = Announcement("$.A", flags=Message.ALL_OR_WAIT)
        first = one.send_msg(message)
        assert isinstance(first, MessageId)
        _fails(errno.EAGAIN, one.send_msg, message)
        one.read_next_msg()
        assert one.send() == first + 1


@old("Ksock.read_next_msg(), wait_for_msg(timeout=None)")
def _reading() -> None:
    with Ksock() as one:
        one.bind("$.A")
        assert one.read_next_msg() is None
        assert one.wait_for_msg(0.01) is None
        one.send_msg(Announcement("$.A"))
        one.send_msg(Announcement("$.A"))
        assert [message.name for message in (one.read_next_msg(), one.wait_for_msg()) if message] == [
            "$.A"
        ] * 2


@old("for message in Ksock")
def _iterating() -> None:
    with Ksock() as one:
        one.bind("$.A")
        one.send_msg(Announcement("$.A"))
        assert [message.name for message in one] == ["$.A"]


@old("Ksock.find_replier(name)")
def _finding() -> None:
    with Ksock() as one:
        assert one.find_replier("$.A") is None
        one.bind("$.A", True)
        assert one.find_replier("$.A") == one.ksock_id()


@old("Ksock.max_messages(), set_max_messages(count)")
def _limiting() -> None:
    with Ksock() as one:
        assert one.max_messages() == 100
        assert one.set_max_messages(7) == 7


@old("Ksock.num_messages(), num_unreplied_to()")
def _counting() -> None:
    with Ksock() as one, Ksock() as other:
        other.bind("$.A", True)
        one.send_msg(Request("$.A"))
        assert (other.num_messages(), other.num_unreplied_to()) == (1, 0)
        other.read_next_msg()
        assert (other.num_messages(), other.num_unreplied_to()) == (0, 1)


@old("Ksock.want_messages_once(only_once=False, just_ask=False)")
def _once() -> None:
    with Ksock() as one:
        assert not one.want_messages_once(True)
        assert one.want_messages_once(just_ask=True)
        assert one.want_messages_once()
        assert not one.want_messages_once(False, True)


_ADMINISTRATOR = (
    "is for the administrator of the device, unless the module has ``writers_configure=Y``: else EPERM"
)


@old("Ksock.kernel_module_verbose(verbose=True, just_ask=False)", _ADMINISTRATOR)
def _verbose() -> None:
    with Ksock() as one:
        assert not one.kernel_module_verbose()
        assert one.kernel_module_verbose(just_ask=True)
        assert one.kernel_module_verbose(False)


@old("Ksock.report_replier_binds(report_events=True, just_ask=False)", _ADMINISTRATOR)
def _reporting() -> None:
    with Ksock() as one:
        assert not one.report_replier_binds()
        one.bind("$.KBUS.ReplierBindEvent")
        one.bind("$.A", True)
        event = one.read_next_msg()
        assert event is not None
        split = messages.split_replier_bind_event_data(event.data)
        assert split == (True, one.ksock_id(), "$.A")
        assert one.report_replier_binds(False)


@old("Ksock.max_message_size(), set_max_message_size(count)", f"to set it {_ADMINISTRATOR}")
def _size() -> None:
    with Ksock() as one:
        before = one.max_message_size()
        assert one.set_max_message_size(1000) == 1000
        assert one.set_max_message_size(before) == before


@old("Ksock.new_device()", "needs CAP_SYS_ADMIN, else EPERM; 256 devices at most, else ENOSPC")
def _device() -> None:
    with Ksock() as one, Ksock(one.new_device()) as other:
        assert other.which > 0


@old("Ksock.fileno()")
def _fileno() -> None:
    with Ksock() as one:
        assert one.fd is not None
        assert one.fileno() == one.fd.fileno()


@old("read_bindings(names)", "is for root and the bus's group, as ``/proc/kbus`` is")
def _bindings() -> None:
    with Ksock() as one, Ksock() as other:
        one.bind("$.A", True)
        other.bind("$.*")
        assert ksock.read_bindings({one.ksock_id(): "one"}) == [
            (other.ksock_id(), False, "$.*"),
            ("one", True, "$.A"),
        ]


# kbus.messages

_PAIRS = OrigFrom(1, 2), OrigFrom(3, 4), MessageId(5, 6), MessageId(7, 8)


def _parts(message: Message) -> tuple[Any, ...]:
    """What the constructor of Message takes, in its order."""
    return (
        *(message.name, message.data, message.to, message.from_, message.orig_from, message.final_to),
        *(message.in_reply_to, message.flags & ~Message.EXTENDED, message.id),
    )


@old("MessageId(network_id, serial_num), MessageId + number, OrigFrom(network_id, local_id)")
def _ids() -> None:
    assert MessageId(1, 2) + 3 == MessageId(1, 5)
    assert MessageId(1, 2) < MessageId(1, 3) < MessageId(2, 0)
    assert (OrigFrom(1, 2).network_id, OrigFrom(1, 2).local_id) == (1, 2)


@old(
    "Message(name, data=None, to=None, from_=None, orig_from=None, final_to=None, in_reply_to=None,"
    " flags=None, id=None, encoding='utf-8', errors='strict')"
)
def _message() -> None:
    origin, final, earlier, own = _PAIRS
    given = ("$.A", b"data", 1, 2, origin, final, earlier, Message.URGENT, own)
    assert _parts(Message(*given)) == given
    assert Message("$.A", "\u00e9", encoding="latin-1").data == b"\xe9"
    assert Message("$.A", "\u00e9", encoding="ascii", errors="replace").data == b"?"
    assert Message("$.A", [1, 2, 255]).data == Message("$.A", bytearray(b"\1\2\xff")).data == b"\1\2\xff"
    assert Message("$.A", "").data is Message("$.A", b"").data is None
    try:
        Message("$.")
    except ValueError:
        return
    raise AssertionError("a name without a word was taken")


@old(
    "Announcement(name, data=None, to=None, from_=None, flags=None, id=None, encoding='utf-8',"
    " errors='strict')"
)
def _announcement() -> None:
    own = _PAIRS[3]
    message = Announcement("$.A", "\u00e9", 1, 2, Message.URGENT, own, "latin-1", "strict")
    assert _parts(message) == ("$.A", b"\xe9", 1, 2, None, None, None, Message.URGENT, own)


@old(
    "Request(name, data=None, to=None, from_=None, final_to=None, flags=None, id=None, encoding='utf-8',"
    " errors='strict')"
)
def _request() -> None:
    _, final, _, own = _PAIRS
    message = Request("$.A", "\u00e9", 1, 2, final, Message.URGENT, own, "latin-1", "strict")
    flags = Message.URGENT | Message.WANT_A_REPLY
    assert _parts(message) == ("$.A", b"\xe9", 1, 2, None, final, None, flags, own)


@old(
    "Reply(name, data=None, to=None, from_=None, orig_from=None, in_reply_to=None, flags=None, id=None,"
    " encoding='utf-8', errors='strict')"
)
def _reply() -> None:
    origin, _, earlier, own = _PAIRS
    message = Reply("$.A", "\u00e9", 1, 2, origin, earlier, Message.URGENT, own, "latin-1", "strict")
    assert _parts(message) == ("$.A", b"\xe9", 1, 2, origin, None, earlier, Message.URGENT, own)


@old("Status(original)")
def _status() -> None:
    original = Message("$.KBUS.Replier.GoneAway", None, 1, 2, in_reply_to=_PAIRS[2], id=_PAIRS[3])
    status = Status(original)
    assert status.is_synthetic()
    assert _parts(status)[:7] == _parts(original)[:7]
    assert status.id == original.id


@old(
    "from_message(msg, data=None, to=None, from_=None, ...), from_sequence(seq, data=None, to=None,"
    " from_=None, ...) of all classes",
    "what comes after ``from_`` is given by keyword",
)
def _from_others() -> None:
    original = Request("$.A", b"data", 1, 2, flags=Message.URGENT)
    changed = Request.from_message(original, "other", 3, 4, flags=Message.WANT_A_REPLY)
    assert changed == Request("$.A", b"other", 3, 4)
    assert Message.from_sequence(original.extract()) == original
    assert Message.from_sequence(original.extract(), flags=1).flags == 1
    assert Request.from_sequence(original.extract(), "other", 3, 4).data == b"other"


@old("from_bytes(arg), to_bytes(), total_length(), extract()")
def _as_bytes() -> None:
    message = Announcement("$.A", b"data", 1, 2, id=MessageId(0, 9))
    assert Announcement.from_bytes(message.to_bytes()) == message
    assert message.total_length() == len(message.to_bytes())
    assert message.extract() == (MessageId(0, 9), None, 1, 2, None, None, 0, "$.A", b"data")


@old("Message.set_want_reply(value=True), set_urgent(value=True)")
def _setting() -> None:
    message = Message("$.A")
    message.set_urgent(value=True)
    message.set_want_reply(value=True)
    assert message.is_urgent()
    assert message.is_request()
    message.set_urgent(False)
    message.set_want_reply(False)
    assert message.flags == 0


@old(
    "Message.equivalent(other), cast(), wants_us_to_reply(), is_synthetic(), is_urgent(), is_reply(),"
    " is_request(), is_stateful_request()"
)
def _asking() -> None:
    request = Message("$.A", flags=Message.WANT_A_REPLY | Message.WANT_YOU_TO_REPLY, to=1)
    assert request.equivalent(Message("$.A", to=1))
    assert type(request.cast()) is Request
    assert (request.wants_us_to_reply(), request.is_synthetic(), request.is_urgent()) == (True, False, False)
    assert (request.is_reply(), request.is_request(), request.is_stateful_request()) == (False, True, True)


@old("reply_to(original, data=None, flags=0, encoding='utf-8', errors='strict')")
def _replying() -> None:
    request = Message("$.A", None, 1, 2, flags=Message.WANT_A_REPLY | Message.WANT_YOU_TO_REPLY, id=_PAIRS[3])
    reply = messages.reply_to(request, "\u00e9", Message.URGENT, "latin-1", "strict")
    assert _parts(reply) == ("$.A", b"\xe9", 2, 0, None, None, _PAIRS[3], Message.URGENT, None)


@old(
    "stateful_request(earlier_msg, name, data=None, from_=None, flags=None, id=None, encoding='utf-8',"
    " errors='strict')"
)
def _stateful() -> None:
    earlier = Reply("$.A", None, 1, 2, in_reply_to=_PAIRS[2])
    request = messages.stateful_request(
        earlier, "$.B", "\u00e9", 3, Message.URGENT, _PAIRS[3], "latin-1", "strict"
    )
    flags = Message.URGENT | Message.WANT_A_REPLY
    assert _parts(request) == ("$.B", b"\xe9", 2, 3, None, None, None, flags, _PAIRS[3])


def table() -> str:
    """A table in rst of what is the same and what is different."""
    rows = [
        ".. list-table::",
        "   :header-rows: 1",
        "   :widths: 58 42",
        "",
        "   * - the original",
        "     - here",
    ]
    for each in OLD:
        rows += [f"   * - ``{each.what}``", f"     - {each.differs or 'the same'}"]
    return "\n".join(rows)
