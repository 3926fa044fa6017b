"""Small panels on one time axis: a line per device in each. Pure: tracks -> parts of a figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchlab.analysis.series import rounded
from benchlab.charts import figure, palette
from benchlab.charts.spans import WHOLE, Span
from benchlab.charts.stack import Placed

FEW = 20  # points that would not be seen without markers


@dataclass(frozen=True, slots=True)
class Track:
    """One metric of one device: a row of Series, or what a running attempt has so far. NaN is unknown."""

    device: str
    metric: str
    unit: str
    times: Sequence[float]  # at the ends of what each value is of
    values: Sequence[float]
    spans: Sequence[float] = ()  # s that each value is of; empty: since the one before it
    apart: bool = (
        False  # its times are a tool's own, of which nobody knows how they stand to the host's
    )

    @property
    def lengths(self) -> Sequence[float]:
        """Of the first one nobody knows what was before it: it is taken for as long as the second."""
        if self.spans or not self.times:
            return self.spans
        between = [after - before for before, after in pairwise(self.times)]
        first = between[0] if between else self.times[0]
        return [min(self.times[0], first) or first, *between]


@dataclass(frozen=True, slots=True)
class Panel:
    metric: str
    title: str
    unit: str  # on the axis
    scale: float = 1.0  # from base units to that

    @property
    def hover(self) -> str:
        if self.unit == "%":
            return "%{y:.1f} %"
        if self.unit.endswith("iB"):  # binary, which d3 has no prefixes for
            return f"%{{y:.4~g}} {self.unit}"
        return "%{y:.3s}" + ("" if self.unit == "1" else self.unit)


def any_above_zero(tracks: Iterable[Track], metric: str) -> bool:
    return any(t.metric == metric and any(value > 0 for value in t.values) for t in tracks)


def height(panels: Sequence[Panel], placed: Sequence[Placed]) -> int:
    return max(260, 116 + 150 * math.ceil(len(panels) / 2), 100 + 19 * len(placed))


def lines(
    tracks: Sequence[Track],
    placed: Sequence[Placed],
    panels: Sequence[Panel],
    span: Span = WHOLE,
) -> tuple[list[dict[str, Any]], bool]:
    """(a trace for each device and panel, whether any shows fewer points than there are)."""
    by_key = {(track.device, track.metric): track for track in tracks}
    data: list[dict[str, Any]] = []
    thinned = False
    for index, device in enumerate(placed):
        look = palette.style(index)
        for number, panel in enumerate(panels, start=1):
            track = by_key.get((device.name, panel.metric))
            if track is None:
                continue
            times, values = span.thinned(track.times, track.values)
            thinned = thinned or len(times) < span.count(track.times)
            data.append(_line(device, look, number, panel, times, values))
    seen: set[str] = set()
    for trace in data:  # one legend entry a device, at its first panel
        trace["showlegend"] = trace["name"] not in seen
        seen.add(trace["name"])
    return data, thinned


def _line(
    device: Placed,
    look: palette.Style,
    number: int,
    panel: Panel,
    times: list[float],
    values: list[float],
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(times) <= FEW else "lines",
        "name": device.indented,
        "legendgroup": device.name,
        "x": rounded(times, 6),
        "y": rounded([value * panel.scale for value in values]),
        "xaxis": axis("x", number),
        "yaxis": axis("y", number),
        "line": {
            "color": look.colour,
            "dash": look.dash,
            "width": 2.2 if device.depth == 0 else 1.3,
        },
        "marker": {"size": 4, "symbol": look.marker},
        "hovertemplate": f"{panel.hover} {device.label}<extra></extra>",
    }


def axis(letter: str, number: int) -> str:
    return letter if number == 1 else f"{letter}{number}"


def axes(panels: Sequence[Panel]) -> dict[str, Any]:
    """Two columns of panels; every x axis follows the first."""
    domains = figure.rows(math.ceil(len(panels) / 2), 0.09)
    columns = [[0.0, 1.0]] if len(panels) == 1 else [[0.0, 0.45], [0.55, 1.0]]
    found: dict[str, Any] = {"annotations": []}
    for index, panel in enumerate(panels):
        number, row, column = index + 1, index // 2, index % 2
        last = index >= len(panels) - 2
        found["xaxis" + axis("", number)] = {
            "domain": columns[column],
            "anchor": axis("y", number),
            "zeroline": False,
            "showticklabels": last,
            **({"matches": "x"} if number > 1 else {}),
            **({"title": {"text": "Seconds since the first sample"}} if last else {}),
        }
        found["yaxis" + axis("", number)] = {
            "domain": domains[row],
            "anchor": axis("x", number),
            **figure.ticks(panel.unit),
            "rangemode": "tozero",
            "zeroline": False,
            "nticks": 5,
            **({"range": [0, 104]} if panel.unit == "%" else {}),
        }
        found["annotations"].append(
            _heading(panel.title, panel.unit, columns[column][0], domains[row][1])
        )
    return found


def _heading(title: str, unit: str, x: float, y: float) -> dict[str, Any]:
    return {
        "text": f"<b>{title}</b> {unit}" if unit != "1" else f"<b>{title}</b>",
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12},
    }
