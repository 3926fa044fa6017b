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
# B, where no size is told
BLOCK = 4096
READS = ("read", "randread", "rw", "readwrite", "randrw")
WRITES = ("write", "randwrite", "rw", "readwrite", "randrw", "trimwrite", "randtrimwrite")
SYNCS = ("1", "sync", "dsync")


def sections_access(sections: jobfile.Sections) -> Access:
    """Over all its jobs; where they differ, None."""
    jobs = [_by_one_name(one) for one in jobfile.each_job(sections)]
    in_turn = any("stonewall" in one or "wait_for_previous" in one for one in jobs)
    writes = _any(jobs, _job_writes)
    return Access(
        reads=_any(jobs, _job_reads),
        writes=writes,
        random=_all(map(_random, jobs)),
        block=min((size for one in jobs for size in _block_sizes(one)), default=None),
        direct=_all(_is(one, "direct") or _is(one, "atomic") for one in jobs),
        synced=_all(_synced(one) for one in jobs if _job_writes(one)) if writes else writes,
        compressible=_all(map(_compressible, jobs)),
        size=_covered_bytes(sections),
        ramp_s=_all(jobfile.ramp_of(one) for one in jobs),
        runtime_s=None if in_turn else _all(jobfile.runtime_of(one) or None for one in jobs),
        outstanding=jobfile.outstanding_ios(sections),
    )


def _by_one_name(told: JobSettings) -> JobSettings:
    """The later one counts: what a job says, over [global]."""
    return {jobfile.ALIASES.get(name, name): value for name, value in told.items()}


def _all(each: Iterable[T | None]) -> T | None:
    """Value that all of them have; None where they differ or there are none."""
    found = list(each)
    return found[0] if found and all(one == found[0] for one in found) else None


def _any(jobs: Iterable[JobSettings], does: Callable[[JobSettings], bool]) -> bool:
    return any(map(does, jobs))


def _get(told: JobSettings, *names: str) -> str:
    """The value under any of its names; "" where there is none."""
    return next((told[name] or "" for name in names if name in told), "")


def _is(told: JobSettings, name: str) -> bool:
    """A switch; one without a value is on."""
    return name in told and told[name] not in ("0", "false")


def _direction(told: JobSettings) -> str:
    return (_get(told, "readwrite") or "read").partition(":")[0]


def _share_of_reads(told: JobSettings) -> int:
    reads, writes = _get(told, "rwmixread"), _get(told, "rwmixwrite")
    if reads.isdecimal():
        return int(reads)
    return 100 - int(writes) if writes.isdecimal() else 50


def _mixes(told: JobSettings) -> bool:
    return _direction(told) in ("rw", "readwrite", "randrw")


def _job_reads(told: JobSettings) -> bool:
    """True when the job reads: what it verifies it has read again."""
    verifies = _get(told, "verify") not in ("", "0", "null") and _get(told, "do_verify") != "0"
    if _mixes(told):
        return _share_of_reads(told) > 0 or verifies
    return _direction(told) in READS or (verifies and _job_writes(told))


def _job_writes(told: JobSettings) -> bool:
    if _mixes(told):
        return _share_of_reads(told) < 100
    return _direction(told) in WRITES


def _random(told: JobSettings) -> bool | None:
    """One that is at random for a part, or goes on in order for some I/Os, is neither."""
    words = _get(told, "readwrite") or "read"
    name, _, several = words.partition(":")
    if several and several != "1":
        return None
    if not name.startswith("rand"):
        return False
    share = _get(told, "percentage_random") or "100"
    return {"100": True, "0": False}.get(share)


def _block_sizes(told: JobSettings) -> list[int]:
    """Of every direction: "4k,64k", "4k-8k", "4k/10:64k/90"."""
    words = _get(told, "bssplit", "bsrange", "blocksize_range", "blocksize")
    sizes = [part.partition("/")[0] or str(BLOCK) for part in re.split("[,:-]", words)]
    found = [SIZE.fullmatch(size.strip()) for size in sizes]
    known = [_size_bytes(one) for one in found if one]
    return known or ([] if words else [BLOCK])


def _size_bytes(size: re.Match[str]) -> int:
    """k is 1024 bytes to fio, and kib 1000."""
    base = 1000 if size[0].lower().endswith("ib") else 1024
    power = " kmgtp".find(size[2].lower() or " ")
    return int(size[1]) * int(base**power)


def _synced(told: JobSettings) -> bool:
    each = "1" in (_get(told, "fsync"), _get(told, "fdatasync"))
    return each or _get(told, "sync") in SYNCS


def _compressible(told: JobSettings) -> bool | None:
    """Blocks that come again are squeezed by what deduplicates; without fresh ones nobody can tell."""
    shares = (_get(told, name) for name in ("buffer_compress_percentage", "dedupe_percentage"))
    pattern = "buffer_pattern" in told or "verify_pattern" in told
    if _is(told, "zero_buffers") or pattern or any(one not in ("", "0") for one in shares):
        return True
    again = "scramble_buffers" in told and not _is(told, "scramble_buffers")
    return None if again and not _is(told, "refill_buffers") else False


def _covered_bytes(sections: jobfile.Sections) -> int | None:
    """None where jobs share a volume and have files of their own else, as the options do not tell which it is."""
    files, volume = (jobfile.required_bytes(sections, files=files) for files in (True, False))
    return files if files == volume and files else None
