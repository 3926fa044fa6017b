# SPDX-License-Identifier: Apache-2.0
"""Targets of a fio run, and whether it attained them: `steadystate` and `latency_target` of its JSON and of its text.
Raises ParseError.

Checked against steadystate.c and stat.c of 3.0 to 3.42. Steady rates are means over the last `duration` seconds: B/s,
and since 3.42, where latency was the criterion, ns. Before so much time passed fio fills up with zeros, so they are
taken only from a state that was reached. With group_reporting they are those of the group, else of each job at a moment
of its own: such rates do not add up. `latency_*` are printed by every run, with a target of 0 where none was asked.
The text has rates of four digits at most; its bandwidth in brackets is wrong (the first one's digits with the other's
unit). It tells neither the limit that was asked for nor the seconds.

The tables below have every field of the JSON that is read here, by the version of fio 3 that brought it, as found in
the first tag of stat.c, client.c or init.c that has it; "3.0" stands for "or before". Where a field is later than 3.0,
its reader does without, and INSTEAD says how. A field that all have and a document has not is refused by name: the
document is damaged, or no result of fio 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from agents.contracts import Metric, ParseError, Unit
from agents.outputs.fio_model import FioJob, Goal, SteadyState

NUMBER = re.compile(r"-?(\d{1,20}(?:\.\d{1,20})?)(%?)")
MOMENTS = "the jobs reached steady state at different times: their rates do not add up"
LAST = "group_reporting: the depth of the last job"
# 3.33, --numjobs=3 --latency_target=2ms: 2 ms for the first, 2 s for the others, and they do go by it.
COPIES = (
    "group_reporting: the target of the last job; fio multiplies it by 1,000 for copies (numjobs)"
)
LINES = {
    "steady.attained": ("steadystate.attained",),
    "steady.iops": ("steadystate.data.iops_mean",),
    "steady.bandwidth": ("steadystate.data.bw_mean",),
    "steady.lat.mean": ("steadystate.data.lat_mean",),
    "steady.window": ("steadystate.duration",),
    "steady.deviation": ("steadystate.criterion",),
    "target.depth": ("latency_depth",),
    "target.lat": ("latency_target_ns", "latency_target"),
    "target.percentile": ("latency_percentile",),
    "target.window": ("latency_window_us", "latency_window"),
}

RATE = r"(\d[\d.]*)([kKMGTP]?)"
STEADY_TEXT = re.compile(
    rf"steadystate\s*: attained=(yes|no), bw={RATE}(i?)B/s \([^)\n]{{1,40}}\), iops={RATE}"
    rf"(?:, lat={RATE}([num]sec))?, (iops|bw|lat) (slope|mean dev)=-?(?:(\d+[.,]\d+)(%?)|nan|inf)"
)
GOAL_TEXT = re.compile(
    r"latency\s*: target=(\d{1,20}), window=(\d{1,20}), percentile=(\d+[.,]\d+)%, depth=(\d{1,9})"
)
POWERS = {
    unit: power
    for power, units in enumerate(("", "kK", "M", "G", "T", "P"))
    for unit in units or [""]
}
LATENCY_UNITS = {"nsec": 1e9, "usec": 1e6, "msec": 1e3}

Number = Callable[[Mapping[str, object], str, str], float]


def parse_steady_state(
    data: Mapping[str, object], where: str, number: Number
) -> SteadyState | None:
    """Steady state of the job's "steadystate". `number` reads a number, or raises."""
    if not data:
        return None
    means = data.get("data")
    if not isinstance(means, dict):
        raise ParseError(f"{where}.data should be an object, not {type(means).__name__}")
    inside = f"{where}.data"
    criterion = str(data.get("criterion", ""))
    read = NUMBER.fullmatch(criterion)
    return SteadyState(
        attained=number(data, "attained", where) != 0,
        criterion=_short_criterion(str(data.get("ss", ""))),
        seconds=number(data, "duration", where),
        iops=number(means, "iops_mean", inside),
        bandwidth=number(means, "bw_mean", inside),
        latency=number(means, "lat_mean", inside) / 1e9 if "lat_mean" in means else None,
        deviation=float(read[1]) / 100 if read and read[2] else None,
    )


def goal(
    data: Mapping[str, object], where: str, number: Number, version: str, grouped: bool
) -> Goal | None:
    """Goal of the job's "latency_target" and its neighbours, in the units of that version of fio."""
    if not data.get("latency_target"):
        return None

    def seconds(key: str, unit: str, scale: float) -> float | None:
        """The name carries the unit since 3.42; before, the version decides, if anything does."""
        if key + unit in data:
            return number(data, key + unit, where) / scale
        scale = units_per_second(key, version)
        return number(data, key, where) / scale if scale else None

    return Goal(
        depth=number(data, "latency_depth", where),
        latency=seconds("latency_target", "_ns", 1e9),
        window=seconds("latency_window", "_us", 1e6),
        share=number(data, "latency_percentile", where) / 100,
        grouped=grouped,
    )


def steady_of_text(match: re.Match[str]) -> SteadyState:
    """Steady state in STEADY_TEXT: "attained=yes, bw=8009KiB/s (8009kB/s), iops=2002, iops mean dev=0.250%"."""
    (
        attained,
        bw,
        bw_unit,
        binary,
        iops,
        iops_unit,
        lat,
        lat_unit,
        lat_of,
        kind,
        how,
        criterion,
        share,
    ) = match.groups()
    latency = _printed(lat, lat_unit) / LATENCY_UNITS[lat_of] if lat else None
    slope = "_slope" if how == "slope" else ""
    return SteadyState(
        attained=attained == "yes",
        criterion=f"{kind}{slope}, limit unknown",
        seconds=None,
        iops=_printed(iops, iops_unit),
        bandwidth=_printed(bw, bw_unit, 1024.0 if binary else 1000.0),
        latency=latency,
        deviation=float(criterion.replace(",", ".")) / 100 if share else None,
    )


def goal_of_text(match: re.Match[str], version: str, grouped: bool) -> Goal | None:
    """Goal of a line that matches GOAL_TEXT, in the units of JSON before 3.42. None without a target."""
    target, window, share, depth = match.groups()
    if not int(target):
        return None
    scales = [units_per_second(key, version) for key in ("latency_target", "latency_window")]
    latency, lasting = (
        float(printed) / scale if scale else None
        for printed, scale in zip((target, window), scales, strict=True)
    )
    return Goal(float(depth), latency, lasting, float(share.replace(",", ".")) / 100, grouped)


def _printed(digits: str, unit: str, base: float = 1000.0) -> float:
    """Raises ParseError: two points in a number."""
    try:
        return float(digits) * base ** POWERS[unit]
    except ValueError:
        raise ParseError(f"not a number: {digits[:80]!r}") from None


def _short_criterion(criterion: str) -> str:
    """ "iops_slope:50.000000%" as it was written."""
    return re.sub(r"(\.\d*?)0+(?=%|\Z)", lambda match: match[1].rstrip("."), criterion[:60])


def aim_metrics(jobs: Sequence[FioJob], line: Callable[[str], int]) -> Iterator[Metric]:
    """Metrics of the jobs of a group. `line` finds the line of a figure."""
    for name, value, unit, note in (*_of_steady(jobs), *_of_goal(jobs)):
        yield Metric(name, value, unit, note=note, line=line(name))


Figure = tuple[str, float | None, Unit, str]


def _of_steady(jobs: Sequence[FioJob]) -> Iterator[Figure]:
    states = [job.steady for job in jobs if job.steady is not None]
    if not states:
        return
    criteria = ", ".join(dict.fromkeys(state.criterion for state in states))
    attained = len(states) == len(jobs) and all(state.attained for state in states)
    note = f"asked for: {criteria}" + ("" if len(states) == 1 or not attained else f"; {MOMENTS}")
    yield "steady.attained", float(attained), Unit.RATIO, note
    seconds = [state.seconds for state in states if state.seconds is not None]
    if seconds:
        yield "steady.window", max(seconds), Unit.SECONDS, ""
    if len(states) > 1 or not attained:
        return
    (state,) = states
    for name, value, unit in (
        ("steady.iops", state.iops, Unit.OPS_PER_SECOND),
        ("steady.bandwidth", state.bandwidth, Unit.BYTES_PER_SECOND),
        ("steady.lat.mean", state.latency, Unit.SECONDS),
        ("steady.deviation", state.deviation, Unit.RATIO),
    ):
        if value is not None:
            yield name, value, unit, ""


def _of_goal(jobs: Sequence[FioJob]) -> Iterator[Figure]:
    goals = [job.goal for job in jobs if job.goal is not None]
    if not goals:
        return
    grouped = any(goal.grouped for goal in goals)
    notes = [f"of {len(goals)} jobs together"] * (len(goals) > 1) + [LAST] * grouped
    if len(goals) == len(jobs):
        yield "target.depth", sum(goal.depth for goal in goals), Unit.RATIO, "; ".join(notes)
    for name, unit, values, note in (
        ("target.lat", Unit.SECONDS, {goal.latency for goal in goals}, COPIES * grouped),
        ("target.window", Unit.SECONDS, {goal.window for goal in goals}, ""),
        ("target.percentile", Unit.RATIO, {goal.share for goal in goals}, ""),
    ):
        # else each job has another one
        if len(values) == 1:
            (value,) = values
            yield name, value, unit, NO_VERSION if value is None else note


Version = tuple[int, int]

DOCUMENT: Mapping[str, Version] = {
    **dict.fromkeys(
        (
            "fio version",
            "timestamp",
            "timestamp_ms",
            "global options",
            "jobs",
            # in place of jobs, of fio --client
            "client_stats",
        ),
        (3, 0),
    ),
}
JOB: Mapping[str, Version] = {
    **dict.fromkeys(
        (
            "jobname",
            "groupid",
            "error",
            # continue_on_error only
            "total_err",
            "job options",
            "read",
            "write",
            "trim",
            # unified_rw_reporting only
            "mixed",
            "usr_cpu",
            "sys_cpu",
            "iodepth_level",
            "latency_depth",
            "latency_target",
            "latency_percentile",
            "latency_window",
            "steadystate",
            # Of a client, as its port; since 3.39 also in "global options", of which each has its own.
            "hostname",
            "port",
        ),
        (3, 0),
    ),
    "sync": (3, 4),
    "job_runtime": (3, 8),
    "job_start": (3, 36),
    "latency_target_ns": (3, 42),
    "latency_window_us": (3, 42),
}
DIRECTION: Mapping[str, Version] = {
    **dict.fromkeys(
        (
            "io_bytes",
            "io_kbytes",
            "bw",
            "iops",
            "runtime",
            "total_ios",
            "slat_ns",
            "clat_ns",
            "lat_ns",
        ),
        (3, 0),
    ),
    "bw_bytes": (3, 2),
}
LATENCY: Mapping[str, Version] = {
    **dict.fromkeys(
        (
            "min",
            "max",
            "mean",
            "stddev",
            "percentile",
            # json+ only
            "bins",
        ),
        (3, 0),
    ),
    "N": (3, 18),
}
STEADY: Mapping[str, Version] = {
    **dict.fromkeys(
        (
            "ss",
            "duration",
            "attained",
            "criterion",
            "data.bw_mean",
            "data.iops_mean",
        ),
        (3, 0),
    ),
    # where latency is the criterion
    "data.lat_mean": (3, 42),
}
INSTEAD: Mapping[str, str] = {
    "sync": "fsync latencies are not told, as before 3.4",
    "job_runtime": "sections that fio summed up as one job are not noticed",
    "job_start": "the measured window is taken from timestamp_ms",
    "latency_target_ns": "latency_target, in the unit of that version",
    "latency_window_us": "latency_window, in the unit of that version",
    "bw_bytes": "io_bytes over the runtime, else bw, in whole KiB/s",
    "N": "the bins' sum, else the I/Os of the direction",
    "data.lat_mean": "no criterion of that kind before",
}

NO_VERSION = "its unit changed with fio's versions, and this result does not say which fio it was"
_VERSION = re.compile(r"fio-(\d{1,3})\.(\d{1,3})")
MICRO, NANO = 1e6, 1e9
# From which version on a number stands for so many to a second; fio never said so in its documentation.
SCALES: Mapping[str, tuple[tuple[Version, float], ...]] = {
    "latency_target": (((0, 0), MICRO), ((3, 3), NANO)),
    "latency_window": (((0, 0), MICRO), ((3, 3), NANO), ((3, 21), MICRO)),
}


def field_version(field: str) -> str:
    """The version that brought a field, as people write it."""
    tables = (JOB, DIRECTION, LATENCY, STEADY)
    versions = [
        table[name] for table in tables for name in table if name.rpartition(".")[2] == field
    ]
    return "{}.{}".format(*max(versions, default=(3, 0)))


def parse_version(text: str) -> Version | None:
    """Version in "fio-3.33" or "fio-3.33-20-gabc"; None where the text is none."""
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2])) if match else None


def units_per_second(field: str, version_text: str) -> float:
    """Number of the field's units in a second, in a document of that version; 0 where it does not tell."""
    version = parse_version(version_text)
    if version is None:
        return 0.0
    return [scale for since, scale in SCALES[field] if since <= version][-1]
