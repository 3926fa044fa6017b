# SPDX-License-Identifier: Apache-2.0
"""Finding as a type, and the registry of all kinds, which the chapters of benchlab.analysis.findings declare.

A kind is a function with `run_finding` or `line_finding` above it, in any module of that package; the function's name
is the kind, as it is stored. Its cases are in tests/cases/findings/KIND, its paragraph in docs/method.md.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Generic, TypeVar

from benchlab.analysis import findings
from benchlab.analysis.evidence import Line, Run

Evidence = TypeVar("Evidence")


class Severity(StrEnum):
    # The figures may not mean what they say: check before you trust them.
    DOUBT = "doubt"
    # The figures are valid, and this limits them.
    LIMIT = "limit"
    # worth knowing
    NOTE = "note"


# Labels of the findings on a run that come from the history of its set-up (benchlab.verdicts.set_ups).
HISTORY_LABELS = {
    "change": "Level changed",
    "drift": "Level drifts",
    "stands_out": "Stands out of its history",
}
# name of the number of repeats, in all, that the points of its runs need for a decision
NEEDED = "needed"


@dataclass(frozen=True, slots=True)
class Number:
    """A number that a sentence names, and where it comes from."""

    value: float
    # "op/s", "B/s", "s", "B", "1"
    unit: str
    # what the number measures, printed beside it: "read of sdb", "write.iops"
    of: str
    # run that the number belongs to; 0: the finding's own run
    run: int = 0
    # name of the measurement, if it is one
    figure: str = ""
    # device and metric of the track, if it is a mean of one
    device: str = ""
    metric: str = ""


def tool_number(run: Run, way: str) -> Number:
    """B/s of "read" or "write" as the tool counted them; the rate must be known."""
    figure = run.tool_figure(way)
    return Number(run.figures[figure], "B/s", f"{way}, by the tool", figure=figure)


def disks_number(rate: float, way: str) -> Number:
    """B/s of "read" or "write" as the kernel counted them on all disks."""
    return Number(rate, "B/s", f"{way}, by the disks", metric=f"{way}.bandwidth")


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding. `sentence`: plain, with numbers in it, and without a full stop.

    `about`: what distinguishes it from others of its kind in the same run ("sdb", "write at 8"), so that a dismissed
    one stays dismissed when it is found again.
    """

    sentence: str
    severity: Severity
    numbers: Mapping[str, Number] = field(default_factory=dict)
    about: str = ""
    # runs of a campaign that it is about
    runs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind(Generic[Evidence]):
    """A kind of finding: its label for lists, and its check, which is pure and quick (all together: 5 s for 1,000)."""

    label: str
    check: Callable[[Evidence], Iterable[Finding]]

    def applies(self, evidence: Evidence) -> list[Finding]:
        return list(self.check(evidence))


Check = Callable[[Evidence], Iterable[Finding]]
_run_kinds: dict[str, Kind[Run]] = {}
_line_kinds: dict[str, Kind[Sequence[Line]]] = {}


def run_finding(label: str) -> Callable[[Check[Run]], Check[Run]]:
    """Declare a finding that looks at one run."""
    return _declare(label, _run_kinds)


def line_finding(label: str) -> Callable[[Check[Sequence[Line]]], Check[Sequence[Line]]]:
    """Declare a finding that compares the set-ups of one workload."""
    return _declare(label, _line_kinds)


def _declare(
    label: str, kinds: dict[str, Kind[Evidence]]
) -> Callable[[Check[Evidence]], Check[Evidence]]:
    def declare(check: Check[Evidence]) -> Check[Evidence]:
        kinds[check.__name__] = Kind(label, check)
        return check

    return declare


@cache
def run_findings() -> Mapping[str, Kind[Run]]:
    """Return the findings that look at one run, by kind and in the order of their names."""
    _import_chapters()
    return dict(sorted(_run_kinds.items()))


@cache
def line_findings() -> Mapping[str, Kind[Sequence[Line]]]:
    """Return the findings that compare lines, by kind and in the order of their names."""
    _import_chapters()
    return dict(sorted(_line_kinds.items()))


def _import_chapters() -> None:
    for chapter in pkgutil.iter_modules(findings.__path__):
        importlib.import_module(f"{findings.__name__}.{chapter.name}")
