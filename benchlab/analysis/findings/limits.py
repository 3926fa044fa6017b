# SPDX-License-Identifier: Apache-2.0
"""Limits of the disks by their links and data sheets, and whether the requested depth was reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, inf, isfinite, sqrt

import numpy as np
from scipy.special import stdtrit

from benchlab.analysis.curves import LITTLE_TOLERANCE, Little, little
from benchlab.analysis.evidence import Device, Line, Run
from benchlab.analysis.finding import Finding, Number, Severity, line_finding, run_finding
from benchlab.analysis.formats import join_names, rate, share
from benchlab.analysis.repeats import robust_means
from benchlab.analysis.set_ups import figure_amount

# Ratio to the sum over the disks: less is the rounding of data sheets.
ABOVE = 1.05
# (about, words, unit, field of Device)
CEILINGS = (
    ("links", "links carry", "B/s", "link"),
    ("rated bandwidth", "disks are rated for", "B/s", "rated_bandwidth"),
    ("rated IOPS", "disks are rated for", "op/s", "rated_iops"),
)
# figures of the whole run, not of one of several tests
OF_ALL = ("iops", "bandwidth", "read.bandwidth", "write.bandwidth")
# share of a rating
REACHED = 0.95
# (words, field of Device, metric, unit)
RATINGS = (
    ("IOPS", "rated_iops", "iops", "op/s"),
    ("throughput", "rated_bandwidth", "bandwidth", "B/s"),
)
# probability that any depth of the sweep is reported wrongly
SURE = 0.01
# repeats that a robust mean needs
ENOUGH = 3


def _limits(
    devices: Mapping[str, Device], names: Sequence[str], attribute: str
) -> dict[str, float]:
    """That limit of each of these disks which has one."""
    present = ((name, getattr(devices[name], attribute)) for name in names if name in devices)
    return {name: float(limit) for name, limit in present if limit}


@run_finding("More than the disks can do")
def above_ceiling(run: Run) -> Iterator[Finding]:
    """The tool counted more than all disks together can do, by their links or their rating (believability).

    It does not matter which of them the stack reads. Links carry both directions at once, so each direction is compared
    alone. Small sequential requests may become one request of the disk, so rated IOPS count for random ones only.
    """
    for about, words, unit, attribute in CEILINGS:
        limits = _limits(run.devices, run.active_disks, attribute)
        needed = _needed_rates(run, unit)
        ceiling = sum(limits.values())
        if not limits or len(limits) < len(run.active_disks) or not needed:
            continue
        figure, most = max(needed.items(), key=lambda pair: pair[1])
        counted = run.figures[figure]
        if not most > ABOVE * ceiling:
            continue
        copies = round(most / counted)
        why, numbers = _explain_excess(run, figure, unit, most, rated=attribute != "link")
        yield Finding(
            f"{rate(counted, unit)}{f', written {copies} times,' if copies > 1 else ''} is more than the "
            f"{rate(ceiling, unit)} that its {words}: {why}",
            Severity.DOUBT,
            {
                "counted": Number(counted, unit, f"{figure}, by the tool", figure=figure),
                "ceiling": Number(ceiling, unit, f"{about} of the disks, together"),
                **numbers,
            },
            about=about,
        )


def _needed_rates(run: Run, unit: str) -> dict[str, float]:
    """Rates that the disks must have reached, by figure: what is written is on every mirror."""
    positive = {name: value for name, value in run.figures.items() if value > 0}
    if unit == "op/s":
        is_random = run.access.random is not False
        return {"iops": positive["iops"]} if is_random and "iops" in positive else {}
    reads, writes = run.access.reads, run.access.writes
    written = {"write.bandwidth", *(["bandwidth"] if reads is False else [])}
    of_both = "" if reads is False or writes is False else "bandwidth"
    return {
        name: value * (run.copies if name in written else 1)
        for name, value in positive.items()
        if name.split(".")[-1] == "bandwidth" and name != of_both
    }


def _explain_excess(
    run: Run, figure: str, unit: str, needed: float, *, rated: bool
) -> tuple[str, dict[str, Number]]:
    """Explain such a figure as far as possible, with its numbers. Disks may burst above a rating, but not a link."""
    disk_rate = _kernel_rate(run, figure)
    if disk_rate is None:
        direct = run.access.direct and not run.cached and not run.packing
        where = "inside or beneath" if direct else "above or inside"
        return f"a cache {where} the disks may explain it", {}
    why = "the kernel counted as much, so the recorded speed of the links is wrong, or the disks cache it themselves"
    if rated:
        why = (
            "the kernel counted as much, so the rating is wrong, the disks cache it themselves, or they burst on"
            " credits: look at the rate over time"
        )
    if disk_rate < needed / ABOVE:
        why = f"the disks did {rate(disk_rate, unit)}; a cache or a layer above them did the rest"
    return why, {"disks": Number(disk_rate, unit, "the disks, by the kernel", metric=figure)}


def _kernel_rate(run: Run, figure: str) -> float | None:
    """The same rate as the kernel counted it on the disks; None if it is unknown."""
    if figure not in OF_ALL:
        return None
    metrics = [figure] if "." in figure else [f"{way}.{figure}" for way in ("read", "write")]
    rates = [run.total_rate(metric, run.active_disks) for metric in metrics]
    return None if None in rates else sum(rate for rate in rates if rate is not None)


@run_finding("Rating reached")
def rating_reached(run: Run) -> Iterator[Finding]:
    """A disk does what it is rated for: no other layout on as many such disks is faster.

    Each rating is compared with the kernel's count of each disk; if nobody watched, with the tool's over all disks. A
    disk that does more is not held back by its rating: it bursts, or caches.
    """
    for what, attribute, metric, unit in RATINGS:
        rated = _limits(run.devices, run.active_disks, attribute)
        totals = _disk_totals(run, metric, _disks_near_rating(run, metric, rated))
        shares = {name: total / rated[name] for name, total in totals.items()}
        full = {name: totals[name] for name, part in shares.items() if REACHED <= part <= ABOVE}
        above = {name: totals[name] for name, part in shares.items() if part > ABOVE}
        if full:
            yield _full_disks(what, unit, metric, full, rated)
        if above:
            yield _disks_above(what, unit, metric, above, rated)
        if (
            not full
            and not above
            and rated
            and not any(track.device in rated for track in run.tracks)
        ):
            yield from _rating_by_tool(run, what, metric, unit, rated)


def _disks_near_rating(run: Run, metric: str, rated: Mapping[str, float]) -> list[str]:
    """Disks that reached the rating in any interval at all; their means are expensive and come later."""
    most = dict.fromkeys(rated, 0.0)
    metrics = (f"read.{metric}", f"write.{metric}")
    for track in run.tracks:
        if track.device in rated and track.metric in metrics and track.values:
            most[track.device] += float(np.fmax.reduce(np.asarray(track.values, dtype=float)))
    return [name for name, value in most.items() if value >= REACHED * rated[name]]


def _disk_totals(run: Run, metric: str, disks: Sequence[str]) -> dict[str, float]:
    """Reads and writes per second of each disk that was watched."""
    reads, writes = (run.means(f"{way}.{metric}", disks) for way in ("read", "write"))
    return {name: reads[name] + writes[name] for name in reads if name in writes}


def _full_disks(
    what: str, unit: str, metric: str, full: Mapping[str, float], rated: Mapping[str, float]
) -> Finding:
    mean, limit, numbers = _against_rating(what, unit, metric, full, rated)
    each, they = (" each", "they are") if len(full) > 1 else ("", "it is")
    return Finding(
        f"{join_names(tuple(full))} did {rate(mean, unit)}{each}, {share(mean / limit)} of the {rate(limit, unit)}"
        f" that {they} rated for: {they} at the limit",
        Severity.LIMIT,
        numbers,
        about=what,
    )


def _disks_above(
    what: str, unit: str, metric: str, above: Mapping[str, float], rated: Mapping[str, float]
) -> Finding:
    mean, limit, numbers = _against_rating(what, unit, metric, above, rated)
    each, they = (" each", "they are") if len(above) > 1 else ("", "it is")
    return Finding(
        f"{join_names(tuple(above))} did {rate(mean, unit)}{each}, more than the {rate(limit, unit)} that {they} rated"
        " for: over the whole run the rating was not the limit",
        Severity.NOTE,
        numbers,
        about=f"{what} above",
    )


def _against_rating(
    what: str, unit: str, metric: str, totals: Mapping[str, float], rated: Mapping[str, float]
) -> tuple[float, float, dict[str, Number]]:
    """Mean rate and mean rating of these disks, with the numbers of a finding on them."""
    limit = sum(rated[name] for name in totals) / len(totals)
    numbers = {
        name: Number(value, unit, f"{what} of {name}", device=name, metric=metric)
        for name, value in totals.items()
    }
    numbers["rated"] = Number(limit, unit, f"rated {what} of a disk")
    return sum(totals.values()) / len(totals), limit, numbers


def _rating_by_tool(
    run: Run, what: str, metric: str, unit: str, rated: Mapping[str, float]
) -> Iterator[Finding]:
    counted, limit = run.figures.get(metric), sum(rated.values())
    all_rated = run.quiet and run.copies == 1 and len(rated) == len(run.active_disks)
    if not counted or not all_rated or not REACHED * limit <= counted <= limit / REACHED:
        return
    yield Finding(
        f"{rate(counted, unit)} is {share(counted / limit)} of the {rate(limit, unit)} that "
        f"{join_names(tuple(rated))} {'are rated for: they are' if len(rated) > 1 else 'is rated for: it is'}"
        " at the limit",
        Severity.LIMIT,
        {
            "counted": Number(counted, unit, f"{what}, by the tool", figure=metric),
            "rated": Number(limit, unit, f"rated {what} of the disks, together"),
        },
        about=what,
    )


@line_finding("Rating reached")
def rating_reached_at_depth(lines: Sequence[Line]) -> Iterator[Finding]:
    """The depth from which the disks do together what their data sheets promise: more outstanding I/Os only wait.

    One repeat decides nothing; the depth at which it reached the rating is reported all the same.
    """
    for line in lines:
        for _, attribute, figure, unit in RATINGS:
            limits = _limits(line.runs[0].devices, line.data_disks, attribute)
            if limits and len(limits) == len(line.data_disks):
                yield from _rated_depth(line, figure, unit, limits)


def _rated_depth(
    line: Line, figure: str, unit: str, limits: Mapping[str, float]
) -> Iterator[Finding]:
    rated = sum(limits.values())
    sweep = {
        depth: list(cell.values())
        for depth, cell in sorted(line.sweep_values(figure).items())
        if depth and all(0 < value < inf for value in cell.values())
    }
    if len(sweep) < 2:
        return
    single = min(map(len, sweep.values())) < 2
    lows = {d: min(cell) for d, cell in sweep.items()} if single else _lower_bounds(sweep)
    depth = next((d for d in sweep if lows[d] >= REACHED * rated), None)
    if depth is None:
        return
    value = float(np.exp(np.log(sweep[depth]).mean()))
    disks = f"{len(limits)} disks" if len(limits) > 1 else "disk"
    above = value > ABOVE * rated
    sentence = (
        f"{line.name} {'exceeds' if above else 'reaches'} the rating of its {disks} at {depth} outstanding:"
        f" {figure_amount(value, figure)} against {figure_amount(rated, figure)} rated"
    )
    runs = [run.run for run in line.runs if run.depth == depth and figure in run.figures]
    yield Finding(
        sentence + (" (one repeat: not decided)" if single else ""),
        Severity.NOTE if single or above else Severity.LIMIT,
        {
            "reached": Number(value, unit, f"{line.name} at {depth}", run=runs[0], figure=figure),
            "rated": Number(rated, unit, "the sum of its disks' ratings"),
        },
        about=f"{line.name} {figure}",
        runs=tuple(filter(None, runs)),
    )


def _lower_bounds(sweep: Mapping[int, list[float]]) -> dict[int, float]:
    """Lower bounds of the means, of all depths at once; noise is that of the whole sweep."""
    cells = robust_means(list(sweep.values()), ENOUGH)
    free = float(cells.counts.sum() - len(sweep))
    noise = sqrt(max(cells.within, 0.0) / free)
    reach = -float(stdtrit(free, SURE / len(sweep)))
    bounds = cells.means - reach * noise / np.sqrt(cells.counts)
    return {depth: exp(float(bound)) for depth, bound in zip(sweep, bounds, strict=True)}


@run_finding("Depth not reached")
def depth_not_reached(run: Run) -> Iterator[Finding]:
    """Fewer or more I/Os were in flight than requested, by Little's law (docs/method.md, numbers).

    A whole multiple means so many workers of that depth each. There is no finding if flushes take time that no latency
    includes, if a few I/Os are the whole run, or if less is in flight where no worker can queue: between its I/Os the
    tool takes its time.
    """
    requested, flight = run.access.outstanding, _iops_and_latency(run)
    if not requested or flight is None or run.flushes:
        return
    iops, latency = flight
    law, runtime = little(requested, [flight]), run.figures.get("runtime") or run.access.runtime_s
    # the last I/Os of all, which finish after the end
    edge = latency / runtime if runtime else 0.0
    if law.holds or _whole_workers(law) or abs(law.ratio - 1) <= LITTLE_TOLERANCE + edge:
        return
    if law.ratio < 1 and not run.queues and not run.held_back:
        return
    severity, words = (
        Severity.DOUBT,
        "requested: the tool's IOPS, latency and depth contradict each other",
    )
    if law.ratio < 1:
        words = "requested, so the depth was not reached"
        if limit := run.held_back:
            severity, words = Severity.NOTE, f"requested, because {limit} slows the run"
    yield Finding(
        f"{law.implied:.3g} I/Os were in flight on average ({rate(iops, 'op/s')} x {rate(latency, 's')}), "
        f"{share(law.ratio)} of the {requested} {words}",
        severity,
        {
            "implied": Number(law.implied, "1", "I/Os in flight: IOPS x mean latency"),
            "asked": Number(requested, "1", "outstanding I/Os asked"),
            "iops": Number(iops, "op/s", "IOPS, by the tool", figure="iops"),
            "latency": Number(latency, "s", "mean latency, by the tool", figure="lat.mean"),
        },
    )


def _whole_workers(law: Little) -> bool:
    whole = round(law.ratio)
    return whole >= 2 and abs(law.ratio - whole) <= LITTLE_TOLERANCE * whole


def _iops_and_latency(run: Run) -> tuple[float, float] | None:
    """IOPS and mean total latency: of all I/Os, else of both directions with the latency weighted by their I/Os."""
    figures = run.figures
    whole = "iops" in figures and "lat.mean" in figures
    ways = [way for way in ("read.", "write.") if f"{way}iops" in figures]
    pairs = [
        (figures[f"{way}iops"], figures.get(f"{way}lat.mean")) for way in ([""] if whole else ways)
    ]
    complete = [(i, s) for i, s in pairs if s is not None and isfinite(i) and isfinite(s)]
    if len(complete) < len(pairs):
        return None
    iops = sum(i for i, _ in complete)
    busy = sum(i * s for i, s in complete)
    return (iops, busy / iops) if iops > 0 and busy > 0 else None
