# SPDX-License-Identifier: Apache-2.0
"""Figures of fio that explain others and are not stored: Disk stats, context switches, spread of rates, I/O depths.

Several jobs of one group become one figure where that is exact: counts and means of rates add up, depths are weighed
by I/Os. The lowest, the highest and the deviation of a sum are unknown. Damaged figures are left out, since the
parsers of the result itself refuse damage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agents.contracts import Metric, Unit

DIRECTIONS = ("read", "write", "trim", "mixed")
KIB = 1024.0
# fio's keys of JSON -> ours; the first is there in all versions
BANDWIDTH_KEYS = {
    "bw_min": "min",
    "bw_max": "max",
    "bw_mean": "mean",
    "bw_dev": "stddev",
    "bw_samples": "samples",
}
IOPS_KEYS = {
    "iops_min": "min",
    "iops_max": "max",
    "iops_mean": "mean",
    "iops_stddev": "stddev",
    "iops_samples": "samples",
}
SPREAD_KEYS = (*BANDWIDTH_KEYS, *IOPS_KEYS, "total_ios")
JOB_KEYS = ("ctx", "iodepth_level")
# key of `disk_util` -> name, factor
DISK_KEYS = {
    "read_ios": ("disk.read.ios", 1.0),
    "write_ios": ("disk.write.ios", 1.0),
    "read_merges": ("disk.read.merges", 1.0),
    "write_merges": ("disk.write.merges", 1.0),
    "read_ticks": ("disk.read.ticks", 1e-3),
    "write_ticks": ("disk.write.ticks", 1e-3),
    "in_queue": ("disk.queue", 1e-3),
    "util": ("disk.util", 1e-2),
}

Located = tuple[float, int]


@dataclass(slots=True)
class JobDetails:
    """Figures of one job, each with its line. `levels`: share of I/Os by depth as fio names it."""

    group: str
    ctx: Located | None = None
    levels: dict[str, Located] = field(default_factory=dict)
    ios: float = 0.0
    # "read.bandwidth.min" -> figure
    spreads: dict[str, Located] = field(default_factory=dict)


def combine(jobs: Sequence[JobDetails]) -> Iterator[Metric]:
    """Figures of each group; several groups are labelled."""
    groups = list(dict.fromkeys(job.group for job in jobs))
    for group in groups:
        labels = {"group": group} if len(groups) > 1 else {}
        yield from _group_metrics([job for job in jobs if job.group == group], labels)


def _group_metrics(jobs: Sequence[JobDetails], labels: Mapping[str, str]) -> Iterator[Metric]:
    switches = [job.ctx for job in jobs if job.ctx is not None]
    if len(switches) == len(jobs):
        total, line = sum((value for value, _ in switches), 0.0), switches[0][1]
        yield Metric("ctx", total, Unit.RATIO, labels, line=line)
    weights = [job.ios for job in jobs] if len(jobs) > 1 else [1.0]
    if all(job.levels for job in jobs) and any(weights):
        for level, (_, line) in jobs[0].levels.items():
            pairs = zip(jobs, weights, strict=True)
            parts = [job.levels.get(level, (0.0, 0))[0] * weight for job, weight in pairs]
            share = sum(parts) / sum(weights)
            yield Metric(f"depth.level.{level}", share, Unit.RATIO, labels, line=line)
    names = dict.fromkeys(name for job in jobs for name in job.spreads)
    for name in names:
        figures = [job.spreads[name] for job in jobs if name in job.spreads]
        if len(figures) == 1 or name.endswith((".mean", ".samples")):
            total = sum((value for value, _ in figures), 0.0)
            yield Metric(name, total, _spread_unit(name), labels, line=figures[0][1])


def _spread_unit(name: str) -> Unit:
    if name.endswith(".samples"):
        return Unit.RATIO
    return Unit.BYTES_PER_SECOND if ".bandwidth." in name else Unit.OPS_PER_SECOND


def _disk_metric(name: str, value: float, device: str, line: int) -> Metric:
    unit = Unit.SECONDS if name.endswith((".ticks", ".queue")) else Unit.RATIO
    return Metric(name, value, unit, {"device": device}, line=line)


def _number(value: object) -> float | None:
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**65
    return float(value) if right and isinstance(value, int | float) else None


# ---- JSON


def document_details(
    jobs: Iterable[tuple[Mapping[str, object], str, int]], disks: object, lines: Mapping[str, int]
) -> list[Metric]:
    """Details of a JSON document: of its jobs (each with its path and its line), and of its `disk_util`."""
    metrics = list(combine([_job_of_json(*job, lines) for job in jobs]))
    for index, disk in enumerate(disks if isinstance(disks, list) else []):
        device = disk.get("name") if isinstance(disk, dict) else None
        if not isinstance(device, str) or not device:
            continue
        for key, (name, factor) in DISK_KEYS.items():
            if (value := _number(disk.get(key))) is not None:
                line = lines.get(f"disk_util[{index}].{key}", 0)
                metrics.append(_disk_metric(name, value * factor, device, line))
    return metrics


def _job_of_json(
    job: Mapping[str, object], where: str, begins: int, lines: Mapping[str, int]
) -> JobDetails:
    details = JobDetails(str(job.get("groupid", 0)))
    if (switches := _number(job.get("ctx"))) is not None:
        details.ctx = switches, lines.get(f"{where}.ctx", begins)
    levels = job.get("iodepth_level")
    for level, printed in levels.items() if isinstance(levels, dict) else ():
        name = str(level).removeprefix(">=")
        if (share := _number(printed)) is not None and name != "0":
            details.levels[name] = share / 100, lines.get(f"{where}.iodepth_level", begins)
    for way in DIRECTIONS:
        part = job.get(way)
        if isinstance(part, dict):
            details.ios += _number(part.get("total_ios")) or 0.0
            _add_spreads(details, way, part, f"{where}.{way}", begins, lines)
    return details


def _add_spreads(
    details: JobDetails,
    way: str,
    part: Mapping[str, object],
    where: str,
    begins: int,
    lines: Mapping[str, int],
) -> None:
    for kind, keys, factor in (("bandwidth", BANDWIDTH_KEYS, KIB), ("iops", IOPS_KEYS, 1.0)):
        if not _number(part.get(f"{'bw' if kind == 'bandwidth' else kind}_max")):
            # no sample was taken: the run was shorter than half a second
            continue
        for key, figure in keys.items():
            if (value := _number(part.get(key))) is not None:
                value *= 1.0 if figure == "samples" else factor
                name = f"{way}.{kind}.{figure}"
                details.spreads[name] = value, lines.get(f"{where}.{key}", begins)


# ---- text

NUMBER = r"\s*(\d+(?:[.,]\d+)?)"
TEXT_PART = re.compile(
    r"\(groupid=(?P<group>\d+), jobs=\d+\): err="
    r"|\b(?P<way>read|write|trim|mixed)\s*: (?:IOPS|io)="
    rf"|\bbw \(\s*(?P<unit>[KMG]?i?B|[kKM]B|B|[KMG]i?B)\s*(?:/s)?\s*\)\s*: min={NUMBER}, max={NUMBER}, per={NUMBER}%, "
    rf"avg={NUMBER}, stdev={NUMBER}(?:, samples={NUMBER})?"
    rf"|\biops\s*: min={NUMBER}, max={NUMBER}, avg={NUMBER}, stdev={NUMBER}(?:, samples={NUMBER})?"
    r"|\bctx=(?P<ctx>\d+)"
    r"|\bIO depths\s*: (?P<levels>(?:\s*(?:>=)?\d+=[\d.,]+%,?)+)"
    r"|\bissued (?:r/w/d: )?(?:\w*\s*: )?total=(?P<ios>[rwd=\d,/]+)"
    r"|(?<!\S)(?P<disk>[^\s:]{1,80}): ios=(?P<ios_read>\d+)/(?P<ios_write>\d+)(?:, sectors=\d+/\d+)?,"
    r" merge=(?P<merge_read>\d+)/(?P<merge_write>\d+), ticks=(?P<ticks_read>\d+)/(?P<ticks_write>\d+),"
    r" in_queue=(?P<queue>\d+), util=(?P<util>\d+(?:[.,]\d+)?)%"
)
LEVEL = re.compile(r"(?:>=)?(\d+)=(\d+(?:[.,]\d+)?)%")
# fio 1 and 2 print KB of 1,024 bytes, fio 3 says KiB; kB is 1,000 wherever it stands
TEXT_UNITS = {"B": 1.0, "kB": 1e3, "K": KIB, "M": KIB**2, "G": KIB**3}
FIGURES = ("min", "max", "mean", "stddev", "samples")


def text_details(text: str) -> list[Metric]:
    """Details of a result as people read it, with the lines of that text."""
    jobs: list[JobDetails] = []
    disks: list[Metric] = []
    way, line, seen = "", 1, 0
    for match in TEXT_PART.finditer(text):
        line, seen = line + text.count("\n", seen, match.start()), match.start()
        if match["group"]:
            jobs.append(JobDetails(match["group"]))
        elif match["disk"]:
            disks += _disk_of_text(match, line)
        elif match["way"]:
            way = match["way"]
        elif jobs:
            _add_part(jobs[-1], way, match, line)
    return [*combine(jobs), *disks]


def _add_part(job: JobDetails, way: str, match: re.Match[str], line: int) -> None:
    if match["ctx"]:
        job.ctx = float(match["ctx"]), line
    elif match["levels"]:
        shares = LEVEL.findall(match["levels"])
        job.levels = {level: (_decimal(share) / 100, line) for level, share in shares}
    elif match["ios"]:
        job.ios = sum(float(count) for count in re.findall(r"\d+", match["ios"]))
    elif way and match["unit"]:
        unit = match["unit"]
        factor = TEXT_UNITS[unit if unit in TEXT_UNITS else unit[0]]
        values = [match[index] for index in BANDWIDTH_GROUPS]
        _add_spread(job, f"{way}.bandwidth", values, factor, line)
    elif way:
        _add_spread(job, f"{way}.iops", [match[index] for index in IOPS_GROUPS], 1.0, line)


def _add_spread(
    job: JobDetails, name: str, values: Sequence[str | None], factor: float, line: int
) -> None:
    for figure, value in zip(FIGURES, values, strict=True):
        if value:
            scaled = _decimal(value) * (1.0 if figure == "samples" else factor)
            job.spreads[f"{name}.{figure}"] = scaled, line


def _decimal(text: str) -> float:
    return float(text.replace(",", "."))


def _disk_of_text(match: re.Match[str], line: int) -> Iterator[Metric]:
    printed = {
        "read_ios": "ios_read",
        "write_ios": "ios_write",
        "read_merges": "merge_read",
        "write_merges": "merge_write",
        "read_ticks": "ticks_read",
        "write_ticks": "ticks_write",
        "in_queue": "queue",
        "util": "util",
    }
    for key, group in printed.items():
        name, factor = DISK_KEYS[key]
        yield _disk_metric(name, _decimal(match[group]) * factor, match["disk"], line)


# numbers of the pattern's groups: after `unit` come min, max, per, mean, stddev, samples; then those of IOPS
_FIRST = TEXT_PART.groupindex["unit"]
BANDWIDTH_GROUPS = (_FIRST + 1, _FIRST + 2, _FIRST + 4, _FIRST + 5, _FIRST + 6)
IOPS_GROUPS = tuple(range(_FIRST + 7, _FIRST + 12))
