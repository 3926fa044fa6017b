# SPDX-License-Identifier: Apache-2.0
"""Write caches that are off: of a RAID controller, and of a disk."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.context.model import Fact
from benchlab.analysis.formats import times_text
from benchlab.diagnosis import media, wording
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.loads import (
    all_loads,
    any_rotational,
    at,
    changed,
    headline_text,
    is_rotational,
    tests,
    writes_only,
)
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule

# s of a write on a disk behind a controller that writes through: R24, with a margin
SLOW_WRITE = (0.002, 0.1)
# A small write in order to a disk without a write cache takes a turn: R25, half a turn to 1.5 turns
TURN = (0.5, 1.5)
SMALL_WRITE = 64 * 1024
# share by which writes that wait for just one turn may miss its time: a disk keeps its speed within a few per mille
ONE_TURN = 0.02
CACHE_CHANGE = re.compile(
    r"hdparm -W ?[01]|write_cache|sdparm .*WCE|storcli|megacli|hpssacli|ssacli", re.IGNORECASE
)
DISK_CACHE_CHANGE = re.compile(r"hdparm -W ?[01]|sdparm .*WCE|queue/write_cache", re.IGNORECASE)
NO_BATTERY = ("learning", "failed", "absent", "charging", "degraded", "missing")


@rule("R24", "A RAID controller that writes through", Stage.LAYOUT)
def write_through_controller(evidence: Evidence) -> Iterator[Diagnosis]:
    """Writes behind a controller whose cache is not used for them, mostly for its battery."""
    modes = [
        f
        for f in evidence.facts.with_name("controller.cache_mode")
        if "through" in str(f.value).lower()
    ]
    batteries = [
        f
        for f in evidence.facts.with_name("controller.battery")
        if str(f.value).lower() in NO_BATTERY
    ]
    forced = [
        f
        for f in evidence.facts.with_name("controller.cache_mode")
        if "through" not in str(f.value).lower()
    ]
    if not batteries and not modes:
        return
    if not batteries and any_rotational(evidence) is False:
        return
    if batteries and forced and not modes and "always" in str(forced[0].value).lower():
        return
    slow = _slow_write(evidence)
    if slow is None:
        return
    index, text, line = slow
    reason = f", because its battery is {batteries[0].value}" if batteries else ""
    change = next(changed(evidence, CACHE_CHANGE, 1.5), None)
    proofs = [Proof(text, at(line))]
    proofs += [Proof(f"battery: {f.value}", at(f.line)) for f in batteries[:1]]
    proofs += [Proof(f"cache mode: {f.value}", at(f.line)) for f in modes[:1]]
    if change is not None:
        proofs.append(
            Proof(
                f"{headline_text(change[1])}, and {headline_text(change[3])} after the change: "
                f"{times_text(max(change[4], 1 / change[4]))}",
                at(change[1].headline(), change[3].headline()),
            )
        )
    yield Diagnosis(
        Verdict.LIMIT,
        f"The RAID controller writes through its cache{reason}: each write waits for the disks ({text}).",
        "With a good battery (BBU or flash-backed cache) the controller answers from its cache (write-back) "
        "within 0.1 ms, and "
        "orders the writes. A learning cycle switches that off for hours.",
        tuple(proofs),
        (
            "A cache in write-through by design, such as for SSDs.",
            "A cache that is full: then writes are slow in write-back, too.",
        ),
        (
            NextStep(
                "Read the state of the battery and of the cache policy.",
                "storcli /c0/bbu show all; storcli /c0/vall show all | grep -i cache",
                "Optimal and WB: the battery is not the cause. Learning: it ends by itself; failed or absent: "
                "replace it.",
            ),
            NextStep(
                "Only for a trial, force write-back (AWB): a power cut then loses acknowledged writes.",
                "storcli /c0/v0 set wrcache=awb",
                "The rate rises many times if the cache policy is the cause.",
                risk="A power cut then loses writes that were acknowledged.",
            ),
        ),
        confidence=0.9 if batteries else 0.65,
        results=(index,),
        silences=("R23", "R25", "R18", "R20"),
    )


def _slow_write(evidence: Evidence) -> tuple[int, str, int] | None:
    """Result, text and line of writes of milliseconds."""
    for index, test in tests(evidence):
        seconds = test.number("write.lat.mean") or (test.latency if writes_only(test) else None)
        if not seconds and test.durable and test.operations:
            seconds = 1 / test.operations
        if test.writes and seconds and seconds >= SLOW_WRITE[0]:
            return (
                index,
                f"{headline_text(test)} at {wording.seconds(seconds)} a write",
                test.headline(),
            )
        pg = next(
            (
                m
                for m in test.metrics
                if test.kind == "pg_test_fsync" and m.value and "fdatasync" in m.name
            ),
            None,
        )
        if pg is not None and pg.value and pg.value < 1 / SLOW_WRITE[0]:
            return index, f"{pg.value:,.0f} durable writes/s", pg.line
    for loads in all_loads(evidence):
        for load in loads.values():
            if load.writes >= 5 and load.write_await and load.write_await >= SLOW_WRITE[0]:
                text = f"{load.writes:,.0f} writes/s at {wording.seconds(load.write_await)} each on {load.device}"
                return load.result, text, load.line
    return None


@rule("R25", "A disk whose write cache is off", Stage.DEVICE)
def write_cache_off(evidence: Evidence) -> Iterator[Diagnosis]:
    """Small writes to a disk that spins, each of which takes a turn since the disk's own cache is off."""
    change = next(changed(evidence, DISK_CACHE_CHANGE, 1.5), None)
    facts = [
        fact
        for fact in evidence.facts
        if fact.name == "disk.write_cache" and str(fact.value) == "write through"
    ]
    if change is not None and change[1].writes:
        yield _cache_off(
            evidence, facts[0] if facts else None, change[0], change[1], change[3], change[4]
        )
        return
    spinning = [fact for fact in facts if is_rotational(evidence, fact.subject) is not False]
    for index, test in tests(evidence):
        small = (test.block or SMALL_WRITE) < SMALL_WRITE
        if not (writes_only(test) and small and test.random is False) or test.durable:
            continue
        fact = spinning[0] if spinning else _exact_turn(evidence, test)
        if fact is None:
            continue
        model = evidence.facts.text(fact.subject, "disk.model")
        disk = media.spinning_disk(model, evidence.facts.number(fact.subject, "disk.rpm"))
        if TURN[0] <= _seconds_each(test) / disk.revolution <= TURN[1]:
            yield _cache_off(evidence, fact, index, test, None, None)
            return


def _seconds_each(test: Result) -> float:
    return (test.outstanding or 1) / test.operations if test.operations else 0.0


def _exact_turn(evidence: Evidence, test: Result) -> Fact | None:
    """Fact that tells how fast the disk spins, where each direct write takes just one turn of it; None otherwise."""
    for disk in evidence.runs_on(test) if test.direct and not _protected(evidence) else ():
        model = evidence.facts.text(disk, "disk.model")
        speed = media.spinning_disk(model, evidence.facts.number(disk, "disk.rpm")).rpm
        turns = _seconds_each(test) * speed / 60
        names = ("disk.rpm", "disk.model", "disk.rotational")
        facts = [fact for name in names if (fact := evidence.facts.find(disk, name))]
        if evidence.rotational(disk) and facts and abs(turns - 1) < ONE_TURN:
            return facts[0]
    return None


def _protected(evidence: Evidence) -> bool:
    return any(fact.name.startswith("controller.") for fact in evidence.facts)


def _cache_off(
    evidence: Evidence,
    fact: Fact | None,
    index: int,
    test: Result,
    after: Result | None,
    ratio: float | None,
) -> Diagnosis:
    name = fact.subject if fact else "the disk"
    disk = fact.subject if fact else ""
    model = evidence.facts.text(disk, "disk.model")
    rpm = media.spinning_disk(model, evidence.facts.number(disk, "disk.rpm")).rpm
    has_cache_fact = fact is not None and fact.name == "disk.write_cache"
    proofs = []
    if fact:
        text = f"write cache off ({fact.value})" if has_cache_fact else f"{rpm:,} rpm"
        proofs.append(Proof(f"{name}: {text}", at(fact.line)))
    if after is not None and ratio:
        proofs.append(
            Proof(
                f"{headline_text(test)}, and {headline_text(after)} after the change: "
                f"{times_text(max(ratio, 1 / ratio))}",
                at(test.headline(), after.headline()),
            )
        )
        claim = (
            f"The write cache of {name} decides: {headline_text(test)} before its change and "
            f"{headline_text(after)} after "
            "it."
        )
    else:
        seconds = 1 / (test.operations or 1)
        proofs.append(
            Proof(
                f"{headline_text(test)}: {wording.seconds(seconds)} each, and a turn at {rpm:,.0f} rpm takes "
                f"{wording.seconds(60 / rpm)}",
                at(test.headline()),
            )
        )
        claim = (
            f"The write cache of {name} {'is off' if has_cache_fact else 'seems to be off'}: each small write in "
            f"order waits for a turn of the disk ({headline_text(test)}, {wording.seconds(seconds)} each)."
        )
    return Diagnosis(
        Verdict.LIMIT,
        claim,
        "Without its cache a disk acknowledges a write only when it is on the medium, and the next block has "
        "just passed the head.",
        tuple(proofs),
        (
            "SAS disks behind a controller with a protected cache have their own cache off by design.",
        ),
        (
            NextStep(
                "Switch the disk's cache on. That is safe under file systems and databases that flush it "
                "(barriers, fsync).",
                f"hdparm -W1 /dev/{fact.subject if fact else 'sdX'}",
                "Many times the rate for writes that are not durable; durable writes still wait for the medium.",
                risk="Programs that do not flush lose their last writes in a power cut.",
            ),
        ),
        confidence=0.85,
        results=(index, *([evidence.index(after)] if after is not None else [])),
        silences=("R18",),
    )
