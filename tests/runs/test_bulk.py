"""Rows by COPY: they are what INSERT would have made of them, and what fails is the database's error as ever."""

from __future__ import annotations

import math

import pytest
from django.db import IntegrityError, OperationalError, connection

from agents.contracts import Metric, Unit
from agents.contracts import Series as SeriesData
from benchlab.runs import artifact_figures, conclusion, strips
from benchlab.runs.models import Attempt, Measurement, Series
from tests.charts import made

pytestmark = pytest.mark.django_db
TEXT = 'tab\t, newline\n, \\N, \\x41, "quoted", it\'s, {1,2}, é, 日本, \N{PILE OF POO}'
NUMBERS = (0.1, -0.0, 1e-320, 1.7976931348623157e308, math.nan, math.inf, -math.inf, 3, 1 / 3)


@pytest.fixture
def attempt(team) -> Attempt:
    host, topology, load = made.host(team), made.topology(team, "raw"), made.workload(team)
    (found,) = made.swept(made.campaign(team), host, topology, load, depths=(1,), repeats=1)
    found.measurements.all().delete()
    found.series.all().delete()
    return found


def told(number: float | None) -> str:
    """NaN is equal to itself here, and -0 is not 0."""
    return repr(number)


def test_figures_are_stored_as_they_are(attempt):
    labels = {TEXT: TEXT, "": ""}
    found = [
        Metric(f"m{n}", number, Unit.SECONDS, labels, TEXT, n, TEXT)
        for n, number in enumerate((*NUMBERS, None))
    ]
    conclusion.store_figures(attempt, artifact_figures.Figures(found, [], []))
    rows = list(attempt.measurements.order_by("pk"))
    assert [told(row.value) for row in rows] == [
        told(one.value if one.value is None else float(one.value)) for one in found
    ]
    for row, one in zip(rows, found, strict=True):
        assert (row.name, row.unit, row.labels) == (one.name, "s", labels)
        assert (row.note, row.line, row.output) == (TEXT, one.line, TEXT)
    row = rows[0]
    row.pk, row.attempt = None, attempt
    with pytest.raises(IntegrityError):
        row.save()  # the same labels, by INSERT, are the same


def test_series_are_stored_as_they_are(attempt):
    one = SeriesData(TEXT, "read.iops", Unit.OPS_PER_SECOND, NUMBERS, NUMBERS[::-1])
    none = SeriesData("", "read.iops", Unit.RATIO, (), ())
    conclusion.store_figures(
        attempt, artifact_figures.Figures([], [("diskstats", one), ("cpu", none)], [])
    )
    first, second = attempt.series.order_by("pk")
    assert (first.sampler, first.device, first.metric, first.unit) == (
        "diskstats",
        TEXT,
        "read.iops",
        "op/s",
    )
    assert [*map(told, first.times)] == [told(float(number)) for number in NUMBERS]
    assert [*map(told, first.values)] == [told(float(number)) for number in NUMBERS[::-1]]
    assert (second.sampler, second.device, second.times, second.values) == ("cpu", "", [], [])


def test_nothing_is_no_statement(attempt, django_assert_num_queries):
    with django_assert_num_queries(0):
        conclusion.store_figures(attempt, artifact_figures.Figures([], [], []))


def test_what_comes_twice_is_the_databases_error(attempt):
    rows = [(attempt.pk, "cpu", "", "idle", "1", "{1}", "{1}")] * 2
    fields = ("attempt", "sampler", "device", "metric", "unit", "times", "values")
    with pytest.raises(IntegrityError):
        strips.copy_rows(Series, fields, rows)


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_is_gone_is_the_databases_error(attempt):
    """The engine takes that for the database's trouble, and anything else for a fault of ours."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
    other.close()
    found = [Metric("m", 1.0, Unit.SECONDS)]
    with pytest.raises(OperationalError):
        conclusion.store_figures(attempt, artifact_figures.Figures(found, [], []))
    connection.close()
    assert not Measurement.objects.filter(attempt=attempt).exists()
