# SPDX-License-Identifier: Apache-2.0
"""Options of fio's results: from its command line, a job file in the text, its starting lines, or its JSON. Pure.

Options that agents/tools/fio.py has stand under its names, in its types; all others under fio's own, verbatim. A switch
without a value is True. Several jobs that one result sums up share what they agree on; what differs stands under
`JOB.OPTION`. fio's JSON leaves out switches that were typed without a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    # the text shows all of them
    complete: bool = False
    outstanding: int | None = None
    # of each group, where there are several: fio ran them one after another, or reports them apart
    groups: Mapping[str, ReportedOptions] = field(default_factory=dict)
    note: str = ""
    # equal in all that one run printed in this format; "" where nothing tells
    run: str = ""


# Options of `fio --help`: how fio reports and where it runs, not what its jobs do.
_PROGRAM_SWITCHES = """
append-terse bandwidth-log h help latency-log m merge-blktrace-only minimal parse-only readonly v version warnings-fatal
"""
_PROGRAM_OPTIONS = """
alloc-size aux-path client cmdhelp daemonize debug enghelp eta eta-interval eta-newline idle-prof inflate-log max-jobs o
output output-format remote-config server showcmd status-interval terse-version trigger trigger-file trigger-remote
trigger-timeout
"""
PROGRAM_SWITCHES = frozenset(_PROGRAM_SWITCHES.split())
PROGRAM_OPTIONS = frozenset(_PROGRAM_OPTIONS.split()) | PROGRAM_SWITCHES
# Job options that take the word behind them for no value: "empty or boolean" in `fio --cmdhelp`, 3.33, with aliases.
_SWITCHES = """
blocksize_unaligned bs_unaligned exit_all exitall exitall_on_error fill_device fill_fs fixedbufs group_reporting hipri
new_group nonvectored norandommap refill_buffers registerfiles sqthread_poll stonewall thread time_based uncached
userspace_reap verify_only wait_for_previous zero_buffers
"""
SWITCHES = frozenset(_SWITCHES.split()) | PROGRAM_SWITCHES
SECTION = re.compile(r"^ *\[([^\[\]\n]{1,100})\] *$", re.MULTILINE)
JOB_LINE = re.compile(r" *(?:[;#].*|[a-z][a-z0-9_-]*(?: *=.*)?|\[[^\[\]]{1,100}\])? *")
# characters of a value that is kept
LONGEST_VALUE = 1000


@dataclass(frozen=True, slots=True)
class Section:
    """A job as it was asked for, with the options of [global]. The value of a bare switch is None."""

    name: str
    options: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file that the text shows. `heading` is the line above it, `end` the place behind it."""

    heading: str
    end: int
    sections: tuple[Section, ...]


def find_job_files(text: str) -> list[JobFile]:
    """Job files in the text, in its order."""
    files: list[JobFile] = []
    for match in SECTION.finditer(text):
        if files and match.start() < files[-1].end:
            continue
        end, lines = match.start(), []
        while end < len(text):
            following = text.find("\n", end) + 1 or len(text) + 1
            if not JOB_LINE.fullmatch(text, end, following - 1):
                break
            lines.append(text[end : following - 1].strip())
            end = min(following, len(text))
        above = text[max(match.start() - LONGEST_VALUE, 0) : match.start()].split("\n")
        headings = (
            line for line in reversed(above) if line.strip() and line.strip()[0] not in ";#"
        )
        files.append(JobFile(next(headings, ""), end, tuple(_file_sections(lines))))
    return files


def _file_sections(lines: Sequence[str]) -> Iterator[Section]:
    shared: dict[str, str | None] = {}
    current = shared
    for line in lines:
        if line.startswith("["):
            name = line[1:-1]
            current = shared if name == "global" else dict(shared)
            if name != "global":
                yield Section(name, current)
        elif line and line[0] not in ";#":
            key, assigned, value = (part.strip() for part in line.partition("="))
            current[key] = value if assigned else None


def command_sections(arguments: Sequence[str], job_files: Sequence[JobFile]) -> list[Section]:
    """Jobs of a command line; [] where it has a job file that is not among `job_files`."""
    shared: dict[str, str | None] = {}
    current, sections = shared, []
    files: list[str] = []
    only: set[str | None] = set()
    for name, value in _argument_pairs(arguments):
        if not name:
            files.append(value or "")
        elif name == "section":
            only.add(value)
        elif name == "name":
            current = dict(shared)
            sections.append(Section(value or "", current))
        elif name not in PROGRAM_OPTIONS:
            current[name] = value
    for path in files:
        base = path.rpartition("/")[2]
        shown = [file for file in job_files if base in re.split(r"[\s/:>]+", file.heading)]
        if not shown:
            return []
        sections += [
            Section(section.name, {**shared, **section.options})
            for section in shown[-1].sections
            if not only or section.name in only
        ]
    return sections


def _argument_pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Name and value of each option; a job file has no name."""
    at = 0
    while at < len(arguments):
        word, at = arguments[at], at + 1
        if not word.startswith("-"):
            yield "", word
            continue
        name, assigned, value = word.lstrip("-").partition("=")
        following = arguments[at] if at < len(arguments) else "--"
        if assigned:
            yield name, value
        elif name in SWITCHES or following.startswith("--"):
            yield name, None
        else:
            at += 1
            yield name, following


def asked_sections(
    arguments: Sequence[str], job_files: Sequence[JobFile], names: Sequence[str]
) -> list[Section]:
    """Jobs of these names: those of the command, or else of the nearest job file above that has them all."""
    asked = command_sections(arguments, job_files)
    every = [asked] if arguments else [file.sections for file in reversed(job_files)]
    for sections in every:
        own = [section for section in sections if section.name in names]
        by_name = {section.name: section for section in own}
        if by_name.keys() >= set(names):
            # of two jobs of one name it is not told which is which
            return own if all(section == by_name[section.name] for section in own) else []
    return []


def of_text(
    block: str, arguments: Sequence[str] = (), job_files: Sequence[JobFile] = ()
) -> ReportedOptions:
    """`name: (g=0): rw=randread, bs=4K-4K/4K-4K, ioengine=libaio, iodepth=64` of each job, `jobs=2` of each result, and
    what the command and job files above say of these jobs.
    """
    starts = fio_text.parse_starting_lines(block)
    # jobs of each name, by group
    counts: dict[str, dict[str, int]] = {}
    for head in fio_text.HEAD.finditer(block):
        name = fio_text.job_name(block, head)
        if name != fio_text.ALL_CLIENTS:
            names = counts.setdefault(head[1], {})
            names[name] = names.get(name, 0) + int(head[2][:9])
    together: dict[str, int] = {}
    for name, count in (pair for names in counts.values() for pair in names.items()):
        together[name] = together.get(name, 0) + count
    whole = _of_jobs(starts, together, set(counts), arguments, job_files)
    if len(counts) < 2:
        return whole
    groups = {
        group: _of_jobs(starts, names, {group}, arguments, job_files)
        for group, names in counts.items()
    }
    return replace(whole, groups=groups)


def _of_jobs(
    starts: Sequence[Started],
    names: Mapping[str, int],
    groups: set[str],
    arguments: Sequence[str],
    job_files: Sequence[JobFile],
) -> ReportedOptions:
    """Options of the jobs of these groups; `names` with the number of their copies."""
    started = {start.name: start for start in starts if start.group in groups or len(groups) != 1}
    same = [start for start in started.values() if start.group in groups]
    if len(names) == 1 and 1 < len(same) <= sum(names.values()):
        sections = asked_sections(arguments, job_files, [start.name for start in same])
        return _grouped(same, sum(names.values()), sections)
    sections = asked_sections(arguments, job_files, list(names))
    lines = {name: _of_line(started[name]) if name in started else {} for name in names}
    if not all(_agrees(lines[section.name], section) for section in sections):
        sections = []
    asked = {section.name: lines[section.name] | _section_options(section) for section in sections}
    job_options = lines | asked
    options = _merged_options(job_options) if all(job_options.values()) else {}
    depths = [
        _depth(options.get("ioengine"), options.get("iodepth")) * count
        for options, count in zip(job_options.values(), names.values(), strict=True)
    ]
    certain = names.keys() <= started.keys() and len(groups) == 1
    if len(names) == 1 and options:
        options["numjobs"] = sum(names.values())
    return ReportedOptions(
        ", ".join(names)[:200],
        options=options,
        complete=len(sections) == len(names) == 1,
        outstanding=sum(depths) if certain else None,
    )


def of_name(name: str, arguments: Sequence[str], job_files: Sequence[JobFile]) -> ReportedOptions:
    """Options that the command and job files above give a job of which only the name is printed."""
    sections = asked_sections(arguments, job_files, [name])
    if len(sections) != 1 or not _agrees({}, sections[0]):
        return ReportedOptions(name)
    return ReportedOptions(name, options=_section_options(sections[0]), complete=True)


def _section_options(section: Section) -> dict[str, object]:
    return _tool_options({name: value or "" for name, value in section.options.items()})


def _agrees(line: Mapping[str, object], section: Section) -> bool:
    """False where fio's starting line shows that it ran something else, or the shell has put in values."""
    if any("$" in (value or "") for value in section.options.values()):
        return False
    asked = _section_options(section)
    for name in line.keys() & asked.keys():
        value, own = asked[name], line[name]
        if name == "rw":
            value = {"readwrite": "rw"}.get(direction := str(value).partition(":")[0], direction)
            own = {"readwrite": "rw"}.get(str(own), own)
        # fio 3 rounds sizes in the starting line
        rounded = isinstance(value, int) and isinstance(own, int) and abs(value - own) * 100 <= own
        if value != own and not rounded:
            return False
    return True


def _merged_options(job_options: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Options on which all jobs agree; the others under JOB.OPTION."""
    same = _shared_options(list(job_options.values()))
    own = {
        f"{job}.{name}"[:LONGEST_VALUE]: value
        for job, options in job_options.items()
        for name, value in options.items()
        if name not in same
    }
    return {**same, **own}


def _grouped(started: Sequence[Started], jobs: int, sections: Sequence[Section]) -> ReportedOptions:
    """Sections that fio summed up as so many jobs, in the name of the first."""
    each = {start.name: _of_line(start) for start in started}
    if all(_agrees(each[section.name], section) for section in sections):
        each |= {
            section.name: each[section.name] | _section_options(section) for section in sections
        }
    options = _merged_options(each)
    depths = [_depth(start.ioengine, start.iodepth) for start in started]
    several = [start.several for start in started]
    title = ", ".join(start.name for start in started)[:200]
    if len(set(depths)) == 1:
        return ReportedOptions(title, options=options, outstanding=depths[0] * jobs)
    if several.count(True) == 1 and jobs > len(started):
        more = depths[several.index(True)] * (jobs - len(started))
        return ReportedOptions(title, options=options, outstanding=sum(depths) + more)
    if not any(several) and jobs == len(started):
        return ReportedOptions(title, options=options, outstanding=sum(depths))
    return ReportedOptions(title, options=options, note=GROUPED)


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
    by_group: dict[str, list[dict[str, object]]] = {}
    for job in jobs:
        by_group.setdefault(str(job.get("groupid")), []).append(job)
    whole = _of_document_jobs(data, jobs)
    if len(by_group) < 2:
        return whole
    groups = {group: _of_document_jobs(data, own) for group, own in by_group.items()}
    return replace(whole, groups=groups)


def _of_document_jobs(data: Heads, jobs: Sequence[Mapping[str, object]]) -> ReportedOptions:
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
    complete = len(names) == 1 and all(
        isinstance(job.get("job options"), dict) and TWICE not in options.values()
        for job, options in zip(jobs, job_options, strict=True)
    )
    depths = [
        _depth(options.get("ioengine"), known_one.get("iodepth")) * count
        for options, known_one, count in zip(each, tool_options, copies, strict=True)
    ]
    certain = any(each) and len({job.get("groupid") for job in jobs}) == 1
    certain = certain and all(map(_depth_told, job_options, jobs))
    same = _merged_options(_by_job(jobs, tool_options))
    if len(names) == 1 and same:
        same["numjobs"] = sum(copies)
    return ReportedOptions(
        ", ".join(names)[:200],
        version,
        options=same,
        complete=complete and all(options == tool_options[0] for options in tool_options),
        outstanding=sum(depths) if certain else None,
        run=run,
    )


def _by_job(
    jobs: Sequence[Mapping[str, object]], job_options: Sequence[Mapping[str, object]]
) -> dict[str, Mapping[str, object]]:
    """Options by the job's name; a name with other options than before gets a number."""
    by_job: dict[str, Mapping[str, object]] = {}
    for number, (job, options) in enumerate(zip(jobs, job_options, strict=True), 1):
        name = str(job.get("jobname", ""))[:60]
        unlike = by_job.get(name, options) != options
        by_job[f"{name} {number}" if unlike else name] = options
    return by_job


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


SIZE_NAMES = {"bs": "block_size", "blocksize": "block_size", "size": "size"}
COUNT_NAMES = {
    name: name
    for name in (
        "iodepth",
        "numjobs",
        "rwmixread",
        "percentage_random",
        "fsync",
        "fdatasync",
        "log_avg_msec",
        "log_hist_msec",
    )
}
TIME_NAMES = {"runtime": "runtime_s", "timeout": "runtime_s", "ramp_time": "ramp_s"}
SWITCH_VALUES = {"": True, "1": True, "true": True, "0": False, "false": False}


def _tool_options(options: Mapping[str, str]) -> dict[str, object]:
    """All options, without the job's name: under the tool's names, in its types, where it has them."""
    tool_options: dict[str, object] = {}
    for key, value in options.items():
        if key in ("rw", "readwrite"):
            tool_options["rw"] = value[:40]
        elif key in SIZE_NAMES and (size := _size_bytes(options, key)):
            tool_options[SIZE_NAMES[key]] = size
        elif key in COUNT_NAMES and value.isdecimal() and value.isascii():
            tool_options[COUNT_NAMES[key]] = int(value[:9])
        elif key in TIME_NAMES and (seconds := _whole_seconds(value)) is not None:
            tool_options[TIME_NAMES[key]] = seconds
        elif key in ("direct", "time_based", "group_reporting") and value in SWITCH_VALUES:
            tool_options[key] = SWITCH_VALUES[value]
        elif key != "name":
            tool_options[key] = value[:LONGEST_VALUE] or True
    return tool_options


def _whole_seconds(value: str) -> int | None:
    seconds = jobfile.runtime_of({"runtime": value})
    return int(seconds) if seconds % 1 == 0 and (seconds or value == "0") else None


def _copies(options: Mapping[str, str]) -> int:
    """Number of copies of a job whose name occurs once: without group_reporting fio prints each copy by itself."""
    count = options.get("numjobs", "1")
    return max(int(count[:6]), 1) if count.isdecimal() else 1


def _depth(engine: object, depth: object) -> int:
    if (engine or ENGINE) in fio_jobfile.SYNCHRONOUS:
        return 1
    return depth if isinstance(depth, int) and depth else 1


def _shared_options(options_of_jobs: Sequence[Mapping[str, object]]) -> dict[str, object]:
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
