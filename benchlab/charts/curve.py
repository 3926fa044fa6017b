# SPDX-License-Identifier: Apache-2.0
"""IOPS (or throughput) and latency over outstanding I/Os: two panels that share the x axis. Pure: groups -> figure.

Marks on a curve show its knee, its collapse, its cap, and repeats that differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchlab.analysis.curves import ENOUGH_REPEATS, Spread, curve
from benchlab.analysis.knees import Knee
from benchlab.charts import figure
from benchlab.charts.figure import Chart, Figure, Subplot, Trace, axes_of
from benchlab.charts.line_analysis import (
    OPERATIONS,
    STATISTIC_DASHES,
    Choice,
    curve_answer,
    ratios_by_depth,
)
from benchlab.charts.metric_naming import LATENCY_KINDS
from benchlab.charts.palette import Style
from benchlab.charts.queries import Group, Sample, line_labels, line_styles
from benchlab.web.units import factor, si

# of both panels, of one without latencies; around them
TWO_PANELS_PX, ONE_PANEL_PX, AROUND_PX = 504, 284, 136
# a panel's share of both
PANEL_SHARE = 0.45
# these two are often close together
STATISTIC_POSITIONS = {"mean": "top right", "p50": "bottom right"}
DASH_WORDS = {"solid": "solid", "dash": "dashed", "dot": "dotted", "dashdot": "dash-dotted"}
KNEE_NAME = "knee: from here on doubling gains less than 5 %; bar: 95 % of what it may be"
UNCERTAIN_NAME = "knee uncertain: somewhere on this stretch (95 %)"
COLLAPSE_NAME = "falls past its peak"
CAP_NAME = "cap: within 2 % over two doublings or more"
DIFFER_NAME = "repeats differ: smallest to largest"
UNSTEADY_NAME = "not steady within the run; hover to read how"
# a cap's rule, of its IOPS
CAP_OFFSET = 1.03


@dataclass(frozen=True, slots=True)
class StyledLine:
    """A group with its looks."""

    group: Group
    label: str
    style: Style
    # its label, and a number where another line has the same
    id: str

    def samples(self, name: str) -> list[tuple[Sample, float]]:
        """Its runs that measured the metric, with its value."""
        return [(s, s.values[name]) for s in self.group.samples if name in s.values]


# runs at some depth, and what was measured of each
Values = list[tuple[Sample, float]]


def styled_lines(groups: Sequence[Group]) -> list[StyledLine]:
    labels = line_labels(groups)
    ids = [
        f"{label} {number}" if labels.count(label) > 1 else label
        for number, label in enumerate(labels)
    ]
    return list(map(StyledLine, groups, labels, line_styles(groups), ids))


def build_curve_figure(title: str, groups: Sequence[Group], choice: Choice) -> Figure:
    """The figure of swept groups. Groups without a sweep belong into benchlab.charts.repeat_dots."""
    lines = styled_lines([group for group in groups if group.swept])
    word, unit = choice.quantity(groups)
    what = operation_words(choice)
    rates = {line.id: _depth_values(line.samples(_rate_name(choice))) for line in lines}
    if not any(rates.values()):
        return figure.empty_figure(title, f"No {word}{what} measured over outstanding I/Os yet.")
    kind = choice.latency_kind(line.group for line in lines)
    measured = {line.id: _line_statistics(line, choice, kind) for line in lines}
    statistics = choice.drawn_statistics(len(lines), set().union(*measured.values()))
    data = [
        trace
        for line in lines
        for trace in _quantity_traces(
            line, rates[line.id], (word, unit), axes_of(1), line.style.dash
        )
    ]
    data += [
        trace
        for line in lines
        for statistic in statistics
        for trace in _latency_traces(line, choice, kind, statistic, statistics, len(lines))
    ]
    notes: dict[str, str] = {}
    if choice.metric == "iops":
        notes = {line.id: _knee_note(line, choice) for line in lines}
    names = figure.end_names(_medians(data, "y"), axes_of(1), (True, False), notes)
    if len(statistics) == 1:
        names += figure.end_names(_medians(data, "y2"), LATENCY_AXES, (True, True))
    marks = [mark for line in lines for mark in _marks(line, rates[line.id], choice)]
    latency = LATENCY_KINDS[kind] if statistics else ""
    without = [line.label for line in lines if latency and not measured[line.id]]
    note = f" No {latency.lower()} was told of: {', '.join(without)}." if without else ""
    both = f"{word} and {latency.lower()}" if latency else word
    return figure.build_figure(
        Chart(
            f"{both}{what} over outstanding I/Os · {title}",
            _curve_subtitle(lines, statistics) + note,
            data + marks,
            [_rate_axes(lines, word, unit, latency)],
            height=AROUND_PX + (TWO_PANELS_PX if latency else ONE_PANEL_PX),
            legend={"y": -0.13 if latency else -0.2},
            annotations=names,
            # where a page has room for both panels in a row
            meta={"beside": True} if latency else {},
            layout=_latency_axis(data, latency) if latency else {},
        )
    )


LATENCY_AXES = {"xaxis": "x", "yaxis": "y2"}


def operation_words(choice: Choice) -> str:
    return " of " + OPERATIONS[choice.operation] if choice.operation else ""


def _rate_name(choice: Choice) -> str:
    return choice.metric_name(choice.metric)


def _depth_values(values: Values) -> Values:
    return [(sample, value) for sample, value in values if sample.outstanding]


def _medians(data: Sequence[Trace], axis: str) -> list[Trace]:
    return [t for t in data if t["yaxis"] == axis and "lines+markers" in t["mode"]]


def _line_statistics(line: StyledLine, choice: Choice, kind: str) -> set[str]:
    return {
        name
        for sample in line.group.samples
        for name in choice.measured_statistics(kind, sample.values)
    }


def _rate_axes(lines: Sequence[StyledLine], word: str, unit: str, latency: str) -> Subplot:
    """Both panels share their x axis, which stands below the lower one."""
    depths = {s.outstanding for line in lines for s in line.group.samples if s.outstanding}
    x, y = figure.depth_axis(sorted(depths)), figure.value_axis(word, unit)
    if not latency:
        return Subplot(x, y)
    upper, _ = figure.panel_domains(2, 1 - 2 * PANEL_SHARE)
    return Subplot(x | {"anchor": "y2"}, y | {"domain": upper, "anchor": "x"})


def _latency_axis(data: Sequence[Trace], latency: str) -> dict[str, Any]:
    _, lower = figure.panel_domains(2, 1 - 2 * PANEL_SHARE)
    latencies = [value for trace in data if trace["yaxis"] == "y2" for value in trace["y"]]
    axis = figure.log_axis(latency, "s", latencies)
    return {"yaxis2": axis | {"domain": lower, "anchor": "x"}}


def _curve_subtitle(lines: Sequence[StyledLine], statistics: Sequence[str]) -> str:
    repeats = [
        spread.n
        for line in lines
        for spread in curve(
            (s.outstanding, 0.0) for s in line.group.samples if s.outstanding
        ).values()
    ]
    least, most = min(repeats), max(repeats)
    plural = "" if most == 1 else "s"
    count = f"{most} repeat{plural}" if least == most else f"{least} to {most} repeats"
    band = ""
    if most > 1:
        enough = most >= ENOUGH_REPEATS
        band = ", band: smallest to largest repeat" if enough else ", too few for a band"
    if not statistics:
        return f"Line: median of {count}{band}."
    drawn = [f"{name} {DASH_WORDS[STATISTIC_DASHES[name]]}" for name in statistics]
    styles = ", ".join(drawn) if len(statistics) > 1 else statistics[0]
    return f"Line: median of {count}{band}. Latency: {styles}."


def _latency_traces(
    line: StyledLine,
    choice: Choice,
    kind: str,
    statistic: str,
    statistics: Sequence[str],
    lines: int,
) -> list[Trace]:
    values = [
        (sample, value)
        for sample in line.group.samples
        if (value := choice.read_value(f"{kind}.{statistic}", sample.values)) is not None
    ]
    dash = STATISTIC_DASHES[statistic] if len(statistics) > 1 else "solid"
    traces = _quantity_traces(
        line, _depth_values(values), (f"{kind} {statistic}", "s"), LATENCY_AXES, dash
    )
    # there is room to say at its end which statistic a line shows
    for median in traces[-1:] if lines == 1 else []:
        median |= {
            "mode": "lines+markers+text",
            "text": [""] * (len(median["x"]) - 1) + [f"\u00a0{statistic}"],
            "textposition": STATISTIC_POSITIONS.get(statistic, "middle right"),
            "cliponaxis": False,
        }
    return traces


def _quantity_traces(
    line: StyledLine, values: Values, quantity: tuple[str, str], axes: Trace, dash: str
) -> list[Trace]:
    """Band, repeats and median of one quantity (word and unit) of one line, bound together in the legend."""
    if not values:
        return []
    word, unit = quantity
    points = curve((sample.outstanding or 0, value) for sample, value in values)
    common = {"legendgroup": line.id, **axes}
    ranges = [(d, p.low, p.high) for d, p in points.items() if p.low is not None]
    bands = []
    if ranges:
        depths, low, high = map(list, zip(*ranges, strict=True))
        bands = [figure.band_trace(depths, low, high, line.style.faded(0.2), **common)]
    # What all of them say is in the template: there are hundreds, and it would be most of what a chart sends.
    label = line.label.replace("%{", "% {")
    repeats = common | {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "x": [sample.outstanding for sample, _ in values],
        "y": [value for _, value in values],
        "marker": {
            "color": line.style.colour,
            "symbol": line.style.marker,
            "size": 5,
            "opacity": 0.45,
        },
        "customdata": figure.run_links(sample.run for sample, _ in values),
        "text": [
            repeat_hover(sample, f"{word} <b>{si(value, unit)}</b>") for sample, value in values
        ],
        "hovertemplate": f"{label}<br>outstanding %{{x:d}}, %{{text}} · click opens it<extra></extra>",
    }
    nearest = {
        depth: min((abs(v - point.median), s.run) for s, v in values if s.outstanding == depth)[1]
        for depth, point in points.items()
    }
    hovers = [_median_hover(line, d, p, word, unit, nearest[d]) for d, p in points.items()]
    medians = list(points), [point.median for point in points.values()]
    drawn = replace(line.style, dash=dash)
    median = figure.line_trace(line.label, drawn, medians, nearest.values(), hovers, **common)
    return [*bands, repeats, median]


def repeat_hover(sample: Sample, value: str) -> str:
    remarks = "".join(f"<br>{text}" for text in (sample.during, sample.course.mark) if text)
    return f"{sample.repeat_text}: {value}{remarks}<br>run {sample.run}"


def _median_hover(
    line: StyledLine, depth: int, point: Spread, word: str, unit: str, run: int
) -> str:
    value = f"{line.label}<br>outstanding {depth}: {word} <b>{si(point.median, unit)}</b>"
    if point.n == 1:
        return f"{value}<br>one repeat, run {run} · click opens it"
    span = f", {si(point.low, unit)} to {si(point.high, unit)}" if point.low is not None else ""
    return f"{value}<br>median of {point.n} repeats{span}<br>nearest: run {run} · click opens it"


def _knee_note(line: StyledLine, choice: Choice) -> str:
    """That a line is flat, or has no knee yet: what no mark shows."""
    knee = curve_answer(line.group, choice.operation).knee
    if knee is None or not knee.drawn or knee.at or knee.uncertain:
        return ""
    return "flat" if knee.flat else "no knee yet"


def _marks(line: StyledLine, values: Values, choice: Choice) -> Iterator[Trace]:
    """Marks of what is known of the line: of its whole curve where IOPS are shown, and repeats that differ."""
    medians = {
        depth: point.median
        for depth, point in curve((s.outstanding or 0, v) for s, v in values).items()
    }
    if choice.metric == "iops":
        yield from _answer_marks(line, medians, choice)
    ratios = ratios_by_depth(line.group, _rate_name(choice))
    if ratios:
        yield _differing_repeats(line, values, ratios)
    if unsteady := [(sample, value) for sample, value in values if sample.course.mark]:
        yield _unsteady_repeats(line, unsteady)


def _answer_marks(
    line: StyledLine, medians: Mapping[int, float], choice: Choice
) -> Iterator[Trace]:
    answer, style = curve_answer(line.group, choice.operation), line.style
    knee, collapse, cap = answer.knee, answer.collapse, answer.cap
    if knee and knee.drawn and knee.at:
        yield _knee_ring(style, knee, knee.at, medians[knee.at])
    elif knee and knee.drawn and knee.uncertain:
        # Along the curve, to its last depth where the knee may lie beyond that. With markers, for it may be one depth.
        high = max(medians) if knee.beyond or not knee.high else knee.high
        stretch = {d: rate for d, rate in medians.items() if (knee.low or 0) <= d <= high}
        stroke = {"color": style.faded(0.35)}
        yield _mark(UNCERTAIN_NAME, stretch, "markers+lines") | {
            "line": stroke | {"width": 11},
            "marker": stroke | {"size": 11},
        }
    if collapse:
        yield _mark(COLLAPSE_NAME, {collapse.last: medians[collapse.last]}, "markers+text") | {
            "text": [f"−{collapse.share:.0%}".replace("%", " %")],
            "textposition": "bottom center",
            "textfont": {"color": style.ink, "size": 11},
            "marker": {"symbol": "triangle-down-open", "size": 15, "color": style.colour},
        }
    if cap:
        # above the curve, which it would hide otherwise
        level = cap.iops * CAP_OFFSET
        yield _mark(CAP_NAME, {cap.low: level, cap.high: level}, "lines") | {
            "line": {"color": style.colour, "width": 1.5, "dash": "dot"}
        }


def _mark(name: str, points: Mapping[int, float], mode: str) -> Trace:
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        # a line may be called "cap", too
        "legendgroup": f"mark: {name}",
        "x": list(points),
        "y": list(points.values()),
        **axes_of(1),
        "hoverinfo": "skip",
        "cliponaxis": False,
    }


def _knee_ring(style: Style, knee: Knee, depth: int, rate: float) -> Trace:
    ring = {"symbol": "circle-open", "size": 19, "color": style.colour, "line": {"width": 1.5}}
    error = {
        "type": "data",
        "symmetric": False,
        "array": [max(depth, knee.high or depth) - depth],
        "arrayminus": [depth - min(depth, knee.low or depth)],
        "color": style.colour,
        "thickness": 1.5,
        "width": 6,
    }
    return _mark(KNEE_NAME, {depth: rate}, "markers") | {"error_x": error, "marker": ring}


def _differing_repeats(line: StyledLine, values: Values, ratios: Mapping[int, float]) -> Trace:
    """A beam from the smallest to the largest repeat of each depth, with how much they differ on top."""
    x: list[int | None] = []
    y: list[float | None] = []
    text: list[str] = []
    for depth, ratio in ratios.items():
        repeats = [value for sample, value in values if sample.outstanding == depth]
        x += [depth, depth, None]
        y += [min(repeats), max(repeats), None]
        text += ["", factor(ratio), ""]
    return _mark(DIFFER_NAME, {}, "lines+text") | {
        "x": x,
        "y": y,
        "line": {"color": line.style.faded(0.5), "width": 7},
        "text": text,
        "textposition": "top center",
    }


def _unsteady_repeats(line: StyledLine, values: Values) -> Trace:
    """An open diamond around each repeat whose rate was not steady."""
    return _mark(UNSTEADY_NAME, {}, "markers") | {
        "x": [sample.outstanding for sample, _ in values],
        "y": [value for _, value in values],
        "marker": {"symbol": "diamond-open", "size": 13, "color": line.style.colour},
    }
