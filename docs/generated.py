# SPDX-License-Identifier: MIT
"""Sphinx directives for what the docs take from the code when they are built, so that it is never stale.

``kbus-help SUBCOMMAND`` is what ``kbus SUBCOMMAND --help`` prints, ``sbus-help PROGRAM`` likewise,
``kbus-top-keys`` what ``kbus top`` tells of its keys.
``rule-tests`` is the table of the rules, axioms and parts of the ABI with the tests that cover each,
``ported-calls`` that of the original package's methods.
"""

import re
from pathlib import Path

from docutils import nodes
from printed import help_of
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from kbus import cli
from kbus.cli.top import page
from kbus.sbus import command, daemon
from tests.kernel import porting, rules

ABI_PAGES = Path(__file__).parent / "abi"


class Help(SphinxDirective):
    """``kbus-help SUBCOMMAND``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Give a literal block."""
        self.env.note_reread()
        return help_of(cli.main, self.arguments)


class SbusHelp(SphinxDirective):
    """``sbus-help PROGRAM [SUBCOMMAND]``."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Give a literal block."""
        self.env.note_reread()
        program, *words = self.arguments
        main = {"kbus-sbusd": daemon.main, "kbus-sbus": command.main}[program]
        return help_of(main, words)


class TopKeys(SphinxDirective):
    """``kbus-top-keys``."""

    def run(self) -> list[nodes.Node]:
        """Give a literal block."""
        self.env.note_reread()
        keys = page.HELP.rpartition("\n\n")[0]
        return [nodes.literal_block(keys, keys, language="text")]


class RuleTests(SphinxDirective):
    """``rule-tests``."""

    def run(self) -> list[nodes.Node]:
        """Give the table, with links to what is covered."""
        self.env.note_reread()
        table = re.sub(r"(?<=   \* - )(rule|axiom|abi) (.+)", _link, rules.table())
        return self.parse_text_to_nodes(table)


class PortedCalls(SphinxDirective):
    """``ported-calls``."""

    def run(self) -> list[nodes.Node]:
        """Give the table."""
        self.env.note_reread()
        return self.parse_text_to_nodes(porting.table())


def _link(subject: re.Match[str]) -> str:
    kind, name = subject.groups()
    if kind != "abi":
        return f":ref:`{kind} {name} <{kind}-{name}>`"
    page = ABI_PAGES / f"{name.lower()}.rst"
    return f":doc:`{name} </abi/{page.stem}>`" if page.exists() else f":doc:`{name} </abi/message>`"


def _unlink(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Leave only the text of links within the docs in manual pages, which would show their addresses too."""
    if app.builder.format == "man":
        for link in list(doctree.findall(nodes.reference)):
            if link.get("internal"):
                link.replace_self(link.children)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Make the directives known, and manual pages readable."""
    app.add_directive("kbus-help", Help)
    app.add_directive("kbus-top-keys", TopKeys)
    app.add_directive("sbus-help", SbusHelp)
    app.add_directive("rule-tests", RuleTests)
    app.add_directive("ported-calls", PortedCalls)
    app.connect("doctree-resolved", _unlink)
    return {"parallel_read_safe": True}
