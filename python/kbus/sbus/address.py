# SPDX-License-Identifier: MIT
"""How the place of a bus is written: a path, an abstract name in hex, or a descriptor. Pure.

========================== =====================================================================
``/run/sbus.socket``       a path
``/dev/unix/abstract/HEX`` an abstract name, each byte as two hex digits
``/dev/unix/abstract``     a random abstract name of 107 bytes, for a server
``/dev/fd/N``              a socket that was inherited, for a server
========================== =====================================================================
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional

DEFAULT = "/run/sbus.socket"

_ABSTRACT = "/dev/unix/abstract"
_FD = re.compile(r"/dev/fd/([0-9]+)")
#: What fits into the kernel's struct sockaddr_un, without the byte that says that it is abstract.
_NAME_LEN = 107


class Address(NamedTuple):
    """One of the four; ``path`` is for a path only. With all of them None a name is to be made up."""

    path: Optional[str] = None
    abstract: Optional[bytes] = None
    fd: Optional[int] = None

    def to_connect(self) -> bytes:
        """Return the address for a socket. Raises ValueError if nobody can connect to it."""
        if self.path is not None:
            return os.fsencode(self.path)
        if self.abstract is not None:
            return b"\0" + self.abstract
        raise ValueError("only a path or an abstract name in hex can be connected to")

    def __str__(self) -> str:
        if self.path is not None:
            return self.path
        if self.fd is not None:
            return f"/dev/fd/{self.fd}"
        return f"{_ABSTRACT}/{self.abstract.hex()}" if self.abstract is not None else _ABSTRACT


def parse(text: str) -> Address:
    """Return the address that is written like that. Raises ValueError, which names the cause."""
    if text == _ABSTRACT:
        return Address()
    if text.startswith(_ABSTRACT + "/"):
        digits = text[len(_ABSTRACT) + 1 :]
        if not re.fullmatch("([0-9A-Fa-f]{2})+", digits):
            raise ValueError(f"{digits!r} is not pairs of hex digits")
        name = bytes.fromhex(digits)
        if len(name) > _NAME_LEN:
            raise ValueError(f"an abstract name has at most {_NAME_LEN} bytes, not {len(name)}")
        return Address(abstract=name)
    if match := _FD.fullmatch(text):
        return Address(fd=int(match[1]))
    if not text or "\0" in text:
        raise ValueError("an address is not empty and has no NUL")
    if len(os.fsencode(text)) > _NAME_LEN:
        raise ValueError(f"the path of a socket has at most {_NAME_LEN} bytes")
    return Address(path=text)


def made_up() -> Address:
    """Return a random abstract address."""
    return Address(abstract=os.urandom(_NAME_LEN))
