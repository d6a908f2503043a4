# SPDX-License-Identifier: MIT
"""Loading the module, with each allocation of its init failing in turn."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import pytest

from tests.debug import faults
from tests.debug.faults import Attempt, Call
from tests.kernel import module
from tests.kernel.helpers import device_stats
from tests.kernel.test_module import nodes, traces

pytestmark = pytest.mark.rule(38)


@pytest.fixture
def image(tmp_path: Path) -> bytes:
    """The module as it is without its KUnit tests, which would meet the faults as well."""
    stripped = tmp_path / "kbus.ko"
    rename = "--rename-section=.kunit_test_suites=.not_run"
    subprocess.run(["objcopy", rename, module.MODULE, stripped], check=True)
    return stripped.read_bytes()


def init_module(image: bytes, parameters: bytes) -> Call:
    """Load the module from memory."""
    return Call(faults.INIT_MODULE, faults.buffer(image), len(image), faults.buffer(parameters + b"\0"))


def test_load(image: bytes) -> None:
    module.unload()
    # What comes before init is the kernel's own work, and warns when it fails.
    before_init = init_module(image, b"num_kbus_devices=0").count()
    load = init_module(image, b"num_kbus_devices=2")

    def prepare() -> Call:
        if module.is_loaded():
            module.unload()
        assert traces() == []
        return load

    def done(attempt: Attempt) -> None:
        if attempt.error:
            assert traces() == []
        else:
            assert nodes() == ["kbus0", "kbus1"]
            assert device_stats(1)["ksocks"] == 0

    try:
        faults.each(
            "insmod",
            prepare,
            done,
            refused=[],
            despite=[errno.ENOMEM, errno.EFAULT],
            first=before_init + 1,
            starve=False,
        )
    finally:
        if module.is_loaded():
            module.unload()
        module.load()
    assert nodes() == ["kbus0"]
