# SPDX-License-Identifier: Apache-2.0
"""TODO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import orjson

from agents.outputs import fio_jobfile, fio_text
from agents.outputs import fio_jobfile as jobfile
from agents.outputs.fio_json import DIRECTIONS, Heads, global_options
from agents.outputs.fio_load import TWICE
from agents.outputs.fio_text import Started
from agents.texts.parsed_result import ParsedResult

OTHER_FORMAT = "fio printed this run in another format as well: those lines are left out"
MAYBE = "the next line has higher totals: this may be an interim total of the same run (--status-interval)"


@dataclass(frozen=True, slots=True)
class Printed:
    block: ParsedResult
    # Differs between runs: a text's process ids, a document's options; "" is not known
    run: str = ""
    # the second when it was printed; a text need not tell
    at: float | None = None
    # how exact that is, in seconds
    step: float = 0.0


def last_totals(every: Iterable[Printed]) -> list[ParsedResult]:
    """The last total of each run, in the order of the text, with the options that the first one prints."""
    last_prints: list[Printed] = []
    for printed in every:
        if last_prints and _goes_on(last_prints[-1], printed):
            printed = replace(printed, block=_instead(printed.block, last_prints.pop().block))
        last_prints.append(printed)
    return [_with_repeat_count(printed.block) for printed in last_prints]


def once(results: Iterable[ParsedResult], again: Iterable[ParsedResult]) -> list[ParsedResult]:
    """All results, without those of `again` that are the same run as one of `results`."""
    unique_results = list(results)
    places: dict[tuple[str, float], list[int]] = defaultdict(list)
    for at, result in enumerate(unique_results):
        places[_result_key(result)].append(at)
    for result in again:
        same = next(
            (at for at in places[_result_key(result)] if _same(unique_results[at], result)), None
        )
        if same is None:
            unique_results.append(result)
        else:
            lines = (*unique_results[same].also, (result.first, result.last), *result.also)
            notes = dict.fromkeys((*unique_results[same].notes, OTHER_FORMAT))
            unique_results[same] = replace(unique_results[same], also=lines, notes=tuple(notes))
    return unique_results


def without_jobs(
    results: Iterable[ParsedResult], lines: Iterable[ParsedResult]
) -> tuple[list[ParsedResult], list[ParsedResult]]:
    """All found, and the lines that are not theirs: terse prints each job of a run by itself, other formats all jobs
    as one result.
    """
    results_without_jobs, remaining_lines = list(results), list(lines)
    for at, result in enumerate(results_without_jobs):
        if jobs := _jobs_of(result, remaining_lines):
            its = remaining_lines[jobs]
            del remaining_lines[jobs]
            places = [place for line in its for place in ((line.first, line.last), *line.also)]
            notes = tuple(dict.fromkeys((*result.notes, OTHER_FORMAT)))
            results_without_jobs[at] = replace(result, also=(*result.also, *places), notes=notes)
    return results_without_jobs, remaining_lines


def _jobs_of(result: ParsedResult, lines: Sequence[ParsedResult]) -> slice | None:
    """Two or more lines, each right below the other, that have moved as many bytes together in the same time."""
    totals = _moved_bytes(result)
    if not any(totals):
        return None
    low, sums = 0, [0.0, 0.0, 0.0]
    for high, line in enumerate(lines):
        if high and line.first != lines[high - 1].last + 1:
            low, sums = high, [0.0, 0.0, 0.0]
        sums = [was + more for was, more in zip(sums, _moved_bytes(line), strict=True)]
        while any(has > want for has, want in zip(sums, totals, strict=True)) and low <= high:
            sums = [has - less for has, less in zip(sums, _moved_bytes(lines[low]), strict=True)]
            low += 1
        its = lines[low : high + 1]
        # each tells whole KiB
        lost = 1024 * len(its)
        if (
            len(its) > 1
            and all(want - has < lost for has, want in zip(sums, totals, strict=True))
            and abs(max(map(_runtime, its)) - _runtime(result)) < 0.0015
        ):
            return slice(low, high + 1)
    return None


def _moved_bytes(result: ParsedResult) -> list[float]:
    """Read, written, trimmed; by all groups."""
    every = [m for m in result.metrics if m.value is not None and m.name.endswith(".bytes")]
    totals = [m for m in every if "group" not in m.labels] or every
    return [
        sum(m.value or 0.0 for m in totals if m.name == f"{way}.bytes")
        for way in ("read", "write", "trim")
    ]


def with_doubts(lines: Sequence[ParsedResult]) -> list[ParsedResult]:
    """Terse lines tell neither process nor time: who reads on may be told that they look like totals so far."""
    rising = {result.first for result, following in pairwise(lines) if _rises(result, following)}
    return [
        replace(result, notes=(*result.notes, MAYBE)) if result.first in rising else result
        for result in lines
    ]


def _goes_on(before: Printed, after: Printed) -> bool:
    """True when the later is a later total of the same run: it began before the other was printed, and all is more."""
    if not before.run or before.run != after.run or not _grown(before.block, after.block):
        return False
    if before.at is None or after.at is None:
        return before.at is after.at
    return after.at - before.at + after.step < _runtime(after.block)


def _grown(before: ParsedResult, after: ParsedResult) -> bool:
    counts = [_counts(result) for result in (before, after)]
    comparable = not before.trouble and not after.trouble and bool(counts[0])
    return comparable and all(value <= counts[1].get(key, -1.0) for key, value in counts[0].items())


def _rises(before: ParsedResult, after: ParsedResult) -> bool:
    later = _runtime(after) - _runtime(before)
    return before.title == after.title and later > 0.05 and _grown(before, after)


def _counts(result: ParsedResult) -> dict[tuple[str, str], float]:
    """Counts that only grow while a run goes on, by metric and group."""
    return {
        (m.name, m.labels.get("group", "")): m.value
        for m in result.metrics
        if m.value is not None and m.name.endswith((".ios", ".bytes", "runtime", ".max"))
    }


def _runtime(result: ParsedResult) -> float:
    return max((m.value or 0.0 for m in result.metrics if m.name == "runtime"), default=0.0)


def _instead(later: ParsedResult, earlier: ParsedResult) -> ParsedResult:
    return replace(
        later,
        title=earlier.title,
        also=(*earlier.also, (earlier.first, earlier.last)),
        options=later.options or earlier.options,
        outstanding=earlier.outstanding if later.outstanding is None else later.outstanding,
        version=later.version or earlier.version,
        command=later.command or earlier.command,
    )


def _with_repeat_count(result: ParsedResult) -> ParsedResult:
    if not result.also:
        return result
    many = f"{len(result.also)} earlier total{'s' * (len(result.also) > 1)}"
    return replace(
        result, notes=(*result.notes, f"{many} of this run (--status-interval) left out")
    )


def _result_key(result: ParsedResult) -> tuple[str, float]:
    return result.title.partition(", ")[0], round(_runtime(result), 3)


def _same(result: ParsedResult, other: ParsedResult) -> bool:
    """True for equal work in the same milliseconds, by the count of I/Os or by rates cut to integers."""
    mine, others = (
        {
            (m.name, m.labels.get("group", "")): m.value
            for m in which.metrics
            if m.value is not None
            and m.name.endswith((".ios", "iops", "clat.mean"))
            # JSON alone has it
            and not m.name.startswith("steady.")
        }
        for which in (result, other)
    )
    shared = mine.keys() & others.keys()
    rates = {key for key in mine if key[0].endswith("iops")}
    return (
        rates != set()
        and rates == {key for key in others if key[0].endswith("iops")}
        and all(_figures_agree(key[0], mine[key], others[key]) for key in shared)
    )


def _figures_agree(name: str, figure: float, other: float) -> bool:
    if name.endswith(".ios"):
        return figure == other
    if name.endswith("iops"):
        # read and write are cut each
        return abs(figure - other) < 2
    return abs(figure - other) <= 0.01 * max(figure, other) + 1.5e-6


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
