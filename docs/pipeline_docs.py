# SPDX-License-Identifier: MIT
"""Sphinx directives for the pipeline: its tables and its command, taken from the code when the docs are
built.
"""

import io
import os
from contextlib import redirect_stdout
from unittest import mock

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from kbus.pipeline import cli, schemas


class PipelineTable(SphinxDirective):
    """``pipeline-table:: NAME``: the columns of a table."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Give a table."""
        self.env.note_reread()
        name = self.arguments[0]
        columns = schemas.SOURCE if name == "source" else schemas.TABLES[name]
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: 20 15 65", ""]
        lines += [f"   * - {name.removesuffix('_hour')}", "     - type", "     - meaning"]
        for column in columns:
            lines += [
                f"   * - ``{column.name}``",
                f"     - {column.type}",
                f"     - {_escaped(column.meaning)}",
            ]
        return self.parse_text_to_nodes("\n".join(lines))


def _escaped(text: str) -> str:
    """Return text in which only what is in back quotes means something; these become code."""
    parts = text.replace("*", "\\*").split("`")
    return "".join(f"``{part}``" if number % 2 else part for number, part in enumerate(parts))


class PipelineHelp(SphinxDirective):
    """``kbus-pipeline-help:: SUBCOMMAND``: what ``kbus-pipeline SUBCOMMAND --help`` prints."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Give a literal block."""
        self.env.note_reread()
        printed = io.StringIO()
        with mock.patch.dict(os.environ, COLUMNS="78"), redirect_stdout(printed):
            cli.main([self.arguments[0], "--help"])
        text = printed.getvalue()
        return [nodes.literal_block(text, text, language="text")]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Make the directives known."""
    app.add_directive("pipeline-table", PipelineTable)
    app.add_directive("kbus-pipeline-help", PipelineHelp)
    return {"parallel_read_safe": True}
