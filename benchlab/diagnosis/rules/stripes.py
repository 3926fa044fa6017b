# SPDX-License-Identifier: Apache-2.0
"""Stripes at one I/O at a time, and the write-intent bitmap."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchlab.analysis.formats import rate, ratio_number, times_text
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.loads import (
    LARGE_REQUEST,
    array_members,
    array_name,
    at,
    before_and_after,
    changed,
    headline_lines,
    headline_text,
    loads_of,
    member_loads,
    reads_only,
    tests,
)
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule
from benchlab.diagnosis.wording import edit_command, seconds
from benchlab.diagnosis.wording import size as size_text

# md levels that spread requests over members
STRIPED = ("raid0", "raid10")
# a whole disk, and an array or volume that may stand on several
ONE_DISK = re.compile(r"/dev/(?:[svh]d[a-z]+|xvd[a-z]+|nvme\d+n\d+)")
AN_ARRAY = re.compile(r"/dev/(?:md\S*|dm-\d+|mapper/\S+)")
# rates of a disk and an array that differ by less are the same
EQUALLY_FAST = 1.15
BITMAP_CHANGE = re.compile(r"--bitmap(-chunk)?[= ]\S+")


@rule("R34", "Write-intent bitmap with small chunks", Stage.LAYOUT)
def write_intent_bitmap(evidence: Evidence) -> Iterator[Diagnosis]:
    """The same test twice with a change of the bitmap between, and unlike writes."""
    for first, before, second, after, ratio, lines in changed(evidence, BITMAP_CHANGE, 1.3):
        if reads_only(before):
            continue
        chunk = next(iter(evidence.facts.with_name("md.bitmap_chunk")), None)
        piece = (
            f"{size_text(float(chunk.value))} "
            if chunk and not isinstance(chunk.value, str)
            else ""
        )
        kinds = [fact for fact in evidence.facts.with_name("md.bitmap") if fact.line]
        yield Diagnosis(
            Verdict.LIMIT,
            f"The write-intent bitmap costs {times_text(max(ratio, 1 / ratio))}: {_writes_text(before)} before "
            "its change, "
            f"{_writes_text(after)} after it.",
            f"Before the first write to each {piece}chunk, md makes the chunk's bit durable on every member: a "
            "seek to the "
            "bitmap and back on disks that spin.",
            (
                Proof(
                    f"{_writes_text(before)}, then {_writes_text(after)}",
                    headline_lines(before, after),
                ),
                Proof("the bitmap was changed between", lines),
                *(
                    [Proof(f"bitmap chunk {piece.strip()}", (chunk.line,))]
                    if piece and chunk and chunk.line
                    else []
                ),
                *[Proof(f"bitmap: {fact.value}", (fact.line,)) for fact in kinds[:1]],
                *_unchanged_reads(before, after),
            ),
            ("A cache that warmed up between the runs would speed up reads as well.",),
            (
                NextStep(
                    "Keep a bitmap, with large chunks, or an external one on an SSD.",
                    f"mdadm --grow --bitmap=none /dev/{array_name(evidence)} && "
                    f"mdadm --grow --bitmap=internal --bitmap-chunk=128M /dev/{array_name(evidence)}",
                    "Nearly the rate without a bitmap. Without one, a crash costs a resync of the whole array.",
                    risk="Between the two commands a crash would cost a resync of the whole array.",
                ),
            ),
            confidence=0.9,
            results=(first, second),
            silences=("R18", "R33", "R35"),
        )
        return


def _writes_text(result: Result) -> str:
    value = result.number("write.block.bandwidth") or result.rate
    return rate(value) if value and not result.operations else headline_text(result)


def _unchanged_reads(before: Result, after: Result) -> list[Proof]:
    for name in ("read.block.bandwidth", "read.bandwidth"):
        old, new = before.number(name), after.number(name)
        if old and new and 0.8 <= new / old <= 1.25:
            lines = at(before.line(name), after.line(name))
            return [Proof(f"reads are alike: {rate(old)} and {rate(new)}", lines)]
    return []


@rule("R46", "A stripe with one I/O at a time", Stage.LAYOUT)
def one_at_a_time(evidence: Evidence) -> Iterator[Diagnosis]:
    """A test of one I/O at a time on a stripe, whose members therefore work in turn."""
    stripes = [
        (fact.subject, len(array_members(evidence, fact.subject)), fact)
        for fact in evidence.facts.with_name("md.level")
        if str(fact.value) in STRIPED
    ]
    for fact in evidence.facts.with_name("lv.stripes"):
        if not isinstance(fact.value, str):
            stripes.append((fact.subject, int(fact.value), fact))
    for index, result in tests(evidence):
        size = result.block or 0
        alone = result.outstanding == 1 and result.random and not result.durable
        for name, members, fact in stripes if alone and size <= LARGE_REQUEST else ():
            path = result.target
            if members < 2 or (path.startswith("/dev/") and not _is_device(path, name)):
                continue
            utils = _utils(evidence, name)
            yield Diagnosis(
                Verdict.LIMIT,
                f"One I/O at a time keeps one of the {members} members of {name} busy: a stripe is no faster "
                "than one disk at "
                f"depth 1 ({headline_text(result)}).",
                "Each small request goes to one member, and the next is sent when it is done. More members "
                "serve more "
                "requests at once, not one request sooner.",
                (
                    Proof(f"1 I/O in flight, {headline_text(result)}", at(result.headline())),
                    Proof(f"{name} has {members} members", at(fact.line)),
                    *(
                        [Proof(f"the members' busy times sum to {ratio_number(sum(utils))}")]
                        if utils
                        else []
                    ),
                ),
                ("A synchronous engine ignores iodepth: then raise numjobs.",),
                (
                    NextStep(
                        "Measure with more I/Os in flight.",
                        edit_command(result, ioengine="libaio", iodepth=8 * members)
                        or f"fio --name=depth --filename={path or '/mnt/array/test'} --size=8G --rw=randread --bs=4k "
                        f"--direct=1 --ioengine=libaio --iodepth={8 * members} --runtime=60 --time_based",
                        f"Up to {members} times the rate; if it stays, the members share a limit.",
                        {"iodepth": [1, members, 8 * members]},
                    ),
                ),
                confidence=0.7,
                results=(index,),
            )
            return
    yield from _beside_one_disk(evidence)


def _beside_one_disk(evidence: Evidence) -> Iterator[Diagnosis]:
    """The same single reads on one disk and on an array that no line describes: equally fast."""
    for first, one, second, other, ratio in before_and_after(evidence):
        single = [r for r in (one, other) if ONE_DISK.fullmatch(r.target)]
        array = [r for r in (one, other) if AN_ARRAY.fullmatch(r.target)]
        alone = all(
            r.asked_in_flight == 1 and r.random and (r.block or 0) <= LARGE_REQUEST
            for r in (one, other)
        )
        alike = 1 / EQUALLY_FAST <= ratio <= EQUALLY_FAST
        if len(single) != 1 or len(array) != 1 or not alone or not alike or not reads_only(one):
            continue
        waits = [f"{r.target}: {headline_text(r)}" for r in (single[0], array[0])]
        if single[0].latency and array[0].latency:
            waits = [
                f"{text}, {seconds(r.latency or 0)} each"
                for text, r in zip(waits, (single[0], array[0]), strict=True)
            ]
        yield Diagnosis(
            Verdict.LIMIT,
            f"One read at a time is served by one disk: {array[0].target} is as fast as {single[0].target} at depth 1 "
            f"({headline_text(array[0])} and {headline_text(single[0])}), and that is no fault of the array.",
            "An array adds requests that are served at once; a single one takes as long as on its disk.",
            (Proof("; ".join(waits), headline_lines(*single, *array)),),
            ("A limit that disk and array share, such as a controller.",),
            (
                NextStep(
                    "Measure the array with more I/Os in flight.",
                    edit_command(array[0], ioengine="libaio", iodepth=32),
                    "Up to as many times the rate as it has disks; if it stays, they share a limit.",
                    {"iodepth": [1, 8, 32]},
                ),
            ),
            confidence=0.75,
            results=(first, second),
            silences=("R06",),
        )
        return


def _is_device(path: str, name: str) -> bool:
    plain = path.removeprefix("/dev/").removeprefix("mapper/")
    return plain in (name, name.replace("/", "-")) or plain.startswith("md/")


def _utils(evidence: Evidence, name: str) -> list[float]:
    for index, result in enumerate(evidence.results):
        members = member_loads(evidence, name, loads_of(result, index))
        if members and all(load.util is not None for load in members):
            return [load.util or 0 for load in members]
    return []
