# SPDX-License-Identifier: MIT
"""Where the instructions of a message go: `python3 -m tests.bench.profile`.

The machine of icount.py runs each case twice, with a plugin of QEMU's (c/count.c) that counts how often each
instruction is executed. What the longer run has more of than the shorter one is of messages.
"""

from __future__ import annotations

import argparse
import bisect
import json
import re
import tempfile
from collections import Counter
from pathlib import Path

from tests.vm import kernels

from . import icount

PLUGIN = icount.PROGRAMS / "count.so"
LIMIT = 300

CASES = {
    "TRANSFER": "solo transfer",
    "SEQPACKET": "solo seqpacket",
    "TRANSFER, 32 a call": "solo transfer32",
    "TRANSFER, 64 KiB": "solo transfer --size 65536",
    "SEQPACKET, 64 KiB": "solo seqpacket --size 65536",
    "Request and reply": "round-trip transfer",
    "SEQPACKET, there and back": "round-trip seqpacket",
}
SHORT, LONG = 100, 400
"""Rounds; for round trips, so many times 500 microseconds of the clock that counts. See also icount.CASES."""

OWN = "[kbus]"
"""How the module's symbols end."""

RUNS = 2
"""How often each is run. To start the machine now and then takes a million instructions more."""

KERNEL_BEGINS, MODULES_BEGIN = 0xFFFF_8000_0000_0000, 0xFFFF_FFFF_C000_0000
PROGRAM, OTHER = "the program", "what is left"
GROUPS = {
    "KBUS": "[kbus]",
    "locks and lists": "spin mutex list_add list_del rwlock refcount read_lock read_unlock",
    "security modules": "security_ tomoyo_ aa_ apparmor_ bpf_lsm_",
    "sleeping, waking, switching": "sched switch wake wait entity task_fair ttwu psi runnable preempt cfs"
    " load_avg curr vruntime rq cpuacct cputime rcu hrtick next_task util_est set_next put_prev finish_task"
    " tick clock timer ktime idle budd record_times spread load_new_mm load_tls rb_ find_first_bit cr4_ asid"
    " local_bh",
    "sockets": "unix_ sock skb sk_ sendto recvfrom datagram scm_ import_single_range simple_copy_to_iter"
    " maybe_add_creds put_pid pid_vnr move_addr",
    "copying and clearing": "copy clear_page memset memcpy check_heap check_stack"
    " check_object virt_addr_valid",
    "memory": "alloc free slab get_page mod_ memcg mem_cgroup obj_cgroup charge refill drain folio policy"
    " zone should_fail prep_ rmqueue cache_from_obj PageHead",
    "system calls": "syscall entry_ sys_ vfs_ioctl fget fput fdget exit_to_user fpregs xfd_ rseq"
    " x86_indirect put_user get_user amd_clear gsbase",
}
"""What a symbol of the kernel belongs to: to the first one of which it has a part."""


class Symbols:
    """The kernel's symbols, modules' too, by address."""

    def __init__(self, lines: list[str]) -> None:
        """From the lines of /proc/kallsyms, between others."""
        found = [re.fullmatch(r"([0-9a-f]{16}) [tTwW] (\S+)(?:\s+(\[\S+\]))?", line) for line in lines]
        pairs = sorted((int(each[1], 16), each[2] + (each[3] or "")) for each in found if each)
        self._addresses = [address for address, _ in pairs]
        self._names = [name for _, name in pairs]
        self._text_ends = self._addresses[self._names.index("_etext")]

    def name(self, address: int) -> str:
        """The symbol that the address is in; "" for what runs only while the kernel starts."""
        if address < KERNEL_BEGINS:
            return PROGRAM
        if self._text_ends <= address < MODULES_BEGIN:
            return ""
        return self._names[bisect.bisect_right(self._addresses, address) - 1]


def group(symbol: str) -> str:
    """What it belongs to."""
    return next(
        (title for title, parts in GROUPS.items() if any(map(symbol.__contains__, parts.split()))), OTHER
    )


def profile(kernel: Path, module: Path, symbols: Symbols, case: str) -> dict[str, float]:
    """Instructions for each message, by symbol."""
    (less, few), (more, many) = (_executed(kernel, module, case, rounds) for rounds in (SHORT, LONG))
    by_symbol: Counter[str] = Counter()
    for address, count in more.items():
        by_symbol[symbols.name(address)] += count - less.get(address, 0)
    by_symbol.pop("", None)
    return {name: count / (many - few) for name, count in by_symbol.most_common() if count > 0}


def _executed(kernel: Path, module: Path, case: str, rounds: int) -> tuple[dict[int, int], float]:
    """How often each address was executed, and for how many messages."""
    is_solo = case.startswith("solo")
    line = f"{case} --rounds {rounds}" if is_solo else f"{case} --seconds {rounds / 2000}"
    counts = []
    for _ in range(RUNS):
        with tempfile.NamedTemporaryFile("r") as out:
            said = icount.run(kernel, [line], module, LIMIT, plugin=f"{PLUGIN},out={out.name}")
            counts.append({int(address, 16): int(count) for address, count in map(str.split, out)})
        (figures,) = icount.figures_of(said, 1)
    # A case of one process has as many rounds of warming up as are measured.
    messages = 2 * rounds if is_solo else figures["messages"]
    return {address: min(each.get(address, 0) for each in counts) for address in counts[0]}, messages


def grouped(by_symbol: dict[str, float]) -> dict[str, float]:
    """Instructions by what they belong to."""
    titles = dict.fromkeys((*GROUPS, PROGRAM, OTHER), 0.0)
    for name, count in by_symbol.items():
        titles[name if name == PROGRAM else group(name)] += count
    return titles


def main() -> int:
    """0 when all is counted."""
    parser = argparse.ArgumentParser(prog="tests.bench.profile", description="Tell where instructions go.")
    parser.add_argument("--kernel", default="", help="what to boot; Debian's stock kernel if not given")
    parser.add_argument("--module", type=Path, default=icount.MODULE)
    parser.add_argument("--case", action="append", choices=list(CASES), help="which, instead of all")
    parser.add_argument("--symbols", type=int, default=0, metavar="N", help="also print so many symbols")
    parser.add_argument("--json", type=Path, help="where to leave what is counted")
    options = parser.parse_args()
    kernel = icount.image(kernels.find(options.kernel))
    symbols = Symbols(icount.run(kernel, ["solo transfer --rounds 1"], options.module, LIMIT, symbols=True))
    profiles, functions = {}, {}
    for title in options.case or CASES:
        by_symbol = profile(kernel, options.module, symbols, CASES[title])
        profiles[title] = grouped(by_symbol)
        functions[title] = {
            name.removesuffix(OWN): round(count, 1) for name, count in by_symbol.items() if name.endswith(OWN)
        }
        print(f"{sum(by_symbol.values()):9,.0f}  {title}", flush=True)
        for name, count in profiles[title].items():
            print(f"{count:18,.0f}  {name}")
        for name in list(by_symbol)[: options.symbols]:
            print(f"{by_symbol[name]:27,.0f}  {name} ({group(name)})")
    if options.json:
        options.json.write_text(json.dumps({"profiles": profiles, "functions": functions}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
