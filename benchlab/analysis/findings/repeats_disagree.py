# SPDX-License-Identifier: Apache-2.0
"""Repeats of one point differ more than the other points' noise explains: their median is not the set-up's rate."""

from __future__ import annotations

from collections.abc import Sequence

from benchlab.analysis.evidence import Line
from benchlab.analysis.finding import NEEDED, Finding, Number, Severity
from benchlab.analysis.findings._set_ups import (
    common_figure,
    depths_text,
    figure_amount,
    figure_unit,
    figure_word,
)
from benchlab.analysis.formats import times_text
from benchlab.analysis.more_repeats import repeats_to_agree
from benchlab.analysis.repeats import disagreement_ratios

LABEL = "Repeats disagree"
METHOD = "Findings"
# A smaller difference is not worth naming.
WITHIN = 0.05


def compares(lines: Sequence[Line]) -> list[Finding]:
    """Check each line over all of its sweep.

    A twofold difference is always reported, one below 10 % never (benchlab.analysis.repeats).
    """
    return [finding for line in lines if (finding := _describe_disagreement(line))]


def _describe_disagreement(line: Line) -> Finding | None:
    figure = common_figure([line])
    if not figure:
        return None
    sweep = sorted(line.sweep_values(figure).items())
    apart = disagreement_ratios([list(cell.values()) for _, cell in sweep])
    ratios = {depth: ratio for (depth, _), ratio in zip(sweep, apart, strict=True) if ratio}
    if not ratios:
        return None
    worst = max(ratios, key=lambda depth: ratios[depth])
    values = dict(sweep)[worst].values()
    runs = [run.run for run in line.runs if run.run and (run.access.outstanding or 0) in ratios]
    low, high = min(values), max(values)
    range_text = f"{figure_amount(low, figure)} to {figure_amount(high, figure)}"
    where = " ".join(filter(None, ["repeats of", line.name, depths_text(sorted(ratios))]))
    if low <= 0:
        range_text = f"{range_text}: one of them did nothing"
    else:
        range_text = (
            f"{'up to ' if len(ratios) > 1 else ''}{times_text(ratios[worst])} ({range_text})"
        )
    needed = repeats_to_agree([list(cell.values()) for _, cell in sweep], WITHIN)
    return Finding(
        f"{where} differ {range_text}",
        Severity.DOUBT,
        {
            **_needed_repeats(needed),
            "low": Number(
                low,
                figure_unit(figure),
                f"smallest {figure_word(figure)} {depths_text([worst])}".rstrip(),
                figure=figure,
            ),
            "high": Number(
                high,
                figure_unit(figure),
                f"largest {figure_word(figure)} {depths_text([worst])}".rstrip(),
                figure=figure,
            ),
        },
        about=line.name,
        runs=tuple(runs),
    )


def _needed_repeats(repeats: int | None) -> dict[str, Number]:
    """Nothing where no number in reason would do."""
    if repeats is None:
        return {}
    return {NEEDED: Number(float(repeats), "1", "repeats of each, in all, for means within 5 %")}
