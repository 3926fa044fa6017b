"""fio's logs, of one job or several, as series. Pure; raises ParseError, nothing else.

Rates of several jobs add up; mean latencies weigh by the I/Os of the same job and interval, which its iops log tells
(without, there is no series: an average of averages is none); histograms are added bin by bin before any percentile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agents.contracts import ParseError, Series, Unit
from agents.tools import _fio_hist, _fio_log
from agents.tools._fio_log import Run

NAMES = {
    "bw": "bandwidth",
    "iops": "iops",
    "slat": "slat.mean",
    "clat": "clat.mean",
    "lat": "lat.mean",
}
UNITS = {"bw": Unit.BYTES_PER_SECOND, "iops": Unit.OPS_PER_SECOND}
Points = dict[int, tuple[float, float]]  # interval -> (its end in s, value)


def series(files: Mapping[str, str], seen: tuple[int, int] | None) -> list[Series]:
    """Of the logs of one run by file name; `seen`: fio's version, where it is known."""
    logs: dict[str, dict[str, list[Run]]] = {}  # kind -> number of the job -> its runs
    histograms: list[_fio_hist.Run] = []
    for name in sorted(files):
        kind, number = _fio_log.kind(name)
        text = files[name] if kind else ""  # one at a time: they may be large
        if not text.strip():
            continue  # fio makes a log of what never happened, too
        try:
            if kind == "clat_hist":
                histograms += _fio_hist.runs(text)
            else:
                logs.setdefault(kind, {})[number] = _fio_log.runs(text, kind, seen)
        except ParseError as error:
            raise type(error)(f"{name}: {error}") from None
    found = [one for kind in _fio_log.KINDS if kind in logs for one in _means(kind, logs)]
    return found + _percentiles(histograms)


def _means(kind: str, logs: Mapping[str, Mapping[str, Sequence[Run]]]) -> list[Series]:
    files = logs[kind]
    every = [run for runs in files.values() for run in runs]
    step = _fio_log.interval(every)
    found = []
    for direction in dict.fromkeys(run.direction for run in every):
        jobs = {n: [r for r in runs if r.direction == direction] for n, runs in files.items()}
        points = [_points(run, step) for runs in jobs.values() for run in runs]
        if len(points) == 1:
            merged: Points | None = points[0]
        elif kind in _fio_log.LATENCIES:
            merged = _weighted(jobs, logs.get("iops", {}), direction, step)
        else:
            merged = _sum(points)
        if merged:
            unit = UNITS.get(kind, Unit.SECONDS)
            found.append(_series(f"{direction}.{NAMES[kind]}", unit, merged))
    return found


def _points(run: Run, step: float) -> Points:
    points: Points = {}
    for time, value in zip(run.times, run.values, strict=True):
        at = round(time / step) if step else 0
        while at in points:  # a helper thread that came late
            at += 1
        points[at] = (time, value)
    return points


def _sum(jobs: Sequence[Points]) -> Points:
    """A job without a sample in an interval moved nothing in it; behind its last one nobody knows."""
    last = min(max(points) for points in jobs)
    merged: Points = {}
    for points in jobs:
        for at, (time, value) in points.items():
            before, total = merged.get(at, (0.0, 0.0))
            merged[at] = (max(before, time), total + value)
    return {
        at: (time, total if at <= last or all(at in points for points in jobs) else math.nan)
        for at, (time, total) in merged.items()
    }


def _weighted(
    jobs: Mapping[str, Sequence[Run]],
    rates: Mapping[str, Sequence[Run]],
    direction: str,
    step: float,
) -> Points | None:
    """None where a job's I/Os are not told: several jobs in one file end in an order of their own in each log."""
    totals: dict[int, tuple[float, float, float]] = {}
    for number, runs in jobs.items():
        weights = [run for run in rates.get(number, ()) if run.direction == direction]
        if len(runs) > 1 or len(weights) > len(runs):
            return None
        for run in runs:
            if not weights:
                return None
            weight = _points(weights[0], step)
            for at, (time, value) in _points(run, step).items():
                ios = weight.get(at, (0.0, math.nan))[1]
                before, total, all_ios = totals.get(at, (0.0, 0.0, 0.0))
                totals[at] = (max(before, time), total + value * ios, all_ios + ios)
    return {
        at: (time, total / ios if ios else math.nan) for at, (time, total, ios) in totals.items()
    }


def _percentiles(runs: Sequence[_fio_hist.Run]) -> list[Series]:
    times = [Run(run.direction, run.times, [0.0] * len(run.times)) for run in runs]
    step = _fio_log.interval(times)
    found = []
    for direction in dict.fromkeys(run.direction for run in runs):
        merged: dict[int, tuple[float, dict[float, int]]] = {}
        for run in (run for run in runs if run.direction == direction):
            for time, bins in zip(run.times, run.bins, strict=True):
                at = round(time / step) if step else 0
                before, total = merged.setdefault(at, (0.0, {}))
                for latency, hits in bins.items():
                    total[latency] = total.get(latency, 0) + hits
                merged[at] = (max(before, time), total)
        full = {at: (time, _fio_hist.ranks(bins)) for at, (time, bins) in merged.items() if bins}
        for rank in _fio_hist.RANKS if full else ():
            points = {at: (time, ranks[rank]) for at, (time, ranks) in full.items()}
            found.append(_series(f"{direction}.clat.{rank}", Unit.SECONDS, points))
    return found


def _series(metric: str, unit: Unit, points: Points) -> Series:
    rows = sorted(points.values())
    return Series("", metric, unit, tuple(t for t, _ in rows), tuple(v for _, v in rows))
