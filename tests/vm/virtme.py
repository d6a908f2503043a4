# SPDX-License-Identifier: MIT
"""The command line of virtme-run, which brings together an initramfs, the host's files over 9p, and QEMU."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from .kernels import Kernel

HERE = Path(__file__).parent
SHARE = "/run/kbus"
"""Where the guest has the directory that it shares with the host."""
GUEST = f"{SHARE}/guest.sh"
"""What the guest runs. Where the repository is, virtme may have put a file system of its own."""

GUARDS = ("ignore_loglevel", "panic=-1", "oops=panic", "panic_on_warn=1")
"""Options of a kernel that is to end with the first thing that goes wrong."""

_PATIENCE = (
    # An emulated processor that gets no time looks stuck,
    "softlockup_panic=1",
    "watchdog_thresh=60",
    "rcupdate.rcu_cpu_stall_timeout=120",
    # and its timer broken, so that the kernel panics before it has a console.
    "no_timer_check",
)

COUNTING = ("-icount", "shift=0,sleep=off")
"""QEMU's clock goes on by a nanosecond with each instruction; to a time that all wait for it jumps."""


@dataclass(frozen=True)
class Machine:
    """What is booted, on what."""

    kernel: Kernel
    kvm: bool
    """Whether QEMU uses KVM; otherwise it emulates the processor."""
    cpus: int = 2
    memory: str = "2G"
    options: tuple[str, ...] = ()
    """More for the kernel's command line."""
    counts: bool = False
    """Whether the guest's clock goes on by a nanosecond with each instruction, which KVM cannot do."""
    shows_boot: bool = False
    """Whether QEMU's serial console goes to stderr."""


@dataclass(frozen=True)
class Shared:
    """What guest and host share."""

    directory: Path
    """Where both write: SHARE in the guest."""
    repo: Path
    """What the guest has in the repository's place."""

    @property
    def log(self) -> Path:
        """Where the kernel log goes."""
        return self.directory / "kernel.log"


def interactive(machine: Machine, shared: Shared) -> list[str]:
    """A virtme-run whose terminal becomes that of guest.sh; the kernel log goes to its stderr."""
    return [*_common(machine, shared), "--shell", GUEST, *_qemu_options(machine, shared)]


def batch(machine: Machine, shared: Shared, script: str = GUEST) -> list[str]:
    """A virtme-run that runs a shell script in the guest and powers it off.

    Its stdout and stderr must be pipes: QEMU opens them anew, which would empty a file.
    """
    arguments = [*_common(machine, shared), "--kopt", "console=hvc0", "--script-sh", script]
    if machine.shows_boot:
        arguments.append("--show-boot-console")
    virtio = machine.kernel.arch.virtio
    console = ["-chardev", f"file,id=log,path={shared.log}"]
    console += ["-device", f"virtio-serial-{virtio}", "-device", "virtconsole,chardev=log"]
    return [*arguments, *_qemu_options(machine, shared), *console]


def _common(machine: Machine, shared: Shared) -> list[str]:
    # It looks for scripts of its own, which a kernel needs that was just built.
    path = f"PATH={sys.prefix}/bin:{os.environ['PATH']}"
    arguments = ["env", path, "virtme-run", "--kimg", machine.kernel.image, "--mods", "auto"]
    arguments += ["--cpus", str(machine.cpus), "--memory", machine.memory]
    arguments += ["--arch", machine.kernel.arch.machine, "--root", str(machine.kernel.root)]
    arguments += ["--name", "kbus", "--force-9p", "--disable-microvm"]
    arguments += ["--rwdir", f"{SHARE}={shared.directory}"]
    if not machine.kvm:
        arguments.append("--disable-kvm")
    guest_path = f"PATH={_guest_bin()}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    for option in (guest_path, *GUARDS, *_PATIENCE, *machine.options):
        arguments += ["--kopt", option]
    return arguments


def _guest_bin() -> Path:
    """Where init finds guest-bin; that may be below /tmp or /var/tmp, over which it has mounted its own."""
    copies = Path(sys.prefix, "guest-bin")
    copies.mkdir(exist_ok=True)
    for program in HERE.joinpath("guest-bin").iterdir():
        copy = copies / program.name
        if not copy.exists() or copy.read_bytes() != program.read_bytes():
            # Another guest may be about to run it.
            new = shutil.copy2(program, f"{copy}.{os.getpid()}")
            os.replace(new, copy)
    return copies


def _qemu_options(machine: Machine, shared: Shared) -> list[str]:
    """The end of the command line: a panic ends QEMU, and there is what guest.sh mounts."""
    arch = machine.kernel.arch
    arguments = ["--qemu-opts", "-no-reboot", *arch.qemu]
    if arch.emulated and not machine.kvm:
        arguments += ["-cpu", arch.emulated]
    if machine.counts:
        arguments += COUNTING
    for tag, path in [("hostroot", machine.kernel.root), ("python", sys.prefix), ("repo", shared.repo)]:
        arguments += ["-fsdev", f"local,id={tag},path={path},security_model=none,readonly=on,multidevs=remap"]
        arguments += ["-device", f"virtio-9p-{arch.virtio},fsdev={tag},mount_tag={tag}"]
    return arguments
