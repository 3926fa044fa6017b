"""fio's logs over time, told by their file's name: *_bw.1.log, *_iops.log, *_lat.log, *_clat_hist.1.log.

Without such a name rows of numbers are nobody's. One file is one log: for the merged figures of several jobs a run
writes one file with per_job_logs=0.
"""

from __future__ import annotations

from agents.contracts import ParseError, Series
from agents.found import Found
from agents.tools import _fio_log, _fio_series

LABEL = "fio log"
WORDS = (",",)


def find(text: str, name: str) -> list[Found]:
    kind, _ = _fio_log.kind(name)
    rows = [number for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not kind or not rows:
        return []
    seen = _fio_log.version(name)
    title = name.replace("\\", "/").rpartition("/")[2][:120]
    version = f"{seen[0]}.{seen[1]}" if seen else ""
    said = ""
    found: list[Series] = []
    try:
        found = _fio_series.series({title: text}, seen)
        if not found:
            said = "mean latencies of several jobs in one log: how many I/Os each stands for is not in it"
    except ParseError as error:
        said = str(error)
    return [
        Found(
            kind="fio_log",
            first=rows[0],
            last=rows[-1],
            title=title,
            tool="fio",
            version=version,
            series=tuple(found),
            trouble=said,
        )
    ]
