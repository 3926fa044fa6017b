# SPDX-License-Identifier: Apache-2.0
"""Requests that do not fit the sectors of a disk: partitions, ashift, and 512e."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agents.context.model import Fact
from benchlab.analysis.formats import times_text
from benchlab.diagnosis import wording
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.loads import (
    all_loads,
    at,
    before_and_after,
    headline_text,
    is_rotational,
    tests,
    whole_disk,
)
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule

# docs/diagnosis.md R38: a second run from an aligned start is that many times as fast
LEAST_GAIN = 1.3


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
