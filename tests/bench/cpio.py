# SPDX-License-Identifier: MIT
"""The format of an initramfs: cpio, "newc". The kernel describes it in early-userspace/buffer-format.rst."""

from __future__ import annotations

import stat

FILE = stat.S_IFREG | 0o755
CONSOLE = (stat.S_IFCHR | 0o600, 5, 1)
"""Mode, major and minor number of /dev/console, which init has as its output."""


def archive(files: dict[str, bytes]) -> bytes:
    """An archive with these files, all of which can be executed; and /dev/console.

    The same files always give the same bytes. Raises ValueError for a name with a
    slash: there are no directories but /dev.
    """
    if any("/" in name for name in files):
        raise ValueError("a file in a directory")
    entries = [_entry("dev", stat.S_IFDIR | 0o755), _entry("dev/console", CONSOLE[0], device=CONSOLE[1:])]
    entries += [_entry(name, FILE, content) for name, content in files.items()]
    return b"".join([*entries, _entry("TRAILER!!!", 0)])


def _entry(name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    encoded = name.encode() + b"\0"
    inode, owner, group, links, modified = 0, 0, 0, 1, 0
    numbers = (inode, mode, owner, group, links, modified, len(content), 0, 0, *device, len(encoded), 0)
    header = b"070701" + b"".join(b"%08x" % number for number in numbers)
    return _padded(header + encoded) + _padded(content)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)
