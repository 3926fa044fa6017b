# SPDX-License-Identifier: Apache-2.0
"""Members of arrays and pools that hold the others up: slow, uneven, or rebuilt meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from agents.context.model import Fact
from benchlab.analysis.formats import rate, ratio_number, share, times_text
from benchlab.diagnosis.evidence import Evidence
from benchlab.diagnosis.loads import (
    CLASSES,
    STACKED,
    Load,
    all_loads,
    array_members,
    at,
    disk_loads,
    is_rotational,
    member_loads,
    tests,
    vdev_groups,
    whole_disk,
    writes_only,
)
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule
from benchlab.diagnosis.rules.health import bad_health
from benchlab.diagnosis.wording import duration

# docs/diagnosis.md R40: members whose rates differ by less than this do the same work
ALIKE = 1.25
# An await that is this many times the others' is not chance.
SLOWER = 5.0
# The same where the others are less busy as well. In a closed loop the slow member keeps the requests, and the others
# wait for little: a real member behind a delay had 66 to 69 ms beside 20 ms, busy 99 % beside 82 %.
SLOWER_AND_BUSIER = 3.0
# s: below it a member is not slow, whatever the others do
LEAST_AWAIT_SPINNING, LEAST_AWAIT_FLASH = 0.020, 0.002
# the slow one is busy, and the others are less so
FULL, NOT_FULL = 0.90, 0.90
# op/s below which an await is chance
LEAST_RATE = 5.0
# shares of the space that two vdevs may use apart
UNEVEN_FILL = 0.25
# the emptier vdev takes this many times the writes of the fuller one
UNEVEN_WRITES = 3.0
# B/s of discards beside which a test is disturbed
LEAST_DISCARDS = 100e6


@rule("R40", "One member that is slower than the others", Stage.DISTURBED)
def slow_member(evidence: Evidence) -> Iterator[Diagnosis]:
    """A disk that does the same work as its peers with a much longer await."""
    seen: set[str] = set()
    for loads in all_loads(evidence):
        groups = [*vdev_groups(loads).values()] or _peers(evidence, loads)
        for group in groups:
            for way in ("write", "read"):
                slow = _slowest(evidence, group, way)
                if slow is not None and slow.name not in seen:
                    seen.add(slow.name)
                    yield _slow_diagnosis(evidence, slow, group, way)


def _peers(evidence: Evidence, loads: Mapping[str, Load]) -> list[list[Load]]:
    """Members of each array that the facts name, whatever they stand on, else all disks together."""
    groups = [
        member_loads(evidence, fact.subject, loads)
        for fact in evidence.facts.with_name("md.members")
    ]
    return [group for group in groups if len(group) > 1] or [disk_loads(loads)]


def _slowest(evidence: Evidence, group: Sequence[Load], way: str) -> Load | None:
    """The member that stands out; None without one. Members that do other work than most are left out."""
    waits = {load.device: wait for load in group if (wait := _await(load, way)) is not None}
    if len(waits) < 2:
        return None
    slow = max(
        (load for load in group if load.device in waits), key=lambda load: waits[load.device]
    )
    rates = [_rate(load, way) for load in group if load.device in waits and load is not slow]
    typical = median(rates)
    if _rate(slow, way) < LEAST_RATE or typical < LEAST_RATE:
        return None
    # A mirror reads from the side that answers sooner, so that a slow one does fewer reads.
    if max(_rate(slow, way) / typical, typical / _rate(slow, way)) > ALIKE:
        return None
    alike = [load for load in group if load.device in waits and load is not slow]
    alike = [load for load in alike if 1 / ALIKE <= _rate(load, way) / typical <= ALIKE]
    # A cache and the disk behind it take the same writes: unlike media are no peers.
    spins = is_rotational(evidence, slow.name)
    alike = [load for load in alike if is_rotational(evidence, load.name) == spins]
    if not alike:
        return None
    rest = median(waits[load.device] for load in alike)
    least = LEAST_AWAIT_FLASH if spins is False else LEAST_AWAIT_SPINNING
    others = [load.util for load in alike if load.util is not None]
    busier = slow.util is not None and slow.util >= FULL and median(others or [1]) < NOT_FULL
    if slow.util is not None and others and not busier:
        return None
    times = SLOWER_AND_BUSIER if busier and len(alike) > 1 else SLOWER
    return slow if waits[slow.device] >= max(least, times * rest) else None


def _await(load: Load, way: str) -> float | None:
    return load.write_await if way == "write" else load.read_await


def _rate(load: Load, way: str) -> float:
    return load.writes if way == "write" else load.reads


def _slow_diagnosis(evidence: Evidence, slow: Load, group: Sequence[Load], way: str) -> Diagnosis:
    others = [load for load in group if load is not slow and _await(load, way) is not None]
    waits = sorted(_await(load, way) or 0 for load in others)
    wait, rest = _await(slow, way) or 0, median(waits)
    band = (
        rate(waits[0], "s")
        if len(waits) == 1
        else f"{rate(waits[0], 's')} to {rate(waits[-1], 's')}"
    )
    disk = whole_disk(slow.name)
    proofs = [
        Proof(
            f"{way} await of {slow.name} {rate(wait, 's')}, of the others {band}: {times_text(wait / rest)} "
            "their median",
            at(slow.line, *(load.line for load in others)),
        ),
        Proof(
            f"{_rate(slow, way):.0f} {way}s/s of {slow.name} and {median([_rate(o, way) for o in others]):.0f} "
            "of the others: "
            "the same work, so a balance of bytes shows nothing",
            at(slow.line),
        ),
    ]
    utils = [load.util for load in others if load.util is not None]
    if slow.util is not None and utils:
        proofs.append(
            Proof(
                f"{slow.name} is busy {share(slow.util)} of the time, the others {share(min(utils))} to "
                f"{share(max(utils))}",
                at(slow.line),
            )
        )
    proofs += [
        Proof(
            f"{fact.subject}: {fact.name.partition('.')[2].replace('_', ' ')} {fact.value}",
            at(fact.line),
        )
        for fact in bad_health(evidence)
        if whole_disk(fact.subject) == disk
    ]
    pool = slow.device.partition("/")[0] if "/" in slow.device else ""
    stacked = not pool and STACKED.fullmatch(slow.name)
    check = NextStep(
        "Read its SMART data, then check the cable and the slot.",
        f"smartctl -a /dev/{disk}",
        "Pending or reallocated sectors: replace the disk. CRC errors: replace the cable.",
    )
    if stacked:
        check = NextStep(
            f"Look at what {slow.name} stands on, and watch each layer below it.",
            f"lsblk -s /dev/{slow.name}; dmsetup table; iostat -xy 5",
            "A layer whose own await is as long is the cause; if the disk below answers soon, the layer above is.",
        )
    offline = f"zpool offline {pool} {slow.name}" if pool else f"iostat -dxy 5 {slow.name}"
    return Diagnosis(
        Verdict.LIMIT,
        f"{slow.name} is slow and holds the others back: its {way}s take {rate(wait, 's')} where the others' take "
        f"{rate(rest, 's')} ({times_text(wait / rest)}).",
        "An array or a vdev finishes a request when its slowest member has.",
        tuple(proofs),
        (
            "A bad cable, slot or port of the controller does the same as a failing disk.",
            "A drive-managed SMR disk among CMR disks.",
        ),
        (
            check,
            NextStep(
                "Take it offline for a trial where redundancy allows, or watch it alone.",
                offline,
                "The rate comes back if this disk held it back.",
                risk="An offline member leaves less redundancy: bring it back with zpool online, and let it "
                "resilver."
                if pool
                else "",
            ),
        ),
        confidence=0.95,
        results=(slow.result,),
        silences=("R41", "R33", "R37", "R20", "R69", "R70", "R11"),
    )


@rule("R44", "A resync, a scrub or discards meanwhile", Stage.DISTURBED)
def resync_meanwhile(evidence: Evidence) -> Iterator[Diagnosis]:
    """Figures that were measured while an array or a pool rebuilt or checked itself."""
    if not evidence.results:
        return
    for fact in (
        *evidence.facts.with_name("md.sync_action"),
        *evidence.facts.with_name("pool.scan"),
    ):
        if str(fact.value) not in ("idle", "none", "frozen"):
            yield _resync_diagnosis(evidence, fact)
    for loads in all_loads(evidence):
        for load in loads.values():
            discards = evidence.results[load.result].number("discard.bandwidth", load.device) or 0
            if discards >= LEAST_DISCARDS and load.device == whole_disk(load.device):
                yield Diagnosis(
                    Verdict.DOUBT,
                    f"{load.device} discards {rate(discards)} meanwhile (TRIM): the figures are of both together.",
                    "Discards keep a disk busy as writes do, on some disks more so.",
                    (Proof(f"discards {rate(discards)}", at(load.line)),),
                    ("A test that itself trims.",),
                    (
                        NextStep(
                            "Measure again when no fstrim, blkdiscard or mkfs runs.",
                            f"iostat -dxy 5 {load.device}",
                        ),
                    ),
                    results=(load.result,),
                )
                return


def _resync_diagnosis(evidence: Evidence, fact: Fact) -> Diagnosis:
    pool = fact.name == "pool.scan"
    prefix = "pool.scan" if pool else "md.sync"
    speed = evidence.facts.find(fact.subject, f"{prefix}_speed")
    done = evidence.facts.number(fact.subject, f"{prefix}_share")
    left = evidence.facts.number(fact.subject, "md.sync_left")
    pace = ""
    if speed and not isinstance(speed.value, str):
        pace = f" at {rate(float(speed.value))} ({float(speed.value) / 1024:,.0f} KiB/s)"
    progress = f" ({share(done)} done)" if done is not None else ""
    proofs = [
        Proof(
            f"{fact.value} of {fact.subject}{progress}{pace}",
            at(fact.line, speed.line if speed else 0),
        )
    ]
    proofs += _member_proofs(evidence, fact.subject)
    rebuilds = str(fact.value) in ("resync", "recovery", "resilver", "reshape", "rebuild")
    steps = (
        NextStep(
            f"Wait until the {fact.value} has ended{f', in {duration(left)}' if left else ''}, and measure "
            "after that.",
            f"zpool wait -t {fact.value} {fact.subject}"
            if pool
            else f"mdadm --wait /dev/{fact.subject}",
            "The rate without it. If it is as low, the layout or the disks are the cause.",
        ),
        NextStep(
            "Or stop it during the test.",
            f"zpool scrub -p {fact.subject}"
            if pool
            else f"echo idle > /sys/block/{fact.subject}/md/sync_action",
            "A new array on blank disks may be made with --assume-clean for a trial."
            if fact.value == "resync"
            else "",
            risk="An array or pool that is not rebuilt has less redundancy: start it again after the test.",
        ),
    )
    return Diagnosis(
        Verdict.DOUBT,
        f"A {fact.value} of {fact.subject} runs meanwhile{progress}{pace}: the figures are those of "
        f"both together, not of the {'pool' if pool else 'array'} alone.",
        f"It {'reads and writes' if rebuilds else 'reads'} the same disks, and on disks that spin each change "
        "between the two "
        "costs a seek.",
        tuple(proofs),
        ("An array that throttles its resync to speed_limit_min disturbs little.",),
        steps,
        confidence=0.95,
        silences=("R33", "R35", "R36", "R37", "R40", "R41", "R39", "R67"),
    )


def _member_proofs(evidence: Evidence, subject: str) -> list[Proof]:
    """Reads of members while the tool only writes."""
    tool = next((result for _, result in tests(evidence) if writes_only(result)), None)
    members = {whole_disk(name) for name in array_members(evidence, subject)}
    for loads in all_loads(evidence) if tool else ():
        for load in loads.values():
            if whole_disk(load.device) in members and (load.read_bandwidth or 0) > 1e6 and tool:
                own = tool.rate
                return [
                    Proof(
                        f"{load.device} reads {rate(load.read_bandwidth or 0)} though the tool only writes"
                        + (f" {rate(own)}" if own else ""),
                        at(load.line, tool.headline()),
                    )
                ]
    return []


@rule("R41", "Vdevs that are filled unevenly", Stage.LAYOUT)
def uneven_vdevs(evidence: Evidence) -> Iterator[Diagnosis]:
    """A pool that grew, so that the emptier vdev takes most writes."""
    for index, result in enumerate(evidence.results):
        fills: dict[str, float] = {}
        for device in result.devices:
            parts = device.split("/")
            alloc, free = result.number("zpool.alloc", device), result.number("zpool.free", device)
            if len(parts) == 2 and parts[1] not in CLASSES and alloc is not None and free:
                fills[device] = alloc / (alloc + free)
        if len(fills) < 2:
            continue
        full, empty = max(fills, key=fills.__getitem__), min(fills, key=fills.__getitem__)
        writes = [result.number("zpool.write.iops", name) or 0 for name in (full, empty)]
        if fills[full] - fills[empty] < UNEVEN_FILL or writes[1] < UNEVEN_WRITES * max(
            writes[0], 1
        ):
            continue
        names = [name.rpartition("/")[2] for name in (full, empty)]
        lines = at(result.line("zpool.alloc", full), result.line("zpool.alloc", empty))
        yield Diagnosis(
            Verdict.LIMIT,
            f"The vdevs are filled unevenly: {names[0]} is {share(fills[full])} full, {names[1]} "
            f"{share(fills[empty])}, and "
            f"{names[1]} takes {ratio_number(writes[1] / max(writes[0], 1))} times the writes.",
            "ZFS writes most to the emptier vdev and never moves what is there. A pool that was extended is "
            "therefore no faster "
            "for old data, and new data comes from few disks.",
            (
                Proof(
                    f"{names[0]} {share(fills[full])} full, {names[1]} {share(fills[empty])}", lines
                ),
                Proof(f"{writes[0]:,.0f} and {writes[1]:,.0f} writes/s", lines),
            ),
            ("One vdev of slower disks takes fewer writes as well.",),
            (
                NextStep(
                    "Write the data anew, so that it spreads over all vdevs.",
                    f"zfs send -R {full.partition('/')[0]}/data@now | zfs receive {full.partition('/')[0]}/data-new",
                    "Reads of the new copy come from all vdevs alike (zpool iostat -v 5).",
                    risk="It needs the space of a second copy, until the old one is destroyed.",
                ),
            ),
            results=(index,),
        )
        return
