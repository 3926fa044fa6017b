# SPDX-License-Identifier: Apache-2.0
"""Options of fio, and the sections of the job file that they become."""

from __future__ import annotations

from dataclasses import dataclass

from agents.contracts import OptionsError, Target
from agents.options import option
from agents.outputs import fio_jobfile as jobfile

OVERRIDABLE = {
    "rw": "rw",
    "block_size": "bs",
    "iodepth": "iodepth",
    "numjobs": "numjobs",
    "ioengine": "ioengine",
    "direct": "direct",
    "size": "size",
    "runtime_s": "runtime",
    "ramp_s": "ramp_time",
    "rwmixread": "rwmixread",
    "percentage_random": "percentage_random",
    "fsync": "fsync",
    "fdatasync": "fdatasync",
}
# fio empties the page cache of a block device when it opens it (`invalidate`). Only root may do that: as another user
# fio warns and measures the cache. Past the page cache it makes no difference: root drops all of it before each run.
OFF = ("0", "false")
# Real time, better priorities and CPUs that another may not use; huge pages and pinned memory; a file system filled to
# what it keeps for root; limits on open files; a kernel thread that polls, root's alone before Linux 5.11.
ROOTS_OPTIONS = frozenset(
    [
        "nice",
        "prio",
        "prioclass",
        "cpus_allowed",
        "cpus_allowed_policy",
        "numa_cpu_nodes",
        "gtod_cpu",
        "mem",
        "iomem",
        "fill_device",
        "fill_fs",
        "nrfiles",
        "openfiles",
        "sqthread_poll",
        "sqthread_poll_cpu",
        "fixedbufs",
        "registerfiles",
        "hipri",
        "uncached",
        "error_dump",
        "zonemode",
        "zonerange",
        "zonesize",
        "zoneskip",
        "sequential_zone",
    ]
)
# of pipes another user may have less
ROOTS_ENGINES = frozenset({"splice"})


@dataclass(frozen=True, slots=True)
class Options:
    rw: str = option("randread", "access pattern", choices=jobfile.DIRECTIONS)
    block_size: int = option(4096, "size of one I/O", unit="B", minimum=512)
    iodepth: int = option(
        1, "I/Os in flight per job; a synchronous engine ignores it", minimum=1, depth=True
    )
    numjobs: int = option(1, "number of parallel jobs", minimum=1, depth=True)
    ioengine: str = option(
        "libaio",
        "how I/O is issued; only engines that read and write the target: "
        + ", ".join(jobfile.READ_AND_WRITE),
    )
    direct: bool = option(True, "bypass the page cache (O_DIRECT)")
    size: int = option(
        1 << 30,
        "bytes used per job; 0: the whole volume (not on a filesystem)",
        unit="B",
        minimum=0,
    )
    runtime_s: int = option(60, "measured time; 0: until size is done", unit="s", minimum=0)
    time_based: bool = option(True, "repeat until runtime_s is over, instead of stopping at size")
    ramp_s: int = option(0, "warm-up, not measured", unit="s", minimum=0)
    rwmixread: int = option(50, "share of reads in a mix", unit="%", minimum=0)
    percentage_random: int = option(
        100, "share of random I/Os in a random pattern", unit="%", minimum=0
    )
    fsync: int = option(0, "fsync after this many writes; 0: never", minimum=0)
    fdatasync: int = option(0, "fdatasync after this many writes; 0: never", minimum=0)
    compressible: int = option(
        0, "compressibility of the buffers; 0: incompressible", unit="%", minimum=0
    )
    group_reporting: bool = option(
        False,
        "let fio sum up its jobs; without it we do, as fio does: rates over the longest job, "
        "percentiles from merged histograms",
    )
    log_avg_msec: int = option(
        0,
        "keep logs of rate and latency over time, averaged over this interval; 0: no logs",
        unit="ms",
        minimum=0,
    )
    log_hist_msec: int = option(
        0,
        "keep histograms of completion latency over time, one per interval, for percentiles; 0: none",
        unit="ms",
        minimum=0,
    )
    extra: tuple[str, ...] = option((), "further fio options, as key=value")
    job_file: str = option(
        "",
        "a job file of your own; it alone counts, but for the options in `override`. "
        "The target is always ours: filename, directory and the like are refused",
        multiline=True,
    )
    override: tuple[str, ...] = option(
        (),
        "options above that override the job file, so that they can be swept: "
        + ", ".join(OVERRIDABLE),
    )

    def __post_init__(self) -> None:
        for name in ("rwmixread", "percentage_random", "compressible"):
            if getattr(self, name) > 100:
                raise OptionsError(f"{name}: {getattr(self, name)} is above 100 %")
        if self.block_size % 512:
            raise OptionsError(f"block_size: {self.block_size} is not a multiple of 512")
        if 0 < self.size < self.block_size:
            raise OptionsError(f"size: {self.size} is smaller than one block")
        if unknown := set(self.override) - set(OVERRIDABLE):
            raise OptionsError(f"override: {', '.join(sorted(unknown))} cannot be overridden")
        jobfile.check_engine(self.ioengine, "ioengine")
        # a bad job file or extra is said when the form is checked
        sections(self)


def sections(options: Options) -> jobfile.Sections:
    if not options.job_file:
        return {"global": _settings(options), "benchlab": {}}
    ours = _settings(options)
    wins = {OVERRIDABLE[name]: ours.get(OVERRIDABLE[name], "0") for name in options.override}
    return jobfile.override(jobfile.parse_job_file(options.job_file), {**wins, **_extra(options)})


def _settings(options: Options) -> dict[str, str | None]:
    pairs: dict[str, str | None] = {
        "rw": options.rw,
        "bs": str(options.block_size),
        "iodepth": str(options.iodepth),
        "numjobs": str(options.numjobs),
        "ioengine": options.ioengine,
        "direct": str(int(options.direct)),
        "rwmixread": str(options.rwmixread),
        "percentage_random": str(options.percentage_random),
        "buffer_compress_percentage": str(options.compressible),
        # repeats that touch the same blocks in the same order flatter a cache
        "randrepeat": "0",
        # fresh random data: a compressing or deduplicating layer gains nothing
        "refill_buffers": "1",
    }
    if not options.compressible:
        del pairs["buffer_compress_percentage"]
    times = {"runtime": options.runtime_s, "ramp_time": options.ramp_s, "size": options.size}
    counts = {"fsync": options.fsync, "fdatasync": options.fdatasync}
    pairs |= {key: str(value) for key, value in (times | counts).items() if value}
    pairs |= {"time_based": "1"} if options.time_based and options.runtime_s else {}
    pairs |= {"group_reporting": "1"} if options.group_reporting else {}
    return pairs if options.job_file else {**pairs, **_extra(options)}


def _extra(options: Options) -> dict[str, str | None]:
    settings: dict[str, str | None] = {}
    for item in options.extra:
        key, equals, value = (part.strip() for part in item.partition("="))
        jobfile.check_setting(key, value if equals else None, f"extra {item[:60]!r}")
        settings[key] = value if equals else None
    return settings


def sections_root_reason(sections: jobfile.Sections, target: Target) -> str:
    """Reason, or "" where the target is all that fio needs."""
    jobs = jobfile.each_job(sections)
    if root_options := sorted({name for job in jobs for name in ROOTS_OPTIONS & job.keys()}):
        return f"fio's {' and '.join(root_options)} may need root"
    if root_options := sorted(
        {engine for job in jobs if (engine := job.get("ioengine")) in ROOTS_ENGINES}
    ):
        return f"fio's ioengine {root_options[0]} may need root"
    if target.mount and not jobfile.required_bytes(sections, files=True):
        return (
            "how much fio writes is not known, and a file system may keep its last blocks for root"
        )
    invalidates = any("invalidate" in job for job in jobs)
    if not target.mount and (invalidates or not all(map(_past_the_cache, jobs))):
        return "fio empties the device's page cache when it opens it, and only root may do that"
    return ""


def _past_the_cache(settings: dict[str, str | None]) -> bool:
    return any(name in settings and settings[name] not in OFF for name in ("direct", "atomic"))


def must_be_off(sections: jobfile.Sections) -> tuple[str, ...]:
    """See Job."""
    return ("kernel/io_uring_disabled",) if "io_uring" in jobfile.engines(sections) else ()
