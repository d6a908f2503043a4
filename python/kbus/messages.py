# SPDX-License-Identifier: MIT
"""Messages as values: Message, its four subclasses, and functions that make one from another or read one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, TypeVar, Union

from . import _abi as abi
from . import _wire as wire
from ._ids import MessageId as MessageId
from ._ids import OrigFrom as OrigFrom

#: What can be the data of a message. Numbers are bytes; None and no bytes are the same.
Data = Union[str, bytes, bytearray, memoryview, Sequence[int], None]

_M = TypeVar("_M", bound="Message")


class Message:
    """A message of any kind, written or read.

    ``name`` must begin with ``$.`` and go on; KBUS itself checks the rest of it when the message is
    sent. ``data`` is text, which becomes bytes by ``encoding`` and ``errors``, any bytes-like object,
    a list of numbers from 0 to 255, or None. The attributes are:

    ===============  =======================================================================
    ``name``         str
    ``data``         bytes of exactly the length that was given, or None if there are none
    ``to``           KSock id; 0 for no KSock in particular
    ``from_``        KSock id of the sender; KBUS sets it, 0 is KBUS itself
    ``orig_from``    OrigFrom or None
    ``final_to``     OrigFrom or None
    ``in_reply_to``  MessageId of the Request that this message answers, or None
    ``flags``        int, the constants below; without the bits that give the length of data
    ``id``           MessageId or None; KBUS sets it unless its network id is not 0
    ===============  =======================================================================

    Do not assign to them: ``from_message`` makes a message that differs from another. With
    ``orig_from`` or ``final_to``, EXTENDED is set in ``flags``.

    Messages are equal if all of these are equal, whatever their class; they are not hashable.

    Raises ValueError for a name without ``$.``, a number that does not fit 32 bits or flags in
    bits 30 or 31, and TypeError for a value of another type. Source: the ABI, 'A message, as bytes'.
    """

    WANT_A_REPLY = abi.BIT_WANT_A_REPLY
    WANT_YOU_TO_REPLY = abi.BIT_WANT_YOU_TO_REPLY
    SYNTHETIC = abi.BIT_SYNTHETIC
    URGENT = abi.BIT_URGENT
    ALL_OR_WAIT = abi.BIT_ALL_OR_WAIT
    ALL_OR_FAIL = abi.BIT_ALL_OR_FAIL
    EXTENDED = abi.BIT_EXTENDED
    START_GUARD = abi.MSG_START_GUARD
    END_GUARD = abi.MSG_END_GUARD
    #: Bytes before the name, of a message without ``orig_from`` and ``final_to``.
    MSG_HEADER_LEN = abi.MESSAGE_HEADER.size

    #: Flags that every message of this class has.
    _own_flags = 0

    __slots__ = ("data", "final_to", "flags", "from_", "id", "in_reply_to", "name", "orig_from", "to")

    def __init__(
        self,
        name: str,
        data: Data = None,
        to: Optional[int] = None,
        from_: Optional[int] = None,
        orig_from: Optional[OrigFrom] = None,
        final_to: Optional[OrigFrom] = None,
        in_reply_to: Optional[MessageId] = None,
        flags: Optional[int] = None,
        id: Optional[MessageId] = None,
        encoding: str = "utf-8",
        errors: str = "strict",
    ) -> None:
        if not isinstance(name, str) or not name.startswith("$.") or len(name) < 3:
            raise _wrong_name(name)
        self.name: str = name
        self.data: Optional[bytes] = (
            (data or None) if type(data) is bytes else bytes_of(data, encoding, errors)
        )
        # What is not given needs no check: most messages have only a name and data.
        self.to: int = abi.check_u32("to", to) if to else 0
        self.from_: int = abi.check_u32("from_", from_) if from_ else 0
        self.orig_from: Optional[OrigFrom] = (
            None if orig_from is None else _checked_pair("orig_from", orig_from, OrigFrom)
        )
        self.final_to: Optional[OrigFrom] = (
            None if final_to is None else _checked_pair("final_to", final_to, OrigFrom)
        )
        self.in_reply_to: Optional[MessageId] = (
            None if in_reply_to is None else _checked_pair("in_reply_to", in_reply_to, MessageId)
        )
        self.id: Optional[MessageId] = None if id is None else _checked_pair("id", id, MessageId)
        own = self._own_flags
        self.flags: int = abi.check_u32("flags", flags) | own if flags else own
        if flags and flags & abi.BITS_DATA_PAD:
            raise ValueError(f"flags are {self.flags:#x}, but bits 30 and 31 are not a user's")
        if self.orig_from or self.final_to:
            self.flags |= self.EXTENDED
        self._check_kind(self.flags)

    def _check_kind(self, flags: int) -> None:
        """Raise ValueError if with these flags this is no message of its class."""

    # From other forms and to them.

    @classmethod
    def from_message(
        cls: type[_M],
        msg: Message,
        data: Data = None,
        to: Optional[int] = None,
        from_: Optional[int] = None,
        *,
        orig_from: Optional[OrigFrom] = None,
        final_to: Optional[OrigFrom] = None,
        in_reply_to: Optional[MessageId] = None,
        flags: Optional[int] = None,
        id: Optional[MessageId] = None,
        encoding: str = "utf-8",
        errors: str = "strict",
    ) -> _M:
        """Return a message like ``msg``, except for what is given and not None.

        Raises ValueError if that is no message of this class.
        """
        message = cls.__new__(cls)
        given = (data, to, from_, orig_from, final_to, in_reply_to, flags, id, encoding, errors)
        # Classes differ in what their constructors take, and in which order.
        Message.__init__(message, msg.name, *_or_of(msg, given))
        return message

    @classmethod
    def from_sequence(cls: type[_M], seq: Sequence[Any], *args: Any, **overrides: Any) -> _M:
        """Return the message of which ``extract`` gave ``seq``: nine values, in its order.

        Other arguments are those of ``from_message``. Raises ValueError for another number of values,
        and as the constructor does.
        """
        if len(seq) != len(wire.Fields._fields):
            raise ValueError(f"a message is made of {len(wire.Fields._fields)} values, not {len(seq)}")
        return cls.from_message(Message(**wire.Fields(*seq)._asdict()), *args, **overrides)

    @classmethod
    def from_bytes(cls: type[_M], data: Union[bytes, bytearray, memoryview]) -> _M:
        """Return the message that ``data`` is, guards included, as ``Ksock.read_data`` gives it.

        ``Message.from_bytes`` accepts all that KBUS delivers. Raises ValueError, which
        names the cause, if this is not exactly one message, or none of this class.
        """
        buffer = bytes(data)
        wire.check(buffer)
        (message,) = received(buffer, 1)
        if not isinstance(message, cls):
            return cls.from_message(message)
        if not message.name.startswith("$.") or len(message.name) < 3:
            raise _wrong_name(message.name)
        return message

    def to_bytes(self) -> bytes:
        """Return the message as it is written to a KSock, in the machine's byte order."""
        return wire.encode(self)

    def total_length(self) -> int:
        """Return the length of ``to_bytes()``, in bytes."""
        return wire.length(self)

    def extract(self) -> tuple[Any, ...]:
        """Return ``(id, in_reply_to, to, from_, orig_from, final_to, flags, name, data)``.

        This is the order of the parts in the message, and not that of the constructor.
        """
        return tuple(self._fields())

    def _fields(self) -> wire.Fields:
        return wire.Fields(*[getattr(self, field) for field in wire.Fields._fields])

    def cast(self) -> Message:
        """Return a copy of the class that fits.

        Status if KBUS made the message, else Reply or Request if it is one, else Announcement.
        Reading gives plain Messages, whatever their kind. Raises ValueError for a mixture of kinds,
        which KBUS would not send: a reply or status that is a Request.
        """
        kind: type[Message] = Announcement
        if self.is_synthetic():
            kind = Status
        elif self.is_reply():
            kind = Reply
        elif self.is_request():
            kind = Request
        return kind.from_message(self)

    # Comparing and showing.

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self._fields() == other._fields()

    def equivalent(self, other: Message) -> bool:
        """Return whether the messages say the same to the same recipient.

        Compares name, data, to, orig_from and final_to, and so ignores what differs between a
        message and its copies or repetitions: ``id``, ``from_``, ``in_reply_to`` and ``flags``.
        """
        return self._what_is_said() == other._what_is_said()

    def _what_is_said(self) -> tuple[object, ...]:
        return self.name, self.data, self.to, self.orig_from, self.final_to

    def __repr__(self) -> str:
        arguments = [repr(self.name)]
        for field in ("data", "to", "from_", "orig_from", "final_to", "in_reply_to"):
            value = getattr(self, field)
            if value:
                arguments.append(f"{field}={value!r}")
        flags = self.flags & ~self._own_flags
        if flags:
            arguments.append(f"flags={flags:#010x}")
        if self.id:
            arguments.append(f"id={self.id!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"

    # What kind of message it is.

    def is_reply(self) -> bool:
        """Return whether this answers a Request, be it a Reply or a status."""
        return self.in_reply_to is not None

    def is_request(self) -> bool:
        """Return whether the sender wants a reply."""
        return bool(self.flags & self.WANT_A_REPLY)

    def is_stateful_request(self) -> bool:
        """Return whether this is a Request to one particular replier."""
        return self.is_request() and self.to != 0

    def is_synthetic(self) -> bool:
        """Return whether KBUS itself made this message."""
        return bool(self.flags & self.SYNTHETIC)

    def is_urgent(self) -> bool:
        """Return whether this goes to the front of its recipients' queues."""
        return bool(self.flags & self.URGENT)

    def wants_us_to_reply(self) -> bool:
        """Return whether the reader of this copy must answer it."""
        return bool(self.flags & self.WANT_YOU_TO_REPLY)

    # What can be changed before it is sent.

    def set_urgent(self, value: bool = True) -> None:
        """Make the message urgent, or not."""
        self._set_flag(self.URGENT, value)

    def set_want_reply(self, value: bool = True) -> None:
        """Make the message a Request, or not. Raises ValueError if its class forbids that."""
        self._set_flag(self.WANT_A_REPLY, value)

    def _set_flag(self, flag: int, value: bool) -> None:
        flags = self.flags | flag if value else self.flags & ~flag
        self._check_kind(flags)
        self.flags = flags


class Announcement(Message):
    """A message for all listeners. It wants no reply and is none: else ValueError."""

    __slots__ = ()

    def __init__(
        self,
        name: str,
        data: Data = None,
        to: Optional[int] = None,
        from_: Optional[int] = None,
        flags: Optional[int] = None,
        id: Optional[MessageId] = None,
        encoding: str = "utf-8",
        errors: str = "strict",
        *,
        orig_from: Optional[OrigFrom] = None,
        final_to: Optional[OrigFrom] = None,
    ) -> None:
        super().__init__(name, data, to, from_, orig_from, final_to, None, flags, id, encoding, errors)

    def _check_kind(self, flags: int) -> None:
        if flags & self.WANT_A_REPLY:
            raise ValueError(f"an Announcement cannot want a reply: {self!r}")
        if self.in_reply_to:
            raise ValueError(f"an Announcement cannot be a reply: {self!r}")


class Request(Message):
    """A message that one replier must answer; WANT_A_REPLY is set in it.

    With ``to``, only that KSock may be the replier. Raises ValueError if ``in_reply_to`` is set.
    """

    __slots__ = ()
    _own_flags = Message.WANT_A_REPLY

    def __init__(
        self,
        name: str,
        data: Data = None,
        to: Optional[int] = None,
        from_: Optional[int] = None,
        final_to: Optional[OrigFrom] = None,
        flags: Optional[int] = None,
        id: Optional[MessageId] = None,
        encoding: str = "utf-8",
        errors: str = "strict",
        *,
        orig_from: Optional[OrigFrom] = None,
    ) -> None:
        super().__init__(name, data, to, from_, orig_from, final_to, None, flags, id, encoding, errors)

    def _check_kind(self, flags: int) -> None:
        if not flags & self.WANT_A_REPLY:
            raise ValueError(f"a Request must want a reply: {self!r}")
        if self.in_reply_to:
            raise ValueError(f"a Request cannot be a reply: {self!r}")


class Reply(Message):
    """The answer to a Request; ``reply_to`` makes one. ``in_reply_to`` must be set, else ValueError."""

    __slots__ = ()

    def __init__(
        self,
        name: str,
        data: Data = None,
        to: Optional[int] = None,
        from_: Optional[int] = None,
        orig_from: Optional[OrigFrom] = None,
        in_reply_to: Optional[MessageId] = None,
        flags: Optional[int] = None,
        id: Optional[MessageId] = None,
        encoding: str = "utf-8",
        errors: str = "strict",
        *,
        final_to: Optional[OrigFrom] = None,
    ) -> None:
        super().__init__(name, data, to, from_, orig_from, final_to, in_reply_to, flags, id, encoding, errors)

    def _check_kind(self, flags: int) -> None:
        if not self.in_reply_to:
            raise ValueError(f"a Reply needs in_reply_to: {self!r}")
        if flags & self.WANT_A_REPLY:
            raise ValueError(f"a Reply cannot want a reply: {self!r}")


class Status(Message):
    """A message that KBUS made; SYNTHETIC is set in it. It is read, and not sent.

    In place of an answer it has ``in_reply_to``; events have none. It cannot want a reply:
    ValueError. ``original`` is its name, or a message that was read, from which it takes what is not
    given.
    """

    __slots__ = ()
    _own_flags = Message.SYNTHETIC

    def __init__(
        self,
        original: Union[Message, str],
        data: Data = None,
        to: Optional[int] = None,
        from_: Optional[int] = None,
        orig_from: Optional[OrigFrom] = None,
        final_to: Optional[OrigFrom] = None,
        in_reply_to: Optional[MessageId] = None,
        flags: Optional[int] = None,
        id: Optional[MessageId] = None,
        encoding: str = "utf-8",
        errors: str = "strict",
    ) -> None:
        given: tuple[Any, ...] = (
            data,
            to,
            from_,
            orig_from,
            final_to,
            in_reply_to,
            flags,
            id,
            encoding,
            errors,
        )
        if isinstance(original, Message):
            given = _or_of(original, given)
            original = original.name
        super().__init__(original, *given)

    def _check_kind(self, flags: int) -> None:
        if flags & self.WANT_A_REPLY:
            raise ValueError(f"a Status cannot want a reply: {self!r}")


def received(buffer: bytes, count: int) -> list[Message]:
    """Return the ``count`` messages that TRANSFER has put one after the other into ``buffer``.

    They are not checked again: KBUS checked them when they were sent.
    """
    messages = []
    begin = 0
    for _ in range(count):
        message = _new_message(Message)
        end = wire.decode_into(message, buffer, begin)
        messages.append(message)
        begin = (end + abi.TRANSFER_ALIGN - 1) & -abi.TRANSFER_ALIGN
    return messages


_new_message = Message.__new__


def reply_to(
    original: Message, data: Data = None, flags: int = 0, encoding: str = "utf-8", errors: str = "strict"
) -> Reply:
    """Return the Reply to a Request that was read, to be sent from the KSock that read it.

    Raises ValueError unless the reader of this copy must answer it (WANT_YOU_TO_REPLY).
    Source: semantics, rule 26.
    """
    if not original.wants_us_to_reply():
        raise ValueError(f"this message is not for us to reply to: {original!r}")
    return Reply(
        original.name,
        data,
        to=original.from_,
        final_to=original.orig_from,
        in_reply_to=original.id,
        flags=flags,
        encoding=encoding,
        errors=errors,
    )


def stateful_request(
    earlier_msg: Message,
    name: str,
    data: Data = None,
    from_: Optional[int] = None,
    flags: Optional[int] = None,
    id: Optional[MessageId] = None,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Request:
    """Return a Request to the same KSock; sending it fails if that is not the replier any more.

    ``earlier_msg`` is a reply, or an earlier stateful Request of ours for the same recipient.
    Raises ValueError for any other message, and for a status that comes from no replier.
    Source: semantics, rule 24.
    """
    if earlier_msg.is_reply():
        to, final_to = earlier_msg.from_, earlier_msg.orig_from
    elif earlier_msg.is_stateful_request():
        to, final_to = earlier_msg.to, earlier_msg.final_to
    else:
        raise ValueError(f"neither a reply nor a stateful request: {earlier_msg!r}")
    if not to:
        raise ValueError(f"this reply comes from no replier: {earlier_msg!r}")
    return Request(name, data, to, from_, final_to, flags, id, encoding, errors)


def _or_of(msg: Message, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """``given`` but the name, in the order of Message, with what ``msg`` has in place of None."""
    own = (msg.data, msg.to, msg.from_, msg.orig_from, msg.final_to, msg.in_reply_to, msg.flags, msg.id)
    return (*(theirs if value is None else value for value, theirs in zip(given, own)), *given[len(own) :])


def _wrong_name(name: object) -> Exception:
    if not isinstance(name, str):
        return TypeError(f"a message name is a str, not {type(name).__name__}")
    if name == "$.":
        return ValueError('message name "$." has no word')
    return ValueError(f'message name "{name}" does not start with "$."')


def bytes_of(data: Data, encoding: str = "utf-8", errors: str = "strict") -> Optional[bytes]:
    """Return the bytes that a message carries as its data; None if there are none."""
    if data is None:
        return None
    if isinstance(data, str):
        return data.encode(encoding, errors) or None
    if isinstance(data, (list, tuple)):
        return bytes(data) or None
    try:
        return memoryview(data).tobytes() or None  # type: ignore[arg-type]
    except TypeError:
        kind = type(data).__name__
        raise TypeError(f"data is text, bytes or a list of numbers, and not of type {kind}") from None


_Pair = TypeVar("_Pair", MessageId, OrigFrom)


def _checked_pair(what: str, pair: Optional[_Pair], kind: type[_Pair]) -> Optional[_Pair]:
    if pair is None or pair == kind(0, 0):
        return None
    if not isinstance(pair, kind):
        raise TypeError(f"{what} is a {kind.__name__}, not {type(pair).__name__}")
    return pair


def split_replier_bind_event_data(data: Optional[bytes]) -> tuple[bool, int, str]:
    """Return ``(is_bind, binder, name)`` from the data of a ``$.KBUS.ReplierBindEvent``.

    ``is_bind`` is False for an unbind, ``binder`` the KSock id of the replier, ``name`` what it
    bound. Raises ValueError for data of another form. Source: semantics, rule 32.
    """
    data = data or b""
    if len(data) < abi.BIND_EVENT.size:
        raise ValueError(f"not a replier bind event: {len(data)} bytes of data")
    is_bind, binder, name_len = abi.BIND_EVENT.unpack_from(data)
    name = data[abi.BIND_EVENT.size :]
    if len(name) != abi.padded(name_len):
        raise ValueError(f"not a replier bind event: {len(name)} bytes for a name of {name_len}")
    return bool(is_bind), binder, name[:name_len].decode()
