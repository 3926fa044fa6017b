"""Numbers on pages: SI and binary prefixes, and no digit that does not count."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest

from benchlab.analysis.curves import Spread
from benchlab.charts.templatetags.si import spread
from benchlab.web.units import duration, exact, format_size, short_si, si, utc_time


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (12345.6, "op/s", "12.3 k IOPS"),
        (999.0, "op/s", "999 IOPS"),
        (0.00123, "s", "1.23 ms"),
        (147085877.9, "B/s", "147 MB/s"),
        (0.0, "s", "0 s"),
        (3.0, "1", "3"),
        (42.25, "%", "42.2 %"),
        (2**29, "B", "512 MiB"),
        (80778, "1", "80\u202f778"),
        (None, "s", "n/a"),
        (math.nan, "s", "n/a"),
    ],
)
def test_si(value, unit, text):
    assert si(value, unit) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (12345.6, "op/s", "12.3 k"),
        (682.0, "fsyncs/s", "682"),
        (0.00123, "s", "1.23 ms"),
        (147085877.9, "B/s", "147 MB/s"),
        (None, "op/s", "n/a"),
    ],
)
def test_under_a_head_that_says_what_is_counted(value, unit, text):
    assert short_si(value, unit) == text


def test_exact_keeps_the_digits_that_count():
    assert exact(147085877.92) == "147\u202f085\u202f878"
    assert exact(0.000222781) == "0.000222781"
    assert exact(None) == "n/a"


def test_size_and_duration():
    assert format_size(1536) == "1.5 KiB"
    assert duration(3723) == "1 h 2 min"
    assert duration(61) == "1 min 1 s"


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (datetime(2026, 11, 26, 3, 15, 7, tzinfo=UTC), "03:15"),
        (datetime(2026, 11, 27, 3, 15, tzinfo=UTC), "27 Nov, 03:15"),  # an ETA of 24 hours and more
        (datetime(2025, 11, 26, 3, 15, tzinfo=UTC), "26 Nov 2025, 03:15"),
        (datetime(2026, 11, 27, 1, 15, tzinfo=timezone(timedelta(hours=2))), "23:15"),
    ],
)
def test_a_time_of_another_day_says_the_day(at, text):
    now = datetime(2026, 11, 26, 1, 0, tzinfo=UTC)
    assert utc_time(at, now) == text
    assert utc_time(at, now, seconds=True) == f"{text}:{at:%S}"


def test_a_spread_is_the_median_and_its_range():
    assert spread(None, "s") == "–"
    assert spread(Spread(2, 0.001, None, None), "s") == "1 ms"
    text = spread(Spread(3, 2.0, 1.0, 3.0), "<b>")
    assert text == '2 &lt;b&gt;<small class="muted">1 &lt;b&gt; to 3 &lt;b&gt;</small>'
