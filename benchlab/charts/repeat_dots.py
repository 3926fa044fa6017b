# SPDX-License-Identifier: Apache-2.0
"""Workloads that sweep no outstanding I/Os (dd, say): a bar for the median and a dot per repeat. Pure.

A family of metrics (pg_test_fsync's methods) has a bar for each of them and each line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchlab.analysis.curves import Spread, spread
from benchlab.analysis.formats import shown_unit
from benchlab.charts import figure, metric_naming
from benchlab.charts.curve import StyledLine, run_url, styled_lines
from benchlab.charts.curve_marks import DIFFER_NAME
from benchlab.charts.figure import Figure
from benchlab.charts.line_analysis import Choice, ratios_by_line
from benchlab.charts.palette import fill_patterns
from benchlab.charts.queries import Group
from benchlab.web.units import factor, si

# of the longest bar: no room for its number
SHORT_BAR = 0.12


def build_bar_figure(title: str, groups: Sequence[Group], choice: Choice) -> Figure:
    """One bar per line; a click on a dot opens its run."""
    if "*" in choice.metric:
        return _family_figure(title, groups, choice)
    word, unit = choice.quantity(groups)
    name = choice.metric_name(choice.metric)
    lines = [
        line
        for line in styled_lines([group for group in groups if not group.swept])
        if any(name in sample.values for sample in line.group.samples)
    ]
    if not lines:
        return figure.empty_figure(title, f"No {word} measured yet.")
    longest = max(value for line in lines for value in _line_values(line, name))
    differ = ratios_by_line([line.group for line in lines], name)
    data = [
        trace
        for line, ratio in zip(lines, differ, strict=True)
        for trace in (
            _median_bar(line, name, unit, longest),
            *([_repeat_beam(line, name, ratio)] if ratio else []),
            _repeat_dots(line, name, unit),
        )
    ]
    beams = " Thick line: the repeats differ, by how much." if any(differ) else ""
    layout = figure.base_layout(
        f"{word} · {title}",
        f"Bar: median over repeats. Dot: one run; a click opens it.{beams}",
        height=150 + sum(46 + 14 * line.label.count(" · ") for line in lines),
        xaxis=figure.value_axis(word, unit),
        yaxis={"automargin": True, "autorange": "reversed", "type": "category"},
        showlegend=False,
        bargap=0.45,
    )
    return {"data": data, "layout": layout}


def _family_figure(title: str, groups: Sequence[Group], choice: Choice) -> Figure:
    """Metrics of one kind below one another, each with a bar per line."""
    lines = styled_lines([group for group in groups if not group.swept])
    every = dict.fromkeys(name for line in lines for name in line.group.units)
    names = metric_naming.family_members(choice.metric, every)
    word = metric_naming.metric_word(choice.metric)
    if not names:
        return figure.empty_figure(title, f"No {word} measured yet.")
    units = {name: unit for line in lines for name, unit in line.group.units.items()}
    # Of a family of several operations: none has its own word.
    unit = shown_unit(names[0] if len(names) == 1 else choice.metric, units[names[0]])
    layout = figure.base_layout(
        f"{word} · {title}",
        "Bar: median over repeats; a click opens the run. No bar: not measured there, or n/a.",
        height=170 + (24 * len(lines) + 14) * len(names),
        xaxis=figure.value_axis(word, unit),
        yaxis={"automargin": True, "autorange": "reversed", "type": "category"},
        barmode="group",
        bargap=0.12,
    )
    layout["legend"] |= {"y": -72 / (layout["height"] - 120), "traceorder": "normal"}
    differ = {name: ratios_by_line([line.group for line in lines], name) for name in names}
    data = [
        _family_bars(
            line, choice, names, unit, {name: ratios[at] for name, ratios in differ.items()}
        )
        for at, line in enumerate(lines)
    ]
    for trace, shape in zip(data, fill_patterns([line.style for line in lines]), strict=True):
        trace["marker"]["pattern"] = {"shape": shape, "size": 6, "solidity": 0.25}
    return figure.fit_legend({"data": data, "layout": layout})


def _family_bars(
    line: StyledLine,
    choice: Choice,
    names: Sequence[str],
    unit: str,
    differ: Mapping[str, float | None],
) -> dict[str, Any]:
    measured = [name for name in names if _line_values(line, name)]
    points = [spread(_line_values(line, name)) for name in measured]
    ratios = [differ[name] for name in measured]
    nearest = [
        min(
            (abs(sample.values[name] - point.median), sample.run)
            for sample in line.group.samples
            if name in sample.values
        )[1]
        for name, point in zip(measured, points, strict=True)
    ]
    words = [metric_naming.member_word(choice.metric, name) for name in measured]
    return {
        "type": "bar",
        "orientation": "h",
        "name": line.label,
        "x": [point.median for point in points],
        "y": words,
        "marker": {
            "color": line.style.faded(0.45),
            "line": {"color": line.style.colour, "width": 1},
        },
        "text": [_bar_text(p, ratio, unit) for p, ratio in zip(points, ratios, strict=True)],
        "textposition": "auto",
        "insidetextanchor": "start",
        "customdata": [[run_url(run)] for run in nearest],
        "hovertext": [
            f"{line.label}<br>{name}: <b>{_bar_text(point, ratio, unit)}</b><br>median of {point.n} · run {run}"
            " · click opens it"
            for name, point, ratio, run in zip(words, points, ratios, nearest, strict=True)
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _bar_text(point: Spread, ratio: float | None, unit: str) -> str:
    return si(point.median, unit) + (f" (repeats differ {factor(ratio)})" if ratio else "")


def _line_values(line: StyledLine, name: str) -> list[float]:
    return [sample.values[name] for sample in line.group.samples if name in sample.values]


def _stacked_label(label: str) -> str:
    """Parts of a label below one another: beside them there would be no room for the bars."""
    return label.replace(" · ", "<br>")


def _median_bar(line: StyledLine, name: str, unit: str, longest: float) -> dict[str, Any]:
    point = spread(_line_values(line, name))
    # else the text would be shrunk to fit
    inside = point.median > SHORT_BAR * longest
    text = f"{line.label}<br>median of {point.n}: <b>{si(point.median, unit)}</b>"
    if point.low is not None and point.high is not None:
        text += f"<br>{si(point.low, unit)} to {si(point.high, unit)}"
    return {
        "type": "bar",
        "orientation": "h",
        "name": line.label,
        "x": [point.median],
        "y": [_stacked_label(line.label)],
        "marker": {
            "color": line.style.faded(0.25),
            "line": {"color": line.style.colour, "width": 1},
        },
        "text": [si(point.median, unit) if inside else f"\u00a0\u00a0 {si(point.median, unit)}"],
        "textposition": "inside" if inside else "outside",
        "insidetextanchor": "start",
        "hovertext": [text],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _repeat_beam(line: StyledLine, name: str, ratio: float) -> dict[str, Any]:
    """Draw a beam from the smallest to the largest repeat, which differ more than noise explains."""
    values = _line_values(line, name)
    return {
        "type": "scatter",
        "mode": "lines+text",
        "name": DIFFER_NAME,
        "x": [min(values), max(values)],
        "y": [_stacked_label(line.label)] * 2,
        "line": {"color": line.style.faded(0.5), "width": 7},
        "text": ["", factor(ratio)],
        "textposition": "top center",
        "cliponaxis": False,
        "hoverinfo": "skip",
    }


def _repeat_dots(line: StyledLine, name: str, unit: str) -> dict[str, Any]:
    samples = [sample for sample in line.group.samples if name in sample.values]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": line.label,
        "x": [sample.values[name] for sample in samples],
        "y": [_stacked_label(line.label)] * len(samples),
        "marker": {"color": line.style.colour, "symbol": line.style.marker, "size": 8},
        "customdata": [[run_url(sample.run)] for sample in samples],
        "text": [
            f"{line.label}<br>{sample.repeat_text}: <b>{si(sample.values[name], unit)}</b>"
            f"{'<br>' + sample.during if sample.during else ''}<br>run {sample.run} · click opens it"
            for sample in samples
        ],
        "hovertemplate": "%{text}<extra></extra>",
    }
