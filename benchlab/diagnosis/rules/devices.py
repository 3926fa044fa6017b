# SPDX-License-Identifier: Apache-2.0
"""Disks that cannot keep their rate: shingled ones, flash without TRIM, and heat."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from agents.contracts import Series
from benchlab.analysis.formats import rate, times_text
from benchlab.diagnosis import media, wording
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.loads import (
    STACKED,
    all_loads,
    at,
    before_and_after,
    changed,
    headline_text,
    is_rotational,
    reads_only,
    tests,
    whole_disk,
    writes_only,
)
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule

# R47: writes of that size in order that take this long are no seeks
SMR_REQUEST, SMR_AWAIT, SMR_RATE = 128e3, 0.5, 30e6
# a fall of a series: the first part against the last
LEAST_FALL = 3.0
# R49: writes that a trim made this many times faster
TRIM_GAIN = 2.0
# A SATA SSD writes 4 KiB at random faster than this when it has free blocks.
TIRED_SSD = 5000.0
# B/s of large writes, and s of a write, by which a SATA SSD shows that it has no free blocks
TIRED_STREAM, TIRED_AWAIT = 120e6, 0.010
# B that a trim frees where it was missing for long
LEAST_TRIMMED = 50 << 30
TRIM_CHANGE = re.compile(r"\b(fstrim|blkdiscard|zpool trim|hdparm --trim)\b")


def _fall(series: Series) -> tuple[float, float, int] | None:
    """Means before and after a fall that lasts, and the index of its first sample; None without one."""
    values = [v for v in series.values if v == v]
    if len(values) < 4:
        return None
    best = max(
        range(1, len(values) - 1),
        key=lambda i: min(values[:i]) / max(max(values[i:]), 1e-9),
        default=0,
    )
    top = median(values[:best]) if best else 0.0
    low = median(values[best:]) if best else 0.0
    rest = values[best + 1 :] or values[best:]
    lasting = best > 0 and low > 0 and top / low >= LEAST_FALL and max(rest) < 0.6 * top
    return (top, low, best) if lasting else None


@rule("R47", "A shingled (SMR) disk whose cache is full", Stage.DEVICE)
def shingled(evidence: Evidence) -> Iterator[Diagnosis]:
    """Writes to a drive-managed SMR disk that take seconds, or that fell to a fraction."""
    for loads in all_loads(evidence):
        for load in loads.values():
            result = evidence.results[load.result]
            disk = whole_disk(load.name)
            is_smr = media.is_smr_model(evidence.facts.text(disk, "disk.model")) or bool(
                evidence.facts.text(disk, "disk.smr")
            )
            if STACKED.fullmatch(load.device) and "/" not in load.device:
                continue
            spins = is_rotational(evidence, disk)
            if spins is False or (spins is None and not disk.startswith("sd") and not is_smr):
                continue
            if load.reads > 0.2 * load.writes or load.writes < 1:
                continue
            collapse = _collapse(result, load.device, load.write_size or 0, is_smr)
            if collapse is not None:
                yield _smr_diagnosis(evidence, disk, load.result, load.line, collapse, is_smr)
                return
    yield from _smr_test(evidence)


def _collapse(
    result: Result, device: str, size: float, known: bool
) -> tuple[float, float, float, float] | None:
    """B/s before and after, and await before and after, of a disk that fell, or that is slow all the time."""
    prefix = "zpool." if result.kind == "zpool_iostat" else ""
    bandwidths, waits = (
        result.track(f"{prefix}write.bandwidth", device),
        result.track("write.await", device),
    )
    if bandwidths is None:
        return None
    values = [v for v in bandwidths.values if v == v]
    awaits = [v for v in waits.values if v == v] if waits else []
    fall = _fall(bandwidths)
    late = median(awaits[-max(len(awaits) // 3, 1) :]) if awaits else 0.0
    if (
        fall is not None
        and fall[1] < SMR_RATE
        and (known or (late >= SMR_AWAIT and size >= SMR_REQUEST))
    ):
        return fall[0], fall[1], median(awaits[: fall[2]]) if awaits else 0.0, late
    level = median(values) if values else 0.0
    if 0 < level < SMR_RATE and size >= SMR_REQUEST and late >= SMR_AWAIT:
        return level, level, late, late
    return None


def _smr_test(evidence: Evidence) -> Iterator[Diagnosis]:
    """A tool's stream onto a disk whose model its maker lists as SMR, below what any disk does in order."""
    for index, result in tests(evidence):
        for disk in evidence.runs_on(result):
            is_smr = media.is_smr_model(evidence.facts.text(disk, "disk.model")) or bool(
                evidence.facts.text(disk, "disk.smr")
            )
            bandwidth = result.rate
            stream = (
                writes_only(result)
                and (result.random is False or (result.block or 0) >= 1 << 20)
                and not result.durable
            )
            if (
                is_smr
                and bandwidth
                and bandwidth < SMR_RATE
                and stream
                and (result.block or 0) >= SMR_REQUEST
            ):
                collapse = (bandwidth, bandwidth, 0.0, result.latency or 0.0)
                yield _smr_diagnosis(evidence, disk, index, result.headline(), collapse, is_smr)
                return
            slow_random = (
                writes_only(result)
                and result.random
                and (result.operations or 1e9) < 30 * (result.outstanding or 1)
            )
            if is_smr and slow_random and (result.latency or 0) >= SMR_AWAIT:
                collapse = (bandwidth or 0.0, bandwidth or 0.0, 0.0, result.latency or 0.0)
                yield _smr_diagnosis(evidence, disk, index, result.headline(), collapse, is_smr)
                return


def _smr_diagnosis(
    evidence: Evidence,
    disk: str,
    index: int,
    line: int,
    found: tuple[float, float, float, float],
    known: bool,
) -> Diagnosis:
    top, low, early, late = found
    model = evidence.facts.find(disk, "disk.model")
    name = f"{disk} ({model.value})" if model else disk
    fell = (
        f"fell from {rate(top)} to {rate(low)} ({times_text(top / low)})"
        if top > low
        else f"is {rate(low)}"
    )
    lines = _sample_lines(evidence, index, disk, line)
    proofs = [Proof(f"write bandwidth {fell}{', and stays there' if top > low else ''}", lines)]
    if late:
        proofs.append(
            Proof(
                f"await {wording.seconds(early)} at first, {wording.seconds(late)} later"
                if early and early < late
                else f"await {wording.seconds(late)}",
                at(line),
            )
        )
    if model and known:
        proofs.append(
            Proof(f"{model.value}: its maker lists it as drive-managed SMR", at(model.line))
        )
    return Diagnosis(
        Verdict.LIMIT,
        f"{name} {'is a shingled (SMR) disk' if known else 'behaves as a shingled (SMR) disk'} whose cache zone "
        "is full: its write "
        f"bandwidth {fell}.",
        "It rewrites whole bands before it takes more. Reads, and writes after hours of idling, are as fast as "
        "on other disks.",
        tuple(proofs),
        ("A failing disk is slow in reads as well, and its SMART data tells.",),
        (
            NextStep(
                "Leave it idle for some minutes, then write again; read its SMART data meanwhile.",
                f"smartctl -a /dev/{disk}",
                "Fast again for a while: SMR. Slow at once, or with pending sectors: a failing disk.",
            ),
            NextStep("For RAID, ZFS, rebuilds and databases use CMR disks; SMR is for archives."),
        ),
        confidence=0.95 if known else 0.7,
        results=(index,),
        silences=("R11", "R40", "R58", "R23", "R06", "R25") if known else ("R11", "R06"),
    )


def _sample_lines(evidence: Evidence, index: int, disk: str, line: int) -> tuple[int, ...]:
    """First and last row of the disk in the watcher's text."""
    result = evidence.results[index]
    rows = [
        n for n in range(result.first, result.last + 1) if evidence.quote(n).split()[:1] == [disk]
    ]
    return at(rows[0], rows[-1]) if rows else at(line)


@rule("R49", "An SSD without TRIM", Stage.DEVICE)
def no_trim(evidence: Evidence) -> Iterator[Diagnosis]:
    """Writes that a trim made faster, or slow writes on an SSD that gets no discards."""
    pair = next(
        (p for p in changed(evidence, TRIM_CHANGE, TRIM_GAIN) if p[1].writes and p[4] > 1), None
    )
    blocked = [
        f
        for f in evidence.facts.with_name("disk.discard_max")
        if not isinstance(f.value, str) and float(f.value) == 0 and _is_ssd(evidence, f.subject)
    ]
    if pair is not None:
        first, before, second, after, ratio, lines = pair
        yield _trim(
            (first, second),
            f"TRIM made writes {times_text(ratio)} as fast: {headline_text(before)} before, "
            f"{headline_text(after)} after.",
            (
                Proof(
                    f"{headline_text(before)}, then {headline_text(after)}",
                    at(before.headline(), after.headline()),
                ),
                Proof("a trim between the two", lines),
            ),
            0.95,
        )
        return
    seen = _tired_writes(evidence)
    if seen is None:
        return
    index, text, line = seen
    faster = _faster_before(evidence, index)
    if faster is not None:
        once, now = (headline_text(evidence.results[place]) for place in (faster[0], index))
        text = f"{once} once, now {now}: {times_text(faster[1])}"
    trims = [
        fact
        for fact in evidence.facts.with_name("fs.trimmed")
        if fact.line > line and float(str(fact.value)) >= LEAST_TRIMMED
    ]
    if blocked:
        reason, lines = f"{blocked[0].subject} gets no TRIM (DISC-MAX 0)", at(blocked[0].line)
    elif trims:
        freed = wording.size(float(str(trims[0].value)))
        reason, lines = f"fstrim freed {freed} of {trims[0].subject}", at(trims[0].line)
    else:
        return
    yield _trim(
        (index,) if faster is None else (faster[0], index),
        f"Writes are slow for an SSD ({text}), and {reason}.",
        (Proof(text, at(line)), Proof(reason, lines)),
        0.7,
    )


def _faster_before(evidence: Evidence, index: int) -> tuple[int, float] | None:
    """Place of an earlier test of the same work, and how many times as fast it was; None without a faster one."""
    pairs = [
        (first, 1 / ratio)
        for first, _, second, _, ratio in before_and_after(evidence)
        if second == index and 1 / ratio >= TRIM_GAIN
    ]
    return max(pairs, key=lambda pair: pair[1], default=None)


def _is_ssd(evidence: Evidence, disk: str) -> bool:
    """True for a disk without moving parts, by a fact, or where direct reads are too fast for one that spins."""
    spins = is_rotational(evidence, disk)
    if spins is not None or STACKED.fullmatch(disk):
        return spins is False
    most = media.ANY_SPINNING.in_order
    return any(
        result.direct and reads_only(result) and (result.rate or 0) > 1.5 * most
        for _, result in tests(evidence)
    )


def _tired_writes(evidence: Evidence) -> tuple[int, str, int] | None:
    """Result, text and line of writes that are slower than a SATA SSD's with free blocks."""
    for index, result in tests(evidence):
        if not writes_only(result) or result.durable or result.direct is False:
            continue
        random = result.random and (result.operations or TIRED_SSD) < TIRED_SSD
        stream = result.random is False and (result.block or 0) >= SMR_REQUEST
        if random or (stream and (result.rate or TIRED_STREAM) < TIRED_STREAM):
            return index, headline_text(result), result.headline()
    for loads in all_loads(evidence):
        for load in loads.values():
            flash = is_rotational(evidence, load.device) is False
            late = (load.write_await or 0) >= TIRED_AWAIT and load.writes > load.reads
            if flash and late and evidence.results[load.result].watches:
                text = f"{load.writes:,.0f} writes/s at {wording.seconds(load.write_await or 0)} on {load.device}"
                return load.result, text, load.line
    return None


def _trim(
    results: tuple[int, ...], claim: str, proofs: tuple[Proof, ...], confidence: float
) -> Diagnosis:
    return Diagnosis(
        Verdict.LIMIT,
        claim,
        "An SSD that does not know which blocks are free copies old data before each erase (garbage collection).",
        proofs,
        ("An SLC cache that was emptied by the idle time between the runs.",),
        (
            NextStep(
                "Trim regularly, and see that each layer (RAID controller, dm-crypt, LVM, USB bridge) passes "
                "discards on.",
                "lsblk -D; fstrim -av; systemctl enable --now fstrim.timer",
                "fstrim frees much, and writes are fast again: TRIM was missing. 0 B, or no change: look for "
                "an SLC cache or wear.",
                risk="Discarded blocks cannot be recovered, and the trim itself slows the disk down.",
            ),
        ),
        confidence=confidence,
        results=results,
        silences=("R18", "R11", "R13"),
    )


@rule("R50", "A disk that throttles by heat", Stage.DEVICE)
def thermal(evidence: Evidence) -> Iterator[Diagnosis]:
    """A disk at its warning temperature, or whose throttle counter is not zero while its rate falls."""
    if not evidence.results:
        return
    for fact in evidence.facts.with_name("disk.temperature"):
        warning = evidence.facts.find(fact.subject, "disk.temperature_warning")
        counter = evidence.facts.find(fact.subject, "disk.throttled")
        counted = (
            counter is not None and not isinstance(counter.value, str) and float(counter.value) > 0
        )
        hot = warning is not None and float(str(fact.value)) >= float(str(warning.value))
        falls = any(
            _fall(series)
            for result in evidence.results
            for series in result.series
            if series.metric.endswith("bandwidth") and series.device in ("", fact.subject)
        )
        if not (hot or (counted and falls)):
            continue
        at_most = f", its warning is at {float(str(warning.value)):.0f} °C" if warning else ""
        proofs = [
            Proof(
                f"{fact.subject}: {float(str(fact.value)):.0f} °C{at_most}",
                at(fact.line, warning.line if warning else 0),
            )
        ]
        if counted and counter is not None:
            proofs.append(
                Proof(f"throttle counter: {float(str(counter.value)):,.0f}", at(counter.line))
            )
        shown = next((result for _, result in tests(evidence)), None)
        yield Diagnosis(
            Verdict.LIMIT,
            f"{fact.subject} is hot ({float(str(fact.value)):.0f} °C{at_most}): it throttles itself"
            + (f" ({headline_text(shown)})." if shown else "."),
            "An SSD that reaches its warning temperature slows down until it is cooler.",
            tuple(proofs),
            (
                "Without a counter that grows, an SLC cache that is full looks alike: it returns after idling, "
                "heat after cooling.",
            ),
            (
                NextStep(
                    "Watch temperature and counters during the test, then with a fan or a heat sink.",
                    f"nvme smart-log /dev/{fact.subject}",
                    "Counters that grow as the rate falls: heat. A rate that falls at the same volume with a "
                    "fan: the SLC cache.",
                ),
            ),
            confidence=0.9 if counted else 0.7,
            silences=("R11", "R58"),
        )
        return
