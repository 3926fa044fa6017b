# SPDX-License-Identifier: Apache-2.0
"""The part of a run's page that only a run of IOmeter's dynamo has: its parts, its latencies, its live figures."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.contracts import ParseError
from agents.jobs import job
from agents.tools.dynamo import LIVE_FILES, MESSAGES
from benchlab.charts import figure
from benchlab.charts.figure import Figure
from benchlab.charts.palette import COLOURS
from benchlab.dynamo.models import ConsoleLines
from benchlab.runs.models import Attempt, LiveChunk, Measurement
from benchlab.web.units import si

COLUMNS = ("iops", "read.iops", "write.iops", "bandwidth", "lat.mean", "lat.max", "errors")
# bytes of frames that are read for it
MAX_FRAME_BYTES = 256 * 1024
# seconds that are shown beside the last one
RECENT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Part:
    """A worker, or a target of it."""

    name: str
    what: str
    cells: tuple[Measurement | None, ...]


def run_parts(measured: Sequence[Measurement]) -> list[Part]:
    """Workers and their targets, where there are several; the whole stands above."""
    rows_by_part: dict[tuple[str, str], dict[str, Measurement]] = {}
    for row in measured:
        if row.name in COLUMNS and row.labels:
            rows_by_part.setdefault(
                (row.labels.get("worker", ""), row.labels.get("target", "")), {}
            )[row.name] = row
    parts = []
    for (worker, target), rows in sorted(
        rows_by_part.items(), key=lambda item: _part_order(item[0])
    ):
        name = f"Worker {worker}" + (f", target {target}" if target else "")
        note = rows["iops"].note if target and "iops" in rows else ""
        parts.append(Part(name, note, tuple(rows.get(column) for column in COLUMNS)))
    return parts


def _part_order(key: tuple[str, str]) -> tuple[int, int]:
    return int(key[0] or 0), int(key[1] or 0)


@dataclass(frozen=True, slots=True)
class PollingCost:
    """Cost to the host of being asked while it was measured."""

    count: int
    # bytes that it sent
    size: float
    # % of the time, at most
    share: float


def polling_cost(measured: Sequence[Measurement]) -> PollingCost | None:
    """None where nobody asked, or where that was not kept yet."""
    values = {row.name: row.value for row in measured if not row.labels}
    count, size, share = (values.get(f"poll.{name}") for name in ("count", "bytes", "share"))
    if not count or size is None or share is None:
        return None
    return PollingCost(int(count), size, 100.0 * share)


def latency_bins(measured: Sequence[Measurement]) -> list[tuple[float, float, float]]:
    """(from, to, I/Os) of the whole run's 21 bins, seconds; [] where dynamo kept none."""
    rows = [row for row in measured if row.name == "lat.bin" and set(row.labels) == {"from", "to"}]
    return [(float(r.labels["from"]), float(r.labels["to"]), r.value or 0.0) for r in rows]


def latency_histogram(title: str, bins: list[tuple[float, float, float]]) -> Figure:
    """The histogram: a bar for each bin, named by its bounds, as wide bins would be blocks on any scale."""
    total = sum(hits for _, _, hits in bins)
    if not total:
        return figure.empty_figure(title, "This dynamo counted no latencies.")
    used = [at for at, row in enumerate(bins) if row[2]]
    shown_bins = bins[max(0, used[0] - 1) : used[-1] + 2]
    names = [_bounds(low, high) for low, high, _ in shown_bins]
    share = [hits / total for _, _, hits in shown_bins]
    bar = {
        "type": "bar",
        "x": names,
        "y": share,
        "marker": {"color": COLOURS[0]},
        "customdata": [hits for _, _, hits in shown_bins],
        "name": "I/Os",
        "hovertemplate": "%{x}: %{customdata:,.0f} I/Os, %{y:.2%}<extra></extra>",
    }
    layout = figure.base_layout(
        f"Latency of all I/Os · {title}",
        "Reads and writes together, in dynamo's own bins: from (inclusive) to (exclusive).",
        height=360,
        xaxis={"type": "category", "title": {"text": "Latency"}, "automargin": True},
        yaxis={
            "title": {"text": "Share of I/Os (%)"},
            "tickformat": ".0%",
            "rangemode": "tozero",
            "automargin": True,
        },
        showlegend=False,
        bargap=0.1,
    )
    return {"data": [bar], "layout": layout}


def _bounds(low: float, high: float) -> str:
    if high == float("inf"):
        return f"≥ {si(low, 's')}"
    return f"{si(low, 's')}–{si(high, 's')}" if low else f"< {si(high, 's')}"


def live_figures(attempt: Attempt) -> dict[str, Any]:
    """Newest figures of the console and those before: {"phase", "iops", …, "recent"}; {} where it has said nothing."""
    lines = _live_lines(attempt)
    if not lines:
        return {}
    measured = [line for line in lines if line.get("iops") is not None]
    newest = lines[-1]
    if newest.get("phase") == "record" and newest.get("iops") is None and measured:
        # an update that makes no sense leaves what was before it
        newest = measured[-1]
    share_done = newest.get("done")
    share = {"share": 100.0 * share_done} if isinstance(share_done, float | int) else {}
    recent = [
        {"t": line.get("t"), **_line_figures(line)} for line in measured[: -RECENT_SECONDS - 1 : -1]
    ]
    return {"phase": newest.get("phase", ""), **_line_figures(newest), **share, "recent": recent}


def _line_figures(line: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: line.get(key) for key in ("iops", "bandwidth", "errors")}
    return {**plain, "mean": line.get("lat.mean"), "slowest": line.get("lat.max")}


def _live_lines(attempt: Attempt) -> list[dict[str, Any]]:
    """Each once, in the order of time: several frames of the sampler may have the same."""
    row = ConsoleLines.objects.filter(attempt=attempt).first()
    texts = [row.lines] if row is not None else _sampled_lines(attempt)
    by_line: dict[str, dict[str, Any]] = {}
    for line in "".join(texts).splitlines():
        with contextlib.suppress(ValueError):
            fields = json.loads(line)
            if isinstance(fields, dict):
                by_line.setdefault(line, fields)
    return list(by_line.values())


def _sampled_lines(attempt: Attempt) -> list[str]:
    """Lines of the console's own file in the last frames."""
    raw = b""
    for chunk in LiveChunk.objects.filter(attempt=attempt).order_by("-offset")[
        : RECENT_SECONDS + 2
    ]:
        raw = bytes(chunk.data) + raw
        if len(raw) > MAX_FRAME_BYTES:
            break
    start = raw.find(b"\n@ ") + 1 if not raw.startswith(b"@ ") else 0
    try:
        frames = job.frames(raw[start:])
    except ParseError:
        return []
    return [frame.files.get(LIVE_FILES[0], "") for frame in frames]


TOOL = "dynamo"
TEMPLATE = "dynamo/_run.html"


def context(attempt: Attempt, measured: Sequence[Measurement]) -> dict[str, Any]:
    return {
        "parts": run_parts(measured),
        "bins": latency_bins(measured),
        "polling": polling_cost(measured),
        "kept": any(row.name == MESSAGES for row in attempt.artifacts.all()),
        "now": live_figures(attempt) if not attempt.outcome else {},
    }
