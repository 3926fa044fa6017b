# SPDX-License-Identifier: Apache-2.0
"""Figures that memory gave: buffered reads and writes, a small working set, a repeat of the same offsets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from agents.context.model import Fact
from benchlab.diagnosis import media
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.limits import Sign, headline_figure, limit_lines, medium_limit
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule
from benchlab.diagnosis.wording import count, edit_command, ops, percent, rate, seconds, size

# B; the kernel builds no larger request (max_sectors_kb is 1,280 by default), so more a request came from memory
LARGEST_REQUEST = 2 << 20
# B/s that one thread reads through the page cache from the fastest disks; above it without a known link
BUFFERED_AT_MOST = 8e9
# B/s; the same for reads in order of a file, after the readahead of 128 KiB that is usual
READAHEAD_AT_MOST = 4e9
# reads of files in order that are this many times as fast as the writes before them were answered by memory
READ_BACK = 4.0
# B; RAID controllers have 0.5 to 8 GiB of memory (data sheets of PERC H755 and MegaRAID 9560)
CONTROLLER_MEMORY = 4 << 30
# s; a run as short as that hardly reaches the disk
SHORT_S = 5.0
# share of the tool's I/Os that must have reached the disk
REACHED = 0.5
# more tests than that are a series, whose members nobody compares one by one
A_SERIES = 60
# B; a file of that size stays in the memory of nearly every host
SURELY_CACHED = 4 << 30
# two rates farther apart than that are two measurements
APART = 2.0
# the same of direct reads, which a cache below the kernel may answer
APART_BELOW = 4.0


@rule("R01", "Reads that memory answered", Stage.BELIEVABLE)
def read_from_memory(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        if not result.reads or result.direct or result.pattern.endswith("write"):
            continue
        strong = list(_read_signs(evidence, result))
        weak = list(_short_signs(evidence, result))
        sure = bool(strong) and (result.direct is False or len(strong) + len(weak) > 1)
        if not sure and not (result.direct is False and len(weak) > 1):
            continue
        limit = medium_limit(evidence, result)
        above = limit is not None and (result.rate or 0) > limit[0]
        most = f": {limit[1]} gives at most {rate(limit[0])}" if limit and above else ""
        yield Diagnosis(
            Verdict.DOUBT,
            f"{headline_figure(result)} came from memory: {_why_buffered(result)} the page cache answered "
            f"instead of the disk{most}.",
            "The figure says how fast the host copies memory, not how fast the disk reads.",
            tuple(Proof(*sign) for sign in (*strong, *weak)),
            ("A cache of the controller or of ZFS (ARC) answers direct reads as well.",),
            (
                NextStep(
                    "Read past the page cache, over twice the memory, for a minute.",
                    _uncached(evidence, result),
                    "A much lower figure is the disk's. The same figure means a cache below the kernel.",
                    {"direct": True},
                ),
            ),
            confidence=0.95 if len(strong) > 1 else 0.85,
            results=(place,),
            silences=("R03", "R04", "R06", "R10", "R18", "R53", "R63"),
        )


def _why_buffered(result: Result) -> str:
    if result.direct is False:
        return "the reads were buffered (no direct), so"
    return "it seems that"


def _read_signs(evidence: Evidence, result: Result) -> Iterator[Sign]:
    """Signs each of which no disk can give."""
    latency, block, transfer = result.latency, result.block or 0, result.rate or 0
    for fact in _memory_mounts(evidence, result):
        yield f"{fact.subject} is {fact.value}: a file system in memory.", (fact.line,)
    models = " ".join(evidence.facts.text(d, "disk.model") for d in evidence.runs_on(result))
    fast_medium = any(word in models.lower() for word in ("optane", "pmem", "p5800x", "p4800x"))
    floor = media.OPTANE_READ_S / 2 if fast_medium else media.MEMORY_READ_S
    if latency and block <= 16 << 10 and latency < floor and not _overlaps(result):
        least = seconds(media.FLASH_READ_S)
        line = result.line("read.lat.mean") or result.line("lat.mean") or result.headline()
        text = f"Mean latency is {seconds(latency)}; a read of flash takes {least} or more."
        yield text, (line,)
    limit = medium_limit(evidence, result)
    if limit and transfer > 1.05 * limit[0]:
        lines = (result.headline(), *limit_lines(evidence, result))
        yield f"{rate(transfer)} is more than {limit[1]} can give ({rate(limit[0])}).", lines
    elif not limit and transfer > BUFFERED_AT_MOST:
        yield (
            f"{rate(transfer)} is more than one thread gets from a disk through the page cache.",
            (result.headline(),),
        )
    yield from _disk_signs(result)
    yield from _beside_signs(evidence, result)


def _overlaps(result: Result) -> bool:
    """True where readahead makes a small read in order cheap without the whole file being in memory."""
    return not result.random and (result.block or 0) < 128 << 10


def _disk_signs(result: Result) -> Iterator[Sign]:
    at_disk, counted, moved = result.disk_ios(), result.counted, result.bytes_moved
    if at_disk is None or not counted or not moved or counted < 100:
        return
    few = at_disk + result.disk_merges() < REACHED * counted
    if few if result.random else moved / max(at_disk, 1) > LARGEST_REQUEST:
        text = f"The disk did {count(at_disk)} reads for {count(counted)} of the tool's."
        yield text, (result.headline(), result.disk_line())


def _few_tests(evidence: Evidence) -> Sequence[tuple[int, Result]]:
    """The tests with their places, to be held against each other; none of a series of many measurements."""
    tests = evidence.numbered_tests
    return tests if len(tests) <= A_SERIES else ()


def _beside_signs(evidence: Evidence, result: Result) -> Iterator[Sign]:
    for _, other in _few_tests(evidence):
        alike = other.pattern == result.pattern and other.kind == result.kind
        if not alike or not other.direct or other.block != result.block:
            continue
        if result.target == other.target and (result.rate or 0) > APART * (other.rate or 1e99):
            text = f"With direct I/O the same reads give {rate(other.rate or 0)}."
            yield text, (result.headline(), other.headline())


def _short_signs(evidence: Evidence, result: Result) -> Iterator[Sign]:
    """Signs that count only beside others."""
    took, moved, transfer = result.number("runtime"), result.bytes_moved, result.rate or 0
    memory = evidence.facts.number("", "host.memory")
    fits = moved is not None and (memory is None or moved < memory)
    line = result.line("runtime") or result.headline()
    if took and took < SHORT_S and fits and transfer > media.SATA_IN_PRACTICE:
        yield f"It read {size(moved or 0)} in {seconds(took)}.", (line,)
        if memory and moved and transfer > 1e9 and medium_limit(evidence, result) is None:
            text = f"That fits into the {size(memory)} of memory."
            yield text, (evidence.fact_line("", "host.memory"),)
        if took < 1.0 and transfer > READAHEAD_AT_MOST and (moved or 0) <= SURELY_CACHED:
            yield f"{rate(transfer)} of a file that memory holds whole.", (result.headline(),)
    busy = result.number("cpu.system") or 0
    if busy > 0.9 and not result.random:
        text = f"The kernel took {percent(busy)} of the job's time: it copied memory."
        yield text, (result.line("cpu.system"),)


def _uncached(evidence: Evidence, result: Result) -> str:
    memory = evidence.facts.number("", "host.memory")
    amount: str | None = f"{round(2 * memory / media.GIB)}g" if memory else None
    if result.kind == "fio":
        changes: dict[str, Any] = {"direct": 1, "runtime": 60, "time_based": 1}
        # A file system in memory has no disk below it, and many kernels refuse direct I/O there.
        if _memory_mounts(evidence, result):
            changes |= {"filename": "/MOUNT-OF-A-DISK/test", "directory": None}
        if amount and not result.target.startswith("/dev/"):
            changes["size"] = amount
        return edit_command(result, **changes)
    if result.kind == "dd":
        return edit_command(result, iflag="direct")
    return edit_command(result, file_extra_flags="direct")


@rule("R02", "Writes that ended in memory", Stage.BELIEVABLE)
def written_to_memory(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        if not _may_end_in_memory(evidence, result):
            continue
        beside = _durable_beside(evidence, result)
        strong = list(_write_proofs(evidence, result, [other for _, other in beside]))
        proofs = [*strong, *_absorbed(result)]
        if not proofs:
            continue
        real = max((other for _, other in beside), key=lambda other: other.rate or 0, default=None)
        instead = f" The disk does about {_both_rates(real)}." if real else ""
        yield Diagnosis(
            Verdict.DOUBT,
            f"{headline_figure(result)} is how fast memory takes the writes: the tool ended before the data was "
            f"on the disk, because nothing asked for direct I/O or a flush.{instead}",
            "Runs with and without a flush are different measurements, never repeats of one.",
            tuple(Proof(*proof) for proof in proofs),
            _zero_alternatives(result),
            (
                NextStep(
                    "Include the flush in the time, or write past the page cache.",
                    _flushed(result),
                    "The lower figure is the disk's.",
                    {"end_fsync": 1},
                ),
            ),
            confidence=0.95,
            results=(place, *(other for other, _ in beside)),
            silences=("R03", *(["R04"] if strong else []), "R06", "R10", "R18", "R53"),
        )


def _both_rates(result: Result) -> str:
    """ "965 kB/s (235 IOPS)" of small blocks, "120 MB/s" of large ones."""
    small = (result.block or 0) < 128 << 10 and result.operations
    return f"{rate(result.rate or 0)}{f' ({ops(result.operations or 0)})' if small else ''}"


def _absorbed(result: Result) -> Iterator[Sign]:
    """Random writes of which the disk saw only a part until the tool ended."""
    at_disk, counted = result.disk_ios("write"), result.counted
    if result.random and at_disk is not None and counted and at_disk < REACHED * counted:
        text = f"The disk did {count(at_disk)} of the tool's {count(counted)} writes until its end."
        yield text, (result.headline(), result.disk_line("write"))


def _may_end_in_memory(evidence: Evidence, result: Result) -> bool:
    """True for writes that nothing forces to the disk before the tool's clock stops."""
    if not result.writes or result.reads or result.kind in ("pg_test_fsync", "bonnie"):
        return False
    if any(how is not False for how in (result.direct, result.durable, result.flushed_at_end)):
        return False
    memory, moved = evidence.facts.number("", "host.memory"), result.bytes_moved
    return not (memory and moved and moved > memory) and not _memory_mounts(evidence, result)


def _memory_mounts(evidence: Evidence, result: Result) -> list[Fact]:
    """Facts of the file system in memory that holds the result's target."""
    mounts = [f for f in evidence.facts.with_name("mount.type") if f.value in ("tmpfs", "ramfs")]
    return [f for f in mounts if f"{result.target}/".startswith(f"{f.subject.rstrip('/')}/")]


def _durable_beside(evidence: Evidence, result: Result) -> list[tuple[int, Result]]:
    """Runs of the same tool and block whose time holds the disk's work, at most half as fast."""
    return [
        (place, other)
        for place, other in _few_tests(evidence)
        if other.kind == result.kind
        and other.block == result.block
        and other.pattern == result.pattern
        and (other.direct or other.durable or other.flushed_at_end)
        and (other.rate or 0) * APART < (result.rate or 0)
    ]


def _write_proofs(evidence: Evidence, result: Result, beside: list[Result]) -> Iterator[Sign]:
    transfer, moved, took = result.rate or 0, result.bytes_moved or 0, result.number("runtime") or 0
    for other in beside:
        times = transfer / (other.rate or transfer)
        how = _flush_words(other)
        text = f"{rate(transfer)} without a flush, {rate(other.rate or 0)} {how}: {times:.1f} times apart."
        yield text, (result.headline(), other.headline())
    limit = medium_limit(evidence, result)
    if limit and transfer > 1.05 * limit[0]:
        lines = (result.headline(), *limit_lines(evidence, result))
        yield f"{rate(transfer)} is more than {limit[1]} can take ({rate(limit[0])}).", lines
    elif not limit and _is_kept_unwritten(transfer, moved, took):
        yield (
            f"{size(moved)} in {seconds(took)}: the kernel keeps that much unwritten.",
            (result.headline(),),
        )
    spins = evidence.all_rotational(evidence.runs_on(result))
    most = media.ANY_SPINNING.queued * max(len(evidence.runs_on(result)), 1)
    if spins and result.random and (result.operations or 0) > 2 * most:
        text = f"{ops(result.operations or 0)} at random; these disks that spin do at most {ops(most)}."
        yield text, (result.headline(), *limit_lines(evidence, result))
    memory = evidence.facts.find("", "host.memory")
    if memory and moved and (beside or limit):
        text = f"{size(moved)} fit into {size(float(memory.value))} of memory."
        yield text, (result.headline(), memory.line)


def _is_kept_unwritten(transfer: float, moved: float, took: float) -> bool:
    """True for writes that the kernel need not begin to write in that time.

    It begins after 5 s, or at 10 % of the memory (vm.dirty_expire_centisecs, vm.dirty_background_ratio).
    """
    large = transfer > 1e9 and took < SHORT_S and moved < 8 * media.GIB
    return large or (transfer > 5e8 and took < 1.0 and moved <= 256 * media.MIB)


def _flush_words(result: Result) -> str:
    if result.direct:
        return "with direct I/O"
    if result.durable:
        return "with each write durable"
    flags = result.options.get("conv") or ()
    return f"with conv={','.join(flags)}" if flags else "with a flush at the end"


def _zero_alternatives(result: Result) -> tuple[str, ...]:
    if str(result.options.get("source", "")) == "zero":
        return (
            "The data are zeros: a layer that compresses makes even a flushed figure too high.",
        )
    return ("A file system in memory (tmpfs) has nothing to flush.",)


def _flushed(result: Result) -> str:
    if result.kind == "dd":
        return edit_command(result, conv="fdatasync")
    if result.kind == "sysbench":
        return edit_command(result, file_fsync_end="on")
    return edit_command(result, end_fsync=1)


@rule("R10", "A working set that fits into a cache", Stage.BELIEVABLE)
def small_working_set(evidence: Evidence) -> Iterator[Diagnosis]:
    memory = evidence.facts.find("", "host.memory")
    for place, result in evidence.numbered_tests:
        if result.kind == "bonnie":
            yield from _small_bonnie(evidence, place, result)
        yield from _controller_cache(evidence, place, result)
        covered, moved = _bytes_option(result), result.bytes_moved
        on_zfs = any(f.name.startswith("zfs.") for f in evidence.facts)
        cached = result.direct is False or on_zfs
        if not (memory and covered and moved and result.reads and cached):
            continue
        if covered > 0.8 * float(memory.value) or moved < 3 * covered:
            continue
        past = " Direct I/O leaves the page cache out." if result.direct is False else ""
        yield Diagnosis(
            Verdict.DOUBT,
            f"The test read its {size(covered)} about {moved / covered:.0f} times over, and the host has "
            f"{size(float(memory.value))} of memory: after the first pass a cache answers.",
            "The mean mixes one pass of the disk with many of memory.",
            (
                Proof(f"{size(moved)} of reads over {size(covered)}.", (result.headline(),)),
                Proof(f"Memory: {size(float(memory.value))}.", (memory.line,)),
            ),
            ("A hot set in memory may be just what the application has.",),
            (
                NextStep(
                    "Read more than twice the memory.",
                    _sized(result, round(2 * float(memory.value) / media.GIB)),
                    f"A lower figure is the disk's; the same one means that the disk keeps up with memory.{past}",
                ),
            ),
            confidence=0.6,
            results=(place,),
            silences=("R06", "R18"),
        )


def _sized(result: Result, gib: int) -> str:
    """The tool's command over a file or files of that many GiB."""
    if result.kind == "sysbench":
        return edit_command(result, file_total_size=f"{gib}G", file_extra_flags="direct")
    return edit_command(result, size=f"{gib}g")


def _small_bonnie(evidence: Evidence, place: int, result: Result) -> Iterator[Diagnosis]:
    """bonnie++ with a file that memory holds, where it says that its reads never reached the disk."""
    memory, covered = evidence.facts.find("", "host.memory"), _bytes_option(result)
    read, limit = result.number("read.block.bandwidth"), medium_limit(evidence, result)
    above = limit is not None and read is not None and read > 1.05 * limit[0]
    if not covered or not read or (limit and not above):
        return
    proofs = [Proof(f"Reads by block: {rate(read)}.", (result.line("read.block.bandwidth"),))]
    if memory:
        if covered > float(memory.value):
            return
        has = f", and the host has {size(float(memory.value))} of memory"
        proofs.append(Proof(f"Memory: {size(float(memory.value))}.", (memory.line,)))
        twice = round(2 * float(memory.value) / media.GIB)
    else:
        # A large file is read from disks, however much faster than it was written: parity costs writes alone.
        if covered > SURELY_CACHED:
            return
        written = result.number("write.block.bandwidth")
        if not written or read < READ_BACK * max(written, media.SATA_IN_PRACTICE / READ_BACK):
            return
        has, twice = "", 0
        text = f"Writes by block: {rate(written)}, {read / written:.0f} times less."
        proofs.append(Proof(text, (result.line("write.block.bandwidth"),)))
        if "ram" in result.options:
            text = f"-r {size(float(result.options['ram']))} switches off bonnie++'s own check of the size."
            proofs.append(Proof(text, (result.first,)))
    yield Diagnosis(
        Verdict.DOUBT,
        f"bonnie++ read {rate(read)} from memory: its files have {size(covered)}{has}.",
        "Only files of twice the memory make it read the disk.",
        tuple(proofs),
        ("A controller's cache, if it is larger than the files.",),
        (
            NextStep(
                "Measure with twice the memory.",
                f"bonnie++ -d DIRECTORY -s {twice}g -n 0" if twice else "free -g",
                "The lower figure is the disk's.",
            ),
        ),
        confidence=0.9,
        results=(place,),
    )


def _controller_cache(evidence: Evidence, place: int, result: Result) -> Iterator[Diagnosis]:
    """Direct reads of a range that a RAID controller's memory holds, many times over."""
    controller = next((f for f in evidence.facts if f.name.startswith("controller.")), None)
    covered, moved = _bytes_option(result), result.bytes_moved
    if controller is None or not covered or not moved or not result.random or not result.direct:
        return
    flash = evidence.all_rotational(evidence.runs_on(result)) is False
    memory = next(iter(evidence.facts.with_name("controller.cache_size")), None)
    room = float(memory.value) if memory else CONTROLLER_MEMORY
    few = covered > room or moved < 3 * covered
    held = (
        f"its {size(room)} of memory hold that"
        if memory
        else "such a card's memory holds that much"
    )
    quick = (result.operations or 0) > 10 * media.ANY_SPINNING.queued
    if flash or few or not quick or not result.reads:
        return
    yield Diagnosis(
        Verdict.DOUBT,
        f"{headline_figure(result)} is the rate of the controller's cache: the test read its {size(covered)} about "
        f"{moved / covered:.0f} times over, and {held}.",
        "Direct I/O leaves the host's page cache out, not the controller's. fio's Disk stats count what goes to the "
        "controller, not to the disks.",
        (
            Proof(f"{size(moved)} of reads over {size(covered)}.", (result.headline(),)),
            Proof(f"Controller: {controller.value}.", (controller.line,)),
            *([Proof(f"Its memory: {size(room)}.", (memory.line,))] if memory else []),
        ),
        ("Behind the controller there may be SSDs, which are that fast themselves.",),
        (
            NextStep(
                "Read a range many times larger than the controller's memory, best the whole device.",
                edit_command(result, size="100%" if result.target.startswith("/dev/") else "64g"),
                "The lower figure is the disks'.",
            ),
        ),
        confidence=0.85,
        results=(place,),
        silences=("R06", "R57"),
    )


def _bytes_option(result: Result) -> float | None:
    """B of the file under test by the options; None where they do not tell."""
    value = result.options.get("size") or result.options.get("filesize")
    return float(value) if isinstance(value, int | float) and value > 0 else None


@rule("R13", "A repeat that finds the first run's data in memory", Stage.BELIEVABLE)
def repeated_offsets(evidence: Evidence) -> Iterator[Diagnosis]:
    tests = evidence.numbered_tests
    for (first, before), (second, after) in itertools.pairwise(tests):
        if before.kind != after.kind or not before.reads or before.writes:
            continue
        same = dict(before.options) == dict(after.options) and before.target == after.target
        if not same or before.direct is None or not before.options_complete:
            continue
        if before.direct and (not before.random or _warms_up(evidence)):
            continue
        apart = APART_BELOW if before.direct else APART
        if (after.rate or 0) < apart * (before.rate or 1e99):
            continue
        if str(before.option("randrepeat", "1")) in ("0", "False"):
            continue
        if not before.random and not _above_disks(evidence, after):
            continue
        again = "at random offsets that repeat" if before.random else "in the same file"
        direct: dict[str, object] = (
            {"iflag": "direct"} if after.kind == "dd" else {"randrepeat": 0, "direct": 1}
        )
        yield Diagnosis(
            Verdict.DOUBT,
            f"The second run is {(after.rate or 0) / (before.rate or 1):.1f} times as fast because it read the same "
            f"blocks again, {again}: "
            f"they were in {_cache_name(before)}.",
            f"The first run is the disk's, the second that of {_cache_name(before)}.",
            (
                Proof(
                    f"{headline_figure(before)}, then {headline_figure(after)} with equal options.",
                    (before.headline(), after.headline()),
                ),
            ),
            ("The first run warmed a cache below the kernel.",),
            (
                NextStep(
                    "Use other offsets, past the page cache.",
                    edit_command(after, **direct),
                    "A figure near the first run's confirms it.",
                ),
            ),
            confidence=0.85,
            results=(first, second),
            silences=("R01", "R06", "R18"),
        )


def _cache_name(result: Result) -> str:
    """The cache that answers a repeat: direct reads pass the kernel's."""
    return "the cache of the array, controller or disk" if result.direct else "memory (page cache)"


def _warms_up(evidence: Evidence) -> bool:
    """True where a cache layer or a cloud's volume is known to serve a second pass faster, which other rules tell."""
    return any(
        fact.name.startswith(("cache.", "cloud.", "zfs.", "pool.")) for fact in evidence.facts
    )


def _above_disks(evidence: Evidence, result: Result) -> bool:
    """True for a rate above that of the disks below; of unknown ones above what one thread reads through readahead."""
    limit = medium_limit(evidence, result)
    return (result.rate or 0) > (limit[0] if limit else READAHEAD_AT_MOST)
