# SPDX-License-Identifier: MIT
"""A process that can open no more files serves on, and is told what it would be told else."""

from __future__ import annotations

import os
import subprocess
import sys

# In a process of its own, which has not imported what is for failures alone.
PROGRAM = """
import errno
import resource
import threading

from kbus import Ksock, ReplierError, Request, Service
from kbus.testing import Bus

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
full, go = [], threading.Event()

def fill():
    try:
        while True:
            full.append(open("/dev/null"))
    except OSError:
        pass

with Bus(quiet=True), Ksock() as ksock, Ksock() as caller:
    service = Service(ksock)

    @service.replier("$.Wrong")
    def wrong(request):
        fill()
        raise ValueError("no")

    @service.replier("$.Late")
    def late(request):
        go.wait()
        fill()

    @service.replier("$.Clear")
    def clear(request):
        full.clear()
        return "on"

    with service.running():
        try:
            caller.call("$.Wrong", timeout=30)
        except ReplierError as error:
            print(error.kind)
        caller.call("$.Clear", timeout=30)
        try:
            caller.call("$.Late", timeout=0.1)
        except TimeoutError:
            go.set()
        print(caller.call("$.Clear", timeout=30).data)
    fill()
    try:
        caller.send_msg(Request("$.Nobody"))
    except OSError as error:
        full.clear()
        print(errno.errorcode[error.errno])
"""


def test_it_has_no_descriptor_left() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["ValueError", "b'on'", "EADDRNOTAVAIL"], done.stderr
    assert "ValueError: no" in done.stderr
