# SPDX-License-Identifier: MIT
"""Fixtures of the tests that need a loaded module. They run as root in the virtual machine of tests/vm."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from kbus import Ksock
from tests.kernel import module, raw, stand_in
from tests.kernel.helpers import PROC, bindings, device_stats, stats_lines
from tests.kernel.processes import LOOKERS, Child


class OpenKsock(Protocol):
    """Opens one more KSock, which is closed after the test."""

    def __call__(self, which: int = 0, mode: str = "rw", nonblocking: bool = False) -> Ksock: ...


class StartChild(Protocol):
    """Starts a Child, which is killed after the test at the latest."""

    def __call__(self, body: Callable[[], object]) -> Child: ...


class NewDevice(Protocol):
    """Makes one more device, with parameters set while it is made, and gives its number."""

    def __call__(self, **parameters: int) -> int: ...


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Each test begins and ends with a bus on which nobody is, and with the device as it was."""
    with stand_in.in_place() if stand_in.IS_WANTED else let_look():
        before = _state()
        yield
        assert _state() == before


@contextmanager
def let_look() -> Iterator[None]:
    """Whoever is in LOOKERS can look at /proc/kbus."""
    for path in (PROC, *PROC.iterdir()):
        os.chown(path, 0, LOOKERS)
    yield


def _state() -> tuple[object, ...]:
    ksocks = [line.key for line in stats_lines() if line.key[0] == "ksock"]
    device = device_stats()
    changeable = ("max_message_size", "report_replier_binds", "verbose", "waiting", "events_aside")
    return ksocks, bindings(), [device[name] for name in changeable]


@pytest.fixture
def ksock(nothing_left: None) -> Iterator[OpenKsock]:
    """Opens KSocks; all are closed afterwards."""
    with ExitStack() as stack:

        def open_one(which: int = 0, mode: str = "rw", nonblocking: bool = False) -> Ksock:
            return stack.enter_context(Ksock(which, mode, nonblocking=nonblocking))

        yield open_one


@pytest.fixture
def child(nothing_left: None) -> Iterator[StartChild]:
    """Starts children; all are killed afterwards."""
    with ExitStack() as stack:

        def start(body: Callable[[], object]) -> Child:
            started = Child(body)
            stack.callback(started.kill)
            return started

        yield start


@pytest.fixture
def write_only(nothing_left: None) -> Iterator[raw.Descriptor]:
    """A KSock on device 0 that is open for writing only."""
    descriptor = raw.Descriptor(os.open("/dev/kbus0", os.O_WRONLY | os.O_CLOEXEC))
    yield descriptor
    os.close(descriptor.fd)


@pytest.fixture
def new_device() -> NewDevice:
    """Makes devices for what cannot be undone on device 0. They stay until the module is unloaded."""

    def make(**parameters: int) -> int:
        with ExitStack() as stack:
            for name, value in parameters.items():
                stack.enter_context(module.parameter(name, value))
            with Ksock() as asker:
                return asker.new_device()

    return make


@pytest.fixture
def open_to_all() -> Iterator[None]:
    """Device 0 may be opened by every user."""
    stand_in.cannot(stand_in.Lacks.USERS)
    mode = os.stat("/dev/kbus0").st_mode
    os.chmod("/dev/kbus0", 0o666)
    yield
    os.chmod("/dev/kbus0", mode & 0o7777)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """On the stand-in, leave out what is about the kernel."""
    name = collection_path.name
    if stand_in.IS_WANTED and name.startswith("test_") and name[5:-3] not in stand_in.MODULES:
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On the stand-in, skip what that cannot pass."""
    for item in items if stand_in.IS_WANTED else ():
        why = stand_in.LEFT_OUT.get(item.name) or stand_in.LEFT_OUT.get(item.name.partition("[")[0])
        if why:
            item.add_marker(pytest.mark.skip(reason=f"the stand-in lacks {why.value}"))
