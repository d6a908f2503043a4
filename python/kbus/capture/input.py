# SPDX-License-Identifier: MIT
"""The bytes of a capture, out of gzip if they are of that, and some way ahead."""

from __future__ import annotations

import errno
import os
import re
import stat
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Optional, Union

_MAGIC = b"\x1f\x8b"
#: How a capture begins that is not of gzip
_SECTION = b"\n\r\r\n"
#: How each member of a file of gzip begins: method, flags, time, how hard it tried, system
_MEMBER = re.compile(b"\x1f\x8b\x08[\0-\x1f].{4}[\0\2\4].", re.DOTALL)
_MEMBER_LENGTH = 10
#: Bytes of what looks like a member that are unzipped to see whether it is one
_CHECKED = 1 << 12
_CHUNK = 1 << 16
#: Bytes of a damaged member in which the next one is looked for; it may go on for long before that shows
_SEEN = 1 << 20
#: Members that may be damaged, beside one for each chunk: they may be one inside the other
_TRIES = 16
#: zlib's word for a gzip header and trailer
_GZIP = 16 + zlib.MAX_WBITS
#: Bytes that are asked for, if fewer will do
_PIECE = 1 << 20
#: What is open already, such as a pipe from another program
_DESCRIPTOR = re.compile(r"/dev/(stdin|fd/\d+)|/proc/(self|\d+)/fd/\d+")


def open_file(path: Union[str, os.PathLike[str]]) -> BinaryIO:
    """Open a file to read, and nothing that may have to be waited for. Raises OSError."""
    # Without O_NONBLOCK this waits until a process opens a FIFO to write.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        # A link in a directory may lead to a pipe whose writer never writes.
        may_be_pipe = _DESCRIPTOR.fullmatch(os.fspath(path)) and stat.S_ISFIFO(mode)
        if not (stat.S_ISREG(mode) or may_be_pipe):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb")


def begins_like_gzip(begin: bytes) -> bool:
    """Return whether a file is of gzip that begins with these bytes, of which one may be damaged."""
    return begin[:1] == _MAGIC[:1] or begin[1:2] == _MAGIC[1:]


class MaybeGzip:
    """Reads ``file``, which need not be seekable, and unzips it if it is of gzip.

    ``read`` returns all that can be had before it raises EOFError for a file that is cut, or ``zlib.error``
    for one that is damaged. Then it goes on with the next member: files that were put one after the other
    are one file, and damage in one of them is no reason to lose the others. Captures that are not of gzip may
    come behind those that are.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        begin = b""
        while len(begin) < len(_MAGIC) and (more := file.read(len(_MAGIC) - len(begin))):
            begin += more
        self._begin = begin
        self._unzipped = self._unzip(begin) if begins_like_gzip(begin) else None

    def read(self, count: int) -> bytes:
        """Return up to ``count`` bytes, or what there is if it is of gzip, and none only at the end."""
        if self._unzipped is None:
            begin, self._begin = self._begin, b""
            return begin or self._file.read(count)
        found = next(self._unzipped, b"")
        if isinstance(found, Exception):
            raise found
        return found

    def _unzip(self, data: bytes) -> Iterator[Union[bytes, EOFError, zlib.error]]:
        """Yield what is in the members, which begin with ``data``, and why there is no more of one."""
        tries = _TRIES
        while data:
            unzip = zlib.decompressobj(_GZIP)
            # What has been read last of this member, in which another one may begin
            seen = data[1:]
            while not unzip.eof:
                if not data:
                    data = self._file.read(_CHUNK)
                    seen = seen[-_SEEN:] + data
                    tries += 1
                if not data:
                    yield EOFError("the file ends inside its gzip data")
                    break
                before = unzip.copy()
                try:
                    unzipped = unzip.decompress(data, _CHUNK)
                except zlib.error as error:
                    yield from filter(None, [_until_error(before, data), error])
                    break
                data = unzip.unconsumed_tail
                if unzipped:
                    yield unzipped
            if not unzip.eof:
                tries -= 1
                data = self._next_member(seen if tries > 0 else b"")
                continue
            data = unzip.unused_data
            data += self._file.read(_CHUNK) if len(data) < len(_SECTION) else b""
            if data.startswith(_SECTION):
                yield data
                yield from iter(lambda: self._file.read(_CHUNK), b"")
                return

    def _next_member(self, data: bytes) -> bytes:
        """Return what there is from the next member on, which begins in ``data`` or behind it."""
        at = 0
        while True:
            found = _MEMBER.search(data, at)
            at = found.start() if found else max(at, len(data) - _MEMBER_LENGTH + 1)
            if len(data) - at < _CHECKED and (more := self._file.read(_CHUNK)):
                data, at = data[at:] + more, 0
                continue
            if not found:
                return b""
            try:
                zlib.decompressobj(_GZIP).decompress(data[at : at + _CHECKED])
            except zlib.error:
                at += 1
                continue
            return data[at:]


def _until_error(unzip: zlib._Decompress, data: bytes) -> bytes:
    """Return what these bytes of gzip give before the one that is wrong."""
    parts = []
    try:
        for at in range(len(data)):
            parts.append(unzip.decompress(data[at : at + 1]))
    except zlib.error:
        pass
    return b"".join(parts)


class Window:
    """What has been read of a file and not been dealt with: ``data`` from ``at`` on.

    The file's first byte that is read is at ``begin``. ``piece`` bytes are read at least, if there are so
    many; without it no more than what there is, so that a pipe can be read while it is written. Where the
    file is damaged, ``have`` does not go beyond that: ``error`` says why, until it is set to None.
    """

    def __init__(self, file: Union[BinaryIO, MaybeGzip], begin: int = 0, piece: int = 0) -> None:
        self._file = file
        #: Where ``data`` begins in the file
        self.base = begin
        self._piece = piece
        self._is_all = False
        self.data = b""
        self.at = 0
        self.error: Optional[str] = None

    @property
    def offset(self) -> int:
        """Where ``at`` is in the file."""
        return self.base + self.at

    def left(self) -> int:
        """Return how many bytes there are in ``data`` from ``at`` on."""
        return len(self.data) - self.at

    def have(self, count: int) -> bool:
        """Return whether there are ``count`` more bytes, having read as many: then ``data`` is another."""
        left = self.left()
        if left >= count:
            return True
        if self._is_all or self.error is not None:
            return False
        # Of what is left much is not copied for a little more.
        needed = max(count - left, self._piece, left >> 3 if left > _PIECE else 0)
        parts = [self.data[self.at :]]
        while needed > 0 and not self._is_all and self.error is None:
            try:
                part = self._file.read(max(needed, _PIECE))
            except (EOFError, zlib.error) as error:
                part, self.error = b"", str(error)
            else:
                self._is_all = not part
            parts.append(part)
            needed -= len(part)
        self.base += self.at
        self.at = 0
        self.data = b"".join(parts)
        return len(self.data) >= count
