# SPDX-License-Identifier: Apache-2.0
"""Blocks that cost the disks nothing or are read in common: never written, zeros, several jobs on one file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agents.context.model import Fact
from benchlab.diagnosis.evidence import VIRTUAL_NAMES, Evidence, Result
from benchlab.diagnosis.limits import Sign, headline_figure, limit_lines, medium_limit
from benchlab.diagnosis.loads import STACKED, disk_loads, loads_of
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule
from benchlab.diagnosis.wording import count, edit_command, percent, rate, size

# share of the tool's I/Os that must have reached the disk
REACHED = 0.5
# B/s of writes beside a test that only reads, from which the watcher saw other work
OTHER_WRITES = 1e6


@rule("R08", "Reads of blocks that were never written", Stage.BELIEVABLE)
def never_written(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        counted, at_disk = result.counted, _reads_at_disk(evidence, result)
        if not (result.direct and result.reads and counted and counted >= 1000):
            continue
        holes = _holes(evidence, result)
        few = at_disk is not None and at_disk.requested < REACHED * counted
        if not few and not (holes and at_disk is None):
            continue
        if not holes and result.target.startswith("/dev/"):
            continue
        proofs = []
        share_text = "most of its reads"
        if at_disk is not None:
            share = at_disk.requested / counted
            share_text = f"{'nearly all' if share < 0.005 else percent(1 - share)} of its reads"
            merged = f" and merged {count(at_disk.merged)}" if at_disk.merged else ""
            at_disks = f"the disks did {count(at_disk.done)}{merged}: {percent(share)}"
            text = f"The tool counted {count(counted)} reads, {at_disks}."
            proofs.append(Proof(text, (result.headline(), at_disk.line)))
        if holes:
            empty = isinstance(holes.value, float) and not isinstance(holes.value, bool)
            text = (
                f"{percent(float(holes.value))} of the thin volume {holes.subject} is written."
                if empty
                else f"{holes.subject} has blocks that were reserved and never written."
            )
            proofs.append(Proof(text, (holes.line,)))
        took = result.number("runtime")
        real = (
            f" The disks did {count(at_disk.done / took)}/s."
            if at_disk and at_disk.done and took
            else ""
        )
        yield Diagnosis(
            Verdict.DOUBT,
            f"{headline_figure(result)} is not what the disks did: {share_text} hit blocks that were never "
            f"written, which are answered with zeros.{real}",
            "Direct I/O rules the page cache out; unwritten extents and holes need no disk at all.",
            tuple(proofs),
            ("A cache between the file system and the disks that Disk stats do not count.",),
            (
                NextStep(
                    "Write the whole volume once with data, then read again."
                    if result.target.startswith("/dev/")
                    else "Write the whole file once with data, then read again; check it with filefrag -v.",
                    edit_command(
                        result,
                        rw="write",
                        bs="1M",
                        numjobs=1,
                        iodepth=8,
                        runtime=None,
                        time_based=None,
                        refill_buffers=1,
                    ),
                    "After the fill, the disks must count as many reads as the tool.",
                    risk=f"It overwrites {result.target or 'the file'}.",
                ),
            ),
            confidence=0.95 if holes else 0.8,
            results=(place,),
            silences=("R01", "R04", "R06", "R12", "R18", "R57", "R66"),
        )


def _holes(evidence: Evidence, result: Result) -> Fact | None:
    """Fact of blocks below the test that were never written, as the lines next to it tell; None without one."""
    for name in ("file.unwritten", "file.sparse"):
        fact = next((f for f in evidence.facts.with_name(name) if f.value), None)
        if fact is not None:
            return fact
    volume = result.target.removeprefix("/dev/").removeprefix("mapper/")
    shares = [
        fact
        for fact in evidence.facts.all
        if fact.name == "lv.data_share"
        and evidence.facts.text(fact.subject, "lv.type") == "thin"
        and volume in (fact.subject, fact.subject.replace("-", "--").replace("/", "-"))
        and fact.line < result.first
    ]
    # A test between the lines and this one may have filled the volume.
    written = any(
        other.writes and other.target == result.target and other.last < result.first
        for other in evidence.tests
        if shares and other.first > shares[-1].line
    )
    few = shares and not written and float(shares[-1].value) < REACHED
    return shares[-1] if few else None


@dataclass(frozen=True, slots=True)
class _DiskReads:
    """Reads that a disk did, those that the kernel merged into them, and the line that counts them."""

    done: float
    merged: float
    line: int

    @property
    def requested(self) -> float:
        """Reads that the disk was asked for, before any were merged."""
        return self.done + self.merged


def _reads_at_disk(evidence: Evidence, result: Result) -> _DiskReads | None:
    """Reads of the run that reached a disk; None where nothing counted them."""
    at_disk = result.disk_ios()
    if at_disk is not None and at_disk > 0:
        return _DiskReads(at_disk, result.disk_merges(), result.disk_line())
    took = result.number("runtime")
    for watcher in evidence.watchers:
        if watcher.kind != "iostat" or evidence.watched_test(watcher) is not result or not took:
            continue
        reads, writes = (
            sum(watcher.number(f"{way}.bandwidth", d) or 0 for d in watcher.devices)
            for way in ("read", "write")
        )
        # It watched other work: a test that only reads was not running then.
        if writes > 10 * reads and writes > OTHER_WRITES and not result.writes:
            continue
        each = [
            (watcher.number("read.iops", d) or 0, watcher.number("read.merges", d) or 0)
            for d in watcher.devices
            if not STACKED.fullmatch(d) or d.startswith(VIRTUAL_NAMES)
        ]
        done, merged = max(each, key=sum, default=(0.0, 0.0))
        if done or reads or writes:
            return _DiskReads(done * took, merged * took, watcher.first)
    return None


@rule("R09", "Zeros on a layer that compresses", Stage.BELIEVABLE)
def compressed_zeros(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        data = _compressible_data(result)
        layer = _compressing_layer(evidence, result)
        if not data or not result.writes or layer is None:
            continue
        text, line = layer
        yield Diagnosis(
            Verdict.DOUBT,
            f"{headline_figure(result)} is the speed of compression: {data}, and {text}, so nearly nothing was "
            f"written to the disks.",
            "Reading such a file back costs the disks nothing either.",
            (
                Proof(f"{data[0].upper()}{data[1:]}.", (result.first,)),
                Proof(f"Here {text}.", (line,)),
            ),
            ("Encryption above the compression makes all data look random.",),
            (
                NextStep(
                    "Write data that does not compress.",
                    _random_data(result),
                    "The lower figure is the disks'.",
                    {"refill_buffers": 1},
                ),
            ),
            confidence=0.9,
            results=(place,),
            silences=("R02", "R06"),
        )


def _compressible_data(result: Result) -> str:
    """Words for data that compress to nearly nothing; "" where they do not or nobody knows."""
    if str(result.options.get("source", "")) == "zero" or "if=/dev/zero" in result.command:
        return "dd wrote zeros"
    if result.kind == "fio":
        if result.option("zero_buffers") not in (None, False, 0, "0"):
            return "fio's buffers are zeros"
        share = result.option("buffer_compress_percentage") or result.option("compressible") or 0
        if str(share).isdecimal() and int(share) > 50:
            return f"fio's buffers compress by {share} %"
    return ""


def _compressing_layer(evidence: Evidence, result: Result) -> tuple[str, int] | None:
    for fact in evidence.facts.with_name("zfs.compression"):
        if str(fact.value).lower() not in ("off", "-"):
            return f"compression={fact.value} on {fact.subject}", fact.line
    for fact in evidence.facts.with_name("mount.options"):
        inside = not result.target or result.target.startswith(fact.subject)
        if "compress" in str(fact.value) and inside:
            return f"{fact.subject} is mounted with {fact.value}", fact.line
    for fact in evidence.facts.with_name("disk.type"):
        if fact.value == "vdo":
            return f"{fact.subject} is a VDO volume", fact.line
    limit = medium_limit(evidence, result)
    reaches = result.direct or result.flushed_at_end or result.durable
    if limit and reaches and (result.rate or 0) > 1.05 * limit[0]:
        return f"the rate is above what {limit[1]} can take ({rate(limit[0])})", result.headline()
    return None


def _random_data(result: Result) -> str:
    if result.kind != "dd":
        return edit_command(
            result, zero_buffers=None, buffer_compress_percentage=None, refill_buffers=1
        )
    amount = size(result.bytes_moved or 1 << 30).replace(" ", "").replace("iB", "")
    place = result.target or "FILE"
    return (
        f"fio --name=random --filename={place} --rw=write --bs=1M --size={amount} --ioengine=psync "
        f"--refill_buffers --end_fsync=1"
    )


@rule("R12", "Several jobs on the same blocks", Stage.BELIEVABLE)
def same_blocks(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        jobs = result.jobs or 1
        if result.kind != "fio" or jobs < 2 or result.random is not False or not result.target:
            continue
        if _own_ranges(result):
            yield from _many_streams(evidence, place, result, jobs)
            continue
        signs = list(_shared_signs(evidence, result, jobs))
        if not signs or not result.reads:
            continue
        transfer, given = result.rate or 0, _read_from_disks(evidence, result)
        measured = f" Of {rate(transfer)} the disks gave {rate(given[0])}." if given else ""
        if given:
            text = f"The disks read {rate(given[0])}, fio {rate(transfer)}."
            signs.append((text, (given[1], result.headline())))
        alone = rate(given[0] if given else transfer / jobs)
        yield Diagnosis(
            Verdict.DOUBT,
            f"The {jobs} jobs read the same blocks of one file: one of them waits for the disks, the "
            f"others find the data in a cache.{measured}",
            "numjobs clones the job with its offset, so that each clone begins at the start of the file.",
            tuple(Proof(*sign) for sign in signs),
            ("The file is in the page cache as a whole.",),
            (
                NextStep(
                    "Give each job its own range or its own file, and leave the page cache out.",
                    edit_command(result, offset_increment=f"{max(100 // jobs, 1)}%", direct=1),
                    f"Far less, such as {alone}, confirms it; a rate as before means that the disks can do that.",
                ),
            ),
            confidence=0.9,
            results=(place,),
            silences=("R01", "R06", "R10", "R18", "R63"),
        )


def _read_from_disks(evidence: Evidence, result: Result) -> tuple[float, int] | None:
    """B/s that an iostat beside the test saw its disks read, and the line; None without one."""
    for watcher in evidence.watchers:
        if watcher.kind != "iostat" or evidence.watched_test(watcher) is not result:
            continue
        loads = disk_loads(loads_of(watcher, evidence.index(watcher)))
        moved = sum(load.read_bandwidth or 0 for load in loads)
        if moved:
            return moved, max(loads, key=lambda load: load.read_bandwidth or 0).line
    return None


def _own_ranges(result: Result) -> bool:
    """True where each job has a range or a file of its own, or may have one."""
    set_options = result.options
    if (
        "offset_increment" in set_options
        or "directory" in set_options
        or "filename_format" in set_options
    ):
        return True
    has_filename = "filename" in set_options or "--filename" in result.command
    return (
        not has_filename
        or not result.options_complete
        or ":" in str(set_options.get("filename", ""))
    )


def _shared_signs(evidence: Evidence, result: Result, jobs: int) -> Iterator[Sign]:
    at_disk, counted = result.disk_ios(), result.counted
    if result.direct is False and at_disk and counted and counted / at_disk > 0.8 * jobs:
        text = f"fio counted {count(counted)} reads, the disks {count(at_disk)}: {counted / at_disk:.1f} times fewer."
        yield text, (result.headline(), result.disk_line())
    limit = medium_limit(evidence, result)
    if limit and (result.rate or 0) > 1.05 * limit[0]:
        lines = (result.headline(), *limit_lines(evidence, result))
        yield (
            f"{rate(result.rate or 0)} is more than {limit[1]} can give ({rate(limit[0])}).",
            lines,
        )


def _many_streams(evidence: Evidence, place: int, result: Result, jobs: int) -> Iterable[Diagnosis]:
    """Many streams in order are random access for disks that spin."""
    disks = evidence.runs_on(result)
    each = (result.rate or 0) / max(len(disks), 1)
    small = (result.block or 0) <= 1 << 20
    if (
        not evidence.all_rotational(disks)
        or jobs < 8 * max(len(disks), 1)
        or each > 60e6
        or not small
    ):
        return
    yield Diagnosis(
        Verdict.LIMIT,
        f"{jobs} streams at once are random access for disks that spin: each disk moves {rate(each)} "
        f"because it seeks from stream to stream.",
        "One stream alone is in order; many together are not.",
        (
            Proof(
                f"{jobs} jobs in order on {len(disks)} disks that spin.",
                (result.first, *limit_lines(evidence, result)),
            ),
            Proof(f"{rate(result.rate or 0)} in all.", (result.headline(),)),
        ),
        ("A slow member or a resync would slow one stream as well.",),
        (
            NextStep(
                "Measure one stream.",
                edit_command(result, numjobs=1),
                "100 to 250 MB/s of one disk confirms it.",
                {"numjobs": [1, 4, 16]},
            ),
        ),
        confidence=0.7,
        results=(place,),
        silences=("R06",),
    )
