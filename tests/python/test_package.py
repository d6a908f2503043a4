# SPDX-License-Identifier: MIT
"""The package as programs see it: its names and signatures, and a Ksock where there is no device."""

from __future__ import annotations

import ast
import errno
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import kbus
from kbus import Ksock

PACKAGE = Path(kbus.__file__).parent

#: The parts of a message but for its name.
BEGIN, TEXT = "data=None, to=None, from_=None", "encoding='utf-8', errors='strict'"
OTHERS = "orig_from=None, final_to=None, in_reply_to=None, flags=None, id=None"
PARTS = f"{BEGIN}, {OTHERS}, {TEXT}"
#: What programs for the original package rely on, and what this one adds.
SIGNATURES = {
    "Ksock": "(which=0, mode='rw', *, nonblocking=False, call_timeout=None)",
    "Ksock.bind": "(self, name, replier=False, *, observer=False)",
    "Ksock.unbind": "(self, name, replier=False, *, observer=False)",
    "Ksock.ksock_id": "(self)",
    "Ksock.next_msg": "(self)",
    "Ksock.len_left": "(self)",
    "Ksock.read_msg": "(self, length)",
    "Ksock.read_data": "(self, count)",
    "Ksock.read_next_msg": "(self)",
    "Ksock.wait_for_msg": "(self, timeout=None)",
    "Ksock.write_msg": "(self, message)",
    "Ksock.write_data": "(self, data)",
    "Ksock.send": "(self)",
    "Ksock.send_msg": "(self, message)",
    "Ksock.send_many": "(self, messages)",
    "Ksock.receive_many": "(self, timeout=None, at_most=None)",
    "Ksock.receive_bytes": "(self, room=65536)",
    "Ksock.discard": "(self)",
    "Ksock.last_msg_id": "(self)",
    "Ksock.find_replier": "(self, name)",
    "Ksock.max_messages": "(self)",
    "Ksock.set_max_messages": "(self, count)",
    "Ksock.num_messages": "(self)",
    "Ksock.num_unreplied_to": "(self)",
    "Ksock.want_messages_once": "(self, only_once=False, just_ask=False)",
    "Ksock.kernel_module_verbose": "(self, verbose=True, just_ask=False)",
    "Ksock.new_device": "(self)",
    "Ksock.report_replier_binds": "(self, report_events=True, just_ask=False)",
    "Ksock.max_message_size": "(self)",
    "Ksock.set_max_message_size": "(self, count)",
    "Ksock.fileno": "(self)",
    "Ksock.close": "(self)",
    "Ksock.call": "(self, name, data=None, timeout=None)",
    "Ksock.serve": "(self, name, handler)",
    "Ksock.lost_messages": "(self)",
    "Ksock.report_lost_messages": "(self, report=True, just_ask=False)",
    "Ksock.resolve": "(self, name)",
    "Ksock.peer": "(self, ksock_id)",
    "Ksock.abandon": "(self, id)",
    "Message.from_message": f"(msg, {BEGIN}, *, {OTHERS}, {TEXT})",
    "Message.from_sequence": "(seq, *args, **overrides)",
    "Message.from_bytes": "(data)",
    "Message.to_bytes": "(self)",
    "Message.equivalent": "(self, other)",
    "Message.extract": "(self)",
    "Message.cast": "(self)",
    "Message.total_length": "(self)",
    "Message.is_reply": "(self)",
    "Message.is_request": "(self)",
    "Message.is_stateful_request": "(self)",
    "Message.is_synthetic": "(self)",
    "Message.is_urgent": "(self)",
    "Message.wants_us_to_reply": "(self)",
    "Message.set_urgent": "(self, value=True)",
    "Message.set_want_reply": "(self, value=True)",
    "Message": f"(name, {PARTS})",
    "Announcement": f"(name, {BEGIN}, flags=None, id=None, {TEXT}, *, orig_from=None, final_to=None)",
    "Request": f"(name, {BEGIN}, final_to=None, flags=None, id=None, {TEXT}, *, orig_from=None)",
    "Reply": f"(name, {BEGIN}, orig_from=None, in_reply_to=None, flags=None, id=None, {TEXT}, *,"
    " final_to=None)",
    "Status": f"(original, {PARTS})",
    "MessageId": "(network_id, serial_num)",
    "OrigFrom": "(network_id, local_id)",
    "PeerInfo": "(ksock_id, pid, uid, gid)",
    "Batch": "(messages, times, lost, queued)",
    "reply_to": f"(original, data=None, flags=0, {TEXT})",
    "stateful_request": f"(earlier_msg, name, data=None, from_=None, flags=None, id=None, {TEXT})",
    "split_replier_bind_event_data": "(data)",
    "read_bindings": "(names)",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    found: object = kbus
    for part in name.split("."):
        found = getattr(found, part)
    signature = inspect.signature(found)  # type: ignore[arg-type]
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == SIGNATURES[name]


def test_exports() -> None:
    assert all(hasattr(kbus, name) for name in kbus.__all__)
    assert {name.split(".")[0] for name in SIGNATURES} <= set(kbus.__all__)


def test_only_the_standard_library_is_imported() -> None:
    """By anything but the pipeline, which does not run on the target, and what pytest loads."""
    paths = [path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.py")]
    names = [".".join(path.parts) for path in paths if path.stem not in ("__init__", "__main__")]
    modules = sorted(name for name in names if not name.startswith(("kbus.pipeline.", "kbus.testing.plugin")))
    assert {"kbus.cli.record", "kbus.sbus.daemon"} <= set(modules)
    script = f"import sys; sys.path.insert(0, sys.argv[1]); import {', '.join(modules)}"
    subprocess.run([sys.executable, "-I", "-S", "-c", script, PACKAGE.parent], check=True)


@pytest.mark.parametrize("mode", ["w", "wr", "", "rb", None])
def test_modes(mode: str) -> None:
    with pytest.raises(ValueError, match="neither 'r' nor 'rw'"):
        Ksock(99999, mode)


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_no_such_device(mode: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Ksock(99999, mode)
    assert caught.value.errno == errno.ENOENT
    assert caught.value.filename == "/dev/kbus99999"


def test_no_tuple_is_generic() -> None:
    """Python refuses that before 3.11, and the package says that it runs with 3.9."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and len(node.bases) > 1:
                assert "NamedTuple" not in map(ast.unparse, node.bases), (path, node.name)
