# SPDX-License-Identifier: MIT
"""kbus._abi against linux/kbus.h, as a C compiler sees it for 64-bit and for 32-bit processes."""

from __future__ import annotations

import json
import platform
import re
import runpy
import struct
import subprocess
from pathlib import Path

import pytest

from kbus import Ksock, Message
from kbus import _abi as abi
from tests.vm.arch import AMD64

UAPI = Path(__file__).parents[2] / "kernel" / "include" / "uapi"
HEADER = (UAPI / "linux" / "kbus.h").read_text()

MACROS = [name for name in re.findall(r"^#define\s+(KBUS_\w+)\s", HEADER, re.M) if name != "KBUS_IOC_MAGIC"]

#: Each struct of the header: its format here, and its members in order, down to the numbers.
STRUCTS = {
    "kbus_msg_id": (abi.MSG_ID, ["network_id", "serial_num"]),
    "kbus_orig_from": (abi.ORIG_FROM, ["network_id", "local_id"]),
    "kbus_message_header": (
        abi.MESSAGE_HEADER,
        [
            "start_guard",
            "id.network_id",
            "id.serial_num",
            "in_reply_to.network_id",
            "in_reply_to.serial_num",
            "to",
            "from",
            "flags",
            "name_len",
            "data_len",
        ],
    ),
    "kbus_bind_event": (abi.BIND_EVENT, ["is_bind", "binder", "name_len"]),
    "kbus_bind_request": (abi.NAME_QUERY, ["is_replier", "name_len", "name"]),
    "kbus_replier_query": (abi.NAME_QUERY, ["ksock_id", "name_len", "name"]),
    "kbus_lost_msgs": (abi.LOST_MSGS, ["count"]),
    "kbus_transfer": (
        abi.TRANSFER,
        [
            *(
                "send",
                "ids",
                "receive",
                "deadline",
                "lost",
                "send_len",
                "receive_len",
                "sent",
                "error",
                "kept",
            ),
            *("received", "received_len", "queued", "next_len", "receive_max", "times", "flags"),
            *(f"reserved[{index}]" for index in range(5)),
        ],
    ),
    "kbus_peer_info": (abi.PEER_INFO, ["ksock_id", "pid", "uid", "gid"]),
}


@pytest.fixture(scope="module", params=["CC64", "CC32"])
def in_c(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What a C program says of the header: values of macros, sizes of structs, offsets of members."""
    lines = []
    for macro in MACROS:
        form = '\\"%s\\"' if macro.startswith("KBUS_NAME_") else "%llu"
        cast = "" if macro.startswith("KBUS_NAME_") else "(unsigned long long)"
        lines.append(f'printf("\\"{macro}\\": {form},\\n", {cast}{macro});')
    for struct_name, (_, members) in STRUCTS.items():
        lines.append(f'printf("\\"{struct_name}\\": %zu,\\n", sizeof(struct {struct_name}));')
        for member in members:
            where = f"offsetof(struct {struct_name}, {member})"
            lines.append(f'printf("\\"{struct_name}.{member}\\": %zu,\\n", {where});')
    lines.append('printf("\\"pointer\\": %zu\\n", sizeof(void *));')
    body = "\n".join(lines)
    directory = tmp_path_factory.mktemp("abi")
    source, program = directory / "abi.c", directory / "abi"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <linux/kbus.h>\n"
        f'int main(void) {{ puts("{{");\n{body}\nputs("}}"); return 0; }}\n'
    )
    compiler = [AMD64.compilers[request.param], "-static", "-Wall", "-Wextra", "-Werror", "-I", str(UAPI)]
    subprocess.run([*compiler, "-o", program, source], check=True)
    said = json.loads(subprocess.run([program], check=True, capture_output=True).stdout)
    assert said["pointer"] == (8 if request.param == "CC64" else 4)
    return dict(said)


def test_every_macro_has_its_value_here(in_c: dict[str, object]) -> None:
    in_python = {macro: getattr(abi, macro[len("KBUS_") :]) for macro in MACROS}
    assert in_python == {macro: in_c[macro] for macro in MACROS}


def test_macros_are_found() -> None:
    assert {"KBUS_MSG_START_GUARD", "KBUS_BIT_URGENT", "KBUS_IOC_BIND", "KBUS_IOC_PEERINFO"} <= set(MACROS)
    assert len([macro for macro in MACROS if macro.startswith("KBUS_IOC_")]) == 24


def test_every_struct_is_known() -> None:
    assert set(re.findall(r"^struct (kbus_\w+) \{", HEADER, re.M)) == set(STRUCTS)


@pytest.mark.parametrize("name", STRUCTS)
def test_sizes_and_offsets(in_c: dict[str, object], name: str) -> None:
    layout, members = STRUCTS[name]
    codes = "".join(
        code * int(count or 1) for count, code in re.findall(r"(\d*)([A-Z])", layout.format.lstrip("="))
    )
    assert len(codes) == len(members)
    offsets = [struct.calcsize("=" + codes[:index]) for index in range(len(codes))]
    assert [in_c[f"{name}.{member}"] for member in members] == offsets
    assert in_c[name] == layout.size


#: DISCARD, SEND, BIND and MAXMSGS, one of each direction, as gcc computes them from Debian's headers.
MANY = (0x00006B09, 0x80086B08, 0x40106B02, 0xC0046B0B)
SOME = (0x20006B09, 0x40086B08, 0x80106B02, 0xC0046B0B)
ENCODINGS = {
    "x86_64": MANY,
    "i686": MANY,
    "aarch64": MANY,
    "armv7l": MANY,
    "riscv64": MANY,
    "s390x": MANY,
    "alpha": SOME,
    "mips": SOME,
    "mips64": SOME,
    "ppc": SOME,
    "ppc64le": SOME,
    "sparc64": SOME,
    "parisc64": (0x00006B09, 0x40086B08, 0x80106B02, 0xC0046B0B),
}


@pytest.mark.parametrize("machine", ENCODINGS)
def test_numbers_on_other_machines(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    there = runpy.run_path(abi.__file__)
    names = ("IOC_DISCARD", "IOC_SEND", "IOC_BIND", "IOC_MAXMSGS")
    assert tuple(there[name] for name in names) == ENCODINGS[machine]


@pytest.mark.parametrize("value", [0, 1, abi.U32_MAX])
def test_check_u32_accepts(value: int) -> None:
    assert abi.check_u32("field", value) == value


@pytest.mark.parametrize("value", [-1, abi.U32_MAX + 1])
def test_check_u32_refuses(value: int) -> None:
    with pytest.raises(ValueError, match=f"field is {value}"):
        abi.check_u32("field", value)


def test_check_u32_refuses_other_types() -> None:
    with pytest.raises(TypeError, match="field is an int, not str"):
        abi.check_u32("field", "1")  # type: ignore[arg-type]


@pytest.mark.parametrize(("length", "whole"), [(0, 0), (1, 4), (3, 4), (4, 4), (5, 8)])
def test_padded(length: int, whole: int) -> None:
    assert abi.padded(length) == whole


def test_the_original_packages_constants_are_where_they_were() -> None:
    """Its ioctls are numbers 1 to 18 of the magic letter."""
    numbers = sorted(getattr(Ksock, name) & 0xFF for name in dir(Ksock) if name.startswith("IOC_"))
    assert numbers == list(range(1, 19))
    assert Ksock.IOC_BIND == abi.IOC_BIND
    assert Message.MSG_HEADER_LEN == 40
