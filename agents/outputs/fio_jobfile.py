# SPDX-License-Identifier: Apache-2.0
"""fio's job file: read a user's, refuse what could reach beyond the target, write ours.

Only keys known to be harmless pass (default deny), because a job file can name other disks (filename, opendir,
read_iolog), run programs (exec_prerun, ioengine=exec, `$` expressions that fio hands to bc through a shell), load code
(ioengine=external) or write files anywhere (write_*_log). Of engines only those that read and write the target pass:
READ_AND_WRITE, from "I/O engine" in https://fio.readthedocs.io/en/latest/fio_doc.html and engines/ of fio 3.0 to 3.42.
An engine that a later fio brings is refused until it stands there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from agents.contracts import OptionsError

DIRECTIONS = (
    "read",
    "write",
    "randread",
    "randwrite",
    "readwrite",
    "rw",
    "randrw",
    "trim",
    "randtrim",
    "trimwrite",
)
_HARMLESS = """
allrandrepeat atomic ba block_error_percentiles blockalign blocksize blocksize_range blocksize_unaligned bs
bs_is_seq_rand bs_unaligned bsrange bssplit buffer_compress_chunk buffer_compress_percentage buffer_pattern
bwavgtime clat_percentiles clocksource continue_on_error cpus_allowed cpus_allowed_policy create_fsync
create_on_open create_serialize dedupe_percentage description direct disable_bw disable_bw_measurement disable_clat
disable_lat disable_slat do_verify end_fsync error_dump exitall exitall_on_error fadvise_hint fallocate fdatasync
file_service_type filesize fill_device fill_fs fixedbufs fsync fsync_on_close group_reporting gtod_cpu gtod_reduce
hipri ignore_error invalidate io_limit io_size iodepth iodepth_batch iodepth_batch_complete
iodepth_batch_complete_max iodepth_batch_complete_min iodepth_batch_submit iodepth_low ioengine iomem iopsavgtime
lat_percentiles latency_percentile latency_run latency_target latency_window log_avg_msec loops max_latency mem
new_group nice norandommap nrfiles numa_cpu_nodes number_ios numjobs offset offset_align offset_increment openfiles
overwrite percentage_random percentile_list prio prioclass ramp_time random_distribution random_generator randrepeat
randseed rate rate_cycle rate_ignore_thinktime rate_iops rate_iops_min rate_min rate_process readwrite
refill_buffers registerfiles runtime rw rw_sequencer rwmixread rwmixwrite scramble_buffers sequential_zone size
slat_percentiles softrandommap sqthread_poll sqthread_poll_cpu ss ss_dur ss_interval ss_ramp startdelay steadystate
steadystate_duration steadystate_ramp_time stonewall sync thinktime thinktime_blocks thinktime_spin thread
time_based timeout trim_backlog trim_backlog_batch trim_percentage trim_verify_zero uncached unified_rw_reporting
use_os_rand verify verify_backlog verify_fatal verify_interval verify_pattern wait_for_previous write_barrier
zero_buffers zonemode zonerange zonesize zoneskip
"""
ALLOWED = frozenset(_HARMLESS.split())
TARGET_KEYS = frozenset({"filename", "directory", "opendir", "filename_format", "unlink"})
_KEY = re.compile(r"[a-z][a-z0-9_]*\Z")
# No $, quote, backtick, bracket or backslash; and short, because fio cuts long lines into two.
_VALUE = re.compile(r"[A-Za-z0-9_.,:/%+~ -]{0,500}\Z")
# 4k/50 is none
_HOLDS_PATH = re.compile(r"(?:^|[=:,\s])/")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,60}\Z")
_PATH = re.compile(r"/[A-Za-z0-9_./:+@%,=-]{0,500}\Z")
ALIASES = {"bs": "blocksize", "rw": "readwrite", "ba": "blockalign", "timeout": "runtime"}

# key -> value; None: a key without "="
Job = Mapping[str, str | None]
# section -> its keys
Sections = dict[str, dict[str, str | None]]


def check_setting(key: str, value: str | None, where: str) -> None:
    """Raises OptionsError naming where the setting stands."""
    if key in TARGET_KEYS:
        raise OptionsError(
            f"{where}: {key} cannot be set here, the campaign sets the target: remove it"
        )
    if not _KEY.match(key) or key not in ALLOWED:
        raise OptionsError(f"{where}: {key[:60]!r} is not allowed in a job file here")
    if value is not None and not _VALUE.match(value):
        raise OptionsError(f"{where}: {key} may not hold {value[:80]!r}")
    if key == "ioengine":
        check_engine(value or "", where)
    # mmaphuge:/path and mmapshared:/path map a file of that name
    if key in ("mem", "iomem") and value and "/" in value:
        raise OptionsError(f"{where}: memory from a file is not allowed")
    if value is not None and _HOLDS_PATH.search(value):
        raise OptionsError(f"{where}: {key} may not hold a path: {value[:80]!r}")


def engines(sections: Sections) -> list[str]:
    """Those that the jobs ask for."""
    every = (settings.get("ioengine") for settings in sections.values())
    return list(dict.fromkeys(engine for engine in every if engine))


def parse_job_file(text: str) -> Sections:
    """A user's job file. Raises OptionsError with the line of what is not allowed."""
    sections: Sections = {}
    current: dict[str, str | None] | None = None
    for number, raw in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        line, where = raw.strip(), f"job_file line {number}"
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            current = sections.setdefault(_section(line, sections, where), {})
        elif current is None:
            raise OptionsError(f"{where}: {line[:60]!r} is before the first [section]")
        else:
            key, equals, value = (part.strip() for part in line.partition("="))
            check_setting(key, value if equals else None, where)
            current[key] = value if equals else None
    if not set(sections) - {"global"}:
        raise OptionsError("job_file: there is no job in it, only [global] or nothing")
    return sections


def _section(line: str, sections: Sections, where: str) -> str:
    name = line[1:-1]
    if not line.endswith("]") or not _NAME.match(name):
        raise OptionsError(f"{where}: {line[:60]!r} is not a usable section name")
    if name in sections:
        raise OptionsError(f"{where}: section [{name}] is defined twice")
    if name == "global" and sections:
        raise OptionsError(f"{where}: [global] must come first")
    return name


def override(sections: Sections, settings: Job) -> Sections:
    """`settings` hold for every job, whatever the file said of the same options (under either of their names)."""
    names = {ALIASES.get(key, key) for key in settings}
    remaining: Sections = {
        section: {key: value for key, value in keys.items() if ALIASES.get(key, key) not in names}
        for section, keys in sections.items()
    }
    remaining = {"global": {}, **remaining}
    remaining["global"] |= settings
    return remaining


def escape_path(value: str, what: str) -> str:
    """A path as fio reads it in a job file: it splits names at ':' unless escaped. Raises OptionsError."""
    if not _PATH.match(value) or ".." in value.split("/"):
        raise OptionsError(f"{what} {value!r} cannot be given to fio")
    return value.replace(":", "\\:")


def write_job_file(sections: Sections, own: Iterable[tuple[str, str]]) -> bytes:
    """The job file. `own` are our settings of the target, last in [global], where no check applies."""
    lines: list[str] = []
    for section, keys in {"global": {}, **sections}.items():
        lines.append(f"[{section}]")
        lines += [key if value is None else f"{key}={value}" for key, value in keys.items()]
        if section == "global":
            lines += [f"{key}={value}" for key, value in own]
    return ("\n".join(lines) + "\n").encode()


def outstanding_ios(sections: Sections) -> int | None:
    """I/Os that all jobs together keep in flight; None when that changes over time (stonewall)."""
    total = 0
    for job in each_job(sections):
        depth, copies = _whole_number(job, "iodepth"), _whole_number(job, "numjobs")
        if _waits(job) or depth is None or copies is None:
            return None
        total += copies * (1 if job.get("ioengine", "psync") in SYNCHRONOUS else depth)
    return total


def _waits(job: Job) -> bool:
    return "stonewall" in job or "wait_for_previous" in job


def job_count(sections: Sections) -> int | None:
    """Jobs, copies counted; None where that is not told in plain numbers."""
    total = 0
    for job in each_job(sections):
        copies = _whole_number(job, "numjobs")
        if copies is None:
            return None
        total += copies
    return total


def _whole_number(settings: Job, key: str) -> int | None:
    value = settings.get(key, "1")
    return int(value) if value and value.isascii() and value.isdecimal() else None


_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "m": 60.0, "h": 3600.0, "d": 86400.0}


def expected_seconds(sections: Sections) -> float:
    """Seconds that the jobs say they take, 0 where they do not; jobs behind a stonewall follow one another."""
    jobs = each_job(sections)
    each = [_time(job.get("startdelay")) + ramp_of(job) + runtime_of(job) for job in jobs]
    return sum(each) if any(map(_waits, jobs)) else max(each, default=0.0)


def ramp(sections: Sections) -> float:
    """Seconds that every job warms up for; 0 where they differ."""
    ramps = {ramp_of(job) for job in each_job(sections)}
    return ramps.pop() if len(ramps) == 1 else 0.0


def together(sections: Sections) -> bool:
    """True when all jobs begin at the same time."""
    late = {"startdelay", "stonewall", "wait_for_previous", "new_group"}
    return not any(late & settings.keys() for settings in sections.values())


def work(sections: Sections, whole: int) -> int | None:
    """Bytes of the jobs that go on until their size is done, as they do not say for how long they run; 0: none do.

    `whole`: the target's size, which is a job's that names none. None where it is not known.
    """
    total = 0
    for job in each_job(sections):
        if runtime_of(job):
            continue
        size = job.get("io_size") or job.get("io_limit") or job.get("size") or "100%"
        each = _size_bytes("100%" if {"fill_device", "fill_fs"} & job.keys() else size, whole)
        if not each:
            return None
        copies, loops = (_whole_number(job, key) or 1 for key in ("numjobs", "loops"))
        total += each * copies * loops
    return total


def required_bytes(sections: Sections, files: bool) -> int:
    """Bytes that the jobs take in all; where they are no `files` of their own, they share one volume from its start."""
    total, furthest = 0, 0
    for settings in each_job(sections):
        count = _whole_number(settings, "numjobs") or 1
        size = _size_bytes(settings.get("size") or "0", 0)
        begins = _size_bytes(settings.get("offset") or "0", 0)
        begins += _size_bytes(settings.get("offset_increment") or "0", 0) * (count - 1)
        total += (begins + size if begins else size) * (1 if begins else count)
        furthest = max(furthest, begins + size if size else 0)
    return total if files else furthest


def reads_existing(sections: Sections) -> bool:
    """True when a job reads: fio's own direction, where none is told, is read."""
    directions = [job.get("rw") or job.get("readwrite") or "read" for job in each_job(sections)]
    return any("read" in rw or rw.partition(":")[0] in ("rw", "randrw") for rw in directions)


def each_job(sections: Sections) -> list[dict[str, str | None]]:
    """Options of every job, [global]'s included."""
    shared = sections.get("global", {})
    return [{**shared, **keys} for name, keys in sections.items() if name != "global"]


def _size_bytes(value: str, whole: int) -> int:
    """0 where it is not known."""
    match = re.match(r"(\d{1,15})\s*(?:(%)|([kmgtp]?)i?b?)\Z", value.lower())
    if match is None:
        return whole
    number, percent, unit = match.groups()
    return int(number) * whole // 100 if percent else int(number) << 10 * " kmgtp".find(unit or " ")


def ramp_of(settings: Job) -> float:
    return _time(settings.get("ramp_time"))


def runtime_of(settings: Job) -> float:
    """Seconds; 0 where its size ends it."""
    return max(_time(settings.get("runtime")), _time(settings.get("timeout")))


def _time(value: str | None) -> float:
    match = re.match(r"(\d{1,9}(?:\.\d{1,9})?)\s*(us|ms|s|m|h|d)?\Z", value or "")
    return float(match[1]) * _SECONDS[match[2] or ""] if match else 0.0


READ_AND_WRITE = (
    "libaio",
    "io_uring",
    "psync",
    "sync",
    "vsync",
    "pvsync",
    "pvsync2",
    "posixaio",
    "mmap",
    "splice",
)
# They complete an I/O before they issue the next one, whatever `iodepth` is.
SYNCHRONOUS = frozenset({"psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "splice"})

_DISCARDS = "it completes every I/O at once and transfers nothing"
_METADATA = "it changes the metadata of files and neither reads nor writes data"
_NETWORK = "it sends data over the network and uses no disk"
# Rates of these are of no storage at all: neither of the target nor of another one.
WITHOUT_STORAGE = {
    "null": _DISCARDS,
    "cpuio": "it uses the CPU and does no I/O",
    "exec": "it runs a program and does no I/O itself",
    "net": _NETWORK,
    "netsplice": _NETWORK,
    "rdma": _NETWORK,
    **dict.fromkeys(
        (
            "dircreate",
            "dirdelete",
            "dirstat",
            "falloc",
            "filecreate",
            "filedelete",
            "filestat",
            "ftruncate",
        ),
        _METADATA,
    ),
}
_REMOTE = "it works on remote storage and not on the target"
# SG_IO on a partition or a volume reaches the disk below it, from the disk's first sector on: what is written there is
# somebody else's. Character devices of NVMe and of zoned disks are not what a campaign mounts or stacks.
_RAW_COMMANDS = "it sends commands to the disk itself, past partitions, volumes and file systems"
_MEMORY = "it is for persistent memory and not for disks"
_ELSEWHERE = {
    **dict.fromkeys(
        ("dfs", "gfapi", "gfapi_async", "glusterfs", "http", "libhdfs", "libiscsi", "nbd", "nfs"),
        _REMOTE,
    ),
    **dict.fromkeys(("rados", "rbd"), _REMOTE),
    **dict.fromkeys(("io_uring_cmd", "libblkio", "libzbc", "mtd", "sg", "xnvme"), _RAW_COMMANDS),
    **dict.fromkeys(("dev-dax", "libpmem", "pmemblk"), _MEMORY),
    "external": "it loads code from a file",
    "e4defrag": "it moves the extents of files on ext4 instead of reading and writing data",
}
REFUSED = WITHOUT_STORAGE | _ELSEWHERE


def check_engine(engine: str, where: str) -> None:
    """Raises OptionsError for every engine that is not known to read and write the target."""
    if engine in READ_AND_WRITE:
        return
    why = REFUSED.get(engine.partition(":")[0], "it is not known to read and write the target")
    raise OptionsError(
        f"{where}: ioengine {engine[:40]!r} is not allowed: {why}. Use one of {', '.join(READ_AND_WRITE)}"
    )


def without_storage(engines: Iterable[str]) -> str:
    """Reason to refuse a result of these engines, as they use no storage; "" where there is none."""
    for engine in engines:
        if why := WITHOUT_STORAGE.get(engine.strip()):
            return f"this job did no I/O to storage: ioengine={engine.strip()}, {why}"
    return ""
