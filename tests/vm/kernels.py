# SPDX-License-Identifier: MIT
"""Which kernel KERNEL= means: found here, or fetched from Debian.

`python3 -m tests.vm.kernels [KERNEL]` prints the directory that modules for it are built with.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .arch import AMD64, UM, Arch, split

HERE = Path(__file__).parent
PACKAGES = HERE.parent / "setup" / "packages.sh"
BUILD = HERE / "debug" / "build.sh"
FETCH = HERE / "foreign.sh"
FROM_SOURCE = ("um", "debug", "kcsan")
"""Kernels that are built here; debug/NAME.config says what each watches."""


class NoSuchKernelError(Exception):
    """The message names what was asked for and what was looked for."""


@dataclass(frozen=True)
class Kernel:
    """A kernel to boot, and what its modules are built with."""

    release: str
    """As `uname -r` prints it."""
    build: Path
    """The directory for `make -C`: installed headers, or the kernel's own build tree."""
    image: str
    """What virtme-run takes as --kimg: a release whose image is in /boot, a build tree, or a file; or, of
    User Mode Linux, the program."""
    arch: Arch = AMD64
    root: Path = Path("/")
    """The files that the guest sees."""


def find(spec: str, headers_only: bool = False) -> Kernel:
    """The kernel that `spec` means, installed first if it has to be; with `headers_only` without its image.

    `spec` is empty for the distribution's stock kernel, a version with or without a flavour (6.12, 6.1-rt), a
    whole release (6.1.0-56-amd64), one of FROM_SOURCE, or the directory of a kernel that was built by hand.
    Another processor than this machine's follows version and flavour, or stands alone (arm64, 6.12-arm64).

    NoSuchKernelError if there is none, subprocess.CalledProcessError if it cannot be installed or built.
    """
    if spec in FROM_SOURCE:
        built = subprocess.run([BUILD, spec], check=True, stdout=subprocess.PIPE, text=True)
        return _built_here(Path(built.stdout.strip()))
    if "/" in spec:
        return _built_here(Path(spec).resolve())
    if split(spec)[1] != AMD64:
        return _foreign(spec)
    release = spec if _is_here(spec, headers_only) else _packaged_release(spec, headers_only)
    return Kernel(release, _headers(release), release)


def _headers(release: str) -> Path:
    return Path("/lib/modules", release, "build")


def _is_here(release: str, headers_only: bool) -> bool:
    return (
        release != ""
        and _headers(release).is_dir()
        and (headers_only or Path(f"/boot/vmlinuz-{release}").exists())
    )


def _foreign(spec: str) -> Kernel:
    wanted, arch = split(spec)
    subprocess.run([PACKAGES, *arch.packages], check=True, stdout=sys.stderr)
    version = wanted.partition("-")[0]
    command = [str(FETCH), arch.debian, version, *header_packages(spec)]
    fetched = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    system = Path(fetched.stdout.strip())
    release = system.joinpath("release").read_text().strip()
    root = system / "root"
    return Kernel(release, system / "build", f"{root}/boot/vmlinuz-{release}", arch, root)


def _built_here(tree: Path) -> Kernel:
    release = tree / "include/config/kernel.release"
    if not release.is_file():
        raise NoSuchKernelError(f"{tree} is not where a kernel was built: there is no {release}")
    if (program := tree / "linux").is_file():
        return Kernel(release.read_text().strip(), tree, str(program), UM)
    return Kernel(release.read_text().strip(), tree, str(tree))


def header_packages(spec: str) -> list[str]:
    """The Debian packages that can stand for `spec`, a version with or without a flavour, likeliest first.

    >>> header_packages("6.1-rt")
    ['linux-headers-6.1-rt-amd64', 'linux-headers-rt-amd64']
    """
    wanted, arch = split(spec)
    version, _, flavour = wanted.partition("-")
    suffix = f"{flavour}-{arch.flavour}" if flavour else arch.flavour
    named = [f"linux-headers-{version}-{suffix}"] if version else []
    return [*named, f"linux-headers-{suffix}"]


def _packaged_release(spec: str, headers_only: bool) -> str:
    version = spec.partition("-")[0]
    packages = header_packages(spec)
    for headers in packages:
        release = release_of(headers)
        if release and (not version or re.match(rf"{re.escape(version)}(\.|$)", release)):
            image = headers.replace("headers", "image")
            wanted = [headers] if headers_only else [headers, image]
            subprocess.run([PACKAGES, *wanted], check=True, stdout=sys.stderr)
            release = release_of(headers)
            if _is_here(release, headers_only):
                return release
            raise NoSuchKernelError(f"{headers} and {image} are of different releases: bring both up to date")
    raise NoSuchKernelError(
        f"no kernel {spec or 'at all'} among Debian's packages here: looked for {' and '.join(packages)}"
    )


def release_of(package: str) -> str:
    """The release of the kernel that a metapackage brings, or has brought if it is installed; '' for none."""
    installed = ["dpkg-query", "-W", "-f", "Depends: ${Depends}", package]
    for query in (installed, ["apt-cache", "depends", package]):
        answer = subprocess.run(query, capture_output=True, text=True, check=False)
        found = re.search(r"Depends: linux-headers-(\d[^\s,]*)", answer.stdout)
        if answer.returncode == 0 and found:
            return found[1]
    return ""


def main() -> int:
    """The command line; 1 if there is no such kernel."""
    parser = argparse.ArgumentParser(prog="kernels", description="Print what builds modules for a kernel.")
    parser.add_argument("kernel", nargs="?", default="")
    parser.add_argument("--headers-only", action="store_true", help="the kernel itself need not be installed")
    parser.add_argument("--release", action="store_true", help="print its release instead")
    parser.add_argument("--environment", action="store_true", help="print the variables of its compilers")
    options = parser.parse_args()
    if options.environment:
        for name, value in split(options.kernel)[1].compilers.items():
            print(f"export {name}={shlex.quote(value)}")
        return 0
    try:
        kernel = find(options.kernel, options.headers_only)
    except (NoSuchKernelError, subprocess.CalledProcessError) as error:
        print(f"kernels: {error}", file=sys.stderr)
        return 1
    print(kernel.release if options.release else kernel.build)
    return 0


if __name__ == "__main__":
    sys.exit(main())
