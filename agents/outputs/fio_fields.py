# SPDX-License-Identifier: Apache-2.0
"""Every field of fio's JSON that is read here, by the version of fio 3 that brought it. The one place that knows.

Found in fio's own history: the first tag of stat.c, client.c or init.c that has it; "3.0" stands for "or before". Where
a field is later than 3.0, its reader does without, and INSTEAD says how. A field that all have and a document has not
is refused by name: the document is damaged, or no result of fio 3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

Version = tuple[int, int]

DOCUMENT: Mapping[str, Version] = {
    "fio version": (3, 0),
    "timestamp": (3, 0),
    "timestamp_ms": (3, 0),
    "global options": (3, 0),
    "jobs": (3, 0),
    # in place of jobs, of fio --client
    "client_stats": (3, 0),
}
JOB: Mapping[str, Version] = {
    "jobname": (3, 0),
    "groupid": (3, 0),
    "error": (3, 0),
    # continue_on_error only
    "total_err": (3, 0),
    "job options": (3, 0),
    "read": (3, 0),
    "write": (3, 0),
    "trim": (3, 0),
    # unified_rw_reporting only
    "mixed": (3, 0),
    "sync": (3, 4),
    "job_runtime": (3, 8),
    "job_start": (3, 36),
    "usr_cpu": (3, 0),
    "sys_cpu": (3, 0),
    "iodepth_level": (3, 0),
    "latency_depth": (3, 0),
    "latency_target": (3, 0),
    "latency_target_ns": (3, 42),
    "latency_percentile": (3, 0),
    "latency_window": (3, 0),
    "latency_window_us": (3, 42),
    "steadystate": (3, 0),
    # Of a client, as its port; since 3.39 also in "global options", of which each has its own.
    "hostname": (3, 0),
    "port": (3, 0),
}
DIRECTION: Mapping[str, Version] = {
    "io_bytes": (3, 0),
    "io_kbytes": (3, 0),
    "bw_bytes": (3, 2),
    "bw": (3, 0),
    "iops": (3, 0),
    "runtime": (3, 0),
    "total_ios": (3, 0),
    "slat_ns": (3, 0),
    "clat_ns": (3, 0),
    "lat_ns": (3, 0),
}
LATENCY: Mapping[str, Version] = {
    "min": (3, 0),
    "max": (3, 0),
    "mean": (3, 0),
    "stddev": (3, 0),
    "N": (3, 18),
    "percentile": (3, 0),
    # json+ only
    "bins": (3, 0),
}
STEADY: Mapping[str, Version] = {
    "ss": (3, 0),
    "duration": (3, 0),
    "attained": (3, 0),
    "criterion": (3, 0),
    "data.bw_mean": (3, 0),
    "data.iops_mean": (3, 0),
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


def per_second(field: str, version_text: str) -> float:
    """Number of the field's units in a second, in a document of that version; 0 where it does not tell."""
    version = parse_version(version_text)
    if version is None:
        return 0.0
    return [scale for since, scale in SCALES[field] if since <= version][-1]
