# SPDX-License-Identifier: MIT
"""What of a kernel log fails a run, and what does not."""

from __future__ import annotations

import pytest

from . import dmesg

WRONG = [
    "WARNING: CPU: 1 PID: 212 at kernel/kbus/queue.c:31 kbus_queue_push+0x4f/0x60 [kbus]",
    "BUG: kernel NULL pointer dereference, address: 0000000000000008",
    "kernel BUG at mm/slub.c:4000!",
    "Oops: 0000 [#1] PREEMPT SMP NOPTI",
    "general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1]",
    "BUG: unable to handle page fault for address: ffffc90000a3f000",
    "Kernel panic - not syncing: sysrq triggered crash",
    "WARNING: possible circular locking dependency detected",
    "WARNING: possible recursive locking detected",
    "WARNING: inconsistent lock state",
    "WARNING: suspicious RCU usage",
    "INFO: possible irq lock inversion dependency detected",
    "INFO: trying to register non-static key. The code is fine but needs lockdep annotation",
    "BUG: sleeping function called from invalid context at kernel/locking/mutex.c:580",
    "BUG: scheduling while atomic: python3/212/0x00000002",
    "INFO: task python3:212 blocked for more than 120 seconds.",
    "rcu: INFO: rcu_preempt self-detected stall on CPU",
    "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
    "watchdog: BUG: soft lockup - CPU#1 stuck for 134s! [python3:212]",
    "BUG: KASAN: slab-use-after-free in kbus_ksock_read+0x1f0/0x300 [kbus]",
    "UBSAN: array-index-out-of-bounds in kernel/name.c:40:11",
    "ODEBUG: free active (active state 0) object type: work_struct",
    "refcount_t: underflow; use-after-free.",
    "list_del corruption. prev->next should be ffff888003a3f000, but was 0000000000000000",
    "python3: page allocation failure: order:5, mode:0x40cc0(GFP_KERNEL|__GFP_COMP)",
    "Out of memory: Killed process 212 (python3) total-vm:2100000kB",
    "BUG kbus_message (Tainted: G  OE  ): Objects remaining in kbus_message on __kmem_cache_shutdown()",
    "    not ok 2 name_wildcard_matches_one_word",
]

HARMLESS = [
    "kbus: loading out-of-tree module taints kernel.",
    "kbus: module verification failed: signature and/or required key missing - tainting kernel",
    "Linux version 6.1.0-56-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0)",
    "x86/mm: Checked W+X mappings: passed, no W+X pages found.",
    "AMD-Vi: AMD IOMMUv2 functionality not available on this system - This is not a bug.",
    "rcu: Hierarchical RCU implementation.",
    "9pnet: Limiting 'msize' to 512000 as this is the maximum supported by transport virtio",
    "    ok 1 name_syntax",
]


@pytest.mark.parametrize("line", WRONG)
def test_wrong_line_is_found(line: str) -> None:
    log = "\n".join([*HARMLESS, f"[   12.345678] {line}", *HARMLESS])
    (problem,) = dmesg.problems(log)
    assert problem.splitlines()[0].endswith(line)


def test_ordinary_log_is_clean() -> None:
    assert dmesg.problems("\n".join(HARMLESS)) == []


def test_problem_comes_once_with_its_context() -> None:
    frames = [f" frame {number}" for number in range(dmesg.CONTEXT)]
    trace = ["BUG: unable to handle page fault", "Call Trace:", *frames]
    (problem,) = dmesg.problems("\n".join(trace))
    assert problem.splitlines() == trace[: dmesg.CONTEXT]


def test_problems_far_apart_come_one_by_one() -> None:
    log = "\n".join(["BUG: one", *["fine"] * dmesg.CONTEXT, "BUG: two"])
    assert [problem.splitlines()[0] for problem in dmesg.problems(log)] == ["BUG: one", "BUG: two"]
