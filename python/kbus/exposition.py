# SPDX-License-Identifier: MIT
"""Prometheus' text format, version 0.0.4: families of metrics as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

__all__ = ["Metric", "family"]


class Metric(NamedTuple):
    """A number of some statistics; ``field`` is what it is called there. A counter is one that only grows."""

    field: str
    name: str
    help: str

    @property
    def kind(self) -> str:
        """``counter`` or ``gauge``."""
        return "counter" if self.name.endswith("_total") else "gauge"


def family(prefix: str, metric: Metric, samples: Iterable[tuple[Mapping[str, object], int]]) -> Iterator[str]:
    """Yield the lines, without their ends, of a metric whose samples have such labels and values.

    Labels may have any text; a help may have no line end and no backslash.
    """
    name = prefix + metric.name
    yield f"# HELP {name} {metric.help}"
    yield f"# TYPE {name} {metric.kind}"
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(str(of))}"' for label, of in labels.items())
        yield f"{name}{{{shown}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
