# SPDX-License-Identifier: Apache-2.0
"""Evidence for a diagnosis: results, what was watched beside them, and facts of the machine. Pure and frozen.

A paste (benchlab.diagnosis.pasted) and a campaign (benchlab.diagnosis.campaigns) become the same evidence, so that one
rule speaks of both. None means unknown, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agents.context.model import Facts
from agents.contracts import Metric, Series


@dataclass(frozen=True)
class Result:
    """Output of one tool: a test, or what a watcher saw (`watches`). `metrics` are in base units, with their lines."""

    # reader: "fio", "dd", "iostat"
    kind: str
    # fio's job names, dd's command
    title: str
    metrics: tuple[Metric, ...] = ()
    # what the text shows beside the figures that are stored: fio's Disk stats, ctx, spread of its bandwidth
    details: tuple[Metric, ...] = ()
    series: tuple[Series, ...] = ()
    # of the tool, by its own names; one that is not there was not given
    options: Mapping[str, Any] = field(default_factory=dict)
    # True where the whole command or job file is known: an option that is not there has the tool's default
    options_complete: bool = False
    # I/Os that were asked to be in flight, over all jobs; None if unknown
    outstanding: int | None = None
    command: str = ""
    # lines of the text, from 1; 0 where there is no text
    first: int = 0
    last: int = 0
    # host and layout, by their names; "" for a paste
    host: str = ""
    layout: str = ""
    # id of the run in a campaign; 0 for a paste
    run: int = 0

    def option(self, name: str, default: Any = None) -> Any:
        """Value of the tool's option; where it was not given, `default` if all that were given are known, else None."""
        if name in self.options:
            return self.options[name]
        return default if self.options_complete else None

    @property
    def watches(self) -> bool:
        """True for a watcher (iostat, zpool iostat): it measured what others did."""
        return self.kind in ("iostat", "zpool_iostat")

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str], Metric]:
        found: dict[tuple[str, str], Metric] = {}
        for metric in (*self.metrics, *self.details):
            found.setdefault((metric.name, metric.labels.get("device", "")), metric)
        return found

    def metric(self, name: str, device: str = "") -> Metric | None:
        """The figure; None where it is not printed."""
        metric = self._by_name.get((name, device))
        return None if metric is None or metric.value is None else metric

    def number(self, name: str, device: str = "") -> float | None:
        """Value of the figure; None where it is not printed."""
        metric = self.metric(name, device)
        return None if metric is None else metric.value

    def line(self, name: str, device: str = "") -> int:
        """Line of the figure; 0 where there is none."""
        metric = self.metric(name, device)
        return 0 if metric is None else metric.line

    @property
    def devices(self) -> Sequence[str]:
        """Devices that a watcher saw, or that fio's Disk stats name, in the text's order."""
        labels = (m.labels.get("device", "") for m in (*self.metrics, *self.details))
        return [name for name in dict.fromkeys(labels) if name]

    def track(self, metric: str, device: str) -> Series | None:
        """Samples of a watcher or of a log."""
        same = (s for s in self.series if s.metric == metric and s.device == device)
        return next(same, None)


@dataclass(frozen=True)
class Evidence:
    """All that a diagnosis may use. `lines` are those of the paste, for quotation; empty for a campaign."""

    results: tuple[Result, ...] = ()
    facts: Facts = field(default_factory=Facts)
    lines: tuple[str, ...] = ()

    @property
    def tests(self) -> Sequence[Result]:
        """Results of tools that made load."""
        return [result for result in self.results if not result.watches and result.metrics]

    @property
    def watchers(self) -> Sequence[Result]:
        return [result for result in self.results if result.watches]

    def quote(self, line: int) -> str:
        """That line of the paste; "" for line 0."""
        return self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
