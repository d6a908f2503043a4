# SPDX-License-Identifier: MIT
"""The parts of the harness that need no guest: choosing a kernel and KVM, the time limit."""

from __future__ import annotations

import dataclasses
import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from . import arch, kernels, kvm, process, virtme

KERNEL = kernels.Kernel("6.1.0-1-amd64", Path("/lib/modules/6.1.0-1-amd64/build"), "6.1.0-1-amd64")


@pytest.mark.parametrize(
    ("spec", "packages"),
    [
        ("", ["linux-headers-amd64"]),
        ("6.12", ["linux-headers-6.12-amd64", "linux-headers-amd64"]),
        ("6.1-rt", ["linux-headers-6.1-rt-amd64", "linux-headers-rt-amd64"]),
        ("arm64", ["linux-headers-arm64"]),
        ("6.12-armhf", ["linux-headers-6.12-armmp", "linux-headers-armmp"]),
        ("6.1-rt-arm64", ["linux-headers-6.1-rt-arm64", "linux-headers-rt-arm64"]),
    ],
)
def test_header_packages_of_a_version(spec: str, packages: list[str]) -> None:
    assert kernels.header_packages(spec) == packages


def test_metapackage_that_is_not_installed_names_its_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        "dpkg-query": "echo 'no packages found' >&2; exit 1",
        "apt-cache": "echo linux-headers-6.12-amd64; echo '  Depends: linux-headers-6.12.117+deb12-amd64'",
    }
    for name, script in answers.items():
        tmp_path.joinpath(name).write_text(f"#!/bin/sh\n{script}\n")
        tmp_path.joinpath(name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert kernels.release_of("linux-headers-6.12-amd64") == "6.12.117+deb12-amd64"


def test_kernel_that_debian_lacks_is_refused_by_name() -> None:
    with pytest.raises(kernels.NoSuchKernelError, match=r"no kernel 2\.4 .*linux-headers-2\.4-amd64"):
        kernels.find("2.4")


def test_build_tree_is_a_kernel(tmp_path: Path) -> None:
    tmp_path.joinpath("include/config").mkdir(parents=True)
    tmp_path.joinpath("include/config/kernel.release").write_text("6.1.192-debug\n")
    assert kernels.find(str(tmp_path)) == kernels.Kernel("6.1.192-debug", tmp_path, str(tmp_path))


def test_directory_without_a_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(kernels.NoSuchKernelError, match=r"there is no .*/include/config/kernel\.release"):
        kernels.find(str(tmp_path))


def test_kvm_is_tried_once_for_each_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[kernels.Kernel] = []

    def hang(kernel: kernels.Kernel) -> bool:
        tried.append(kernel)
        return False

    monkeypatch.setattr(kvm, "_try", hang)
    monkeypatch.setattr("os.access", lambda path, mode: True)
    assert [kvm.works(KERNEL, tmp_path / "cache") for _ in range(2)] == [False, False]
    assert tried == [KERNEL]


def test_kvm_is_no_help_for_another_processor(tmp_path: Path) -> None:
    foreign = dataclasses.replace(KERNEL, arch=arch.FOREIGN["arm64"])
    assert not kvm.works(foreign, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_kvm_without_access_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert not kvm.works(KERNEL, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_status_and_output_of_a_process_are_its_own() -> None:
    out, err = io.BytesIO(), io.BytesIO()
    program = "import os; os.write(1, b'x' * 300000); os.write(2, b'trouble'); os._exit(3)"
    assert process.run([sys.executable, "-c", program], 60, out, err) == 3
    assert (out.getvalue(), err.getvalue()) == (b"x" * 300000, b"trouble")


def test_time_limit_ends_a_process_and_its_children() -> None:
    began = time.monotonic()
    out = io.BytesIO()
    forking = ["sh", "-c", "echo begun; sleep 1000 & wait"]
    assert process.run(forking, 0.5, out, io.BytesIO()) == process.TIMED_OUT
    # The copying of the output ends only when the last process that could write is gone.
    assert out.getvalue() == b"begun\n"
    assert time.monotonic() - began < 30


def test_virtme_finds_its_scripts() -> None:
    """It looks for them in PATH when it first sees a kernel that was built here."""
    shared = virtme.Shared(Path("/nowhere"), virtme.HERE)
    command = virtme.batch(virtme.Machine(KERNEL, kvm=False), shared)
    env = command[: command.index("virtme-run")]
    subprocess.run([*env, "sh", "-c", "command -v virtme-prep-kdir-mods"], check=True)


def test_init_finds_its_programs_wherever_the_tree_is() -> None:
    """Not below /tmp or /var/tmp, which it has covered by then: the real ones take most of a boot's time."""
    machine = virtme.Machine(KERNEL, kvm=False)
    arguments = virtme.batch(machine, virtme.Shared(Path("/nowhere"), virtme.HERE))
    options = [after for each, after in zip(arguments, arguments[1:]) if each == "--kopt"]
    (path,) = [each.removeprefix("PATH=") for each in options if each.startswith("PATH=")]
    first = Path(path.split(":")[0])
    assert first.is_relative_to(sys.prefix)
    programs = {each.name: each.read_bytes() for each in virtme.HERE.joinpath("guest-bin").iterdir()}
    assert {each.name: each.read_bytes() for each in first.iterdir()} == programs
    assert all(os.access(first / name, os.X_OK) for name in programs)
