# SPDX-License-Identifier: Apache-2.0
"""The station that holds a run or a sweep back, with amounts: a slow member, submission, a disk, a core, a thread.

Operational laws (Lazowska and others, Quantitative System Performance, ch. 3): a station that is busy for a share U of
the time at X requests a second needs D = U / X seconds of each, and X <= 1 / max D. Waits bound the gain as well: of N
requests outstanding X = N / R, and a member that is mended leaves to the others at least the waits that they have now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from statistics import median

import numpy as np
from numpy.typing import NDArray

from benchlab.analysis.activity import Group, disk_groups
from benchlab.analysis.evidence import Line, Run, Track, tool_options
from benchlab.analysis.finding import Finding, Number, Severity, line_finding, run_finding
from benchlab.analysis.findings.cpu import busiest
from benchlab.analysis.formats import join_names, rate, share, times_text

Array = NDArray[np.float64]

# samples in which every member is known
ENOUGH = 5
# Ratio of the mean waits, and the ratio that holds in LASTING of the samples.
SLOWER, SLOWER_AT_ONCE, LASTING = 2.0, 1.5, 0.8
# s: a smaller difference of waits is within the counters' milliseconds
LEAST_WAIT = 1e-4
# Ratios to the other members: with more requests, or larger ones, it has more to do and need not be slow.
AS_MANY, AS_LARGE = 1.25, 1.5
# Ratio of the busy times that shows a longer service: deep queues gather at the slowest of nearly alike members.
BUSIER = 1.25
# ratio to the tool's operations up to which each is one operation of one member
ONE_VISIT = 1.1
# busy share: less is as good as idle
LEAST_BUSY = 0.01
# requests in flight at one disk that hardly queue
FEW = 2.0
# share of the outstanding I/Os
AT_DISKS = 0.8
# A smaller bound on the gain is none worth naming.
LEAST_GAIN = 1.05
# Share of the jobs' time that goes into submitting, and share that may be work of the CPU.
SUBMITTING, WORKING = 0.9, 0.5
# busy share of a full station, as in benchlab.analysis.devices
FULL = 0.90
# least number of depths, and ratio of the rates along them, that show a demand
MIN_DEPTHS, VARIED = 3, 2.0
# Ratio of the largest to the smallest demand along a sweep: what is busy in proportion stays below it.
CONSTANT = 1.25
# names of stations that are no disk
CORE, THREADS = "the busiest core", "the tool's threads"


@dataclass(frozen=True, slots=True)
class Member:
    """A disk of a group while the run measured."""

    name: str
    # s that a request takes, waiting included, in each sample
    waits: Array
    # number of requests in each sample
    requests: Array
    # B of a request; NaN if unknown
    size: float
    # share of the time; NaN if unknown
    busy: float
    # s that the samples cover
    seconds: float

    @property
    def wait(self) -> float:
        """Mean s over its requests."""
        return float(np.average(self.waits, weights=self.requests))

    @property
    def total(self) -> float:
        return float(self.requests.sum())


@run_finding("One disk is slow")
def slow_member(run: Run) -> Iterator[Finding]:
    """A member takes much longer for each request than any other, with no more requests: it holds the others back.

    Waits alone prove nothing, as queues gather at the slowest of nearly alike members: the others must be idle for
    longer, too. None while an array resyncs.
    """
    if run.resyncing:
        return
    for group in disk_groups(run):
        members = _members(run, group)
        if len(members) < 2:
            continue
        slow, *others = sorted(members, key=lambda member: -member.wait)
        if _is_slow(slow, others):
            gain = _largest_gain(run, slow, others)
            if gain >= LEAST_GAIN:
                yield _describe(run, group, slow, others, gain)


def _members(run: Run, group: Group) -> list[Member]:
    """Members of a group in the samples in which all of them are known; none if there are too few."""
    way = run.access.only_direction
    ways = [way] if way else ["read", "write"]
    waits = _by_disk(run, f"{way}.await" if way else "await", group)
    rates = [_by_disk(run, f"{name}.iops", group) for name in ways]
    if any(len(tracks) < len(group.names) for tracks in (waits, *rates)):
        return []
    first = waits[group.names[0]]
    if any(t.times != first.times for tracks in (waits, *rates) for t in tracks.values()):
        return []
    spans = np.asarray(first.spans())
    wait = np.array([waits[name].values for name in group.names], dtype=float)
    operations = (
        np.sum([[tracks[n].values for n in group.names] for tracks in rates], axis=0) * spans
    )
    is_known = (np.isfinite(wait) & (operations > 0)).all(axis=0)
    if np.count_nonzero(is_known) < ENOUGH:
        return []
    busy, moved = run.means("util", group.names), _moved(run, group, ways)
    return [
        Member(
            name,
            wait[index, is_known],
            operations[index, is_known],
            moved.get(name, float("nan")) / float(operations[index].sum() / spans.sum()),
            busy.get(name, float("nan")),
            float(spans[is_known].sum()),
        )
        for index, name in enumerate(group.names)
    ]


def _by_disk(run: Run, metric: str, group: Group) -> dict[str, Track]:
    return {track.device: track for track in run.measured_tracks(metric, group.names)}


def _moved(run: Run, group: Group, ways: Sequence[str]) -> dict[str, float]:
    """B/s of each member."""
    means = [run.means(f"{way}.bandwidth", group.names) for way in ways]
    return {name: sum(column.get(name, float("nan")) for column in means) for name in group.names}


def _is_slow(slow: Member, others: Sequence[Member]) -> bool:
    second = max(member.wait for member in others)
    if slow.wait < SLOWER * second or slow.wait - second < LEAST_WAIT:
        return False
    at_once = np.max([member.waits for member in others], axis=0)
    lasting = float(np.mean(slow.waits >= SLOWER_AT_ONCE * at_once)) >= LASTING
    busier = slow.busy >= BUSIER * _max_busy(others)
    return lasting and busier and _has_no_more_to_do(slow, others)


def _has_no_more_to_do(slow: Member, others: Sequence[Member]) -> bool:
    many = slow.total <= AS_MANY * float(np.mean([member.total for member in others]))
    larger = slow.size > AS_LARGE * float(np.median([member.size for member in others]))
    return many and not larger


def _in_flight(members: Sequence[Member]) -> float:
    """Mean number of requests at these members, by Little's law."""
    return sum(member.wait * member.total / member.seconds for member in members)


def _largest_gain(run: Run, slow: Member, others: Sequence[Member]) -> float:
    """Ratio of the rate that is possible at most if the slow member were like the others; infinite if unknown."""
    bounds = [inf]
    device = run.devices.get(slow.name)
    # A busy disk that spins is full; a busy SSD is only not idle, and its waits are no service where requests queue.
    spins = bool(device and device.rotational)
    if spins:
        bounds.append(slow.busy / max(_max_busy(others), LEAST_BUSY))
    queues = _in_flight([slow]) > FEW and not spins
    # What waits above the disks would move up at once, and no wait of theirs bounds that.
    if run.depth and not queues and _in_flight([slow, *others]) >= AT_DISKS * run.depth:
        bounds.append(slow.wait / max(member.wait for member in others))
        if _visits_one_member(run, [slow, *others]):
            bounds.append(_mean_wait([slow, *others]) / _mean_wait(others))
    return min(bounds)


def _mean_wait(members: Sequence[Member]) -> float:
    """Mean s over the requests of all of them."""
    return sum(m.wait * m.total for m in members) / sum(m.total for m in members)


def _visits_one_member(run: Run, members: Sequence[Member]) -> bool:
    """True if each operation of the tool is one operation of one member, as their numbers show."""
    iops = run.figures.get("iops", 0.0)
    operations = sum(member.total for member in members) / members[0].seconds
    return run.straight and 0 < operations <= ONE_VISIT * iops


def _describe(
    run: Run, group: Group, slow: Member, others: Sequence[Member], gain: float
) -> Finding:
    second = max(others, key=lambda member: member.wait)
    names = second.name if len(others) == 1 else f"the other {len(others)}"
    most = "" if len(others) == 1 else " or less"
    busy = f"busy {share(slow.busy)} against {share(_max_busy(others))}"
    sentence = (
        f"{slow.name} takes {rate(slow.wait, 's')} a request where {names} take{'s' if not most else ''}"
        f" {rate(second.wait, 's')}{most}, with no more requests ({busy})"
    )
    metric = f"{run.access.only_direction}.await".removeprefix(".")
    numbers = {
        member.name: Number(
            member.wait,
            "s",
            f"wait of a request at {member.name}",
            device=member.name,
            metric=metric,
        )
        for member in (slow, second)
    }
    if isfinite(gain) and not run.held_back:
        sentence += f": a disk like the others in its place could make the run up to {times_text(gain)} as fast"
        numbers["gain"] = Number(gain, "1", "most that a disk like the others could gain")
    return Finding(sentence, Severity.LIMIT, numbers, about=f"{slow.name} {group.kind} {group.use}")


def _max_busy(members: Sequence[Member]) -> float:
    """Busy time of the busiest member; NaN if that of one is unknown."""
    return float(np.max([member.busy for member in members]))


@run_finding("Submission blocks")
def submit_bound(run: Run) -> Iterator[Finding]:
    """Jobs spend all of their time in submitting, and not by work: an engine that is asynchronous by name only.

    By Little's law, IOPS x time of a submission is the number of jobs that submit at any time.
    """
    iops, submission = run.figures.get("iops", nan), _mean_submission(run)
    jobs = _jobs(run)
    busy = run.own_thread
    submitting = iops * submission / jobs
    if not run.queues or run.polled or not submitting >= SUBMITTING or not busy <= WORKING:
        return
    yield Finding(
        f"Each I/O takes {rate(submission, 's')} to submit, {share(min(submitting, 1.0))} of the jobs' time, of which"
        f" only {share(busy)} is CPU work: submission blocks, so about {jobs} of the {run.depth} requested I/Os are in"
        " flight",
        Severity.LIMIT,
        {
            "submission": Number(submission, "s", "mean submission latency", figure="slat.mean"),
            "iops": Number(iops, "op/s", "IOPS, by the tool", figure="iops"),
            "busy": Number(busy, "1", "CPU time of the tool's jobs", figure="cpu.user"),
        },
    )


def _jobs(run: Run) -> int:
    """Number of the tool's jobs; 1 if it is not an option of its own."""
    jobs = str(tool_options(run.options).get("numjobs") or 1)
    return int(jobs) if jobs.isdecimal() else 1


def _mean_submission(run: Run) -> float:
    """Mean s to submit an I/O, over both directions; NaN if that is unknown."""
    if "slat.mean" in run.figures:
        return run.figures["slat.mean"]
    figures = run.figures
    ways = [way for way in ("read.", "write.") if figures.get(f"{way}iops", 0.0) > 0]
    total = sum(figures[f"{way}iops"] for way in ways)
    busy = sum(figures[f"{way}iops"] * figures.get(f"{way}slat.mean", nan) for way in ways)
    return busy / total if total else nan


@dataclass(frozen=True, slots=True)
class Station:
    """A disk, the busiest core, or the tool's own threads, along a sweep."""

    name: str
    # busy share at each depth
    busy: Mapping[int, float]
    # True if it serves one request at a time, so that busy means full
    serial: bool = False
    # number of threads whose mean `busy` is
    servers: int = 1

    def demand(self, depth: int, rates: Mapping[int, float]) -> float:
        """Seconds of it that an I/O needs at that depth (servers x U / X)."""
        return self.servers * self.busy[depth] / rates[depth]

    def is_demand(self, rates: Mapping[int, float]) -> bool:
        """True if it is busy in proportion to the rate: what only spins, or serves several at once, is not."""
        demands = [self.demand(depth, rates) for depth in rates]
        varied = max(rates.values()) >= VARIED * min(rates.values())
        return self.serial or (varied and max(demands) <= CONSTANT * min(demands))


@line_finding("Bottleneck")
def holds_back(lines: Sequence[Line]) -> Iterator[Finding]:
    """The station that is full where a sweep does most, by the service demand of each of its I/Os.

    X <= 1 / max D. Without evidence that a station's busy time is a demand, there is no finding.
    """
    for line in lines:
        rates = _median_rates(line)
        if len(rates) < MIN_DEPTHS:
            continue
        best = max(rates, key=lambda depth: rates[depth])
        stations = [one for one in _stations(line, rates) if one.is_demand(rates)]
        full = [one for one in stations if one.busy[best] >= FULL]
        if full:
            rest = [one for one in stations if one.busy[best] < FULL]
            yield _describe_station(line, rates, best, full, rest)


def _median_rates(line: Line) -> dict[int, float]:
    """IOPS at each known depth, a median over the repeats."""
    sweep = line.sweep_values("iops")
    cells = {depth: list(cell.values()) for depth, cell in sorted(sweep.items()) if depth}
    return {depth: median(cell) for depth, cell in cells.items() if min(cell) > 0}


def _stations(line: Line, rates: Mapping[int, float]) -> list[Station]:
    """Stations of which the busy time is known at every depth."""
    loads: dict[str, dict[int, list[float]]] = {}
    for run in line.runs:
        if run.depth in rates and not run.held_back:
            for name, busy in _loads(run).items():
                loads.setdefault(name, {}).setdefault(run.depth, []).append(busy)
    devices = line.runs[0].devices
    return [
        Station(
            name,
            {depth: median(values) for depth, values in cells.items()},
            bool(name in devices and devices[name].rotational),
            _jobs(line.runs[0]) if name == THREADS else 1,
        )
        for name, cells in loads.items()
        if cells.keys() == rates.keys()
    ]


def _loads(run: Run) -> dict[str, float]:
    """Busy share of each station of a run, without those of which it is unknown."""
    disks = {
        track.device: track.mean()
        for track in run.measured_tracks("util", run.active_disks)
        if track.known_samples >= ENOUGH
    }
    core = {} if run.polled else {CORE: busiest(run)[1]}
    loads = {**disks, **core, THREADS: run.own_thread}
    return {name: busy for name, busy in loads.items() if busy > 0}


def _describe_station(
    line: Line,
    rates: Mapping[int, float],
    best: int,
    full: Sequence[Station],
    rest: Sequence[Station],
) -> Finding:
    first = max(full, key=lambda station: station.busy[best])
    names = join_names(tuple(station.name for station in full))
    demand, most = first.demand(best, rates), rates[best] / first.busy[best]
    limits, its = ("limits", "its time") if len(full) == 1 else ("limit", "the time of each")
    if names == THREADS:
        limits, its = "limit", "their time"
    sentence = (
        f"{names} {limits} {line.name} to {rate(rates[best], 'op/s')} ({best} outstanding): an I/O takes"
        f" {rate(demand, 's')} of {its}, so at most {rate(most, 'op/s')} are possible"
    )
    numbers = {
        "demand": Number(demand, "s", f"of {first.name} for an I/O"),
        "most": Number(most, "op/s", f"most that {first.name} allows"),
    }
    if rest:
        second = max(rest, key=lambda station: station.busy[best])
        bound = rates[best] / second.busy[best]
        sentence += f"; the next limit would be {second.name}, at {rate(bound, 'op/s')}"
        numbers["next"] = Number(bound, "op/s", f"most that {second.name} allows")
    runs = tuple(run.run for run in line.runs if run.run and run.depth == best)
    return Finding(sentence, Severity.LIMIT, numbers, about=line.name, runs=runs)
