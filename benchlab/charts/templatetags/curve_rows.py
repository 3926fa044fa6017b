# SPDX-License-Identifier: Apache-2.0
"""The rows of a curve's table. Not by the template: a large campaign has hundreds, a third of what its page cost."""

from __future__ import annotations

from collections.abc import Iterable

from django import template
from django.template.defaultfilters import floatformat
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from benchlab.charts.tables import CurvePoint
from benchlab.charts.templatetags.si import spread
from benchlab.web.units import factor

register = template.Library()
KNEE = ' <span class="badge">Knee</span>'
WARNED = ' <span class="badge badge-interrupted">{}</span>'


@register.simple_tag
def curve_rows(points: Iterable[CurvePoint], guest: object) -> SafeString:
    """`guest`: whatever a template has where a guest looks, "" where it has nothing."""
    return curve_rows_html(points, guest=bool(guest))


def curve_rows_html(points: Iterable[CurvePoint], *, guest: bool) -> SafeString:
    """A guest gets no links into the lab. Only a line's name is not ours: it alone is escaped."""
    run, history = (_address_parts(name) for name in ("run-detail", "run-history"))
    return mark_safe("\n".join([_point_row(point, run, history, guest) for point in points]))  # noqa: S308


def _address_parts(name: str) -> tuple[str, str]:
    """An address before and behind the run's number: there are too many to ask for each."""
    before, _, behind = reverse(name, args=[0]).rpartition("0")
    return before, behind


def _point_row(
    point: CurvePoint, run: tuple[str, str], history: tuple[str, str], guest: bool
) -> str:
    depth = "–" if point.outstanding is None else str(point.outstanding)
    differ = (
        WARNED.format(f"Repeats differ {factor(point.repeat_ratio)}") if point.repeat_ratio else ""
    )
    unlike = WARNED.format("Unlike conditions") if point.unlike_conditions else ""
    off = WARNED.format("Off") if point.little and not point.little.holds else ""
    numbers = [
        depth + (KNEE if point.knee else ""),
        spread(point.iops, "op/s") + differ + unlike,
        spread(point.bandwidth, "B/s"),
        *(spread(cell, "s") for cell in point.latencies),
        (floatformat(point.little.implied, 1) if point.little else "–") + off,
    ]
    cells = "".join([f'<td class="num">{number}</td>' for number in numbers])
    runs = _run_links(point.runs, run, history, guest)
    return f'<tr><th scope="row" class="line">{escape(point.label)}</th>{cells}<td>{runs}</td></tr>'


def _run_links(
    runs: tuple[int, ...], run: tuple[str, str], history: tuple[str, str], guest: bool
) -> str:
    if guest or not runs:
        return " ".join(map(str, runs))
    links = " ".join([f'<a href="{run[0]}{pk}{run[1]}">{pk}</a>' for pk in runs])
    return f'{links} · <a href="{history[0]}{runs[0]}{history[1]}">history</a>'
