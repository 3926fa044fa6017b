# SPDX-License-Identifier: Apache-2.0
"""Comparison of two lines of one workload: the figure, whether their layouts are alike, and what may be claimed.

A finding claims a difference only if more than the verdict holds: the verdict of the curve, the same verdict at a
point, and an interval that ends 10 % beyond 1 (15 % if set-ups were built one after the other). It claims a difference
of equal set-ups in at most 1 of 100 pairs (tests/analysis/test_set_up_findings.py); the verdict alone in up to 5.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import ceil, log

from benchlab.analysis.designs import Design, Order, design
from benchlab.analysis.evidence import Layer, Line
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.formats import join_names, rate, ratio_range, shown_unit, times_text
from benchlab.analysis.verdicts import WITHIN, Comparison, Conclusion, Verdict, compare_sweeps

# Rates that characterize a set-up: the first that all have is used; larger is better. The pages' order (charts.naming).
FIGURES: Mapping[str, str] = {
    "iops": "IOPS",
    "bandwidth": "throughput",
    "one.fdatasync.ops": "fdatasyncs",
    "one.fsync.ops": "fsyncs",
    "read.iops": "read IOPS",
    "write.iops": "write IOPS",
    "read.bandwidth": "read throughput",
    "write.bandwidth": "write throughput",
}
SURE, SURE_APART = 1.10, 1.15
DECIDED = (Conclusion.FASTER, Conclusion.SLOWER)
ALIKE = (Conclusion.NONE, Conclusion.SMALL)
WORST = (Order.UNTOLD, Order.ONE_AFTER_OTHER, Order.ABBA, Order.INTERLEAVED)
CACHING_LAYERS = ("bcache", "flashcache", "lvm_cache")
# options for the size, and not the kind, of a layer
SIZES = ("size", "stripes", "width")


@dataclass(frozen=True, slots=True)
class Pair:
    """Comparison of the second line with the first by that figure."""

    first: Line
    second: Line
    figure: str
    comparison: Comparison
    # verdict over all depths that both have
    overall: Verdict

    @property
    def about(self) -> str:
        return f"{self.second.name} against {self.first.name}"

    @property
    def run_ids(self) -> tuple[int, ...]:
        return tuple(run.run for line in (self.first, self.second) for run in line.runs if run.run)

    @property
    def single(self) -> bool:
        """True if one of its points rests on one repeat, which decides nothing."""
        return self.overall.repeats[0] < 2

    @property
    def conclusions(self) -> list[Conclusion]:
        return [point.conclusion for point in self.comparison.points.values()]

    def certain_verdict(self) -> Conclusion | None:
        """The conclusion faster or slower over all depths, if it is beyond doubt."""
        conclusion = self.overall.conclusion
        decided = conclusion in DECIDED and conclusion in self.conclusions
        return conclusion if decided and self._sure(self.overall) else None

    @property
    def largest_difference(self) -> float | None:
        """The most by which its lines differ (95 %): 0.08 of "at most 8 %".

        None if that is unknown or above 20 %, or if all depths together or one of them are faster or slower.
        """
        bound = self.overall.bound
        alike = self.overall.conclusion in ALIKE and self.overall.stalled is None
        decided = any(conclusion in DECIDED for conclusion in self.conclusions)
        if bound is None or decided or not alike or bound > max(WITHIN):
            return None
        return bound - 1

    def unanimous_verdict(self) -> Conclusion | None:
        """The certain verdict on all depths if none contradicts it: it rests on several repeats, and is not equal."""
        contradicted = self.single or Conclusion.NONE in self.conclusions
        return None if contradicted else self.certain_verdict()

    def certain_depths(self, conclusion: Conclusion) -> list[int]:
        """Depths that are so by themselves, beyond doubt."""
        return [
            depth
            for depth, point in self.comparison.points.items()
            if depth and point.conclusion == conclusion and self._sure(point)
        ]

    def depths_below(self, most: float) -> list[int]:
        """Depths of which the interval ends as far below that ratio as it must be beyond 1."""
        highs = {depth: point.high for depth, point in self.comparison.points.items() if depth}
        return [d for d, high in highs.items() if high is not None and high * self._margin <= most]

    def at_worst_of(self, depths: Sequence[int]) -> Pair:
        """Return the pair at the one of these depths where its lines differ most."""
        points = self.comparison.points
        worst = max(depths, key=lambda depth: abs(log(points[depth].ratio)))
        point = points[worst]
        return replace(
            self,
            comparison=replace(self.comparison, points={worst: point}, curve=point),
            overall=point,
        )

    def _sure(self, verdict: Verdict) -> bool:
        if verdict.low is None or verdict.high is None:
            return False
        return max(verdict.low, 1 / verdict.high) >= self._margin

    @property
    def _margin(self) -> float:
        return SURE if self.comparison.design.may_say_none else SURE_APART

    def ratio_sentence(self, verb: str = "does") -> str:
        """ "B does 2.1 times the IOPS of A at 8 outstanding"; of one that is not decided "did"."""
        times = f"{times_text(self.overall.ratio)} the {figure_word(self.figure)}"
        return f"{self.second.name} {verb} {times} of {self.first.name} {self._where}".rstrip()

    @property
    def _where(self) -> str:
        points = tuple(self.comparison.points)
        return depths_text(points) if len(points) == 1 else "over all depths"

    @property
    def _repeats_text(self) -> str:
        least, most = self.overall.repeats
        return f"{least} repeats" if least == most else f"{least} to {most} repeats"

    def difference_sentence(self) -> str:
        """ "changes the IOPS by at most 8 %: B against A over all depths (95 %, 3 repeats)"."""
        assert self.largest_difference is not None
        percent = max(1, ceil(100 * self.largest_difference))
        names = f"{self.second.name} against {self.first.name} {self._where}".rstrip()
        most = f"changes the {figure_word(self.figure)} by at most {percent} %"
        return f"{most}: {names} (95 %, {self._repeats_text})"

    def interval_text(self) -> str:
        """ "95 % interval 1.9 to 2.4, 3 repeats", or that it is not decided."""
        if self.single:
            each = (
                "one repeat each" if self.overall.repeats[1] == 1 else "one repeat at some depths"
            )
            return f"{each}: not decided"
        if self.overall.low is None or self.overall.high is None:
            return self._repeats_text
        return f"95 % interval {ratio_range(self.overall.low, self.overall.high)}, {self._repeats_text}"

    def finding(self, sentence: str, severity: Severity) -> Finding:
        """Finding on this pair: the sentence with its interval, and the numbers behind it."""
        return Finding(
            f"{sentence} ({self.interval_text()})",
            severity,
            self.ratio_numbers(),
            about=self.about,
            runs=self.run_ids,
        )

    def ratio_numbers(self) -> dict[str, Number]:
        """The ratio, and both means if it belongs to one depth."""
        ratio = Number(
            self.overall.ratio, "1", f"{figure_word(self.figure)}, {self.about}", figure=self.figure
        )
        if self.overall.values is None:
            return {"ratio": ratio}
        # There are means for a single depth only.
        [depth] = self.comparison.points
        first, second = (
            self._mean(line, depth, value)
            for line, value in zip((self.first, self.second), self.overall.values, strict=True)
        )
        return {"first": first, "second": second, "ratio": ratio}

    def _mean(self, line: Line, depth: int, value: float) -> Number:
        """A mean at that depth, beside the run that is nearest to it."""
        distances = [
            (abs(run.figures[self.figure] - value), run.run)
            for run in line.runs
            if self.figure in run.figures and run.depth == depth
        ]
        what = f"{figure_word(self.figure)} of {line.name}"
        nearest = min(distances)[1] if distances else 0
        return Number(value, figure_unit(self.figure), what, nearest, self.figure)


def figure_word(figure: str) -> str:
    return FIGURES.get(figure, figure)


def figure_unit(figure: str) -> str:
    return "B/s" if figure.endswith("bandwidth") else "op/s"


def figure_amount(value: float, figure: str) -> str:
    """ "5.10 k IOPS", "40.5 MB/s", "682 fsyncs/s"."""
    return rate(value, shown_unit(figure, figure_unit(figure)))


def depths_text(depths: Sequence[int]) -> str:
    """ "at 4 and 8 outstanding"; "" if the depth is unknown."""
    return f"at {join_names(tuple(map(str, depths)))} outstanding" if any(depths) else ""


def common_figure(lines: Sequence[Line]) -> str:
    """The first that every run of them has; without a sweep throughput before IOPS, as pages do. "" without any."""
    names = list(FIGURES)
    swept = any(len({run.depth for run in line.runs}) > 1 for line in lines)
    if not swept:
        names[:2] = names[1::-1]
    figures = [run.figures for line in lines for run in line.runs]
    shared = set(figures[0]).intersection(*figures[1:]) if figures else set()
    return next((name for name in names if name in shared), "")


def compare_lines(
    first: Line,
    second: Line,
    selects: Callable[[int], bool] = lambda depth: True,
    but: Sequence[str] = (),
) -> Pair | None:
    """Compare two lines at the depths that `selects` accepts.

    None if they ran on different hosts or did different work, or have no figure or no depth in common. `but`: options
    of the tool that may differ.
    """
    figure = common_figure((first, second))
    if not figure or first.host != second.host or not _same_work(first, second, but):
        return None
    own, other = (
        {depth: cell for depth, cell in line.sweep_values(figure).items() if selects(depth)}
        for line in (first, second)
    )
    comparison = compare_sweeps(own, other, pair_design(first, second))
    return Pair(first, second, figure, comparison, comparison.curve) if comparison.curve else None


def _same_work(first: Line, second: Line, but: Sequence[str]) -> bool:
    """True if both lines did the same work.

    Lines of one workload may have different block sizes. An option that only one of them reports is no difference.
    """
    patterns = (
        [getattr(line.runs[0].access, name) for line in (first, second)]
        for name in ("reads", "writes", "random", "block")
    )
    own, other = _constant_options(first), _constant_options(second)
    alike = all(own[name] == other[name] for name in own.keys() & other.keys() - set(but))
    return alike and all(None in (x, y) or x == y for x, y in patterns)


# Options that say where a tool worked or what its author called it: fio's, then dd's, pg_test_fsync's and bonnie++'s.
PLACES = frozenset({"name", "filename", "directory", "description", "if", "of", "d"})


def _constant_options(line: Line) -> Mapping[str, object]:
    """Options of the line's tool that are the same in all its runs, but for names and places."""
    options = line.runs[0].options.items()
    return {
        name: value
        for name, value in options
        if name not in PLACES and all(run.options.get(name) == value for run in line.runs)
    }


def like_disks(first: Line, second: Line) -> bool:
    """True if both use the same disks, or disks of the same models: two SSDs need not be alike."""
    models = disk_models(first)
    return shared_disks(first, second) or bool(models and models == disk_models(second))


def shared_disks(first: Line, second: Line) -> bool:
    """True if the data disks of one are among those of the other."""
    own, other = set(first.data_disks), set(second.data_disks)
    return own <= other or other <= own


def disk_models(line: Line) -> tuple[str, ...]:
    """Models of its data disks, each once; () if one of them is unknown."""
    devices = [line.runs[0].devices.get(name) for name in line.data_disks]
    models = {device.model if device else "" for device in devices}
    return () if "" in models else tuple(sorted(models))


def comparable_pairs(
    lines: Sequence[Line],
    alike: Callable[[Line, Line], bool],
    but: Sequence[str] = (),
    on: Callable[[Line, Line], bool] = like_disks,
) -> Iterator[Pair]:
    """Yield the `alike` pairs (first, second), in either order, `on` the same disks or on disks of the same models."""
    for first, second in permutations(lines, 2):
        comparable = alike(first, second) and on(first, second)
        # A rebuild or a reshape takes its part of the disks.
        busy = any(run.resyncing for line in (first, second) for run in line.runs)
        if comparable and not busy and (pair := compare_lines(first, second, but=but)):
            yield pair


def pair_design(first: Line, second: Line) -> Design:
    """The worse of both orders, as each line records its worst order against the others. Both lines are of one lab."""
    texts = (first.order, second.order)
    orders = {next((o for o in Order if text in (o.value, str(o))), Order.UNTOLD) for text in texts}
    order = next(candidate for candidate in WORST if candidate in orders)
    return design(order, first.rebuilt)


StackSignature = tuple[tuple[str, tuple[tuple[str, str], ...], tuple[tuple[str, int], ...]], ...]


def stack_signature(
    layers: Sequence[Layer],
    spare: Sequence[str] = (),
    ignore: Sequence[str] = (),
    *,
    counted: bool = True,
) -> StackSignature:
    """Layers of a layout, without the disks of the `spare` uses and what is there for them, and `ignore`d options.

    Not `counted`: however many disks it has.
    """
    rows = []
    for layer in layers:
        uses = {use: len(names) for use, names in layer.uses.items() if use not in spare and names}
        kind, options = layer.kind, _option_signature(layer, spare, ignore)
        if "cache" in spare and kind in CACHING_LAYERS:
            kind, options, uses = "raw", (), {"data": uses.get("backing", uses.get("data", 0))}
            if not uses["data"]:
                continue
        if kind == "partition" and layer.options.get("use") in spare:
            continue
        rows.append(
            (kind, options, tuple(sorted((use, n if counted else 0) for use, n in uses.items())))
        )
    return tuple(rows)


def _option_signature(
    layer: Layer, spare: Sequence[str], ignore: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    texts = {
        name: json.dumps(value, sort_keys=True, default=str)
        for name, value in layer.options.items()
        if name not in ignore and name.partition("_")[0] not in spare
    }
    return tuple(sorted(texts.items()))


def used_disks(line: Line, use: str) -> tuple[str, ...]:
    """Disks that its layout gives to that use, whole or in part."""
    names = [
        name
        for layer in line.layers
        for own, disks in layer.uses.items()
        if own == use or (layer.kind == "partition" and layer.options.get("use") == use)
        for name in disks
    ]
    return tuple(dict.fromkeys(names))


def has_use(line: Line, use: str) -> bool:
    """True when its layout gives disks, or a piece of one, to that use; a layer that caches counts for "cache"."""
    return any(
        bool(layer.uses.get(use))
        or (layer.kind == "partition" and layer.options.get("use") == use)
        or (use == "cache" and layer.kind in CACHING_LAYERS)
        for layer in line.layers
    )
