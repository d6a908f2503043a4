# SPDX-License-Identifier: MIT
"""Reading gzip from any file, also as much as there is of one that was cut or damaged."""

from __future__ import annotations

import zlib
from typing import BinaryIO

_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 16
#: zlib's word for a gzip header and trailer
_GZIP = 16 + zlib.MAX_WBITS


class MaybeGzip:
    """Reads ``file``, which need not be seekable, and unzips it if it is of gzip.

    ``read`` returns all that can be had before it raises EOFError for a file that is cut, or ``zlib.error``
    for one that is damaged.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._rest = b""
        while len(self._rest) < len(_MAGIC) and (more := file.read(len(_MAGIC) - len(self._rest))):
            self._rest += more
        self._zlib = zlib.decompressobj(_GZIP) if self._rest == _MAGIC else None

    def read(self, count: int) -> bytes:
        """Return up to ``count`` bytes, and none only at the end."""
        if self._zlib is None:
            begin, self._rest = self._rest, b""
            return begin or self._file.read(count)
        while True:
            if self._zlib.eof:
                # Files that were put one after the other are one file.
                self._rest = self._zlib.unused_data or self._file.read(_CHUNK)
                if not self._rest:
                    return b""
                self._zlib = zlib.decompressobj(_GZIP)
            data = self._rest or self._file.read(_CHUNK)
            if not data:
                raise EOFError("the file ends inside its gzip data")
            # A piece with an error in it is lost, so pieces are small.
            unzipped = self._zlib.decompress(data, min(count, _CHUNK))
            self._rest = self._zlib.unconsumed_tail
            if unzipped:
                return unzipped
