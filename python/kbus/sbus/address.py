# SPDX-License-Identifier: MIT
"""How the place of a bus is written: a path, an abstract name in hex, or a descriptor. Pure.

========================== =====================================================================
``/run/sbus.socket``       a path
``/dev/unix/abstract/HEX`` an abstract name: all of ``sun_path``, its leading zero byte included, each
                           byte as two hex digits
``/dev/unix/abstract``     a random abstract name of 108 bytes, for a server
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
#: What fits into sun_path of the kernel's struct sockaddr_un; a path has a zero byte behind it there.
_SUN_PATH = 108


class Address(NamedTuple):
    """One of the four; ``path`` is for a path only, ``abstract`` has the leading zero byte. With all of them
    None a name is to be made up.
    """

    path: Optional[str] = None
    abstract: Optional[bytes] = None
    fd: Optional[int] = None

    def to_connect(self) -> bytes:
        """Return the address for a socket. Raises ValueError if no client can connect to it."""
        if self.path is not None:
            return os.fsencode(self.path)
        if self.abstract is not None:
            return self.abstract
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
        if name[0]:
            raise ValueError(f"an abstract name begins with the byte 00, not {digits[:2]}")
        if len(name) > _SUN_PATH:
            raise ValueError(f"an abstract name has at most {_SUN_PATH} bytes, not {len(name)}")
        return Address(abstract=name)
    if match := _FD.fullmatch(text):
        return Address(fd=int(match[1]))
    if not text or "\0" in text:
        raise ValueError("an address is not empty and has no NUL")
    if len(os.fsencode(text)) >= _SUN_PATH:
        raise ValueError(f"the path of a socket has at most {_SUN_PATH - 1} bytes")
    return Address(path=text)


def made_up() -> Address:
    """Return a random abstract address."""
    return Address(abstract=b"\0" + os.urandom(_SUN_PATH - 1))
