"""Conclusions of the five articles, claim by claim, and what BenchLab says to it from the reference library alone.

Read off the articles by eye. A claim is proven by their data, contradicted by them, or it cannot be decided: from one
repeat each, in an order that nobody told, or because the figures are not printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tests.imports.test_library import (
    AZURE,
    BCACHE,
    CACHE,
    HDD,
    NOSYNC,
    PG,
    POOL,
    QUOTED,
    RAW,
    SLOG,
    SSD,
    STRIPE,
    SYNC,
)

CENTOS, FREEBSD, CLOUD, ZVOL, BC = (
    "centos7-caches",
    "freebsd-zfs",
    "azure-iometer",
    "zvol-bonnie",
    "bcache-fio",
)
BARE = "PCIe SSD, xfs"
HDD_NONE, HDD_READ = "Azure HDD S30, host cache none", "Azure HDD S30, host cache read only"
SSD_READ, SSD_WRITE = "Azure SSD P30, host cache read only", "Azure SSD P30, host cache read/write"
FSYNC, FDATASYNC = "one.fsync.ops", "one.fdatasync.ops"
SUM = "summary at the end"
BY_ONE = "by one repeat a depth (three are needed to draw it)"
CAP = "capped at 5.1 k IOPS from 4 to 16, within 2 %"


class Holds(StrEnum):
    PROVEN = "proven"
    CONTRADICTED = "contradicted"
    OPEN = "cannot be decided"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A verdict of `line` against `base`, at a depth or without one; both figures as the article prints them."""

    line: str
    base: str
    metric: str
    value: float
    other: float
    outstanding: int | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """Words of the product on a swept line."""

    line: str
    workload: str
    says: str


@dataclass(frozen=True, slots=True)
class Finds:
    """A finding between the lines of a workload; `says` has layouts by their names in NAMES."""

    kind: str
    workload: str
    says: str


@dataclass(frozen=True, slots=True)
class Shares:
    """Words on how the disks of that name shared what was written (benchlab.analysis.devices.balance)."""

    line: str
    workload: str
    spread: str
    doers: int
    disks: str = "sd"


@dataclass(frozen=True, slots=True)
class Seen:
    """Means over what was measured, summed over such devices: {metric: value}, base units."""

    line: str
    workload: str
    devices: str
    metrics: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Lacks:
    """Gap: what the article does not print."""

    what: str


Answer = Ratio | Curve | Finds | Shares | Seen | Lacks


@dataclass(frozen=True, slots=True)
class Claim:
    """`waits`: the finding of its one run that says it."""

    article: str
    says: str
    where: str
    holds: Holds
    answers: tuple[Answer, ...]
    why: str = ""
    waits: str = ""


REACHES = Finds(
    "rating_reached_at_depth",
    AZURE,
    "{SSD} reaches what its disk is rated for at 4 outstanding: 5.10 k IOPS of 5.00 k IOPS (one repeat: not decided)",
)
P, C, O = Holds.PROVEN, Holds.CONTRADICTED, Holds.OPEN  # noqa: E741
CLAIMS = (
    Claim(
        CENTOS,
        "A writeback LVM cache ought to do about what the bare SSD does, and stays far behind it",
        "introduction",
        O,
        (
            Ratio(CACHE, BARE, FSYNC, 8113.938, 45507.091),
            Ratio(CACHE, BARE, "bandwidth", 524288000 / 90.1487, 524288000 / 6.95128),
        ),
    ),
    Claim(
        CENTOS,
        "The LVM cache is a little faster than ZFS with its log on the SSD",
        "introduction, and before the flashcache heading",
        O,
        (
            Ratio(CACHE, SLOG, FSYNC, 8113.938, 7016.477),
            Ratio(CACHE, SLOG, "bandwidth", 524288000 / 90.1487, 524288000 / 12.9542),
        ),
        "dd's figures point the other way",
    ),
    Claim(
        CENTOS,
        "Under fsyncs, which only write, the LVM cache reads much from the SSD",
        "introduction, and before the flashcache heading",
        P,
        (Seen(CACHE, PG, "dfa", (("read.bandwidth", 56192 * 1024), ("write.bandwidth", 63312 * 1024))),),
        waits="cache_read_under_writes",
    ),
    Claim(
        CENTOS,
        "Under the LVM cache the SSD is much busier than under ZFS, which wastes I/O",
        "before the flashcache heading",
        O,
        (Lacks("how busy the SSD was under ZFS is not printed"),),
        "of the SSD alone it prints 59 %, of the LVM cache 55 %",
    ),
    Claim(
        CENTOS,
        "The LVM stripe does not use its disks evenly",
        "introduction, and above the stripe's iostat table",
        P,
        (Shares(STRIPE, PG, "few", 2),),
        waits="few_members",
    ),
    Claim(
        CENTOS,
        "ZFS spreads its I/O over the twelve disks very evenly",
        "above the pool's iostat table",
        P,
        (Shares(POOL, PG, "even", 12),),
    ),
    Claim(
        CENTOS,
        "flashcache loses very little, and may be faster than the SSD itself",
        "before the flashcache heading",
        O,
        (Lacks("no figures of flashcache are printed"),),
    ),
    Claim(
        CENTOS,
        "With its log on the SSD ZFS ought to do about what the SSD does; ZFS on Linux does not",
        "introduction",
        O,
        (
            Ratio(SLOG, BARE, FSYNC, 7016.477, 45507.091),
            Finds("slog_costs", PG, "whether the log device pays is open: {SLOG} did 0.96 times the fsyncs of {POOL}"
                  " at 1 outstanding (one repeat each: not decided)"),
        ),
    ),
    Claim(
        CENTOS,
        "Between ZFS on Linux and on FreeBSD there is a large gap in fsync",
        "introduction",
        O,
        (Ratio(POOL, SYNC, FSYNC, 7312.509, 6676.001),),
        "on these machines Linux is even ahead; by one repeat each it is not decided who is",
    ),
    Claim(
        FREEBSD,
        "On the same hardware FreeBSD's ZFS does far more fsyncs than Linux (CentOS 6.5) did",
        "introduction, and above pg_test_fsync's output",
        O,
        (Lacks("the figures under CentOS 6.5 are not printed"),),
        "twelve such disks under CentOS 7 did more: 7,313",
    ),
    Claim(
        FREEBSD,
        "With that the limit of the block devices is about reached",
        "above pg_test_fsync's output",
        C,
        (Seen(SYNC, PG, "mfid", (("util", 0.29),)),),
        "its own iostat table has the twelve disks 2 to 4 % busy",
        waits="nothing_is_full",
    ),
    Claim(
        FREEBSD,
        "With sync disabled FreeBSD and Linux are about the same",
        "above the last table",
        O,
        (
            Lacks("the figures under Linux are not printed"),
            Ratio(NOSYNC, SYNC, FSYNC, 115687.300, 6676.001),
            Finds("sync_disabled", PG, "{NOSYNC} did 17.3 times the fsyncs of {SYNC} at 1 outstanding, for it makes"
                  " nothing durable: sync=disabled (one repeat each: not decided)"),
        ),
    ),
    Claim(
        CLOUD,
        "The host's cache need not make an HDD faster, and may make it slower (one outstanding I/O)",
        "below the table of the HDD's caches",
        O,
        (Ratio(HDD_READ, HDD_NONE, "iops", 512, 493, 1), Ratio(HDD, HDD_NONE, "iops", 463, 493, 1)),
    ),
    Claim(
        CLOUD,
        "More outstanding I/Os give the HDD more IOPS and a longer latency",
        "below the HDD's table over outstanding I/Os",
        P,
        (Curve(HDD, AZURE, f"about 8 outstanding (between 4 and 8, 95 %), {BY_ONE}"),),
        "up to the knee every doubling gains 5 % or more; with the reservation of one repeat",
    ),
    Claim(
        CLOUD,
        "The HDD does the 500 IOPS that it is rated for",
        "first of the HDD's results",
        O,
        (Lacks("493 of the rated 500 at one outstanding I/O, once: no sweep of it is printed"),),
    ),
    Claim(
        CLOUD,
        "With a cache one HDD becomes faster if only enough I/Os are outstanding",
        "second of the HDD's results",
        O,
        (
            Lacks("the HDD without a cache is not printed at more than one outstanding I/O"),
            Finds("rating_reached_at_depth", AZURE, "{HDD} reaches what its disk is rated for at 2 outstanding:"
                  " 633 IOPS of 500 IOPS (one repeat: not decided)"),
        ),
    ),
    Claim(
        CLOUD,
        "One outstanding I/O does not bring the SSD to its rated 5,000 IOPS",
        "above the SSD's table",
        P,
        (Curve(SSD, AZURE, f"about 4 outstanding (between 4 and 8, 95 %), {BY_ONE}; {CAP}"), REACHES),
        "1,683 at 1",
    ),
    Claim(
        CLOUD,
        "From four outstanding I/Os on the SSD does what it is rated for; more only wait longer",
        "below the SSD's table",
        P,
        (Curve(SSD, AZURE, f"about 4 outstanding (between 4 and 8, 95 %), {BY_ONE}; {CAP}"), REACHES),
        "four workers had that depth each: 16 in all",
    ),
    Claim(
        CLOUD,
        "Caches raise the SSD's IOPS distinctly (four outstanding)",
        "below the table of the SSD's caches",
        O,
        (Ratio(SSD_READ, SSD, "iops", 6143, 5095, 4), Ratio(SSD_WRITE, SSD, "iops", 6372, 5095, 4)),
    ),
    Claim(
        CLOUD,
        "The read/write cache shortens the SSD's write latency distinctly",
        "below the table of the SSD's caches",
        O,
        (Ratio(SSD_WRITE, SSD, "write.lat.mean", 0.00162, 0.00292, 4),),
    ),
    Claim(
        CLOUD,
        "A cache lowers the use of the CPU",
        "the HDD's results",
        O,
        (Lacks("how busy the CPU was is not printed"),),
    ),
    Claim(
        CLOUD,
        "An SSD answers sooner than an HDD even where it does no more IOPS",
        f"{SUM}, 2",
        O,
        (Lacks("no SSD that is rated for so few is printed"), Ratio(SSD, HDD, "lat.mean", 0.00238, 0.00861, 1)),
    ),
    Claim(
        CLOUD,
        "Software RAID with redundancy costs performance",
        f"{SUM}, 5",
        O,
        (Lacks("RAID 0's figures are pictures that the copy lacks, and RAID 5's depth is not told"),),
    ),
    Claim(
        CLOUD,
        "An LVM stripe of two does twice the IOPS of one disk, and so does RAID 0",
        "LVM; software RAID",
        O,
        (Lacks("the figures are pictures that the copy lacks"),),
    ),
    Claim(
        CLOUD,
        "A stripe that was extended to three and four disks is no faster",
        "LVM",
        O,
        (Lacks("the figures are pictures that the copy lacks"),),
    ),
    Claim(
        CLOUD,
        "RAID 5 of three makes full use of the SSDs: 3468 + 4 × 3475 = 17368 IOPS",
        "software RAID",
        O,
        (Lacks("what the disks did, and at which depth, is not printed"),),
        "the sum is more than three times the 5,101 that one SSD did at most",
    ),
    Claim(
        CLOUD,
        "RAID 5 grown from three to four disks is slower, perhaps for want of CPU",
        "software RAID",
        O,
        (Lacks("the figures are pictures that the copy lacks"),),
    ),
    Claim(
        CLOUD,
        "The SSD does distinctly more than the HDD, but needs parallel I/O for it",
        f"{SUM}, 1",
        O,
        (Ratio(SSD, HDD, "iops", 1683, 463, 1), Ratio(SSD, HDD, "iops", 5099, 833, 16)),
    ),
    Claim(
        ZVOL,
        "Of cfq, noop and deadline deadline is the best for a zvol",
        "above bonnie++'s output",
        O,
        (Lacks("the figures of cfq and noop are not printed"),),
    ),
    Claim(
        ZVOL,
        "ext4 on a zvol writes about 25 % slower than the pool itself",
        "last sentence",
        O,
        (Lacks("the figures of the pool are not printed"),),
    ),
    Claim(
        BC,
        "At depth 64 bcache does more random writes than the bare SSD",
        "below the second output",
        O,
        (
            Ratio(BCACHE, RAW, "iops", 18500, 12200, 64),
            Ratio(BCACHE, RAW, "bandwidth", 85062656, 48809984, 64),
        ),
    ),
    Claim(
        BC,
        "bcache gains by high depths: at lower ones the bare SSD is ahead",
        "list of depths",
        O,
        (
            Ratio(BCACHE, RAW, "iops", 8900, 19700, 4),
            Finds("overtakes", QUOTED, "{BCACHE} did 0.45 to 0.71 times the IOPS of {RAW} at 4, 8 and 16 outstanding,"
                  " and 1.52 times at 64 outstanding (one repeat each: not decided)"),
        ),
    ),
    Claim(
        BC,
        "The SSD's rate goes up and down with the depth",
        "below the list of depths",
        O,
        (Curve(RAW, QUOTED, f"uncertain, between 4 and 16, {BY_ONE}"),),
        "one repeat of a depth cannot tell a wave from noise",
    ),
    Claim(
        BC,
        "In random reads bcache and the bare SSD are the same",
        "last list of depths",
        O,
        (Ratio(BCACHE, RAW, "iops", 29500, 25400, 64), Ratio(BCACHE, RAW, "iops", 28200, 27600, 16)),
        "one repeat of each never says that two are the same",
    ),
)  # fmt: skip
NAMES = {"CACHE": CACHE, "STRIPE": STRIPE, "POOL": POOL, "SLOG": SLOG, "SYNC": SYNC, "NOSYNC": NOSYNC, "RAW": RAW,
         "BCACHE": BCACHE, "SSD": SSD, "HDD": HDD}  # fmt: skip
