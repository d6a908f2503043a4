# SPDX-License-Identifier: MIT
"""`python3 -m tests.vm`: the command line of the virtual machine. README.rst describes it."""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import dmesg, kernels, kvm, process, um, virtme
from .arch import UM

REPO = Path(__file__).parents[2]
FAILED = 125
"""Exit status for what is not the command's own failure: the guest died, or its log shows a problem."""
LOG_TAIL = 40
"""Lines of the kernel log that are shown of a guest that died, or was not done in time."""


def main() -> int:
    """The exit status of the command in the guest, process.TIMED_OUT or FAILED."""
    options = _parser().parse_args()
    if options.command is None and not sys.stdin.isatty():
        return _complain("a shell needs a terminal; give a command with -c")
    try:
        kernel = kernels.find(options.kernel)
    except (kernels.NoSuchKernelError, subprocess.CalledProcessError) as error:
        return _complain(str(error))
    if options.module and not options.module.is_file():
        return _complain(f"there is no {options.module}: has it been built?")
    _make_mount_points(kernel.root)
    has_kvm = not options.count and kvm.works(kernel, _cache())
    machine = virtme.Machine(
        kernel,
        has_kvm,
        options.cpus,
        options.memory,
        tuple(options.option),
        options.count,
        options.show_boot,
    )
    how = "KVM" if has_kvm else "User Mode Linux" if kernel.arch == UM else "emulation"
    print(f"vm: booting {kernel.release} by {how}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        directory = (options.results or Path(temporary, "results")).resolve()
        directory.mkdir(parents=True, exist_ok=True)
        # A shell sees what is edited meanwhile; a command runs undisturbed, and with a cache.
        repo = REPO if options.command is None else _snapshot(Path(temporary, "repo"))
        return _boot(machine, virtme.Shared(directory, repo), options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vm", description="Run a command or a shell under another kernel.")
    parser.add_argument("-c", "--command", help="what to run, as for sh -c; a shell if not given")
    parser.add_argument("--kernel", default="", help="what to boot; Debian's stock kernel if not given")
    parser.add_argument("--module", type=Path, help="kernel module to load first, and to unload in the end")
    parser.add_argument("--module-args", default="", help="its parameters, NAME=VALUE ...")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for a command, the boot included")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--memory", default="2G")
    parser.add_argument(
        "--count", action="store_true", help="emulate, with a clock that counts instructions as nanoseconds"
    )
    parser.add_argument(
        "--option", action="append", default=[], help="one more for the kernel's command line"
    )
    parser.add_argument("--results", type=Path, help="directory that is $RESULTS in the guest")
    parser.add_argument("--show-boot", action="store_true", help="copy the serial console to stderr")
    return parser


def _make_mount_points(root: Path) -> None:
    """Where guest.sh mounts: it can't make these itself, as the root is read-only."""
    for directory in (REPO, Path(sys.prefix)):
        root.joinpath(directory.relative_to("/")).mkdir(parents=True, exist_ok=True)


def _snapshot(copy: Path) -> Path:
    unneeded = shutil.ignore_patterns(".git", "build", "*.o", ".*.cmd")
    return Path(shutil.copytree(REPO, copy, symlinks=True, ignore=unneeded))


def _boot(machine: virtme.Machine, shared: virtme.Shared, options: argparse.Namespace) -> int:
    token = _write_job(machine, shared, options)
    commands = um if machine.kernel.arch == UM else virtme
    if options.command is None:
        with open(shared.log, "wb") as log:
            subprocess.run(commands.interactive(machine, shared), stderr=log, check=False)
        return _verdict(shared, token, timed_out=False)
    shared.log.write_bytes(b"")
    command = commands.batch(machine, shared)
    status = process.run(command, options.timeout, sys.stdout.buffer, sys.stderr.buffer)
    if status == process.TIMED_OUT:
        _complain(f"not done after {options.timeout:g} seconds")
    return _verdict(shared, token, status == process.TIMED_OUT)


def _write_job(machine: virtme.Machine, shared: virtme.Shared, options: argparse.Namespace) -> str:
    """Leave guest.sh its orders; the word by which its answer can be told from any other."""
    directory = shared.directory
    token = secrets.token_hex(16)
    shutil.copy2(virtme.HERE / "guest.sh", directory)
    job = {
        "um": "yes" if machine.kernel.arch == UM else "",
        "snapshot": shared.repo,
        "repo": REPO,
        "cache": "none" if options.command is None else "loose",
        "prefix": sys.prefix,
        "term": os.environ.get("TERM", "dumb") if options.command is None else "dumb",
        "module": Path(shutil.copy2(options.module, directory)).name if options.module else "",
        "module_args": options.module_args,
        "command": options.command or "",
        "token": token,
    }
    lines = [f"{name}={shlex.quote(str(value))}\n" for name, value in job.items()]
    directory.joinpath("job").write_text("".join(lines))
    return token


def _verdict(shared: virtme.Shared, token: str, timed_out: bool) -> int:
    """What is to be believed of a guest that is gone: last words that carry the token, and the kernel log."""
    log = shared.log.read_text(errors="replace").replace("\r", "")
    problems = dmesg.problems(log)
    for problem in problems:
        _complain(f"in the kernel log:\n{problem}")
    verdict = shared.directory / "verdict"
    words = verdict.read_text().split() if verdict.exists() else []
    if words[:1] == [token]:
        return int(words[1]) or (FAILED if problems else 0)
    if not problems:
        _complain("the kernel log ends:\n" + "\n".join(log.splitlines()[-LOG_TAIL:]))
    if timed_out:
        return process.TIMED_OUT
    return _complain("the guest died before the command was done")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kbus")


def _complain(message: str) -> int:
    print(f"vm: {message}", file=sys.stderr, flush=True)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
