# SPDX-License-Identifier: MIT
"""The brokers that KBUS is compared with."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = Path(__file__).parent / "c" / "bin"
PATIENCE = 120
"""Seconds until a broker must listen."""
NATS_PORT, MQTT_PORT = 4222, 1883

MOSQUITTO = f"""\
listener {MQTT_PORT} 127.0.0.1
allow_anonymous true
persistence false
set_tcp_nodelay true
max_queued_messages 0
log_type error
"""
"""What it has queued it does not drop. What is under way is limited by those who send."""


@contextmanager
def running(directory: Path) -> Iterator[dict[str, str]]:
    """Start all of them; by the transport's name, where it is found.

    `directory` is for their sockets and files. Raises TimeoutError if one does not listen.
    """
    config = directory / "mosquitto.conf"
    config.write_text(MOSQUITTO)
    daemon, broker = directory / "dbus-daemon", directory / "dbus-broker"
    session = "--config-file=/usr/share/dbus-1/session.conf"
    loopback = ["--addr", "127.0.0.1", "--port", str(NATS_PORT)]
    with ExitStack() as stack:
        for command in (
            ["dbus-daemon", session, "--nofork", "--nosyslog", f"--address=unix:path={daemon}"],
            [str(PROGRAMS / "run_dbus_broker"), str(broker)],
            ["nats-server", *loopback, "--log", str(directory / "nats.log")],
            ["mosquitto", "-c", str(config)],
        ):
            stack.enter_context(_process(command))
        for path in (daemon, broker):
            _await(socket.AF_UNIX, str(path))
        for port in (NATS_PORT, MQTT_PORT):
            _await(socket.AF_INET, ("127.0.0.1", port))
        yield {
            "dbus-daemon": f"unix:path={daemon}",
            "dbus-broker": f"unix:path={broker}",
            "nats": f"nats://127.0.0.1:{NATS_PORT}",
            "mosquitto": f"127.0.0.1:{MQTT_PORT}",
        }


@contextmanager
def bridge() -> Iterator[dict[str, str]]:
    """Start the sbus bridge; as `running`."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        place = f"{directory}/sbus"
        stack.enter_context(
            _process([sys.executable, "-m", "kbus.sbus", "-f", "-p", "/dev/null", "-a", place])
        )
        _await(socket.AF_UNIX, place, socket.SOCK_SEQPACKET)
        yield {"sbus": place}


@contextmanager
def _process(command: list[str]) -> Iterator[None]:
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def _await(
    family: socket.AddressFamily, address: object, kind: socket.SocketKind = socket.SOCK_STREAM
) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        with socket.socket(family, kind) as probe:
            if probe.connect_ex(address) == 0:  # type: ignore[arg-type]  # what it is depends on the family
                return
        if time.monotonic() > until:
            raise TimeoutError(f"nobody listens at {address}")
        time.sleep(0.05)
