# SPDX-License-Identifier: MIT
"""Debian's Chromium, without a window and without a network."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import matplotlib.image
import numpy as np

_SCRIPT = "<script>document.title = 'wide ' + document.documentElement.scrollWidth</script>"


class Picture(NamedTuple):
    """A screenshot, and how many different colours it has."""

    path: Path
    colours: int


class Chromium:
    """Shows pages from files; ``where`` is for its profile and what it makes."""

    def __init__(self, where: Path) -> None:
        self._where = where

    def _run(self, *options: str) -> str:
        command = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={self._where / 'profile'}", *options,
        ]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    def _dom(self, page: Path, width: int) -> str:
        return self._run(f"--window-size={width},2000", "--dump-dom", page.as_uri())

    def text(self, page: Path, width: int) -> str:
        """What the page says once it is shown."""
        return re.sub("<[^>]*>", " ", self._dom(page, width))

    def scroll_width(self, page: Path, width: int) -> int:
        """How wide the page is, in pixels, on a screen that is so wide."""
        # Chromium has no window narrower than 500 pixels; a frame can be.
        inner = self._where / "inner.html"
        inner.write_text(page.read_text() + _SCRIPT.replace("document.title", "parent.document.title"))
        outer = self._where / "outer.html"
        outer.write_text(
            f'<iframe src="{inner.name}" style="width: {width}px; height: 2000px; border: 0"></iframe>'
        )
        dom = self._run(
            "--window-size=1600,2000", "--allow-file-access-from-files", "--dump-dom", outer.as_uri()
        )
        (found,) = re.findall(r"<title>wide (\d+)</title>", dom)
        return int(found)

    def picture(self, page: Path, width: int, height: int) -> Picture:
        """A screenshot of the page."""
        path = self._where / f"{page.stem}-{width}.png"
        self._run(f"--window-size={width},{height}", f"--screenshot={path}", page.as_uri())
        pixels = matplotlib.image.imread(path)
        return Picture(path, len(np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0)))

    def pdf(self, page: Path) -> Path:
        """The page as it is printed."""
        path = self._where / f"{page.stem}.pdf"
        self._run(f"--print-to-pdf={path}", page.as_uri())
        return path
