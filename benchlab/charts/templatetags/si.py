# SPDX-License-Identifier: Apache-2.0
"""benchlab.web.units for templates, and what is shown of a stored figure."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from django import template
from django.utils.html import escape
from django.utils.safestring import mark_safe

from benchlab.analysis.curves import Spread
from benchlab.analysis.formats import ratio_number, shown_unit
from benchlab.web import units
from benchlab.web.units import si

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
