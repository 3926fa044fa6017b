"""The table of runs: what it shows, in which order, filtered, grouped, and what it costs."""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from itertools import pairwise
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from benchlab.pages.runs import query, views
from benchlab.results import grouped, table_pages
from benchlab.runs.models import Attempt, Measurement
from benchlab.team.models import Team
from benchlab.testing import profiles
from benchlab.web.texts import natural_key
from benchlab.web.units import si
from tests.charts import made

URL = "/runs/"


@pytest.fixture
def lab(team, user) -> list[Attempt]:
    """Two campaigns on three hosts, whose names count; one run failed, without a figure."""
    load, found = made.workload(team), []
    for number, name in enumerate(("vm-10", "vm-2", "vm-1")):
        host, campaign = made.host(team, name), made.campaign(team, f"On {name}")
        found += made.swept(
            campaign, host, made.topology(team, "raw"), load, depths=(1, 4), repeats=2, seed=number
        )
    Attempt.objects.filter(pk=found[-1].pk).update(outcome="failed", started_at=None)
    found[-1].measurements.all().delete()
    return found


def runs(answer: Any) -> list[int]:
    """Of the rows, in order."""
    assert answer.status_code == 200, answer.text
    return [int(pk) for pk in re.findall(r'name="run" value="(\d+)"', answer.text)]


def column(answer: Any, number: int) -> list[str]:
    """Texts of the cells of one column, the run's being 0."""
    body = answer.text.partition("<tbody>")[2].partition("</tbody>")[0]
    found = []
    for row in body.split("<tr>")[1:]:
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        found.append(unescape(re.sub(r"<[^>]+>", "", cells[number])).strip())
    return found


def test_every_run_newest_first(web, lab):
    assert runs(web.get(URL)) == [one.run_id for one in reversed(lab)]
    shown = web.get(URL).text
    assert "IOPS" in shown and "<script>" not in shown and " style=" not in shown


def test_figures_have_their_units(web, lab):
    answer = web.get(f"{URL}?fields=metric.iops,metric.lat.mean,outcome")
    figure = Measurement.objects.get(attempt=lab[-2], name="iops", labels={})
    assert column(answer, 1)[1] == si(figure.value, "op/s")
    assert column(answer, 1)[0] == "–" and column(answer, 3)[0] == "Failed"
    assert all(text.endswith("s") for text in column(answer, 2)[1:])


@pytest.mark.parametrize("few", [0, 5000])
def test_names_are_sorted_as_people_count(web, lab, few, monkeypatch):
    monkeypatch.setattr(table_pages, "MAX_SORTED_AT_ONCE", few)
    for word, down in (("host", False), ("-host", True)):
        found = column(web.get(f"{URL}?fields=host&ordering={word}"), 1)
        assert found == sorted(found, key=natural_key, reverse=down) and len(found) == 12
    assert column(web.get(f"{URL}?fields=host&ordering=host"), 1)[0] == "vm-1"


ORDERS = (
    "attempt", "run", "campaign", "campaign_id", "host", "topology", "workload", "source", "tool", "outstanding",
    "repeat", "stage", "number", "started_at", "ended_at", "outcome", "fingerprint", "visit", "tool_version", "point",
    "degraded", "options", "layout", "metric.iops", "metric.nothing", "param.bs", "param.iodepth",
)  # fmt: skip


@pytest.mark.draws
@pytest.mark.parametrize("few", [0, 5000])
def test_pages_follow_each_other_in_every_order(web, lab, few, monkeypatch):
    """Rows may be walked along an index, or all sorted."""
    monkeypatch.setattr(table_pages, "MAX_SORTED_AT_ONCE", few)
    for name in profiles.drawn(f"orders of {few}", ORDERS, quick=5, more=9):
        for sign in ("", "-"):
            url = f"{URL}?ordering={sign}{name}&fields=host,{name}"
            monkeypatch.setattr(views, "PAGE_SIZE", 50)
            whole = runs(web.get(url))
            assert sorted(whole) == sorted(one.run_id for one in lab)
            monkeypatch.setattr(views, "PAGE_SIZE", 5)
            assert list(stepped(web, url)) == whole, f"{sign}{name}"


def stepped(web: Any, url: str) -> Iterator[int]:
    """The runs of all pages."""
    while url:
        answer = web.get(url)
        yield from runs(answer)
        found = re.search(r'href="([^"]*)" rel="next"', answer.text)
        url = f"{URL}{unescape(found[1])}" if found else ""


@pytest.mark.parametrize("few", [0, 5000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_what_is_not_known_is_last(web, lab, sign, few, monkeypatch):
    monkeypatch.setattr(table_pages, "MAX_SORTED_AT_ONCE", few)
    for name in ("metric.iops", "started_at"):
        assert runs(web.get(f"{URL}?ordering={sign}{name}&fields={name}"))[-1] == lab[-1].run_id
    values = dict(
        Measurement.objects.filter(name="iops", labels={}).values_list("attempt__run", "value")
    )
    order = [values[pk] for pk in runs(web.get(f"{URL}?ordering={sign}metric.iops"))[:-1]]
    assert all((a >= b) if sign else (a <= b) for a, b in pairwise(order)) and len(order) == 11


@pytest.mark.parametrize("few", [0, 5000])
def test_a_value_that_is_no_number_is_last(web, lab, few, monkeypatch):
    monkeypatch.setattr(table_pages, "MAX_SORTED_AT_ONCE", few)
    Measurement.objects.filter(attempt=lab[0], name="iops", labels={}).update(value=float("nan"))
    for sign in ("", "-"):
        assert set(runs(web.get(f"{URL}?ordering={sign}metric.iops"))[-2:]) == {
            lab[0].run_id, lab[-1].run_id,
        }  # fmt: skip


CONDITIONS = (
    "host=vm-2", "host__in=vm-2,vm-1", "outstanding__gte=4", "outcome__ne=succeeded", "metric.iops__gt=1000",
    "param.bs=4k", "campaign__contains=VM-1", "started_at__isnull=true", "unit=op/s", "metric=iops", "latest=true",
)  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_page_and_the_download_have_the_same_rows(web, lab, condition):
    page = web.get(f"{URL}?{condition}&ordering=-metric.iops&fields=host,outcome,metric.iops")
    href = re.search(r'href="(/api/results/[^"]*format=csv[^"]*)"', page.text)
    if href is None:
        assert "No runs like that" in page.text
        return
    told = content(web.get(unescape(href[1]))).decode()
    rows = list(csv.DictReader(io.StringIO(told)))
    assert list(rows[0]) == ["run", "host", "outcome", "metric.iops"]
    assert [int(row["run"]) for row in rows] == runs(page)
    assert [row["host"] for row in rows] == column(page, 1)


def content(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


def test_parquet_has_the_figures_too(web, lab):
    page = web.get(f"{URL}?fields=host,metric.iops,param.bs&ordering=run")
    href = re.search(r'href="(/api/results/[^"]*format=parquet[^"]*)"', page.text)
    frame = pq.read_table(io.BytesIO(content(web.get(unescape(href[1])))))
    assert frame.column_names == ["run", "host", "metric.iops", "param.bs"]
    assert frame["run"].to_pylist() == runs(page) and frame["metric.iops"][-1].as_py() is None


def test_what_is_wrong_is_told_where_it_was_typed(web, lab):
    answer = web.get(f"{URL}?hots=vm-2&outstanding__gte=many&tool=nosuch")
    assert answer.status_code == 400 and "<tbody>" not in answer.text
    shown = unescape(answer.text)
    assert 'value="hots" aria-label="Column 1"' in shown and "No such parameter" in shown
    assert 'value="many"' in shown and "Give a number, in base units, not 'many'" in shown
    again = web.get(f"{URL}?tool=nosuch")
    assert again.status_code == 400 and "'nosuch' is not one of them" in unescape(again.text)
    for bad, said in (
        ("ordering=colour", "No such parameter"),
        ("ordering=host,run", "sorted by one column"),
        ("fields=walk", "No such parameter"),
        ("group=walk", "No such parameter"),
        ("group=started_at", "makes no groups"),
        ("group=metric.iops", "makes no groups"),
        ("group=param.nothing", "No run of yours"),
        ("group=host&group_ordering=walk", "not one of them"),
        ("group=host,tool,stage,repeat,outcome", "4 columns at most"),
        ("cursor=x", "first page"),
        ("wide=false", "Only downloads"),
    ):
        answer = web.get(f"{URL}?{bad}")
        assert answer.status_code == 400 and said in unescape(answer.text), bad


def test_a_cursor_is_of_its_order(web, lab, monkeypatch):
    monkeypatch.setattr(views, "PAGE_SIZE", 5)
    found = re.search(r'href="\?([^"]*)" rel="next"', web.get(URL).text)
    assert web.get(f"{URL}?{unescape(found[1])}&ordering=host").status_code == 400


HOSTILE = (
    "%", "_", "\\", "'; DROP TABLE runs_attempt; --", "<script>alert(1)</script>", "{}", "%s", "\0", "a" * 10_240,
    "\u202e", "NaN", "$1", "{d}",
)  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "name", ["host", "param.bs", "metric.iops__gt", "ordering", "fields", "group", "cursor"]
)
def test_nothing_that_is_typed_does_harm(web, lab, name):
    for bad in HOSTILE:
        for asked in (
            {name: bad},
            {"ordering": f"metric.{bad}", "fields": f"metric.{bad},param.{bad}"},
        ):
            answer = web.get(URL, asked)
            assert answer.status_code in (200, 400), asked
            assert "<script>alert" not in answer.text
        for asked in ({"field": bad, "value": bad}, {"field": name, "value": bad}):
            assert web.get("/runs/words/", asked).status_code == 200, asked
    assert Attempt.objects.count() == len(lab)


def test_a_wildcard_is_a_letter(web, team, lab):
    made.done_layout(
        made.campaign(team, "100% of_it"), made.host(team, "h"), made.topology(team, "raw")
    )
    for typed in ("%", "_"):
        words = web.get("/runs/words/", {"field": "campaign", "value": typed}).text
        assert re.findall('value="([^"]*)"', words) == ["100% of_it"]


def test_names_of_strangers_are_escaped(web, team, user):
    bad = "<img src=x onerror=alert(1)>"
    host = made.host(team, bad)
    made.swept(made.campaign(team, bad), host, made.topology(team, bad), made.workload(team, bad))
    for url in (
        URL,
        f"{URL}?group=host,campaign",
        f"{URL}?host__contains=img",
        "/runs/words/?field=host",
    ):
        shown = web.get(url).text
        assert "<img src=x" not in shown and "&lt;img src=x" in shown, url


@pytest.mark.parametrize("few", [0, 5000])
def test_only_what_is_ones_own(web, ours, theirs, few, monkeypatch):
    monkeypatch.setattr(table_pages, "MAX_SORTED_AT_ONCE", few)
    own = {one.run_id for one in ours.attempts}
    assert set(runs(web.get(URL))) == own
    for order in ORDERS:
        if "param" not in order:
            assert set(runs(web.get(f"{URL}?ordering={order}"))) <= own, order
    assert str(theirs.host) not in web.get(f"{URL}?group=host").text
    words = web.get("/runs/words/?field=host").text
    assert str(ours.host) in words and str(theirs.host) not in words
    asked = f"/runs/compare/?run={theirs.run.pk}"
    assert web.get(asked)["Location"] == reverse("run-list")


def test_the_library_is_there_where_it_is_asked_for(web, ours):
    library = Team.objects.create(name="Reference library", library=True)
    host = made.host(library, "article's")
    [attempt] = made.swept(
        made.campaign(library, "Article"), host, made.topology(library, "raw"), made.workload(library),
        depths=(1,), repeats=1,
    )  # fmt: skip
    assert attempt.run_id not in runs(web.get(URL))
    for order in ("-attempt", "host", "campaign", "metric.iops"):
        assert attempt.run_id in runs(web.get(f"{URL}?library=true&ordering={order}")), order


def test_nobody_has_no_runs(db, client, django_user_model):
    client.force_login(django_user_model.objects.create_user("nobody"))
    answer = client.get(URL)
    assert answer.status_code == 200 and "No runs yet" in answer.text
    assert client.get(f"{URL}?group=host").status_code == 200
    client.logout()
    assert "/login/" in client.get(URL)["Location"]


def test_the_form_makes_the_address(web, lab):
    sent = {
        "form": "1", "ordering": "-metric.iops", "field": ["host", "outstanding", ""],
        "operator": ["eq", "gte", "eq"], "value": ["vm-2", "4", ""],
        "column": ["host", "metric.iops", " param.bs , host"], "by": ["host"], "latest": "1",
    }  # fmt: skip
    answer = web.get(URL, sent)
    assert answer.status_code == 302
    assert answer["Location"] == (
        "/runs/?host=vm-2&outstanding__gte=4&latest=true&fields=host%2Cmetric.iops%2Cparam.bs&group=host"
        "&ordering=-metric.iops"
    )
    web.get(answer["Location"])
    lost = web.get(
        web.get(URL, {"form": "1", "field": "", "operator": "eq", "value": "x"})["Location"]
    )
    assert lost.status_code == 400 and 'value="x"' in lost.text
    every = {"form": "1", "ordering": query.ORDER, "column": list(query.FIELDS)}
    assert web.get(URL, every)["Location"] == "/runs/?"


def test_groups_are_recomputed_by_hand(web, lab):
    answer = web.get(f"{URL}?group=host,outstanding&fields=metric.iops")
    assert column(answer, 0) == ["vm-1"] * 2 + ["vm-2"] * 2 + ["vm-10"] * 2
    values = list(
        Measurement.objects.filter(
            attempt__run__host__name="vm-2", attempt__run__outstanding=4, name="iops", labels={}
        ).values_list("value", flat=True)
    )
    row = column(answer, 0).index("vm-2") + 1
    mean = statistics.mean(values)
    told = [column(answer, n)[row] for n in range(2, 7)]
    spread = si(100 * statistics.stdev(values) / mean, "%")
    number = f"{len(values)} runs of vm-2"
    assert told == [number, si(mean, "op/s"), si(statistics.median(values), "op/s"), spread, "2"]
    its = re.findall(r'href="(\?[^"]*latest=true[^"]*)"', answer.text)[row]
    assert len(runs(web.get(f"{URL}{unescape(its)}"))) == 2


def test_a_retried_run_counts_once_and_a_failed_one_never(web, lab):
    first = lab[0]
    again = Attempt.objects.create(
        run=first.run,
        layout=first.layout,
        number=2,
        phase="done",
        outcome="succeeded",
        started_at=timezone.now(),
    )
    Measurement.objects.create(attempt=again, name="iops", value=7e6, unit="op/s")
    answer = web.get(f"{URL}?group=host&fields=metric.iops")
    counted = {
        name: number.split()[0]
        for name, number in zip(column(answer, 0), column(answer, 1), strict=True)
    }
    assert counted == {"vm-1": "3", "vm-2": "4", "vm-10": "4"}
    assert len(runs(web.get(URL))) == 13 and len(runs(web.get(f"{URL}?latest=true"))) == 11


def test_groups_are_sorted_by_their_heads(web, lab):
    for word in ("host", "count", "metric.iops"):
        for sign in ("", "-"):
            answer = web.get(f"{URL}?group=host&fields=metric.iops&group_ordering={sign}{word}")
            assert len(column(answer, 0)) == 3
            assert f'aria-sort="{"descending" if sign else "ascending"}"' in answer.text
    first = column(web.get(f"{URL}?group=host&group_ordering=-count"), 0)
    assert first[-1] == "vm-1"


def test_several_units_are_not_averaged(web, lab):
    Measurement.objects.filter(attempt=lab[0], name="iops", labels={}).update(unit="s")
    assert "several units" in column(web.get(f"{URL}?group=tool&fields=metric.iops"), 2)


def test_more_than_can_be_grouped_or_sorted_is_said(web, lab, monkeypatch):
    monkeypatch.setattr(grouped, "MAX_ATTEMPTS", 5)
    monkeypatch.setattr(table_pages, "MAX_SORTED", 5)
    for bad in ("group=host", "ordering=visit"):
        answer = web.get(f"{URL}?{bad}")
        assert answer.status_code == 400 and "filter, so that fewer are left" in answer.text
    assert web.get(f"{URL}?host=vm-2&group=host&ordering=visit").status_code == 200


def test_selected_runs_are_compared(web, lab):
    answer = web.get(f"/runs/compare/?run={lab[0].run_id}&run={lab[4].run_id}&run=x")
    run, other = lab[0].run, lab[4].run
    for name, one in (("campaign", run), ("campaign", other), ("host", run), ("host", other)):
        assert f"{name}={getattr(one, f'{name}_id')}" in answer["Location"]
    assert "stage=built" in answer["Location"]
    assert web.get(answer["Location"]).status_code == 200
    assert "Select the runs" in web.get("/runs/compare/", follow=True).text


def test_words_that_may_be_typed(web, lab):
    def words(**asked: str) -> list[str]:
        return re.findall('value="([^"]*)"', web.get("/runs/words/", asked).text)

    assert words(field="host") == ["vm-1", "vm-10", "vm-2"]
    assert words(field="host", value="VM-1") == ["vm-1", "vm-10"]
    assert "succeeded" in words(field="outcome") and "fio" in words(field="tool")
    assert words(field="param.bs") == ["4k"] and words(field="outstanding") == ["1", "4"]
    assert "iops" in words(field="metric")
    assert words(field="nothing") == words(field="metric.iops") == words(field="") == []
    names = re.search(r'<datalist id="run-fields">(.*?)</datalist>', web.get(URL).text, re.DOTALL)
    assert all(f'value="{one}"' in names[1] for one in ("host", "oio", "metric.iops", "param.bs"))


# Sessions, users, teams and roles are 6 of them, what may be typed 3. Who adds one says why.
COSTS = {
    "": 11,
    "?ordering=-metric.iops": 12,
    "?ordering=host": 11,
    "?host=vm-2&param.bs=4k&fields=param.bs,metric.iops": 14,
    "?group=host&fields=metric.iops": 10,
}


@pytest.mark.parametrize("address", COSTS)
def test_a_page_costs_the_same_for_many_runs(web, team, lab, address):
    few = cost(web, URL + address)
    host, campaign = made.host(team, "more"), made.campaign(team, "More")
    made.swept(
        campaign, host, made.topology(team, "bcache"), made.workload(team), depths=(1, 2, 4, 8)
    )
    assert cost(web, URL + address) == few <= COSTS[address]


def cost(web: Any, url: str) -> int:
    web.get(url)
    with CaptureQueriesContext(connection) as asked:
        assert web.get(url).status_code == 200
    return len(asked)


def test_times_are_utc(web, lab):
    at = timezone.now().replace(microsecond=0) - timedelta(days=3)
    Attempt.objects.filter(pk=lab[0].pk).update(started_at=at)
    assert column(web.get(f"{URL}?fields=started_at&ordering=run"), 1)[0] == f"{at:%Y-%m-%d %H:%M}"
