"""The workload presets: databases, curves over outstanding I/Os, throughput, the articles' workloads, SNIA's test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TO_256 = [1, 2, 4, 8, 16, 32, 64, 128, 256]
TO_16 = [1, 2, 4, 8, 16]

DATABASES = "Databases"
CURVES = "Random I/O over outstanding I/Os"
THROUGHPUT = "Throughput"
ARTICLES = "As the articles measured"
SNIA = "SNIA"


@dataclass(frozen=True, slots=True)
class Preset:
    slug: str
    group: str  # the heading it stands under
    name: str
    says: str
    tool: str
    options: dict[str, Any]
    sweep: dict[str, list[Any]] = field(default_factory=dict)


def _fio(
    slug: str, group: str, name: str, says: str, sweep: dict[str, list[Any]], **options: Any
) -> Preset:
    timed = {"runtime_s": 30, "ramp_s": 5, "size": GIB, **options}
    return Preset(slug, group, name, says, "fio", timed, sweep)


def _databases() -> Iterable[Preset]:
    yield _fio(
        "postgresql-wal", DATABASES, "PostgreSQL WAL 8 KiB",
        "A server's commits one after another: 8 KiB written in sequence through the page cache, fdatasync after "
        "each. The figure to read is sync.lat.",
        {}, rw="write", block_size=8 * KIB, ioengine="psync", direct=False, fdatasync=1, runtime_s=60,
    )  # fmt: skip
    yield Preset(
        "postgresql-fsync", DATABASES, "PostgreSQL WAL pg_test_fsync",
        "PostgreSQL's own test of every wal_sync_method, 10 s each: about 3 min.",
        "pg_test_fsync", {"seconds": 10},
    )  # fmt: skip
    yield _fio(
        "oltp", DATABASES, "OLTP 8 KiB 70/30",
        "A database's mix: 8 KiB random, 70 % reads, over 1 to 64 outstanding I/Os.",
        {"iodepth": TO_256[:7]}, rw="randrw", block_size=8 * KIB, rwmixread=70,
    )  # fmt: skip


def _curves() -> Iterable[Preset]:
    for verb in ("read", "write"):
        yield _fio(
            f"rand{verb}-4k", CURVES, f"Random {verb} 4 KiB",
            f"4 KiB random {verb}s over 1 to 256 outstanding I/Os.",
            {"iodepth": TO_256}, rw=f"rand{verb}", block_size=4 * KIB,
        )  # fmt: skip
    for verb in ("read", "write"):
        yield _fio(
            f"seq{verb}-1m", THROUGHPUT, f"Sequential {verb} 1 MiB",
            f"1 MiB sequential {verb}s: throughput.",
            {"iodepth": TO_16}, rw=verb, block_size=MIB,
        )  # fmt: skip
    yield Preset(
        "dd-sync-4k", THROUGHPUT, "dd 4 KiB sync",
        "Article 000's dd with a tenth of its count: 12,800 blocks of 4 KiB, each written through to the disk before "
        "the next (oflag=sync), gathered from 512-byte reads of /dev/zero.",
        "dd", {**_article_dd(), "count": 102_400},
    )  # fmt: skip


def _article_dd() -> dict[str, Any]:
    """dd if=/dev/zero obs=4K oflag=sync,nonblock,noatime,nocache count=1024000"""
    flags = ["sync", "nonblock", "noatime", "nocache"]
    return {
        "direction": "write",
        "block_size": 0,
        "obs": 4 * KIB,
        "count": 1_024_000,
        "oflag": flags,
    }


def _articles() -> Iterable[Preset]:
    yield Preset(
        "article-000-fsync", ARTICLES, "Articles 000 and 001: pg_test_fsync",
        "Every sync method for 5 s, on one file of the layout.",
        "pg_test_fsync", {"seconds": 5},
    )  # fmt: skip
    yield Preset(
        "article-000-dd", ARTICLES, "Article 000: dd 4 KiB sync",
        "128,000 blocks of 4 KiB (500 MiB), each written through to the disk before the next. It took 7 s on the "
        "article's SSD, and takes 20 min on a lone hard disk.",
        "dd", _article_dd(),
    )  # fmt: skip
    yield _fio(
        "article-002", ARTICLES, "8 KiB, half random, half writes",
        "Article 002's IOmeter pattern, by fio instead of IOmeter: 8 KiB, 50 % random, 50 % writes, 1 to 16 "
        "outstanding I/Os, 30 s ramp, 10 min each.",
        {"iodepth": TO_16}, rw="randrw", block_size=8 * KIB, rwmixread=50, percentage_random=50,
        runtime_s=600, ramp_s=30, size=10 * GIB,
    )  # fmt: skip
    yield Preset(
        "article-002-iometer", ARTICLES, "Article 002: IOmeter 8 KiB, half random, half writes",
        "The article's own pattern by IOmeter's dynamo: 8 KiB, 50 % random, 50 % writes, 1 to 16 outstanding I/Os, "
        "30 s ramp, 10 min each. dynamo 1.1.0 must be on the host, or uploaded. Its IOPS times its latency is "
        "four times its outstanding I/Os: with workers 4 each point is what it measured.",
        "dynamo",
        {"block_size": 8 * KIB, "read_percent": 50, "random_percent": 50, "ramp_s": 30, "runtime_s": 600,
         "size": 10 * GIB, "workers": 1},
        {"outstanding_ios": TO_16},
    )  # fmt: skip
    yield Preset(
        "article-003", ARTICLES, "Article 003: bonnie++",
        "bonnie++ with the article's 15,464 MiB file, twice that host's memory. On a host with more memory it "
        "refuses: change the size to twice what yours has.",
        "bonnie", {"size": 15_464 * MIB},
    )  # fmt: skip
    for verb in ("write", "read"):
        yield _fio(
            f"article-004-{verb}", ARTICLES, f"Article 004: random {verb} 4 KiB",
            f"4 KiB random {verb}s of 8 GiB by libaio, at 64, 32, 16, 8 and 4 outstanding I/Os, each until done.",
            {"iodepth": [64, 32, 16, 8, 4]}, rw=f"rand{verb}", block_size=4 * KIB, ioengine="libaio",
            size=8 * GIB, runtime_s=0, time_based=False, ramp_s=0,
        )  # fmt: skip


def _snia() -> Iterable[Preset]:
    yield _fio(
        "snia-iops", SNIA, "SNIA IOPS round",
        "One round of the SNIA SSS PTS IOPS test: 7 mixes by 8 block sizes, 1 min each (56 min), over the whole raw "
        "disk with 32 outstanding I/Os. Precondition the disk, and repeat until it is steady: up to 25 rounds.",
        {
            "rwmixread": [100, 95, 65, 50, 35, 5, 0],
            "block_size": [MIB, 128 * KIB, 64 * KIB, 32 * KIB, 16 * KIB, 8 * KIB, 4 * KIB, 512],
        },
        rw="randrw", iodepth=16, numjobs=2, size=0, runtime_s=60, ramp_s=0,
    )  # fmt: skip


ALL = (*_databases(), *_curves(), *_articles(), *_snia())
