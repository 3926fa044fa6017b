"""Explore, the page: each number is in the measurements; what it offers, keeps and refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from statistics import median

import pytest
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.urls import reverse

from benchlab.campaigns.models import Campaign
from benchlab.charts.explore import factors, lines
from benchlab.imports import reference_library
from benchlab.imports.reference_library import articles
from benchlab.runs.models import Measurement
from benchlab.sharing import links
from tests.charts import made

SIX_DIGITS = 5.1e-6  # what a figure tells of a number


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("x=no%20such", "x: 'no such' is neither"),
        ("dash=iops", "dash: 'iops' is neither"),
        ("y=one.*.ops", "y: 'one.*.ops' is neither"),
        ("hide=zz", "hide: 'zz' is no line's id"),
        ("sort=colour", "sort: 'colour' is none of"),
        ("logx=yes", "logx: 'yes' is neither 0 nor 1"),
        ("where=" + "a" * 300, "is longer than 200"),
        ("&".join(f"where=a{n}" for n in range(20)), "at most 12"),
        ("campaign=x", "campaign: 'x' is no id"),
    ],
)
@pytest.mark.django_db
def test_a_wrong_word_is_refused_by_name(web, query, says):
    for name in ("explore", "explore-figure", "explore-csv"):
        answer = web.get(f"{reverse(name)}?{query}")
        assert answer.status_code == 400
        assert says in answer.content.decode().replace("&#x27;", "'"), name


def test_an_address_is_kept_in_one_order():
    asked = "hide=bbbbbbbbbb&y=iops&x=outstanding&logx=0&logx=1&hide=aaaaaaaaaa&where=oio%20%20<=%204&junk=1&ratio=1"
    found = factors.parse_explore_query(QueryDict(asked))
    kept = found.query_string()
    assert kept == (
        "x=outstanding&y=iops&where=oio+%3C%3D+4&logx=1&logy=0&ratio=1&hide=aaaaaaaaaa&hide=bbbbbbbbbb"
    )
    assert factors.parse_explore_query(QueryDict(kept)) == found
    assert factors.is_explore_query(QueryDict(kept))
    assert not factors.is_explore_query(QueryDict("campaign=1&stage=built"))


@pytest.fixture
def opened(web, lab):
    def asked(query: str = "", name: str = "explore"):
        answer = web.get(f"{reverse(name)}?campaign={lab.campaign.pk}&{query}")
        assert answer.status_code == 200, answer.content
        return answer

    return asked


def stored(lab, topology, name: str, depth: int) -> list[float]:
    return list(
        Measurement.objects.filter(
            attempt__run__topology=topology,
            attempt__run__campaign=lab.campaign,
            attempt__run__outstanding=depth,
            name=name,
        ).values_list("value", flat=True)
    )


@pytest.mark.django_db
def test_each_number_of_the_figure_is_in_the_measurements(opened, lab):
    data = opened(name="explore-figure").json()["data"]
    medians = [trace for trace in data if trace.get("mode") == "lines+markers"]
    for trace, stack in zip(medians, sorted(lab.stacks, key=lambda one: one.name), strict=True):
        assert trace["name"] == stack.name
        assert trace["x"] == [1.0, 4.0, 16.0]
        wanted = [median(stored(lab, stack, "iops", int(d))) for d in trace["x"]]
        assert trace["y"] == pytest.approx(wanted, rel=SIX_DIGITS)
    both = opened("x=iops&y=lat.mean", "explore-figure").json()["data"]
    for trace, stack in zip(both, sorted(lab.stacks, key=lambda one: one.name), strict=True):
        for letter, metric in (("x", "iops"), ("y", "lat.mean")):
            wanted = [median(stored(lab, stack, metric, d)) for d in (1, 4, 16)]
            assert trace[letter] == pytest.approx(wanted, rel=SIX_DIGITS)


@pytest.mark.django_db
def test_the_legend_tells_each_line_hides_and_isolates_it(opened, lab):
    legend = opened().context["legend"]
    rows = {row.label: row for row in legend.rows}
    assert list(rows) == ["LVM 64 KiB", "raw"]
    every = [value for depth in (1, 4, 16) for value in stored(lab, lab.stacks[1], "iops", depth)]
    scene = opened().context["scene"]
    told = lines.line_statistics(scene.lines[1], "y")
    last = median(stored(lab, lab.stacks[1], "iops", 16))
    assert told == lines.Statistics(min(every), median(every), max(every), last)
    assert rows["raw"].cells[0] == "9"
    hidden = opened(rows["raw"].toggle_url.partition("&")[2])
    assert [row.visible for row in hidden.context["legend"].rows] == [True, False]
    assert [line.label for line in hidden.context["scene"].visible_lines] == ["LVM 64 KiB"]
    alone = opened(rows["raw"].isolate_url.partition("&")[2])
    assert [line.label for line in alone.context["scene"].visible_lines] == ["raw"]
    # Who is left has the look that it had.
    assert alone.context["scene"].styles == scene.styles
    figure = opened(rows["raw"].isolate_url.partition("&")[2], "explore-figure").json()
    assert {trace.get("name") for trace in figure["data"]} <= {"raw", None}


@pytest.mark.django_db
def test_the_legend_is_sorted_by_its_heads(opened):
    orders = {
        "y.max": ["raw", "LVM 64 KiB"],
        "-y.max": ["LVM 64 KiB", "raw"],
        "-name": ["raw", "LVM 64 KiB"],
    }
    for word, order in orders.items():
        assert [row.label for row in opened(f"sort={word}").context["legend"].rows] == order
    heads = opened("sort=-y.max").context["legend"].heads
    assert [head.sort for head in heads if head.sort] == ["descending"]


@pytest.mark.django_db
def test_a_baseline_is_told_beside_each_line_and_drawn_as_a_ratio(opened, lab):
    base = opened().context["scene"].lines[1]
    rows = opened(f"baseline={base.id}").context["legend"].rows
    one, two = (median(stored(lab, stack, "iops", 16)) for stack in lab.stacks)
    assert [row.cells[-1] for row in rows] == [f"{one / two:.2f}\xa0× at 16", "baseline"]
    figure = opened(f"baseline={base.id}&ratio=1", "explore-figure").json()
    data = figure["data"]
    assert figure["layout"]["yaxis"]["tickformat"] == ".3~f"  # half is no 500 m
    drawn = next(trace for trace in data if trace.get("name") == "LVM 64 KiB")
    assert drawn["y"][-1] == pytest.approx(one / two, rel=SIX_DIGITS)


@pytest.mark.django_db
def test_filters_are_those_of_the_api(opened, web, lab):
    scene = opened("where=oio+<=+4").context["scene"]
    assert {p.at[0].key for line in scene.lines for p in line.points} == {1, 4}
    assert len(opened("where=topology+=+raw").context["scene"].lines) == 1
    assert len(opened("where=param.bs+=+4k&where=repeat+=+1").context["scene"].lines) == 2
    answer = web.get(f"{reverse('explore')}?campaign={lab.campaign.pk}&where=oio")
    assert answer.status_code == 400
    assert "Write a column" in answer.content.decode()
    answer = web.get(f"{reverse('explore')}?campaign={lab.campaign.pk}&where=colour+=+red")
    assert answer.status_code == 400
    text = web.get(
        f"{reverse('explore-csv')}?campaign={lab.campaign.pk}&where=oio+=+4"
    ).getvalue().decode()  # fmt: skip
    assert len(text.splitlines()) == 1 + 6


@pytest.mark.django_db
def test_it_is_saved_as_a_view_and_opened_where_it_was(opened, web, lab):
    asked = "x=iops&y=lat.mean&logx=1&logy=1"
    kept = re.search(r'name="query" value="([^"]*)"', opened(asked).content.decode())[1]
    query = unescape(kept)
    answer = web.post(reverse("view-save"), {"query": query, "name": "Cost", "whose": "team"})
    assert answer["Location"] == f"/explore/?campaign={lab.campaign.pk}&{asked}"
    assert (
        answer["Location"].replace("&", "&amp;") in web.get(reverse("view-list")).content.decode()
    )
    plain = re.search(r'name="query" value="([^"]*)"', opened().content.decode())[1]
    assert plain.endswith("&amp;x=outstanding")


@pytest.mark.django_db
def test_no_link_for_guests_says_that_it_shows_what_their_page_has_not(web, user, lab):
    asked = f"campaign={lab.campaign.pk}&x=iops&y=lat.mean"
    with pytest.raises(ValidationError, match="Guests see comparisons"):
        links.check_target(user, "comparison", None, asked)
    assert links.check_target(user, "comparison", None, f"campaign={lab.campaign.pk}").query
    page = web.get(f"{reverse('explore')}?{asked}").content.decode()
    assert "Save this view" in page
    assert "Share a link" not in page


@pytest.mark.django_db
def test_the_two_tabs_keep_what_was_chosen(opened, lab):
    chosen = f"campaign={lab.campaign.pk}&host={lab.host.pk}&workload={lab.load.pk}"
    assert opened(chosen.partition("&")[2]).context["compare_url"] == f"/compare/?{chosen}"
    back = opened(chosen.partition("&")[2], "compare").context["explore_url"]
    assert back == f"/explore/?{chosen}"


@pytest.mark.django_db
def test_other_teams_see_nothing(other_web, lab):
    for name in ("explore", "explore-figure", "explore-csv"):
        text = other_web.get(reverse(name), {"campaign": lab.campaign.pk})
        body = b"".join(text.streaming_content) if text.streaming else text.content
        assert text.status_code == 200
        assert b"LVM 64 KiB" not in body
        assert lab.campaign.name.encode() not in body


@pytest.mark.django_db
def test_the_reference_library_lies_beside_it(opened, web, lab):
    reference_library.load_library(articles())
    study = Campaign.objects.filter(name__startswith="bcache").get()
    scene = web.get(reverse("explore"), {"campaign": [lab.campaign.pk, study.pk]}).context["scene"]
    assert {line.levels["campaign"].text for line in scene.lines} == {lab.campaign.name, study.name}


@pytest.mark.django_db
def test_it_asks_the_database_little_and_the_same_for_many_runs(
    opened, lab, django_assert_max_num_queries
):
    opened()
    with django_assert_max_num_queries(14):
        opened("where=oio+<=+16&facet=line")
    with django_assert_max_num_queries(7):
        opened("", "explore-figure")
    for n in range(4):
        made.swept(lab.campaign, lab.host, made.topology(lab.team, f"t{n}"), lab.load)
    with django_assert_max_num_queries(14):
        opened("where=oio+<=+16&facet=line")


@pytest.mark.django_db
def test_percentiles_of_runs_are_offered_where_a_tool_told_them(opened, lab):
    presets = {words: url for words, url, _ in opened().context["presets"]}
    assert {"Percentiles", "CDF"} <= set(presets)
    figure = opened(presets["Percentiles"].partition("&")[2], "explore-figure").json()
    trace = next(one for one in figure["data"] if one.get("name") == "raw · outstanding I/Os 16")
    assert trace["x"] == ["p50", "p99", "p99.9"]
    wanted = [median(stored(lab, lab.stacks[1], f"clat.{rank}", 16)) for rank in trace["x"]]
    assert trace["y"] == pytest.approx(wanted, rel=SIX_DIGITS)


@pytest.mark.django_db
def test_a_cdf_of_many_lines_has_a_panel_for_each_layout(opened, lab):
    cdf = "x=clat.ranks&y=percentile"
    assert not opened(cdf).context["scene"].axes.facet
    for n in range(3):
        made.swept(
            lab.campaign, lab.host, made.topology(lab.team, f"t{n}"), lab.load, depths=(1, 4, 16)
        )
    page = opened(cdf)
    assert page.context["scene"].axes.facet == "topology"
    heads = {a["text"] for a in opened(cdf, "explore-figure").json()["layout"]["annotations"]}
    assert {f"<b>{name}</b>" for name in ("LVM 64 KiB", "raw", "t0", "t1", "t2")} <= heads
    one_panel, address = page.context["split"]
    assert one_panel == "One panel"
    assert not opened(address.partition("&")[2]).context["scene"].axes.facet
    few, every = page.context["legend"], opened(f"{cdf}&lines=all").context["legend"]
    assert (len(few.rows), few.line_count) == (12, 15)
    assert (len(every.rows), every.line_count) == (15, 0)
    assert few.rows == tuple(
        replace(row, toggle_url=few.rows[at].toggle_url, isolate_url=few.rows[at].isolate_url)
        for at, row in enumerate(every.rows[:12])
    )


@pytest.mark.django_db
def test_devices_of_two_runs_stand_beside_each_other_on_one_scale(web, lab, other_web):
    one, two = lab.attempts[0], lab.attempts[5]
    made.sampled(two, disks=2, iops=9000.0)
    query = {"run": [one.run_id, two.run_id]}
    figure = web.get(reverse("run-side-figure"), query).json()
    layout = figure["layout"]
    assert layout["yaxis2"]["matches"] == "y"
    assert layout["xaxis2"]["matches"] == "x"
    assert layout["annotations"][0]["text"] == f"<b>Time busy, util</b> % · run {one.run_id}"
    for attempt, panel in ((one, ("x", "y")), (two, ("x2", "y2"))):
        stored = attempt.series.get(device="sdb", metric="util")
        drawn = next(
            t
            for t in figure["data"]
            if (t["xaxis"], t["yaxis"]) == panel and t["legendgroup"] == "sdb"
        )
        assert drawn["x"] == list(stored.times)
        assert drawn["y"] == pytest.approx([100 * one for one in stored.values], rel=1e-4)
    looks = {(t["legendgroup"], t["line"]["color"], t["line"]["dash"]) for t in figure["data"]}
    assert len(looks) == len({name for name, _, _ in looks})
    page = web.get(reverse("run-side"), query)
    row = next(
        r for r in page.context["rows"] if (r.device, r.metric) == ("sdb", "Time busy, util")
    )
    assert row.medians == tuple(
        100 * median(a.series.get(device="sdb", metric="util").values) for a in (one, two)
    )
    assert "beside run" in web.get(reverse("run-side"), {"run": one.run_id}).content.decode()
    for name in ("run-side", "run-side-figure"):
        assert other_web.get(reverse(name), query).status_code == 404
        assert web.get(reverse(name), {"run": list(range(9))}).status_code == 400
        assert web.get(reverse(name), {"run": 10**9}).status_code == 404
        assert web.get(reverse(name), {"run": "x"}).status_code == 400
