# SPDX-License-Identifier: Apache-2.0
"""fio's logs over time, told by their file's name: *_bw.1.log, *_iops.log, *_lat.log, *_clat_hist.1.log.

Without such a name rows of numbers are nobody's. One file is one log, of one job as a rule; those beside one result are
read together.

What a latency is counted in depends on fio's version, which few logs tell: such a one has no figures before somebody
says it, a result of fio beside it or a person. The answer goes with the file's name (`told`), from where it is read
whenever the log is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agents.contracts import ParseError, Series
from agents.outputs import fio_log, fio_series
from agents.texts.parsed_result import ParsedResult

NEEDS = "fio_log_unit"
# what it is counted in, and a version of fio that does so
UNITS = {"us": "2.0", "ns": "3.0"}
UNTOLD = "latencies are in microseconds (fio before 3.0) or nanoseconds (since); this log does not tell which"

MAX_TITLE_CHARACTERS = 120
LATE = re.compile(rb'"(?:startdelay|start_delay|stonewall|wait_for_previous|new_group)"')

LABEL = "fio log"
KEYWORDS = (",",)


def find_results(text: str, name: str) -> list[ParsedResult]:
    if not fio_log.log_kind(name)[0]:
        return []
    rows = [number for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not rows:
        return []
    named_version = fio_log.fio_version(name)
    title = name.replace("\\", "/").rpartition("/")[2]
    if len(title) > MAX_TITLE_CHARACTERS:
        # its end tells the kind of log and the job
        title = f"…{title[1 - MAX_TITLE_CHARACTERS :]}"
    version = f"{named_version[0]}.{named_version[1]}" if named_version else ""
    trouble = needs = ""
    series: list[Series] = []
    try:
        try:
            series = fio_series.logs_to_series({title: text}, named_version)
        except fio_log.UnitUnknown:
            needs = NEEDS
            # is all else right?
            series = fio_series.logs_to_series({title: text}, (3, 0))
        if not series:
            trouble = "mean latencies of several jobs in one log: how many I/Os each stands for is not in it"
    except ParseError as error:
        trouble = str(error)
    return [
        ParsedResult(
            kind="fio_log",
            first=rows[0],
            last=rows[-1],
            title=title,
            tool="fio",
            version=version,
            series=() if needs else tuple(series),
            needs=needs if not trouble else "",
            notes=(UNTOLD,) if needs and not trouble else (),
            trouble=trouble,
        )
    ]


def join_series(texts: Mapping[str, str], result: bytes) -> list[Series]:
    """Series of all jobs; [] if some began later, for each log counts from its own beginning."""
    if LATE.search(result) and len({fio_log.log_kind(name)[1] for name in texts}) > 1:
        return []
    versions = sorted({version for name in texts if (version := fio_log.fio_version(name))})
    if versions and (versions[0] < (3, 0)) != (versions[-1] < (3, 0)):
        raise ParseError("logs of different versions of fio beside one result")
    return fio_series.logs_to_series(texts, versions[0] if versions else None)


def name_with_unit(name: str, unit: str) -> str:
    """The name of a file whose latencies are in that unit: `find` reads it by this."""
    return f"fio-{UNITS[unit]}/{name}"


def unit(version: str) -> str:
    """Unit in which an fio of that version counts latencies; "" for none."""
    parsed_version = fio_log.fio_version(f"fio-{version.removeprefix('fio-')}")
    return "" if parsed_version is None else "ns" if parsed_version >= (3, 0) else "us"
