# SPDX-License-Identifier: Apache-2.0
"""Access pattern of each section of a fio job. Pure.

fio fills its buffers with random bytes unless it is told otherwise, and writes a file that it lays out from the same:
https://fio.readthedocs.io/en/latest/fio_doc.html#buffers-and-memory
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from agents.contracts import Access
from agents.outputs import fio_jobfile as jobfile

T = TypeVar("T")
JobSettings = Mapping[str, str | None]
SIZE = re.compile(r"(\d{1,12})\s*([kmgtp]?)i?b?", re.IGNORECASE)
# B, if no size is set
BLOCK = 4096
READS = ("read", "randread", "rw", "readwrite", "randrw")
WRITES = ("write", "randwrite", "rw", "readwrite", "randrw", "trimwrite", "randtrimwrite")
SYNCS = ("1", "sync", "dsync")


def sections_access(sections: jobfile.Sections) -> Access:
    """Over all its jobs; where they differ, None."""
    jobs = [_by_one_name(job) for job in jobfile.each_job(sections)]
    in_turn = any("stonewall" in job or "wait_for_previous" in job for job in jobs)
    writes = _any(jobs, _job_writes)
    return Access(
        reads=_any(jobs, _job_reads),
        writes=writes,
        random=_all(map(_random, jobs)),
        block=min((size for job in jobs for size in _block_sizes(job)), default=None),
        direct=_all(_is(job, "direct") or _is(job, "atomic") for job in jobs),
        synced=_all(_synced(job) for job in jobs if _job_writes(job)) if writes else writes,
        compressible=_all(map(_compressible, jobs)),
        size=_covered_bytes(sections),
        ramp_s=_all(jobfile.ramp_of(job) for job in jobs),
        runtime_s=None if in_turn else _all(jobfile.runtime_of(job) or None for job in jobs),
        outstanding=jobfile.outstanding_ios(sections),
    )


def _by_one_name(settings: JobSettings) -> JobSettings:
    """The later one counts: what a job says, over [global]."""
    return {jobfile.ALIASES.get(name, name): value for name, value in settings.items()}


def _all(each: Iterable[T | None]) -> T | None:
    """Value that all of them have; None where they differ or there are none."""
    values = list(each)
    return values[0] if values and all(value == values[0] for value in values) else None


def _any(jobs: Iterable[JobSettings], does: Callable[[JobSettings], bool]) -> bool:
    return any(map(does, jobs))


def _get(settings: JobSettings, *names: str) -> str:
    """The value under any of its names; "" where there is none."""
    return next((settings[name] or "" for name in names if name in settings), "")


def _is(settings: JobSettings, name: str) -> bool:
    """A switch; one without a value is on."""
    return name in settings and settings[name] not in ("0", "false")


def _direction(settings: JobSettings) -> str:
    return (_get(settings, "readwrite") or "read").partition(":")[0]


def _share_of_reads(settings: JobSettings) -> int:
    reads, writes = _get(settings, "rwmixread"), _get(settings, "rwmixwrite")
    if reads.isdecimal():
        return int(reads)
    return 100 - int(writes) if writes.isdecimal() else 50


def _mixes(settings: JobSettings) -> bool:
    return _direction(settings) in ("rw", "readwrite", "randrw")


def _job_reads(settings: JobSettings) -> bool:
    """True when the job reads: what it verifies it has read again."""
    verifies = (
        _get(settings, "verify") not in ("", "0", "null") and _get(settings, "do_verify") != "0"
    )
    if _mixes(settings):
        return _share_of_reads(settings) > 0 or verifies
    return _direction(settings) in READS or (verifies and _job_writes(settings))


def _job_writes(settings: JobSettings) -> bool:
    if _mixes(settings):
        return _share_of_reads(settings) < 100
    return _direction(settings) in WRITES


def _random(settings: JobSettings) -> bool | None:
    """One that is at random for a part, or goes on in order for some I/Os, is neither."""
    words = _get(settings, "readwrite") or "read"
    name, _, several = words.partition(":")
    if several and several != "1":
        return None
    if not name.startswith("rand"):
        return False
    share = _get(settings, "percentage_random") or "100"
    return {"100": True, "0": False}.get(share)


def _block_sizes(settings: JobSettings) -> list[int]:
    """Block sizes of every direction: "4k,64k", "4k-8k", "4k/10:64k/90"."""
    words = _get(settings, "bssplit", "bsrange", "blocksize_range", "blocksize")
    sizes = [part.partition("/")[0] or str(BLOCK) for part in re.split("[,:-]", words)]
    matches = [SIZE.fullmatch(size.strip()) for size in sizes]
    known_sizes = [_size_bytes(match) for match in matches if match]
    return known_sizes or ([] if words else [BLOCK])


def _size_bytes(size: re.Match[str]) -> int:
    """k is 1024 bytes to fio, and kib 1000."""
    base = 1000 if size[0].lower().endswith("ib") else 1024
    power = " kmgtp".find(size[2].lower() or " ")
    return int(size[1]) * int(base**power)


def _synced(settings: JobSettings) -> bool:
    each = "1" in (_get(settings, "fsync"), _get(settings, "fdatasync"))
    return each or _get(settings, "sync") in SYNCS


def _compressible(settings: JobSettings) -> bool | None:
    """Blocks that come again are squeezed by what deduplicates; without fresh ones nobody can tell."""
    shares = (_get(settings, name) for name in ("buffer_compress_percentage", "dedupe_percentage"))
    pattern = "buffer_pattern" in settings or "verify_pattern" in settings
    if _is(settings, "zero_buffers") or pattern or any(share not in ("", "0") for share in shares):
        return True
    again = "scramble_buffers" in settings and not _is(settings, "scramble_buffers")
    return None if again and not _is(settings, "refill_buffers") else False


def _covered_bytes(sections: jobfile.Sections) -> int | None:
    """None where jobs share a volume and have files of their own else, as the options do not tell which it is."""
    files, volume = (jobfile.required_bytes(sections, files=files) for files in (True, False))
    return files if files == volume and files else None
