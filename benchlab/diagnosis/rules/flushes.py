# SPDX-License-Identifier: Apache-2.0
"""Durable writes: what a flush costs on which medium, flushes that never reach it, and flushes counted as writes."""

from __future__ import annotations

from collections.abc import Iterator

from benchlab.diagnosis import media
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.limits import PROTECTED_DRIVE, DurableWrite, Sign, durable_write
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule
from benchlab.diagnosis.wording import edit_command, per_second, rate, seconds

# share of a cycle of write and flush that the flush must take to be what holds it back
FLUSH_SHARE = 0.8
# revolutions of a durable write: data and a journal's commit, each may wait a turn and a seek
USUAL_REVOLUTIONS = 3.2
# below that no disk that spins can have written: it takes half a turn in the mean
LEAST_REVOLUTIONS = 0.35


@rule("R07", "Flushes that do not reach the medium", Stage.BELIEVABLE)
def flush_not_reaching(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        write = durable_write(result)
        if write is None:
            continue
        cause = (
            _stops_at_cache(result)
            or _faster_than_turn(evidence, result, write)
            or _flushes_off(evidence, write)
        )
        if cause is None:
            continue
        claim, proofs, step = cause
        yield Diagnosis(
            Verdict.DOUBT,
            claim,
            "Compare durable with durable: these writes may be lost when the power fails.",
            tuple(Proof(*proof) for proof in proofs),
            ("A cache with a battery, or a log device, may take the writes and keep them safe.",),
            (step,),
            confidence=0.9,
            results=(place,),
            silences=("R22", "R23", "R28", "R06"),
        )


Cause = tuple[str, list[Sign], NextStep]


def _stops_at_cache(result: Result) -> Cause | None:
    """macOS: fsync stops at the drive's cache, and only F_FULLFSYNC (fsync_writethrough) goes on to the medium."""
    plain, full = result.number("one.fsync.ops"), result.number("one.fsync_writethrough.ops")
    if not plain or not full or plain < 5 * full:
        return None
    lines = (result.line("one.fsync.ops"), result.line("one.fsync_writethrough.ops"))
    text = f"fsync {per_second(plain)}, fsync_writethrough {per_second(full)}: {plain / full:.0f} times apart."
    claim = (
        f"fsync does not reach the medium here: it stops at the drive's volatile cache. Only fsync_writethrough "
        f"makes a write durable: {per_second(full)}, {seconds(1 / full)} each."
    )
    step = NextStep(
        "Compare fsync_writethrough with another machine's fsync, and let applications use F_FULLFSYNC.",
        "pg_test_fsync",
        f"In PostgreSQL set wal_sync_method=fsync_writethrough: about {per_second(full)} is the safe rate.",
    )
    return claim, [(text, lines)], step


def _faster_than_turn(evidence: Evidence, result: Result, write: DurableWrite) -> Cause | None:
    disks = evidence.runs_on(result)
    protected = any(
        fact.name in ("controller.cache_mode", "controller.battery", "pool.log", "cache.mode")
        for fact in evidence.facts
    )
    if not evidence.all_rotational(disks) or protected or result.random is None:
        return None
    disk = media.spinning_disk(evidence.facts.text(disks[0], "disk.model"), None)
    turns = write.took / disk.revolution
    if turns >= LEAST_REVOLUTIONS:
        return None
    claim = (
        f"{per_second(write.rate)} durable writes are more than a disk that spins can make: at {disk.rpm:,} rpm "
        f"a turn takes {seconds(disk.revolution)}, and each took {seconds(write.took)}. A cache keeps them."
    )
    lines = (write.line, evidence.fact_line(disks[0], "disk.rotational"))
    text = f"{seconds(write.took)} a durable write = {turns:.2g} revolutions of {seconds(disk.revolution)}."
    step = NextStep(
        "Switch the write cache off for a trial, and look for nobarrier, cache=unsafe or a controller's cache.",
        f"hdparm -W 0 /dev/{disks[0]}",
        "About 60 to 120 durable writes a second are then the disk's own; the same rate as now means a cache above it.",
        risk="All writes to the disk are slower until hdparm -W 1.",
    )
    return claim, [(text, tuple(line for line in lines if line))], step


def _flushes_off(evidence: Evidence, write: DurableWrite) -> Cause | None:
    """Flushes that a setting switches off, where the rate shows it."""
    settings = [
        (f"cache={fact.value}", fact.line)
        for fact in evidence.facts.with_name("vm.cache")
        if fact.value == "unsafe"
    ]
    settings += [
        (word, fact.line)
        for fact in evidence.facts.with_name("mount.options")
        for word in str(fact.value).split(",")
        if word in ("nobarrier", "barrier=0")
    ]
    if not settings or write.rate < 1000:
        return None
    word, line = settings[0]
    claim = f"{per_second(write.rate)} are not durable: {word} switches the flush off."
    text = f"{write.call} takes {seconds(write.took)}."
    step = NextStep(
        f"Measure again without {word}.", "", "The lower rate is that of durable writes."
    )
    return claim, [(text, (write.line,)), (f"{word} is set.", (line,))], step


@rule("R22", "What a flush costs on an SSD", Stage.DEVICE)
def flush_of_ssd(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        write = durable_write(result)
        disks = evidence.runs_on(result)
        if write is None or _replicated(evidence):
            continue
        if all(evidence.rotational(disk) is None for disk in disks):
            yield from _unknown_medium(place, result, write)
        if evidence.all_rotational(disks) is not False:
            continue
        cache = [evidence.facts.text(disk, "disk.write_cache") for disk in disks]
        protected = any(evidence.facts.find(disk, "disk.protection") for disk in disks)
        low, high = media.CONSUMER_SSD_FLUSHES
        if "write through" in cache or protected or write.rate >= media.PROTECTED_SSD_FLUSHES[0]:
            if write.rate > high:
                yield _protected(evidence, place, result, write, disks[0])
        elif low <= write.rate <= high and _mostly_flush(result, write):
            yield _volatile(evidence, place, result, write, disks[0])


def _unknown_medium(place: int, result: Result, write: DurableWrite) -> Iterator[Diagnosis]:
    """The pace of a run that flushes after each write, held against what media do: pg_test_fsync's, and that of fio
    where its flushes take most of the time.
    """
    shown = result.number("sync.lat.mean")
    flush = write.took if shown is None and result.kind == "pg_test_fsync" else shown
    if flush is None or flush / write.took <= FLUSH_SHARE:
        return
    low, high = media.CONSUMER_SSD_FLUSHES
    fast = write.rate >= media.PROTECTED_SSD_FLUSHES[0]
    usual = (
        "only drives with power-loss protection, or a cache that loses its data, are that fast"
        if fast
        else f"an SSD without power-loss protection does {low:,.0f} to {high:,.0f}/s, a hard disk 30 to 120/s"
    )
    yield Diagnosis(
        Verdict.FINE if fast else Verdict.LIMIT,
        f"The flush sets the pace: {per_second(write.rate)}, because each write waits {seconds(flush)} until it is "
        f"durable; {usual}.",
        "Depth, block size and MB/s matter little for such a load.",
        (
            Proof(f"{write.call}: {per_second(write.rate)}.", (write.line,))
            if shown is None
            else Proof(
                f"{seconds(flush)} of each {seconds(write.took)} are the flush.",
                (result.line("sync.lat.mean"),),
            ),
        ),
        ("The file system's journal may add a write and a flush of its own to each.",),
        (
            NextStep(
                "Paste what the disk is, and whether its cache is volatile.",
                "lsblk -d -o NAME,ROTA,TRAN,MODEL; grep . /sys/block/*/queue/write_cache",
                f"write back: each flush is real work. {PROTECTED_DRIVE}",
            ),
        ),
        confidence=0.6,
        results=(place,),
        silences=("R06",),
    )


def _replicated(evidence: Evidence) -> bool:
    return any(fact.name.startswith("replicated.") for fact in evidence.facts)


def _mostly_flush(result: Result, write: DurableWrite) -> bool:
    flush = result.number("sync.lat.mean")
    return flush is None or flush / write.took > FLUSH_SHARE


def _protected(
    evidence: Evidence, place: int, result: Result, write: DurableWrite, disk: str
) -> Diagnosis:
    cache_mode = evidence.facts.text(disk, "disk.write_cache")
    line = evidence.fact_line(disk, "disk.write_cache")
    means = (
        f"{disk} tells of no volatile cache (write through), so a flush has nothing to do"
        if cache_mode == "write through"
        else f"so {disk} seems to keep its cache through a loss of power"
    )
    proofs = [Proof(f"{write.call} takes {seconds(write.took)}.", (write.line,))]
    if line:
        proofs.append(Proof(f"write_cache of {disk}: {cache_mode}.", (line,)))
    unsynced = result.number("unsynced.write.ops")
    if unsynced and unsynced > 2 * write.rate:
        text = f"An unsynced write is {unsynced / write.rate:.0f} times cheaper: durable ones do leave memory."
        proofs.append(Proof(text, (result.line("unsynced.write.ops"),)))
    return Diagnosis(
        Verdict.FINE,
        f"{per_second(write.rate)} durable writes of {seconds(write.took)} are usual for a drive with power-loss "
        f"protection: {means}.",
        "Such a drive may answer a flush at once, because capacitors save what is in its memory.",
        tuple(proofs),
        ("Somebody may have set write through by hand on a drive without that protection.",),
        (
            NextStep(
                "Check that the data sheet of the model has power-loss protection.",
                f"cat /sys/block/{disk}/queue/write_cache; nvme id-ctrl /dev/{disk} | grep vwc"
                if disk.startswith("nvme")
                else f"smartctl -i /dev/{disk}; hdparm -W /dev/{disk}",
                "vwc 0 says that the drive itself reports no volatile cache.",
            ),
        ),
        confidence=0.85,
        results=(place,),
        silences=("R29", "R06", "R18"),
    )


def _volatile(
    evidence: Evidence, place: int, result: Result, write: DurableWrite, disk: str
) -> Diagnosis:
    cache_mode, line = (
        evidence.facts.text(disk, "disk.write_cache"),
        evidence.fact_line(disk, "disk.write_cache"),
    )
    proofs = [
        Proof(f"{write.call}: {per_second(write.rate)}, {seconds(write.took)} each.", (write.line,))
    ]
    if cache_mode:
        proofs.append(
            Proof(f"write_cache of {disk}: {cache_mode}, so its cache is volatile.", (line,))
        )
    cheaper = result.number("one.fdatasync.ops")
    if cheaper and cheaper > 1.5 * write.rate:
        text = (
            f"fdatasync: {per_second(cheaper)}, {cheaper / write.rate:.1f} times as many, "
            f"because it saves the flush of the inode."
        )
        proofs.append(Proof(text, (result.line("one.fdatasync.ops"),)))
    unsynced = result.number("unsynced.write.ops")
    if unsynced:
        text = f"Unsynced: {per_second(unsynced)}, which is memory."
        proofs.append(Proof(text, (result.line("unsynced.write.ops"),)))
    return Diagnosis(
        Verdict.LIMIT,
        f"Each durable write waits {seconds(write.took)} until {disk or 'the SSD'} has flushed its "
        f"volatile cache to flash: {per_second(write.rate)} is usual for an SSD without power-loss protection (PLP).",
        "The IOPS on the box are for writes that may stay in that cache.",
        tuple(proofs),
        ("A busy file system or other load on the disk lengthens a flush as well.",),
        (
            NextStep(
                "Measure the flush alone, with its percentiles.",
                "fio --name=flush --directory=DIRECTORY --size=64m --rw=write --bs=8k --ioengine=psync --fdatasync=1 "
                "--runtime=60 --time_based",
                f"The same rate means that the drive sets it. {PROTECTED_DRIVE}",
            ),
            NextStep(
                "Let the application flush less often: group commit, and fdatasync instead of fsync "
                "(wal_sync_method=fdatasync).",
            ),
        ),
        confidence=0.9 if cache_mode else 0.75,
        results=(place,),
        silences=("R06", "R18"),
    )


@rule("R23", "Durable writes in revolutions", Stage.DEVICE)
def revolutions(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        write, disks = durable_write(result), evidence.runs_on(result)
        if write is None or not evidence.all_rotational(disks):
            continue
        model, rpm = (
            evidence.facts.text(disks[0], "disk.model"),
            evidence.facts.number(disks[0], "disk.rpm"),
        )
        disk = media.spinning_disk(model, rpm)
        turns = write.took / disk.revolution
        if turns < LEAST_REVOLUTIONS:
            continue
        extra = turns > USUAL_REVOLUTIONS
        above = _array_words(evidence)
        why = (
            f"Each waits for more than the data: {above or 'the journal and flushes between'}."
            if extra
            else "That is usual: the data and the journal each wait for the platter."
        )
        lines = [
            evidence.fact_line(disks[0], "disk.model"),
            evidence.fact_line(disks[0], "disk.rotational"),
        ]
        proofs = [
            Proof(
                f"{per_second(write.rate)} with {write.call}: {seconds(write.took)} each.",
                (write.line,),
            ),
            Proof(
                f"{seconds(write.took)} / {seconds(disk.revolution)} = {turns:.1f} turns at {disk.rpm:,} rpm.",
                tuple(dict.fromkeys(line for line in lines if line)),
            ),
        ]
        proofs += [
            Proof(f"{f.subject} is {f.value}.", (f.line,))
            for f in evidence.facts.with_name("md.level")
        ]
        yield Diagnosis(
            Verdict.LIMIT if extra else Verdict.FINE,
            f"A durable write takes {seconds(write.took)}, about {turns:.0f} "
            f"revolution{'s' if round(turns) != 1 else ''} of a disk that spins at {disk.rpm:,} rpm. {why}",
            f"{rate(result.rate or 0)} is no bandwidth: one small write waits for the next."
            if result.rate
            else "Bandwidth says nothing here: one small write waits for the next.",
            tuple(proofs),
            ("A busy disk adds its own queue to each durable write.",),
            (
                NextStep(
                    "Measure the same on one disk alone, without the array.",
                    edit_command(result, of="/MOUNT-OF-ONE-DISK/t") if result.kind == "dd" else "",
                    "One or two revolutions (8 to 17 ms) mean that the array costs the rest: parity, "
                    "bitmap or journal.",
                ),
                NextStep(
                    f"For durable writes use an SSD as log, or a protected write cache. {PROTECTED_DRIVE}"
                ),
            ),
            confidence=0.85,
            results=(place,),
            silences=("R06", "R18") if extra else ("R06",),
        )


def _array_words(evidence: Evidence) -> str:
    """Words for what an array adds to a durable write; "" without an array."""
    words = [
        "the reads and writes of parity"
        for fact in evidence.facts.with_name("md.level")
        if str(fact.value) in ("raid4", "raid5", "raid6")
    ][:1]
    if any(fact.value != "none" for fact in evidence.facts.with_name("md.bitmap")):
        words.append("the array's bitmap")
    if any("raidz" in str(fact.value) for fact in evidence.facts.with_name("pool.vdevs")):
        words.append("a whole stripe with parity")
    return (
        ", ".join([*words, "the file system's journal"]) + ", with flushes between" if words else ""
    )
