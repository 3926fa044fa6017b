# SPDX-License-Identifier: Apache-2.0
"""Disks and their links: alignment, SMR, TRIM, heat, links, schedulers, readahead, and what %util is not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import median

from agents.context.model import Fact
from agents.contracts import Series
from benchlab.analysis.formats import rate, share, times_text
from benchlab.diagnosis import media, wording
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.loads import (
    STACKED,
    Load,
    all_loads,
    any_rotational,
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

# docs/diagnosis.md R20: busy all the time with few requests at once
BUSY, FEW_REQUESTS = 0.95, 16.0
# op/s and s of a request that no disk that spins reaches at random
FLASH_RATE, FLASH_TIME = 2000.0, 0.002
# R38: a misaligned partition alone; a second run that proves it
LEAST_GAIN = 1.3
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
# R51: share of the link from which it is the limit; USB's mass storage carries less of it
AT_LINK, NEAR_SLOW_LINK = 0.80, 0.55
# B/s: a link below SATA 6 Gb/s is a narrow one
NARROW_LINK = 560e6
# R55: op/s from which a scheduler's work is felt on NVMe
MANY_IOPS = 100_000.0
SCHEDULERS = ("bfq", "mq-deadline", "kyber", "cfq", "deadline")
# B: readahead below which a stream of small requests waits for each of them; the kernel's default is 128 KiB
SMALL_READAHEAD = 32 * 1024
# R06: over less of a disk than this, seeks are short
SHORT_STROKE = 0.05

TRIM_CHANGE = re.compile(r"\b(fstrim|blkdiscard|zpool trim|hdparm --trim)\b")
ALIGN_CHANGE = re.compile(r"\b(fdisk|parted|sgdisk|gdisk|sfdisk|mkpart|align|ashift)\b")
SCHEDULER_CHANGE = re.compile(r"queue/scheduler")
READAHEAD_CHANGE = re.compile(r"blockdev --setra|read_ahead_kb")


@rule("R20", "%util of a device that serves many requests at once", Stage.BELIEVABLE)
def util_is_no_limit(evidence: Evidence) -> Iterator[Diagnosis]:
    """A disk without moving parts that is always busy, with few requests at once."""
    for loads in all_loads(evidence):
        for load in loads.values():
            result = evidence.results[load.result]
            flash = (
                not STACKED.fullmatch(load.device) and is_rotational(evidence, load.device) is False
            )
            busy = result.watches and (load.util or 0) >= BUSY
            queue = load.queue
            if queue is None and load.read_await is not None:
                queue = load.reads * load.read_await + load.writes * (load.write_await or 0)
            if not (flash and busy and queue is not None and 0 < queue <= FEW_REQUESTS):
                continue
            operations = load.reads + load.writes
            yield Diagnosis(
                Verdict.FINE,
                f"{load.device} is not full: %util of {share(load.util or 0)} only means that it always had a "
                "request, on average "
                f"{queue:.2g} at a time ({wording.ops(operations)}).",
                "A device that serves many requests at once does more when it is asked for more. %util is a "
                "limit only for a device "
                "that serves one at a time, such as one disk that spins.",
                (
                    Proof(
                        f"%util {share(load.util or 0)}, aqu-sz {queue:.2g}, {wording.ops(operations)}",
                        at(load.line),
                    ),
                ),
                ("A cap of a volume or of a link holds back at any depth.",),
                (
                    NextStep(
                        "Raise the depth, and see whether the rate rises with it.",
                        f"fio --name=depth --filename=/dev/{load.device} --readonly --rw=randread --bs=4k --direct=1 "
                        "--ioengine=io_uring --iodepth=32 --runtime=30 --time_based",
                        "More IOPS at about the same latency: it was never full. The same IOPS at more "
                        "latency: it was.",
                        {"iodepth": [1, 4, 16, 32]},
                    ),
                ),
                confidence=0.85,
                results=(load.result,),
            )
            return


def _is_flash(evidence: Evidence, load: Load) -> bool:
    """True for a disk without moving parts, by a fact or by how much it does."""
    spins = is_rotational(evidence, load.device)
    if spins is not None:
        return not spins
    waits = [wait for wait in (load.read_await, load.write_await) if wait]
    return load.reads + load.writes >= FLASH_RATE and bool(waits) and max(waits) < FLASH_TIME


@rule("R38", "Requests that do not fit the disk's sectors", Stage.LAYOUT)
def misaligned(evidence: Evidence) -> Iterator[Diagnosis]:
    """Partitions off the physical sectors, an ashift that is too small, or requests below a sector."""
    writing = [(index, result) for index, result in tests(evidence) if result.writes]
    if not writing and not any(
        load.writes for loads in all_loads(evidence) for load in loads.values()
    ):
        return
    for fact in evidence.facts:
        if fact.name == "disk.start" and not isinstance(fact.value, str):
            physical, logical = _sectors(evidence, fact.subject)
            offset = int(float(fact.value) * logical) % int(physical)
            if offset and is_rotational(evidence, fact.subject) is not False:
                yield _off_sector(evidence, fact, int(physical), int(logical), offset, writing)
                return
    yield from _small_ashift(evidence, writing)
    yield from _below_sector(evidence, writing)


def _sectors(evidence: Evidence, device: str) -> tuple[float, float]:
    """Physical and logical block in B of the disk of a partition; 4 KiB and 512 B where nothing tells."""
    names = (device, whole_disk(device))
    physical = [v for name in names if (v := evidence.facts.number(name, "disk.physical_block"))]
    logical = [v for name in names if (v := evidence.facts.number(name, "disk.logical_block"))]
    return (physical or [4096.0])[0], (logical or [512.0])[0]


def _off_sector(
    evidence: Evidence,
    fact: Fact,
    physical: int,
    logical: int,
    offset: int,
    writing: Sequence[tuple[int, Result]],
) -> Diagnosis:
    start = int(float(str(fact.value)))
    lines = [
        f.line
        for name in ("disk.physical_block", "disk.logical_block")
        if (f := evidence.facts.find(whole_disk(fact.subject), name))
    ]
    others = [
        f
        for f in evidence.facts
        if f.name == "disk.start" and f.subject == fact.subject and f.value != fact.value
    ]
    pair = next((p for p in before_and_after(evidence) if max(p[4], 1 / p[4]) >= LEAST_GAIN), None)
    proofs = [
        Proof(
            f"start {start} x {logical} B = {start * logical:,} B; modulo {physical:,} B it leaves {offset:,}",
            at(fact.line),
        ),
        Proof(f"physical sector {physical} B, logical {logical} B", at(*lines)),
    ]
    gain = ""
    if pair is not None and others:
        gain = (
            f" From {others[0].value:.0f} on it is {times_text(max(pair[4], 1 / pair[4]))} as fast."
            if isinstance(others[0].value, float | int)
            else ""
        )
        proofs.append(
            Proof(
                f"{headline_text(pair[1])} against {headline_text(pair[3])}: {times_text(max(pair[4], 1 / pair[4]))}",
                at(pair[1].headline(), pair[3].headline(), others[0].line),
            )
        )
    results = (pair[0], pair[2]) if pair else tuple(index for index, _ in writing[:1])
    return Diagnosis(
        Verdict.LIMIT,
        f"{fact.subject} is not aligned: it begins at sector {start}, which is no multiple of the disk's "
        "physical sector of "
        f"{physical} B, so a write of 4 KiB touches two sectors.{gain}",
        "The disk reads both sectors, waits for a turn and writes them: a third of the rate of small writes on "
        "disks that spin.",
        tuple(proof for proof in proofs if proof.lines or not evidence.lines),
        ("Reads and large writes in order lose little by it.",),
        (
            NextStep(
                "Look at the start of every partition; make new ones at 1 MiB (sector 2048). That moves the "
                "data: back it up first.",
                f"parted /dev/{whole_disk(fact.subject)} align-check optimal 1; lsblk -o "
                "NAME,START,PHY-SEC,LOG-SEC,ALIGNMENT",
                "From an aligned start the same test does about three times the small writes.",
            ),
            NextStep(
                "Check the offsets of LVM and md in the same way (pvs -o +pe_start, mdadm --examine)."
            ),
        ),
        confidence=0.95 if pair else 0.75,
        results=results,
        silences=("R18", "R23", "R13"),
    )


def _small_ashift(evidence: Evidence, writing: Sequence[tuple[int, Result]]) -> Iterator[Diagnosis]:
    """A pool whose sector is smaller than its disks'."""
    sectors = [
        f for f in evidence.facts.with_name("disk.physical_block") if not isinstance(f.value, str)
    ]
    largest = max(sectors, key=lambda f: float(f.value), default=None)
    for fact in evidence.facts.with_name("vdev.block_configured"):
        native = evidence.facts.find(fact.subject, "vdev.block_native")
        if native is None or float(str(native.value)) <= float(str(fact.value)):
            continue
        configured, own = float(str(fact.value)), float(str(native.value))
        yield Diagnosis(
            Verdict.LIMIT,
            f"The pool's ashift does not fit {fact.subject}: it takes sectors of {configured:.0f} B, and the "
            "disk has "
            f"{own:.0f} B (512e): the disk reads, changes and writes each.",
            "ashift cannot be changed after the vdev was made.",
            (
                Proof(
                    f"{fact.subject}: {configured:.0f} B configured, {own:.0f} B native",
                    at(fact.line),
                ),
            ),
            ("An SSD hides a part of it.",),
            (
                NextStep(
                    "Replace the vdev by one with the right ashift, or make a new pool and move the data.",
                    "zpool get ashift",
                    "Small writes take a fraction of the time on disks that spin.",
                ),
            ),
            confidence=0.8,
            results=tuple(index for index, _ in writing[:1]),
        )
        return
    for fact in evidence.facts.with_name("pool.ashift"):
        if largest is None or isinstance(fact.value, str) or not fact.value:
            continue
        sector = 2 ** int(fact.value)
        if sector >= float(largest.value):
            continue
        yield Diagnosis(
            Verdict.LIMIT,
            f"ashift={int(fact.value)} makes {fact.subject} write sectors of {sector} B to disks whose physical "
            "sector is "
            f"{int(float(largest.value))} B: the disk reads, changes and writes each (512e).",
            "ashift cannot be changed after the pool or the vdev was made.",
            (
                Proof(f"ashift {int(fact.value)} = {sector} B", at(fact.line)),
                Proof(
                    f"{largest.subject}: physical sector {int(float(largest.value))} B",
                    at(largest.line),
                ),
            ),
            ("An SSD hides a part of it.",),
            (
                NextStep(
                    "Make a new pool with ashift=12, and move the data.",
                    f"zpool get ashift {fact.subject}",
                    "Small writes take a fraction of the time on disks that spin.",
                ),
            ),
            confidence=0.8,
            results=tuple(index for index, _ in writing[:1]),
        )
        return


def _below_sector(evidence: Evidence, writing: Sequence[tuple[int, Result]]) -> Iterator[Diagnosis]:
    """Direct writes that are smaller than the physical sector."""
    for index, result in writing:
        for disk in evidence.runs_on(result):
            physical = evidence.facts.find(disk, "disk.physical_block")
            if (
                physical is None
                or isinstance(physical.value, str)
                or not result.block
                or not result.direct
            ):
                continue
            if result.block < float(physical.value) and is_rotational(evidence, disk) is not False:
                yield Diagnosis(
                    Verdict.LIMIT,
                    f"Writes of {wording.size(result.block)} are smaller than the physical sector of {disk} "
                    f"({int(float(physical.value))} B, 512e): it reads, changes and writes a sector for each "
                    f"({headline_text(result)}).",
                    "On a disk that spins that costs a turn.",
                    (
                        Proof(
                            f"{headline_text(result)} of {wording.size(result.block)}",
                            at(result.headline()),
                        ),
                        Proof(
                            f"{disk}: physical sector {int(float(physical.value))} B",
                            at(physical.line),
                        ),
                    ),
                    ("A write cache hides it for a while.",),
                    (
                        NextStep(
                            "Write whole sectors.",
                            wording.edit_command(
                                result, bs=f"{int(float(physical.value)) // 1024}k"
                            ),
                            "More writes a second of eight times the size.",
                            {"block_size": int(float(physical.value))},
                        ),
                    ),
                    confidence=0.75,
                    results=(index,),
                )
                return


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
            known = media.is_smr_model(evidence.facts.text(disk, "disk.model")) or bool(
                evidence.facts.text(disk, "disk.smr")
            )
            if STACKED.fullmatch(load.device) and "/" not in load.device:
                continue
            if is_rotational(evidence, disk) is False or not (
                known or is_rotational(evidence, disk)
            ):
                continue
            if load.reads > 0.2 * load.writes or load.writes < 1:
                continue
            found = _collapse(result, load.device, load.write_size or 0, known)
            if found is not None:
                yield _smr_diagnosis(evidence, disk, load.result, load.line, found, known)
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
            known = media.is_smr_model(evidence.facts.text(disk, "disk.model")) or bool(
                evidence.facts.text(disk, "disk.smr")
            )
            bandwidth = result.rate
            stream = (
                writes_only(result)
                and (result.random is False or (result.block or 0) >= 1 << 20)
                and not result.durable
            )
            if (
                known
                and bandwidth
                and bandwidth < SMR_RATE
                and stream
                and (result.block or 0) >= SMR_REQUEST
            ):
                found = (bandwidth, bandwidth, 0.0, result.latency or 0.0)
                yield _smr_diagnosis(evidence, disk, index, result.headline(), found, known)
                return
            slow_random = (
                writes_only(result)
                and result.random
                and (result.operations or 1e9) < 30 * (result.outstanding or 1)
            )
            if known and slow_random and (result.latency or 0) >= SMR_AWAIT:
                found = (bandwidth or 0.0, bandwidth or 0.0, 0.0, result.latency or 0.0)
                yield _smr_diagnosis(evidence, disk, index, result.headline(), found, known)
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
        silences=("R11", "R40", "R58", "R23", "R06", "R25"),
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
        if not isinstance(f.value, str)
        and float(f.value) == 0
        and is_rotational(evidence, f.subject) is False
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
        (index,),
        f"Writes are slow for an SSD ({text}), and {reason}.",
        (Proof(text, at(line)), Proof(reason, lines)),
        0.7,
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


@rule("R51", "A link that is slower than the disk", Stage.CAP)
def narrow_link(evidence: Evidence) -> Iterator[Diagnosis]:
    """A test at the rate that its disk's link carries."""
    for index, result in tests(evidence):
        bandwidth = max(
            (v for v in (result.rate, *_watched_rates(evidence, index)) if v), default=0.0
        )
        for disk in dict.fromkeys((*evidence.runs_on(result), *_linked(evidence))):
            fact = evidence.facts.find(disk, "disk.link_speed")
            if fact is None or isinstance(fact.value, str) or not bandwidth:
                continue
            speed, most = float(fact.value), evidence.facts.number(disk, "disk.link_max")
            lower = most is not None and most > 1.2 * speed
            usb = speed <= 61e6 or evidence.facts.text(disk, "disk.transport") == "usb"
            least = NEAR_SLOW_LINK if usb or lower else AT_LINK
            if not least <= bandwidth / speed <= 1.05:
                continue
            at_best = speed >= NARROW_LINK and not lower
            named = result.target.removeprefix("/dev/") if result.target.startswith("/dev/") else ""
            name = next(iter(evidence.runs_on(result)), named or disk)
            told = f", though it could be {rate(most)}" if lower and most else ""
            yield Diagnosis(
                Verdict.FINE if at_best else Verdict.LIMIT,
                f"{name} {'reaches what its link carries' if at_best else 'is held back by its link'}: "
                f"{rate(bandwidth)} of the "
                f"{rate(speed)} that it negotiated{told}{' (downgraded)' if lower else ''}.",
                "A link carries 80 to 95 % of its nominal rate as data."
                + (
                    " The disk does what this link allows; a faster one needs another interface."
                    if at_best
                    else ""
                ),
                (
                    Proof(
                        f"{rate(bandwidth)} is {share(bandwidth / speed)} of the link",
                        at(result.headline()),
                    ),
                    Proof(
                        f"link of {name}: {rate(speed)}{told}",
                        at(fact.line, evidence.fact_line(disk, "disk.link_max")),
                    ),
                ),
                ("A cap of the controller, or a disk that is just as fast.",),
                (
                    NextStep(
                        "Look at what was negotiated, then try another slot, cable or port.",
                        "lspci -vv | grep -E 'LnkCap|LnkSta'; dmesg | grep -i 'link up'; lsusb -t",
                        "The rate rises with the link's speed.",
                    ),
                ),
                confidence=0.9 if lower else 0.75,
                results=(index,),
                silences=("R57", "R06"),
            )
            return


def _linked(evidence: Evidence) -> list[str]:
    """The only disk whose link is known; none where there are several."""
    facts = evidence.facts.with_name("disk.link_speed")
    return [facts[0].subject] if len(facts) == 1 else []


def _watched_rates(evidence: Evidence, index: int) -> list[float]:
    """B/s of the test's only direction."""
    result = evidence.results[index]
    return [v for name in ("read.bandwidth", "write.bandwidth") if (v := result.number(name))]


@rule("R55", "An I/O scheduler on a fast device", Stage.NOTE)
def scheduler(evidence: Evidence) -> Iterator[Diagnosis]:
    """Runs that differ by the scheduler, or many IOPS through one that costs CPU time."""
    pair = next(changed(evidence, SCHEDULER_CHANGE, 1.15), None)
    facts = [f for f in evidence.facts if f.name == "disk.scheduler" and str(f.value) in SCHEDULERS]
    if pair is not None:
        first, before, second, after, ratio, lines = pair
        names = [str(f.value) for f in evidence.facts if f.name == "disk.scheduler"]
        yield _scheduler(
            (first, second),
            f"The I/O scheduler decides: {headline_text(before)}, then {headline_text(after)} with another one "
            f"({', '.join(dict.fromkeys(names)) or 'changed between'}), {times_text(max(ratio, 1 / ratio))} apart.",
            (
                Proof(
                    f"{headline_text(before)}, then {headline_text(after)}",
                    at(before.headline(), after.headline()),
                ),
                Proof("the change between the two", lines),
            ),
            0.85,
            "nvme0n1",
        )
        return
    for fact in facts:
        for index, result in tests(evidence):
            if (
                is_rotational(evidence, fact.subject) is False
                and (result.operations or 0) >= MANY_IOPS
            ):
                yield _scheduler(
                    (index,),
                    f"{fact.subject} uses the scheduler {fact.value} at {headline_text(result)}: it may cost "
                    "CPU time and IOPS. "
                    "Opinions differ, so compare.",
                    (
                        Proof(headline_text(result), at(result.headline())),
                        Proof(f"scheduler {fact.value}", at(fact.line)),
                    ),
                    0.4,
                    fact.subject,
                )
                return


def _scheduler(
    results: tuple[int, ...], claim: str, proofs: tuple[Proof, ...], confidence: float, disk: str
) -> Diagnosis:
    return Diagnosis(
        Verdict.LIMIT,
        claim,
        "A scheduler orders requests for disks that spin and shares them among processes. NVMe does both by itself.",
        proofs,
        ("Fairness between processes, or latency under mixed load, may be worth the cost.",),
        (
            NextStep(
                "Compare with none, three runs of each in turn.",
                f"echo none > /sys/block/{disk}/queue/scheduler",
                "More IOPS and less system time: the scheduler was the cost.",
                risk="It changes how processes share the disk until the next restart.",
            ),
        ),
        confidence=confidence,
        results=results,
        silences=("R18",) if len(results) > 1 else (),
    )


@rule("R71", "A small readahead", Stage.LAYOUT)
def readahead(evidence: Evidence) -> Iterator[Diagnosis]:
    """Buffered reads in order that wait for each small request, or that a larger readahead made faster."""
    pair = next((p for p in changed(evidence, READAHEAD_CHANGE, LEAST_GAIN) if p[1].reads), None)
    if pair is not None:
        first, before, second, after, ratio, lines = pair
        yield _readahead(
            (first, second),
            f"Readahead decides: {headline_text(before)}, then {headline_text(after)} after its change "
            f"({times_text(max(ratio, 1 / ratio))}).",
            (
                Proof(
                    f"{headline_text(before)}, then {headline_text(after)}",
                    at(before.headline(), after.headline()),
                ),
                Proof("the change between the two", lines),
            ),
            0.9,
        )
        return
    for index, result in tests(evidence):
        stream = reads_only(result) and result.random is False and result.direct is False
        for disk in evidence.runs_on(result) if stream else ():
            fact = evidence.facts.find(disk, "disk.readahead")
            if fact is None or isinstance(fact.value, str) or float(fact.value) > SMALL_READAHEAD:
                continue
            yield _readahead(
                (index,),
                f"Readahead of {disk} is only {wording.size(float(fact.value))}: buffered reads in order wait "
                "for each piece "
                f"({headline_text(result)}).",
                (
                    Proof(headline_text(result), at(result.headline())),
                    Proof(f"readahead {wording.size(float(fact.value))}", at(fact.line)),
                ),
                0.7,
            )
            return


def _readahead(
    results: tuple[int, ...], claim: str, proofs: tuple[Proof, ...], confidence: float
) -> Diagnosis:
    return Diagnosis(
        Verdict.LIMIT,
        claim,
        "The kernel reads ahead of a stream, so that the disk, or all disks of a stripe, work while the "
        "program computes.",
        proofs,
        ("Direct I/O and random reads do not use it.",),
        (
            NextStep(
                "Try larger readaheads: 4 MiB for an array is usual.",
                "blockdev --setra 8192 /dev/md0",
                "The rate of buffered reads in order rises; too much of it slows down random reads.",
                risk="It stays until the next restart, and takes memory for each open file.",
            ),
        ),
        confidence=confidence,
        results=results,
        silences=("R18", "R63") if len(results) > 1 else (),
    )


@rule("R72", "Random I/O over a small part of a disk that spins", Stage.BELIEVABLE)
def short_stroke(evidence: Evidence) -> Iterator[Diagnosis]:
    """More random IOPS than such a disk does, over a file that is a small part of it."""
    for index, result in tests(evidence):
        disks = evidence.runs_on(result)
        area = result.option("size")
        if (
            len(disks) != 1
            or not result.random
            or not isinstance(area, int | float)
            or not result.direct
        ):
            continue
        size = evidence.facts.find(disks[0], "disk.size")
        if (
            size is None
            or isinstance(size.value, str)
            or any_rotational(evidence, disks) is not True
        ):
            continue
        disk = media.spinning_disk(
            evidence.facts.text(disks[0], "disk.model"), evidence.facts.number(disks[0], "disk.rpm")
        )
        depth = result.asked_in_flight or 1
        most = disk.single[1] if depth == 1 else disk.queued
        part = float(area) / float(size.value)
        operations = result.operations or 0
        if not (part < SHORT_STROKE and most < operations <= 4 * most):
            continue
        yield Diagnosis(
            Verdict.DOUBT,
            f"{wording.ops(operations)} is above what a disk that spins does over its whole surface "
            f"({most:.0f}): the test covers only "
            f"{wording.size(float(area))} of {wording.size(float(size.value))} ({share(part)}), so the head "
            "hardly moves.",
            "A small file keeps seeks short, and the disk's own cache holds a part of it.",
            (
                Proof(f"{headline_text(result)}, random", at(result.headline())),
                Proof(
                    f"{disks[0]} has {wording.size(float(size.value))}, the file {wording.size(float(area))}",
                    at(size.line),
                ),
            ),
            ("A hot set of that size may be just what the load has.",),
            (
                NextStep(
                    "Cover the whole disk, or as much of it as the load does.",
                    wording.edit_command(result, size=f"{int(float(size.value) * 0.5) >> 30}g"),
                    f"About {disk.single[0]:.0f} to {disk.single[1]:.0f} IOPS at depth 1.",
                ),
            ),
            confidence=0.75,
            results=(index,),
        )
        return
