# SPDX-License-Identifier: Apache-2.0
"""benchlab.web.units for templates, what is shown of a stored figure, and the rows of a curve's table."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from django import template
from django.template.defaultfilters import floatformat
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from benchlab.analysis.curves import Spread
from benchlab.analysis.formats import ratio_number, shown_unit
from benchlab.charts.tables import CurvePoint
from benchlab.web import units
from benchlab.web.units import factor, si

register = template.Library()
for _shown in (
    si,
    units.exact,
    units.digits,
    units.factor,
    units.duration,
    units.clock,
):
    register.filter(_shown)
register.filter("size", units.format_size)
register.filter("ratio_digits", ratio_number)


@register.filter
def at(when: datetime, exact: str = "") -> str:
    """`when|at`: to the minute; `when|at:"s"`: to the second."""
    return units.utc_time(when, seconds=bool(exact))


class Measured(Protocol):
    name: str
    value: float | None
    unit: str


@register.filter
def measured(row: Measured) -> str:
    """A stored figure: fsyncs are ops/s, not IOPS."""
    return si(row.value, shown_unit(row.name, row.unit))


@register.filter
def spread(values: Spread | None, unit: str) -> str:
    """A table's cell: the median, below it from where to where. Not an included template: a table has thousands."""
    if values is None:
        return "–"
    unit = escape(unit)
    median = si(values.median, unit)
    if values.low is None:
        return median
    low, high = si(values.low, unit), si(values.high, unit)
    # Only the unit is not ours, and escaped once: format_html does so with every part.
    return mark_safe(f'{median}<small class="muted">{low} to {high}</small>')  # noqa: S308


KNEE = ' <span class="badge">Knee</span>'


@register.simple_tag
def curve_rows(points: Iterable[CurvePoint], guest: object) -> SafeString:
    """Not by the template: a large campaign has hundreds of rows, a third of what its page cost.

    `guest`: whatever a template has where a guest looks, "" where it has nothing. A guest gets no links into the lab.
    Only a line's name is not ours: it alone is escaped.
    """
    run, history = (_address_parts(name) for name in ("run-detail", "run-history"))
    rows = [
        _point_row(point, _run_links(point.runs, run, history, bool(guest))) for point in points
    ]
    return mark_safe("\n".join(rows))  # noqa: S308


def _address_parts(name: str) -> tuple[str, str]:
    """An address before and behind the run's number: there are too many to ask for each."""
    before, _, behind = reverse(name, args=[0]).rpartition("0")
    return before, behind


def _point_row(point: CurvePoint, runs: str) -> str:
    depth = "–" if point.outstanding is None else str(point.outstanding)
    differ = f"Repeats differ {factor(point.repeat_ratio)}" if point.repeat_ratio else ""
    unlike = "Unlike conditions" if point.unlike_conditions else ""
    unsteady = point.unsteady[:1].upper() + point.unsteady[1:]
    numbers = [
        depth + (KNEE if point.knee else ""),
        spread(point.iops, "op/s") + _warning(differ) + _warning(unlike) + _warning(unsteady),
        spread(point.bandwidth, "B/s"),
        *(spread(cell, "s") for cell in point.latencies),
        "–",
    ]
    if point.little:
        numbers[-1] = floatformat(point.little.implied, 1)
        numbers[-1] += _warning("" if point.little.holds else "Off")
    cells = "".join([f'<td class="num">{number}</td>' for number in numbers])
    return f'<tr><th scope="row" class="line">{escape(point.label)}</th>{cells}<td>{runs}</td></tr>'


def _warning(words: str) -> str:
    return f' <span class="badge badge-interrupted">{words}</span>' if words else ""


def _run_links(
    runs: tuple[int, ...], run: tuple[str, str], history: tuple[str, str], guest: bool
) -> str:
    if guest or not runs:
        return " ".join(map(str, runs))
    links = " ".join([f'<a href="{run[0]}{pk}{run[1]}">{pk}</a>' for pk in runs])
    return f'{links} · <a href="{history[0]}{runs[0]}{history[1]}">history</a>'
