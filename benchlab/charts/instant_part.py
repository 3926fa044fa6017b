# SPDX-License-Identifier: Apache-2.0
"""The part of a run's page that tells every device's values at one instant: ?at= in seconds, ?sort= by a column."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest

from benchlab.charts import devices, instant, request_params
from benchlab.charts.attempt_layers import uses_of
from benchlab.charts.sampled import rows_of
from benchlab.charts.spans import Span
from benchlab.runs.models import Attempt
from benchlab.web import lists
from benchlab.web.units import short

# of the part, which is swapped alone
ID = "instant"
TEMPLATE = "charts/_instant.html"
# read as well: the next sample
BEHIND_S = 60.0
# by a panel's unit
RATES = {"r/s": "op/s", "w/s": "op/s"}
# parameters of the same page
OTHERS = ("attempt", "window", "members", "at")


def context_of(request: HttpRequest, attempt: Attempt) -> dict[str, Any]:
    """Raises BadRequest: ?at= is no number, or no column sorts like that."""
    if not request.GET.get("at"):
        return {}
    at = request_params.finite_seconds(request.GET, "at")
    facts = attempt.facts.facts if attempt.facts else {}
    found = rows_of(attempt, (*devices.PANELS, *devices.CPU), Span(at, at + BEHIND_S))
    own = {name for use in uses_of(attempt) for name in use.members}
    told = instant.of(found, devices.active(found) | own, facts, at)
    if told is None:
        return {"at": at}
    listed = lists.listed_here(
        request,
        told.lines,
        _columns(told),
        lambda line: [line.device.label],
        place=f"#{ID}",
        filters=OTHERS,
    )
    rows = [
        (line, [_words(metric, line.values.get(metric)) for metric in told.metrics])
        for line in listed.rows
    ]
    links = {"earlier": _at(request, told.earlier), "later": _at(request, told.later)}
    return {"at": at, "instant": told, "listed": listed, "rows": rows, **links}


def _at(request: HttpRequest, at: float | None) -> str:
    """Address of the same at another instant; "" where there is none."""
    if at is None:
        return ""
    query = request.GET.copy()
    query["at"] = str(at)
    return f"{lists.address(query)}#{ID}"


def _columns(told: instant.Instant) -> dict[str, lists.By]:
    columns = {"device": lists.by_key("Device", lambda line: line.device.name)}
    if len(told.spans) > 1:
        columns["sample"] = lists.by_key("Sample until", lambda line: line.end, "num")
    for metric in told.metrics:
        title, unit = devices.PANELS[metric]
        head = f"{title} ({unit})" if unit in RATES else title
        columns[metric] = lists.by_key(head, partial(_value, metric), "num")
    return columns


def _value(metric: str, line: instant.Line) -> float | None:
    return line.values.get(metric)


def _words(metric: str, value: float | None) -> str:
    unit = devices.PANELS[metric][1]
    return "–" if value is None else short(value, RATES.get(unit, unit))
