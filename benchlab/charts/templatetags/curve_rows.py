"""benchlab.charts.curve_rows for templates."""

from __future__ import annotations

from collections.abc import Iterable

from django import template
from django.utils.safestring import SafeString

from benchlab.charts import curve_rows as rows
from benchlab.charts.tables import Point

register = template.Library()


@register.simple_tag
def curve_rows(points: Iterable[Point], guest: object) -> SafeString:
    """`guest`: whatever a template has where a guest looks, "" where it has nothing."""
    return rows.html(points, guest=bool(guest))
