# SPDX-License-Identifier: Apache-2.0
"""Measured windows of fio, from the host's wall clock in its JSON. Pure; raises ParseError, nothing else.

`job_start` (3.36 and later) is when a job's clock was set, and set again when its ramp was over: fio's logs count from
then. Before 3.36 only `timestamp_ms` is told, of the result: up to LAG after the last job's end (seen with 3.33, 3.39
and 3.41), as fio waits for its threads. So the jobs must have begun together, and what may be behind their end is cut
off: a sample in the window is one of what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.contracts import Timing, Window
from agents.jobs.windows import after_ramp
from agents.outputs import fio_load

DIRECTIONS = ("read", "write", "trim", "mixed")
# s
LAG = 0.3


@dataclass(frozen=True, slots=True)
class _Job:
    name: str
    group: int
    # epoch; NaN where fio did not say
    start: float
    seconds: float


def parse_json_windows(raw: bytes, timing: Timing, ramp: float, together: bool) -> list[Window]:
    """`ramp`: s that each job warms up for; `together`: they were asked to begin at the same time."""
    if timing.epoch is None:
        return []
    document = fio_load.load_document(raw)
    jobs = [_job_times(job) for job, _ in document.jobs if isinstance(job, dict)]
    groups = list(dict.fromkeys(job.group for job in jobs))
    stamp = _json_number(document.rest.get("timestamp_ms")) / 1000
    if not all(math.isfinite(job.start) for job in jobs):
        if not together or len(groups) != 1 or not math.isfinite(stamp):
            return []
        start = stamp - max(job.seconds for job in jobs)
        jobs = [_Job(job.name, job.group, start, job.seconds - LAG) for job in jobs]
    spans = [
        _jobs_span([job for job in jobs if job.group == group], timing.epoch) for group in groups
    ]
    if not all(0 <= start < end <= timing.ended - timing.started + 1 for start, end in spans):
        # by another clock
        return []
    names = [next(job.name for job in jobs if job.group == group) for group in groups]
    if len(groups) == 1:
        return after_ramp(*spans[0], ramp)
    return [Window(name, *span) for name, span in zip(names, spans, strict=True)]


def _jobs_span(jobs: Sequence[_Job], epoch: float) -> tuple[float, float]:
    start = min(job.start for job in jobs)
    return start - epoch, max(job.start + job.seconds for job in jobs) - epoch


def _job_times(job: Mapping[str, object]) -> _Job:
    parts = [part for name in DIRECTIONS if isinstance(part := job.get(name), dict)]
    ran = max((_json_number(part.get("runtime")) for part in parts), default=math.nan)
    start = _json_number(job.get("job_start")) / 1000
    number, name = job.get("groupid"), str(job.get("jobname", ""))[:100]
    return _Job(name, number if isinstance(number, int) else 0, start, ran / 1000)


def _json_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e15 else math.nan
