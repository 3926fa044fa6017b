"""Workloads that are ready to use with one click."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class Preset:
    slug: str
    name: str
    says: str
    tool: str
    options: dict[str, Any]
    sweep: dict[str, list[Any]] = field(default_factory=dict)


def _fio(slug: str, name: str, says: str, depths: list[int], **options: Any) -> Preset:
    timed = {"runtime_s": 30, "ramp_s": 5, "size": GIB, **options}
    return Preset(slug, name, says, "fio", timed, {"iodepth": depths})


TO_256 = [1, 2, 4, 8, 16, 32, 64, 128, 256]

PRESETS = {
    preset.slug: preset
    for preset in (
        _fio(
            "randread-4k",
            "Random read 4 KiB",
            "4 KiB random reads over 1 to 256 outstanding I/Os.",
            TO_256,
            rw="randread",
            block_size=4 * KIB,
        ),
        _fio(
            "randwrite-4k",
            "Random write 4 KiB",
            "4 KiB random writes over 1 to 256 outstanding I/Os.",
            TO_256,
            rw="randwrite",
            block_size=4 * KIB,
        ),
        _fio(
            "oltp",
            "OLTP 8 KiB 70/30",
            "A database's mix: 8 KiB random, 70 % reads, over 1 to 64 outstanding I/Os.",
            [1, 2, 4, 8, 16, 32, 64],
            rw="randrw",
            block_size=8 * KIB,
            rwmixread=70,
        ),
        _fio(
            "article-002",
            "8 KiB, half random, half writes",
            "Article 002's IOmeter pattern: 8 KiB, 50 % random, 50 % writes, 1 to 16 outstanding I/Os, "
            "30 s ramp, 10 min each.",
            [1, 2, 4, 8, 16],
            rw="randrw",
            block_size=8 * KIB,
            rwmixread=50,
            percentage_random=50,
            runtime_s=600,
            ramp_s=30,
            size=10 * GIB,
        ),
        _fio(
            "seqread-1m",
            "Sequential read 1 MiB",
            "1 MiB sequential reads: throughput.",
            [1, 2, 4, 8, 16],
            rw="read",
            block_size=MIB,
        ),
        _fio(
            "seqwrite-1m",
            "Sequential write 1 MiB",
            "1 MiB sequential writes: throughput.",
            [1, 2, 4, 8, 16],
            rw="write",
            block_size=MIB,
        ),
        Preset(
            "dd-sync-4k",
            "dd 4 KiB sync",
            "Article 000's dd: 4 KiB blocks, each written through to the disk before the next (oflag=sync). "
            "512-byte reads from /dev/zero gathered into 4 KiB writes, a tenth of the article's count.",
            "dd",
            {
                "direction": "write",
                "block_size": 0,
                "obs": 4 * KIB,
                "count": 102_400,
                "oflag": ["sync", "nonblock", "noatime", "nocache"],
            },
        ),
    )
}
