# SPDX-License-Identifier: MIT
"""`kbus stats --prometheus`, read by Prometheus' own parser."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from kbus import Ksock, inspect
from kbus.cli import main, metrics
from kbus.inspect import DeviceStats, KsockStats
from kbus.terminal.output import printable
from kbus.testing import Bus
from tests.cli.test_proc_text import DEVICE, KSOCK

UNITS = ("_messages", "_bytes", "_answers", "_requests", "_events")
#: labels and what the statistics have besides
LABELS = {"device", "ksock_id", "pid", "uid"}

Captured = pytest.CaptureFixture[str]


def families(text: str) -> dict[str, Metric]:
    """The metrics by name. A counter's name has no ``_total`` here, that of its samples has."""
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.fixture
def stats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[DeviceStats]:
    """Two devices, in the place of /proc/kbus/stats; KSocks have ids that differ."""
    path = tmp_path / "stats"
    other = (DEVICE + KSOCK).replace("device 0", "device 1").replace("ksock 0 9", "ksock 1 10")
    path.write_text(DEVICE + KSOCK.replace("pid=211", f"pid={os.getpid()}") + other)
    monkeypatch.setattr(inspect.stats, "__defaults__", (None, path))
    return inspect.stats()


def test_they_say_what_the_statistics_say(stats: list[DeviceStats], capsys: Captured) -> None:
    assert main(["stats", "--prometheus"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    found = families(said.out)
    values = {
        (sample.name, sample.labels["device"], sample.labels.get("ksock")): sample.value
        for family in found.values()
        for sample in family.samples
    }
    for device in stats:
        of = str(device.device)
        assert values.pop(("kbus_ksocks", of, None)) == 1
        for metric in metrics.OF_DEVICES:
            assert values.pop((f"kbus_{metric.name}", of, None)) == getattr(device, metric.field)
        (ksock,) = device.ksocks
        for metric in metrics.OF_KSOCKS:
            name = f"kbus_{metric.name}"
            assert values.pop((name, of, str(ksock.ksock_id))) == getattr(ksock, metric.field)
    assert not values


def test_one_device(stats: list[DeviceStats], capsys: Captured) -> None:
    assert main(["stats", "--prometheus", "-d", "1"]) == 0
    samples = [each for family in families(capsys.readouterr().out).values() for each in family.samples]
    assert {sample.labels["device"] for sample in samples} == {"1"}


def test_names_are_as_prometheus_has_them(stats: list[DeviceStats]) -> None:
    """Each family once, with a help and all its samples below; counters end in _total after their unit."""
    lines = list(metrics.lines(stats))
    declared = [line.split()[2:4] for line in lines if line.startswith("# TYPE ")]
    assert len({name for name, _ in declared}) == len(declared)
    for name, kind in declared:
        assert (kind == "counter") == name.endswith("_total")
        if kind == "counter":
            assert name.removesuffix("_total").endswith(UNITS)
        assert any(line.startswith(f"# HELP {name} ") and line.endswith(".") for line in lines)
    counters = {name.removeprefix("kbus_") for name, kind in declared if kind == "counter"}
    assert counters == {
        *("sent_messages_total", "ksock_sent_messages_total"),
        *("ksock_received_messages_total", "ksock_lost_messages_total"),
    }


def test_everything_that_is_told_is_a_metric() -> None:
    """So that what is new in the statistics is not forgotten; the group says no more than the user."""
    for of, known, besides in (
        (DeviceStats, metrics.OF_DEVICES, {"ksocks"}),
        (KsockStats, metrics.OF_KSOCKS, {"gid"}),
    ):
        fields = {field.name for field in dataclasses.fields(of)}
        assert {metric.field for metric in known} == fields - LABELS - besides


@pytest.mark.parametrize(
    "name", [b'say "hi"', b"back\\slash\\n", b"two\nlines", b"\x1b[2J\xff", "grün\u202e".encode(), b'"} 1\n#']
)
def test_any_name_of_a_process_is_a_label(name: bytes, stats: list[DeviceStats], capsys: Captured) -> None:
    comm = Path("/proc/self/comm")
    before = comm.read_bytes()
    comm.write_bytes(name)
    try:
        assert main(["stats", "--prometheus", "-d", "0"]) == 0
    finally:
        comm.write_bytes(before)
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    shown = printable(name.decode("utf-8", "backslashreplace"))
    (sample,) = families(out)["kbus_ksock_queued_messages"].samples
    assert sample.labels == {
        **{"device": "0", "ksock": "9", "pid": str(os.getpid()), "uid": "12"},
        "command": shown,
    }


def test_without_ksocks(bus: Bus, capsys: Captured) -> None:
    assert main(["stats", "--prometheus"]) == 0
    found = families(capsys.readouterr().out)
    assert [sample.value for sample in found["kbus_ksocks"].samples] == [0]
    assert found["kbus_ksock_queued_messages"].samples == []


def test_a_bus_in_use(bus: Bus, capsys: Captured) -> None:
    with Ksock() as listener:
        listener.bind("$.A")
        assert main(["send", "$.A"]) == 0
        capsys.readouterr()
        assert main(["stats", "--prometheus"]) == 0
    found = families(capsys.readouterr().out)
    assert [sample.value for sample in found["kbus_sent_messages"].samples] == [1]
    assert [sample.value for sample in found["kbus_ksock_queued_messages"].samples] == [1]
