# SPDX-License-Identifier: Apache-2.0
"""Levels over time: a cache that fills, burst credits that end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean, median, pstdev

from agents.contracts import Series
from benchlab.diagnosis import media
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule
from benchlab.diagnosis.wording import edit_command, ops, percent, rate, seconds, size

# the last level must fill that share of the samples
LAST_SHARE = 0.25
# a fall by less is not a step
LEAST_FALL = 2.0
# spread of a level that a limiter holds
FLAT_LEVEL = 0.02
# how near a level is to one that is sold, where no line tells of a cloud
EXACT = 0.01
# spread of a level of a disk
STEADY_LEVEL = 0.15


# s and I/Os: below both a single stall of 100 ms makes the figure (a seek takes 10 ms)
BRIEF_S, FEW_IOS = 1.0, 30.0
# B that the longer run proposed instead may write
LONGER_BYTES = 1 << 30


@rule("R05", "A run too short to count on", Stage.NOTE)
def too_short(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        took, ios = result.number("runtime"), result.counted
        if result.kind not in ("dd", "fio", "sysbench") or not took or not ios:
            continue
        if took >= BRIEF_S or ios >= FEW_IOS or (result.bytes_moved or 0) > 256 * media.MIB:
            continue
        count = max(round(2 * ios), min(1000, LONGER_BYTES // round(result.block or LONGER_BYTES)))
        longer = {"dd": {"count": count}, "fio": {"runtime": 60, "time_based": 1}}
        yield Diagnosis(
            Verdict.DOUBT,
            f"{ios:.0f} I/Os in {seconds(took)} are too few to count on: one stall or one seek more would change "
            "the figure.",
            "The order of magnitude may be right. The figure is not exact.",
            (Proof(f"{ios:.0f} I/Os in {seconds(took)}.", (result.headline(),)),),
            ("A longer run may well give the same.",),
            (
                NextStep(
                    "Run it longer.",
                    edit_command(result, **longer.get(result.kind, {"time": 60})),
                    "A rate that stays is the storage's.",
                ),
            ),
            confidence=0.6,
            results=(place,),
        )


@dataclass(frozen=True, slots=True)
class Fall:
    """Two levels of a series and the samples between: means in the series' unit, spreads as shares."""

    before: float
    after: float
    spread_before: float
    spread_after: float
    # samples of each level
    length_before: int
    length_after: int
    # s from the start to the middle of the step
    at: float

    @property
    def ratio(self) -> float:
        """Ratio of the first level to the second."""
        return self.before / self.after


def find_fall(series: Series) -> Fall | None:
    """The one step down of a series that stays down to its end; None where there is no such step."""
    pairs = [(t, v) for t, v in zip(series.times, series.values, strict=False) if isfinite(v)]
    values = [value for _, value in pairs]
    if len(values) < 6 or max(values) <= 0:
        return None
    level = median(values[-max(2, round(LAST_SHARE * len(values))) :])
    top = median(values[: max(2, len(values) // 6)])
    if level <= 0 or top < LEAST_FALL * level:
        return None
    start = next(i for i in range(len(values)) if all(v < (top * level) ** 0.5 for v in values[i:]))
    high = [v for v in values[:start] if v > 0.8 * top]
    low = [v for v in values[start:] if v < 1.5 * level]
    between = len(values) - len(high) - len(low)
    if (
        len(high) < 2
        or len(low) < max(3, LAST_SHARE * len(values))
        or between > max(2, len(values) // 6)
    ):
        return None
    steady = low[1:] if len(low) > 3 else low
    first = high[:-1] if len(high) > 3 else high
    step = pairs[len(high) - 1][0]
    return Fall(
        fmean(first), fmean(steady), _spread(first), _spread(steady), len(high), len(low), step
    )


def _spread(values: Sequence[float]) -> float:
    return pstdev(values) / fmean(values) if fmean(values) else 0.0


def _tracks(evidence: Evidence, *names: str) -> Iterator[tuple[int, Result, Series, Fall]]:
    """Falls of a metric, one a result: of each device, or of the tool's own samples."""
    for place, result in enumerate(evidence.results):
        for name in names:
            tracks = [s for s in result.series if s.metric == name]
            falls = [(s, fall) for s in tracks if (fall := find_fall(s))]
            if falls:
                series, fall = max(falls, key=lambda pair: pair[1].before)
                yield place, result, series, fall
                break


@rule("R58", "Burst credits that end", Stage.CAP)
def credits_end(evidence: Evidence) -> Iterator[Diagnosis]:
    yield from _two_runs(evidence)
    names = ("read.iops", "write.iops", "read.bandwidth", "write.bandwidth")
    for place, result, series, fall in _tracks(evidence, *names):
        if (
            fall.spread_before > FLAT_LEVEL
            or fall.spread_after > FLAT_LEVEL
            or not 2.5 <= fall.ratio <= 25
        ):
            continue
        volume = _cloud_volume(evidence, series.device)
        show = ops if series.metric.endswith("iops") else rate
        caps_near = (
            media.caps_at_iops if series.metric.endswith("iops") else media.caps_at_bandwidth
        )
        # Without a word about a cloud both levels must be such as are sold.
        both = caps_near(fall.before, EXACT) and caps_near(fall.after, EXACT)
        if not volume and not both:
            continue
        baseline, proofs = _baseline(evidence, series, fall, volume)
        text = (
            f"{show(fall.before)} within {percent(fall.spread_before)}, then {show(fall.after)} within "
            f"{percent(fall.spread_after)}: {fall.ratio:.1f} times less."
        )
        lines = (result.line(series.metric, series.device) or result.first, result.last)
        yield Diagnosis(
            Verdict.LIMIT,
            f"Burst credits ran out: {show(fall.before)} while they last, then {show(fall.after)}, the baseline"
            f"{baseline}.",
            "A mean over both levels is nobody's figure.",
            (Proof(text, lines), *proofs),
            ("The instance has burst credits of its own.",),
            (
                NextStep(
                    "Measure for longer than the credits last, and name both levels. Watch BurstBalance meanwhile.",
                    _longer(evidence, result, series, 3600),
                    "A volume without bursts (gp3: 3,000 IOPS at any size) or a larger one holds its rate.",
                ),
            ),
            confidence=0.95 if volume else 0.7,
            results=(place,),
            silences=("R11", "R57", "R20"),
        )


def _two_runs(evidence: Evidence) -> Iterator[Diagnosis]:
    """The same test before and after the credits ended: a burst, then the baseline of a gp2 volume of that size."""
    volume = _cloud_volume(evidence, "")
    room = evidence.facts.number(volume, "disk.size") if volume else None
    baseline = media.gp2_baseline(room) if room else media.GP2_BURST
    tests = [pair for pair in evidence.numbered_tests if pair[1].operations]
    for (first, before), (second, after) in itertools.pairwise(tests):
        alike = before.pattern == after.pattern and before.block == after.block
        low, high = after.operations or 0, before.operations or 0
        ends = abs(low / baseline - 1) < 0.03 and abs(high / media.GP2_BURST - 1) < 0.03
        if not room or not alike or before.target != after.target or not ends or low > high / 2:
            continue
        yield Diagnosis(
            Verdict.LIMIT,
            f"Burst credits ran out between the runs: {ops(high)} while they last, then {ops(low)}, the baseline, "
            f"3 IOPS per GiB: {baseline:,.0f} for {size(room)}.",
            "A mean over both is nobody's figure.",
            (
                Proof(
                    f"{ops(high)}, then {ops(low)} with the same test.",
                    (before.headline(), after.headline()),
                ),
                Proof(f"The volume has {size(room)}.", (evidence.fact_line(volume, "disk.size"),)),
            ),
            ("The instance has burst credits of its own.",),
            (
                NextStep(
                    "Measure for longer than the credits last, and name both levels. Watch BurstBalance meanwhile.",
                    edit_command(after, runtime=3600, time_based=1),
                    "A volume without bursts (gp3: 3,000 IOPS at any size) or a larger one holds its rate.",
                ),
            ),
            confidence=0.9,
            results=(first, second),
            silences=("R57", "R18", "R59", "R06"),
        )


def _longer(evidence: Evidence, result: Result, series: Series, time_s: int) -> str:
    """The command of the test with that run time; without one, a test like the load that was seen."""
    edited = edit_command(evidence.watched_test(result) or result, runtime=time_s, time_based=1)
    if edited:
        return edited
    way = series.metric.partition(".")[0]
    block = result.number(f"{way}.request.size", series.device) or 1 << 20
    target = f"/dev/{series.device}" if way == "read" and series.device else "FILE --size=SIZE"
    return (
        f"fio --name=longer --filename={target} --rw={way} --bs={round(block)} --direct=1 "
        f"--ioengine=libaio --iodepth=32 --runtime={time_s} --time_based"
    )


def _cloud_volume(evidence: Evidence, device: str) -> str:
    """Subject of the cloud's disk that the series is of; "" where no fact tells one."""
    for fact in evidence.facts.with_name("disk.model"):
        if media.is_cloud_disk(str(fact.value)) and device in ("", fact.subject):
            return fact.subject
    kinds = evidence.facts.with_name("cloud.kind")
    return kinds[0].subject or device if kinds else ""


def _baseline(
    evidence: Evidence, series: Series, fall: Fall, volume: str
) -> tuple[str, list[Proof]]:
    """Words for the baseline that the volume's size gives, and its proofs."""
    room = evidence.facts.number(volume, "disk.size") if volume else None
    if not room or not series.metric.endswith("iops"):
        return "", []
    sold = media.gp2_baseline(room)
    if abs(fall.after / sold - 1) > 0.05:
        return "", []
    lasts = media.GP2_CREDITS / (media.GP2_BURST - sold) if sold < media.GP2_BURST else 0
    line = evidence.fact_line(volume, "disk.size")
    text = (
        f"{media.GP2_CREDITS / 1e6:.1f} million credits / (3,000 - {sold:,.0f}) = {seconds(lasts)}; "
        f"it fell after about {seconds(fall.at)}."
    )
    return f", 3 IOPS per GiB: {sold:,.0f} for {size(room)}", [Proof(text, (line,))]


def _throttles(evidence: Evidence) -> bool:
    """True where a disk is at its warning temperature and counts its throttling: heat explains its fall."""
    for fact in evidence.facts.with_name("disk.temperature"):
        warning = evidence.facts.number(fact.subject, "disk.temperature_warning")
        counted = evidence.facts.number(fact.subject, "disk.throttled")
        if warning and counted and float(str(fact.value)) >= warning:
            return True
    return False


@rule("R11", "A write cache that is full", Stage.BELIEVABLE)
def write_cache_ends(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result, series, fall in _tracks(evidence, "write.bandwidth", "write.iops"):
        disks = [series.device] if series.device else list(evidence.runs_on(result))
        if evidence.all_rotational(disks) or any(_cloud_volume(evidence, d) for d in disks or [""]):
            continue
        if _throttles(evidence):
            continue
        busy = result.track("util", series.device)
        if busy is not None and min(busy.values[-3:]) < 0.9:
            continue
        reads = result.track("read.iops", series.device)
        writes = result.track("write.iops", series.device)
        if reads and writes and fmean(reads.values) > 0.05 * fmean(writes.values):
            continue
        if fall.spread_before > STEADY_LEVEL or fall.spread_after > 2 * STEADY_LEVEL:
            continue
        show = rate if series.metric.endswith("bandwidth") else ops
        volume = fall.before * fall.at
        until = f", after {size(volume)}" if series.metric.endswith("bandwidth") else ""
        waits = result.track("write.await", series.device)
        proofs = [
            Proof(
                f"{fall.length_before} samples at {show(fall.before)}, then {fall.length_after} at {show(fall.after)}: "
                f"one step of {fall.ratio:.1f} times, and not back.",
                (result.line(series.metric, series.device) or result.first, result.last),
            )
        ]
        if until:
            text = f"{show(fall.before)} x {seconds(fall.at)} = {size(volume)} until the step."
            proofs.append(Proof(text, (result.first,)))
        if waits:
            text = f"A write waits {seconds(waits.values[0])} before and {seconds(waits.values[-1])} after."
            proofs.append(Proof(text, (result.line("write.await", series.device) or result.first,)))
        yield Diagnosis(
            Verdict.DOUBT,
            f"{show(fall.before)} lasts only until the SSD's write cache (SLC) is full{until}; the sustained rate is "
            f"{show(fall.after)}. A mean over both belongs to neither.",
            "After some minutes of idle the cache is empty again, so the next run starts fast.",
            tuple(proofs),
            (
                "Flash that has to be erased first (no TRIM, a full disk) falls as well.",
                "A disk that grows hot falls too: look at its temperature.",
            ),
            (
                NextStep(
                    "Write twice the capacity before you compare disks, and report burst and sustained rate apart.",
                    _longer(evidence, result, series, 1200),
                    f"A rate that stays near {show(fall.after)} is the sustained one.",
                ),
            ),
            confidence=0.85,
            results=(place,),
            silences=("R18", "R06", "R50", "R20"),
        )
