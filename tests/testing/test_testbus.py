# SPDX-License-Identifier: MIT
"""A bus for several processes, and the plug-in of pytest."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbus import Announcement, Ksock, Message, MessageId, ReplierError, inspect
from kbus import _device as device
from kbus._device import TEST_BUS
from kbus._stand_in import BusGone
from kbus._test_bus import RemoteHandle
from kbus.aio import AsyncKsock, Service
from kbus.testing.server import serving
from tests.kernel import loops
from tests.kernel.helpers import fails, wait_until
from tests.testing.plugged import run_tests
from tests.testing.reached import reached, served

NOTICE = "kbus-testbus: this is no module, but a bus for tests\n"
PYTHON = [sys.executable, "-W", "error"]
SERVICE = """
from kbus import Ksock
with Ksock() as ksock:
    ksock.serve("$.Double", lambda request: str(2 * float(request.data)))
"""
INHERITED = """
import os, sys
from kbus import Ksock
ksock = Ksock()
ksock.bind("$.A", replier=True)
if os.fork() == 0:
    sys.stdin.read()
os._exit(0)
"""


@pytest.fixture
def path() -> Iterator[str]:
    """A bus in the place of the module, reached by a socket, here and where this is in the environment."""
    with served() as one:
        yield one


def test_between_processes(path: str) -> None:
    with (
        subprocess.Popen(
            [*PYTHON, "-c", SERVICE], env={**os.environ, "KBUS_TEST_BUS": path}, stderr=subprocess.PIPE
        ) as process,
        Ksock() as caller,
    ):
        while caller.find_replier("$.Double") is None:
            time.sleep(0.01)
        (binding,) = inspect.bindings()
        assert binding.pid == process.pid
        assert caller.peer(binding.ksock_id).uid == os.geteuid()
        assert caller.call("$.Double", "21", timeout=10).data == b"42.0"
        with pytest.raises(ReplierError, match=r"^ValueError: "):
            caller.call("$.Double", "warm", timeout=10)
        process.kill()
        while caller.find_replier("$.Double") is not None:
            time.sleep(0.01)
    assert caller.is_real is False


def test_what_is_refused_is_refused_there_too(path: str) -> None:
    with pytest.raises(FileNotFoundError, match="there is /dev/kbus0"):
        Ksock(5)
    with Ksock() as one, pytest.raises(OSError, match="it has no replier"):
        one.call("$.A")


def test_a_replier_that_another_process_has_inherited(path: str) -> None:
    with (
        subprocess.Popen(
            [*PYTHON, "-c", INHERITED], env={**os.environ, "KBUS_TEST_BUS": path}, stdin=subprocess.PIPE
        ) as opener,
        Ksock() as second,
    ):
        assert opener.wait(60) == 0
        said = (
            f": its opener, process {opener.pid}, has ended; another process has inherited it, and keeps the"
        )
        with pytest.raises(OSError, match=said):
            second.bind("$.A", replier=True)
        assert opener.stdin
        opener.stdin.close()
        wait_until(lambda: second.find_replier("$.A") is None, "that has ended, too")


def test_bytes_of_any_value(path: str) -> None:
    with Ksock() as reader, Ksock() as sender:
        reader.bind("$.A")
        sender.send_msg(Announcement("$.A", bytes(range(256))))
        sender.write_msg(Announcement("$.A", b"\n\xff"))
        sender.send()
        assert [message.data for message in reader] == [bytes(range(256)), b"\n\xff"]
        sender.send_msg(Announcement("$.A", b"x"))
        assert Message.from_bytes(reader.read_data(reader.next_msg())).data == b"x"


def test_a_command_on_a_bus_of_its_own() -> None:
    command = [*PYTHON, "-m", "kbus.testing.server", "--devices", "2", "--"]
    done = subprocess.run(
        [*command, *PYTHON, "-m", "kbus.cli", "devices", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, NOTICE)
    assert [line.split('"node": ')[1][:12] for line in done.stdout.splitlines()] == [
        '"/dev/kbus0"',
        '"/dev/kbus1"',
    ]
    assert subprocess.run([*command, "sh", "-c", "exit 7"], check=False).returncode == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_bus_for_others(number: signal.Signals) -> None:
    # Whoever runs the tests may ignore it, as nohup does.
    command = ["env", f"--default-signal={number.name}", *PYTHON, "-m", "kbus.testing.server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path = process.stdout.readline().strip().removeprefix("export KBUS_TEST_BUS=")
        assert os.stat(path).st_mode & 0o777 == 0o600
        with reached(path), Ksock() as one:
            assert one.ksock_id() == 1
        process.send_signal(number)
        assert process.wait(10) == 0
    assert not os.path.exists(path)


def test_a_bus_for_what_a_shell_starts() -> None:
    """As docs/howto/test.rst has it; the directory's name is one that a shell would take apart."""
    with tempfile.TemporaryDirectory(prefix="a $(false) b", ignore_cleanup_errors=True) as directory:
        done = _run_in_shell(
            'eval "$(python3 -m kbus.testing.server & echo "server=$!")"\n'
            "python3 -c \"from kbus import Ksock; Ksock().bind('$.A')\" && kill $server",
            directory,
        )
    assert (done.returncode, done.stderr) == (0, NOTICE)


def _run_in_shell(script: str, directory: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "TMPDIR": directory, "PATH": path},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_where_no_bus_can_be(tmp_path: Path) -> None:
    """The name of a socket is not as long as that of a file may be."""
    directory = tmp_path / ("d" * 100)
    directory.mkdir()
    done = _run_in_shell("python3 -m kbus.testing.server", str(directory))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 2)
    assert done.stderr.startswith(f"{NOTICE}kbus-testbus: there can be no socket {directory}/kbus-testbus-")
    done = _run_in_shell("python3 -m kbus.testing.server no-such-command", "/tmp")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 2)
    assert "no-such-command" in done.stderr


@pytest.mark.parametrize("devices", ["0", "-1", "257", "999999999999", "two"])
def test_so_many_devices_as_the_module_makes(devices: str) -> None:
    done = _run_in_shell(f"python3 -m kbus.testing.server --devices={devices} -- true", "/tmp")
    assert done.returncode == 2
    assert f"{devices!r} is not a number from 1 to 256" in done.stderr


def test_the_command_ends_with_its_bus() -> None:
    script = "import time; print('begun', flush=True); time.sleep(60)"
    command = [*PYTHON, "-m", "kbus.testing.server", "--", sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.terminate()
        # Its end comes when nobody has it any more.
        assert process.stdout.read() == b""
        assert process.wait(10) == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_signal_while_the_command_is_started(tmp_path: Path, number: signal.Signals, when: str) -> None:
    """Neither the command nor the directory is left."""
    script = f"""if True:
        import os, subprocess, sys
        from kbus.testing import server
        class Popen(subprocess.Popen):
            def __init__(self, *args, **named):
                if {when == "before"}:
                    os.kill(os.getpid(), {number.value})
                super().__init__(*args, **named)
                if {when == "after"}:
                    os.kill(os.getpid(), {number.value})
        subprocess.Popen = Popen
        sys.exit(server.main(["--", "sleep", "60"]))
    """
    done = _run_in_shell(f"exec python3 -c {shlex.quote(script)}", str(tmp_path))
    assert (done.returncode, done.stderr) == (128 + number, NOTICE)
    assert list(tmp_path.iterdir()) == []


def test_a_signal_before_the_command_is_started(tmp_path: Path) -> None:
    """Then it is not."""
    script = """if True:
        import os, signal, sys
        from kbus.testing import server
        class Server(server.BusServer):
            def __init__(self, *args):
                os.kill(os.getpid(), signal.SIGTERM)
                super().__init__(*args)
        server.BusServer = Server
        sys.exit(server.main(["--", "echo", "started"]))
    """
    done = _run_in_shell(f"exec python3 -c {shlex.quote(script)}", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, "", NOTICE)
    assert list(tmp_path.iterdir()) == []


def test_the_command_ends_by_a_key_in_its_own_time() -> None:
    """A terminal sends SIGINT to both; the command needs the bus until it has ended."""
    script = """if True:
        import signal, time
        from kbus import Ksock
        with Ksock() as one:
            try:
                print("begun", flush=True)
                time.sleep(60)
            except KeyboardInterrupt:
                time.sleep(0.5)
                one.bind("$.A")
                print("ended", flush=True)
    """
    command = [*PYTHON, "-m", "kbus.testing.server", "--", *PYTHON, "-c", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=10) == (b"ended\n", NOTICE.encode())
        assert process.returncode == 0


def test_stdout_that_is_closed(tmp_path: Path) -> None:
    done = _run_in_shell(
        "python3 -m kbus.testing.server >&- &\n"
        'until [ -S "$TMPDIR"/*/bus ]; do kill -0 $! || exit; sleep 0.1; done 2>&-\n'
        "kill $!; wait $!",
        str(tmp_path),
    )
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (0, NOTICE, [])


def test_stdout_that_is_full() -> None:
    done = _run_in_shell("python3 -m kbus.testing.server >/dev/full", "/tmp")
    assert (done.returncode, done.stderr.count("\n")) == (1, 2)
    assert "No space left on device" in done.stderr


def test_a_bus_that_has_gone_is_said() -> None:
    """By calls on a KSock that is open, and where one is opened."""
    gone = "there is no kbus-testbus at "
    with served():
        ksock = Ksock()
        ksock.bind("$.A")
    with pytest.raises(BusGone, match=gone):
        ksock.num_messages()
    # And not as a reply that nobody expects.
    with pytest.raises(OSError, match=gone) as caught:
        ksock.send_msg(Message("$.A", to=1, in_reply_to=MessageId(0, 1)))
    assert caught.value.errno == errno.ENOTCONN
    ksock.close()
    done = _run_in_shell("KBUS_TEST_BUS=/nonexistent python3 -m kbus.cli send '$.A' x", "/tmp")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"{gone}/nonexistent, the path in KBUS_TEST_BUS" in done.stderr
    done = _run_in_shell("KBUS_TEST_BUS=/nonexistent python3 -m kbus.cli stats", "/tmp")
    assert done.stderr == f"kbus stats: {gone}/nonexistent, the path in KBUS_TEST_BUS\n"


def test_a_bus_that_has_gone_ends_all_that_waits_in_an_event_loop() -> None:
    """Those that wait already, and those that begin to."""

    async def test() -> None:
        with served():
            ksock = AsyncKsock()
            ksock.bind("$.A")
            service = Service(ksock)
            service.replier("$.B")(lambda request: None)
            waiting = [
                asyncio.ensure_future(each) for each in (service.run(), ksock.__anext__(), ksock.__anext__())
            ]
            await service.ready.wait()
        for each in waiting:
            with pytest.raises(BusGone):
                await each
        with pytest.raises(BusGone):
            await ksock.__anext__()
        ksock.close()

    loops.run(test())


def test_the_fixture(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "from kbus import Ksock\n"
        "def test_it(kbus_bus):\n"
        "    with Ksock() as one:\n"
        "        assert not one.is_real\n"
        "        one.bind('$.A', replier=True)\n"
        "def test_apart(kbus_bus):\n"
        "    with Ksock() as one:\n"
        "        assert one.find_replier('$.A') is None\n"
    )
    assert "2 passed" in run_tests(test)


def test_an_answer_that_nobody_waits_for_is_not_that_to_the_next_call(path: str) -> None:
    """As after a signal handler that raises."""

    class Ended(Exception):
        pass

    def end(number: int, frame: object) -> None:
        raise Ended

    before = signal.signal(signal.SIGALRM, end)
    try:
        with Ksock() as ksock:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Ended):
                ksock.wait_for_msg(0.3)
            time.sleep(0.4)
            assert ksock.num_messages() == 0
            assert ksock.max_messages() == 100
            # Nor does it take what comes later.
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Ended):
                ksock.wait_for_msg()
            ksock.bind("$.A")
            ksock.send_msg(Announcement("$.A"))
            assert ksock.num_messages() == 1
    finally:
        signal.signal(signal.SIGALRM, before)


def test_the_variable_counts_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tests of one process may have a bus each, and a third one none."""
    for _ in range(2):
        with serving() as path:
            monkeypatch.setenv(TEST_BUS, path)
            with Ksock() as ksock:
                ksock.bind("$.A", replier=True)
    monkeypatch.delenv(TEST_BUS)
    assert device.stand_in() is None


def test_a_call_of_a_ksock_that_is_gone(path: str) -> None:
    """As a process that is killed in the middle of a call leaves it; the server says nothing of it."""
    handle = RemoteHandle(path)
    os.close(handle.open(0, "rw"))
    handle._first.close()
    while inspect.stats()[0].ksocks:
        time.sleep(0.01)
    with fails(errno.EBADF):
        handle.do("num_messages")
    handle.close()


@pytest.mark.parametrize(
    "call",
    ["5", "[]", "{}", "nothing", "[[1], [2], [3]]", '["do"]', '["open"]', '["open", "a", "rw", 1, 0, 0]'],
)
def test_a_call_that_makes_no_sense(call: str) -> None:
    """The bus goes on, and says no more than a line."""
    program = f"""if True:
        import os, socket
        from kbus import Ksock
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.environ["KBUS_TEST_BUS"])
            client.sendall({call.encode()!r} + b"\\n")
            assert client.recv(1) == b""
        Ksock().close()
    """
    done = _run_in_shell(f"python3 -m kbus.testing.server python3 -c {shlex.quote(program)}", "/tmp")
    assert (done.returncode, done.stdout) == (0, "")
    said = done.stderr.removeprefix(NOTICE)
    assert said.count("\n") <= 1
    assert said == "" or said.startswith("kbus-testbus: a call failed: ")


@pytest.mark.parametrize("count", [30, 31])
def test_a_bus_that_has_run_out_of_descriptors(count: int) -> None:
    """It serves again when there are some, whatever step it was at when there were none."""
    program = """if True:
        import os, socket, time
        from kbus import Ksock
        from kbus.inspect import stats
        clients = []
        for _ in range(20):
            clients.append(socket.socket(socket.AF_UNIX))
            clients[-1].connect(os.environ["KBUS_TEST_BUS"])
            clients[-1].sendall(b'["open", 0, "rw", 1, 0, 0]\\n')
        time.sleep(0.3)
        for each in clients:
            each.close()
        while stats()[0].ksocks:
            time.sleep(0.01)
        Ksock().close()
    """
    command = f"ulimit -n {count}; python3 -m kbus.testing.server python3 -c {shlex.quote(program)}"
    done = _run_in_shell(command, "/tmp")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", NOTICE)


def test_a_bus_that_has_run_out_of_threads(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(OSError, match="there is no kbus-testbus"):
            Ksock()
    Ksock().close()


def test_a_client_that_is_killed_as_it_opens(path: str) -> None:
    """Nothing is left of what the bus can't tell it of."""
    for _ in range(50):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b'["open", 0, "rw", 1, 0, 0]\n')
    wait_until(lambda: not inspect.stats()[0].ksocks, "they are closed")


def test_what_is_closed_is_closed_when_close_returns(path: str) -> None:
    with Ksock() as other:
        for _ in range(100):
            one = Ksock()
            one.bind("$.A", replier=True)
            one.close()
            assert other.find_replier("$.A") is None


def test_what_a_forked_process_closes_stays_open(path: str) -> None:
    """As a file does, until nobody has it any more."""
    with Ksock() as one:
        child = os.fork()
        if child == 0:
            one.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert one.num_messages() == 0


def test_closing_on_a_bus_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbus._test_bus._PATIENCE", 0.01)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "bus"))
        listener.listen()
        handle = RemoteHandle(str(tmp_path / "bus"))
        handle._token = b"1"
        handle.close()
