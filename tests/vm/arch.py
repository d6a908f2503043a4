# SPDX-License-Identifier: MIT
"""The processors that KBUS is tested on, as Debian, kbuild, the compilers and QEMU name them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arch:
    """A processor. The defaults are right for the one that the tests are started on."""

    debian: str
    """Debian's name of the architecture; the last part of KERNEL=, except for the first one."""
    flavour: str
    """How the names of Debian's kernel packages end."""
    machine: str
    """What virtme-run calls it, and QEMU."""
    compilers: dict[str, str]
    """Variables for the makefiles of kernels and of tests: CC64 and CC32 build programs of either width.

    gcc's -m32 would do for the latter, but it cannot be installed beside compilers for other processors.
    """
    packages: tuple[str, ...] = ()
    """What cross-building and emulation need."""
    emulated: str = ""
    """What is emulated, as QEMU's -cpu has it; virtme's choice if empty."""
    virtio: str = "pci"
    """What virtio devices are attached to: the end of QEMU's names for them."""
    qemu: tuple[str, ...] = ()
    """More options for QEMU."""


AMD64 = Arch(
    "amd64",
    "amd64",
    "x86_64",
    {"CC64": "gcc", "CC32": "i686-linux-gnu-gcc"},
    # With erms the kernel copies byte by byte, which is fast on real processors, and slow on emulated ones.
    emulated="max,-erms",
)

UM = Arch("amd64", "um", "um", {"ARCH": "um", "CC64": "gcc", "CC32": "i686-linux-gnu-gcc"})
"""User Mode Linux: a program of the host's, on the host's processor."""

FOREIGN = {
    "arm64": Arch(
        "arm64",
        "arm64",
        "aarch64",
        {
            "ARCH": "arm64",
            "CROSS_COMPILE": "aarch64-linux-gnu-",
            "CC": "aarch64-linux-gnu-gcc",
            "CC64": "aarch64-linux-gnu-gcc",
            "CC32": "arm-linux-gnueabihf-gcc",
        },
        (
            "gcc-aarch64-linux-gnu",
            "libc6-dev-arm64-cross",
            "gcc-arm-linux-gnueabihf",
            "libc6-dev-armhf-cross",
            "qemu-system-arm",
        ),
        virtio="device",
    ),
    "armhf": Arch(
        "armhf",
        "armmp",
        "arm",
        {
            "ARCH": "arm",
            "CROSS_COMPILE": "arm-linux-gnueabihf-",
            "CC": "arm-linux-gnueabihf-gcc",
            "CC64": "",
            "CC32": "arm-linux-gnueabihf-gcc",
        },
        ("gcc-arm-linux-gnueabihf", "libc6-dev-armhf-cross", "qemu-system-arm"),
        virtio="device",
        # This kernel does without addresses over 4 GiB.
        qemu=("-machine", "highmem=off"),
    ),
}
"""Those that are emulated whatever the host is, by Debian's name."""


def split(spec: str) -> tuple[str, Arch]:
    """What of KERNEL= is a version and a flavour, and which processor it is for.

    >>> split("6.12-arm64") == ("6.12", FOREIGN["arm64"])
    True
    >>> split("um") == ("um", UM)
    True
    """
    if spec == "um":
        return spec, UM
    rest, _, last = spec.rpartition("-")
    return (rest, FOREIGN[last]) if last in FOREIGN else (spec, AMD64)
