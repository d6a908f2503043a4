# SPDX-License-Identifier: MIT
"""The ABI from C, for each user space that the kernel has. The Makefile in c/ builds the programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kbus import _abi
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import BITS

BUILD = Path(__file__).parent / "c" / "bin"
PACKET = raw.message(
    b"$.From.C", bytes(range(256)) * 50, flags=raw.URGENT | 0xABCD0000, to=5, id=(6, 7), extended=(1, 2, 3, 4)
)

STRUCTS = {
    "kbus_msg_id": ["network_id", "serial_num"],
    "kbus_orig_from": ["network_id", "local_id"],
    "kbus_message_header": [
        *("start_guard", "id", "", "in_reply_to", "", "to", "from", "flags", "name_len", "data_len"),
    ],
    "kbus_bind_event": ["is_bind", "binder", "name_len"],
    "kbus_bind_request": ["is_replier", "name_len", "name", ""],
    "kbus_replier_query": ["ksock_id", "name_len", "name", ""],
    "kbus_lost_msgs": ["count", ""],
    "kbus_transfer": [
        *("send", "", "ids", "", "receive", "", "deadline", "", "lost", "", "send_len", "receive_len"),
        *("sent", "error", "kept", "received", "received_len", "queued", "next_len", "receive_max"),
        *("times", "", "flags", "reserved", "", "", "", ""),
    ],
    "kbus_peer_info": ["ksock_id", "pid", "uid", "gid"],
}
"""What each 32-bit word of the structs is; "" for the second of two words."""
FLAGS = ("WANT_A_REPLY", "WANT_YOU_TO_REPLY", "SYNTHETIC", "URGENT", "ALL_OR_WAIT", "ALL_OR_FAIL", "EXTENDED")


def run(program: str, *arguments: str) -> str:
    """Run a program to its end; its stdout. It must succeed."""
    done = subprocess.run([BUILD / program, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def layout(bits: int) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in run(f"layout{bits}").splitlines())


@pytest.mark.abi("every field", "every flag", "every ioctl")
@pytest.mark.parametrize("bits", BITS)
def test_sizes_offsets_and_numbers_in_c(bits: int) -> None:
    seen = layout(bits)
    by_hand = {
        **{f"sizeof({struct})": str(4 * len(words)) for struct, words in STRUCTS.items()},
        **{
            f"{struct}.{member}": str(4 * word)
            for struct, words in STRUCTS.items()
            for word, member in enumerate(words)
            if member
        },
        **{f"KBUS_IOC_{name}": str(number) for name, number in raw.IOCTLS.items()},
        **{f"KBUS_BIT_{name}": str(getattr(raw, name)) for name in FLAGS},
        "KBUS_BITS_RESERVED": str(sum(1 << bit for bit in raw.RESERVED_BITS)),
        "KBUS_MSG_START_GUARD": str(raw.START_GUARD),
        "KBUS_MSG_END_GUARD": str(raw.END_GUARD),
        "KBUS_MAX_NAME_LEN": str(raw.MAX_NAME_LEN),
    }
    assert {name: seen[name] for name in by_hand} == by_hand
    assert {name for name in seen if not name.startswith("KBUS_")} <= set(by_hand)


@pytest.mark.abi("every flag", "every ioctl")
def test_c_and_the_package_agree() -> None:
    in_c = {name: value for name, value in layout(BITS[0]).items() if name.startswith("KBUS_")}
    in_python = {name: str(getattr(_abi, name[len("KBUS_") :])) for name in in_c}
    assert in_python == in_c


@pytest.mark.abi("every ioctl")
@pytest.mark.parametrize("bits", BITS)
def test_every_ioctl_from_c(bits: int) -> None:
    lines = run(f"abi{bits}").splitlines()
    assert [line for line in lines[:-1] if not line.startswith("ok ")] == []
    assert lines[-1] == f"1..{len(lines) - 1}"


@pytest.mark.rule(17)
@pytest.mark.abi("every field")
@pytest.mark.parametrize("listening", BITS)
@pytest.mark.parametrize("sending", BITS)
def test_both_user_spaces_see_the_same_bytes(
    ksock: OpenKsock, tmp_path: Path, sending: int, listening: int
) -> None:
    file = tmp_path / "message"
    file.write_bytes(PACKET)
    watcher = ksock()
    watcher.bind("$.From.C")
    with subprocess.Popen(
        [BUILD / f"peer{listening}", "listen", "$.From.C"], stdout=subprocess.PIPE, text=True
    ) as peer:
        assert peer.stdout is not None
        assert peer.stdout.readline() == "bound\n"
        assert run(f"peer{sending}", "send", str(file)) == "6 7\n"
        heard = bytes.fromhex(peer.stdout.readline())
    from_ = raw.parse(heard).from_
    assert heard == PACKET[:24] + from_.to_bytes(4, sys.byteorder) + PACKET[28:]
    assert heard == raw.receive(watcher)
    assert from_ == watcher.ksock_id() + 2
