# SPDX-License-Identifier: MIT
"""That a run says truthfully what happened in the guest. Each test boots one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from . import kernels
from .__main__ import FAILED, REPO
from .arch import split
from .process import TIMED_OUT

KERNEL = os.environ.get("KERNEL", "um")
# Where time is virtual nobody waits for kmemleak.
VIRTUAL = ["--memory", "512M", "--option", "time-travel"] if KERNEL == "um" else []
ARCH = split(KERNEL)[1]
INSIDE = """
echo begun
echo trouble >&2
id -un
cat /sys/module/kbus/parameters/num_kbus_devices
ls -1 /dev/kbus1 /proc/kbus/stats
python3 -c 'import kbus; print(kbus.__file__)'
ls /sys/class/net
grep -l udevd /proc/[0-9]*/comm
touch here 2>/dev/null || echo the repository cannot be changed
echo result >"$RESULTS/result" && touch /tmp/here
while [ ! -e "$RESULTS/go" ]; do sleep 0.1; done
exit 3
"""


def command(inside: str, *options: str) -> list[str]:
    """The command line that runs a shell command in a guest that has the module."""
    module = str(REPO / "kernel" / "kbus.ko")
    vm = [sys.executable, "-m", "tests.vm", "--kernel", KERNEL, *VIRTUAL, "--module", module]
    return [*vm, *options, "-c", inside]


def run(inside: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A command run in a guest, with what it printed."""
    return subprocess.run(command(inside, *options), cwd=REPO, capture_output=True, text=True, check=False)


def processes_that_name(path: Path) -> list[bytes]:
    """The command lines, of all processes there are, that have this path in them."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append(line.read_bytes())
    return [command for command in found if os.fsencode(path) in command]


def test_guest_has_what_it_should_and_its_status_and_output_come_out(tmp_path: Path) -> None:
    options = ["--module-args", "num_kbus_devices=2", "--results", str(tmp_path)]
    with subprocess.Popen(
        command(INSIDE, *options), cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as vm:
        assert vm.stdout is not None
        assert vm.stdout.readline() == "begun\n"
        # What it prints comes at once: it does not end before this is there.
        tmp_path.joinpath("go").touch()
        out, err = vm.communicate()
    assert out.splitlines() == [
        "root",
        "2",
        "/dev/kbus1",
        "/proc/kbus/stats",
        str(REPO / "python/kbus/__init__.py"),
        "lo",
        "the repository cannot be changed",
    ]
    assert "trouble\n" in err
    assert vm.returncode == 3
    assert (tmp_path / "result").read_text() == "result\n"


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with faults.ko."""
    directory = tmp_path_factory.mktemp("faults")
    shutil.copytree(Path(__file__).parent / "faults", directory, dirs_exist_ok=True)
    make = ["make", "-s", "-C", str(kernels.find(KERNEL).build), f"M={directory}", "modules"]
    make.append("CONFIG_DEBUG_INFO_BTF_MODULES=")
    subprocess.run(make, env={**os.environ, **ARCH.compilers}, check=True)
    return directory


FAULTS = {
    "warning": "WARNING: ",
    "oops": "Kernel panic - not syncing: ",
    "panic": "Kernel panic - not syncing: planted",
}
if KERNEL in ("um", "debug"):
    FAULTS |= {
        "use after free": "BUG: KASAN: slab-use-after-free in faults_",
        "lock inversion": "WARNING: possible circular locking dependency detected",
        "sleep under a spinlock": "BUG: scheduling while atomic",
        "leak": "memory has leaked:",
    }


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_kernel_is_a_failure(fault: str, faults: Path) -> None:
    # The guest has a /tmp of its own.
    load = f"insmod $RESULTS/faults.ko fault='\"{fault}\"'"
    done = run(f"{load}; dmesg --clear", "--results", str(faults))
    assert done.returncode == FAILED
    assert FAULTS[fault] in done.stderr


def test_guest_that_goes_without_a_word_is_a_failure() -> None:
    done = run("busybox poweroff -f; cat /dev/zero >/dev/null")
    assert done.returncode == FAILED
    assert "the guest died before the command was done" in done.stderr


def test_hanging_command_ends_at_the_time_limit(tmp_path: Path) -> None:
    done = run("mkfifo /tmp/nobody; cat /tmp/nobody", "--timeout", "8", "--results", str(tmp_path))
    assert done.returncode == TIMED_OUT
    assert "not done after 8 seconds" in done.stderr
    assert "the kernel log ends:\n[" in done.stderr
    assert processes_that_name(tmp_path) == []


def test_warning_in_the_kernel_log_is_a_failure() -> None:
    done = run("echo '<4>WARNING: CPU: 0 PID: 1 at here.c:1' >/dev/kmsg; dmesg --clear")
    assert done.returncode == FAILED
    assert "WARNING: CPU: 0 PID: 1 at here.c:1" in done.stderr


def test_module_that_stays_in_use_is_a_failure() -> None:
    done = run("exec 3</dev/kbus0; sleep 10000 &")
    assert done.returncode == FAILED
    assert "kbus cannot be unloaded" in done.stderr


def test_module_that_cannot_be_loaded_is_a_failure() -> None:
    done = run("echo this does not run", "--module-args", "num_kbus_devices=0")
    assert done.returncode == FAILED
    assert "kbus.ko cannot be loaded" in done.stderr
    assert done.stdout == ""


COUNTING = """
import time
for _ in range(2):
    began = time.monotonic_ns()
    sum(range(1_000_000))
    print(time.monotonic_ns() - began)
time.sleep(1000)
"""


@pytest.mark.long("only QEMU has such a clock")
def test_a_clock_that_counts_instructions() -> None:
    """It goes on as fast each time, and jumps to what somebody waits for."""
    done = run(f"python3 -c '{COUNTING}'", "--count", "--cpus", "1", "--kernel", "")
    assert done.returncode == 0
    first, second = map(int, done.stdout.split())
    assert abs(first - second) < 0.02 * first
