"""Explore: lines, points, ratios and looks recomputed by hand; what the page offers, keeps and refuses."""

from __future__ import annotations

import re
from html import unescape
from statistics import median
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.urls import reverse

from benchlab.campaigns.models import Campaign
from benchlab.charts.explore import draw, lines, looks, wish
from benchlab.charts.explore.chart import Chart
from benchlab.charts.explore.wish import Axes
from benchlab.charts.palette import COLOURS
from benchlab.charts.queries import Group, Sample
from benchlab.imports import reference_library
from benchlab.imports.articles import articles
from benchlab.runs.models import Measurement
from benchlab.sharing import links
from tests.charts import made

SIX_DIGITS = 5.1e-6  # what a figure tells of a number
UNITS = {"iops": "op/s", "lat.mean": "s"}


BARE: dict[str, Any] = {
    "campaign": 1,
    "campaign_name": "c",
    "topology": 1,
    "topology_name": "top 1",
    "host": 1,
    "host_name": "h1",
    "workload": 1,
    "workload_name": "w",
    "tool": "fio",
    "rest": "",
    "options": {"rw": "randread", "bs": "4k"},
}


def group(topology: int, values: dict[int, list[tuple[float, float]]], **more) -> Group:
    """`values`: {depth: (op/s, s) of each repeat}."""
    given = BARE | {"topology": topology, "topology_name": f"top {topology}"} | more
    samples = tuple(
        Sample(1000 * topology + 10 * depth + nth, 0, nth, depth, {"iops": a, "lat.mean": b})
        for depth, repeats in values.items()
        for nth, (a, b) in enumerate(repeats, start=1)
    )
    return Group(**given, samples=samples, units=UNITS)


ONE = group(1, {1: [(100.0, 0.01), (120.0, 0.008), (50.0, 0.02)], 4: [(300.0, 0.013)]})
TWO = group(2, {1: [(200.0, 0.005), (300.0, 0.003)]})


def test_a_point_is_the_median_of_its_runs():
    first, second = lines.build([ONE, TWO], Axes("outstanding", "iops", "topology"), UNITS)
    assert [(p.at[0].key, p.y) for p in first.points] == [(1, 100.0), (4, 300.0)]
    assert [(p.at[0].key, p.y) for p in second.points] == [(1, 250.0)]
    assert first.points[0].nearest == 1011
    assert (first.label, second.label) == ("top 1", "top 2")
    told = lines.statistics(first, "y")
    # Over its four runs, not over its two medians.
    assert told == lines.Statistics(50.0, median([100.0, 120.0, 50.0, 300.0]), 300.0, 300.0)


def test_two_metrics_are_drawn_a_point_per_depth():
    [line] = lines.build([ONE], Axes("iops", "lat.mean"), UNITS)
    assert [(p.x, p.y) for p in line.points] == [(100.0, 0.01), (300.0, 0.013)]


def test_a_ratio_is_drawn_only_where_both_have_the_point():
    found = lines.build([ONE, TWO], Axes("outstanding", "iops"), UNITS)
    over = lines.ratio_of(found, found[1])
    assert [[p.y for p in line.points] for line in over] == [[100.0 / 250.0], [1.0]]
    assert over[0].points[0].values == (0.4, 120.0 / 250.0, 0.2)
    assert lines.against(found[0], lines.by_place(found[1])) == (0.4, found[1].points[0].at)
    assert lines.against(found[0], {}) is None


def test_what_is_measured_apart_is_never_one_line():
    """Another workload, host or size of block is another line, whatever the axes are."""
    other = group(1, {1: [(7.0, 1.0)]}, workload=2, workload_name="w2")
    far = group(1, {1: [(8.0, 1.0)]}, host=2, host_name="h2")
    for axes in (Axes("outstanding", "iops"), Axes("iops", "lat.mean", "topology", "host")):
        assert len(lines.build([ONE, other, far], axes, UNITS)) == 3
    # ... unless that is the axis: then it is what a line goes over, a line for each depth.
    over = lines.build([ONE, far], Axes("host", "iops"), UNITS)
    assert [[p.at[0].text for p in line.points] for line in over] == [["h1", "h2"], ["h1"]]


def sized(size: str, *repeats: tuple[float, float]) -> Group:
    options = {"rw": "randread", "bs": size}
    return group(1, {2: list(repeats)}, rest=f"bs {size}", options=options, varied=("bs",))


def test_a_swept_option_is_an_axis_in_the_order_of_its_sizes():
    some = [sized("128k", (3.0, 1.0)), sized("4k", (1.0, 1.0)), sized("64k", (2.0, 1.0))]
    [line] = lines.build(some, Axes("param.bs", "iops"), UNITS)
    assert [p.at[0].text for p in line.points] == ["4 KiB", "64 KiB", "128 KiB"]
    assert [p.at[0].number for p in line.points] == [4096.0, 65536.0, 131072.0]
    assert len(lines.build(some, Axes("outstanding", "iops"), UNITS)) == 3


def test_who_is_shown_beside_a_line_does_not_change_its_id():
    alone = lines.build([ONE], Axes("outstanding", "iops", "topology", "host"), UNITS)
    beside = lines.build([ONE, TWO, sized("64k", (1.0, 1.0))], Axes("iops", "lat.mean"), UNITS)
    assert alone[0].id in {line.id for line in beside}
    assert len({line.id for line in beside}) == 3


def many(count: int, hosts: int = 1):
    some = [
        group(n + 1, {1: [(n, 1.0)], 2: [(n + 1.0, 1.0)]}, host=h, host_name=f"h{h}")
        for h in range(hosts)
        for n in range(count // hosts)
    ]
    axes = Axes("outstanding", "iops", "topology", "host")
    return lines.build(some, axes, UNITS), axes


def test_ten_lines_have_ten_looks_and_fifty_have_fifty():
    for count, hosts in ((10, 1), (10, 2), (50, 1), (50, 5), (300, 1)):
        found, axes = many(count, hosts)
        assert len(found) == count
        assert len(set(looks.styles(found, axes).values())) == count


def test_the_colour_is_the_topology_and_the_dash_the_host():
    found, axes = many(12, 2)
    styles = looks.styles(found, axes)
    for part, name, size in (("topology", "colour", 6), ("host", "dash", 2)):
        pairs = {(line.levels[part].key, getattr(styles[line.id], name)) for line in found}
        assert len(pairs) == size == len({look for _, look in pairs})
    assert [styles[line.id].colour for line in found[::2]] == list(COLOURS[:6])


def chart(found, axes, **more) -> Chart:
    x, y = (None if n == "outstanding" else lines.quantity(n, UNITS) for n in (axes.x, axes.y))
    return Chart("t", axes, found, looks.styles(found, axes), x, y, **more)


def test_small_multiples_share_one_scale_and_a_grey_crowd():
    found, _ = many(50)
    axes = Axes("outstanding", "iops", "topology", "host", "", wish.EACH)
    figure = draw.build(chart(found, axes))
    layout = figure["layout"]
    panels = [name for name in layout if name.startswith("xaxis")]
    assert len(panels) == 50
    assert all(layout[n].get("matches") == n[0] for n in layout if re.fullmatch(r"[xy]axis\d+", n))
    grey = [trace for trace in figure["data"] if trace["line"]["color"] == draw.CROWD]
    assert len(grey) == 50
    assert [v for v in grey[0]["y"] if v is not None].__len__() == 49 * 2
    coloured = [trace for trace in figure["data"] if trace["line"]["color"] in COLOURS]
    assert [trace["y"] for trace in coloured] == [[n, n + 1.0] for n in range(50)]
    rights = [layout[name]["domain"][1] for name in panels[:3]]
    assert all(end < layout[n]["domain"][0] for end, n in zip(rights, panels[1:4], strict=True))


def test_all_lines_are_told_at_one_depth_in_the_order_of_their_values():
    layout = draw.build(chart([], Axes("outstanding", "iops")))["layout"]
    assert "No run here measured IOPS" in layout["annotations"][0]["text"]
    found, axes = many(3)
    layout = draw.build(chart(found, axes))["layout"]
    assert (layout["hovermode"], layout["hoversort"]) == ("x unified", "value descending")


def test_a_metric_by_two_parameters_is_a_heat_map():
    some = [sized("4k", (10.0, 1.0), (30.0, 1.0), (11.0, 1.0)), sized("64k", (2.0, 1.0))]
    axes = Axes("outstanding", "param.bs", "iops")
    found = lines.build(some, axes, UNITS)
    iops = lines.quantity("iops", UNITS)
    figure = draw.build(Chart("t", axes, found, looks.styles(found, axes), None, None, iops))
    [panel] = figure["data"]
    assert panel["type"] == "heatmap"
    assert (panel["x"], panel["y"], panel["z"]) == (["2"], ["4 KiB", "64 KiB"], [[11.0], [2.0]])


def test_percentiles_are_drawn_as_told_and_their_cdf_is_the_same_turned():
    units = dict.fromkeys(["clat.p50", "clat.p99.9", "read.clat.p90", "clat.mean"], "s")
    values = {"clat.p50": 0.001, "clat.p99.9": 0.02, "read.clat.p90": 0.005, "read.iops": 5.0}
    some = [Group(**{**BARE, "samples": tuple(
        Sample(n, 0, n, 4, {name: v * n for name, v in values.items()}) for n in (1, 2, 3)
    )})]  # fmt: skip
    [line] = lines.build(some, Axes("percentile", "clat.ranks"), units)
    # 90 is of the reads alone, and reads are all there was.
    assert [(p.at[0].text, p.y) for p in line.points] == [("p50", 0.002), ("p90", 0.01), ("p99.9", 0.04)]  # fmt: skip
    [turned] = lines.build(some, Axes("clat.ranks", "percentile"), units)
    assert [(p.x, p.at[0].text) for p in turned.points] == [(p.y, p.at[0].text) for p in line.points]  # fmt: skip
    asked = lines.needed(Axes("percentile", "clat.ranks"), units)
    assert asked >= {"clat.p50", "read.clat.p90", "clat.p99.9", "write.iops"}
    assert line.runs == 3
    assert lines.offered_ranks(units) == ["clat.ranks", "read.clat.ranks"]
    assert lines.build([ONE], Axes("percentile", "clat.ranks"), UNITS) == []


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
    found = wish.read(QueryDict(asked))
    kept = found.query()
    assert kept == (
        "x=outstanding&y=iops&where=oio+%3C%3D+4&logx=1&logy=0&ratio=1&hide=aaaaaaaaaa&hide=bbbbbbbbbb"
    )
    assert wish.read(QueryDict(kept)) == found
    assert wish.is_asked(QueryDict(kept))
    assert not wish.is_asked(QueryDict("campaign=1&stage=built"))


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
    told = lines.statistics(scene.lines[1], "y")
    last = median(stored(lab, lab.stacks[1], "iops", 16))
    assert told == lines.Statistics(min(every), median(every), max(every), last)
    assert rows["raw"].cells[0] == "9"
    hidden = opened(rows["raw"].toggle.partition("&")[2])
    assert [row.shown for row in hidden.context["legend"].rows] == [True, False]
    assert [line.label for line in hidden.context["scene"].shown] == ["LVM 64 KiB"]
    alone = opened(rows["raw"].alone.partition("&")[2])
    assert [line.label for line in alone.context["scene"].shown] == ["raw"]
    # Who is left has the look that it had.
    assert alone.context["scene"].styles == scene.styles
    figure = opened(rows["raw"].alone.partition("&")[2], "explore-figure").json()
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
    assert [row.cells[-1] for row in rows] == [f"{one / two:.3g}\xa0× at 16", "baseline"]
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
        links.wish(user, "comparison", None, asked)
    assert links.wish(user, "comparison", None, f"campaign={lab.campaign.pk}").query
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
    reference_library.load(articles())
    study = Campaign.objects.filter(name__startswith="bcache").get()
    scene = web.get(reverse("explore"), {"campaign": [lab.campaign.pk, study.pk]}).context["scene"]
    assert {line.text("campaign") for line in scene.lines} == {lab.campaign.name, study.name}


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
