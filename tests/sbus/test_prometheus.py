# SPDX-License-Identifier: MIT
"""The statistics as metrics, read by Prometheus' own parser."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from kbus.sbus import counts, daemon
from kbus.sbus.telling import exposition
from tests.sbus.conftest import StartDaemon
from tests.sbus.forked import run
from tests.sbus.running import receive, settle

UNITS = ("_bytes", "_packets", "_messages", "_connections")


def families(text: str) -> dict[str, Metric]:
    """The metrics by name. A counter's name has no ``_total`` here, that of its samples has."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_they_say_what_the_statistics_say(without_kbus: StartDaemon) -> None:
    running = without_kbus("--max-user-clients", "2")
    with running.client() as client:
        for pattern in ("a", "b"):
            client.subscribe(pattern)
        client.unsubscribe("c")
        for _ in range(3):
            client.publish("a")
        receive(client, 3)
        settle(client)
        done = run(daemon.main, "--stats", "prometheus", "-a", running.path)
        assert (done.status, done.stderr) == (0, "")
    found = families(done.stdout.decode())
    values = {
        (name, *(sample.labels[label] for label in ("cause", "uid") if label in sample.labels)): sample.value
        for name, family in found.items()
        for sample in family.samples
        if sample.name.removesuffix("_total") == name
    }
    uid = str(os.getuid())
    expected = {
        ("kbus_sbus_clients",): 2,
        ("kbus_sbus_subscriptions",): 2,
        # The last packet is the question of settle. That for the statistics counts after its answer.
        ("kbus_sbus_received_packets",): 7,
        ("kbus_sbus_published_messages",): 3,
        ("kbus_sbus_delivered_packets",): 4,
        ("kbus_sbus_queued_bytes",): 0,
        ("kbus_sbus_dropped_packets", "not-subscribed"): 1,
        ("kbus_sbus_dropped_packets", "publish-denied"): 0,
        ("kbus_sbus_refused_connections", "user-clients"): 0,
        ("kbus_sbus_bindings",): 2,
        ("kbus_sbus_kbus_lost_messages",): 0,
        ("kbus_sbus_user_clients", uid): 2,
        ("kbus_sbus_user_subscriptions", uid): 2,
    }
    assert {key: values.get(key) for key in expected} == expected
    (info,) = found["kbus_sbus_info"].samples
    assert (info.labels["address"], info.labels["device"]) == (running.path, "0")


def test_names_are_as_prometheus_has_them(without_kbus: StartDaemon) -> None:
    """Each family once, with a help; counters end in _total, and what has a unit names it."""
    running = without_kbus()
    text = run(daemon.main, "--stats", "prometheus", "-a", running.path).stdout.decode()
    declared = [line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len({name for name, _ in declared}) == len(declared)
    for name, kind in declared:
        assert (kind == "counter") == name.endswith("_total")
        if kind == "counter":
            assert name.removesuffix("_total").endswith(UNITS)
        assert f"# HELP {name} " in text
    for family in families(text).values():
        assert family.documentation.endswith(".")
        assert family.type in ("counter", "gauge")
        keys = [tuple(sorted(sample.labels.items())) for sample in family.samples]
        assert len(set(keys)) == len(keys)
        assert all("address" in sample.labels for sample in family.samples)


def test_everything_that_is_told_is_a_metric(without_kbus: StartDaemon) -> None:
    """So that what is new in the statistics is not forgotten."""
    running = without_kbus()
    total = running.stats()[0]
    marked: dict[str, Any] = {field: 1000 + number for number, field in enumerate(total)}
    marked.update(dropped={}, refused={})
    text = exposition([marked], "x")
    for field, value in marked.items():
        assert field in ("dropped", "refused") or str(value) in text, field
    dropped = {line.split('cause="')[1].split('"')[0] for line in text.splitlines() if 'cause="' in line}
    assert dropped == {*counts.CAUSES, *counts.REFUSALS}
    named = {value for name, value in vars(counts).items() if name.isupper() and isinstance(value, str)}
    assert named == dropped


def test_the_docs_show_them(without_kbus: StartDaemon) -> None:
    records = without_kbus().stats()
    lines = exposition(records, "/run/sbus.socket").splitlines()
    page = Path(__file__).parents[2] / "docs/sbus/index.rst"
    shown = [
        line.strip() for line in page.read_text().splitlines() if re.match(" +(# [A-Z]|kbus_sbus_)", line)
    ]
    assert len(shown) == 10
    assert {line for line in shown if line.startswith("#")} <= set(lines)
    samples = [line.split('uid="')[0].rsplit(" ", 1)[0] for line in shown if not line.startswith("#")]
    assert all(any(line.startswith(sample) for line in lines) for sample in samples)


@pytest.mark.parametrize("address", ['with "quotes"', "with \\ and \\n", "with\nlines", "ä"])
def test_rule_any_address_is_a_label(without_kbus: StartDaemon, address: str) -> None:
    records = without_kbus().stats()
    for family in families(exposition(records, address)).values():
        assert all(sample.labels["address"] == address for sample in family.samples)


def test_json_is_the_default(without_kbus: StartDaemon) -> None:
    running = without_kbus()
    for options in (["--stats"], ["--stats", "json"]):
        done = run(daemon.main, *options, "-a", running.path)
        assert json.loads(done.stdout.splitlines()[0])["clients"] == 1


def test_no_daemon_is_no_metrics(tmp_path: Path) -> None:
    done = run(daemon.main, "--stats", "prometheus", "-a", str(tmp_path / "none"))
    assert (done.status, done.stdout) == (1, b"")
