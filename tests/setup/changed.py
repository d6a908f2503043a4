# SPDX-License-Identifier: MIT
"""`python3 -m tests.setup.changed`: which tests are about what has changed since main, for `make check`.

Prints shell variables: `host` and `guest`, lists of paths for pytest on the host and in a guest.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

REPO = Path(__file__).parents[2]
AREAS = (
    ("kernel/", ("tests/kernel", "tests/model")),
    ("python/kbus/capture/", ("tests/capture",)),
    ("python/kbus/cli/", ("tests/cli", "tests/kernel/test_cli_*.py")),
    ("python/kbus/pipeline/", ("tests/pipeline",)),
    ("python/kbus/sbus/", ("tests/sbus",)),
    ("python/kbus/terminal/", ("tests/cli", "tests/sbus")),
    ("python/kbus/testing/", ("tests/testing", "tests/model")),
    (
        "python/kbus/",
        ("tests/python", "tests/testing", "tests/kernel/test_ksock*.py", "tests/kernel/test_*serv*.py"),
    ),
    ("python/wireshark/", ("tests/capture/test_wireshark.py",)),
    ("docs/examples/ask/", ("tests/pipeline/test_ask.py",)),
    ("docs/", ("tests/docs",)),
    ("README.rst", ("tests/docs",)),
)
"""Where a path begins, and the tests that are about it: the first that fits."""


def is_for_a_guest(test: str) -> bool:
    """Whether these tests need the module."""
    return test.startswith(("tests/kernel", "tests/debug")) or test.endswith("_vm.py")


def about(paths: Iterable[str]) -> set[str]:
    """Files with tests that are about these paths of the repository.

    A test that has changed stands for itself; of what tests share, all tests in the folder.
    """
    patterns: set[str] = set()
    for path in paths:
        if path.startswith("tests/"):
            is_test = Path(path).name.startswith("test_") and path.endswith(".py")
            patterns.add(path if is_test else "/".join(path.split("/")[:2]))
        else:
            patterns.update(next((tests for begin, tests in AREAS if path.startswith(begin)), ()))
    found: set[str] = set()
    for pattern in patterns:
        for place in REPO.glob(pattern):
            files = place.rglob("test_*.py") if place.is_dir() else [place]
            found.update(str(file.relative_to(REPO)) for file in files)
    return found


def _changed() -> set[str]:
    paths: set[str] = set()
    for command in (["diff", "--name-only", "main"], ["ls-files", "--others", "--exclude-standard"]):
        done = subprocess.run(["git", *command], cwd=REPO, check=True, stdout=subprocess.PIPE, text=True)
        paths.update(done.stdout.splitlines())
    return paths


def main() -> None:
    """Print both lists."""
    tests = about(_changed())
    print(f"host='{' '.join(sorted(test for test in tests if not is_for_a_guest(test)))}'")
    print(f"guest='{' '.join(sorted(test for test in tests if is_for_a_guest(test)))}'")


if __name__ == "__main__":
    main()
