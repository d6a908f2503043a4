# SPDX-License-Identifier: MIT
"""`kbus listen` with filters, peers and a log, and `kbus bindings` over time, against the module."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

from kbus import Announcement, Message, Request, reply_to
from kbus._processes import command_of
from kbus.cli import logs
from kbus.cli.peers import Opener
from tests.kernel.command import bound, running
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import take, wait_until

COMMAND = command_of(os.getpid())


def test_peers(ksock: OpenKsock) -> None:
    sender = ksock()
    with bound("listen", "--peers", "$.A", "-n", "1") as process:
        sender.send_msg(Announcement("$.A"))
        status, out, err = process.end()
    assert (status, err) == (0, "")
    assert f" A from {sender.ksock_id()} by {os.getpid()} {json.dumps(COMMAND)} $.A 0\n" in out


def test_peers_as_json_also_of_who_has_gone(ksock: OpenKsock) -> None:
    sender, short_lived = ksock(), ksock()
    with bound("listen", "--peers", "--json", "$.A", "-n", "2") as process:
        process.stop()
        short_lived.send_msg(Announcement("$.A"))
        sender.send_msg(Announcement("$.A"))
        short_lived.close()
        process.send_signal(signal.SIGCONT)
        status, out, err = process.end()
    assert (status, err) == (0, "")
    assert [(record["pid"], record["command"]) for record in map(json.loads, out.splitlines())] == [
        (None, None),
        (os.getpid(), COMMAND),
    ]


def test_filters(ksock: OpenKsock) -> None:
    asker, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    options = ("--from", COMMAND, "--except", "$.B", "--no-flag", "urgent", "--kind", "request")
    with bound("listen", *options, "--json", "$.*", "-n", "1") as process:
        asker.send_msg(Announcement("$.A"))
        asker.send_msg(Request("$.A", "urgent", flags=Message.URGENT))
        asker.send_msg(Request("$.A", "this one"))
        status, out, err = process.end()
    assert (status, json.loads(out)["data"]) == (0, "this one")
    assert err == "kbus listen: 1 shown, 2 passed over\n"


def test_the_log_is_what_was_shown(ksock: OpenKsock, tmp_path: Path) -> None:
    """And can be read back; the screen may show other times."""
    log = tmp_path / "bus.log"
    log.write_text("# what there was before stays\n")
    asker, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    with bound("listen", "--log", str(log), "-t", "zero", "--peers", "$.A", "-n", "2") as process:
        asker.send_msg(Request("$.A", "grün"))
        replier.send_msg(reply_to(take(replier), b"\xff"))
        status, out, err = process.end()
    assert (status, err) == (0, "")
    comment, *logged = log.read_text().splitlines()
    assert comment == "# what there was before stays"
    without_time = re.compile(r"^\([0-9.]+\)", re.MULTILINE)
    assert without_time.sub("", out) == without_time.sub("", "\n".join([*logged, ""]))
    found = list(logs.read(log.read_text().splitlines(), "log"))
    assert [(each.message.from_, each.message.data) for each in found] == [
        (asker.ksock_id(), "grün".encode()),
        (replier.ksock_id(), b"\xff"),
    ]
    assert [each.peer for each in found] == [Opener(os.getpid(), COMMAND)] * 2
    assert out.startswith("(0.000000000) ")
    assert abs(found[0].time_ns - log.stat().st_mtime_ns) < 60_000_000_000


def test_a_log_that_can_not_be_written() -> None:
    with running("listen", "--log", "/", "$.A") as process:
        assert process.end() == (1, "", "kbus listen: can't write to /: Is a directory\n")
    with running("listen", "--log", "/no/such/directory", "$.A") as process:
        status, _, err = process.end()
    assert (status, err) == (1, "kbus listen: can't write to /no/such/directory: No such file or directory\n")


def test_a_log_on_a_full_disk(ksock: OpenKsock) -> None:
    with bound("listen", "--log", "/dev/full", "$.A") as process:
        ksock().send_msg(Announcement("$.A"))
        status, _, err = process.end()
    assert (status, err) == (1, "kbus listen: can't write to /dev/full: No space left on device\n")


def test_watching_bindings(ksock: OpenKsock) -> None:
    earlier = ksock()
    earlier.bind("$.Earlier", replier=True)
    with running("bindings", "--watch", "--interval", "0.05", "-t", "zero", "-n", "3") as process:
        by = f"{earlier.ksock_id()} by {os.getpid()} {json.dumps(COMMAND)}"
        assert process.stdout.readline().decode() == f"(0.000000000) = kbus0 replier {by} $.Earlier\n"
        earlier.bind("$.A.*")
        line = process.stdout.readline().decode()
        assert line.endswith(f" + kbus0 listener {by} $.A.*\n")
        earlier.close()
        status, out, err = process.end()
    assert (status, err) == (0, "")
    assert [line.partition(" ")[2] for line in out.splitlines()] == [
        f"- kbus0 replier {by} $.Earlier",
        f"- kbus0 listener {by} $.A.*",
    ]


def test_watching_bindings_as_json_until_a_signal(ksock: OpenKsock) -> None:
    earlier = ksock()
    earlier.bind("$.Earlier", replier=True)
    with running("bindings", "--watch", "--json") as process:
        record = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.end() == (0, "", "")
    assert record.pop("time_ns") > 0
    assert record == {
        "event": "there",
        "device": 0,
        "ksock_id": earlier.ksock_id(),
        "pid": os.getpid(),
        "is_replier": True,
        "name": "$.Earlier",
        "command": COMMAND,
    }


def test_bindings_as_a_tree(ksock: OpenKsock) -> None:
    both = ksock()
    both.bind("$.A.*", replier=True)
    both.bind("$.A.B")
    with running("bindings", "--tree") as process:
        status, out, err = process.end()
    who = f"{both.ksock_id()} ({os.getpid()} {COMMAND})"
    assert (status, err) == (0, "")
    assert out == f"kbus0\n└── $\n    └── A\n        ├── *  replier {who}\n        └── B  listener {who}\n"


def test_watching_ends_when_nobody_reads_it(ksock: OpenKsock) -> None:
    ksock().bind("$.A")
    with running("bindings", "--watch") as process:
        process.stdout.readline()
        process.stdout.close()
        wait_until(process.has_ended, "the command ends")
        assert (process.status, process.stderr.read()) == (0, b"")
