# SPDX-License-Identifier: Apache-2.0
"""Links, schedulers, readahead and spans of disks, and what %util is not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchlab.analysis.formats import rate, share, times_text
from benchlab.diagnosis import media, wording
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.loads import (
    STACKED,
    all_loads,
    any_rotational,
    at,
    changed,
    headline_text,
    is_rotational,
    reads_only,
    tests,
)
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule

# docs/diagnosis.md R20: busy all the time with few requests at once
BUSY, FEW_REQUESTS = 0.95, 16.0
# op/s and s of a request that no disk that spins reaches at random
FLASH_RATE, FLASH_TIME = 2000.0, 0.002
# another readahead changes a stream by more than chance: R71
LEAST_GAIN = 1.3
# R51: share of the link from which it is the limit; USB's mass storage carries less of it
AT_LINK, NEAR_SLOW_LINK = 0.80, 0.55
# B/s of data over USB 2.0 in practice: media.USB has 45 MB/s at most
USB2 = (26e6, 45e6)
# B/s: a link below SATA 6 Gb/s is a narrow one
NARROW_LINK = 560e6
# R55: op/s from which a scheduler's work is felt on NVMe
MANY_IOPS = 100_000.0
SCHEDULERS = ("bfq", "mq-deadline", "kyber", "cfq", "deadline")
# B: readahead below which a stream of small requests waits for each of them; the kernel's default is 128 KiB
SMALL_READAHEAD = 32 * 1024
# R06: over less of a disk than this, seeks are short
SHORT_STROKE = 0.05
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


# B/s of large reads from a SATA 6 Gb/s SSD in practice: below media.SATA_IN_PRACTICE by less than a tenth
SATA_READS = (510e6, media.SATA_IN_PRACTICE)
SD_DISK = re.compile(r"/dev/sd[a-z]{1,3}\d*")


@rule("R51", "A link that is slower than the disk", Stage.CAP)
def narrow_link(evidence: Evidence) -> Iterator[Diagnosis]:
    """A test at the rate that its disk's link carries."""
    for index, result in tests(evidence):
        bandwidth = max(
            (v for v in (result.rate, *_watched_rates(evidence, index)) if v), default=0.0
        )
        disks = dict.fromkeys((*evidence.runs_on(result), *_linked(evidence)))
        if not disks and _looks_like_sata(result):
            yield _sata(index, result)
            return
        for disk in disks:
            fact = evidence.facts.find(disk, "disk.link_speed")
            if fact is None and _looks_like_usb2(evidence, disk, result):
                yield _usb2(index, result, disk)
                return
            if fact is None or isinstance(fact.value, str) or not bandwidth:
                continue
            speed, most = float(fact.value), evidence.facts.number(disk, "disk.link_max")
            lower = most is not None and most > 1.2 * speed
            usb = speed <= media.USB2_LINE or evidence.facts.text(disk, "disk.transport") == "usb"
            least = NEAR_SLOW_LINK if usb or lower else AT_LINK
            least = USB2[0] / media.USB2_LINE if speed <= media.USB2_LINE else least
            if not least <= bandwidth / speed <= 1.05:
                continue
            at_best = speed >= NARROW_LINK and not lower
            named = result.target.removeprefix("/dev/") if result.target.startswith("/dev/") else ""
            name = named or next(iter(evidence.runs_on(result)), disk)
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


def _looks_like_sata(result: Result) -> bool:
    """True for large direct reads of one sd disk, several at once, at the rate that SATA 6 Gb/s carries."""
    large = reads_only(result) and result.random is False and (result.block or 0) >= 128 * 1024
    several = bool(result.direct) and (result.asked_in_flight or 0) >= 4
    at_link = SATA_READS[0] <= (result.rate or 0) <= SATA_READS[1]
    return large and several and at_link and bool(SD_DISK.fullmatch(result.target))


def _sata(index: int, result: Result) -> Diagnosis:
    disk = result.target.removeprefix("/dev/")
    return Diagnosis(
        Verdict.FINE,
        f"{disk} reads {rate(result.rate or 0)}, as much as a SATA link of 6 Gb/s carries (at most about "
        f"{rate(media.SATA_IN_PRACTICE)}). If it is a SATA SSD, the link is the limit.",
        "More requests at once would only wait longer. A faster stream needs another interface, or several disks.",
        (Proof(headline_text(result), at(result.headline())),),
        ("A cap of the controller or of a cloud volume, or a SAS disk, that is just as fast.",),
        (
            NextStep(
                "Look at what the link negotiated.",
                "lsblk -o NAME,MODEL,TRAN,ROTA; dmesg | grep -i 'link up'",
                "6.0 Gbps and TRAN sata confirm it.",
            ),
        ),
        confidence=0.7,
        results=(index,),
    )


def _looks_like_usb2(evidence: Evidence, disk: str, result: Result) -> bool:
    """True for large reads of a USB disk at the rate that USB 2.0 carries, and no disk of today is as slow as."""
    usb = evidence.facts.text(disk, "disk.transport") == "usb"
    large = reads_only(result) and result.random is False and (result.block or 0) >= 64 * 1024
    return usb and large and USB2[0] <= (result.rate or 0) <= USB2[1]


def _usb2(index: int, result: Result, disk: str) -> Diagnosis:
    return Diagnosis(
        Verdict.LIMIT,
        f"{disk} reads {rate(result.rate or 0)} over USB: that is what a USB 2.0 link (480 Mb/s) carries.",
        "A disk, cable, hub or port that is not USB 3 makes the whole link USB 2.0.",
        (Proof(headline_text(result), at(result.headline())),),
        ("A slow USB stick reads at such a rate over any link.",),
        (
            NextStep(
                "Look at the link, then try a blue or USB-C port and another cable.",
                "lsusb -t",
                "480M behind the disk: USB 2.0. 5000M or more: the disk itself.",
            ),
        ),
        confidence=0.6,
        results=(index,),
        silences=("R06",),
    )


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
