# SPDX-License-Identifier: MIT
"""Fixtures of the tests of the benchmark, some of which run in the virtual machine of tests/vm."""

from tests.kernel.conftest import nothing_left

__all__ = ["nothing_left"]
