# SPDX-License-Identifier: MIT
"""Debian's Chromium, without a window and without a network."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

#: The report lets no script run but its own.
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
#: The option for a screen in the dark
DARK = "--blink-settings=preferredColorScheme=0"


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
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout

    def result(self, page: Path, script: str, width: int, *options: str) -> Any:
        """What an expression is, once the page is shown on a screen of this width; it may be a promise."""
        # Chromium has no window narrower than 500 pixels; a frame can be.
        inner, outer = self._where / "inner.html", self._where / "outer.html"
        wanted = f"parent.document.title = JSON.stringify(await ({script}))"
        asked = f"<script>addEventListener('load', async () => {{ {wanted} }})</script>"
        inner.write_text(_POLICY.sub("", page.read_text()).replace("</body>", f"{asked}</body>"))
        outer.write_text(
            '<html lang="en"><title></title>'
            f'<iframe src="{inner.name}" style="width: {width}px; height: 2000px; border: 0"></iframe>'
        )
        dom = self._run(
            "--window-size=1600,2000", "--allow-file-access-from-files", "--virtual-time-budget=60000",
            *options, "--dump-dom", outer.as_uri(),
        )  # fmt: skip
        (found,) = re.findall(r"<title>(.+)</title>", dom)
        return json.loads(unescape(found))

    def picture(self, page: Path, width: int, height: int, *options: str, scripts: bool = True) -> Picture:
        """A screenshot of the page; without ``scripts`` none is run."""
        shown = page
        if not scripts:
            shown = self._where / "shown.html"
            shown.write_text(re.sub('script-src [^"]*', "script-src 'none'", page.read_text(), count=1))
        path = self._where / f"{page.stem}-{width}.png"
        outer = self._where / "frame.html"
        outer.write_text(
            f'<body style="margin: 0"><iframe src="{shown.as_uri()}"'
            f' style="width: {width}px; height: {height}px; border: 0"></iframe>'
        )
        size = f"--window-size={max(width, 500)},{height}"
        self._run(size, *options, f"--screenshot={path}", outer.as_uri())
        pixels = np.asarray(Image.open(path))[::3, :width:3]
        return Picture(path, len(np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0)))

    def pdf(self, page: Path) -> Path:
        """The page as it is printed."""
        path = self._where / f"{page.stem}.pdf"
        self._run(f"--print-to-pdf={path}", page.as_uri())
        return path
