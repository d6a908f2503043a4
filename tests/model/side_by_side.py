# SPDX-License-Identifier: MIT
"""The model and /dev/kbus0 side by side: each call is made on both, and everything that shows is compared."""

from __future__ import annotations

import errno
import os
import select
from typing import Any

from kbus.testing.model import stats
from kbus.testing.model.bus import Device, DeviceLimits
from tests.kernel.helpers import device_stats

from . import driver
from .calls import SENT, outcome


def real_device(limits: DeviceLimits) -> Device:
    """The model of /dev/kbus0 as it stands, with nobody on it."""
    probe = driver.Ksock("rw")
    device = Device(
        limits,
        last_serial=device_stats()["last_serial"],
        next_ksock_id=probe.id + 1,
    )
    probe.close()
    device.sent = device_stats()["sent"]
    return device


class Pair:
    """A KSock of the model and one of the device that must not differ."""

    def __init__(self, device: Device, mode: str) -> None:
        self.model = device.open(mode)
        self.real = driver.Ksock(mode, clock=device.clock)
        assert self.real.id == self.model.id, "rule 39"

    def do(self, method: str, *arguments: object) -> Any:
        """Call the method on both, compare, and give the outcome."""
        self.model.device.clock.begin()
        expected = outcome(getattr(self.model, method), *arguments)
        got = outcome(getattr(self.real, method), *arguments)
        assert got == expected, f"{method}{arguments} gives {got!r}; the model says {expected!r}"
        if method == "send" and got == "EAGAIN":
            assert not self.real.poll() & select.POLLOUT, "rule 22: POLLOUT right after EAGAIN"
        return got

    def close_real(self) -> None:
        """Close the real one if that has not been done yet."""
        if self.real.is_open:
            self.real.close()

    def compare(self) -> None:
        """Whatever can be asked without changing anything is the same."""
        counts, said = self.real.counts(), self.model.counts()
        assert counts == said, f"KSock {self.model.id} has {counts}; the model says {said}"
        expected = self.model.poll()
        # Whose limit was lowered may be another than the one for whom it waits, which tells it.
        is_perhaps = self.model.waits and self.model.errno_of_retry() == errno.EBUSY
        # If many wait, whoever makes room tells some, and a worker the others, as soon as it has a processor.
        polled = self.real.poll(0 if is_perhaps else expected & select.POLLOUT)
        if self.model.waits and polled & select.POLLOUT:
            expected |= select.POLLOUT  # a hint that came too early
        elif is_perhaps:
            expected &= ~select.POLLOUT
        assert polled == expected, f"poll of KSock {self.model.id} gives {polled}; the model says {expected}"

    def compare_repliers(self) -> None:
        """Whoever would be given a Request is the same."""
        for name in sorted(set(SENT)):
            assert self.real.resolve(name) == self.model.resolve(name), f"rule 9, for {name!r}"


def compare_device(device: Device) -> None:
    """What /proc/kbus says of device 0 is what the model says, byte for byte."""
    assert shown("/proc/kbus/bindings", "# ") == stats.bindings_text(device)
    assert shown("/proc/kbus/stats", "device ") == stats.stats_text(device)


def shown(path: str, start: str) -> str:
    """The lines for device 0 in a file of /proc/kbus; the first line of each device begins with `start`."""
    fd = os.open(path, os.O_RDONLY)
    text = b"".join(iter(lambda: os.read(fd, 1 << 16), b"")).decode()
    os.close(fd)
    return text.partition("\n" + start)[0].rstrip("\n") + "\n"
