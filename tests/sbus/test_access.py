# SPDX-License-Identifier: MIT
"""Access by key, for one user, on a bus that needs no module."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from kbus.sbus.access import MOST_BYTES
from tests.kernel.helpers import PATIENCE, wait_until
from tests.sbus.conftest import StartDaemon
from tests.sbus.echo import use_no_kbus
from tests.sbus.running import Daemon, nothing_more, receive, settle

ME = f"user:{os.getuid()}"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A file of rules."""
    path = tmp_path / "rules"
    path.write_text(f'default deny\nallow both {ME} Mine/\nallow publish * ""\n')
    return path


def reread(running: Daemon, said: str) -> None:
    """Have the rules read anew, until the log says something."""
    running.signal(signal.SIGHUP)
    wait_until(lambda: said in running.said(), said)


def test_rule_no_pattern_receives_what_its_client_may_not(without_kbus: StartDaemon, rules: Path) -> None:
    """Neither one that is wider nor one that is the key; also if there are others who may."""
    running = without_kbus("--access", str(rules))
    with running.client() as client:
        for pattern in ("", "*", "*/", "*/*", "Other/", "Other/*", "Other/Key", "O*/K*"):
            client.subscribe(pattern)
        for key in ("Other/Key", "Mine/Key", "Mine", "Other"):
            client.publish(key, b"1")
        assert receive(client, 1) == [(b"Mine/Key", b"1")]
        nothing_more(client)
        # The SUB of a single key, and three messages.
        assert running.dropped() == {"subscribe-denied": 4}
        assert f"user {os.getuid()}): dropped, subscribe-denied: subscribe to b'Other/Key'" in running.said()


def test_each_message_that_is_withheld_is_counted(without_kbus: StartDaemon, rules: Path) -> None:
    """One by one and many at a time, but for those that would not come to their own publisher."""
    running = without_kbus("--access", str(rules))
    with running.client() as client, running.client() as quiet:
        for each in (client, quiet):
            each.subscribe("")
            settle(each)
        running.signal(signal.SIGSTOP)
        for _ in range(20):
            client.publish("Other")
        running.signal(signal.SIGCONT)
        settle(client)
        assert running.dropped() == {"subscribe-denied": 40}
        quiet.control("echo/off")
        quiet.publish("Other")
        settle(quiet)
        assert running.dropped() == {"subscribe-denied": 41}


def test_a_client_is_not_told_what_is_withheld(without_kbus: StartDaemon, rules: Path) -> None:
    """Or it could find out which keys there are."""
    with without_kbus("--access", str(rules)).client() as client:
        client.subscribe("Other/")
        client.publish("Other/Key")
        client.control("nonsense")
        assert client.dropped(PATIENCE) == {"unknown-control": 1}


def test_reading_rules_leaks_no_descriptors(without_kbus: StartDaemon, tmp_path: Path, rules: Path) -> None:
    running = without_kbus("--access", str(rules))
    rules.unlink()
    rules.mkdir()
    reread(running, "not a regular file")
    before = len(os.listdir(f"/proc/{running.pid}/fd"))
    for _ in range(20):
        running.signal(signal.SIGHUP)
        assert running.stats()
    # The connection of whoever has asked last may still be there.
    assert len(os.listdir(f"/proc/{running.pid}/fd")) <= before + 2


def test_rule_what_may_not_be_published_gets_nowhere(without_kbus: StartDaemon, rules: Path) -> None:
    """Each time it is tried, and told of with the line; messages before and behind it go."""
    rules.write_text(f"default allow\ndeny publish {ME} No\n")
    running = without_kbus("--access", str(rules))
    with running.client() as client:
        client.subscribe("")
        for key in ("a", "No", "b", "No", "a", "No/thing"):
            client.publish(key)
        assert [key for key, _ in receive(client, 4)] == [b"a", b"b", b"a", b"No/thing"]
        nothing_more(client)
        assert running.dropped() == {"publish-denied": 2}
        assert "dropped, publish-denied: publish to b'No', by line 2 of the rules" in running.said()


def test_rule_what_may_not_be_asked_or_served_is_counted(without_kbus: StartDaemon, rules: Path) -> None:
    """As what may not be published or subscribed to is."""
    rules.write_text(f"default allow\ndeny publish {ME} No\ndeny subscribe {ME} Hidden\n")
    running = without_kbus("--access", str(rules))
    with running.client() as client:
        client.control("kbus/call", b"1\0No\0data")
        assert client.expect_control(b"kbus/answer", PATIENCE).payload == b"1\0denied\0"
        for key in ("No", "Hidden"):
            client.control("kbus/serve", key)
            assert client.expect_control(b"kbus/served", PATIENCE).payload == key.encode() + b"\0denied\0"
        assert running.dropped() == {"publish-denied": 2, "subscribe-denied": 1}
        assert "dropped, publish-denied: publish to b'No', by line 2 of the rules" in running.said()


def test_rule_another_spelling_is_another_key(without_kbus: StartDaemon, rules: Path) -> None:
    """What the name of a key is spelled as is no way around the rules for that key."""
    rules.write_text(f"default allow\ndeny both {ME} door-1\n")
    running = without_kbus("--access", str(rules))
    with running.client() as client:
        client.subscribe("")
        for key in ("door-1", "doorZ2D1", "doorZ5A2D1"):
            client.publish(key)
        assert [key for key, _ in receive(client, 2)] == [b"doorZ2D1", b"doorZ5A2D1"]
        nothing_more(client)


def test_rule_new_rules_are_for_old_subscriptions_too(without_kbus: StartDaemon, rules: Path) -> None:
    """Both ways, and for keys that are known already."""
    running = without_kbus("--access", str(rules))
    with running.client() as client:
        for pattern in ("", "Other/Key"):
            client.subscribe(pattern)
        for key in ("Mine/Key", "Other/Key"):
            client.publish(key)
        assert receive(client, 1) == [(b"Mine/Key", b"")]
        settle(client)
        rules.write_text(f"default allow\ndeny subscribe {ME} Mine/\ndeny publish * Third\n")
        reread(running, f"{rules}: 2 rules from now on, and default allow\n")
        for key in ("Mine/Key", "Other/Key", "Third"):
            client.publish(key)
        assert receive(client, 1) == [(b"Other/Key", b"")]
        nothing_more(client)
        assert running.dropped() == {"subscribe-denied": 3, "publish-denied": 1}


@pytest.mark.parametrize("bad", ["line", "gone", "directory", "fifo", "large"])
def test_rule_bad_rules_change_nothing(without_kbus: StartDaemon, rules: Path, bad: str) -> None:
    """And they are never waited for."""
    running = without_kbus("--access", str(rules))
    good = rules.read_text()
    rules.unlink()
    if bad == "line":
        rules.write_text(f"{good}allow all {ME} Other/\n")
    elif bad == "directory":
        rules.mkdir()
    elif bad == "fifo":
        os.mkfifo(rules)
    elif bad == "large":
        rules.write_bytes(b"#" * (MOST_BYTES + 1))
    with running.client() as client:
        client.subscribe("")
        settle(client)
        reread(running, "; the rules stay as they were")
        where = f"kbus-sbusd: {rules}:4: 'all' is not" if bad == "line" else f"kbus-sbusd: {rules}: "
        assert where in running.said()
        for key in ("Other/Key", "Mine/Key"):
            client.publish(key)
        assert receive(client, 1) == [(b"Mine/Key", b"")]


@pytest.mark.parametrize("content", ["allow\n", None])
def test_rule_it_does_not_start_with_bad_rules(tmp_path: Path, content: str | None) -> None:
    rules = tmp_path / "rules"
    if content is not None:
        rules.write_text(content)
    with pytest.raises(AssertionError, match=f"kbus-sbusd: {rules}:"):
        Daemon(tmp_path, "--access", str(rules), prepare=use_no_kbus)
    assert sorted(path.suffix for path in tmp_path.iterdir() if path != rules) == [".log"]


def test_rule_sighups_that_come_while_rules_are_read_are_one(without_kbus: StartDaemon, rules: Path) -> None:
    """Nobody waits for more than one reading, nor for any behind a signal to end."""
    rules.write_text(
        "default allow\n" + "".join(f"deny both user:{user} a{user}/\n" for user in range(30_000))
    )
    running = without_kbus("--access", str(rules))
    with running.client() as client:
        settle(client)
        for _ in range(20):
            running.signal(signal.SIGHUP)
            time.sleep(0.01)
        settle(client)
    running.signal(signal.SIGTERM)
    assert running.wait() == 0
    assert 1 <= running.said().count("30000 rules from now on") <= 5


def test_sighup_without_rules_does_nothing(without_kbus: StartDaemon) -> None:
    running = without_kbus()
    with running.client() as client:
        running.signal(signal.SIGHUP)
        settle(client)
    assert "rules" not in running.said()


def test_rule_control_messages_and_secrets_have_no_rules(without_kbus: StartDaemon, rules: Path) -> None:
    rules.write_text("default deny\n")
    running = without_kbus("--access", str(rules))
    with running.client() as client:
        own = client.whoami(10)
        client.subscribe(own + b"/x")
        client.control("order/stack")
        client.publish(own + b"/x", b"secret")
        assert receive(client, 1) == [(own + b"/x", b"secret")]
        assert running.dropped() == {}


def test_what_is_denied_fills_no_log_and_keeps_nobody_waiting(without_kbus: StartDaemon, rules: Path) -> None:
    """With a thousand rules that are about others, and with those that have many ways to match."""
    others = "".join(f"allow both user:{uid} Key/*/{uid}/\n" for uid in range(10_000, 11_000))
    rules.write_text(f"{others}allow both {ME} *a*a*a*a*a*a*b\nallow both {ME} Mine/\n")
    running = without_kbus("--access", str(rules))
    with running.client() as client:
        client.subscribe("")
        for number in range(2000):
            client.publish(f"Key/{'a' * 400}/{number}/{'a' * 400}")
            client.subscribe(f"Key/{number}")
        client.publish("Mine/")
        assert receive(client, 1) == [(b"Mine/", b"")]
        assert running.dropped() == {"publish-denied": 2000, "subscribe-denied": 2000}
        assert len(running.said().splitlines()) < 60
