# SPDX-License-Identifier: Apache-2.0
"""Parity of md arrays: small writes, and streams through a small stripe cache."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchlab.analysis.formats import rate, times_text
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.loads import (
    LARGE_REQUEST,
    Load,
    all_loads,
    any_rotational,
    array_members,
    array_name,
    at,
    changed,
    headline_lines,
    headline_text,
    member_loads,
    tests,
    writes_only,
)
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule
from benchlab.diagnosis.wording import edit_command
from benchlab.diagnosis.wording import size as size_text

# md levels with parity -> number of parity disks
PARITY = {"raid4": 1, "raid5": 1, "raid6": 2}
# Reads of the members for each write of the array: parity of small writes needs 1 to 3, docs/diagnosis.md R33.
LEAST_READS = 0.5
# Share of the members' writes that are read in a stream: below it a stripe is seldom incomplete, R35.
LEAST_STREAM_READS = 0.05
# B: mdadm's default chunk
DEFAULT_CHUNK = 512 * 1024
# pages per member: md's default is 256, and 4096 to 8192 are advised, R35
SMALL_STRIPE_CACHE = 1024
# writes/s below which an array does too little to judge it
LEAST_WRITES = 10.0
# op/s of small random I/O that a disk that spins does at most with a queue
DISK_MOST = 200.0
# percent of a core from which a thread is full
FULL_CORE = 90
MD_THREAD = re.compile(r"\bmd\d+_raid[456]\b")
STRIPE_CACHE_CHANGE = re.compile(r"stripe_cache_size|group_thread_cnt")


@dataclass(frozen=True, slots=True)
class _Array:
    """Writes to an array with parity, and what its members did for them."""

    name: str
    # "raid5"; "" if no fact tells
    level: str
    # op/s that the array was asked to write
    writes: float
    members: tuple[Load, ...]
    array_reads: float
    in_order: bool
    line: int
    result: int

    @property
    def reads_each(self) -> float:
        """Reads of the members for each write of the array, without those that were asked for."""
        return max(sum(load.reads for load in self.members) - self.array_reads, 0) / self.writes

    @property
    def writes_each(self) -> float:
        return sum(load.writes for load in self.members) / self.writes

    @property
    def label(self) -> str:
        return f"RAID {self.level.removeprefix('raid')}" if self.level else "an array with parity"


@rule("R33", "Small writes to RAID 5 or 6 that read parity first", Stage.LAYOUT)
def parity_reads(evidence: Evidence) -> Iterator[Diagnosis]:
    """Small writes for which the members read old data and parity."""
    arrays = [array for array in _arrays(evidence) if not array.in_order]
    seen = [array for array in arrays if array.reads_each >= LEAST_READS]
    for array in seen[:1]:
        yield _parity_diagnosis(evidence, array)
    if not arrays:
        yield from _parity_arithmetic(evidence)


def _parity_diagnosis(evidence: Evidence, array: _Array) -> Diagnosis:
    reads, writes = array.reads_each, array.writes_each
    busiest = max((load.util or 0 for load in array.members), default=0)
    way = "reads the other data" if len(array.members) == 3 else "reads old data and old parity"
    operations = sum(load.reads + load.writes for load in array.members)
    proofs = [
        Proof(
            f"{array.name}: {rate(array.writes, 'op/s')} of writes. Its {len(array.members)} members together: "
            f"{sum(load.reads for load in array.members):,.0f} reads/s and "
            f"{sum(load.writes for load in array.members):,.0f} writes/s, so {reads:.1f} reads and {writes:.1f} "
            "writes "
            "for each write",
            at(array.line, *(load.line for load in array.members)),
        ),
        *_level_proof(evidence, array.name),
    ]
    if busiest >= 0.9:
        full = [load for load in array.members if (load.util or 0) >= 0.9]
        proofs.append(
            Proof(
                f"{len(full)} of the members are busy {100 * busiest:.0f} % of the time",
                at(*(load.line for load in full)),
            )
        )
    return Diagnosis(
        Verdict.LIMIT,
        f"Each small write to {array.label} costs {reads:.1f} reads and {writes:.1f} writes of its disks: "
        f"{array.writes:,.0f} writes/s are {operations:,.0f} disk operations/s.",
        f"md {way}, and then writes new data and new parity (read-modify-write). The reads are parity's.",
        tuple(proofs),
        ("A resync reads as well: the members' reads must stop when the test stops.",),
        _stripe_steps(evidence, array.name, array.result),
        confidence=0.9,
        results=(array.result,),
        silences=("R20", "R36"),
    )


def _level_proof(evidence: Evidence, name: str) -> list[Proof]:
    fact = evidence.facts.find(name, "md.level")
    return [] if fact is None else [Proof(f"{name} is {fact.value}", at(fact.line))]


def _stripe_steps(evidence: Evidence, name: str, result: int) -> tuple[NextStep, ...]:
    stripe = int(_stripe_bytes(evidence, name))
    test = evidence.results[result]
    writer = next((r for _, r in tests(evidence) if r.kind == "fio" and writes_only(r)), test)
    block = f"{stripe // 1024}k"
    command = edit_command(writer, bs=block, rw="write") or (
        f"fio --name=stripe --directory=/mnt/array --size=8G --rw=write --bs={block} --direct=1 --ioengine=libaio "
        "--iodepth=4 --runtime=60 --time_based"
    )
    return (
        NextStep(
            f"Write whole stripes: {size_text(stripe)}, the chunk times the data disks.",
            command,
            "The members' reads disappear if parity is the cause; if they stay, they are not parity's.",
            {"rw": "write", "block_size": stripe},
        ),
        NextStep(
            "For random writes use RAID 10 (two writes, no read), or a write-back journal or cache on an SSD "
            "with power-loss "
            "protection (mdadm --write-journal)."
        ),
    )


def _stripe_bytes(evidence: Evidence, name: str) -> float:
    """Data of a full stripe in B."""
    members = max(len(array_members(evidence, name)), 3)
    parity = PARITY.get(evidence.facts.text(name, "md.level"), 1)
    return (evidence.facts.number(name, "md.chunk") or DEFAULT_CHUNK) * max(members - parity, 1)


def _parity_arithmetic(evidence: Evidence) -> Iterator[Diagnosis]:
    """Random small writes at the rate that parity leaves of spinning members, which nobody watched."""
    for index, result in tests(evidence):
        count, size = result.operations, result.block
        if not (writes_only(result) and result.random and count and size):
            continue
        for name, level in _parity_arrays(evidence, result):
            disks = len(array_members(evidence, name))
            cost = 2 * (1 + PARITY[level])
            most = disks * DISK_MOST / cost
            spins = any_rotational(evidence, array_members(evidence, name))
            if (
                spins is False
                or result.durable
                or size >= LARGE_REQUEST
                or not most / 10 <= count <= most
            ):
                continue
            yield Diagnosis(
                Verdict.LIMIT,
                f"{count:,.0f} small writes/s is what {disks} disks that spin do on RAID {level[4:]}: each "
                f"costs {cost} disk "
                f"operations, so {count * cost:,.0f} operations/s or {count * cost / disks:.0f} a disk.",
                f"Parity makes each small write {1 + PARITY[level]} reads and {1 + PARITY[level]} writes "
                "(read-modify-write).",
                (
                    Proof(
                        f"{count:,.0f} random writes/s of {size_text(size)}", at(result.headline())
                    ),
                    *_level_proof(evidence, name),
                ),
                ("One slow disk would look alike: iostat shows whether its await stands out.",),
                (
                    NextStep(
                        "Watch the members during the test.",
                        "iostat -xy 5",
                        f"{1 + PARITY[level]} reads and {1 + PARITY[level]} writes for each of the array's if "
                        "parity is it.",
                    ),
                    *_stripe_steps(evidence, name, index),
                ),
                confidence=0.6,
                results=(index,),
            )


def _parity_arrays(evidence: Evidence, result: Result) -> Iterator[tuple[str, str]]:
    """Arrays with parity that the test may have written to, with their levels."""
    levels = [fact for fact in evidence.facts.with_name("md.level") if str(fact.value) in PARITY]
    path = result.target
    for fact in levels:
        named = path.startswith("/dev/") and path.removeprefix("/dev/") == fact.subject
        if named or (len(levels) == 1 and not path.startswith("/dev/")):
            yield fact.subject, str(fact.value)


def _arrays(evidence: Evidence) -> Iterator[_Array]:
    """Arrays with parity whose members were watched while they were written to."""
    for index, loads in enumerate(all_loads(evidence)):
        names = [f.subject for f in evidence.facts.with_name("md.level") if str(f.value) in PARITY]
        for name in names:
            members = member_loads(evidence, name, loads)
            array = _as_array(evidence, index, name, loads, members)
            if array is not None:
                yield array
        if not names and not evidence.facts.with_name("md.level"):
            yield from _unnamed_arrays(evidence, index, loads)


def _unnamed_arrays(evidence: Evidence, index: int, loads: Mapping[str, Load]) -> Iterator[_Array]:
    """Arrays of unknown level: md devices beside three or more disks that all read alike though md was only written."""
    arrays = [name for name in loads if re.fullmatch(r"md\d+", name)]
    disks = [
        load for name, load in loads.items() if re.fullmatch(r"[shv]d[a-z]+|nvme\d+n\d+", name)
    ]
    busy = [load for load in disks if load.reads + load.writes >= 1]
    if len(arrays) != 1 or len(busy) < 3 or loads[arrays[0]].reads > 1:
        return
    reads = [load.reads for load in busy]
    if min(reads) < 0.5 * max(reads):
        return
    array = _as_array(evidence, index, arrays[0], loads, busy)
    if array is not None:
        yield array


def _as_array(
    evidence: Evidence, index: int, name: str, loads: Mapping[str, Load], members: list[Load]
) -> _Array | None:
    if len(members) < 3:
        return None
    own = loads.get(name)
    tool = next((r for _, r in tests(evidence) if (r.number("write.iops") or writes_only(r))), None)
    if own is not None and own.writes >= LEAST_WRITES:
        writes, reads, line, size = own.writes, own.reads, own.line, own.write_size
    elif tool is not None and (count := tool.number("write.iops") or tool.operations):
        writes, reads = count, tool.number("read.iops") or 0.0
        line, size = tool.headline(), tool.block
    else:
        return None
    if writes < 1:
        return None
    level = evidence.facts.text(name, "md.level")
    in_order = (size or 0) >= LARGE_REQUEST
    if tool is not None and tool.pattern:
        in_order = not tool.random
    return _Array(name, level, writes, tuple(members), reads, in_order, line, index)


@rule("R35", "RAID 5 or 6 that streams through a small stripe cache", Stage.LAYOUT)
def stripe_cache(evidence: Evidence) -> Iterator[Diagnosis]:
    """Writes in order for which the members read, or that a larger stripe cache made faster."""
    for first, before, second, after, ratio, lines in changed(evidence, STRIPE_CACHE_CHANGE, 1.3):
        yield Diagnosis(
            Verdict.LIMIT,
            f"The stripe cache (stripe_cache_size) held the array back: {headline_text(before)} before and "
            f"{headline_text(after)} "
            f"after the change, {times_text(max(ratio, 1 / ratio))} apart.",
            "md collects the parts of a stripe there. Where it is too small, stripes are written before they "
            "are whole, and "
            "parity costs reads.",
            (
                Proof(
                    f"{headline_text(before)}, then {headline_text(after)}",
                    headline_lines(before, after),
                ),
                Proof("the change between the two", lines),
            ),
            ("The order of the runs could matter: repeat the first one.",),
            (_stripe_cache_step(array_name(evidence)),),
            results=(first, second),
            silences=("R33", "R18"),
        )
        return
    thread = _full_thread(evidence)
    if thread is not None:
        name, percent, line = thread
        shown = next(((index, result) for index, result in tests(evidence)), None)
        yield Diagnosis(
            Verdict.LIMIT,
            f"md's thread {name} uses {percent:.0f} % of one core: all stripes of the array go through one thread"
            + (f" ({headline_text(shown[1])})." if shown else "."),
            "By default one kernel thread handles all stripes of an array (group_thread_cnt 0).",
            (Proof(f"{name}: {percent:.1f} % of a core", (line,)),),
            ("Small writes that read parity first use the disks up, and not the thread.",),
            (_stripe_cache_step(name.partition("_")[0]),),
            confidence=0.9,
            results=(shown[0],) if shown else (),
            silences=("R33", "R53"),
        )
        return
    for array in _arrays(evidence):
        size = evidence.facts.number(array.name, "md.stripe_cache_size")
        small = size is None or size <= SMALL_STRIPE_CACHE
        if not (
            array.in_order and small and array.reads_each > LEAST_STREAM_READS * array.writes_each
        ):
            continue
        fact = evidence.facts.find(array.name, "md.stripe_cache_size")
        told = f"it has {size:,.0f} pages" if size else "md's default of 256 pages is small"
        yield Diagnosis(
            Verdict.LIMIT,
            f"{array.label} is written in order, and yet its members read {array.reads_each:.2f} times for each "
            "write: "
            f"stripes are written before they are whole, since the stripe cache is too small ({told}).",
            "Whole stripes need no reads: md computes parity from what it has.",
            (
                Proof(
                    f"members: {sum(load.reads for load in array.members):,.0f} reads/s while {array.name} is "
                    "only written",
                    at(*(load.line for load in array.members)),
                ),
                *(
                    [Proof(f"stripe_cache_size {size:,.0f}", (fact.line,))]
                    if fact and fact.line
                    else []
                ),
                *_level_proof(evidence, array.name),
            ),
            (
                "Requests that are no multiple of the stripe, or begin within one, need reads at any cache size.",
            ),
            (_stripe_cache_step(array.name),),
            results=(array.result,),
            silences=("R33",),
        )
        return


def _full_thread(evidence: Evidence) -> tuple[str, float, int] | None:
    """Name, percent of a core and line of an array's thread that is full, as top prints it."""
    for number, line in enumerate(evidence.lines, 1):
        match = MD_THREAD.search(line) if "_raid" in line else None
        shares = [float(word) for word in re.findall(r"\d{2,3}\.\d", line)] if match else []
        full = [value for value in shares if FULL_CORE <= value <= 101]
        if match and full:
            return match[0], full[0], number
    return None


def _stripe_cache_step(name: str) -> NextStep:
    return NextStep(
        "Try a larger stripe cache (4096 to 8192 pages of 4 KiB per member), and more threads on SSDs.",
        f"echo 8192 > /sys/block/{name}/md/stripe_cache_size; echo 4 > /sys/block/{name}/md/group_thread_cnt",
        "The members' reads fall and the rate rises; if neither changes, the writes do not cover whole stripes.",
        risk="It takes memory: 4 KiB for each page and member, and is gone after a restart.",
    )
