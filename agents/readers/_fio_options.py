# SPDX-License-Identifier: Apache-2.0
"""Options of fio's results: from its starting lines, or its JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from agents.outputs import fio_jobfile, fio_text
from agents.outputs import fio_jobfile as jobfile
from agents.outputs.fio_json import DIRECTIONS, Heads, global_options
from agents.outputs.fio_load import TWICE
from agents.outputs.fio_text import Started

GROUPED = (
    "fio summed up sections of different depth (group_reporting): the outstanding I/Os are unknown"
)
GROUPED_JSON = "fio summed up several sections (group_reporting): the outstanding I/Os are unknown"
# what fio takes where it is told nothing, on Linux
ENGINE = "psync"


@dataclass(frozen=True, slots=True)
class ReportedOptions:
    title: str = ""
    version: str = ""
    command: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    outstanding: int | None = None
    note: str = ""
    # equal in all that one run printed in this format; "" where nothing tells
    run: str = ""


def of_text(block: str) -> ReportedOptions:
    """`name: (g=0): rw=randread, bs=4K-4K/4K-4K, ioengine=libaio, iodepth=64` of each job, `jobs=2` of each result."""
    started = {start.name: start for start in fio_text.parse_starting_lines(block)}
    names: dict[str, int] = {}
    groups = set()
    for head in fio_text.HEAD.finditer(block):
        name = fio_text.job_name(block, head)
        if name != fio_text.ALL_CLIENTS:
            names[name] = names.get(name, 0) + int(head[2][:9])
            groups.add(head[1])
    same = [start for start in started.values() if start.group in groups]
    if len(names) == 1 and 1 < len(same) <= sum(names.values()):
        return _grouped(same, sum(names.values()))
    line_options = [_of_line(started[name]) for name in names if name in started]
    shared = _shared_options(line_options) if len(line_options) == len(names) else {}
    depths = [
        _depth(options.get("ioengine"), options.get("iodepth")) * count
        for options, count in zip(line_options, names.values(), strict=False)
    ]
    certain = len(line_options) == len(names) and len(groups) == 1
    options = shared | ({"numjobs": sum(names.values())} if len(names) == 1 and shared else {})
    return ReportedOptions(
        ", ".join(names)[:200], "", "", options, sum(depths) if certain else None
    )


def _grouped(started: Sequence[Started], jobs: int) -> ReportedOptions:
    """Sections that fio summed up as so many jobs, in the name of the first."""
    each = [_of_line(start) for start in started]
    depths = [_depth(start.ioengine, start.iodepth) for start in started]
    several = [start.several for start in started]
    title = ", ".join(start.name for start in started)[:200]
    if len(set(depths)) == 1:
        return ReportedOptions(title, options=_shared_options(each), outstanding=depths[0] * jobs)
    if several.count(True) == 1 and jobs > len(each):
        more = depths[several.index(True)] * (jobs - len(each))
        return ReportedOptions(title, options=_shared_options(each), outstanding=sum(depths) + more)
    if not any(several) and jobs == len(each):
        return ReportedOptions(title, options=_shared_options(each), outstanding=sum(depths))
    return ReportedOptions(title, options=_shared_options(each), note=GROUPED)


def _of_line(started: Started) -> dict[str, object]:
    options: dict[str, object] = {"ioengine": started.ioengine, "iodepth": started.iodepth}
    if started.rw in jobfile.DIRECTIONS:
        options["rw"] = started.rw
    if len(sizes := set(started.sizes)) == 1:
        options["block_size"] = sizes.pop()
    return options


def engines_of_text(block: str) -> list[str]:
    """Engine of each job in the starting lines."""
    return [start.ioengine for start in fio_text.parse_starting_lines(block)]


def engines_of_document(data: Heads) -> list[str]:
    """Engine of each job of which the document names one."""
    each = (
        _string_options(global_options(data.rest, job)) | _string_options(job.get("job options"))
        for job in data.jobs
    )
    return [options["ioengine"] for options in each if "ioengine" in options]


def of_broken(raw: bytes) -> ReportedOptions:
    """Options of JSON whose figures cannot be read, as far as it is JSON."""
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return ReportedOptions()
    jobs = data.get("jobs") or data.get("client_stats")
    heads = Heads(data)
    for job in jobs if isinstance(jobs, list) else []:
        heads.add_job(job)
    return of_document(heads)


def of_document(data: Heads) -> ReportedOptions:
    """ "global options" and "job options" of JSON."""
    jobs = data.jobs
    jobs = [job for job in jobs if job.get("jobname") != fio_text.ALL_CLIENTS] or jobs
    names = dict.fromkeys(str(job.get("jobname", ""))[:60] for job in jobs)
    version = str(data.rest.get("fio version", "")).removeprefix("fio-")[:40]
    job_options = [global_options(data.rest, job) for job in jobs]
    each = [
        _string_options(options) | _string_options(job.get("job options"))
        for options, job in zip(job_options, jobs, strict=True)
    ]
    repeats = [[str(job.get(key)) for key in ("jobname", "groupid", "job options")] for job in jobs]
    run = repr((str(data.rest.get("global options")), repeats))
    single = len({_job_identity(job) for job in jobs}) == len(jobs)
    copies = [_copies(options) if single else 1 for options in each]
    if any(_more_ran(job, count) for job, count in zip(jobs, copies, strict=True)):
        # these are the options of the last of several sections, and the name is that of the first
        title = ", ".join(names)[:200]
        common = _shared_options(
            [_tool_options(_string_options(options)) for options in job_options]
        )
        return ReportedOptions(title, version, options=common, note=GROUPED_JSON, run=run)
    tool_options = [_tool_options(options) for options in each]
    depths = [
        _depth(options.get("ioengine"), known_one.get("iodepth")) * count
        for options, known_one, count in zip(each, tool_options, copies, strict=True)
    ]
    certain = any(each) and len({job.get("groupid") for job in jobs}) == 1
    certain = certain and all(map(_depth_told, job_options, jobs))
    same = _shared_options(tool_options)
    if len(names) == 1 and same:
        same["numjobs"] = sum(copies)
    outstanding = sum(depths) if certain else None
    return ReportedOptions(", ".join(names)[:200], version, "", same, outstanding, run=run)


def _job_identity(job: Mapping[str, object]) -> tuple[str, str, str]:
    return str(job.get("jobname", ""))[:60], str(job.get("hostname")), str(job.get("port"))


def _depth_told(options: Mapping[str, object], job: Mapping[str, object]) -> bool:
    """True when the options behind its I/Os in flight are said once: clients may have been given different ones."""
    own = _string_options(job.get("job options"))
    return all(
        options.get(key) is not TWICE or key in own for key in ("iodepth", "ioengine", "numjobs")
    )


def _more_ran(job: Mapping[str, object], copies: int) -> bool:
    """True when more jobs than these copies were summed up, by the time (ms) that all of them took together."""
    parts = [part for name in DIRECTIONS if isinstance(part := job.get(name), dict)]
    times = [part.get("runtime") for part in parts]
    whole, longest = (
        job.get("job_runtime"),
        max((t for t in times if isinstance(t, int)), default=0),
    )
    return isinstance(whole, int) and whole > copies * (1.05 * longest + 20)


def _string_options(data: object) -> dict[str, str]:
    if not isinstance(data, dict):
        return {}
    return {key: value for key, value in data.items() if isinstance(value, str)}


def _tool_options(options: Mapping[str, str]) -> dict[str, object]:
    tool_options: dict[str, object] = {}
    for key in ("rw", "readwrite"):
        if options.get(key) in jobfile.DIRECTIONS:
            tool_options["rw"] = options[key]
    for key in ("bs", "blocksize"):
        if key in options and (size := _size_bytes(options, key)):
            tool_options["block_size"] = size
    if "ioengine" in options:
        tool_options["ioengine"] = options["ioengine"][:40]
    for key in ("iodepth", "rwmixread", "fsync", "fdatasync"):
        if options.get(key, "").isdecimal():
            tool_options[key] = int(options[key][:9])
    if options.get("direct") in ("0", "1"):
        tool_options["direct"] = options["direct"] == "1"
    return tool_options


def _copies(options: Mapping[str, str]) -> int:
    """Number of copies of a job whose name occurs once: without group_reporting fio prints each copy by itself."""
    count = options.get("numjobs", "1")
    return max(int(count[:6]), 1) if count.isdecimal() else 1


def _depth(engine: object, depth: object) -> int:
    if (engine or ENGINE) in fio_jobfile.SYNCHRONOUS:
        return 1
    return depth if isinstance(depth, int) and depth else 1


def _shared_options(options_of_jobs: list[dict[str, object]]) -> dict[str, object]:
    """Options on which all of them agree."""
    if not options_of_jobs:
        return {}
    return {
        key: value
        for key, value in options_of_jobs[0].items()
        if all(options.get(key) == value for options in options_of_jobs)
    }


def _size_bytes(options: Mapping[str, str], key: str) -> int | None:
    """Size as fio reads it: k is 1024 bytes and kib 1000, the other way round behind kb_base=1000."""
    size = fio_text.SIZE.fullmatch(options[key])
    if not size:
        return None
    names = list(options)
    thousands = options.get("kb_base") == "1000" and names.index("kb_base") < names.index(key)
    base = 1000 if thousands != bool(size[4] and size[5]) else 1024
    return int(float(size[1] + (size[2] or "")) * base ** fio_text.POWERS[size[3].lower()])
