# SPDX-License-Identifier: MIT
"""Whether a file is the one that was looked at before: a file is known by its name, and by how it begins.

What counts is how it is without gzip, so a recording that is compressed stays the same one. Where it begins
differently, another file has been moved there, or written.
"""

from __future__ import annotations

import errno
import hashlib
import zlib
from typing import BinaryIO, NamedTuple, Optional

from kbus.capture.input import MaybeGzip, open_file

from .paths import existing

#: Bytes that are compared. A recording's first packet, which tells the time in ns, is among them: what is
#: before it has at most 64 KiB.
MOST = 1 << 17
#: Said of a file that is another one than it was
REPLACED = "it has been replaced before it was read"


class Beginning(NamedTuple):
    """How a file begins: ``digest`` is of its first ``length`` bytes."""

    length: int
    digest: int

    def is_of(self, file: BinaryIO) -> bool:
        """Return whether the file begins so."""
        return self == beginning(file, self.length)


def beginning(file: BinaryIO, length: int) -> Beginning:
    """Return how a file begins, which may have less."""
    file.seek(0)
    source, parts, left = MaybeGzip(file), [], length
    # Behind damage, more than what can be read now may be there when the file has grown.
    try:
        while left > 0 and (part := source.read(left)[:left]):
            parts.append(part)
            left -= len(part)
    except (EOFError, zlib.error):
        pass
    # So long that no two are the same by chance, and short enough for a column.
    return Beginning(length, int.from_bytes(hashlib.sha256(b"".join(parts)).digest()[:7], "big"))


def open_upload(path: str, begins: Optional[Beginning]) -> BinaryIO:
    """Open a file by the name that it has by now.

    Raises OSError, also if it does not begin so any more.
    """
    file = open_file(existing(path))
    if begins and not begins.is_of(file):
        file.close()
        raise OSError(errno.ESTALE, REPLACED, path)
    return file
