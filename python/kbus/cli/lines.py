# SPDX-License-Identifier: MIT
"""How a message is shown: as a line, or as a JSON object.

The line, for the screen and for files::

    (TIME) kbusDEVICE ID KIND from KSOCK [by PID "COMMAND"] [to KSOCK] [re ID] [origin NODE] [final NODE]
    NAME LENGTH [DATA]

    (1700000000.123456789) kbus0 [0:12] A from 3 $.Sensors.Kitchen 4 "22.5"
    (1700000000.123501211) kbus0 [0:13] Qy from 4 $.Sensors.Kitchen 0
    (1700000000.124000817) kbus0 [0:14] R from 3 to 4 re [0:13] $.Sensors.Kitchen 3 00ff10
    (1700000000.125118420) kbus0 [0:16] S from 3 to 4 re [0:15] $.KBUS.Replier.Ignored 0
    (1700000000.130020993) kbus0 [0:17] A from 3 by 412 "kitchen.py" $.Sensors.Kitchen 4 "22.6"

It is one line, and its fields are parted by single blanks:

* TIME is when the message was sent, in nanoseconds, as ``-t`` asks for it: KBUS takes note of it when it
  queues the message. An urgent message may come before others that were sent earlier.
* ID is [network:serial], KSOCK a KSock id, NODE [network:local id].
* KIND is A for an announcement, Q for a request, R for a reply and S for a status. Small letters
  follow: ``y``, the reader of this copy must reply; ``u``, urgent; ``w`` and ``f``, all-or-wait and
  all-or-fail; ``s``, made by KBUS (of a status this goes without saying). Then, if user bits of the
  flags are set, a colon and these bits (16 to 29) as four hex digits.
* ``by`` is, with ``--peers``, the process that opened the sender's KSock, and the name of its
  program as a JSON string. It is not there if the KSock was closed before KBUS could be asked.
* ``to`` is there if it is not 0; ``re`` (the id of the request that is answered), ``origin``
  (orig_from) and ``final`` (final_to) if the message has them.
* LENGTH is in bytes. DATA is there if LENGTH is not 0: text in double quotes, with the escapes of a
  JSON string, if all of the data is UTF-8 and printable (line ends and tabs included); otherwise,
  and always with ``--hex``, pairs of hex digits.

The JSON object always has the fields ``time_ns`` (since 1970), ``device``, ``id`` ([network, serial]),
``kind``, ``name``, ``from``, ``to``, ``in_reply_to`` (an id or null), ``flags`` (a list of their names),
``user_bits``, ``orig_from`` and ``final_to`` ([network, local id] or null) and ``length``, and then
``data``, if that is UTF-8 text, or ``data_hex``, if not or with ``--hex``. With ``--peers`` it also has
``pid`` and ``command``, null where they are not known.

``kbus.cli.logs`` reads lines back.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import Any, Optional, Union

from .. import Message, MessageId, OrigFrom
from .. import _abi as abi
from .._failed import is_failed
from ..terminal.output import json_text
from .peers import Opener

__all__ = [
    "FLAGS",
    "KINDS",
    "as_json",
    "as_line",
    "colour_of",
    "colours_are_wanted",
    "letter_of",
    "shown_data",
]

#: the letter of each kind
KINDS = {"A": "announcement", "Q": "request", "R": "reply", "S": "status"}

#: flags, the small letter of each (WANT_A_REPLY shows in the letter Q) and its name in JSON
FLAGS: tuple[tuple[int, str, str], ...] = (
    (Message.WANT_A_REPLY, "", "WANT_A_REPLY"),
    (Message.WANT_YOU_TO_REPLY, "y", "WANT_YOU_TO_REPLY"),
    (Message.URGENT, "u", "URGENT"),
    (Message.ALL_OR_WAIT, "w", "ALL_OR_WAIT"),
    (Message.ALL_OR_FAIL, "f", "ALL_OR_FAIL"),
    (Message.SYNTHETIC, "s", "SYNTHETIC"),
)


def as_line(
    message: Message, device: int, when: str, always_hex: bool = False, peer: Optional[Opener] = None
) -> str:
    """The message as a line without its end; ``when`` is the time as a ``TimeStyle`` writes it."""
    letter = letter_of(message)
    user_bits = _user_bits(message)
    words = [
        f"({when})",
        f"kbus{device}",
        str(message.id or MessageId(0, 0)),
        letter + _small_letters(message, letter) + (f":{user_bits:04x}" if user_bits else ""),
        f"from {message.from_}",
    ]
    if peer:
        words.append(f"by {peer.pid} {json_text(peer.command)}")
    if message.to:
        words.append(f"to {message.to}")
    if message.in_reply_to:
        words.append(f"re {message.in_reply_to}")
    if message.orig_from:
        words.append(f"origin {message.orig_from}")
    if message.final_to:
        words.append(f"final {message.final_to}")
    data = message.data or b""
    words += [message.name, str(len(data))]
    if data:
        words.append(data.hex() if always_hex else _shown(data))
    return " ".join(words)


def as_json(message: Message, device: int, time_ns: int, always_hex: bool = False) -> dict[str, Any]:
    """The message as what becomes a JSON object."""
    data = message.data or b""
    record: dict[str, Any] = {
        "time_ns": time_ns,
        "device": device,
        "id": _pair(message.id),
        "kind": KINDS[letter_of(message)],
        "name": message.name,
        "from": message.from_ or 0,
        "to": message.to or 0,
        "in_reply_to": _pair(message.in_reply_to),
        "flags": [name for bit, _, name in FLAGS if message.flags & bit],
        "user_bits": _user_bits(message),
        "orig_from": _pair(message.orig_from),
        "final_to": _pair(message.final_to),
        "length": len(data),
    }
    text = None if always_hex else _text(data)
    if text is None:
        record["data_hex"] = data.hex()
    else:
        record["data"] = text
    return record


def letter_of(message: Message) -> str:
    """The letter of the message's kind."""
    if message.is_reply():
        return "S" if message.is_synthetic() else "R"
    return "Q" if message.is_request() else "A"


def _small_letters(message: Message, letter: str) -> str:
    small = "".join(each for bit, each, _ in FLAGS if message.flags & bit)
    return small.replace("s", "") if letter == "S" else small


def _user_bits(message: Message) -> int:
    return (message.flags & abi.BITS_USER) >> 16


def _pair(value: Union[MessageId, OrigFrom, None]) -> Optional[tuple[int, int]]:
    return dataclasses.astuple(value) if value else None


def _text(data: bytes) -> Optional[str]:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def shown_data(data: bytes, always_hex: bool = False) -> str:
    """Data for a line of its own: text without quotes if all of it is printable, else hex digits."""
    text = None if always_hex else _text(data)
    return text if text is not None and text.isprintable() else data.hex()


def _shown(data: bytes) -> str:
    text = _text(data)
    if text is not None and all(character.isprintable() or character in "\n\r\t" for character in text):
        return json.dumps(text, ensure_ascii=False)
    return data.hex()


_CYAN, _GREEN, _RED = "36", "32", "31"
_OF_LETTERS = {"A": "", "Q": _CYAN, "R": _GREEN, "S": _RED}
_BOLD = "1"


def colours_are_wanted() -> bool:
    """Return whether stdout is a terminal with colours, and its user has not refused them.

    Source: https://no-color.org, by which NO_COLOR counts unless it is empty.
    """
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") not in ("", "dumb")
    )


def colour_of(message: Message) -> str:
    """Return the parameters of SGR that a message's line has on a terminal; "" if it has none."""
    colour = _RED if is_failed(message) else _OF_LETTERS[letter_of(message)]
    return ";".join(filter(None, (_BOLD if message.is_urgent() else "", colour)))
