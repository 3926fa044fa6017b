# SPDX-License-Identifier: Apache-2.0
"""Workloads that sweep no outstanding I/Os (dd, say): a bar for the median and a dot per repeat. Pure.

A family of metrics (pg_test_fsync's methods) has a bar for each of them and each line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchlab.analysis.curves import spread
from benchlab.analysis.formats import shown_unit
from benchlab.charts import figure, metric_naming
from benchlab.charts.curve import DIFFER_NAME, StyledLine, repeat_hover, styled_lines
from benchlab.charts.figure import Chart, Figure, Subplot, Trace
from benchlab.charts.line_analysis import Choice, ratios_by_line
from benchlab.charts.palette import fill_patterns
from benchlab.charts.queries import Group, unsteady_text
from benchlab.web.units import factor, si

# of the longest bar: no room for its number
SHORT_BAR = 0.12
CATEGORIES = {"automargin": True, "autorange": "reversed", "type": "category"}


def build_bar_figure(title: str, groups: Sequence[Group], choice: Choice) -> Figure:
    """One bar per line; a click on a dot opens its run."""
    lines = styled_lines([group for group in groups if not group.swept])
    if "*" in choice.metric:
        return _family_figure(title, lines, choice)
    word, unit = choice.quantity(groups)
    name = choice.metric_name(choice.metric)
    lines = [line for line in lines if line.samples(name)]
    if not lines:
        return figure.empty_figure(title, f"No {word} measured yet.")
    longest = max(value for line in lines for _, value in line.samples(name))
    ratios = ratios_by_line([line.group for line in lines], name)
    data: list[Trace] = []
    for line, ratio in zip(lines, ratios, strict=True):
        data.append(_median_bar(line, name, unit, longest))
        if ratio:
            data.append(_repeat_beam(line, name, ratio))
        data.append(_repeat_dots(line, name, unit))
    beams = " Thick line: the repeats differ, by how much." if any(ratios) else ""
    return figure.build_figure(
        Chart(
            f"{word} · {title}",
            f"Bar: median over repeats. Dot: one run; a click opens it.{beams}",
            data,
            [Subplot(figure.value_axis(word, unit), CATEGORIES)],
            height=150 + sum(46 + 14 * line.label.count(" · ") for line in lines),
            layout={"showlegend": False, "bargap": 0.45},
        )
    )


def _family_figure(title: str, lines: Sequence[StyledLine], choice: Choice) -> Figure:
    """Metrics of one kind below one another, each with a bar per line."""
    units = {name: unit for line in lines for name, unit in line.group.units.items()}
    names = metric_naming.family_members(choice.metric, units)
    word = metric_naming.metric_word(choice.metric)
    if not names:
        return figure.empty_figure(title, f"No {word} measured yet.")
    # Of a family of several operations: none has its own word.
    unit = shown_unit(names[0] if len(names) == 1 else choice.metric, units[names[0]])
    ratios = {name: ratios_by_line([line.group for line in lines], name) for name in names}
    patterns = fill_patterns([line.style for line in lines])
    height = 170 + (24 * len(lines) + 14) * len(names)
    return figure.build_figure(
        Chart(
            f"{word} · {title}",
            "Bar: median over repeats; a click opens the run. No bar: not measured there, or n/a.",
            [
                _family_bars(line, choice, unit, pattern, {n: ratios[n][at] for n in names})
                for at, (line, pattern) in enumerate(zip(lines, patterns, strict=True))
            ],
            [Subplot(figure.value_axis(word, unit), CATEGORIES)],
            height=height,
            legend={"y": -72 / (height - 120), "traceorder": "normal"},
            layout={"barmode": "group", "bargap": 0.12},
        )
    )


def _family_bars(
    line: StyledLine, choice: Choice, unit: str, pattern: str, ratios: Mapping[str, float | None]
) -> Trace:
    words, texts, medians, runs, hovers = [], [], [], [], []
    for name, ratio in ratios.items():
        values = line.samples(name)
        if not values:
            continue
        point = spread([value for _, value in values])
        run = min((abs(value - point.median), sample.run) for sample, value in values)[1]
        word = metric_naming.member_word(choice.metric, name)
        differ = f"repeats differ {factor(ratio)}" if ratio else ""
        remarks = ", ".join(filter(None, [differ, unsteady_text([s for s, _ in values])]))
        text = si(point.median, unit) + (f" ({remarks})" if remarks else "")
        words.append(word)
        texts.append(text)
        medians.append(point.median)
        runs.append(run)
        head = f"{line.label}<br>{word}: <b>{text}</b>"
        hovers.append(f"{head}<br>median of {point.n} · run {run} · click opens it")
    bars = _bar_trace(line, medians, words, 0.45) | {
        "text": texts,
        "textposition": "auto",
        "customdata": figure.run_links(runs),
        "hovertext": hovers,
    }
    bars["marker"]["pattern"] = {"shape": pattern, "size": 6, "solidity": 0.25}
    return bars


def _median_bar(line: StyledLine, name: str, unit: str, longest: float) -> Trace:
    point = spread([value for _, value in line.samples(name)])
    unsteady = unsteady_text([sample for sample, _ in line.samples(name)])
    number = si(point.median, unit) + (f" ({unsteady})" if unsteady else "")
    hover = f"{line.label}<br>median of {point.n}: <b>{number}</b>"
    if point.low is not None:
        hover += f"<br>{si(point.low, unit)} to {si(point.high, unit)}"
    # else the text would be shrunk to fit
    inside = point.median > SHORT_BAR * longest
    return _bar_trace(line, [point.median], [_stacked_label(line)], 0.25) | {
        "text": [number if inside else f"\u00a0\u00a0 {number}"],
        "textposition": "inside" if inside else "outside",
        "hovertext": [hover],
    }


def _bar_trace(line: StyledLine, x: list[float], y: list[str], alpha: float) -> Trace:
    return {
        "type": "bar",
        "orientation": "h",
        "name": line.label,
        "legendgroup": line.id,
        "x": x,
        "y": y,
        "marker": {
            "color": line.style.faded(alpha),
            "line": {"color": line.style.colour, "width": 1},
        },
        "insidetextanchor": "start",
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _stacked_label(line: StyledLine) -> str:
    """Parts of a label below one another: beside them there would be no room for the bars."""
    return line.label.replace(" · ", "<br>")


def _repeat_beam(line: StyledLine, name: str, ratio: float) -> Trace:
    """Draw a beam from the smallest to the largest repeat, which differ more than noise explains."""
    values = [value for _, value in line.samples(name)]
    return {
        "type": "scatter",
        "mode": "lines+text",
        "name": DIFFER_NAME,
        "x": [min(values), max(values)],
        "y": [_stacked_label(line)] * 2,
        "line": {"color": line.style.faded(0.5), "width": 7},
        "text": ["", factor(ratio)],
        "textposition": "top center",
        "cliponaxis": False,
        "hoverinfo": "skip",
    }


def _repeat_dots(line: StyledLine, name: str, unit: str) -> Trace:
    samples = line.samples(name)
    hovers = [
        f"{line.label}<br>{repeat_hover(sample, f'<b>{si(value, unit)}</b>')} · click opens it"
        for sample, value in samples
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": line.label,
        "x": [value for _, value in samples],
        "y": [_stacked_label(line)] * len(samples),
        "marker": {"color": line.style.colour, "symbol": line.style.marker, "size": 8},
        "customdata": figure.run_links(sample.run for sample, _ in samples),
        "text": hovers,
        "hovertemplate": "%{text}<extra></extra>",
    }
