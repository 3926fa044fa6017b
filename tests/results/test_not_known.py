"""Unknown values, NULL or NaN, in the long tables: told in every format, found by no comparison, sorted last."""

from __future__ import annotations

import math

import pytest

from agents.outputs.fio_model import DIRECTIONS, KINDS, PERCENTILES
from benchlab.results.columns import KNOWN_METRICS
from benchlab.runs.models import Measurement, Series
from tests.results.test_tables import SERIES, URL, read, rows


def test_what_is_not_known(api, ours):
    attempt = ours.attempts[0]
    Measurement.objects.create(attempt=attempt, name="odd", value=None, unit="s", note="n/a")
    Series.objects.create(attempt=attempt, sampler="odd", metric="odd", unit="s",
                          times=[1.0, 2.0, 3.0], values=[math.nan, math.inf, -0.5])  # fmt: skip
    (row,) = rows(api, "metric=odd")
    assert row["value"] == "" and row["note"] == "n/a"
    assert api.get(f"{URL}?metric=odd&format=json").json()["data"]["value"] == [None]
    assert rows(api, "metric=odd&value__isnull=true") and not rows(api, "value__lt=1&metric=odd")
    told = api.get(f"{SERIES}?metric=odd&format=json").json()
    assert told["data"]["value"] == [None, None, -0.5] and told["data"]["time"] == [1, 2, 3]
    for form in ("parquet", "arrow"):
        for more in ("", "&limit=9"):  # as arrays, and row by row
            values = read(api, form, "metric=odd" + more, SERIES)["value"].tolist()
            assert math.isnan(values[0]) and values[1:] == [math.inf, -0.5]


@pytest.mark.parametrize("url", [URL, SERIES])
def test_what_is_not_known_is_neither_more_nor_less(api, ours, url):
    """PostgreSQL has NaN as the greatest number; here it satisfies no comparison and is last in any order."""
    attempt = ours.attempts[0]
    values = [1.0, math.nan, math.inf, -2.0]
    if url == URL:
        for n, value in enumerate(values):
            Measurement.objects.create(
                attempt=attempt, name="odd", value=value, unit="s", labels={"n": n}
            )
    else:
        Series.objects.create(attempt=attempt, sampler="odd", metric="odd", unit="s",
                              times=[1.0, 2.0, 3.0, 4.0], values=values)  # fmt: skip
    for test, wanted in (
        ("value__gt=-9", [1.0, math.inf, -2.0]),
        ("value__gte=1", [1.0, math.inf]),
        ("value__gte=1e308", [math.inf]),
        ("value__lt=1e308", [1.0, -2.0]),
        ("value__lte=1", [1.0, -2.0]),
    ):
        found = read(api, "arrow", f"metric=odd&{test}", url)["value"].tolist()
        assert found == wanted, test
    for order, wanted in (
        ("value", [-2.0, 1.0, math.inf]),
        ("-value", [math.inf, 1.0, -2.0]),
    ):
        found = read(api, "arrow", f"metric=odd&ordering={order}", url)["value"].tolist()
        assert found[:3] == wanted and math.isnan(found[3]), order


def test_an_attempt_whose_figure_is_not_known_is_not_fast(api, ours):
    attempt = ours.attempts[0]
    Measurement.objects.create(attempt=attempt, name="odd", value=math.nan, unit="s")
    assert not rows(api, "metric.odd__gte=0") and not rows(api, "metric.odd__lte=0")
    assert rows(api, "metric.odd__isnull=false")


def test_latencies_of_a_tool_are_known_before_any_run_has_them():
    """Else a question for one of them is refused as a mistake until the first run has come."""
    told = (*PERCENTILES, "mean", "stddev", "min", "max")
    prefixes = ("", *(f"{way}." for way in DIRECTIONS))
    assert {
        f"{p}{kind}.{name}" for p in prefixes for kind in KINDS for name in told
    } <= KNOWN_METRICS
