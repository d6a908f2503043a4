# SPDX-License-Identifier: MIT
"""The daemon itself: its options, how it starts, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path

import pytest

from kbus.sbus import Client
from kbus.sbus import daemon as command
from tests.kernel.helpers import PATIENCE, wait_until
from tests.kernel.processes import NOBODY, become, in_child
from tests.sbus.conftest import StartDaemon
from tests.sbus.forked import run
from tests.sbus.running import DAEMON, Daemon, has_ended, receive, settle


def refused(place: Path, *options: str) -> str:
    """What a daemon says that cannot start; it must end with status 1, and leave nothing."""
    before = sorted(os.listdir(place))
    done = run(command.main, *options)
    assert done[:2] == (1, b"")
    assert sorted(os.listdir(place)) == before
    return done.stderr


@pytest.mark.parametrize(
    ("options", "mode"),
    [((), 0o700), (("-g",), 0o770), (("-o",), 0o707), (("-g", "-o"), 0o777), (("--mode", "0612"), 0o612)],
)
def test_rule_mode(daemon: StartDaemon, options: tuple[str, ...], mode: int) -> None:
    assert stat.S_IMODE(os.stat(daemon(*options).path).st_mode) == mode


def test_group(daemon: StartDaemon) -> None:
    assert os.stat(daemon("--group", "4321").path).st_gid == 4321


def test_rule_users(daemon: StartDaemon) -> None:
    """The listed ones and the daemon's own may connect; others are closed at once."""
    running = daemon("-o", "-u", "nobody", "-u", "1234")
    os.chmod(Path(running.path).parent, 0o755)

    def ask_as(uid: int) -> bool:
        def ask() -> bool:
            become(uid)
            with Client(running.path) as client:
                try:
                    return bool(client.whoami(PATIENCE))
                except ConnectionError:
                    return False

        return in_child(ask)

    assert [ask_as(uid) for uid in (NOBODY, 1234, 1235)] == [True, True, False]
    with running.client() as client:
        assert client.whoami(PATIENCE)
    assert running.stats()[0]["refused"] == {"user": 1}
    assert "user 1235 (process " in running.said()


def test_rule_an_abstract_name_in_hex(daemon: StartDaemon) -> None:
    """It is all of sun_path, as a client in C fills it."""
    name = b"\0" + os.urandom(20)
    daemon("-a", f"/dev/unix/abstract/{name.hex()}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as bare:
        bare.connect(name)
    with Client(f"/dev/unix/abstract/{name.hex()}") as client:
        assert client.whoami(PATIENCE)


def test_rule_a_random_abstract_name() -> None:
    """One line on stdout, and then its end."""
    run = [*DAEMON, "-f", "-p", "/dev/null", "-c", "-a", "/dev/unix/abstract"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        assert printed.startswith("/dev/unix/abstract/00")
        assert len(printed) == len("/dev/unix/abstract/") + 2 * 108 + 1
        Client(printed.rstrip("\n")).close()
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("listens", [True, False])
def test_rule_an_inherited_socket(daemon: StartDaemon, place: Path, listens: bool) -> None:
    path = str(place / "inherited")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as inherited:
        inherited.bind(path)
        inherited.set_inheritable(True)
        if listens:
            inherited.listen()
        daemon("-a", f"/dev/fd/{inherited.fileno()}")
    with Client(path) as client:
        assert client.whoami(PATIENCE)


def test_socket_activation(place: Path) -> None:
    """As systemd does it, without its library."""
    path = str(place / "passed")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as passed:
        passed.bind(path)
        passed.listen()
        pid = os.fork()
        if pid == 0:
            os.dup2(passed.fileno(), 3)
            os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
            os._exit(command.main(["-f", "-c", "-p", "/dev/null"]))
    with Client(path) as client:
        assert client.whoami(PATIENCE)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert os.path.exists(path)


def test_rule_a_dead_daemons_socket_is_replaced(place: Path, daemon: StartDaemon) -> None:
    dead = Daemon(place)
    dead.kill()
    assert os.path.exists(dead.path)
    with daemon().client() as client:
        assert client.whoami(PATIENCE)


def test_rule_an_existing_path(place: Path, daemon: StartDaemon) -> None:
    path = place / "sbus.socket"
    path.write_text("precious")
    said = refused(place, "-f", "-p", "/dev/null", "-a", str(path))
    assert "it is there already" in said
    assert path.read_text() == "precious"
    with daemon("-r").client() as client:
        assert client.whoami(PATIENCE)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-a", "/no/such/directory/x"), "No such file or directory"),
        (("-a", "/dev/fd/77"), "Bad file descriptor"),
        (("-d", "256"), "there is no device /dev/kbus256"),
        (("-p", "/no/such/directory/x"), "No such file or directory"),
    ],
)
def test_what_cannot_be(place: Path, options: tuple[str, ...], said: str) -> None:
    others = [] if "-p" in options else ["-p", "/dev/null"]
    others += [] if "-a" in options else ["-a", str(place / "x")]
    assert said in refused(place, "-f", *others, *options)


def test_rule_background_and_pid_file(place: Path) -> None:
    """The command comes back when clients can connect; a second one does not get the pid file."""
    path, pidfile = str(place / "sbus"), place / "pid"
    assert run(command.main, "-a", path, "-p", str(pidfile)) == (0, b"", "")
    pid = int(pidfile.read_text())
    with Client(path) as client:
        assert client.whoami(PATIENCE)
    assert os.getsid(pid) != os.getsid(0)
    assert "still lives" in refused(place, "-f", "-a", str(place / "other"), "-p", str(pidfile))
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: has_ended(pid), "it has ended")
    assert os.listdir(place) == []


def test_a_background_daemon_that_cannot_start(place: Path) -> None:
    (place / "x").write_text("")
    assert "it is there already" in refused(place, "-p", str(place / "pid"), "-a", str(place / "x"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR2, signal.SIGALRM])
def test_rule_it_ends_cleanly(place: Path, number: signal.Signals) -> None:
    running = Daemon(place, "--grace", str(PATIENCE))
    with running.client() as client:
        client.subscribe("a")
        settle(client)
        for each in range(1000):
            client.publish("a", b"%d" % each)
        running.signal(number)
        assert receive(client, 1000) == [(b"a", b"%d" % each) for each in range(1000)]
        assert list(client) == []
    assert running.wait() == 0
    assert not os.path.exists(running.path)


def test_rule_the_grace_time_is_short(place: Path) -> None:
    running = Daemon(place, "--grace", "0.2")
    with running.client() as stuck, running.client() as publisher:
        stuck.subscribe("a")
        settle(stuck)
        for _ in range(1000):
            publisher.publish("a", b"x" * 1000)
        settle(publisher)
        began = time.monotonic()
        running.signal(signal.SIGTERM)
        assert running.wait() == 0
        assert 0.2 <= time.monotonic() - began < 20


def test_rule_sighup_and_sigcont_do_nothing(daemon: StartDaemon) -> None:
    running = daemon()
    with running.client() as client:
        for number in (signal.SIGHUP, signal.SIGCONT):
            running.signal(number)
            assert client.whoami(PATIENCE)


def test_sigusr1_tells_statistics(daemon: StartDaemon) -> None:
    running = daemon("--protocol", "dot")
    running.signal(signal.SIGUSR1)
    wait_until(lambda: '"kbus_lost": 0' in running.said(), "it has told")


def test_rule_until_the_last_has_left(place: Path) -> None:
    running = Daemon(place, "-c")
    one, other = running.client(), running.client()
    settle(other)
    one.close()
    settle(other)
    other.close()
    assert running.wait() == 0


def test_a_path_that_is_somebody_elses_by_then_stays(place: Path) -> None:
    running = Daemon(place)
    os.unlink(running.path)
    Path(running.path).write_text("another's")
    running.stop()
    assert Path(running.path).read_text() == "another's"


def test_stats_are_for_the_own_user(daemon: StartDaemon) -> None:
    running = daemon("-o")
    os.chmod(Path(running.path).parent, 0o755)

    def ask() -> list[bytes]:
        become(NOBODY)
        with Client(running.path) as client:
            client.control("kbus/stats")
            client.whoami(PATIENCE)
            return [message.key for message in [client.receive(0)] if message]

    assert in_child(ask) == []
    assert running.dropped() == {"unknown-control": 1}


def test_stats(daemon: StartDaemon) -> None:
    running = daemon()
    with running.client() as client:
        client.subscribe("a")
        client.publish("a", b"1")
        assert receive(client, 1)
        done = run(command.main, "--stats", "-a", running.path)
        # All of it, this client and the one who asks, and their user.
        assert (done.status, done.stdout.count(b"\n")) == (0, 4)
        (one,) = [each for each in running.stats()[1:] if "client" in each and each["subscriptions"]]
        assert (one["pid"], one["uid"], one["received"], one["published"]) == (os.getpid(), 0, 2, 1)
    assert run(command.main, "--stats", "-a", "/no/such").status == 1


def test_the_protocol_dot(daemon: StartDaemon) -> None:
    with daemon("--protocol", "dot").client(protocol="dot") as client:
        client.subscribe("a.*.c.")
        for key in ("a.b.c.", "a.b.c.d.e", "a.b.c", "a.c.d"):
            client.publish(key)
        client.subscribe("end")
        client.publish("end")
        assert [key for key, _ in receive(client, 3)] == [b"a.b.c.", b"a.b.c.d.e", b"end"]
