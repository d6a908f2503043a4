# SPDX-License-Identifier: MIT
"""Where tables can be: in a directory that all machines see, or in an S3 store, as ``s3://BUCKET/KEY``.

Delta's library and Arrow reach a store themselves, without Java's. They find it, and who asks, in the
environment variables of AWS's own tools: ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_REGION`` and
for another store than Amazon's ``AWS_ENDPOINT_URL``. All machines must have them.

A store must know conditional writes (``If-None-Match``), by which one of two commits to a log is the first.
"""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from pathlib import Path
from typing import Optional, Union

from pyarrow import fs

from ..decode.paths import local

_S3 = "s3://"


class S3Path:
    """A place in an S3 store, with as much of ``pathlib`` as tables need."""

    def __init__(self, text: str) -> None:
        self._text = text.rstrip("/")

    def __str__(self) -> str:
        return self._text

    def __truediv__(self, name: str) -> S3Path:
        return S3Path(f"{self._text}/{name}")

    @property
    def key(self) -> str:
        """The bucket and the key, as Arrow has them."""
        return self._text.removeprefix(_S3)


#: A file, or a directory, of either kind
Store = Union[Path, S3Path]


def store(text: str, what: str) -> Store:
    """Return where ``text`` says that tables are.

    Raises ValueError for what is neither a path nor in S3: ``what`` says what it is for.
    """
    if not text.startswith(_S3):
        path = local(text, what, or_else="or in S3")
        # Delta's library and Spark take it for a URL, or for a pattern.
        if set(str(path)) & set("%\\?*[]{}"):
            raise ValueError(f"{path}: {what} can have none of % \\ ? * [ ] {{ }} in their path")
        return path
    parts = text[len(_S3) :].rstrip("/").split("/")
    if not all(parts):
        raise ValueError(f"{text}: {what} in S3 are in s3://BUCKET or s3://BUCKET/KEY")
    # Delta's library takes it for a URL, where these mean something else, and Arrow does not.
    if set(text) & set("%#?") or {".", ".."} & set(parts):
        raise ValueError(f"{text}: {what} in S3 can have no %, # or ? in their KEY, and no part . or ..")
    return S3Path(text)


def arrow(path: Store) -> tuple[fs.FileSystem, str]:
    """Return Arrow's file system for a file, and what it is called there."""
    if isinstance(path, S3Path):
        return _s3(), path.key
    return fs.LocalFileSystem(), str(path)


def delta_options(path: Store) -> Optional[dict[str, str]]:
    """Return what ``deltalake`` must be told to reach a table."""
    if isinstance(path, S3Path) and _endpoint().startswith("http://"):
        return {"AWS_ALLOW_HTTP": "true"}
    return None


def size_of(path: Store) -> int:
    """Return how many bytes a file has. Raises FileNotFoundError, or another OSError."""
    if isinstance(path, Path):
        return path.stat().st_size
    info = _s3().get_file_info(path.key)
    if info.type != fs.FileType.File:
        raise FileNotFoundError(f"{path} is missing")
    return int(info.size)


def delete(path: Store) -> None:
    """Delete a file if it is there, and if that can be done."""
    with suppress(OSError):
        if isinstance(path, Path):
            path.unlink()
        else:
            _s3().delete_file(path.key)


def delete_below(directory: Store, begin: str) -> None:
    """Delete the files whose names begin so, as far as that can be done."""
    filesystem, name = arrow(directory)
    with suppress(OSError):
        for found in filesystem.get_file_info(fs.FileSelector(name, recursive=True)):
            if found.base_name.startswith(begin):
                filesystem.delete_file(found.path)


def inside(path: Store, root: Store) -> str:
    """Return the path of a file as seen from a directory in which it is."""
    return str(path).removeprefix(f"{root}/")


def make_directory(path: Store) -> None:
    """Make a directory, and those on the way to it, where there are any. Raises OSError."""
    if isinstance(path, Path):
        path.mkdir(parents=True, exist_ok=True)


def _endpoint() -> str:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")


@functools.cache
def _s3() -> fs.FileSystem:
    """Return the store, which each process looks for once."""
    return fs.S3FileSystem(
        endpoint_override=_endpoint() or None,
        region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
    )
