"""Explore's split view: two metrics of the same lines side by side, on one axis across; recomputed by hand."""

from __future__ import annotations

import re
from html import unescape
from statistics import median

import pytest
from django.http import QueryDict
from django.urls import reverse

from benchlab.charts.explore import factors
from benchlab.runs.models import Measurement
from tests.charts import made
from tests.charts.test_explore import SIX_DIGITS, opened, stored

__all__ = ["opened"]

pytestmark = pytest.mark.django_db
SPLIT = "x=outstanding&y=iops&beside=lat.mean"


def traces(figure: dict, panel: str) -> dict[str, dict]:
    """By the line's name, of the panel with that y axis."""
    return {
        one["name"]: one
        for one in figure["data"]
        if "name" in one and one.get("yaxis", "y") == panel
    }


def test_both_panels_hold_the_medians_over_one_axis(opened, lab):
    figure = opened(SPLIT, "explore-figure").json()
    layout = figure["layout"]
    for panel, metric in (("y", "iops"), ("y2", "lat.mean")):
        for stack in lab.stacks:
            drawn = traces(figure, panel)[stack.name]
            wanted = [median(stored(lab, stack, metric, depth)) for depth in (1, 4, 16)]
            assert drawn["x"] == [1.0, 4.0, 16.0]
            assert drawn["y"] == pytest.approx(wanted, rel=SIX_DIGITS)
    assert layout["xaxis2"]["matches"] == "x" and "matches" not in layout["yaxis2"]
    assert layout["xaxis"]["domain"][1] < layout["xaxis2"]["domain"][0]
    headings = [one["text"] for one in layout["annotations"]]
    assert headings == ["<b>IOPS</b> op/s", "<b>Total latency, mean</b> s"]
    told = [one["name"] for one in figure["data"] if one.get("name") and one["showlegend"]]
    assert told == [stack.name for stack in sorted(lab.stacks, key=lambda one: one.name)]


def test_with_facets_each_has_a_row_of_two_and_scales_are_by_metric(opened, lab):
    figure = opened(f"{SPLIT}&facet=line", "explore-figure").json()
    layout = figure["layout"]
    assert [layout[f"yaxis{n}"].get("matches") for n in (2, 3, 4)] == [None, "y", "y2"]
    assert {name for n in (3, 4) for name in traces(figure, f"y{n}")} == {"raw"}


def test_tables_have_both(opened, lab):
    page = opened(SPLIT)
    heads, rows = page.context["number_heads"], page.context["numbers"]
    assert heads == ["Outstanding I/Os", "IOPS", "Total latency, mean"]
    raw = next(row for row in rows if row.label == "raw" and row.at == ("16",))
    wanted = median(stored(lab, lab.stacks[1], "lat.mean", 16))
    number, unit = re.match(r"([\d.]+)\s(\w+)", raw.cells[1]).groups()
    assert float(number) * {"ms": 1e-3, "µs": 1e-6}[unit] == pytest.approx(wanted, rel=5e-3)
    legend = page.context["legend"]
    assert [head.more for head in legend.heads].count("Total latency, mean") == 4
    order = [row.label for row in opened(f"{SPLIT}&sort=-beside.max").context["legend"].rows]
    assert sorted(order) == ["LVM 64 KiB", "raw"]


def test_hiding_and_the_baseline_count_for_both(opened, lab):
    lines = opened(SPLIT).context["scene"].lines
    hidden = opened(f"{SPLIT}&hide={lines[0].id}", "explore-figure").json()
    assert {one["name"] for one in hidden["data"] if "name" in one} == {"raw"}
    ratio = opened(f"{SPLIT}&baseline={lines[1].id}&ratio=1", "explore-figure").json()
    one, two = (median(stored(lab, stack, "lat.mean", 16)) for stack in lab.stacks)
    assert traces(ratio, "y2")["LVM 64 KiB"]["y"][-1] == pytest.approx(one / two, rel=SIX_DIGITS)


def without_iops(stack) -> None:
    Measurement.objects.filter(attempt__run__topology=stack, name="iops").delete()


@pytest.mark.parametrize("metrics", [("iops", "lat.mean"), ("lat.mean", "iops")])
def test_a_line_that_has_one_metric_alone_is_in_its_panel_and_both_tables(opened, lab, metrics):
    """Measured deeper than the others, too: the axis has that depth."""
    [first, raw] = lab.stacks
    made.finished(lab.campaign, raw.layouts.first(), lab.load, 64, 1, 1000.0)
    without_iops(raw)
    query = "x=outstanding&y={}&beside={}".format(*metrics)
    figure = opened(query, "explore-figure").json()
    has, lacks = ("y2", "y") if metrics[0] == "iops" else ("y", "y2")
    drawn = traces(figure, has)["raw"]
    wanted = [median(stored(lab, raw, "lat.mean", depth)) for depth in (1, 4, 16, 64)]
    assert drawn["y"] == pytest.approx(wanted, rel=SIX_DIGITS)
    assert traces(figure, lacks)["raw"]["y"] == []
    assert figure["layout"]["xaxis"]["tickvals"] == [1, 4, 16, 64]
    told = [one for one in figure["data"] if one.get("name") and one["showlegend"]]
    assert sorted(one["name"] for one in told) == [first.name, "raw"]
    looks = {one["name"]: one["line"]["color"] for one in told}
    assert traces(figure, has)["raw"]["line"]["color"] == looks["raw"] != looks[first.name]
    page = opened(query)
    row = next(one for one in page.context["legend"].rows if one.label == "raw")
    assert row.cells[0] == "10" and row.cells.count("–") == 4
    numbers = [one for one in page.context["numbers"] if one.label == "raw"]
    assert [one.at for one in numbers] == [("1",), ("4",), ("16",), ("64",)]
    assert {one.cells[metrics.index("iops")] for one in numbers} == {"–"}
    assert "–" not in {one.cells[metrics.index("lat.mean")] for one in numbers}
    assert [len(one.runs) for one in numbers] == [3, 3, 3, 1]
    csv = b"".join(opened(query, "explore-csv")).decode()
    assert sum("raw" in line for line in csv.splitlines()) == 10


def test_by_itself_and_as_a_ratio_such_a_line_has_a_panel_with_nothing(opened, lab):
    without_iops(lab.stacks[1])
    each = opened(f"{SPLIT}&facet=line", "explore-figure").json()
    assert traces(each, "y3")["raw"]["y"] == [] and len(traces(each, "y4")["raw"]["y"]) == 3
    raw = next(line for line in opened(SPLIT).context["scene"].lines if line.label == "raw")
    ratio = opened(f"{SPLIT}&baseline={raw.id}&ratio=1", "explore-figure").json()
    assert traces(ratio, "y2")["raw"]["y"] == [1.0, 1.0, 1.0]


def test_the_title_row_splits_and_joins_again(opened, lab):
    page = opened("y=iops")
    words, url = page.context["beside"]
    assert words == "Split view" and "beside=" in url
    split = opened(url.partition("?")[2].partition("&")[2])
    assert split.context["beside"][0] == "One metric"
    assert " and " in split.context["chart"].heading
    head = split.text.partition('class="head-tools"')[2].partition("</div>")[0]
    assert "One metric" in head
    joined = split.context["beside"][1]
    assert "beside" not in joined


def test_it_is_kept_in_a_saved_view(opened, web, lab):
    kept = unescape(re.search(r'name="query" value="([^"]*)"', opened(SPLIT).text)[1])
    assert (
        kept.endswith(SPLIT)
        and factors.parse_explore_query(QueryDict(kept)).axes["beside"] == "lat.mean"
    )


@pytest.mark.parametrize("beside", ["topology", "none of it", "outstanding"])
def test_what_is_no_metric_is_refused_by_name(web, beside):
    answer = web.get(reverse("explore"), {"beside": beside})
    assert answer.status_code == 400 and "beside:" in unescape(answer.text)


@pytest.mark.parametrize("query", ["y=topology&colour=iops", "y=lat.mean", "x=rank&y=lat.ranks"])
def test_where_it_says_nothing_more_there_is_one_panel(opened, query):
    """A heat map, the same metric twice, percentiles."""
    assert "yaxis2" not in opened(f"{query}&beside=lat.mean", "explore-figure").json()["layout"]


def test_it_costs_no_query_more(opened, lab, django_assert_max_num_queries):
    made.swept(lab.campaign, lab.host, made.topology(lab.team, "t"), lab.load)
    opened()
    with django_assert_max_num_queries(14):
        opened(f"{SPLIT}&where=oio+<=+16")
