# SPDX-License-Identifier: Apache-2.0
"""The part of a run's page that tells every device's values at one instant: ?at= in seconds, ?sort= by a column."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest

from benchlab.charts import cursor_values, devices, request_params
from benchlab.charts.attempt_layers import read_disk_uses
from benchlab.charts.sampled import read_rows
from benchlab.charts.spans import Span
from benchlab.runs.models import Attempt
from benchlab.web import lists
from benchlab.web.units import short_si

# of the part, which is swapped alone
PART_ID = "instant"
PART_TEMPLATE = "charts/_instant.html"
# read as well: the next sample
LOOK_AHEAD_S = 60.0
# by a panel's unit
RATE_UNITS = {"r/s": "op/s", "w/s": "op/s"}
# parameters of the same page
OTHER_PARAMETERS = ("attempt", "window", "members", "at")


def instant_context(request: HttpRequest, attempt: Attempt) -> dict[str, Any]:
    """Raises BadRequest: ?at= is no number, or no column sorts like that."""
    if not request.GET.get("at"):
        return {}
    at = request_params.finite_seconds(request.GET, "at")
    facts = attempt.facts.facts if attempt.facts else {}
    rows_near = read_rows(
        attempt, (*devices.DEVICE_PANELS, *devices.CPU_STATES), Span(at, at + LOOK_AHEAD_S)
    )
    own = {name for use in read_disk_uses(attempt) for name in use.members}
    values = cursor_values.values_at(rows_near, devices.active_devices(rows_near) | own, facts, at)
    if values is None:
        return {"at": at}
    listed = lists.filter_in_memory(
        request,
        values.lines,
        _value_columns(values),
        lambda line: [line.device.label],
        place=f"#{PART_ID}",
        filters=OTHER_PARAMETERS,
    )
    rows = [
        (line, [_value_text(metric, line.values.get(metric)) for metric in values.metrics])
        for line in listed.rows
    ]
    links = {
        "earlier": _address_at(request, values.earlier),
        "later": _address_at(request, values.later),
    }
    return {"at": at, "instant": values, "listed": listed, "rows": rows, **links}


def _address_at(request: HttpRequest, at: float | None) -> str:
    """Address of the same at another instant; "" where there is none."""
    if at is None:
        return ""
    query = request.GET.copy()
    query["at"] = str(at)
    return f"{lists.query_address(query)}#{PART_ID}"


def _value_columns(instant: cursor_values.Instant) -> dict[str, lists.SortColumn]:
    columns = {"device": lists.key_column("Device", lambda line: line.device.name)}
    if len(instant.sample_spans) > 1:
        columns["sample"] = lists.key_column("Sample until", lambda line: line.end, "num")
    for metric in instant.metrics:
        title, unit = devices.DEVICE_PANELS[metric]
        head = f"{title} ({unit})" if unit in RATE_UNITS else title
        columns[metric] = lists.key_column(head, partial(_metric_value, metric), "num")
    return columns


def _metric_value(metric: str, line: cursor_values.DeviceSample) -> float | None:
    return line.values.get(metric)


def _value_text(metric: str, value: float | None) -> str:
    unit = devices.DEVICE_PANELS[metric][1]
    return "–" if value is None else short_si(value, RATE_UNITS.get(unit, unit))
