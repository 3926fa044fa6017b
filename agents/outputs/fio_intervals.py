# SPDX-License-Identifier: Apache-2.0
"""Rates and latencies of fio's logs as what they are of: an interval each, which differ from job to job. Pure.

One thread of fio reads the rates of all jobs, some ms late each time, while each job's clock began at its own moment;
numbered by time, one job's fiftieth interval is soon another's fifty-first. Nor is there a sample of an interval in
which nothing was moved. So what is added up is what was moved between the same two moments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import nan

from agents.outputs.fio_log import Run

# s: two directions of one job, looked at one after the other
NEAR = 0.005
# intervals: a sample that comes later than that is of the last one alone
LATE = 1.5
# intervals that are told one by one; of a longer log the ends of what has no sample
MOST = 200_000
# (end in s, value)
Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Pieces:
    """One job's values of one direction, rising: each from `starts` to `ends`, nothing between; known until `last`."""

    starts: Sequence[float]
    ends: Sequence[float]
    values: Sequence[float]
    last: float

    def pieces_within(self, begin: float, end: float) -> Iterator[tuple[float, float, float]]:
        """(begin, end, value) of what is of that time."""
        at = bisect_right(self.ends, begin)
        while at < len(self.ends) and self.starts[at] < end:
            yield max(begin, self.starts[at]), min(end, self.ends[at]), self.values[at]
            at += 1

    def amount_within(self, begin: float, end: float) -> float:
        return sum((b - a) * value for a, b, value in self.pieces_within(begin, end))

    def mean_rate(self, begin: float, end: float) -> float:
        """Mean over that time, or over as much of it as is known: half at least."""
        known_seconds = min(end, self.last) - begin
        if known_seconds * 2 < end - begin:
            return nan
        pieces = list(self.pieces_within(begin, end))
        if len(pieces) == 1 and pieces[0][:2] == (begin, end):
            return pieces[0][2]
        return sum((b - a) * value for a, b, value in pieces) / known_seconds


def clock(runs: Iterable[Run]) -> list[float]:
    """Times at which the job was looked at: of any sample of any of its directions."""
    times: list[float] = []
    for at in sorted(at for run in runs for at in run.times):
        if not times or at - times[-1] > NEAR:
            times.append(at)
    return times


def to_pieces(run: Run, looks: Sequence[float], step: float, held: bool) -> Pieces:
    """`looks`: the clock of its job, `step`: between two; `held`: each value is of all since the one before."""
    if held:
        starts = [_previous_look(at, run.times, 0.0) for at in run.times]
    else:
        starts = [_previous_look(at, looks, step) for at in run.times]
    return Pieces(starts, run.times, run.values, max(looks[-1], run.times[-1]))


def _previous_look(at: float, looks: Sequence[float], step: float) -> float:
    place = bisect_left(looks, at - NEAR)
    before = looks[place - 1] if place else _log_start(at, step)
    return at - step if step and at - before > LATE * step else before


def _log_start(at: float, step: float) -> float:
    """Start (s) of a log whose first sample is at `at`: its job's, or `step` before the sample of one by a clock."""
    return 0.0 if at > 0 else -step


def edges(looks: Sequence[float], step: float) -> list[float]:
    """Edges of the intervals of a clock, also of those without a sample."""
    moments = [_log_start(looks[0], step)]
    many = step > 0 and looks[-1] - moments[0] > MOST * step
    for at in looks:
        late = at - moments[-1] > LATE * step > 0
        if late and many:
            moments += sorted({moments[-1] + step, at - step})
        while late and not many and at - moments[-1] > LATE * step:
            moments.append(moments[-1] + step)
        moments.append(at)
    return moments


def sum_rates(jobs: Sequence[Pieces], between: Sequence[float]) -> Points:
    """Sum of the jobs' rates in each interval; NaN where one of them is over, for then nobody knows."""
    return [(b, sum(job.mean_rate(a, b) for job in jobs)) for a, b in pairwise(between) if b > a]


def weighed(jobs: Iterable[tuple[Pieces, Pieces]], between: Sequence[float]) -> Points:
    """Mean latency of the I/Os of all, by (latencies, rates) of each; intervals without any are left out."""
    job_rates = list(jobs)
    points = []
    for begin, end in pairwise(between):
        parts = [_of_job(*job, begin, end) for job in job_rates]
        known_parts = [part for part in parts if part is not None]
        if known_parts:
            ios = sum(count for _, count in known_parts)
            points.append((end, sum(total for total, _ in known_parts) / ios if ios else nan))
    return points


def _of_job(
    latencies: Pieces, rates: Pieces, begin: float, end: float
) -> tuple[float, float] | None:
    """(latency of all of its I/Os, how many); NaN where nobody knows how many, None where it has no latency."""
    inside = list(latencies.pieces_within(begin, end))
    if not inside:
        return None
    counts = [rates.amount_within(a, b) for a, b, _ in inside]
    if not sum(counts):
        return (nan, nan) if sum(b - a for a, b, _ in inside) * 2 >= end - begin else None
    return sum(n * value for n, (_, _, value) in zip(counts, inside, strict=True)), sum(counts)
