# SPDX-License-Identifier: MIT
"""Which tests `make check` runs."""

from __future__ import annotations

from .changed import about, is_for_a_guest


def test_a_file_of_the_package_has_the_tests_of_its_part() -> None:
    found = about(["python/kbus/sbus/server.py"])
    assert "tests/sbus/test_traffic.py" in found
    assert "tests/sbus/test_calls_vm.py" in found
    assert all(test.startswith("tests/sbus/") for test in found)


def test_the_module_is_tested_in_a_guest() -> None:
    found = {test for test in about(["kernel/queue.c"]) if is_for_a_guest(test)}
    assert {"tests/kernel/test_queues.py", "tests/model/test_model_vm.py"} <= found


def test_a_test_stands_for_itself_and_a_helper_for_its_folder() -> None:
    assert about(["tests/kernel/test_send.py"]) == {"tests/kernel/test_send.py"}
    assert "tests/kernel/test_send.py" in about(["tests/kernel/helpers.py"])


def test_a_file_that_nothing_tests() -> None:
    assert about(["LICENSES/MIT", "tests/kernel/test_that_is_gone.py"]) == set()
