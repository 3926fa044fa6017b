# SPDX-License-Identifier: Apache-2.0
"""Flushes as tools and watchers count them: etcd's limit, sysbench's own fsyncs, flushes among writes, journals."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.limits import PROTECTED_DRIVE, durable_write
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule
from benchlab.diagnosis.wording import count, edit_command, per_second, rate, seconds, size

# s; etcd's hardware guide: "the 99th percentile of fdatasync should be below 10 ms"
ETCD_LIMIT_S = 0.01
# fio's histogram has 64 buckets for each power of two, and a percentile is the top of its bucket
PERCENTILE_ERROR = 1 / 64
# s; etcd's bucket that the limit is in: what is in it may be on either side
ETCD_BUCKET_S = (0.008, 0.016)
# a test like etcd's log: writes of 2,300 bytes, an fdatasync behind each (etcd's own advice on fio)
ETCD_TEST = "fio --name=etcd --directory=/var/lib/etcd --rw=write --ioengine=sync --fdatasync=1 --size=22m --bs=2300"
# fsyncs for each write of sysbench from which they set its pace: a flush takes tens of times as long as a write
LEAST_SYNCS = 0.1
# a command that makes each write durable
_FLUSH_EACH = re.compile(r"\bf(?:data)?sync[= ]1\b|[=,]d?sync\b")


@rule("R28", "fdatasync as etcd needs it", Stage.DEVICE)
def fast_enough_for_etcd(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        tail, own = result.number("sync.lat.p99"), result.kind == "etcd_metrics"
        commits = own and result.options.get("call") == "commit"
        if tail is None or commits or not _like_etcd(evidence, result):
            continue
        call = "its fsyncs" if own else "fdatasync"
        mean, written = result.number("sync.lat.mean"), result.number("write.lat.mean")
        proofs = [
            Proof(
                f"99th percentile of {call}: {seconds(tail)}.",
                (result.line("sync.lat.p99"),),
            )
        ]
        if mean and written:
            text = f"{seconds(mean)} of each {seconds(mean + written)} are the flush, {seconds(written)} the write."
            proofs.append(
                Proof(text, (result.line("sync.lat.mean"), result.line("write.lat.mean")))
            )
        slow = tail >= ETCD_LIMIT_S
        borderline = (
            ETCD_BUCKET_S[0] < tail <= ETCD_BUCKET_S[1]
            if own
            else abs(tail / ETCD_LIMIT_S - 1) < PERCENTILE_ERROR
        )
        word = "Borderline" if borderline else "Too slow" if slow else "Fast enough"
        margin = f", as exactly as {'its buckets' if own else 'fio'} can tell" if borderline else ""
        short = not own and (result.number("runtime") or 60) < 30
        yield Diagnosis(
            Verdict.LIMIT if slow else Verdict.FINE,
            f"{word} for etcd: the 99th percentile of {call} is {seconds(tail)}{margin}, "
            f"and etcd wants less than 10 ms.",
            "Only the flush counts for a write-ahead log, not MB/s.",
            tuple(proofs),
            ("The run was shorter than 30 s, so its percentile is uncertain.",) if short else (),
            (
                NextStep(
                    f"Use an SSD for etcd alone. {PROTECTED_DRIVE}"
                    if slow
                    else "Measure it again while the node has its usual load.",
                    ETCD_TEST
                    if own
                    else edit_command(result, fdatasync=1, runtime=60, time_based=1),
                    "Below 10 ms at p99 is enough. In operation watch etcd_disk_wal_fsync_duration_seconds.",
                ),
            ),
            confidence=0.7 if short else 0.92,
            results=(place,),
            silences=("R18", "R23", "R06", *(() if evidence.runs_on(result) else ("R22",))),
        )


def _like_etcd(evidence: Evidence, result: Result) -> bool:
    """True for a test of a write-ahead log: small writes in order, an fdatasync after each, one at a time.

    Blocks of whole sectors are other databases' as well.
    """
    if "etcd" in result.command or any("etcd" in line.lower() for line in evidence.lines[:400]):
        return True
    block = result.block or 0
    alone = result.random is False and result.asked_in_flight == 1
    each = result.options.get("fdatasync") in (1, "1", True)
    return alone and each and block <= 8192 and block % 512 != 0


# s a buffered write takes at least if it waits for a disk that spins, and bytes that the kernel takes without waiting
# (vm.dirty_background_bytes is 10 % of memory by default)
WAITS_S, SURELY_BUFFERED = 2e-3, 64 << 20


@rule("R74", "Writes that wait for the disk though nothing asks for it", Stage.LAYOUT)
def synchronous_mount(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        operations, jobs = result.operations or 0, result.jobs or 1
        if not _should_end_in_memory(result) or not operations:
            continue
        took = jobs / operations
        if took < WAITS_S or (result.counted or 0) < 20 or (result.block or 1 << 40) > 1 << 20:
            continue
        target = result.target or "."
        yield Diagnosis(
            Verdict.LIMIT,
            f"Each write of {size(result.block or 0)} waits {seconds(took)}, though nothing asks for it: memory would "
            f"take {size(result.bytes_moved or 0)} at once. Probably the file system makes each write durable: it is "
            "mounted with the option sync, or a server does that.",
            f"{rate(result.rate or 0)} is the rate of durable writes and not what the disk streams.",
            (
                Proof(
                    f"{jobs:.0f} / {per_second(operations)} = {seconds(took)} a write, buffered, without a flush.",
                    (result.headline(),),
                ),
            ),
            (
                "A file system that writes out when a file is closed (NFS, FAT mounted with flush).",
                "A file system in user space (FUSE, NTFS), or a disk that fails.",
            ),
            (
                NextStep(
                    "Look at the mount's options, and watch the disk meanwhile.",
                    f"findmnt -no OPTIONS,FSTYPE,SOURCE -T {shlex.quote(target)}",
                    "Without sync among them, a long await in iostat -xy 1 means that the disk itself is slow.",
                ),
            ),
            confidence=0.8,
            results=(place,),
            silences=("R02", "R18"),
        )


def _should_end_in_memory(result: Result) -> bool:
    """True for buffered writes, without a flush or a pause, of an amount that memory takes at once."""
    if result.kind not in ("dd", "fio") or result.reads or not result.writes or result.is_paced:
        return False
    forced = (result.direct, result.durable, result.flushed_at_end)
    # another source may be what is slow
    from_memory = result.kind == "fio" or result.options.get("source") == "zero"
    amount = result.bytes_moved
    return (
        forced == (False, False, False)
        and from_memory
        and bool(amount)
        and (amount or 0) <= SURELY_BUFFERED
    )


@rule("R30", "sysbench's own fsyncs", Stage.ASKED)
def sysbench_fsyncs(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        flushes, writes = result.number("fsync.ops"), result.number("write.iops")
        files, every = result.options.get("files"), result.options.get("fsync_freq")
        requests = (writes or 0) + (result.number("read.iops") or 0)
        counted = flushes is not None
        if not counted and isinstance(files, int) and isinstance(every, int) and every:
            # its report was cut down to MiB/s: as often as it was asked to
            flushes = requests * files / every
        if (
            result.kind != "sysbench"
            or not flushes
            or not writes
            or flushes < LEAST_SYNCS * writes
            or not every
        ):
            continue
        if not isinstance(files, int) or files < 8 or result.options.get("fsync_all"):
            continue
        noun = "requests" if requests > writes else "writes"
        yield Diagnosis(
            Verdict.LIMIT,
            f"{count(writes)} writes a second come with {'' if counted else 'about '}{count(flushes)} fsyncs: sysbench "
            f"syncs each of its {files} files after {'each request' if every == 1 else f'every {every} requests'}, so "
            "the flush sets the pace and not the writes.",
            "More threads wait for the same flushes.",
            (
                Proof(
                    f"{count(flushes)} fsyncs / {count(requests)} {noun} = {flushes / requests:.2f}; "
                    f"{files} files / {every} request{'s' if every != 1 else ''} = {files / every:.2f}.",
                    tuple(filter(None, (result.line("fsync.ops"), result.line("write.iops")))),
                ),
            ),
            ("One thread with 16 KiB at a time is slow on any disk without a queue.",),
            (
                NextStep(
                    "Measure one file without the periodic fsync, past the page cache.",
                    edit_command(result, file_num=1, file_fsync_freq=0, file_extra_flags="direct"),
                    "Far more writes confirm it. For durable writes keep the fsync and read its rate instead.",
                    {"files": 1, "fsync_freq": 0, "extra_flags": "direct"},
                ),
            ),
            confidence=0.9,
            results=(place,),
            silences=("R18", "R52"),
        )


@rule("R21", "Flushes that are counted as writes", Stage.NOTE)
def flushes_counted(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, watcher in enumerate(evidence.results):
        if watcher.kind != "iostat":
            continue
        for device in watcher.devices:
            writes, flushes = (
                watcher.number("write.iops", device),
                watcher.number("flush.iops", device),
            )
            moved = watcher.number("write.bandwidth", device)
            if not writes or not flushes or not moved or not 0.48 <= flushes / writes <= 0.52:
                continue
            real = writes - flushes
            block = moved / real
            test = evidence.watched_test(watcher)
            requested = test.block if test else None
            fits = abs(block / requested - 1) < 0.03 if requested else _halved(evidence, block)
            if not fits:
                continue
            yield Diagnosis(
                Verdict.FINE,
                f"Both are right: a flush follows each write, and iostat counts the flush, which moves nothing, as a "
                f"write. The durable writes are {count(real)}/s of {size(block)}.",
                "Half of the writes being flushes also halves the mean request size.",
                (
                    Proof(
                        f"{count(writes)} w/s - {count(flushes)} f/s = {count(real)}; "
                        f"{rate(moved)} / {count(real)} = {size(block)}.",
                        (watcher.line("write.iops", device), watcher.line("flush.iops", device)),
                    ),
                ),
                (),
                (
                    NextStep(
                        "For the rate without flushes, measure without fsync.",
                        edit_command(test, fsync=None, fdatasync=None) if test else "",
                        "f/s falls to 0 and w/s equals the tool's IOPS.",
                    ),
                ),
                confidence=0.95,
                results=(place,),
                silences=("R38", "R27"),
            )


def _halved(evidence: Evidence, block: float) -> bool:
    """True where the size without flushes is one of blocks, and half of it is not, or a command flushes each write."""
    flushes_each = any(_FLUSH_EACH.search(line) for line in evidence.lines)
    return block < 2 * 4096 * 0.99 or (
        flushes_each and abs(block / 4096 - round(block / 4096)) < 0.02
    )


@rule("R27", "Several writes for one durable write", Stage.LAYOUT)
def double_flush(evidence: Evidence) -> Iterator[Diagnosis]:
    for watcher in evidence.watchers:
        test = evidence.watched_test(watcher)
        write = durable_write(test) if test else None
        if test is None or write is None or watcher.kind != "iostat":
            continue
        for device in watcher.devices:
            writes, flushes = (
                watcher.number("write.iops", device),
                watcher.number("flush.iops", device),
            )
            requested = test.operations or write.rate
            if (
                not writes
                or not flushes
                or flushes < 1.5 * requested
                or not 1.8 <= writes / requested <= 6
            ):
                continue
            each, text, line = _writes_each(test, device, writes, requested)
            yield Diagnosis(
                Verdict.LIMIT,
                f"Each durable write costs {device} about {each:.0f} writes and "
                f"{each * flushes / writes:.0f} flushes: "
                f"the data and the file system's journal, with a flush between.",
                "The journal's commit doubles the wait.",
                (
                    Proof(text, (line or watcher.line("write.iops", device), test.headline())),
                    Proof(
                        f"{device}: {count(flushes)} f/s beside {count(writes)} w/s: "
                        f"{flushes / writes:.2f} flushes for each write.",
                        (watcher.line("flush.iops", device),),
                    ),
                ),
                ("Another writer on the disk.",),
                (
                    NextStep(
                        "Write into a file that is laid out beforehand, with fdatasync instead of fsync.",
                        edit_command(test, overwrite=1, fsync=None, fdatasync=1),
                        "One write and one flush each confirm the journal.",
                    ),
                ),
                confidence=0.75,
                results=(evidence.index(test), evidence.index(watcher)),
            )


def _writes_each(
    test: Result, device: str, writes: float, requested: float
) -> tuple[float, str, int]:
    """Writes of the device for each of the test's, in words as well, and the line that counts them.

    fio's Disk stats cover the whole run; a watcher's intervals only a part of it.
    """
    done, counted = test.number("disk.write.ios", device), test.number("write.ios")
    if done and counted:
        text = f"{device} did {count(done)} writes for {count(counted)} of the tool: {done / counted:.1f} each."
        return done / counted, text, test.line("disk.write.ios", device)
    text = f"{device}: {count(writes)} w/s while iostat watched, for {per_second(requested)} over the tool's run."
    return writes / requested, text, 0
