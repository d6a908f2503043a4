# SPDX-License-Identifier: MIT
"""What has not been reached, from a disassembly."""

from __future__ import annotations

from .reached import places, report

DISASSEMBLY = """
kernel/kbus.ko:     file format elf64-x86-64

0000000000000000 <kbus_first>:
       0:\tpush   %rbp
       d:\tcall   12 <kbus_first+0x12>
\t\t\te: R_X86_64_PLT32\t__sanitizer_cov_trace_pc-0x4
      12:\tcall   17 <kbus_first+0x17>
\t\t\t13: R_X86_64_PLT32\tmutex_lock-0x4
      17:\tcall   1c <kbus_first+0x1c>
\t\t\t18: R_X86_64_PLT32\t__sanitizer_cov_trace_pc-0x4

0000000000000020 <kbus_second>:
      2d:\tcall   32 <kbus_second+0x12>
\t\t\t2e: R_X86_64_PLT32\t__sanitizer_cov_trace_pc-0x4
"""


def test_places_are_what_comes_after_the_calls() -> None:
    assert places(DISASSEMBLY.splitlines()) == {"kbus_first": [0x12, 0x1C], "kbus_second": [0x32]}


def test_only_what_is_missing_is_told() -> None:
    found = places(DISASSEMBLY.splitlines())
    assert report(found, {0x12, 0x32, 0xFFFF}) == [
        "kbus_first: 1 of 2 missing: 1c",
        "2 of 3 places reached",
    ]
    assert report(found, {0x12, 0x1C, 0x32}) == ["3 of 3 places reached"]
