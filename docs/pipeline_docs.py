# SPDX-License-Identifier: MIT
"""Sphinx directives for the pipeline: its tables and its command, taken from the code when the docs are
built.
"""

from docutils import nodes
from printed import help_of
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from kbus.pipeline import cli
from kbus.pipeline.report import thresholds
from kbus.pipeline.tables import schemas


class PipelineTable(SphinxDirective):
    """``pipeline-table:: NAME``: the columns of a table."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Give a table."""
        self.env.note_reread()
        name = self.arguments[0]
        more = {"source": schemas.SOURCE, "steps": schemas.STEPS}
        columns = {**schemas.TABLES, **more}[name]
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
        return help_of(cli.main, self.arguments)


class PipelineThresholds(SphinxDirective):
    """``pipeline-thresholds::``: all thresholds with their defaults."""

    def run(self) -> list[nodes.Node]:
        """Give a table."""
        self.env.note_reread()
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: 28 12 12 48", ""]
        lines += ["   * - threshold", "     - yellow", "     - red", "     - what is measured"]
        for verdict, figures in thresholds.DEFAULTS.items():
            for figure, (value, meaning) in figures.items():
                yellow, red = value if isinstance(value, thresholds.Limits) else (value, "")
                lines += [f"   * - ``{verdict}.{figure}``", f"     - {yellow}", f"     - {red}"]
                lines += [f"     - {meaning}"]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Make the directives known."""
    app.add_directive("pipeline-table", PipelineTable)
    app.add_directive("kbus-pipeline-help", PipelineHelp)
    app.add_directive("pipeline-thresholds", PipelineThresholds)
    return {"parallel_read_safe": True}
