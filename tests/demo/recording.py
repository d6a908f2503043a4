# SPDX-License-Identifier: MIT
"""The `kbus` command in the demo: recording all of it, and looking at that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kbus import inspect
from tests.demo.roles import PATIENCE, DidNotHappen

COMMAND = [sys.executable, "-m", "kbus.cli"]


def kbus(*arguments: str) -> str:
    """Run it to its end, and give what it printed."""
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if done.returncode:
        raise DidNotHappen(f"kbus {arguments[0]} failed: {done.stderr}")
    return done.stdout


class Recording:
    """`kbus record`, from when it listens. Use it with `with`: at the end it and its files are gone."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [*COMMAND, "record", "--name", "demo", "-o", self._directory.name], stderr=subprocess.DEVNULL
        )
        self.pid = self._process.pid
        self.ksock_id = self._await_binding()

    def _await_binding(self) -> int:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for binding in inspect.bindings(0):
                if binding.pid == self.pid:
                    return binding.ksock_id
            time.sleep(0.01)
        self._process.kill()
        raise DidNotHappen(f"kbus record did not listen within {PATIENCE:g} s")

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *details: object) -> None:
        self.end()
        self._directory.cleanup()

    def end(self) -> None:
        """Have it end, as SIGTERM does it. Can be repeated."""
        self._process.terminate()
        if self._process.wait(PATIENCE):
            raise DidNotHappen(f"kbus record ended with status {self._process.returncode}")

    def keep(self) -> None:
        """Leave what it has made where the machine outside finds it."""
        if "RESULTS" in os.environ:
            shutil.copy(self.path, os.environ["RESULTS"])

    @property
    def path(self) -> Path:
        """The file that it has made."""
        (path,) = Path(self._directory.name).glob("*.pcapng")
        return path
