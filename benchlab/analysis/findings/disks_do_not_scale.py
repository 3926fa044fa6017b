# SPDX-License-Identifier: Apache-2.0
"""More disks hardly do more work: something else limits them, or the work is not spread over them."""

from __future__ import annotations

from collections.abc import Sequence

from benchlab.analysis.evidence import Line
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._set_ups import (
    SIZES,
    Pair,
    comparable_pairs,
    compare_lines,
    data_disks,
    depths_text,
    stack_signature,
)
from benchlab.analysis.verdicts import Conclusion

LABEL = "More disks, no more work"
METHOD = "Findings"

# Share of the gain that so many more disks could bring: below it they do not scale.
PART = 0.25
# layers in which more disks are more copies
COPIES = (("md", "level", 1), ("lvm", "type", "mirror"))


def compares(lines: Sequence[Line]) -> list[Finding]:
    """Compare layouts that differ only in the number of disks, at depths that could keep all of them busy.

    One repeat decides nothing; its ratio is reported all the same.
    """
    pairs_compared = (
        _compare_busy_depths(pair.first, pair.second)
        for pair in comparable_pairs(lines, _adds_disks)
    )
    return [
        finding for scaling in pairs_compared if scaling for finding in _describe_scaling(scaling)
    ]


def _adds_disks(fewer: Line, more: Line) -> bool:
    if not 0 < len(data_disks(fewer)) < len(data_disks(more)) or _copies_data(fewer):
        return False
    return _stack_kind(fewer) == _stack_kind(more)


def _stack_kind(line: Line) -> object:
    """Kind of a line: its stack, with any number of disks, and how many of these hold nothing of their own."""
    spare = len(line.runs[0].layout_disks) - len(data_disks(line))
    return stack_signature(line.layers, ignore=SIZES, counted=False), spare


def _copies_data(line: Line) -> bool:
    return any(
        layer.kind == k and layer.options.get(o) == v for layer in line.layers for k, o, v in COPIES
    )


def _compare_busy_depths(fewer: Line, more: Line) -> Pair | None:
    """Compare two lines at the depths with a request for each disk; a stream has these at any depth: it reads ahead."""
    least = len(data_disks(more))
    streams = all(run.access.random is False for line in (fewer, more) for run in line.runs)
    return compare_lines(fewer, more, lambda depth: streams or depth >= least)


def _describe_scaling(pair: Pair) -> list[Finding]:
    fewer, more = len(data_disks(pair.first)), len(data_disks(pair.second))
    claim = _scaling_claim(pair, 1 + PART * (more / fewer - 1))
    if claim is None:
        return []
    pair, where, severity = claim
    numbers = pair.ratio_numbers() | {
        "fewer": Number(fewer, "1", f"disks of {pair.first.name}"),
        "more": Number(more, "1", f"disks of {pair.second.name}"),
    }
    did = pair.ratio_sentence("did" if severity == Severity.NOTE else "does")
    sentence = f"with {more} disks instead of {fewer}{f' {where}:' if where else ''} {did} ({pair.interval_text()})"
    return [Finding(sentence, severity, numbers, about=pair.about, runs=pair.run_ids)]


def _scaling_claim(pair: Pair, most: float) -> tuple[Pair, str, Severity] | None:
    """Claim it over all depths if none is seen to gain that much, else at the depths that surely do not gain it.

    The pair then stands at the depth that gains least.
    """
    high, points = pair.overall.high, pair.comparison.points
    gains = any(
        point.conclusion == Conclusion.FASTER and point.ratio >= most for point in points.values()
    )
    if not pair.single and high is not None and high < most and not gains:
        return pair, "", Severity.LIMIT
    if held := pair.depths_below(most):
        least = min(held, key=lambda depth: points[depth].ratio)
        return pair.at_worst_of([least]), depths_text(held), Severity.LIMIT
    if pair.single and pair.overall.ratio < most:
        return pair, "", Severity.NOTE
    return None
