# SPDX-License-Identifier: Apache-2.0
"""Origin of a chart, as plain words in its figure: static/pictures.js writes them into each picture of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import benchlab
from benchlab.charts.figure import Figure
from benchlab.charts.queries import Group

# of run numbers; who wants more opens the page
MAX_RANGES = 40


def with_lines_origin(figure: Figure, lines: Sequence[Group]) -> Figure:
    """The figure, with campaigns and run numbers of what it draws."""
    return with_origin(figure, _campaign_names(lines), _run_numbers(lines))


def origin_text(lines: Sequence[Group]) -> str:
    """ "Stripe sizes (no. 3); runs 5 to 9": of lines as a picture tells it of itself."""
    return f"{_campaign_names(lines)}; runs {number_ranges(_run_numbers(lines))}" if lines else ""


def _campaign_names(lines: Sequence[Group]) -> str:
    return ", ".join(dict.fromkeys(f"{line.campaign_name} (no. {line.campaign})" for line in lines))


def _run_numbers(lines: Sequence[Group]) -> Iterator[int]:
    return (sample.run for line in lines for sample in line.samples)


def with_origin(figure: Figure, campaigns: str, runs: Iterable[int]) -> Figure:
    """The figure, whose `layout.meta.origin` says in words what it was made of."""
    origin = {
        "campaign": campaigns,
        "runs": number_ranges(runs),
        "software": f"BenchLab {benchlab.__version__}",
    }
    meta = {**figure["layout"].get("meta", {}), "origin": origin}
    return {**figure, "layout": {**figure["layout"], "meta": meta}}


def number_ranges(numbers: Iterable[int]) -> str:
    """ "3, 5 to 9": each number once, in order."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    words = [str(first) if first == last else f"{first} to {last}" for first, last in ranges]
    omitted = len(words) - MAX_RANGES
    return ", ".join(words[:MAX_RANGES]) + (f" and {omitted} more ranges" if omitted > 0 else "")
