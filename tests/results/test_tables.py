"""The long tables: every format says the same, filters find what they say, and nothing of another team is in them."""

from __future__ import annotations

import csv
import io
import json
import math

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from benchlab.campaigns.models import Run
from benchlab.runs.models import Attempt, Measurement, Series
from benchlab.team.models import Team
from tests.api.conftest import everything, is_problem
from tests.charts import made

URL, SERIES = "/api/results/", "/api/series-table/"


def body(answer) -> bytes:
    assert answer.status_code == 200, answer.content
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


def rows(api, query: str = "", url: str = URL) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(body(api.get(f"{url}?{query}")).decode())))


def read(api, form: str, query: str = "", url: str = URL) -> pd.DataFrame:
    raw = body(api.get(f"{url}?format={form}&{query}"))
    if form == "csv":
        return pd.read_csv(io.BytesIO(raw), keep_default_na=False, na_values=["NaN"])  # fmt: skip
    if form == "json":
        return pd.DataFrame(json.loads(raw)["data"])
    if form == "arrow":
        return pa.ipc.open_stream(raw).read_all().to_pandas()
    return pd.read_parquet(io.BytesIO(raw))


@pytest.mark.parametrize("url", [URL, SERIES])
def test_every_format_says_the_same(api, ours, url):
    frames = {form: read(api, form, "", url) for form in ("csv", "parquet", "arrow", "json")}
    first = frames.pop("csv")
    assert len(first) > 4
    for frame in frames.values():
        assert list(frame.columns) == list(first.columns)
        for column in first.columns:
            if column == "started_at":
                frame[column] = pd.to_datetime(frame[column], utc=True)
                first[column] = pd.to_datetime(first[column], utc=True)
            pd.testing.assert_series_equal(
                frame[column], first[column], check_exact=True, check_dtype=False
            )


def test_a_row_has_all_that_a_notebook_wants(api, ours):
    attempt = ours.attempts[0]
    found = attempt.measurements.order_by("pk").first()
    row = next(
        r for r in rows(api) if r["attempt"] == str(attempt.pk) and r["metric"] == found.name
    )
    assert float(row["value"]) == found.value and row["unit"] == found.unit
    assert row["campaign"] == ours.campaign.name and row["host"] == ours.host.name
    assert row["topology"] == "raw" and row["outcome"] == "succeeded" and row["source"] == ""
    assert row["point"] == '{"iodepth": 1}' and row["labels"] == "{}" and row["outstanding"] == "1"
    assert row["started_at"].endswith("Z")
    assert len(rows(api)) == Measurement.objects.count()


def test_nothing_of_another_team(api, other_api, ours, theirs):
    for url in (URL, SERIES):
        mine = {row["attempt"] for row in rows(api, "", url)}
        other = {row["attempt"] for row in rows(other_api, "", url)}
        assert mine and other and not mine & other
        assert not rows(api, f"campaign={theirs.campaign.pk}&library=true", url)
        assert not rows(api, "param.iodepth=4&campaign_id=" + str(theirs.campaign.pk), url)
    for form in ("json", "arrow", "parquet"):
        assert set(map(str, read(api, form)["attempt"])).isdisjoint(other)
        assert set(map(str, read(api, form, "", SERIES)["attempt"])).isdisjoint(other)


def test_the_library_when_it_is_asked_for_or_named(api, ours):
    """By id, or by a name that the person's own campaigns do not have: those are never pooled with the library's."""
    shared = everything(Team.objects.create(name="Library", library=True))
    theirs = {str(one.pk) for one in shared.attempts}
    assert not {row["attempt"] for row in rows(api)} & theirs
    assert {row["attempt"] for row in rows(api, "library=true")} > theirs
    named = (f"campaign={shared.campaign.pk}", f"campaign_id={shared.campaign.pk}", f"run={shared.run.pk}",
             f"attempt={shared.attempts[0].pk}")  # fmt: skip
    for query in named:
        for table in (URL, SERIES):
            assert {row["attempt"] for row in rows(api, query, table)} <= theirs
        assert rows(api, query)
    assert shared.campaign.name == ours.campaign.name
    assert not {row["attempt"] for row in rows(api, f"campaign={ours.campaign.name}")} & theirs
    shared.campaign.name = "only there"
    shared.campaign.save()
    assert {row["attempt"] for row in rows(api, "campaign=only there")} == theirs


def test_what_is_there_without_a_result_finds_nothing(api, ours):
    made.topology(ours.team, "unused")
    assert rows(api, "topology=unused") == []
    assert rows(api, "metric=iopz*") == [] and rows(api, f"topology={2**60}") == []
    Measurement.objects.all().delete()
    assert rows(api, "metric=iops&metric=write.lat.p99") == []
    assert (
        "there are iops, " in is_problem(api.get(f"{URL}?metric=iopz"), 400)["errors"]["metric"][0]
    )


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("topology=raw", lambda r: True),
        ("oio__gte=4", lambda r: int(r["outstanding"]) >= 4),
        ("outstanding__lt=4", lambda r: int(r["outstanding"]) < 4),
        ("outstanding__in=1,7", lambda r: r["outstanding"] == "1"),
        ("outstanding__ne=1", lambda r: r["outstanding"] != "1"),
        ("outstanding__isnull=true", lambda r: False),
        ("metric=iops", lambda r: r["metric"] == "iops"),
        ("metric=*lat*", lambda r: "lat" in r["metric"]),
        ("metric=iops&metric=bandwidth", lambda r: r["metric"] in ("iops", "bandwidth")),
        ("metric__contains=LAT", lambda r: "lat" in r["metric"]),
        ("metric__ne=iops", lambda r: r["metric"] != "iops"),
        ("param.iodepth=4", lambda r: r["outstanding"] == "4"),
        ("param.iodepth=4.0", lambda r: r["outstanding"] == "4"),
        ("param.iodepth__gt=1", lambda r: r["outstanding"] == "4"),
        ("param.iodepth__in=1,2", lambda r: r["outstanding"] == "1"),
        ("value__gt=1000", lambda r: float(r["value"]) > 1000),
        ("tool=fio&tool__ne=dd", lambda r: True),
        ("workload__contains=RAND", lambda r: True),
        ("started_at__lt=2001-01-01", lambda r: False),
        ("labels={}", lambda r: r["labels"] == "{}"),
        ("stage=", lambda r: True),
        ("scheduler=", lambda r: True),
        ("scheduler__in=none,mq-deadline", lambda r: False),
    ],
)  # fmt: skip
def test_a_filter_finds_what_it_says(api, ours, query, holds):
    every = rows(api)
    found = rows(api, query)
    assert found == [row for row in every if holds(row)]


def test_a_filter_finds_the_scheduler_that_was_asked_for(api, ours):
    Run.objects.filter(pk=ours.run.pk).update(scheduler="kyber")
    found = rows(api, "scheduler=kyber&fields=run,scheduler")
    assert {(row["run"], row["scheduler"]) for row in found} == {(str(ours.run.pk), "kyber")}
    assert not rows(api, f"scheduler__ne=kyber&run={ours.run.pk}")


def test_by_id_or_name_and_by_a_metric_of_the_attempt(api, ours):
    for query in (f"campaign={ours.campaign.pk}", f"host={ours.host.pk}", f"run={ours.run.pk}"):
        assert rows(api, query)
    fast = max(ours.attempts, key=lambda a: a.measurements.get(name="iops", labels={}).value)
    floor = fast.measurements.get(name="iops", labels={}).value
    found = rows(api, f"metric.iops__gte={floor}&metric=lat*")
    assert {row["attempt"] for row in found} == {str(fast.pk)}
    assert {row["metric"] for row in found} >= {"lat.mean"}
    assert not rows(api, "metric.iops__isnull=true") and rows(api, "metric.iops__isnull=false")


@pytest.mark.parametrize(
    ("query", "name", "said"),
    [
        ("topolgy=raw", "topolgy", "there are campaign"),
        ("value__above=3", "value__above", "gte"),
        ("value__gt=many", "value__gt", "'many'"),
        ("tool__gt=fio", "tool__gt", "text"),
        ("value__contains=3", "value__contains", "number"),
        ("param.iodpeth=4", "param.iodpeth", "No run of yours"),
        ("param.a'b=4", "param.a'b", "letters"),
        ("started_at__gt=yesterday", "started_at__gt", "2026"),
        ("run=99999999999999999999", "run", "whole number"),
        ("fields=run,walk", "fields", "there are"),
        ("fields=", "fields", "Name 1 to"),
        ("ordering=-colour", "ordering", "there are"),
        ("limit=0", "limit", "from 1"),
        ("library=perhaps", "library", "true or false"),
        ("format=xls", "format", "parquet"),
        ("wide=true&fields=metric", "fields", "one row per attempt"),
        ("tool=a%00b", "tool", "NUL"),
        ("metric=iopz", "metric", "'iopz' is not one of them; there are "),
        ("name__in=iops,iopz", "metric__in", "'iopz'"),
        ("campaign=nope", "campaign", "'nope' is not one of them; there are "),
        ("topology=nope", "topology", "raw"),
        ("topology__ne=nope", "topology__ne", "raw"),
        ("host=nope", "host", "'nope'"),
        ("workload=nope", "workload", "'nope'"),
        ("tool=foi", "tool", "'foi' is not one of them; there are bonnie,"),
        ("tool__in=fio,foi", "tool__in", "'foi'"),
        ("outcome=succeded", "outcome", "succeeded"),
        ("source=impotred", "source", "imported, library"),
        ("unit=ms", "unit", "B/s"),
        ("stage=after", "stage", "after-1"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(api, ours, query, name, said):
    problem = is_problem(api.get(f"{URL}?{query}"), 400)
    assert list(problem["errors"]) == [name] and said in problem["errors"][name][0]


def test_columns_order_and_number_as_asked(api, ours):
    found = rows(api, "fields=param.iodepth,metric,value&ordering=-value&limit=3")
    assert [list(row) for row in found] == [["param.iodepth", "metric", "value"]] * 3
    every = sorted((float(row["value"]) for row in rows(api)), reverse=True)
    assert [float(row["value"]) for row in found] == every[:3]
    frame = read(api, "parquet", "fields=param.iodepth,param.bs")
    assert frame["param.iodepth"].dtype == "float64" and set(frame["param.bs"]) == {"4k"}


def test_wide_is_a_row_per_attempt(api, ours):
    frame = read(api, "arrow", "wide=true&metric=iops&metric=lat.mean&fields=attempt,outstanding")
    assert list(frame.columns) == ["attempt", "outstanding", "iops", "lat.mean"]
    for attempt in ours.attempts:
        row = frame[frame.attempt == attempt.pk].iloc[0]
        assert row["iops"] == attempt.measurements.get(name="iops", labels={}).value
    Measurement.objects.create(
        attempt=ours.attempts[0], name="iops", value=1, unit="1", labels={"job": "2"}
    )
    Measurement.objects.create(attempt=ours.attempts[1], name="odd", value=1, unit="1")
    Measurement.objects.create(attempt=ours.attempts[0], name="odd", value=2, unit="s")
    told = api.get(f"{URL}?wide=true&format=json&fields=attempt").json()
    units = {c["name"]: c["unit"] for c in told["columns"]}
    assert units["odd (1)"] == "1" and units["odd (s)"] == "s" and units["iops"] == "op/s"
    assert len(told["data"]["attempt"]) == told["rows"] == len(ours.attempts)


def test_only_the_latest_that_succeeded(api, ours):
    first = ours.attempts[0]
    again = Attempt.objects.create(
        run=first.run, layout=first.layout, number=2, phase="done", outcome="succeeded"
    )
    Measurement.objects.create(attempt=again, name="iops", value=7, unit="op/s")
    failed = Attempt.objects.create(
        run=first.run, layout=first.layout, number=3, phase="done", outcome="failed"
    )
    Measurement.objects.create(attempt=failed, name="iops", value=8, unit="op/s")
    found = rows(api, f"latest=true&metric=iops&run={first.run_id}")
    assert [row["value"] for row in found] == ["7"]


def test_a_host_that_writes_formulas(api, ours):
    """In CSV they are text; in formats that no spreadsheet runs, they stay as they were."""
    evil = '=HYPERLINK("http://evil","x")'
    ours.host.name = "-1+1"
    ours.host.save()
    Measurement.objects.create(
        attempt=ours.attempts[0], name=evil, value=-1, unit="1", note="@SUM(1)\nx"
    )
    raw = body(api.get(f"{URL}?metric__contains=HYPER")).decode()
    (row,) = csv.DictReader(io.StringIO(raw))
    assert row["metric"] == f"'{evil}" and row["host"] == "'-1+1" and row["note"] == "'@SUM(1)\nx"
    assert row["value"] == "-1"
    wide = body(api.get(f"{URL}?wide=true&metric__contains=HYPER")).decode()
    assert wide.splitlines()[0].endswith('"\'=HYPERLINK(""http://evil"",""x"")"')
    frame = read(api, "parquet", "metric__contains=HYPER")
    assert frame.iloc[0][["metric", "host", "note"]].tolist() == [evil, "-1+1", "@SUM(1)\nx"]


def test_an_empty_table_has_its_columns(api, ours):
    for form in ("csv", "json", "arrow", "parquet"):
        frame = read(api, form, "value__gt=1e300")
        assert len(frame) == 0 and "value" in frame.columns, form


def test_by_accept_and_by_head(api, ours):
    kind = "application/vnd.apache.parquet"
    assert api.get(URL)["Content-Type"] == "text/csv"
    answer = api.get(URL, headers={"Accept": kind})
    assert answer["Content-Type"] == kind and answer["Content-Disposition"].endswith(
        'results.parquet"'
    )
    told = api.head(f"{URL}?format=arrow")
    assert told.status_code == 200 and "Content-Length" not in told  # DuckDB would read nothing
    assert api.get(f"{URL}?format=arrow")["Accept-Ranges"] == "none"
    is_problem(api.get(URL, headers={"Accept": "image/png"}), 406)


def test_a_short_answer_is_not_sent_twice(api, ours):
    first = api.get(URL)
    assert (
        first["ETag"] and api.get(URL, headers={"If-None-Match": first["ETag"]}).status_code == 304
    )
    ours.attempts[0].measurements.filter(name="iops").update(value=5)
    assert api.get(URL, headers={"If-None-Match": first["ETag"]}).status_code == 200


def test_a_long_answer_comes_in_parts(api, ours):
    Measurement.objects.bulk_create(
        Measurement(attempt=ours.attempts[0], name=f"m{n}", value=n, unit="1", note="x" * 900)
        for n in range(1500)
    )
    answer = api.get(URL)
    parts = list(answer.streaming_content)
    assert len(parts) > 3 and "ETag" not in answer
    assert len(list(csv.DictReader(io.StringIO(b"".join(parts).decode())))) == len(
        read(api, "parquet")
    )


def test_series_as_csv_by_either_way(api, ours):
    """Whole series are written by PostgreSQL in one piece; with a condition on the values, row by row."""
    evil = '=a"b,\nc'
    Series.objects.create(attempt=ours.attempts[0], sampler="x", device=evil, metric="m", unit="s",
                          times=[1.0, 2.5], values=[math.nan, -1e-9])  # fmt: skip
    Series.objects.create(
        attempt=ours.attempts[0], sampler="y", metric="m", unit="s", times=[], values=[]
    )
    fields = "fields=value,device,outstanding,campaign,time,started_at,attempt,param.bs,unit"
    whole = rows(api, fields, SERIES)
    assert whole == rows(api, f"{fields}&limit=1000000", SERIES)
    assert [row["device"] for row in whole].count(f"'{evil}") == 2
    assert rows(api, "fields=time,value", SERIES) == [
        {name: row[name] for name in ("time", "value")} for row in whole
    ]
