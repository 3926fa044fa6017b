# SPDX-License-Identifier: Apache-2.0
"""Finding as a type, and the list of all kinds: each a module of benchlab.analysis.findings, found by scanning.

The file's name is the finding's kind. Nothing to register: a module, its cases in tests/cases/findings/KIND, and its
paragraph in docs/method.md under the heading that `METHOD` names.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Protocol, cast

from benchlab.analysis import findings
from benchlab.analysis.evidence import Line, Run


class Severity(StrEnum):
    # The figures may not mean what they say: check before you trust them.
    DOUBT = "doubt"
    # The figures are valid, and this limits them.
    LIMIT = "limit"
    # worth knowing
    NOTE = "note"


# Labels of the findings on a run that come from the history of its set-up (benchlab.verdicts.history_alerts).
HISTORY_LABELS = {"change": "Level changed", "stands_out": "Stands out of its history"}
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


class RunFinding(Protocol):
    """Looks at one run. `applies` is pure and quick (1,000 runs in 5 s, all findings together)."""

    # "Read from a cache"
    LABEL: str
    # heading in docs/method.md
    METHOD: str
    applies: Callable[[Run], list[Finding]]


class LineFinding(Protocol):
    """Compares the set-ups of one workload; `compares` is pure."""

    LABEL: str
    METHOD: str
    compares: Callable[[Sequence[Line]], list[Finding]]


@cache
def run_findings() -> Mapping[str, RunFinding]:
    """Return the findings that look at one run, by kind and in the order of their names."""
    return {
        kind: cast(RunFinding, module)
        for kind, module in _modules().items()
        if hasattr(module, "applies")
    }


@cache
def line_findings() -> Mapping[str, LineFinding]:
    """Return the findings that compare lines, by kind and in the order of their names."""
    modules = {kind: module for kind, module in _modules().items() if hasattr(module, "compares")}
    return {kind: cast(LineFinding, module) for kind, module in modules.items()}


def _modules() -> dict[str, object]:
    names = sorted(info.name for info in pkgutil.iter_modules(findings.__path__))
    return {n: importlib.import_module(f"{findings.__name__}.{n}") for n in names if n[0] != "_"}
