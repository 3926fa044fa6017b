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
BY_ONE = "from one repeat per depth (three are needed to draw it)"
CAP = "from there on 5.1 k IOPS, within 0.1 %"


class Holds(StrEnum):
    PROVEN = "proven"
    CONTRADICTED = "contradicted"
    OPEN = "undecided"


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
    """Words on how the disks of that name shared what was written (benchlab.analysis.devices)."""

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
    "{SSD} reaches the rating of its disk at 4 outstanding: 5.10 k IOPS against 5.00 k IOPS rated (one repeat: not"
    " decided)",
)
P, C, O = Holds.PROVEN, Holds.CONTRADICTED, Holds.OPEN  # noqa: E741
CLAIMS = (
    Claim(
        CENTOS,
        "A writeback LVM cache should be about as fast as the SSD alone, but is far slower",
        "introduction",
        O,
        (
            Ratio(CACHE, BARE, FSYNC, 8113.938, 45507.091),
            Ratio(CACHE, BARE, "bandwidth", 524288000 / 90.1487, 524288000 / 6.95128),
        ),
    ),
    Claim(
        CENTOS,
        "The LVM cache is slightly faster than ZFS with its log on the SSD",
        "introduction, and before the flashcache heading",
        O,
        (
            Ratio(CACHE, SLOG, FSYNC, 8113.938, 7016.477),
            Ratio(CACHE, SLOG, "bandwidth", 524288000 / 90.1487, 524288000 / 12.9542),
        ),
        "dd shows the opposite",
    ),
    Claim(
        CENTOS,
        "During fsyncs, which only write, the LVM cache reads much from the SSD",
        "introduction, and before the flashcache heading",
        P,
        (Seen(CACHE, PG, "dfa", (("read.bandwidth", 56192 * 1024), ("write.bandwidth", 63312 * 1024))),),
        waits="cache_read_under_writes",
    ),
    Claim(
        CENTOS,
        "The SSD is much busier under the LVM cache than under ZFS, which wastes I/O",
        "before the flashcache heading",
        O,
        (Lacks("the SSD's utilisation under ZFS is not printed"),),
        "SSD alone: 59 %; LVM cache: 55 %",
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
        "ZFS spreads its I/O very evenly over the twelve disks",
        "above the pool's iostat table",
        P,
        (Shares(POOL, PG, "even", 12),),
    ),
    Claim(
        CENTOS,
        "flashcache costs very little, and may be faster than the SSD itself",
        "before the flashcache heading",
        O,
        (Lacks("no figures of flashcache are printed"),),
    ),
    Claim(
        CENTOS,
        "ZFS with its log on the SSD should be about as fast as the SSD; on Linux it is not",
        "introduction",
        O,
        (
            Ratio(SLOG, BARE, FSYNC, 7016.477, 45507.091),
            Ratio(SLOG, POOL, FDATASYNC, 6107.726, 8086.756),
            Finds("slog_costs", PG, "it is undecided whether the log device (dfa) helps: {SLOG} did 0.76 times the"
                  " fdatasyncs of {POOL} at 1 outstanding (one repeat each: not decided)"),
        ),
    ),
    Claim(
        CENTOS,
        "ZFS on Linux and on FreeBSD differ widely in fsync",
        "introduction",
        O,
        (Ratio(POOL, SYNC, FSYNC, 7312.509, 6676.001),),
        "on these machines Linux is even ahead, but one repeat each decides nothing",
    ),
    Claim(
        FREEBSD,
        "On the same hardware ZFS does far more fsyncs on FreeBSD than on Linux (CentOS 6.5)",
        "introduction, and above pg_test_fsync's output",
        O,
        (Lacks("the figures under CentOS 6.5 are not printed"),),
        "twelve such disks under CentOS 7 reached more: 7,313",
    ),
    Claim(
        FREEBSD,
        "That is about the limit of the block devices",
        "above pg_test_fsync's output",
        C,
        (Seen(SYNC, PG, "mfid", (("util", 0.29),)),),
        "its iostat table shows the twelve disks 2 to 4 % busy",
        waits="nothing_is_full",
    ),
    Claim(
        FREEBSD,
        "With sync disabled FreeBSD and Linux are about equal",
        "above the last table",
        O,
        (
            Lacks("the figures under Linux are not printed"),
            Ratio(NOSYNC, SYNC, FSYNC, 115687.300, 6676.001),
            Finds("sync_disabled", PG, "{NOSYNC} did 17.3 times the fsyncs of {SYNC} at 1 outstanding (one repeat"
                  " each: not decided): with sync=disabled a sync returns before the data is on disk, and a crash loses"
                  " up to the last transaction group (5 s by default)"),
        ),
    ),
    Claim(
        CLOUD,
        "The host cache does not always make an HDD faster, and may make it slower at one outstanding I/O",
        "below the table of the HDD's caches",
        O,
        (Ratio(HDD_READ, HDD_NONE, "iops", 512, 493, 1), Ratio(HDD, HDD_NONE, "iops", 463, 493, 1)),
    ),
    Claim(
        CLOUD,
        "More outstanding I/Os give the HDD more IOPS and a longer latency",
        "below the HDD's table over outstanding I/Os",
        P,
        (Curve(HDD, AZURE, f"about 8 outstanding (between 4 and 8, 95 %); {BY_ONE}"),),
        "up to the knee every doubling gains 5 % or more, with one repeat only",
    ),
    Claim(
        CLOUD,
        "The HDD reaches its rated 500 IOPS",
        "first of the HDD's results",
        O,
        (Lacks("493 at one outstanding I/O; no sweep is printed"),),
    ),
    Claim(
        CLOUD,
        "With a cache one HDD becomes faster if enough I/Os are outstanding",
        "second of the HDD's results",
        O,
        (
            Lacks("the HDD without a cache is printed at one outstanding I/O only"),
            Finds("rating_reached_at_depth", AZURE, "{HDD} exceeds the rating of its disk at 2 outstanding:"
                  " 633 IOPS against 500 IOPS rated (one repeat: not decided)"),
        ),
    ),
    Claim(
        CLOUD,
        "With one outstanding I/O the SSD does not reach its rated 5,000 IOPS",
        "above the SSD's table",
        P,
        (Curve(SSD, AZURE, f"about 4 outstanding, {CAP}; {BY_ONE}"), REACHES),
        "1,683 at 1",
    ),
    Claim(
        CLOUD,
        "From four outstanding I/Os on the SSD reaches its rating; more only wait longer",
        "below the SSD's table",
        P,
        (Curve(SSD, AZURE, f"about 4 outstanding, {CAP}; {BY_ONE}"), REACHES),
        "four workers, each with that depth: 16 outstanding in all",
    ),
    Claim(
        CLOUD,
        "Caches raise the SSD's IOPS clearly at four outstanding I/Os",
        "below the table of the SSD's caches",
        O,
        (Ratio(SSD_READ, SSD, "iops", 6143, 5095, 4), Ratio(SSD_WRITE, SSD, "iops", 6372, 5095, 4)),
    ),
    Claim(
        CLOUD,
        "The read/write cache clearly shortens the SSD's write latency",
        "below the table of the SSD's caches",
        O,
        (Ratio(SSD_WRITE, SSD, "write.lat.mean", 0.00162, 0.00292, 4),),
    ),
    Claim(
        CLOUD,
        "A cache lowers CPU usage",
        "the HDD's results",
        O,
        (Lacks("CPU usage is not printed"),),
    ),
    Claim(
        CLOUD,
        "An SSD has a lower latency than an HDD even at equal IOPS",
        f"{SUM}, 2",
        O,
        (Lacks("no SSD with such a low rating is printed"), Ratio(SSD, HDD, "lat.mean", 0.00238, 0.00861, 1)),
    ),
    Claim(
        CLOUD,
        "Software RAID with redundancy costs performance",
        f"{SUM}, 5",
        O,
        (Lacks("RAID 0's figures are pictures, which our copy lacks; RAID 5's depth is unknown"),),
    ),
    Claim(
        CLOUD,
        "An LVM stripe or RAID 0 of two disks has twice the IOPS of one",
        "LVM; software RAID",
        O,
        (Lacks("printed as pictures, which our copy lacks"),),
    ),
    Claim(
        CLOUD,
        "A stripe extended to three and four disks is no faster",
        "LVM",
        O,
        (Lacks("printed as pictures, which our copy lacks"),),
    ),
    Claim(
        CLOUD,
        "RAID 5 of three uses the SSDs fully: 3468 + 4 × 3475 = 17368 IOPS",
        "software RAID",
        O,
        (Lacks("neither the disks' work nor the depth is printed"),),
        "the sum exceeds three times the 5,101 IOPS of one SSD",
    ),
    Claim(
        CLOUD,
        "RAID 5 grown from three to four disks is slower, perhaps for lack of CPU",
        "software RAID",
        O,
        (Lacks("printed as pictures, which our copy lacks"),),
    ),
    Claim(
        CLOUD,
        "The SSD is much faster than the HDD, but needs parallel I/O",
        f"{SUM}, 1",
        O,
        (Ratio(SSD, HDD, "iops", 1683, 463, 1), Ratio(SSD, HDD, "iops", 5099, 833, 16)),
    ),
    Claim(
        ZVOL,
        "Among cfq, noop and deadline, deadline is best for a zvol",
        "above bonnie++'s output",
        O,
        (Lacks("the figures of cfq and noop are not printed"),),
    ),
    Claim(
        ZVOL,
        "ext4 on a zvol writes about 25 % slower than the pool",
        "last sentence",
        O,
        (Lacks("the figures of the pool are not printed"),),
    ),
    Claim(
        BC,
        "At depth 64 bcache does more random writes than the raw SSD",
        "below the second output",
        O,
        (
            Ratio(BCACHE, RAW, "iops", 18500, 12200, 64),
            Ratio(BCACHE, RAW, "bandwidth", 85062656, 48809984, 64),
        ),
    ),
    Claim(
        BC,
        "bcache gains at high depths; at lower ones the raw SSD is ahead",
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
        "The SSD's rate rises and falls with the depth",
        "below the list of depths",
        O,
        (Curve(RAW, QUOTED, f"uncertain, between 4 and 16; {BY_ONE}"),),
        "one repeat per depth cannot separate a wave from noise",
    ),
    Claim(
        BC,
        "In random reads bcache and the raw SSD are equal",
        "last list of depths",
        O,
        (Ratio(BCACHE, RAW, "iops", 29500, 25400, 64), Ratio(BCACHE, RAW, "iops", 28200, 27600, 16)),
        "one repeat each can never prove equality",
    ),
)  # fmt: skip
NAMES = {"CACHE": CACHE, "STRIPE": STRIPE, "POOL": POOL, "SLOG": SLOG, "SYNC": SYNC, "NOSYNC": NOSYNC, "RAW": RAW,
         "BCACHE": BCACHE, "SSD": SSD, "HDD": HDD}  # fmt: skip
