"""The rows of a curve's table. Not by the template: a large campaign has hundreds, a third of what its page cost."""

from __future__ import annotations

from collections.abc import Iterable

from django.template.defaultfilters import floatformat
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from benchlab.charts.tables import Point
from benchlab.charts.templatetags.si import spread
from benchlab.web.units import factor

ROW = (
    '<tr><th scope="row" class="line">{}</th><td class="num">{}{}</td><td class="num">{}{}{}</td>'
    '<td class="num">{}</td>{}<td class="num">{}{}</td><td>{}{}</td></tr>'
)
KNEE = SafeString(' <span class="badge">knee</span>')
DIFFER = ' <span class="badge badge-interrupted">repeats differ {}</span>'
UNLIKE = SafeString(' <span class="badge badge-interrupted">unlike conditions</span>')
OFF = SafeString(' <span class="badge badge-interrupted">off</span>')


def html(points: Iterable[Point], *, guest: bool) -> SafeString:
    """A guest gets no links into the lab."""
    run, history = (_place(name) for name in ("run-detail", "run-history"))
    return format_html_join("\n", "{}", ((_row(one, run, history, guest),) for one in points))


def _place(name: str) -> tuple[str, str]:
    """An address before and behind the run's number: there are too many to ask for each."""
    before, _, behind = reverse(name, args=[0]).rpartition("0")
    return before, behind


def _row(one: Point, run: tuple[str, str], history: tuple[str, str], guest: bool) -> SafeString:
    little = one.little
    return format_html(
        ROW,
        one.label,
        "–" if one.outstanding is None else one.outstanding,
        KNEE if one.knee else "",
        spread(one.iops, "op/s"),
        format_html(DIFFER, factor(one.differ)) if one.differ else "",
        UNLIKE if one.unlike else "",
        spread(one.bandwidth, "B/s"),
        format_html_join("", '<td class="num">{}</td>', ((spread(c, "s"),) for c in one.latencies)),
        floatformat(little.implied, 1) if little else "–",
        OFF if little and not little.holds else "",
        _runs(one.runs, run, guest),
        "" if guest or not one.runs else _history(one.runs[0], history),
    )


def _runs(runs: Iterable[int], place: tuple[str, str], guest: bool) -> SafeString:
    if guest:
        return format_html_join("", "{} ", ((pk,) for pk in runs))
    before, behind = place
    return format_html_join(
        "", '<a href="{}{}{}">{}</a> ', ((before, pk, behind, pk) for pk in runs)
    )


def _history(run: int, place: tuple[str, str]) -> SafeString:
    before, behind = place
    return format_html('· <a href="{}{}{}">history</a>', before, run, behind)
