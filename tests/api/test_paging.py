"""Long lists: counted and numbered so far, then by cursor; in every order read by an index, never sorted as a whole."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
from django.db import connection

from benchlab.rest import measurements as runs_api
from benchlab.rest.urls import router
from benchlab.runs.models import Measurement
from benchlab.web import paging
from benchlab.web.api import FiniteFloatListField
from benchlab.web.filters import order_column
from tests.api.conftest import is_problem
from tests.api.test_lists import walked
from tests.charts import made

# Of which there are many: those of runs. The others are as many as people make.
LONG = ("runs", "attempts", "measurements", "series", "artifacts", "steps", "transitions")
URL = "/api/measurements/?page_size=2"


@pytest.fixture
def short(monkeypatch, ours):
    """As if four rows were many."""
    monkeypatch.setattr(paging, "MAX_NUMBERED_ROWS", 4)
    monkeypatch.setattr(paging, "MAX_COUNTED_ROWS", 6)
    attempt = ours.attempts[0]
    for n in range(9):
        attempt.measurements.create(name=f"m{n}", value=n if n % 3 else None, unit="s")
    return attempt


def test_a_count_goes_so_far(api, short):
    assert api.get(URL).json()["count"] is None
    few = api.get(f"{URL}&name=m1").json()
    assert (few["count"], few["next"], few["previous"]) == (1, None, None)


@pytest.mark.parametrize("few", [0, 5000])
@pytest.mark.parametrize("order", ["attempt", "-attempt"])
def test_attempts_are_named_only_where_they_are_few(api, ours, theirs, monkeypatch, order, few):
    monkeypatch.setattr(runs_api, "MAX_LISTED_ATTEMPTS", few)
    told = api.get(f"/api/measurements/?ordering={order}&page_size=1000").json()["results"]
    rows = Measurement.objects.filter(attempt__in=ours.attempts)
    tie = "-pk" if order.startswith("-") else "pk"
    assert [row["id"] for row in told] == list(
        rows.order_by(order.replace("attempt", "attempt_id"), tie).values_list("pk", flat=True)
    )


@pytest.mark.parametrize("order", ["", "&ordering=value", "&ordering=-value", "&ordering=-name"])
def test_who_follows_next_sees_every_row_once(api, short, order):
    found: list[int] = []
    url = f"{URL}{order}"
    while url:
        told = api.get(url).json()
        found += [row["id"] for row in told["results"]]
        url = told["next"]
    assert sorted(found) == sorted(Measurement.objects.values_list("pk", flat=True))
    assert found == walked(api, f"{URL}{order}&cursor=")


def test_pages_by_number_end(api, short):
    assert api.get(f"{URL}&page=2").json()["previous"] == f"http://testserver{URL}"
    assert "cursor" in is_problem(api.get(f"{URL}&page=3"), 400)["errors"]["page"][0]
    for bad in ("0", "-1", "last", "²", ""):
        is_problem(api.get(f"{URL}&page={bad}"), 404)


def test_a_small_teams_rows_are_found_beside_a_large_ones(api, other_api, ours, theirs):
    mine = api.get("/api/measurements/?ordering=-value").json()["results"]
    other = other_api.get("/api/measurements/?ordering=-value").json()["results"]
    assert mine and other and not {one["id"] for one in mine} & {one["id"] for one in other}


VIEWS = {name: view for name, view, _ in cast("list[tuple[str, Any, str]]", router.registry)}
ORDERS = [(n, sign + f) for n in LONG for f in VIEWS[n].ordering_fields for sign in ("", "-")]


@pytest.mark.parametrize(("noun", "order"), ORDERS)
def test_every_order_of_a_long_list_has_its_index(api, ours, noun, order):
    """With all other ways forbidden PostgreSQL still sorts when it must, and then says so."""
    tie = "-id" if order.startswith("-") else "id"
    terms = [order] if order == tie else [order, tie]
    every = VIEWS[noun].queryset.model.objects.all()
    rows = every.order_by(*(order_column(every, term) for term in terms))[:51]
    with connection.cursor() as cursor:
        for way in ("seqscan", "sort", "bitmapscan"):
            cursor.execute(f"SET LOCAL enable_{way} = off")
    plan = rows.explain()
    steps = [line.strip().removeprefix("->").strip() for line in plan.splitlines()]
    assert "Index" in plan and not any(step.startswith("Sort  (") for step in steps), plan


def test_unknown_figures_are_null():
    told = FiniteFloatListField().to_representation
    assert told([1.0, math.nan, math.inf, None]) == [1.0, None, None, None]
    assert told([1e308, 1e308]) == [1e308, 1e308]


def test_rows_are_ordered_by_the_id_of_what_they_belong_to(api, ours, team):
    made.swept(made.campaign(team, "again"), ours.host, ours.topology, ours.workload, depths=(1,))
    for sign in (1, -1):
        order = "campaign" if sign > 0 else "-campaign"
        told = api.get(f"/api/runs/?ordering={order}").json()["results"]
        found = [sign * one["campaign"] for one in told]
        assert found == sorted(found) and len(set(found)) == 2


@pytest.mark.parametrize("gone", [1, 2])
@pytest.mark.parametrize("order", ["", "&ordering=value"])
def test_a_row_that_goes_between_two_looks_ends_no_walk(api, short, monkeypatch, order, gone):
    """Keys are read first, then rows; of two on a page, the last or the one behind it is deleted in between."""
    whole = api.get(f"/api/measurements/?page_size=1000{order}").json()["results"]
    every = [row["id"] for row in whole]
    looked = paging.KeysFirstPagination.load_rows

    def deleted(self, queryset, found):
        Measurement.objects.filter(pk=every[gone]).delete()
        return looked(self, queryset, found)

    monkeypatch.setattr(paging.KeysFirstPagination, "load_rows", deleted)
    first = api.get(f"{URL}&cursor={order}").json()
    monkeypatch.undo()
    seen = [row["id"] for row in first["results"]] + walked(api, first["next"])
    assert seen == [one for one in every if one != every[gone]]
