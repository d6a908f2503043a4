# SPDX-License-Identifier: MIT
"""From which figures on a verdict is yellow or red: the defaults, and a TOML file that changes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

UNKNOWN, GREEN, YELLOW, RED = "unknown", "green", "yellow", "red"
#: What is unknown is not bad; the others from the best to the worst
LEVELS = (UNKNOWN, GREEN, YELLOW, RED)


class Limits(NamedTuple):
    """A figure above ``yellow`` makes a verdict yellow, one above ``red`` makes it red; ``inf``: never."""

    yellow: float
    red: float

    def level(self, figure: float) -> str:
        """Return GREEN, YELLOW or RED."""
        return RED if figure > self.red else YELLOW if figure > self.yellow else GREEN


class Default(NamedTuple):
    """A threshold: what it is without a file, and what it is about."""

    value: Union[Limits, float]
    meaning: str


_NEVER = math.inf
#: All thresholds, by verdict and figure. The docs have a table that is made of this.
DEFAULTS: dict[str, dict[str, Default]] = {
    "recordings": {
        "damaged_files": Default(Limits(0, _NEVER), "recordings that are torn, damaged or no captures"),
    },
    "answers": {
        "failed": Default(Limits(0.01, 0.05), "share of the requests that got an error, a status or nothing"),
    },
    "speed": {
        "p99_s": Default(Limits(1, _NEVER), "p99 of the slowest name that has enough replies, seconds"),
        "few_replies": Default(100, "names with fewer replies come last in the table, and don't count here"),
    },
    "silence": {
        "behind_s": Default(
            Limits(3600, _NEVER), "seconds from the last message of a device to the last of all"
        ),
        "wrong_clocks": Default(Limits(0, _NEVER), "devices whose clock is wrong"),
    },
    "losses": {
        "lost_messages": Default(Limits(0, _NEVER), "messages that recorders missed"),
        "holes": Default(Limits(0, _NEVER), "holes between recordings"),
        "refused_minutes": Default(Limits(0, _NEVER), "minutes in which messages were refused or unseen"),
    },
    "repliers": {
        "away": Default(Limits(0.001, _NEVER), "share of the time that a replier was not there"),
        "crashes": Default(Limits(0, 0), "repliers that left requests unanswered when they went"),
    },
    "changes": {
        "odd_hours": Default(Limits(0, _NEVER), "hours unlike the same hour of earlier days"),
    },
}


class ThresholdsError(ValueError):
    """A file of thresholds is wrong; the text names the file and what is wrong in it."""


class Thresholds:
    """The value of each threshold."""

    def __init__(self, values: Optional[Mapping[tuple[str, str], Union[Limits, float]]] = None) -> None:
        self._values = dict(values or {})

    def limits(self, verdict: str, figure: str) -> Limits:
        """Return the limits of a figure."""
        found = self._value(verdict, figure)
        assert isinstance(found, Limits)
        return found

    def number(self, verdict: str, figure: str) -> float:
        """Return a threshold that is a single number."""
        found = self._value(verdict, figure)
        assert not isinstance(found, Limits)
        return found

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Return all of them as plain values; None stands for inf, which JSON does not have."""
        return {
            verdict: {figure: _plain(self._value(verdict, figure)) for figure in figures}
            for verdict, figures in DEFAULTS.items()
        }

    def _value(self, verdict: str, figure: str) -> Union[Limits, float]:
        return self._values.get((verdict, figure), DEFAULTS[verdict][figure].value)


def _plain(value: Union[Limits, float]) -> Any:
    if isinstance(value, Limits):
        return {key: None if math.isinf(each) else each for key, each in value._asdict().items()}
    return value


def load(path: Path) -> Thresholds:
    """Return the defaults with what a TOML file changes. Raises OSError, ThresholdsError."""
    try:
        import tomllib
    except ModuleNotFoundError:
        raise ThresholdsError(f"{path}: a file of thresholds needs Python 3.11 or later") from None
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ThresholdsError(f"{path}: no TOML: {error}") from None
    values: dict[tuple[str, str], Union[Limits, float]] = {}
    for verdict, figures in said.items():
        known = _known(path, "", verdict, DEFAULTS)
        for figure, value in _table(path, verdict, figures).items():
            default = _known(path, f"{verdict}.", figure, known).value
            name = f"{verdict}.{figure}"
            if isinstance(default, Limits):
                values[verdict, figure] = _limits(path, name, value, default)
            else:
                values[verdict, figure] = _number(path, name, value)
    return Thresholds(values)


def _known(path: Path, before: str, key: str, known: Mapping[str, Any]) -> Any:
    if key not in known:
        raise ThresholdsError(
            f"{path}: {before}{key} is none of {', '.join(before + each for each in known)}"
        )
    return known[key]


def _table(path: Path, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ThresholdsError(f"{path}: {name} is {value!r}, which is no table")
    return value


def _limits(path: Path, name: str, value: Any, default: Limits) -> Limits:
    said = {}
    for key, each in _table(path, name, value).items():
        _known(path, f"{name}.", key, default._asdict())
        said[key] = _number(path, f"{name}.{key}", each)
    found = default._replace(**said)
    if found.red < found.yellow:
        raise ThresholdsError(
            f"{path}: {name}: red ({found.red:g}) is below yellow ({found.yellow:g}), so it never is yellow"
        )
    return found


def _number(path: Path, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ThresholdsError(f"{path}: {name} is {value!r}, which is no number from 0 on")
    return value
