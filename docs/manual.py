# SPDX-License-Identifier: MIT
"""What only manual pages have: SYNOPSIS, made from what reads the command lines, DESCRIPTION and SEE ALSO."""

import argparse
import os
from typing import NamedTuple
from unittest import mock

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from kbus import cli
from kbus.pipeline.cli import parser as pipeline
from kbus.sbus import command, daemon
from kbus.testing import server

_OF_RECORDINGS = ("record", "info", "play", "recover")
_OTHERS = tuple(name for name in cli.SUBCOMMANDS if name not in _OF_RECORDINGS)
_C = """\
#include <linux/kbus.h>

int fd = open("/dev/kbus0", O_RDWR | O_CLOEXEC);
ioctl(fd, KBUS_IOC_..., argument);"""


class Page(NamedTuple):
    """A manual page: the document that it is made of, and so on as Sphinx wants it; what its SYNOPSIS has."""

    document: str
    name: str
    says: str
    section: int
    synopsis: str


def _usage(parser: argparse.ArgumentParser, *subcommands: str) -> str:
    """How a command, or each of some subcommands, is called."""
    choices = next(
        (each.choices for each in parser._actions if isinstance(each, argparse._SubParsersAction)), {}
    )
    with mock.patch.dict(os.environ, COLUMNS="78"):
        found = [
            (choices[name] if name else parser).format_usage() for name in subcommands or choices or [""]
        ]
    indent = " " * len("usage: ")
    lines = [line for usage in found for line in usage.splitlines()]
    return "\n".join(line.removeprefix("usage: ").removeprefix(indent) for line in lines)


_KBUS, _SBUS = cli.parser()[0], command.parser()[0]
PAGES = (
    Page("command", "kbus", "send, read and watch KBUS messages", 1, _usage(_KBUS, *_OTHERS)),
    Page("capture/index", "kbus-record", "record, look into and replay KBUS traffic", 1,
         _usage(_KBUS, *_OF_RECORDINGS)),
    Page("pipeline/howto", "kbus-pipeline", "make reports of recorded KBUS traffic", 1, _usage(pipeline())),
    Page("sbus/command", "kbus-sbus", "publish and subscribe at an sbus daemon", 1, _usage(_SBUS)),
    Page("howto/test", "kbus-testbus", "be a bus without the module, for tests", 1, _usage(server.parser())),
    Page("abi/index", "kbus", "message bus in the kernel", 4, _C),
    Page("sbus/index", "kbus-sbusd", "let sbus clients use KBUS", 8, _usage(daemon.parser())),
)  # fmt: skip


def _complete(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put SYNOPSIS before the text, which is DESCRIPTION, and SEE ALSO after all."""
    pages = {page.document: page for page in PAGES}
    if app.builder.format != "man" or docname not in pages:
        return
    page = pages[docname]
    top = next(iter(doctree.findall(nodes.section)))
    title, *rest = top.children
    # Sections would be subsections of it.
    text = []
    while rest and not isinstance(rest[0], nodes.section) and not list(rest[0].findall(nodes.section)):
        text.append(rest.pop(0))
    others = [f"{each.name}({each.section})" for each in PAGES if each is not page]
    synopsis = nodes.literal_block(page.synopsis, page.synopsis, language="text")
    top.children = []
    top += [title, _section("SYNOPSIS", [synopsis]), _section("DESCRIPTION", text), *rest]
    top += _section("SEE ALSO", [nodes.paragraph("", ", ".join(others))])


def _section(title: str, children: list[nodes.Node]) -> nodes.section:
    section = nodes.section("", nodes.title(title, title), ids=[title.lower().replace(" ", "-")])
    section += children
    return section


def setup(app: Sphinx) -> ExtensionMetadata:
    """Have it done when a manual page is put together."""
    app.connect("doctree-resolved", _complete)
    return {"parallel_read_safe": True}
