# SPDX-License-Identifier: Apache-2.0
"""IOPS (or throughput) and latency over outstanding I/Os: two panels that share the x axis. Pure: groups -> figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from benchlab.analysis.curves import Spread, curve
from benchlab.charts import curve_marks, figure, label_places
from benchlab.charts.curve_marks import LineRepeats, MarkedLine
from benchlab.charts.figure import Figure
from benchlab.charts.label_places import Scale
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
from benchlab.web.units import si

# of both panels, of one without latencies; around them
TWO_PANELS_PX, ONE_PANEL_PX, AROUND_PX = 504, 284, 136
# a panel's share of both
PANEL_SHARE = 0.45
# these two are often close together
STATISTIC_POSITIONS = {"mean": "top right", "p50": "bottom right"}


@dataclass(frozen=True, slots=True)
class StyledLine:
    """A group with its looks."""

    group: Group
    label: str
    style: Style


def styled_lines(groups: Sequence[Group]) -> list[StyledLine]:
    looks = zip(groups, line_labels(groups), line_styles(groups), strict=True)
    return [StyledLine(group, label, style) for group, label, style in looks]


def build_curve_figure(title: str, groups: Sequence[Group], choice: Choice) -> Figure:
    """The figure of swept groups. Groups without a sweep belong into benchlab.charts.repeat_dots."""
    lines = styled_lines([group for group in groups if group.swept])
    word, unit = choice.quantity(groups)
    what = " of " + OPERATIONS[choice.operation] if choice.operation else ""
    if not any(_depth_values(line.group, choice.metric_name(choice.metric)) for line in lines):
        return figure.empty_figure(title, f"No {word}{what} measured over outstanding I/Os yet.")
    kind = choice.latency_kind(line.group for line in lines)
    measured = {statistic for line in lines for statistic in _line_statistics(line, choice, kind)}
    statistics = choice.drawn_statistics(len(lines), measured)
    data = [trace for line in lines for trace in _rate_traces(line, choice, word, unit)]
    data += [
        trace
        for line in lines
        for name in statistics
        for trace in _latency_traces(
            line, choice, f"{kind}.{name}", statistics, alone=len(lines) == 1
        )
    ]
    upper = TWO_PANELS_PX * PANEL_SHARE if statistics else ONE_PANEL_PX
    names = _curve_end_names(
        lines, data, {"y": upper, **({"y2": TWO_PANELS_PX * PANEL_SHARE} if statistics else {})}
    )
    data += _knee_traces(lines, choice, upper) + _beam_traces(lines, choice, upper)
    latency = LATENCY_KINDS[kind] if statistics else ""
    latency_text = f" and {latency.lower()}" if latency else ""
    without = (
        [line.label for line in lines if not _line_statistics(line, choice, kind)]
        if statistics
        else []
    )
    layout = figure.base_layout(
        f"{word}{latency_text}{what} over outstanding I/Os · {title}",
        _curve_subtitle(lines, statistics) + _missing_latency_note(latency, without),
        height=AROUND_PX + (TWO_PANELS_PX if statistics else ONE_PANEL_PX),
        **_curve_axes(lines, data, word, unit, latency),
    )
    layout["legend"]["y"] = -0.13 if statistics else -0.2
    layout["annotations"] = names
    if statistics:
        # where a page has room for both panels in a row
        layout["meta"]["beside"] = True
    return figure.fit_legend({"data": data, "layout": layout})


def _line_statistics(line: StyledLine, choice: Choice, kind: str) -> set[str]:
    return {
        name
        for sample in line.group.samples
        for name in choice.measured_statistics(kind, sample.values)
    }


def _missing_latency_note(latency: str, lines: Sequence[str]) -> str:
    """Sentence on lines whose latency is of another kind, or of none: not drawn, for one axis has one meaning."""
    return f" No {latency.lower()} was told of: {', '.join(lines)}." if lines else ""


def _curve_axes(
    lines: Sequence[StyledLine], data: Sequence[dict[str, Any]], word: str, unit: str, latency: str
) -> dict[str, Any]:
    depths = figure.depth_axis(sorted(set().union(*map(_swept_depths, lines))))
    if not latency:
        return {"xaxis": depths, "yaxis": figure.value_axis(word, unit)}
    upper, lower = figure.panel_domains(2, 1 - 2 * PANEL_SHARE)
    latencies = [value for trace in data if trace["yaxis"] == "y2" for value in trace["y"]]
    return {
        "xaxis": depths | {"anchor": "y2"},
        "yaxis": figure.value_axis(word, unit) | {"domain": upper, "anchor": "x"},
        "yaxis2": figure.log_axis(latency, "s", latencies) | {"domain": lower, "anchor": "x"},
    }


def _curve_subtitle(lines: Sequence[StyledLine], statistics: Sequence[str]) -> str:
    repeats = {
        len([s for s in line.group.samples if s.outstanding == d])
        for line in lines
        for d in _swept_depths(line)
    }
    least, most = min(repeats), max(repeats)
    count = (
        f"{most} repeat{'' if most == 1 else 's'}"
        if least == most
        else f"{least} to {most} repeats"
    )
    band = ", band: smallest to largest repeat" if most >= 3 else ", too few for a band"
    words = {"solid": "solid", "dash": "dashed", "dot": "dotted", "dashdot": "dash-dotted"}
    if not statistics:
        return f"Line: median of {count}{band if most > 1 else ''}."
    styles = (
        ", ".join(f"{name} {words[STATISTIC_DASHES[name]]}" for name in statistics)
        if len(statistics) > 1
        else statistics[0]
    )
    return f"Line: median of {count}{band if most > 1 else ''}. Latency: {styles}."


def _swept_depths(line: StyledLine) -> set[int]:
    return {sample.outstanding for sample in line.group.samples if sample.outstanding}


def _depth_values(group: Group, name: str) -> list[tuple[int, float, Sample]]:
    return [
        (s.outstanding, s.values[name], s)
        for s in group.samples
        if s.outstanding and name in s.values
    ]


def _rate_traces(line: StyledLine, choice: Choice, word: str, unit: str) -> list[dict[str, Any]]:
    values = _depth_values(line.group, choice.metric_name(choice.metric))
    return _quantity_traces(line, values, unit, word, "y", line.style.dash, legend=True)


def _latency_traces(
    line: StyledLine, choice: Choice, base: str, statistics: Sequence[str], *, alone: bool
) -> list[dict[str, Any]]:
    kind, _, name = base.partition(".")
    values = [
        (s.outstanding, value, s)
        for s in line.group.samples
        if s.outstanding and (value := choice.read_value(base, s.values)) is not None
    ]
    dash = STATISTIC_DASHES[name] if len(statistics) > 1 else "solid"
    traces = _quantity_traces(line, values, "s", f"{kind} {name}", "y2", dash, legend=False)
    for median in traces[-1:]:
        # there is room to say at its end which statistic a line shows
        if alone:
            last = len(median["x"]) - 1
            median |= {
                "mode": "lines+markers+text",
                "text": [""] * last + [f"\u00a0{name}"],
                "textposition": STATISTIC_POSITIONS.get(name, "middle right"),
                "cliponaxis": False,
            }
    return traces


def _quantity_traces(
    line: StyledLine,
    values: list[tuple[int, float, Sample]],
    unit: str,
    what: str,
    axis: str,
    dash: str,
    *,
    legend: bool,
) -> list[dict[str, Any]]:
    """Band, repeats and median of one quantity of one line, bound together in the legend."""
    if not values:
        return []
    points = curve((depth, value) for depth, value, _ in values)
    common = {"legendgroup": line.label, "xaxis": "x", "yaxis": axis, "showlegend": False}
    return [
        *_repeat_band(points, line.style, common),
        _repeat_markers(line, values, unit, what, common),
        _median_trace(line, values, points, unit, what, dash, common | {"showlegend": legend}),
    ]


def _repeat_band(
    points: dict[int, Spread], style: Style, common: dict[str, Any]
) -> list[dict[str, Any]]:
    """The range of the repeats, only where there are enough of them."""
    ranges = [
        (d, p.low, p.high) for d, p in points.items() if p.low is not None and p.high is not None
    ]
    if not ranges:
        return []
    forward, back = ranges, ranges[::-1]
    outline = [low for _, low, _ in forward] + [high for _, _, high in back]
    return [
        common
        | {
            "type": "scatter",
            "mode": "lines",
            "x": [d for d, _, _ in forward] + [d for d, _, _ in back],
            "y": outline,
            "fill": "toself",
            "fillcolor": style.faded(0.2),
            "line": {"width": 0},
            "hoverinfo": "skip",
        }
    ]


def _repeat_markers(
    line: StyledLine,
    values: list[tuple[int, float, Sample]],
    unit: str,
    what: str,
    common: dict[str, Any],
) -> dict[str, Any]:
    # What all of them say is in the template: there are hundreds, and it would be most of what a chart sends.
    texts = [
        f"{sample.repeat_text}: {what} <b>{si(value, unit)}</b>"
        f"{'<br>' + sample.during if sample.during else ''}<br>run {sample.run}"
        for _, value, sample in values
    ]
    label = line.label.replace("%{", "% {")
    return common | {
        "type": "scatter",
        "mode": "markers",
        "x": [depth for depth, _, _ in values],
        "y": [value for _, value, _ in values],
        "marker": {
            "color": line.style.colour,
            "symbol": line.style.marker,
            "size": 5,
            "opacity": 0.45,
        },
        "customdata": [[run_url(sample.run)] for _, _, sample in values],
        "text": texts,
        "hovertemplate": f"{label}<br>outstanding %{{x:d}}, %{{text}} · click opens it<extra></extra>",
    }


def _median_trace(
    line: StyledLine,
    values: list[tuple[int, float, Sample]],
    points: dict[int, Spread],
    unit: str,
    what: str,
    dash: str,
    common: dict[str, Any],
) -> dict[str, Any]:
    nearest = {
        depth: min((abs(v - point.median), s.run) for d, v, s in values if d == depth)[1]
        for depth, point in points.items()
    }
    return common | {
        "type": "scatter",
        "mode": "lines+markers",
        "name": line.label,
        "x": list(points),
        "y": [point.median for point in points.values()],
        "line": {"color": line.style.colour, "dash": dash, "width": 2},
        "marker": {"color": line.style.colour, "symbol": line.style.marker, "size": 8},
        "customdata": [[run_url(nearest[depth])] for depth in points],
        "hovertext": [_median_hover(line, d, p, unit, what, nearest[d]) for d, p in points.items()],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _median_hover(
    line: StyledLine, depth: int, point: Spread, unit: str, what: str, run: int
) -> str:
    value = f"{line.label}<br>outstanding {depth}: {what} <b>{si(point.median, unit)}</b>"
    if point.n == 1:
        return f"{value}<br>one repeat, run {run} · click opens it"
    span = ""
    if point.low is not None and point.high is not None:
        span = f", {si(point.low, unit)} to {si(point.high, unit)}"
    return f"{value}<br>median of {point.n} repeats{span}<br>nearest: run {run} · click opens it"


def _curve_end_names(
    lines: Sequence[StyledLine], data: Sequence[dict[str, Any]], high: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Name the lines at their ends, in each panel that draws every line once. `high`: {y axis: its pixels}."""
    annotations: list[dict[str, Any]] = []
    for axis, pixels in high.items():
        drawn = [trace for trace in data if trace["yaxis"] == axis]
        ends = [trace for trace in drawn if trace.get("name") is not None]
        if len(ends) != len({trace["legendgroup"] for trace in ends}):
            continue
        looks = {line.label: line.style for line in lines}
        end_names = [
            label_places.NamedLine(
                trace["name"], trace["name"], looks[trace["name"]], trace["x"], trace["y"]
            )
            for trace in ends
        ]
        depths = [x for trace in drawn for x in trace["x"]]
        values = [y for trace in drawn for y in trace["y"]]
        log = axis == "y2"
        x = Scale.fit(depths, label_places.MIN_PLOT_PX, log=True)
        y = Scale.fit(values, pixels, log=log, zero=True)
        annotations += label_places.end_name_annotations(
            end_names, x, y, {"xref": "x", "yref": axis}
        )
    return annotations


def _knee_traces(lines: Sequence[StyledLine], choice: Choice, high: float) -> list[dict[str, Any]]:
    """Traces of each line's knee, where IOPS are shown."""
    if choice.metric != "iops":
        return []
    return curve_marks.knee_traces(
        [
            MarkedLine(
                curve_answer(line.group, choice.operation), line.style, _depth_medians(line, choice)
            )
            for line in lines
        ],
        high,
    )


def _depth_medians(line: StyledLine, choice: Choice) -> dict[int, float]:
    values = _depth_values(line.group, choice.metric_name(choice.metric))
    return {depth: point.median for depth, point in curve((d, v) for d, v, _ in values).items()}


def _beam_traces(lines: Sequence[StyledLine], choice: Choice, high: float) -> list[dict[str, Any]]:
    name = choice.metric_name(choice.metric)
    return curve_marks.beam_traces([_line_repeats(line, name, choice) for line in lines], high)


def _line_repeats(line: StyledLine, name: str, choice: Choice) -> LineRepeats:
    repeats: dict[int, list[float]] = {}
    for depth, value, _ in _depth_values(line.group, name):
        repeats.setdefault(depth, []).append(value)
    return LineRepeats(
        line.style, repeats, _depth_medians(line, choice), ratios_by_depth(line.group, name)
    )


def run_url(run: int) -> str:
    """Address to which a click leads."""
    return reverse("run-detail", args=[run])
