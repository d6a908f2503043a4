# SPDX-License-Identifier: MIT
"""Which of kmemleak's reports fail a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

FILTER = Path(__file__).parent / "leaks.awk"


def report(*functions: str) -> str:
    """A report as Linux 6.1 has them, with a backtrace of these functions."""
    calls = "".join(f"    [<00000000b484b42b>] {function}+0x1bf/0x2a0\n" for function in functions)
    return (
        'unreferenced object 0xff11000004eb2b00 (size 16):\n  comm "python3", pid 96, jiffies 4295049026\n'
        f"  hex dump (first 16 bytes):\n    6b 62 75 73 5f 69 74 65  kbus_ite\n  backtrace:\n{calls}"
    )


OURS = report("__kmalloc", "kbus_user_alloc [kbus]", "kbus_msg_new [kbus]", "kbus_ksock_write [kbus]")
CLASS = report("kstrdup_const", "__class_register", "kbus_devs_init [kbus]")


def left_of(text: str) -> str:
    return subprocess.run(
        ["awk", "-f", FILTER], input=text, capture_output=True, text=True, check=True
    ).stdout


def test_what_linux_itself_forgets_is_left_out() -> None:
    assert left_of(CLASS) == ""
    assert left_of(CLASS + OURS + CLASS) == OURS


def test_everything_else_is_kept() -> None:
    assert left_of(OURS + OURS) == OURS + OURS
    assert left_of("") == ""
