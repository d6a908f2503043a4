# SPDX-License-Identifier: MIT
"""`kbus top` against the module, in a real terminal: keys are typed, and the screen is read."""

from __future__ import annotations

import os
import re
import signal
import time

from kbus import Announcement, Request, reply_to
from kbus._processes import command_of
from kbus.cli.top.counting import Counting
from tests.kernel.command import running
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import bindings, take
from tests.kernel.terminal import terminal

COMMAND = command_of(os.getpid())


def last_words(lines: list[str]) -> list[str]:
    return [line.split()[-1] for line in lines]


def test_a_session(ksock: OpenKsock) -> None:
    sender, replier, stuck = ksock(), ksock(), ksock()
    replier.bind("$.Lamp", replier=True)
    stuck.bind("$.Sensors.*")
    stuck.set_max_messages(3)
    sender.send_msg(Request("$.Lamp", "too early to be seen"))
    with terminal("top", "--interval", "0.3", columns=100, lines=16) as top:
        summary, *screen = top.wait_for("1 waiting (1 unseen)")
        assert re.fullmatch(
            r"kbus0 [\d:]{8}  0 messages/s, 0 bytes/s  4 KSocks  1 waiting .*  0 lost", summary
        )
        assert screen[0] == "names: none  h help, q quit"

        for _ in range(5):
            sender.send_msg(Announcement("$.Sensors.Kitchen", "22.5"))
        asked = sender.send_msg(Request("$.Lamp", "on"))
        screen = top.wait_for("2 waiting (1 unseen)")
        assert screen[0].endswith("4 KSocks  2 waiting (1 unseen)  2 lost")
        assert screen[1] == "names: 1-2 of 2  h help, q quit"
        assert {line.split()[-1]: line.split()[2:8] for line in screen[3:5]} == {
            "$.Sensors.Kitchen": ["5", "20", "0", "0", "-", "-"],
            "$.Lamp": ["1", "2", "0", "0", "-", "-"],
        }

        # Sorting, and the other way round.
        top.press(">", ">")
        assert [line.split()[-1] for line in top.wait_for("MSGSv")[3:5]] == [
            "$.Sensors.Kitchen",
            "$.Lamp",
        ]
        top.press("r")
        assert [line.split()[-1] for line in top.wait_for("MSGS^")[3:5]] == [
            "$.Lamp",
            "$.Sensors.Kitchen",
        ]
        top.press("Left")
        top.wait_for("BYTES/Sv")

        # Filtering.
        top.press("/", "k", "i", "t")
        assert top.wait_for("/kit_")[1] == "names: 1-1 of 1  /kit_"
        top.press("Enter")
        assert top.wait_for('only "kit"')[3].endswith("$.Sensors.Kitchen")
        top.press("Escape")
        top.wait_for("names: 1-2 of 2  h help, q quit")

        # KSocks: who does not read is on top.
        top.press("k")
        screen = top.wait_for("QUEUEDv")
        first = dict(zip(screen[2].replace("QUEUEDv", "QUEUED").split(), screen[3].split()))
        assert (first["KSOCK"], first["PID"], first["COMMAND"]) == (
            str(stuck.ksock_id()),
            str(os.getpid()),
            COMMAND,
        )
        assert (first["QUEUED"], first["LIMIT"], first["LOST"]) == ("3", "3", "2")

        # Requests that wait, until they are answered.
        top.press("w")
        screen = top.wait_for("WAITSv")
        assert screen[3].split()[1:] == [str(asked), str(sender.ksock_id()), COMMAND, "$.Lamp"]
        for _ in range(2):
            replier.send_msg(reply_to(take(replier)))
        top.wait_for("waiting requests: none")
        top.press("n")
        top.wait_for("BYTES/Sv")
        lamp = next(line.split() for line in top.screen() if line.endswith("$.Lamp"))
        assert lamp[2:5] == ["3", "2", "1"]
        assert re.fullmatch(r"[0-9.]+(us|ms|s)", lamp[6])
        assert lamp[6] == lamp[7]

        # Help, a terminal of another size, and another.
        top.press("h")
        top.wait_for("this help")
        top.press("Space")
        top.wait_for("BYTES/Sv")
        top.resize(40, 4)
        screen = top.wait_for("names: 1-1 of 2")
        assert len(screen) == 4
        top.resize(120, 30)
        screen = top.wait_for("names: 1-2 of 2")
        assert screen[2] == "RATE  BYTES/Sv  MSGS  BYTES  ANSWERED  FAILED  LATENCY  LONGEST  NAME"

        # Pause, and counting from 0.
        top.press("p")
        top.wait_for("paused")
        top.press("p", "c")
        top.wait_for("names: none  h help, q quit")
        top.press("q")
        assert top.end() == 0
        assert top.screen()[0] == "ended with status 0"


def test_latencies_are_those_of_sending(ksock: OpenKsock) -> None:
    """However late, and together, kbus top has read them."""
    asker, replier = ksock(), ksock()
    replier.bind("$.Lamp", replier=True)
    with terminal("top", "--interval", "0.3", columns=80, lines=10) as top:
        top.wait_for("names: none")
        (pid,) = {each.pid for each in bindings()} - {os.getpid()}
        os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        asker.send_msg(Request("$.Lamp"))
        time.sleep(0.2)
        replier.send_msg(reply_to(take(replier)))
        most = 1000 * (time.monotonic() - began)
        time.sleep(0.2)
        os.kill(pid, signal.SIGCONT)
        top.wait_for("$.Lamp")
        latency = next(line.split()[6] for line in top.screen() if line.endswith("$.Lamp"))
        top.press("q")
        assert top.end() == 0
    assert latency.endswith("ms")
    # It is shown in whole milliseconds.
    assert 200 <= float(latency[:-2]) <= most + 1


def test_an_answer_that_is_still_queued_is_counted(ksock: OpenKsock) -> None:
    """By then the statistics say that its Request does not wait any more."""
    asker, replier, top = ksock(), ksock(), ksock()
    replier.bind("$.Lamp", replier=True)
    top.bind("$.*", observer=True)
    counting = Counting(top)
    asker.send_msg(Request("$.Lamp"))
    counting.read()
    assert [each.request.name for each in counting.look().waiting] == ["$.Lamp"]
    replier.send_msg(reply_to(take(replier)))
    look = counting.look()
    assert ([each.answered for each in look.names], look.waiting) == ([1], [])


def test_it_observes_only_what_it_is_asked_to(ksock: OpenKsock) -> None:
    sender = ksock()
    with terminal("top", "--interval", "0.3", "$.A", "$.B.*", columns=80, lines=10) as top:
        top.wait_for("RATEv")
        pid = bindings()[0].pid
        assert [(each.pid, each.kind, each.name) for each in bindings()] == [
            (pid, "L", "$.B.*"),
            (pid, "L", "$.A"),
        ]
        for name in ("$.A", "$.B.C", "$.D"):
            sender.send_msg(Announcement(name))
        assert sorted(last_words(top.wait_for("1-2 of 2")[3:5])) == ["$.A", "$.B.C"]
        os.kill(pid, signal.SIGTERM)
        assert top.end() == 0


def test_a_terminal_that_can_not_do_it() -> None:
    with terminal("top", columns=80, lines=10, term="of-stone") as top:
        assert top.end() == 1
        assert top.wait_for("kbus top: ")[0].startswith(
            "kbus top: the terminal (TERM=of-stone) can't do it: "
        )


def test_no_terminal() -> None:
    with running("top") as process:
        assert process.end() == (
            1,
            "",
            "kbus top: this needs a terminal; `kbus stats` and `kbus listen` do not\n",
        )
